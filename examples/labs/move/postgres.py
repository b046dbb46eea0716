"""Throw-away PostgreSQL servers for the lab."""
import glob
import os
import pathlib
import pwd
import re
import shutil
import socket
import subprocess
import sys


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def binaries():
    """The directory with initdb: VARVE_TEST_PGBIN, the newest of Debian's, or PATH."""
    if os.environ.get("VARVE_TEST_PGBIN"):
        return os.environ["VARVE_TEST_PGBIN"]
    found = glob.glob("/usr/lib/postgresql/*/bin/initdb")
    if found:
        return os.path.dirname(max(found, key=lambda p: int(re.search(r"postgresql/(\d+)", p)[1])))
    path = shutil.which("initdb")
    if not path:
        sys.exit("PostgreSQL's initdb is not here: run tools/prerequisites.sh or set VARVE_TEST_PGBIN")
    return os.path.dirname(os.path.realpath(path))


class Postgres:
    """One server, with the settings that a move needs and fsync on."""

    def __init__(self, name, parent):
        self.name, self.dir, self.port, self.bin = name, pathlib.Path(parent) / name, free_port(), binaries()
        self.dsn = f"postgres://postgres@127.0.0.1:{self.port}/chat?sslmode=disable"
        self.dir.mkdir(parents=True)
        # PostgreSQL refuses to run as root.
        self.user = "postgres" if os.getuid() == 0 else None
        if self.user:
            shutil.chown(self.dir, self.user)
        self.run("initdb", "-D", self.dir / "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C")
        with open(self.dir / "data" / "postgresql.conf", "a") as f:
            f.write("listen_addresses = '127.0.0.1'\nunix_socket_directories = ''\nwal_level = logical\n"
                    "max_wal_senders = 16\nmax_replication_slots = 16\nmax_connections = 200\nshared_buffers = 1GB\n"
                    "max_wal_size = 4GB\ncheckpoint_timeout = 15min\nmaintenance_work_mem = 256MB\n"
                    "track_commit_timestamp = on\n")
        self.run("pg_ctl", "-D", self.dir / "data", "-w", "-t", "120", "-l", self.dir / "log", "-o", f"-p {self.port}", "start")
        self.sql("CREATE DATABASE chat", database="postgres")

    def run(self, tool, *args):
        kwargs = {}
        if self.user:
            who = pwd.getpwnam(self.user)
            kwargs = {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []}
        subprocess.run([f"{self.bin}/{tool}", *map(str, args)], check=True, stdout=subprocess.DEVNULL, cwd=self.dir, **kwargs)

    def sql(self, statement, database="chat"):
        p = subprocess.run([f"{self.bin}/psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d",
                            self.dsn.replace("/chat?", f"/{database}?"), "-f", "-"],
                           input=statement, capture_output=True, text=True)
        if p.returncode:
            sys.exit(f"{self.name}: {p.stderr.strip()}")
        return p.stdout.strip()

    def stop(self):
        subprocess.run([f"{self.bin}/pg_ctl", "-D", str(self.dir / "data"), "-m", "immediate", "stop"],
                       stdout=subprocess.DEVNULL, user=self.user if self.user else None)


def fill(db, rows, rooms):
    """Puts rows messages into the table of the chat server, the longest room first; the same for the same numbers."""
    lengths = [max(1, int(rows / 142 / (room ** 0.58))) for room in range(1, rooms + 1)]
    short = rows - sum(lengths)
    step = 1 if short > 0 else -1
    at = 0
    while short:
        if lengths[at] + step > 0:
            lengths[at] += step
            short -= step
        at = (at + 1) % rooms
    values = ",".join(f"({room},{n})" for room, n in enumerate(lengths, 1))
    db.sql(f"""
        INSERT INTO messages (id, room_id, seq, sender_id, client_msg_id, body, created_at, read_at, edited_at, deleted_at)
        SELECT md5(room || '/' || seq)::uuid, room, seq, room * 2 + seq % 2, md5('c' || room || '/' || seq)::uuid,
               repeat(md5(seq || 'b' || room), 2) || substr(md5(room || 'l' || seq), 1, (seq % 30)::int),
               at, at + interval '40 s', CASE WHEN seq % 97 = 0 THEN at + interval '90 s' END,
               CASE WHEN seq % 211 = 0 THEN at + interval '95 s' END
        FROM (SELECT room::bigint, seq::bigint,
                     timestamptz '2026-09-01 00:00Z' + (room % 1000) * interval '1 s' + seq * interval '97 s' AS at
              FROM (VALUES {values}) AS r(room, n), generate_series(1, n) AS seq) AS m;
        VACUUM ANALYZE messages;""")
