package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"varve/internal/cql"
	"varve/internal/cqlwire"
)

// slowEngine takes statements of a millisecond for slow ones, and keeps what is logged.
func slowEngine(t *testing.T) (*testEngine, *bytes.Buffer) {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE t (a int, b text, c int, v int, PRIMARY KEY ((a, b), c))")
	var buf bytes.Buffer
	te.slow.mu.Lock()
	te.slow.logger = slog.New(slog.NewTextHandler(&buf, nil))
	te.slow.mu.Unlock()
	te.Limits().SlowQueryMillis.Store(1)
	return te, &buf
}

// slowly runs a statement as if it had begun a second ago.
func (te *testEngine) slowly(t *testing.T, text string, values ...cqlwire.Value) error {
	t.Helper()
	p := one()
	p.Values = values
	ps := te.prepared(t, text)
	_, err := settled(te.execute1(ps, p))
	return err
}

func (te *testEngine) execute1(ps *Prepared, p *Params) (*Result, error) {
	return te.Engine.execute(context.Background(), te.session, ps, p, nil, time.Now().Add(-time.Second))
}

// TestSlowQueriesHidePasswords writes passwords in every way that CQL has.
func TestSlowQueriesHidePasswords(t *testing.T) {
	te, buf := slowEngine(t)
	statements := []string{
		"CREATE ROLE r WITH PASSWORD = 'hemlig' AND LOGIN = true", "create user u with password 'hemlig'",
		"ALTER ROLE r WITH LOGIN = true AND password='hemlig'", "ALTER USER u WITH HASHED PASSWORD 'hemlig'",
		"CREATE ROLE IF NOT EXISTS r WITH HASHED PASSWORD = 'hemlig'",
	}
	for _, text := range statements {
		_ = te.slowly(t, text) // refused or not: it is noted
	}
	te.slow.report()
	kept := te.slow.recent()
	if len(kept) != len(statements) {
		t.Fatalf("%d statements are kept, want %d", len(kept), len(statements))
	}
	for i, q := range kept {
		if strings.Contains(q.text, "hemlig") || !strings.HasSuffix(strings.ToLower(q.text), "password *******") {
			t.Errorf("%s is kept as %s", statements[i], q.text)
		}
	}
	if strings.Contains(buf.String(), "hemlig") {
		t.Errorf("the log tells a password:\n%s", buf)
	}
}

func TestSlowQueries(t *testing.T) {
	te, buf := slowEngine(t)
	for c := range 3 {
		if err := te.slowly(t, "INSERT INTO t (a, b, c, v) VALUES (1, 'x', ?, 1)", boundInt(int32(c))); err != nil {
			t.Fatal(err)
		}
	}
	if err := te.slowly(t, "DELETE FROM t WHERE a = 1 AND b = 'x' AND c = 1"); err != nil {
		t.Fatal(err)
	}
	if err := te.slowly(t, "SELECT * FROM t WHERE a = 1 AND b = 'x'"); err != nil {
		t.Fatal(err)
	}
	if err := te.slowly(t, "SELECT * FROM t WHERE a IN (1, 2) AND b = 'x' ALLOW FILTERING"); err != nil {
		t.Fatal(err)
	}
	if err := te.slowly(t, "UPDATE t SET v = 2 WHERE a = 1 AND b = 'x' AND c = 0 IF v = 1"); err != nil {
		t.Fatal(err)
	}
	if err := te.slowly(t, "SELECT * FROM t WHERE a = ? AND b = 'x'", cqlwire.Value{}); err == nil {
		t.Fatal("a null key was read")
	}
	te.slow.report()
	log := buf.String()
	for _, want := range []string{
		`times=3 avg=1.0`, `table=ks.t partition="(1, 'x')"`, `rows=2 walked=1 jumped=0 query="SELECT * FROM t WHERE a = 1 AND b = 'x'"`,
		`partition="(1, 'x') and others"`, "failed=true",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in\n%s", want, log)
		}
	}
	if n := strings.Count(log, "\n"); n != 6 {
		t.Errorf("%d lines, want one for each of 6 statements:\n%s", n, log)
	}
	buf.Reset()
	te.slow.report()
	if buf.Len() > 0 {
		t.Errorf("reported twice: %s", buf.String())
	}
	te.Limits().SlowQueryMillis.Store(0)
	if err := te.slowly(t, "SELECT * FROM t"); err != nil {
		t.Fatal(err)
	}
	res := te.exec(t, "SELECT partition_key, walked FROM varve.slow_queries WHERE keyspace_name = 'ks' AND table_name = 't'")
	if res.Count != 8 {
		t.Errorf("%d slow queries kept, want 8 (none while the log is off)", res.Count)
	}
}

func TestSlowBatch(t *testing.T) {
	te, buf := slowEngine(t)
	items := []BatchItem{{Text: "INSERT INTO t (a, b, c) VALUES (7, 'y', 1)"}, {Text: "INSERT INTO t (a, b, c) VALUES (8, 'y', 1)"}}
	_, err := settled(te.Engine.batch(context.Background(), te.session, cql.LoggedBatch, items, one(), nil, time.Now().Add(-time.Second)))
	if err != nil {
		t.Fatal(err)
	}
	te.slow.report()
	if want := `partition="(7, 'y')" failed=false rows=0 walked=0 jumped=0 query="BATCH of 2 statements, the first on ks.t"`; !strings.Contains(buf.String(), want) {
		t.Errorf("no %s in %s", want, buf.String())
	}
}

// TestSlowLogBounds: however many statements are slow, memory and the report stay bounded.
func TestSlowLogBounds(t *testing.T) {
	te, buf := slowEngine(t)
	for i := range 3 * slowKept {
		te.slow.add(slowQuery{text: cutText(fmt.Sprint(i, strings.Repeat("é", slowTextBytes)), slowTextBytes), took: time.Second}, 1)
	}
	recent := te.slow.recent()
	if len(recent) != slowKept || !strings.HasPrefix(recent[0].text, fmt.Sprint(2*slowKept)) {
		t.Errorf("%d kept, from %.5s", len(recent), recent[0].text)
	}
	if n := len(recent[0].text); n > slowTextBytes+len("…") || !strings.HasSuffix(recent[0].text, "é…") {
		t.Errorf("text of %d bytes ends %q", n, recent[0].text[n-8:])
	}
	te.slow.report()
	if n := strings.Count(buf.String(), "\n"); n != slowPerReport+1 || !strings.Contains(buf.String(), fmt.Sprint("dropped=", 3*slowKept-slowPerReport)) {
		t.Errorf("%d lines reported", n)
	}
}

// TestFailedTrace: a traced request that failed has a trace id, and its trace.
func TestFailedTrace(t *testing.T) {
	te := newTestEngine(t)
	p := one()
	p.Tracing = true
	for _, text := range []string{"SELECT", "SELECT * FROM no", "INSERT INTO t (k) VALUES (1)"} {
		_, err := te.query(text, p)
		var we *cqlwire.Error
		if !errors.As(err, &we) || we.TraceID == nil {
			t.Fatalf("%s: %v without a trace id", text, err)
		}
		te.tracer.flush()
		res := te.exec(t, fmt.Sprintf("SELECT activity FROM system_traces.events WHERE session_id = %s", formatUUID(*we.TraceID)))
		if !bytes.Contains(res.Data, []byte(we.Message)) {
			t.Errorf("%s: its trace lacks the error", text)
		}
	}
	if _, err := te.query("SELECT * FROM no", one()); errors.As(err, new(*cqlwire.Error)) {
		var we *cqlwire.Error
		errors.As(err, &we)
		if we.TraceID != nil {
			t.Error("a request without tracing has a trace id")
		}
	}
}
