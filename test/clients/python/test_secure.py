"""Login, permissions and TLS, against the server at VARVE_SECURE_ADDR that
runs with auth: password and the certificate VARVE_SECURE_CA."""
import os
import ssl
import uuid

import pytest
from cassandra import AuthenticationFailed, Unauthorized
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import NoHostAvailable

from conftest import connect, split
from terminal import Terminal

ADDR = os.environ.get("VARVE_SECURE_ADDR")
pytestmark = pytest.mark.skipif(not ADDR, reason="VARVE_SECURE_ADDR is not given")


def tls():
    ctx = ssl.create_default_context(cafile=os.environ["VARVE_SECURE_CA"])
    ctx.check_hostname = False
    return ctx


def login(user, password, **kw):
    return connect(ADDR, auth_provider=PlainTextAuthProvider(user, password), ssl_context=tls(), **kw)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_login_over_tls(version):
    cluster, s = login("cassandra", "cassandra", protocol_version=version)
    assert s.execute("SELECT cluster_name FROM system.local").one()
    cluster.shutdown()


def test_wrong_password_and_plain_text_are_refused():
    with pytest.raises(NoHostAvailable) as e:
        login("cassandra", "wrong")
    assert any(isinstance(x, AuthenticationFailed) for x in e.value.errors.values())
    with pytest.raises(NoHostAvailable):
        connect(ADDR, auth_provider=PlainTextAuthProvider("cassandra", "cassandra"), connect_timeout=3)


def test_roles_and_permissions():
    name = "r_" + uuid.uuid4().hex[:8]
    root, admin = login("cassandra", "cassandra")
    admin.execute(f"CREATE ROLE {name} WITH PASSWORD = 'secret' AND LOGIN = true")
    admin.execute(f"CREATE KEYSPACE {name} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
    admin.execute(f"CREATE TABLE {name}.t (k int PRIMARY KEY, v int)")
    cluster, user = login(name, "secret")
    with pytest.raises(Unauthorized, match="SELECT"):
        user.execute(f"SELECT * FROM {name}.t")
    admin.execute(f"GRANT SELECT ON KEYSPACE {name} TO {name}")
    user.execute(f"SELECT * FROM {name}.t")
    with pytest.raises(Unauthorized, match="MODIFY"):
        user.execute(f"INSERT INTO {name}.t (k, v) VALUES (1, 1)")
    admin.execute(f"GRANT MODIFY ON {name}.t TO {name}")
    user.execute(f"INSERT INTO {name}.t (k, v) VALUES (1, 1)")
    with pytest.raises(Unauthorized):
        user.execute(f"DROP TABLE {name}.t")
    with pytest.raises(Unauthorized):
        user.execute("CREATE ROLE other_role")
    admin.execute(f"REVOKE MODIFY ON {name}.t FROM {name}")
    with pytest.raises(Unauthorized):
        user.execute(f"INSERT INTO {name}.t (k, v) VALUES (2, 1)")
    assert name in {r.role for r in admin.execute("LIST ROLES")}
    cluster.shutdown()
    admin.execute(f"ALTER ROLE {name} WITH PASSWORD = 'changed'")
    with pytest.raises(NoHostAvailable):
        login(name, "secret")
    admin.execute(f"DROP KEYSPACE {name}")
    admin.execute(f"DROP ROLE {name}")
    root.shutdown()


def test_cqlsh_logs_in_over_tls(tmp_path):
    name = "r_" + uuid.uuid4().hex[:8]
    root, admin = login("cassandra", "cassandra")
    admin.execute(f"CREATE ROLE {name} WITH PASSWORD = 'secret' AND LOGIN = true")
    host, port = split(ADDR)
    env = {"HOME": str(tmp_path), "SSL_CERTFILE": os.environ["VARVE_SECURE_CA"]}
    argv = [os.environ.get("CQLSH", "cqlsh"), "--ssl", host, str(port), "-u", "cassandra"]
    with Terminal(argv, env=env) as t:
        t.expect("[Pp]assword: ")
        t.type("cassandra\n")
        t.expect("cassandra@cqlsh> $")
        t.type(f"LOGIN {name} 'wrong'\n")
        t.expect("AuthenticationFailed|Bad credentials|incorrect")
        t.expect("cassandra@cqlsh> $")
        t.type(f"LOGIN {name} 'secret'\n")
        t.expect(f"{name}@cqlsh> $")
        t.type("CREATE ROLE other;\n")
        t.expect("Unauthorized")
    admin.execute(f"DROP ROLE {name}")
    root.shutdown()


MUTUAL = os.environ.get("VARVE_MUTUAL_ADDR")
mutual = pytest.mark.skipif(not MUTUAL, reason="VARVE_MUTUAL_ADDR is not given")


def certified(with_certificate=True):
    ctx = ssl.create_default_context(cafile=os.environ["VARVE_SECURE_CA"])
    if with_certificate:
        ctx.load_cert_chain(os.environ["VARVE_MUTUAL_CERT"], os.environ["VARVE_MUTUAL_KEY"])
    return ctx


@mutual
@pytest.mark.parametrize("version", [4, 5])
def test_client_certificate(version):
    cluster, s = connect(MUTUAL, ssl_context=certified(), protocol_version=version)
    row = s.execute("SELECT ssl_enabled, ssl_protocol FROM system_views.clients LIMIT 1").one()
    assert row.ssl_enabled and row.ssl_protocol.startswith("TLSv1.")
    cluster.shutdown()


@mutual
def test_without_client_certificate():
    for ctx in (certified(False), None):
        with pytest.raises(NoHostAvailable) as e:
            connect(MUTUAL, ssl_context=ctx, connect_timeout=3)
        if ctx is None:
            assert "encrypted connections only" in str(e.value)


@mutual
def test_cqlsh_with_client_certificate(tmp_path):
    host, port = split(MUTUAL)
    rc = tmp_path / "cqlshrc"
    rc.write_text(f"[ssl]\ncertfile = {os.environ['VARVE_SECURE_CA']}\nvalidate = true\n"
                  f"userkey = {os.environ['VARVE_MUTUAL_KEY']}\nusercert = {os.environ['VARVE_MUTUAL_CERT']}\n")
    argv = [os.environ.get("CQLSH", "cqlsh"), "--ssl", "--cqlshrc", str(rc), host, str(port), "-e", "SHOW HOST"]
    with Terminal(argv, env={"HOME": str(tmp_path)}) as t:
        t.expect("Connected to Test Cluster")
