// A real round with the Node driver against VARVE_ADDR. The same tests pass on Cassandra.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import cassandra from "cassandra-driver";

const [host, port] = process.env.VARVE_ADDR.split(":");
const { types } = cassandra;
let client;
const ks = "node_" + Math.random().toString(36).slice(2, 10);

before(async () => {
  client = new cassandra.Client({
    contactPoints: [host],
    protocolOptions: { port: Number(port) },
    localDataCenter: "datacenter1",
  });
  await client.connect();
  await client.execute(
    `CREATE KEYSPACE ${ks} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`);
});

after(async () => {
  await client.execute(`DROP KEYSPACE ${ks}`);
  await client.shutdown();
});

test("sees one healthy node with tokens", () => {
  const hosts = client.hosts.values();
  assert.equal(hosts.length, 1);
  assert.ok(hosts[0].isUp() && hosts[0].tokens.length >= 1);
  assert.equal(hosts[0].datacenter, "datacenter1");
});

test("types through prepared statements", async () => {
  await client.execute(`CREATE TABLE ${ks}.types (k uuid PRIMARY KEY, a bigint, b text, c timestamp,
    d list<int>, e map<text, int>, f set<text>, g decimal, h inet, i blob, j boolean, l double, m timeuuid, n varint)`);
  const k = types.Uuid.random();
  const m = types.TimeUuid.now();
  const at = new Date("2026-09-01T22:00:00.123Z");
  await client.execute(`INSERT INTO ${ks}.types (k, a, b, c, d, e, f, g, h, i, j, l, m, n)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  [k, types.Long.fromString("-9223372036854775808"), "żółć 🌊", at, [3, 1], { x: 1 }, ["p", "q"],
    types.BigDecimal.fromString("-1.50"), types.InetAddress.fromString("127.0.0.1"), Buffer.from([0, 255]),
    true, 1.5, m, types.Integer.fromString("123456789012345678901234567890")], { prepare: true });
  const row = (await client.execute(`SELECT * FROM ${ks}.types WHERE k = ?`, [k], { prepare: true })).first();
  assert.equal(row.a.toString(), "-9223372036854775808");
  assert.equal(row.b, "żółć 🌊");
  assert.equal(row.c.getTime(), at.getTime());
  assert.deepEqual(row.d, [3, 1]);
  assert.deepEqual(row.e, { x: 1 });
  assert.deepEqual(row.f, ["p", "q"]);
  assert.equal(row.g.toString(), "-1.50");
  assert.equal(row.h.toString(), "127.0.0.1");
  assert.deepEqual([...row.i], [0, 255]);
  assert.ok(row.m.equals(m));
  assert.equal(row.n.toString(), "123456789012345678901234567890");
});

test("paging, batches, LWT and counters", async () => {
  await client.execute(`CREATE TABLE ${ks}.m (k int, c int, v text, PRIMARY KEY (k, c))`);
  const insert = `INSERT INTO ${ks}.m (k, c, v) VALUES (?, ?, ?)`;
  await client.batch(Array.from({ length: 60 }, (_, c) => ({ query: insert, params: [1, c, "v" + c] })), { prepare: true });
  let seen = 0;
  for await (const row of client.stream(`SELECT c FROM ${ks}.m WHERE k = 1`, [], { fetchSize: 7, autoPage: true })) {
    assert.equal(row.c, seen++);
  }
  assert.equal(seen, 60);
  const page = await client.execute(`SELECT c FROM ${ks}.m WHERE k = 1`, [], { fetchSize: 25 });
  assert.equal(page.rowLength, 25);
  const next = await client.execute(`SELECT c FROM ${ks}.m WHERE k = 1`, [], { fetchSize: 25, pageState: page.pageState });
  assert.equal(next.first().c, 25);
  const once = await client.execute(`INSERT INTO ${ks}.m (k, c, v) VALUES (9, 9, 'a') IF NOT EXISTS`);
  assert.ok(once.wasApplied());
  const twice = await client.execute(`INSERT INTO ${ks}.m (k, c, v) VALUES (9, 9, 'b') IF NOT EXISTS`);
  assert.ok(!twice.wasApplied());
  assert.equal(twice.first().v, "a");
  await client.execute(`CREATE TABLE ${ks}.n (k int PRIMARY KEY, n counter)`);
  await Promise.all(Array.from({ length: 40 }, () => client.execute(`UPDATE ${ks}.n SET n = n + 1 WHERE k = 1`)));
  assert.equal((await client.execute(`SELECT n FROM ${ks}.n`)).first().n.toString(), "40");
});

test("errors carry their codes", async () => {
  await assert.rejects(client.execute("SELEC"), (e) => e.code === types.responseErrorCodes.syntaxError);
  await assert.rejects(client.execute(`SELECT * FROM ${ks}.nope`), (e) => e.code === types.responseErrorCodes.invalid);
});

test("tracing", async () => {
  const r = await client.execute("SELECT * FROM system.local", [], { traceQuery: true });
  const trace = await client.metadata.getTrace(r.info.traceId);
  assert.ok(trace.events.length > 0);
});

test("schema metadata", async () => {
  await client.execute(`CREATE TABLE ${ks}.s (a int, b text static, c timeuuid, d frozen<list<int>>, PRIMARY KEY (a, c))
    WITH CLUSTERING ORDER BY (c DESC)`);
  const meta = await client.metadata.getTable(ks, "s");
  assert.deepEqual(meta.partitionKeys.map((c) => c.name), ["a"]);
  assert.deepEqual(meta.clusteringOrder, ["DESC"]);
});
