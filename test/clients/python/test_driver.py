"""A real round with the Python driver: types, paging, prepared statements,
batches, LWT, tracing, warnings, events, routing."""
import datetime
import decimal
import ipaddress
import time
import uuid

import pytest
from cassandra import InvalidRequest, ConsistencyLevel, Unavailable, AlreadyExists
from cassandra.cluster import Cluster
from cassandra.protocol import SyntaxException
from cassandra.query import BatchStatement, SimpleStatement, BatchType, dict_factory
from cassandra.util import Date, Time, Duration, OrderedMapSerializedKey, SortedSet

from conftest import connect, split

VALUES = [
    ("ascii", "plain"),
    ("bigint", -(2**63)),
    ("blob", b"\x00\xff"),
    ("boolean", True),
    ("date", Date(datetime.date(1969, 12, 31))),
    ("decimal", decimal.Decimal("-123.4500")),
    ("double", 1.5e300),
    ("duration", Duration(1, -0, 3_000_000_000)),
    ("float", -0.5),
    ("inet", "2001:db8::1"),
    ("int", -2147483648),
    ("smallint", -32768),
    ("text", "żółć 🌊"),
    ("time", Time("23:59:59.999999999")),
    ("timestamp", datetime.datetime(2026, 9, 1, 22, 0, 0, 123000)),
    ("timeuuid", uuid.UUID("c037a0f0-b0c8-11f0-8de9-0242ac120002")),
    ("tinyint", -128),
    ("uuid", uuid.UUID("0f14d0ab-9605-4a62-a9e4-5ed26688389b")),
    ("varchar", ""),
    ("varint", -(2**200)),
    ("list<int>", [3, 1, 2]),
    ("frozen<list<text>>", ["b", "a"]),
    ("set<text>", {"x", "y"}),
    ("map<text, int>", {"a": 1, "b": 2}),
    ("tuple<int, text>", (7, None)),
    ("vector<float, 3>", [1.0, 2.5, -3.0]),
    ("map<int, frozen<list<text>>>", {1: ["p"], 2: []}),
]


@pytest.mark.parametrize("cql,value", VALUES, ids=[v[0] for v in VALUES])
@pytest.mark.parametrize("prepared", [True, False], ids=["prepared", "literal"])
def test_round_trip(session, table, cql, value, prepared):
    t = table(f"k int PRIMARY KEY, v {cql}")
    if prepared:
        session.execute(session.prepare(f"INSERT INTO {t} (k, v) VALUES (1, ?)"), [value])
    else:
        if cql in ("duration", "tuple<int, text>", "vector<float, 3>"):
            text = {"duration": "1mo3s", "tuple<int, text>": "(7, null)", "vector<float, 3>": "[1.0, 2.5, -3.0]"}[cql]
            session.execute(f"INSERT INTO {t} (k, v) VALUES (1, {text})")
        else:
            session.execute(f"INSERT INTO {t} (k, v) VALUES (1, %s)", [value])
    got = session.execute(f"SELECT v FROM {t} WHERE k = 1").one().v
    if isinstance(got, OrderedMapSerializedKey):
        got = {k: list(v) if isinstance(v, (list, tuple)) else v for k, v in got.items()}
    if isinstance(got, SortedSet):
        got = set(got)
    assert got == value
    session.execute(session.prepare(f"INSERT INTO {t} (k, v) VALUES (2, ?)"), [None])
    row = session.execute(f"SELECT v FROM {t} WHERE k = 2").one()
    assert not row.v


def test_one_healthy_node_with_tokens(session):
    meta = session.cluster.metadata
    hosts = meta.all_hosts()
    assert len(hosts) == 1
    (host,) = hosts
    assert host.is_up and host.datacenter == "datacenter1" and host.rack == "rack1"
    assert host.release_version.startswith("5.0")
    assert len(meta.token_map.ring) >= 1


def test_routing_key_and_token(session, table):
    t = table("a int, b text, c int, PRIMARY KEY ((a, b), c)")
    ps = session.prepare(f"INSERT INTO {t} (a, b, c) VALUES (?, ?, ?)")
    bound = ps.bind((1, "x", 2))
    session.execute(bound)
    want = session.cluster.metadata.token_map.token_class.from_key(bound.routing_key).value
    row = session.execute(f"SELECT token(a, b) AS t FROM {t}").one()
    assert row.t == want


def test_paging_whole_and_backwards(session, table):
    t = table("k int, c int, v text, PRIMARY KEY (k, c)")
    ps = session.prepare(f"INSERT INTO {t} (k, c, v) VALUES (?, ?, ?)")
    for k in range(3):
        for c in range(70):
            session.execute(ps, (k, c, str(c)))
    rows = list(session.execute(SimpleStatement(f"SELECT k, c FROM {t}", fetch_size=13)))
    assert sorted((r.k, r.c) for r in rows) == [(k, c) for k in range(3) for c in range(70)]
    rows = list(session.execute(SimpleStatement(f"SELECT c FROM {t} WHERE k = 1 ORDER BY c DESC", fetch_size=7)))
    assert [r.c for r in rows] == list(range(69, -1, -1))
    rows = list(session.execute(SimpleStatement(f"SELECT c FROM {t} WHERE k IN (0, 2) LIMIT 75", fetch_size=10)))
    assert len(rows) == 75
    page = session.execute(SimpleStatement(f"SELECT c FROM {t} WHERE k = 1", fetch_size=60))
    assert len(page.current_rows) == 60 and page.has_more_pages
    again = session.execute(SimpleStatement(f"SELECT c FROM {t} WHERE k = 1", fetch_size=60), paging_state=page.paging_state)
    assert [r.c for r in again.current_rows] == list(range(60, 70)) and not again.has_more_pages


def test_prepared_survives_schema_change(session, table):
    t = table("k int PRIMARY KEY, a int")
    ps = session.prepare(f"SELECT * FROM {t} WHERE k = ?")
    session.execute(f"INSERT INTO {t} (k, a) VALUES (1, 2)")
    assert len(session.execute(ps, [1]).one()) == 2
    session.execute(f"ALTER TABLE {t} ADD b text")
    session.execute(f"UPDATE {t} SET b = 'new' WHERE k = 1")
    ps = session.prepare(f"SELECT * FROM {t} WHERE k = ? LIMIT 10")
    assert session.execute(ps, [1]).one().b == "new"
    session.execute(f"ALTER TABLE {t} DROP a")
    with pytest.raises(InvalidRequest):
        session.execute(f"SELECT a FROM {t}")


def test_batches(session, table):
    t = table("k int, c int, v int, PRIMARY KEY (k, c)")
    ps = session.prepare(f"INSERT INTO {t} (k, c, v) VALUES (?, ?, ?)")
    for kind in (BatchType.LOGGED, BatchType.UNLOGGED):
        b = BatchStatement(batch_type=kind)
        for c in range(5):
            b.add(ps, (int(kind.value), c, c))
        b.add(SimpleStatement(f"DELETE FROM {t} WHERE k = {kind.value} AND c = 99"))
        session.execute(b)
        assert session.execute(f"SELECT count(*) FROM {t} WHERE k = {kind.value}").one()[0] == 5
    counters = table("k int PRIMARY KEY, n counter")
    b = BatchStatement(batch_type=BatchType.COUNTER)
    for _ in range(3):
        b.add(SimpleStatement(f"UPDATE {counters} SET n = n + 2 WHERE k = 1"))
    session.execute(b)
    assert session.execute(f"SELECT n FROM {counters} WHERE k = 1").one().n == 6


def test_lwt(session, table):
    t = table("k int PRIMARY KEY, v int")
    assert session.execute(f"INSERT INTO {t} (k, v) VALUES (1, 1) IF NOT EXISTS").was_applied
    again = session.execute(f"INSERT INTO {t} (k, v) VALUES (1, 2) IF NOT EXISTS").one()
    assert not again.applied and again.k == 1 and again.v == 1
    no = session.execute(f"UPDATE {t} SET v = 3 WHERE k = 1 IF v = 2").one()
    assert not no.applied and no.v == 1
    assert session.execute(f"UPDATE {t} SET v = 3 WHERE k = 1 IF v = 1").was_applied
    assert session.execute(f"DELETE FROM {t} WHERE k = 1 IF EXISTS").was_applied
    assert not session.execute(f"DELETE FROM {t} WHERE k = 1 IF EXISTS").was_applied
    row = session.execute(SimpleStatement(f"SELECT * FROM {t} WHERE k = 1", consistency_level=ConsistencyLevel.SERIAL))
    assert row.one() is None


def test_ttl_and_writetime(session, table):
    t = table("k int PRIMARY KEY, v int")
    session.execute(f"INSERT INTO {t} (k, v) VALUES (1, 1) USING TTL 100 AND TIMESTAMP 1234")
    row = session.execute(f"SELECT ttl(v), writetime(v) FROM {t} WHERE k = 1").one()
    assert 90 <= row[0] <= 100 and row[1] == 1234
    session.execute(f"INSERT INTO {t} (k, v) VALUES (2, 1) USING TTL 1")
    deadline = time.time() + 10
    while session.execute(f"SELECT * FROM {t} WHERE k = 2").one() is not None:
        assert time.time() < deadline


def test_user_types(session, keyspace, table):
    name = "u_" + uuid.uuid4().hex[:8]
    session.execute(f"CREATE TYPE {keyspace}.{name} (street text, nums frozen<list<int>>)")
    t = table(f"k int PRIMARY KEY, frozen_one frozen<{keyspace}.{name}>, loose {keyspace}.{name}")
    session.execute(f"INSERT INTO {t} (k, frozen_one, loose) VALUES (1, {{street: 'a', nums: [1]}}, {{street: 'b', nums: [2]}})")
    session.execute(f"UPDATE {t} SET loose.street = 'c' WHERE k = 1")
    row = session.execute(f"SELECT * FROM {t}").one()
    assert row.frozen_one.street == "a" and row.loose.street == "c" and list(row.loose.nums) == [2]
    session.execute(f"ALTER TYPE {keyspace}.{name} ADD zip int")
    assert session.execute(f"SELECT loose.zip FROM {t}").one()[0] is None


def test_tracing(session, table):
    t = table("k int PRIMARY KEY, v int")
    session.execute(f"INSERT INTO {t} (k, v) VALUES (1, 1)")
    result = session.execute(f"SELECT * FROM {t} WHERE k = 1", trace=True)
    trace = result.get_query_trace(max_wait_sec=10)
    assert trace.duration is not None and trace.events
    assert any("live rows" in e.description for e in trace.events)


def test_errors(session, keyspace, table):
    t = table("k int PRIMARY KEY, v int")
    with pytest.raises(SyntaxException):
        session.execute("SELEC 1")
    with pytest.raises(InvalidRequest, match="(?i)undefined column name nope"):
        session.execute(f"SELECT nope FROM {t}")
    with pytest.raises(InvalidRequest, match="ALLOW FILTERING"):
        session.execute(f"SELECT * FROM {t} WHERE v = 1")
    with pytest.raises(AlreadyExists):
        session.execute(f"CREATE TABLE {t} (k int PRIMARY KEY)")
    with pytest.raises(Unavailable):
        session.execute(SimpleStatement(f"SELECT * FROM {t} WHERE k = 1", consistency_level=ConsistencyLevel.THREE))
    with pytest.raises(InvalidRequest):
        session.execute(session.prepare(f"INSERT INTO {t} (k, v) VALUES (?, ?)"), [None, 1])


def test_schema_events_reach_other_connections(addr, session, keyspace):
    cluster, other = connect(addr)
    try:
        name = "ev_" + uuid.uuid4().hex[:8]
        session.execute(f"CREATE TABLE {keyspace}.{name} (k int PRIMARY KEY, v map<text, int>)")
        deadline = time.time() + 10
        while name not in cluster.metadata.keyspaces.get(keyspace, type("E", (), {"tables": {}})).tables:
            assert time.time() < deadline, "the schema change never reached the other connection"
            time.sleep(0.02)
        text = cluster.metadata.keyspaces[keyspace].tables[name].export_as_string()
        assert "map<text, int>" in text
        session.execute(f"DROP TABLE {keyspace}.{name}")
    finally:
        cluster.shutdown()


def test_many_concurrent_requests(session, table):
    t = table("k int, c int, v blob, PRIMARY KEY (k, c)")
    ps = session.prepare(f"INSERT INTO {t} (k, c, v) VALUES (?, ?, ?)")
    futures = [session.execute_async(ps, (i % 7, i, b"x" * (i % 2000))) for i in range(1500)]
    for f in futures:
        f.result()
    assert session.execute(f"SELECT count(*) FROM {t}").one()[0] == 1500


def test_large_values_and_pages(session, table):
    t = table("k int, c int, v blob, PRIMARY KEY (k, c)")
    ps = session.prepare(f"INSERT INTO {t} (k, c, v) VALUES (1, ?, ?)")
    for c in range(6):
        session.execute(ps, (c, bytes([c]) * 300_000))
    rows = list(session.execute(f"SELECT v FROM {t} WHERE k = 1"))
    assert [len(r.v) for r in rows] == [300_000] * 6 and rows[3].v[:1] == b"\x03"


@pytest.mark.parametrize("compression", ["lz4"])
@pytest.mark.parametrize("version", [4, 5])
def test_compression(addr, compression, version):
    cluster, s = connect(addr, compression=compression, protocol_version=version)
    try:
        assert len(list(s.execute("SELECT * FROM system_schema.columns"))) > 50
    finally:
        cluster.shutdown()


def test_default_settings_connect(addr):
    host, port = split(addr)
    cluster = Cluster([host], port=port)
    try:
        s = cluster.connect()
        s.row_factory = dict_factory
        row = s.execute("SELECT * FROM system.local").one()
        assert row["partitioner"].endswith("Murmur3Partitioner") and row["tokens"]
        assert cluster.protocol_version >= 4
    finally:
        cluster.shutdown()


def test_inet_is_an_address(session, table):
    t = table("k int PRIMARY KEY, v inet")
    session.execute(f"INSERT INTO {t} (k, v) VALUES (1, '127.0.0.1')")
    assert ipaddress.ip_address(session.execute(f"SELECT v FROM {t}").one().v).is_loopback
