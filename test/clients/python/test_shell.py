"""varve shell at a terminal: completion, history, pages."""
import os
import re
import uuid

import pytest

from terminal import Terminal

BINARY = os.environ.get("VARVE_BIN")
pytestmark = pytest.mark.skipif(not BINARY, reason="VARVE_BIN is not given")
PROMPT = r"varve(:\w+)?> $"


def test_typed(addr):
    ks = "vs_" + uuid.uuid4().hex[:12]
    with Terminal([BINARY, "shell", "--host", addr]) as t:
        def run(line):
            t.type(line + "\r")
            return t.expect(r"\n" + PROMPT)

        t.expect(PROMPT)
        run(f"CREATE KEYSPACE {ks} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};")
        run(f"CREATE TABLE {ks}.messages (channel int, id int, PRIMARY KEY (channel, id));")
        for keys, want in (("sel\t", "select $"), (f"USE {ks[:12]}\t", f"USE {ks} $"), (f"SELECT * FROM {ks}.m\t", r"\.messages $"),
                           (f"SELECT * FROM {ks}.messages WHERE ch\t", "WHERE channel $"), ("CONSISTENCY LOCAL_Q\t", "LOCAL_QUORUM $"),
                           ("DROP \t", "INDEX  KEYSPACE  ROLE  TABLE  TYPE")):
            t.type(keys)
            t.expect(want)
            t.type("\x15")  # gives the line up
            t.seen = ""
        assert f"varve:{ks}>" in run(f"USE {ks};")
        run("BEGIN BATCH " + " ".join(f"INSERT INTO messages (channel, id) VALUES (1, {i});" for i in range(5)) + " APPLY BATCH;")
        run("PAGING 2")
        t.type("SELECT id FROM messages WHERE channel = 1;\r")
        assert re.findall(r"^ +(\d)\r$", t.expect("-- more"), re.M) == ["0", "1"]
        t.type("\r")
        assert re.findall(r"^ +(\d)\r$", t.expect("-- more"), re.M) == ["2", "3"]
        t.type("q\r")
        t.expect(PROMPT)
        t.type("\x1b[A")  # the line before, from the history, where no answers are
        t.expect("SELECT id FROM messages")
        t.type("\x15EXIT\r")
        assert t.process.wait(10) == 0
    with Terminal([BINARY, "shell", "--host", addr]) as t:
        t.expect(PROMPT)
        t.process.terminate()  # a signal ends it although nothing is typed
        assert t.process.wait(10) == 1
    with Terminal([BINARY, "shell", "--host", addr, "-e", f"DROP KEYSPACE {ks}"]) as t:
        t.process.wait(10)
