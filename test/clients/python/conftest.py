"""Fixtures: a server at VARVE_ADDR (host:port) and, where given, one with
password login and TLS at VARVE_AUTH_ADDR. The same tests pass on Cassandra."""
import os
import uuid

import pytest
from cassandra.policies import FallthroughRetryPolicy, WhiteListRoundRobinPolicy
from cassandra.cluster import Cluster, EXEC_PROFILE_DEFAULT, ExecutionProfile


def split(addr):
    host, _, port = addr.rpartition(":")
    return host, int(port)


def connect(addr, **kw):
    host, port = split(addr)
    profile = ExecutionProfile(
        load_balancing_policy=WhiteListRoundRobinPolicy([host]),
        retry_policy=FallthroughRetryPolicy(),
        request_timeout=30,
    )
    cluster = Cluster([host], port=port, execution_profiles={EXEC_PROFILE_DEFAULT: profile}, **kw)
    return cluster, cluster.connect()


@pytest.fixture(scope="session")
def addr():
    return os.environ["VARVE_ADDR"]


@pytest.fixture(scope="session", params=[5, 4, 3], ids=["v5", "v4", "v3"])
def session(addr, request):
    cluster, s = connect(addr, protocol_version=request.param)
    yield s
    cluster.shutdown()


@pytest.fixture(scope="session")
def keyspace(session):
    name = "py_" + uuid.uuid4().hex[:12]
    session.execute(
        f"CREATE KEYSPACE {name} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    )
    yield name
    session.execute(f"DROP KEYSPACE {name}")


@pytest.fixture
def table(session, keyspace):
    made = []

    def make(columns, options=""):
        name = f"{keyspace}.t_{uuid.uuid4().hex[:12]}"
        session.execute(f"CREATE TABLE {name} ({columns}) {options}")
        made.append(name)
        return name

    yield make
    for name in made:
        session.execute(f"DROP TABLE {name}")
