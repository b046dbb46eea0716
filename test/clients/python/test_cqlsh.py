"""cqlsh itself, as a user types it: DESCRIBE, COPY, TRACING, PAGING, SOURCE,
CONSISTENCY. The same tests pass on Cassandra."""
import csv
import os
import subprocess
import uuid

import pytest

from conftest import connect, split

CQLSH = os.environ.get("CQLSH", "cqlsh")


def cqlsh(addr, text, check=True, args=()):
    host, port = split(addr)
    p = subprocess.run(
        [CQLSH, host, str(port), "--request-timeout=60", *args],
        input=text + "\n", capture_output=True, text=True, timeout=120,
        env=dict(os.environ, TZ="UTC"),
    )
    out = "\n".join(l for l in (p.stdout + p.stderr).splitlines() if "was built against" not in l)
    if check:
        assert p.returncode == 0 and "Traceback" not in out, out
    return out


@pytest.fixture
def ks(addr):
    name = "sh_" + uuid.uuid4().hex[:12]
    cqlsh(addr, f"CREATE KEYSPACE {name} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};")
    yield name
    cqlsh(addr, f"DROP KEYSPACE {name};")


def test_describe(addr, ks):
    cqlsh(addr, f"""
        CREATE TYPE {ks}.address (street text, zip int);
        CREATE TABLE {ks}.people (id uuid, at timestamp, name text static, home frozen<address>, tags map<text, int>,
            PRIMARY KEY ((id), at)) WITH CLUSTERING ORDER BY (at DESC) AND comment = 'it''s' AND gc_grace_seconds = 100;
        CREATE INDEX by_name ON {ks}.people (name);
    """)
    out = cqlsh(addr, f"DESCRIBE KEYSPACE {ks};")
    for want in (f"CREATE KEYSPACE {ks} WITH replication = ", f"CREATE TYPE {ks}.address (", "    zip int",
                 f"CREATE TABLE {ks}.people (", "    name text static", "    home frozen<address>",
                 "PRIMARY KEY (id, at)", ") WITH CLUSTERING ORDER BY (at DESC)", "comment = 'it''s'",
                 "gc_grace_seconds = 100", f"CREATE INDEX by_name ON {ks}.people (name);"):
        assert want in out, (want, out)
    assert "people" in cqlsh(addr, f"USE {ks}; DESCRIBE TABLES;")
    assert "by_name" in cqlsh(addr, f"DESCRIBE INDEX {ks}.by_name;")
    assert "address" in cqlsh(addr, f"DESCRIBE TYPE {ks}.address;")
    assert ks in cqlsh(addr, "DESCRIBE KEYSPACES;")
    assert "Partitioner" in cqlsh(addr, "DESCRIBE CLUSTER;")
    assert f"CREATE TABLE {ks}.people" in cqlsh(addr, "DESCRIBE SCHEMA;")
    assert "system_schema" in cqlsh(addr, "DESCRIBE FULL SCHEMA;")


def test_described_schema_can_be_replayed(addr, ks):
    cqlsh(addr, f"""CREATE TABLE {ks}.a (k int, c text, "Mixed" set<frozen<tuple<int, text>>>, PRIMARY KEY (k, c));
        CREATE INDEX ON {ks}.a (values("Mixed"));""")
    text = cqlsh(addr, f"DESCRIBE TABLE {ks}.a;")
    cqlsh(addr, f"DROP TABLE {ks}.a;")
    cqlsh(addr, text)
    assert cqlsh(addr, f"DESCRIBE TABLE {ks}.a;") == text


def test_copy_to_and_from(addr, ks, tmp_path):
    cqlsh(addr, f"CREATE TABLE {ks}.m (k int, c timestamp, v text, s set<int>, PRIMARY KEY (k, c));")
    rows = [[str(k), f"2026-09-{c + 1:02d} 22:00:00.123+0000", f'va"l,{k} {c}', "{1, 2}"] for k in range(20) for c in range(20)]
    with open(tmp_path / "in.csv", "w", newline="") as f:
        csv.writer(f, escapechar="\\", doublequote=False).writerows(rows)
    out = cqlsh(addr, f"COPY {ks}.m (k, c, v, s) FROM '{tmp_path}/in.csv' WITH NUMPROCESSES = 1;")
    assert "400 rows imported" in out and "(0 skipped)" in out
    out = cqlsh(addr, f"COPY {ks}.m TO '{tmp_path}/out.csv' WITH NUMPROCESSES = 1 AND HEADER = TRUE;")
    assert "400 rows exported" in out
    cqlsh(addr, f"TRUNCATE {ks}.m;")
    assert "(0 rows)" in cqlsh(addr, f"SELECT * FROM {ks}.m;")
    out = cqlsh(addr, f"COPY {ks}.m FROM '{tmp_path}/out.csv' WITH NUMPROCESSES = 1 AND HEADER = TRUE;")
    assert "400 rows imported" in out
    assert "(1 rows)" in cqlsh(addr, f"SELECT v FROM {ks}.m WHERE k = 3 AND c = '2026-09-05 22:00:00.123+0000';")


def test_tracing_paging_consistency_source(addr, ks, tmp_path):
    cqlsh(addr, f"CREATE TABLE {ks}.t (k int, c int, PRIMARY KEY (k, c));")
    (tmp_path / "load.cql").write_text("".join(f"INSERT INTO {ks}.t (k, c) VALUES (1, {c});\n" for c in range(150)))
    cqlsh(addr, f"SOURCE '{tmp_path}/load.cql'")
    out = cqlsh(addr, f"TRACING ON; PAGING OFF; SELECT c FROM {ks}.t WHERE k = 1 LIMIT 120;")
    assert "(120 rows)" in out and "Tracing session" in out and "Request complete" in out and "Execute CQL3 query" in out
    out = cqlsh(addr, f"PAGING 40; SELECT c FROM {ks}.t WHERE k = 1;")
    assert "(150 rows)" in out or "---MORE---" in out
    out = cqlsh(addr, f"CONSISTENCY LOCAL_QUORUM; SERIAL CONSISTENCY LOCAL_SERIAL; SELECT c FROM {ks}.t WHERE k = 1 LIMIT 1;")
    assert "(1 rows)" in out
    out = cqlsh(addr, f"EXPAND ON; SELECT * FROM {ks}.t LIMIT 1;")
    assert "@ Row 1" in out


def test_errors_and_warnings_are_shown(addr, ks):
    assert "SyntaxException" in cqlsh(addr, "SELEC 1;", check=False)
    assert "InvalidRequest" in cqlsh(addr, f"SELECT * FROM {ks}.nope;", check=False)
    out = cqlsh(addr, f"CREATE TABLE {ks}.w (k int PRIMARY KEY); SELECT count(*) FROM {ks}.w;")
    assert "Aggregation query used without partition key" in out


def test_json_and_functions(addr, ks):
    cqlsh(addr, f"CREATE TABLE {ks}.j (k int PRIMARY KEY, v map<text, int>, at timestamp);")
    out = cqlsh(addr, f"""INSERT INTO {ks}.j JSON '{{"k": 1, "v": {{"a": 2}}, "at": "2026-09-01 22:00:00.000Z"}}';
        SELECT JSON * FROM {ks}.j; SELECT count(*), max(k), avg(k), cast(k AS text) FROM {ks}.j GROUP BY k;""")
    assert '{"k": 1, "at": "2026-09-01 22:00:00.000Z", "v": {"a": 2}}' in out


def test_many_single_deletes_from_a_file(addr, ks, tmp_path):
    cqlsh(addr, f"CREATE TABLE {ks}.d (k int, c int, PRIMARY KEY (k, c));")
    cluster, s = connect(addr)
    try:
        ps = s.prepare(f"INSERT INTO {ks}.d (k, c) VALUES (1, ?)")
        for f in [s.execute_async(ps, (c,)) for c in range(500)]:
            f.result()
    finally:
        cluster.shutdown()
    (tmp_path / "del.cql").write_text("".join(f"DELETE FROM {ks}.d WHERE k = 1 AND c = {c};\n" for c in range(450)))
    cqlsh(addr, "", args=("-f", str(tmp_path / "del.cql")))
    assert "(50 rows)" in cqlsh(addr, f"SELECT c FROM {ks}.d WHERE k = 1;")
