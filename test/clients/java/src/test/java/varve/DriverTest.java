package varve;

import static org.junit.jupiter.api.Assertions.*;

import com.datastax.oss.driver.api.core.*;
import com.datastax.oss.driver.api.core.config.*;
import com.datastax.oss.driver.api.core.cql.*;
import com.datastax.oss.driver.api.core.data.*;
import com.datastax.oss.driver.api.core.metadata.*;
import com.datastax.oss.driver.api.core.servererrors.*;
import com.datastax.oss.driver.api.core.type.DataTypes;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.*;
import java.util.*;
import java.util.concurrent.CompletionStage;
import org.junit.jupiter.api.*;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A real round with the Java driver against VARVE_ADDR. The same tests pass on Cassandra. */
class DriverTest {
  static CqlSession session;
  static final String KS = "java_" + Long.toHexString(System.nanoTime());

  static CqlSessionBuilder builder() {
    String[] parts = System.getenv("VARVE_ADDR").split(":");
    return CqlSession.builder()
        .addContactPoint(new InetSocketAddress(parts[0], Integer.parseInt(parts[1])))
        .withLocalDatacenter("datacenter1");
  }

  static ProgrammaticDriverConfigLoaderBuilder config() {
    return DriverConfigLoader.programmaticBuilder()
        .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(30));
  }

  @BeforeAll
  static void open() {
    session = builder().withConfigLoader(config().build()).build();
    session.execute("CREATE KEYSPACE " + KS
        + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
  }

  @AfterAll
  static void close() {
    session.execute("DROP KEYSPACE " + KS);
    session.close();
  }

  @Test
  void negotiatesVersion5AndSeesOneNode() {
    assertEquals(5, session.getContext().getProtocolVersion().getCode());
    Metadata m = session.getMetadata();
    assertEquals(1, m.getNodes().size());
    Node n = m.getNodes().values().iterator().next();
    assertEquals(NodeState.UP, n.getState());
    assertTrue(m.getTokenMap().isPresent());
    assertFalse(m.getTokenMap().get().getTokenRanges().isEmpty());
  }

  @ParameterizedTest
  @ValueSource(strings = {"V3", "V4", "V5"})
  void everyVersionWorks(String version) {
    try (CqlSession s = builder().withConfigLoader(config()
        .withString(DefaultDriverOption.PROTOCOL_VERSION, version)
        .withString(DefaultDriverOption.PROTOCOL_COMPRESSION, "lz4").build()).build()) {
      assertTrue(s.execute("SELECT * FROM system_schema.tables").all().size() > 10);
    }
  }

  @Test
  void types() throws Exception {
    session.execute("CREATE TYPE " + KS + ".addr (street text, zip int)");
    session.execute("CREATE TABLE " + KS + ".types (k uuid PRIMARY KEY, a bigint, b text, c timestamp, d list<int>,"
        + " e map<text, int>, f set<text>, g decimal, h inet, i blob, j boolean, l double, m tuple<int, text>,"
        + " n varint, o frozen<addr>, p date, q time, r duration, s vector<float, 3>)");
    PreparedStatement ps = session.prepare("INSERT INTO " + KS + ".types (k, a, b, c, d, e, f, g, h, i, j, l, m, n, o, p, q, r, s)"
        + " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    UUID k = UUID.randomUUID();
    TupleValue tuple = DataTypes.tupleOf(DataTypes.INT, DataTypes.TEXT).newValue(7, "seven");
    var udt = session.getMetadata().getKeyspace(KS).get().getUserDefinedType("addr").get();
    UdtValue addr = udt.newValue("street", 12345);
    Instant at = Instant.parse("2026-09-01T22:00:00.123Z");
    session.execute(ps.bind(k, Long.MIN_VALUE, "żółć 🌊", at, List.of(3, 1), Map.of("x", 1), Set.of("p"),
        new BigDecimal("-1.50"), InetAddress.getByName("::1"), ByteBuffer.wrap(new byte[] {0, -1}), true, 1.5, tuple,
        BigInteger.TEN.pow(40), addr, LocalDate.of(1969, 12, 31), LocalTime.of(23, 59, 59), CqlDuration.from("1mo2d3s"),
        CqlVector.newInstance(1f, 2f, -3f)));
    Row r = session.execute("SELECT * FROM " + KS + ".types").one();
    assertEquals(Long.MIN_VALUE, r.getLong("a"));
    assertEquals("żółć 🌊", r.getString("b"));
    assertEquals(at, r.getInstant("c"));
    assertEquals(List.of(3, 1), r.getList("d", Integer.class));
    assertEquals(Map.of("x", 1), r.getMap("e", String.class, Integer.class));
    assertEquals(Set.of("p"), r.getSet("f", String.class));
    assertEquals(new BigDecimal("-1.50"), r.getBigDecimal("g"));
    assertEquals("seven", r.getTupleValue("m").getString(1));
    assertEquals(12345, r.getUdtValue("o").getInt("zip"));
    assertEquals(LocalDate.of(1969, 12, 31), r.getLocalDate("p"));
    assertEquals(CqlDuration.from("1mo2d3s"), r.getCqlDuration("r"));
    assertEquals(CqlVector.newInstance(1f, 2f, -3f), r.getVector("s", Float.class));
  }

  @Test
  void pagingBatchesAndLwt() {
    session.execute("CREATE TABLE " + KS + ".m (k int, c int, v text, PRIMARY KEY (k, c))");
    PreparedStatement ps = session.prepare("INSERT INTO " + KS + ".m (k, c, v) VALUES (?, ?, ?)");
    BatchStatementBuilder b = BatchStatement.builder(DefaultBatchType.UNLOGGED);
    for (int c = 0; c < 60; c++) {
      b.addStatement(ps.bind(1, c, "v" + c));
    }
    session.execute(b.build());
    int seen = 0;
    for (Row r : session.execute(SimpleStatement.newInstance("SELECT c FROM " + KS + ".m WHERE k = 1").setPageSize(7))) {
      assertEquals(seen++, r.getInt(0));
    }
    assertEquals(60, seen);
    ResultSet no = session.execute("INSERT INTO " + KS + ".m (k, c, v) VALUES (1, 1, 'x') IF NOT EXISTS");
    assertFalse(no.wasApplied());
    assertTrue(session.execute("UPDATE " + KS + ".m SET v = 'y' WHERE k = 1 AND c = 1 IF v = 'v1'").wasApplied());
  }

  @Test
  void tokenRangeScanFindsEveryRowOnce() {
    session.execute("CREATE TABLE " + KS + ".scan (k int PRIMARY KEY)");
    PreparedStatement ps = session.prepare("INSERT INTO " + KS + ".scan (k) VALUES (?)");
    for (int k = 0; k < 200; k++) {
      session.execute(ps.bind(k));
    }
    PreparedStatement q = session.prepare("SELECT k FROM " + KS + ".scan WHERE token(k) > ? AND token(k) <= ?");
    Set<Integer> seen = new HashSet<>();
    for (var range : session.getMetadata().getTokenMap().get().getTokenRanges()) {
      for (var part : range.unwrap()) {
        for (Row r : session.execute(q.boundStatementBuilder().setToken(0, part.getStart()).setToken(1, part.getEnd()).build())) {
          assertTrue(seen.add(r.getInt(0)));
        }
      }
    }
    assertEquals(200, seen.size());
  }

  @Test
  void errorsAndWarnings() {
    assertThrows(SyntaxError.class, () -> session.execute("SELEC"));
    assertThrows(InvalidQueryException.class, () -> session.execute("SELECT * FROM " + KS + ".nope"));
    session.execute("CREATE TABLE IF NOT EXISTS " + KS + ".errs (k int PRIMARY KEY)");
    assertThrows(com.datastax.oss.driver.api.core.servererrors.AlreadyExistsException.class,
        () -> session.execute("CREATE TABLE " + KS + ".errs (k int PRIMARY KEY)"));
    ResultSet rs = session.execute("SELECT sum(k) FROM " + KS + ".errs");
    assertTrue(rs.getExecutionInfo().getWarnings().stream().anyMatch(w -> w.contains("Aggregation query used without partition key")));
  }

  @Test
  void tracing() {
    ResultSet rs = session.execute(SimpleStatement.newInstance("SELECT * FROM system.local").setTracing(true));
    QueryTrace t = rs.getExecutionInfo().getQueryTrace();
    assertFalse(t.getEvents().isEmpty());
  }

  @Test
  void schemaAgreement() {
    assertTrue(session.checkSchemaAgreement());
    ResultSet rs = session.execute("CREATE TABLE " + KS + ".agree (k int PRIMARY KEY, v int)");
    assertTrue(rs.getExecutionInfo().isSchemaInAgreement());
    assertTrue(session.getMetadata().getKeyspace(KS).get().getTable("agree").isPresent());
  }
}
