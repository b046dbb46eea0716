#!/usr/bin/env python3
"""Measures Varve beside a real Cassandra in one run on one machine and writes
the table into docs/performance.md (between its markers).

    bench/peers.py --varve bin/varve --cassandra PATH/TO/cassandra.sh [--scale 1.0]

cassandra.sh is any script with `--dir D --first IP [--set K=V] start` and
`stop` that leaves the server's pid in D/node1/pid and CQL on IP:9042. The same
client (varve bench) drives both over protocol 4 with two connections; it shares
the machine's cores, so server CPU a request is the judge, not requests a second.
"""
import argparse
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time

TICK = os.sysconf("SC_CLK_TCK")
BEGIN, END = "<!-- peers:begin -->", "<!-- peers:end -->"
# Operations to time and, before them, to warm up with: a JVM needs many of each before its code is compiled.
OPS = [("insert", 500_000, 250_000), ("read", 200_000, 100_000), ("page", 60_000, 40_000), ("mixed", 60_000, 20_000), ("delete", 200_000, 60_000)]
RATES = {"insert": 6000, "read": 2500, "page": 1500, "delete": 6000}


def cpu_seconds(pid):
    f = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(f[11]) + int(f[12])) / TICK


def rss_mb(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) / 1024


class Varve:
    name = "Varve"

    def __init__(self, a, work, periodic):
        self.a, self.data, self.addr = a, work / "varve", "127.0.0.1:39042"
        args = [a.varve, "serve", "--data", str(self.data), "--cql", self.addr, "--http", ""]
        if periodic:
            args += ["--set", "durability=periodic"]
        self.log = open(work / "varve.log", "w")
        t = time.time()
        self.p = subprocess.Popen(args, stderr=self.log)
        while "msg=ready" not in (work / "varve.log").read_text():
            time.sleep(0.01)
        self.ready, self.pid = time.time() - t, self.p.pid

    def flush(self):
        subprocess.run([self.a.varve, "nodetool", "--data", str(self.data), "flush", "bench"], check=True)

    def stop(self):
        self.p.terminate()
        self.p.wait()


class Cassandra:
    name = "Cassandra"

    def __init__(self, a, work, periodic):
        self.a, self.dir, self.addr = a, work / "cassandra", "127.0.0.81:9042"
        self.cmd = [a.cassandra, "--dir", str(self.dir), "--first", "127.0.0.81"]
        mode = [] if periodic else ["--set", "commitlog_sync=batch", "--set", "commitlog_sync_period=0ms"]
        t = time.time()
        subprocess.run(self.cmd + mode + ["start"], check=True, stdout=subprocess.DEVNULL)
        self.ready, self.pid = time.time() - t, int((self.dir / "node1/pid").read_text())

    def flush(self):
        subprocess.run(self.cmd + ["nodetool", "flush", "bench"], check=True, stdout=subprocess.DEVNULL)

    def stop(self):
        subprocess.run(self.cmd + ["stop"], check=True, stdout=subprocess.DEVNULL)


def bench(a, server, op, n, warm, *more):
    before = cpu_seconds(server.pid)
    out = subprocess.run([a.varve, "bench", "--json", "--host", server.addr, "--op", op, "--n", str(n),
                          "--warm", str(warm), "--rows", str(a.rows), *more], capture_output=True, text=True)
    if out.returncode not in (0, 1) or not out.stdout:
        sys.exit(f"varve bench {op} against {server.name}: {out.stderr}")
    r = json.loads(out.stdout)
    r["CPU"] = (cpu_seconds(server.pid) - before) / (n + warm) * 1e6
    print(f"  {server.name:9} {op:6} {r['PerSecond']:9.0f}/s  p50 {r['P50']/1e3:7.2f} ms  p99 {r['P99']/1e3:7.2f} ms"
          f"  server CPU {r['CPU']:6.1f} us a request  errors {r['Errors']} {r.get('FirstError', '')}", flush=True)
    return r


def run(a, cls, periodic):
    work = pathlib.Path(tempfile.mkdtemp(prefix="varve-peers-", dir=a.work))
    try:
        s = cls(a, work, periodic)
        res = {"ready": s.ready, "rss empty": rss_mb(s.pid)}
        subprocess.run([a.varve, "bench", "--schema", "--host", s.addr], check=True)
        for op, n, warm in OPS:
            n = max(1000, int(n * a.scale))
            if op == "insert":
                n = a.rows  # all rows, so that reads find them
            if op == "read":
                s.flush()
            res[op] = bench(a, s, op, n, warm)
            if op in RATES:
                rate = RATES[op]
                res[op + " paced"] = bench(a, s, op, int(rate * 10 * max(a.scale, 0.3)), 0, "--rate", str(rate), "--in-flight", "256",
                                           "--check=false")
        res["rss"] = rss_mb(s.pid)
        s.stop()
        return res
    finally:
        shutil.rmtree(work, ignore_errors=True)


def table(mode, v, c):
    lines = [f"### {mode}", "",
             "| | Varve | Cassandra | Varve / Cassandra |", "| --- | --- | --- | --- |",
             f"| start to ready | {v['ready']:.2f} s | {c['ready']:.1f} s | |",
             f"| resident memory after the run | {v['rss']:.0f} MB | {c['rss']:.0f} MB | {v['rss']/c['rss']:.2f} |"]
    for op, _, _ in OPS:
        lines.append(f"| {op}, server CPU a request | {v[op]['CPU']:.1f} µs | {c[op]['CPU']:.1f} µs | {v[op]['CPU']/c[op]['CPU']:.2f} |")
    for op, _, _ in OPS:
        lines.append(f"| {op}, 64 in flight | {v[op]['PerSecond']:,.0f}/s, p99 {v[op]['P99']/1e3:.1f} ms "
                     f"| {c[op]['PerSecond']:,.0f}/s, p99 {c[op]['P99']/1e3:.1f} ms | {v[op]['PerSecond']/c[op]['PerSecond']:.2f} × |")
    for op, rate in RATES.items():
        vp, cp = v[op + " paced"], c[op + " paced"]
        lines.append(f"| {op} at {rate:,}/s, open loop | p50 {vp['P50']/1e3:.2f}, p99 {vp['P99']/1e3:.2f} ms "
                     f"| p50 {cp['P50']/1e3:.2f}, p99 {cp['P99']/1e3:.2f} ms | p99 {vp['P99']/max(cp['P99'], 1):.2f} |")
    return "\n".join(lines) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--varve", required=True)
    p.add_argument("--cassandra", required=True, help="the script that starts a Cassandra")
    p.add_argument("--scale", type=float, default=1.0, help="share of the operations to run")
    p.add_argument("--rows", type=int, default=500_000)
    p.add_argument("--modes", default="durable,periodic")
    p.add_argument("--work", help="where data goes (default: the temporary directory)")
    p.add_argument("--out", type=pathlib.Path, help="file with the markers to write the tables into")
    a = p.parse_args()
    a.varve, a.cassandra = os.path.abspath(a.varve), os.path.abspath(a.cassandra)
    text = []
    for mode in a.modes.split(","):
        print(mode, flush=True)
        v = run(a, Varve, mode == "periodic")
        c = run(a, Cassandra, mode == "periodic")
        title = {"durable": "Durable (Cassandra: commitlog_sync batch)", "periodic": "Periodic (both sync every 10 s)"}[mode]
        text.append(table(title, v, c))
    cpu = next((l.split(":", 1)[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.machine())
    head = (f"Measured {time.strftime('%Y-%m-%d')} on {os.cpu_count()} cores ({cpu}), {a.rows:,} rows over 1,000 partitions, "
            f"body 80 bytes, 64 requests in flight over 2 connections, client on the same cores.\n\n")
    out = head + "\n".join(text)
    print(out)
    if a.out:
        doc = a.out.read_text()
        pre, post = doc.split(BEGIN)[0], doc.split(END)[1]
        a.out.write_text(f"{pre}{BEGIN}\n\n{out}\n{END}{post}")


if __name__ == "__main__":
    main()
