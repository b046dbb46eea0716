"""cqlsh itself, as a user types it: DESCRIBE, COPY, TRACING, PAGING, SOURCE,
CONSISTENCY. The same tests pass on Cassandra."""
import csv
import os
import re
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


def copied(addr, text):
    """Runs COPY and fails where any of its processes complained."""
    out = cqlsh(addr, text)
    assert "Failed to" not in out and "Error" not in out, out
    return out


def test_copy_options(addr, ks, tmp_path):
    cqlsh(addr, f"""CREATE TABLE {ks}.o (k int, c int, at timestamp, ok boolean, d decimal, t text, x int, PRIMARY KEY (k, c));
        CREATE TABLE {ks}.n (k int PRIMARY KEY, hits counter);""")
    (tmp_path / "in.csv").write_text("head|is|skipped\n" + "".join(
        f"{k}|{c}|01/09/2026 22:00:0{c}|{'yes' if c % 2 else 'no'}|2.000,25|{'NIL' if c == 3 else '~a$~|b~'}|unused\n"
        for k in range(10) for c in range(5)))
    out = copied(addr, f"""COPY {ks}.o (k, c, at, ok, d, t, x) FROM '{tmp_path}/in.csv' WITH DELIMITER = '|' AND QUOTE = '~'
        AND ESCAPE = '$' AND NULL = 'NIL' AND SKIPROWS = 1 AND SKIPCOLS = 'x' AND DATETIMEFORMAT = '%d/%m/%Y %H:%M:%S' AND BOOLSTYLE = 'yes,no'
        AND DECIMALSEP = ',' AND THOUSANDSSEP = '.' AND NUMPROCESSES = 2 AND CHUNKSIZE = 7 AND INGESTRATE = 20000
        AND MAXBATCHSIZE = 5 AND MINBATCHSIZE = 2 AND TTL = 3600 AND ENCODING = 'UTF-8'
        AND MAXATTEMPTS = 3 AND MAXPARSEERRORS = 0 AND MAXINSERTERRORS = 0 AND ERRFILE = '{tmp_path}/errors';""")
    assert "50 rows imported" in out
    out = cqlsh(addr, f"SELECT at, ok, d, t, ttl(d) FROM {ks}.o WHERE k = 4;")
    assert "a~|b" in out and "2000.25" in out and "True" in out and "null" in out and re.search(r"\| +3[56]\d\d", out), out
    out = copied(addr, f"""COPY {ks}.o (k, c, at, ok, d, t) TO '{tmp_path}/out.csv' WITH DELIMITER = ';' AND NULL = 'NIL'
        AND DECIMALSEP = ',' AND THOUSANDSSEP = '.' AND BOOLSTYLE = 'ja,nein' AND DATETIMEFORMAT = '%Y' AND PAGESIZE = 3 AND PAGETIMEOUT = 30 AND NUMPROCESSES = 2
        AND MAXREQUESTS = 2 AND BEGINTOKEN = -9223372036854775808 AND FLOATPRECISION = 3;""")
    assert "50 rows exported" in out
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert len(lines) == 50 and "4;3;2026;ja;2.000,25;NIL" in lines, lines
    assert "50 rows exported to 8 files" in copied(addr, f"COPY {ks}.o TO '{tmp_path}/few.csv' WITH MAXOUTPUTSIZE = 7 AND NUMPROCESSES = 1;")
    cqlsh(addr, f"UPDATE {ks}.n SET hits = hits + 5 WHERE k = 1; UPDATE {ks}.n SET hits = hits + 6 WHERE k = 2;")
    copied(addr, f"COPY {ks}.n TO '{tmp_path}/n.csv' WITH NUMPROCESSES = 1;")
    assert sorted((tmp_path / "n.csv").read_text().splitlines()) == ["1,5", "2,6"]
    copied(addr, f"COPY {ks}.n FROM '{tmp_path}/n.csv' WITH NUMPROCESSES = 1;")
    assert re.search(r"\| +12\n", cqlsh(addr, f"SELECT * FROM {ks}.n;"))


def test_copy_standard_streams_and_errors(addr, ks, tmp_path):
    cqlsh(addr, f"CREATE TABLE {ks}.s (k int PRIMARY KEY, v int);")
    out = cqlsh(addr, f"COPY {ks}.s FROM STDIN WITH NUMPROCESSES = 1 AND PREPAREDSTATEMENTS = FALSE;\n1,10\n2,20\n.")
    assert "2 rows imported" in out
    assert "1,10" in cqlsh(addr, f"COPY {ks}.s TO STDOUT WITH NUMPROCESSES = 1;")
    (tmp_path / "bad.csv").write_text("3,30\n4,four\n5,50\n")
    out = cqlsh(addr, f"COPY {ks}.s FROM '{tmp_path}/bad.csv' WITH NUMPROCESSES = 1 AND ERRFILE = '{tmp_path}/errors';", check=False)
    assert "four" in out and (tmp_path / "errors").read_text().strip() == "4,four"
    assert "(4 rows)" in cqlsh(addr, f"SELECT * FROM {ks}.s;")
    assert "nope" in cqlsh(addr, f"COPY {ks}.nope FROM '{tmp_path}/bad.csv';", check=False)


DESCRIBED = ["CLUSTER", "KEYSPACES", "SCHEMA", "FULL SCHEMA", "TABLES", "TYPES", "FUNCTIONS", "AGGREGATES",
             "KEYSPACE {ks}", "ONLY KEYSPACE {ks}", "KEYSPACE system", "KEYSPACE system_schema", "KEYSPACE system_auth",
             "KEYSPACE system_traces", "KEYSPACE system_views", "KEYSPACE system_virtual_schema",
             "TABLE {ks}.people", "TABLE system.local", "TABLE system_views.clients", "TYPE {ks}.address",
             "INDEX {ks}.by_name", "{ks}", "{ks}.people", "{ks}.by_name", "TABLE {ks}.people WITH INTERNALS", "COLUMNFAMILIES"]


def test_describe_everything(addr, ks):
    cqlsh(addr, f"""CREATE TYPE {ks}.address (street text);
        CREATE TABLE {ks}.people (id int PRIMARY KEY, name text, home frozen<address>);
        CREATE INDEX by_name ON {ks}.people (name);""")
    out = cqlsh(addr, "\n".join(f"DESCRIBE {what.format(ks=ks)};" for what in DESCRIBED), check=False)
    assert "not found" not in out and "Exception" not in out and "Traceback" not in out, out
    for what in ("KEYSPACE nope", f"TABLE {ks}.nope", f"TYPE {ks}.nope", f"INDEX {ks}.nope", f"FUNCTION {ks}.nope",
                 f"AGGREGATE {ks}.nope", f"MATERIALIZED VIEW {ks}.nope", "nope"):
        out = cqlsh(addr, f"DESCRIBE {what};", check=False)
        assert "nope" in out and "not found" in out, out


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
