"""cqlsh at a terminal: completion with Tab, pages, and the commands that only
make sense there. The same tests pass on Cassandra."""
import os
import re
import uuid

import pytest

from terminal import Terminal
from conftest import split

CQLSH = os.environ.get("CQLSH", "cqlsh")
PROMPT = r"(\w+@)?cqlsh(:\w+)?> $"


class Cqlsh(Terminal):
    def __init__(self, addr, home):
        host, port = split(addr)
        super().__init__([CQLSH, host, str(port)], env={"HOME": str(home)})
        self.expect(PROMPT)

    def run(self, line):
        """Types a line and returns what is shown up to the next prompt."""
        self.type(line + "\n")
        return self.expect(r"\n" + PROMPT)


@pytest.fixture(scope="module")
def typed(addr, tmp_path_factory):
    ks = "ty_" + uuid.uuid4().hex[:12]
    with Cqlsh(addr, tmp_path_factory.mktemp("home")) as t:
        t.ks = ks
        t.run(f"CREATE KEYSPACE {ks} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};")
        t.run(f"CREATE TYPE {ks}.address (street text);")
        t.run(f"CREATE TABLE {ks}.people (id int PRIMARY KEY, surname text, home frozen<address>);")
        t.run(f"CREATE INDEX by_surname ON {ks}.people (surname);")
        yield t
        t.run(f"DROP KEYSPACE {ks};")


@pytest.mark.parametrize("keys, want", [
    ("SEL\t", "SELECT $"),
    ("DESCRIBE KEYSPACE {ks:.10}\t", "DESCRIBE KEYSPACE {ks} $"),
    ("USE {ks:.10}\t", "USE {ks} ?;$"),
    ("SELECT * FROM {ks}.pe\t", r"SELECT \* FROM {ks}.people $"),
    ("SELECT * FROM {ks}.people WHERE \t\t", r"TOKEN\( +id +surname"),
    ("UPDATE {ks}.people SET sur\t", "SET surname = $"),
    ("ALTER TABLE {ks}.people DROP sur\t", "DROP surname ?;$"),
    ("DROP INDEX {ks}.by\t", "DROP INDEX {ks}.by_surname ?;$"),
    ("DROP TYPE {ks}.ad\t", "DROP TYPE {ks}.address ?;$"),
    ("DESCRIBE INDEX {ks}.by\t", "{ks}.by_surname $"),
    ("INSERT INTO {ks}.people (\t", r"\(id $"),
    ("COPY {ks}.pe\t", "COPY {ks}.people $"),
    ("CONSISTENCY LOCAL_Q\t", "CONSISTENCY LOCAL_QUORUM $"),
    ("CREATE TABLE {ks}.x (a int PRIMARY KEY) WITH gc\t", "WITH gc_grace_seconds = $"),
])
def test_completion(typed, keys, want):
    typed.type(keys.format(ks=typed.ks))
    try:
        typed.expect(want.format(ks=typed.ks))
    finally:
        typed.type("\x15\n")  # gives the line up
        typed.expect(r"\n" + PROMPT)


def test_pages_are_asked_for(typed):
    for line in ("CREATE TABLE t (k int, c int, PRIMARY KEY (k, c));", *(f"INSERT INTO t (k, c) VALUES (1, {c});" for c in range(7))):
        typed.run(line.replace(" t ", f" {typed.ks}.t "))
    assert "3" in typed.run("PAGING 3")
    typed.type(f"SELECT c FROM {typed.ks}.t WHERE k = 1;\n")
    first = typed.expect("---MORE---")
    assert re.findall(r"^ +(\d)\r$", first, re.M) == ["0", "1", "2"]
    typed.type("\n")
    second = typed.expect("---MORE---")
    assert re.findall(r"^ +(\d)\r$", second, re.M) == ["3", "4", "5"]
    typed.type("\n")
    assert "(7 rows)" in typed.expect(r"\n" + PROMPT)
    assert "(7 rows)" in typed.run(f"PAGING OFF; SELECT c FROM {typed.ks}.t WHERE k = 1;")


def test_source_expand(typed, tmp_path):
    typed.run(f"USE {typed.ks};")
    typed.run("INSERT INTO people (id, surname, home) VALUES (1, 'Łoś', {street: 'a'});")
    (tmp_path / "more.cql").write_text(
        f"INSERT INTO {typed.ks}.people (id, surname) VALUES (2, 'b');\n"
        f"SELECT count(*) FROM {typed.ks}.people WHERE id IN (1, 2);\n")
    assert re.search(r"\n +2\r", typed.run(f"SOURCE '{tmp_path}/more.cql'"))
    typed.run("EXPAND ON")
    out = typed.run("SELECT id, surname, home FROM people WHERE id = 1;")
    assert "@ Row 1" in out and re.search(r" surname +\| Łoś", out)
    typed.run("EXPAND OFF")


def test_capture(addr, typed, tmp_path):
    # cqlsh 6.2.2 takes CAPTURE OFF for CAPTURE, so it has a terminal of its own.
    typed.run(f"INSERT INTO {typed.ks}.people (id, surname) VALUES (3, 'captured');")
    with Cqlsh(addr, tmp_path) as t:
        assert "Now capturing query output" in t.run(f"CAPTURE '{tmp_path}/out.txt'")
        assert "captured" not in t.run(f"SELECT surname FROM {typed.ks}.people WHERE id = 3;")
        assert "InvalidRequest" in t.run(f"SELECT nope FROM {typed.ks}.people;")
    assert "captured" in (tmp_path / "out.txt").read_text()


def test_consistency_and_tracing(typed):
    assert "ONE" in typed.run("CONSISTENCY")
    assert "QUORUM" in typed.run("CONSISTENCY QUORUM")
    assert "SERIAL" in typed.run("SERIAL CONSISTENCY")
    typed.run("TRACING ON")
    out = typed.run(f"SELECT * FROM {typed.ks}.people WHERE id = 1;")
    assert "Tracing session" in out and "Request complete" in out
    session = re.search(r"Tracing session: (\S+)", out).group(1)
    typed.run("TRACING OFF")
    out = typed.run(f"SHOW SESSION {session}")
    assert "Request complete" in out
    assert "Connected to" in typed.run("SHOW HOST") and "Cassandra 5.0" in typed.run("SHOW VERSION")


def test_show_replicas(typed):
    out = typed.run(f"SHOW REPLICAS 1234 {typed.ks}")
    assert split(os.environ["VARVE_ADDR"])[0] in out


def test_login_asks_for_a_password(typed):
    typed.type("LOGIN cassandra\n")
    typed.expect("[Pp]assword: ")
    typed.type("cassandra\n")
    typed.expect(r"\n" + PROMPT)
    assert "(0 rows)" in typed.run(f"SELECT * FROM {typed.ks}.people WHERE id = 100;")
