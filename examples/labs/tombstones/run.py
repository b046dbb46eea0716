#!/usr/bin/env python3
"""Runs the tombstone lab on Varve and prints a table beside the figures that
the report gives for Apache Cassandra 5.0.9.

    run.py --varve ../../../bin/varve --cqlsh cqlsh            # whole size, about 10 minutes
    run.py --varve … --cqlsh … --big 60000 --small 100 --counted both

Every statement goes through cqlsh unchanged. The lab is played with
tombstones_counted: walked (Varve's default) and with all (Cassandra's
numbers and errors). Exit status 1 when an expectation does not hold.
"""
import argparse
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

import gen

HERE = pathlib.Path(__file__).resolve().parent
RANGE = ("SELECT sent_at, message_id FROM chat.messages_by_channel WHERE channel_id = 1 "
         "AND sent_at >= '2026-09-01 22:00' AND sent_at < '2026-09-02 02:00' ORDER BY sent_at ASC LIMIT 50;")
OLDEST = "SELECT sent_at, message_id FROM chat.messages_by_channel WHERE channel_id = 1 ORDER BY sent_at ASC LIMIT 50;"
DAY = "SELECT sent_at, message_id FROM chat.messages_by_channel_day WHERE channel_id = 1 AND day = '2026-09-01' LIMIT 50;"


class Lab:
    def __init__(self, args, counted):
        self.a, self.counted = args, counted
        self.failed = []
        self.table = []

    def row(self, step, report, here):
        self.table.append((step, report, here))
        print(f"  {step}: {here}", flush=True)

    def expect(self, ok, what):
        if not ok:
            self.failed.append(what)
            print(f"  FAILED: {what}", flush=True)

    # The server.
    def start(self, data):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.data, self.log = data, open(data.parent / f"server-{self.counted}.log", "w")
        t = time.time()
        self.server = subprocess.Popen(
            [self.a.varve, "serve", "--data", data, "--cql", f"127.0.0.1:{self.port}", "--http", "",
             "--set", f"tombstone_failure_threshold={self.fail_at}", "--set", f"tombstone_warn_threshold={self.warn_at}",
             "--set", f"tombstones_counted={self.counted}"],
            stderr=self.log, stdout=self.log)
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return time.time() - t
            except OSError:
                if self.server.poll() is not None or time.time() - t > 30:
                    sys.exit(f"the server did not start; see {self.log.name}")
                time.sleep(0.005)

    def stop(self):
        self.server.send_signal(signal.SIGTERM)
        self.server.wait(30)

    def rss_mb(self):
        text = pathlib.Path(f"/proc/{self.server.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024

    def cqlsh(self, *args, check=True):
        env = dict(os.environ, TZ="UTC", CQLSH_HISTORY="")
        t = time.time()
        p = subprocess.run([self.a.cqlsh, "127.0.0.1", str(self.port), "--request-timeout=120", *args],
                           capture_output=True, text=True, env=env)
        if check and p.returncode != 0:
            sys.exit(f"cqlsh {args} failed: {p.stdout[-2000:]} {p.stderr[-2000:]}")
        return p.stdout + p.stderr, time.time() - t

    def nodetool(self, *args):
        p = subprocess.run([self.a.varve, "nodetool", "--data", self.data, *args], capture_output=True, text=True)
        self.expect(p.returncode == 0, f"nodetool {' '.join(args)}: {p.stderr.strip()}")
        return p.stdout

    def traced(self, query):
        """Runs a query as the report does; returns its output and the trace's microseconds by activity."""
        out, _ = self.cqlsh("-e", f"PAGING OFF; TRACING ON; {query}", check=False)
        events = {}
        for line in out.splitlines():
            parts = [p.strip() for p in line.split("|")]
            if len(parts) >= 4 and parts[3].isdigit():
                events[re.sub(r" \[[^]]*\]$", "", parts[0])] = int(parts[3])
        return out, events

    def read(self, query, want_rows):
        """The median of 5 traced runs in ms, the rows and tombstones as the trace tells them."""
        times, summary = [], ""
        for _ in range(5):
            out, events = self.traced(query)
            done = events.get("Request complete")
            if done is None:
                return out, None, ""
            times.append(done / 1000)
            summary = next((e for e in events if "walked" in e), next((e for e in events if e.startswith("Read ")), ""))
        self.expect(f"({want_rows} rows)" in out, f"{query} returns {want_rows} rows")
        return out, sorted(times)[2], summary

    def scale(self):
        """Thresholds keep their place between the two reads' tombstones at any size."""
        day = sum(1 for ms, _, _ in gen.rows(1, self.a.big) if ms < gen.DAY_MS)
        self.in_range = sum(1 for ms, _, _ in gen.rows(1, self.a.big) if 22 * 3_600_000 <= ms < gen.DAY_MS)
        self.day = day
        self.warn_at = 1000 if self.in_range > 1000 else max(1, self.in_range // 3)
        self.fail_at = 20_000 if day > 20_000 else max(2, day * 3 // 5)

    def play(self, work):
        self.scale()
        files = work / "gen"
        total, _ = gen.write(files, self.a.big, self.a.small, 100)
        ready = self.start(work / f"data-{self.counted}")
        self.row("start to ready, empty store", "20 s and more (JVM)", f"{ready:.2f} s")
        try:
            self.steps(files, total)
        finally:
            self.stop()

    def steps(self, files, total):
        self.cqlsh("-f", str(HERE / "schema.cql"))
        for table, columns, was in (("by_channel", "channel_id, sent_at, message_id, body", "22.1 s"),
                                    ("by_channel_day", "channel_id, day, sent_at, message_id, body", "25.0 s")):
            out, took = self.cqlsh("-e", f"COPY chat.messages_{table} ({columns}) FROM '{files}/{table}.csv' "
                                         "WITH NUMPROCESSES = 2 AND INGESTRATE = 50000")
            self.expect(f"{total} rows imported" in out and "(0 skipped)" in out, f"COPY {table}: {out[-300:]}")
            self.row(f"COPY {total:,} rows, {table}", was, f"{took:.1f} s")
        for cmd in ("flush", "compact"):
            t = time.time()
            self.nodetool(cmd, "chat")
            self.row(f"nodetool {cmd} chat", "works", f"{time.time() - t:.1f} s")
        self.expect("UN" in self.nodetool("status"), "nodetool status shows UN")
        _, base, summary = self.read(RANGE, 50)
        self.row("22:00-02:00 ascending LIMIT 50, before the deletes", "0 tombstones, 9 ms", f"{base:.1f} ms; {summary}")
        _, oldest_base, _ = self.read(OLDEST, 50)
        _, took = self.cqlsh("-f", str(files / "delete_day1.cql"))
        self.row(f"cqlsh -f with {self.day:,} DELETEs", "78.4 s", f"{took:.1f} s")
        time.sleep(1)
        self.after_deletes("after the deletes", base, oldest_base, compacted=False)
        self.day_table()
        self.nodetool("flush", "chat")
        self.nodetool("compact", "chat")
        self.after_deletes("after compaction, within gc_grace", base, oldest_base, compacted=True)
        self.cqlsh("-e", "ALTER TABLE chat.messages_by_channel WITH gc_grace_seconds = 0;")
        self.nodetool("compact", "chat")
        out, ms, summary = self.read(OLDEST, 50)
        self.expect(ms is not None and re.search(r"\b0 tombstones walked, 0 jumped", summary), f"gc_grace 0 and compact leave no tombstone: {summary}")
        self.row("oldest 50, gc_grace 0 and compacted", "0 tombstones", f"{ms or 0:.1f} ms; {summary}")
        self.row("server's resident memory", "2.6 GB (2 GB heap)", f"{self.rss_mb():.0f} MB")
        size = sum(f.stat().st_size for f in self.data.rglob("*") if f.is_file() and "snapshots" not in f.parts)
        self.row("store on disk", "", f"{size / 1e6:.0f} MB")

    def after_deletes(self, when, base, oldest_base, compacted):
        out, ms, summary = self.read(RANGE, 50)
        warned = re.search(r"Read 50 live rows and (\d+) tombstone cells for query SELECT \* FROM chat\.messages_by_channel", out)
        if self.counted == "all":
            self.expect(warned and int(warned[1]) == self.in_range, f"{when}: the warning counts {self.in_range}: {warned and warned[0]}")
        else:
            self.expect(not warned, f"{when}: no warning, since nothing was walked")
        self.row(f"the same, {when}", "2,778 tombstones, warning, 36-42 ms", f"{ms or 0:.1f} ms; {summary}" + ("; warning" if warned else ""))
        out, ms, summary = self.read(OLDEST, 50) if self.counted != "all" else (self.traced(OLDEST)[0], None, "")
        if self.counted == "all":
            self.expect("ReadFailure" in out and "READ_TOO_MANY_TOMBSTONES" in out and "0x0001" in out,
                        f"{when}: the oldest 50 fail as in Cassandra: {out[-400:]}")
            self.row(f"oldest 50, {when}", f"READ_TOO_MANY_TOMBSTONES at 20,001", "ReadFailure, READ_TOO_MANY_TOMBSTONES")
            self.log.flush()
            log = pathlib.Path(self.log.name).read_text()
            self.expect(f"Scanned over {self.fail_at + 1} tombstones during query" in log, "the log names the aborted query")
        else:
            self.row(f"oldest 50, {when} (before: {oldest_base:.1f} ms)", "READ_TOO_MANY_TOMBSTONES at 20,001", f"{ms or 0:.1f} ms; {summary}")

    def day_table(self):
        self.cqlsh("-e", "DELETE FROM chat.messages_by_channel_day WHERE channel_id = 1 AND day = '2026-09-01';")
        out, ms, summary = self.read(DAY, 0)
        self.expect(ms is not None, f"the deleted day can be read: {out[-300:]}")
        self.row("day table, partition deleted", "0 tombstones, 2 ms", f"{ms or 0:.1f} ms; {summary}")

    def report(self):
        width = max(len(r[0]) for r in self.table)
        print(f"\n## Lab 0, tombstones_counted: {self.counted}, {self.a.big:,} + 100 x {self.a.small:,} rows\n")
        print(f"| {'step':<{width}} | Cassandra 5.0.9 in the report | Varve, measured now |")
        print(f"| {'-' * width} | --- | --- |")
        for step, was, now in self.table:
            print(f"| {step:<{width}} | {was} | {now} |")
        print(flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--varve", required=True, help="the varve program")
    p.add_argument("--cqlsh", default="cqlsh", help="the cqlsh program")
    p.add_argument("--big", type=int, default=1_000_000, help="rows of channel 1")
    p.add_argument("--small", type=int, default=1_000, help="rows of each other channel")
    p.add_argument("--counted", choices=["walked", "all", "both"], default="both")
    p.add_argument("--work", type=pathlib.Path, help="where to keep data and logs (default: a temporary directory)")
    a = p.parse_args()
    a.varve = os.path.abspath(a.varve)
    failed, passed = 0, 0
    with tempfile.TemporaryDirectory(prefix="varve-lab0-") as tmp:
        work = a.work or pathlib.Path(tmp)
        work.mkdir(parents=True, exist_ok=True)
        for counted in ["walked", "all"] if a.counted == "both" else [a.counted]:
            print(f"tombstones_counted: {counted}", flush=True)
            lab = Lab(a, counted)
            lab.play(work)
            lab.report()
            failed += bool(lab.failed)
            passed += not lab.failed
            for f in lab.failed:
                print("expectation missed:", f)
    print(f"lab0: {passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
