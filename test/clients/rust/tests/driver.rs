//! ScyllaDB's Rust driver, as its users use it. The same tests pass on Cassandra.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use futures::TryStreamExt;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::unprepared::Statement;
use scylla::statement::Consistency;

async fn session() -> (Session, String) {
    let addr = std::env::var("VARVE_ADDR").expect("VARVE_ADDR: the server's host:port");
    let session = SessionBuilder::new().known_node(addr).build().await.expect("connect");
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let ks = format!("rs_{nanos}");
    session
        .query_unpaged(
            format!("CREATE KEYSPACE {ks} WITH replication = {{'class': 'NetworkTopologyStrategy', 'datacenter1': 1}}"),
            &[],
        )
        .await
        .expect("create keyspace");
    session.use_keyspace(&ks, false).await.expect("use keyspace");
    (session, ks)
}

async fn drop(session: &Session, ks: &str) {
    session.query_unpaged(format!("DROP KEYSPACE {ks}"), &[]).await.expect("drop keyspace");
}

#[tokio::test]
async fn types_and_prepared() {
    let (s, ks) = session().await;
    s.query_unpaged("CREATE TABLE t (k int PRIMARY KEY, b bigint, t text, f double, l list<int>, m map<text, int>, x blob, p tuple<int, text>)", &[])
        .await
        .unwrap();
    let insert = s.prepare("INSERT INTO t (k, b, t, f, l, m, x, p) VALUES (?, ?, ?, ?, ?, ?, ?, ?)").await.unwrap();
    type Row = (i32, i64, String, f64, Vec<i32>, HashMap<String, i32>, Option<Vec<u8>>, (i32, String));
    let row: Row = (
        1, i64::MIN, "Łoś".into(), -0.5, vec![3, 1, 2], HashMap::from([("a".into(), 1)]), None, (7, "x".into()),
    );
    s.execute_unpaged(&insert, row.clone()).await.unwrap();
    let select = s.prepare("SELECT k, b, t, f, l, m, x, p FROM t WHERE k = ?").await.unwrap();
    let got: Row = s.execute_unpaged(&select, (1,)).await.unwrap().into_rows_result().unwrap().single_row().unwrap();
    assert_eq!(got, row);
    // A column more: the statement is prepared anew behind the driver's back.
    let all = s.prepare("SELECT * FROM t WHERE k = ?").await.unwrap();
    s.execute_unpaged(&all, (1,)).await.unwrap();
    s.query_unpaged("ALTER TABLE t ADD z int", &[]).await.unwrap();
    let rows = s.execute_unpaged(&all, (1,)).await.unwrap().into_rows_result().unwrap();
    assert_eq!(rows.rows_num(), 1);
    drop(&s, &ks).await;
}

#[tokio::test]
async fn pages() {
    let (s, ks) = session().await;
    s.query_unpaged("CREATE TABLE t (k int, c int, PRIMARY KEY (k, c))", &[]).await.unwrap();
    let insert = s.prepare("INSERT INTO t (k, c) VALUES (1, ?)").await.unwrap();
    for c in 0..105 {
        s.execute_unpaged(&insert, (c,)).await.unwrap();
    }
    let mut select = s.prepare("SELECT c FROM t WHERE k = 1").await.unwrap();
    select.set_page_size(10);
    let rows = s.execute_iter(select, &[]).await.unwrap().rows_stream::<(i32,)>().unwrap();
    let got: Vec<i32> = rows.map_ok(|r| r.0).try_collect().await.unwrap();
    assert_eq!(got, (0..105).collect::<Vec<_>>());
    drop(&s, &ks).await;
}

#[tokio::test]
async fn batches_and_conditions() {
    let (s, ks) = session().await;
    s.query_unpaged("CREATE TABLE t (k int PRIMARY KEY, v int)", &[]).await.unwrap();
    let mut batch = Batch::new(BatchType::Logged);
    batch.append_statement("INSERT INTO t (k, v) VALUES (?, ?)");
    batch.append_statement("INSERT INTO t (k, v) VALUES (2, 20)");
    s.batch(&batch, ((1, 10), ())).await.unwrap();
    let applied = |text: &'static str| {
        let s = &s;
        async move {
            let rows = s.query_unpaged(text, &[]).await.unwrap().into_rows_result().unwrap();
            rows.rows_num()
        }
    };
    assert_eq!(applied("INSERT INTO t (k, v) VALUES (1, 11) IF NOT EXISTS").await, 1);
    let (v,): (i32,) = s.query_unpaged("SELECT v FROM t WHERE k = 1", &[]).await.unwrap().into_rows_result().unwrap().single_row().unwrap();
    assert_eq!(v, 10);
    drop(&s, &ks).await;
}

#[tokio::test]
async fn traces_metadata_and_errors() {
    let (s, ks) = session().await;
    s.query_unpaged("CREATE TABLE t (k int PRIMARY KEY, v int)", &[]).await.unwrap();
    let mut traced = Statement::new("SELECT * FROM t WHERE k = 1");
    traced.set_tracing(true);
    traced.set_consistency(Consistency::LocalQuorum);
    let id = s.query_unpaged(traced, &[]).await.unwrap().tracing_id().expect("a trace's id");
    let info = s.get_tracing_info(&id).await.unwrap();
    assert!(!info.events.is_empty());
    s.await_schema_agreement().await.unwrap();
    s.refresh_metadata().await.unwrap();
    let state = s.get_cluster_state();
    assert_eq!(state.get_nodes_info().len(), 1);
    assert!(state.get_keyspace(&ks).unwrap().tables.contains_key("t"));
    let err = s.query_unpaged("SELECT nope FROM t", &[]).await.unwrap_err();
    assert!(err.to_string().contains("Undefined column name nope"), "{err}");
    drop(&s, &ks).await;
}
