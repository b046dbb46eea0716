package exec

import (
	"strings"
	"testing"
	"time"

	"varve/internal/cqlwire"
	"varve/internal/store"
)

// panics is a term whose evaluation is a programming error.
type panics struct{}

func (panics) eval(*execution) (cqlwire.Value, error) { panic("a bug") }

// TestPanicHoldsNothing lets statements that read before they write panic while
// they hold their partition and a view: both are free afterwards.
func TestPanicHoldsNothing(t *testing.T) {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE t (k int PRIMARY KEY, v int, l list<int>)")
	te.exec(t, "INSERT INTO t (k, v, l) VALUES (1, 1, [1, 2])")
	for _, text := range []string{
		"UPDATE t SET l[0] = 7 WHERE k = 1",
		"DELETE v FROM t WHERE k = 1 IF v = 1",
		"BEGIN BATCH UPDATE t SET l[0] = 7 WHERE k = 1; UPDATE t SET v = 3 WHERE k = 1; APPLY BATCH",
		"BEGIN BATCH UPDATE t SET v = 7 WHERE k = 1 IF v = 1; UPDATE t SET v = 3 WHERE k = 1; APPLY BATCH",
	} {
		ps := te.prepared(t, text)
		if b, ok := ps.plan.run.(*batchPlan); ok {
			b.stmts[1].ttl = panics{}
		} else {
			ps.plan.modify.ttl = panics{}
		}
		func() {
			defer func() {
				if p := recover(); p == nil {
					t.Errorf("%s did not panic", text)
				}
			}()
			_, _ = te.execute(ps, one())
		}()
		if n := te.opts.Store.Metrics()["views_open"]; n != 0 {
			t.Errorf("%s: %v views are open after a panic", text, n)
		}
	}
	te.opts.Limits.WriteTimeoutMillis.Store(1000)
	if _, err := te.query("UPDATE t SET v = 8 WHERE k = 1 IF v = 1", one()); err != nil {
		t.Errorf("the partition is still held: %v", err)
	}
}

// TestRequestsDoNotWaitForEver holds a partition: what needs it is told a timeout.
func TestRequestsDoNotWaitForEver(t *testing.T) {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE t (k int PRIMARY KEY, v int, l list<int>)")
	te.exec(t, "CREATE TABLE n (k int PRIMARY KEY, c counter)")
	te.exec(t, "INSERT INTO t (k, v, l) VALUES (1, 1, [1, 2])")
	te.opts.Limits.WriteTimeoutMillis.Store(5)
	te.opts.Limits.ReadTimeoutMillis.Store(5)
	key, err := store.KeyOf(te.opts.Catalog.Snapshot().Table("ks", "t"), [][]byte{intBytes(1)})
	if err != nil {
		t.Fatal(err)
	}
	held, err := te.opts.Store.Lock(t.Context(), nil, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"INSERT INTO t (k, v) VALUES (1, 2)",
		"UPDATE t SET l[0] = 7 WHERE k = 1",
		"UPDATE t SET v = 7 WHERE k = 1 IF v = 1",
		"UPDATE n SET c = c + 1 WHERE k = 1",
		"BEGIN BATCH INSERT INTO t (k, v) VALUES (1, 2); INSERT INTO t (k, v) VALUES (2, 2); APPLY BATCH",
		"BEGIN BATCH UPDATE t SET l[0] = 7 WHERE k = 1; APPLY BATCH",
	} {
		start := time.Now()
		_, err := te.query(text, one())
		if err == nil || !strings.Contains(err.Error(), "timed out") {
			t.Errorf("%s: %v", text, err)
		}
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("%s took %v", text, d)
		}
	}
	p := one()
	p.Consistency = cqlwire.Serial
	if _, err := te.query("SELECT * FROM t WHERE k = 1", p); err == nil || !strings.Contains(err.Error(), "timed out") {
		t.Errorf("serial read: %v", err)
	}
	held.Unlock()
	te.exec(t, "INSERT INTO t (k, v) VALUES (1, 2)")
}
