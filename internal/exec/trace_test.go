package exec

import (
	"strings"
	"testing"

	"varve/internal/cqlwire"
)

// traced runs a traced statement and returns its session and events once they are written.
func (te *testEngine) traced(t *testing.T, text string) (session, events string) {
	t.Helper()
	res, err := te.query(text, &Params{Consistency: cqlwire.Quorum, Tracing: true})
	if err != nil {
		t.Fatal(err)
	}
	if res.TraceID == nil {
		t.Fatal("the answer has no trace id")
	}
	te.tracer.flush()
	var s, ev strings.Builder
	id := formatUUID(*res.TraceID)
	printRows(&s, te.exec(t, "SELECT request, parameters, duration, client FROM system_traces.sessions WHERE session_id = "+id))
	printRows(&ev, te.exec(t, "SELECT activity, thread, source FROM system_traces.events WHERE session_id = "+id))
	return s.String(), ev.String()
}

func TestTrace(t *testing.T) {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE t (k int PRIMARY KEY, v int)")
	s, ev := te.traced(t, "INSERT INTO t (k, v) VALUES (1, 1)")
	for _, want := range []string{"Execute CQL3 query", "'consistency_level': 'QUORUM'", "'127.0.0.1'", "(1 rows)"} {
		if !strings.Contains(s, want) {
			t.Errorf("no %q in session:\n%s", want, s)
		}
	}
	for _, want := range []string{"Parsing INSERT INTO t", "Preparing statement", "MutationStage", "'127.0.0.1'"} {
		if !strings.Contains(ev, want) {
			t.Errorf("no %q in events:\n%s", want, ev)
		}
	}
	_, ev = te.traced(t, "SELECT * FROM t WHERE k = 1")
	if !strings.Contains(ev, "live rows and") {
		t.Errorf("a read's trace does not tell what it read:\n%s", ev)
	}
	if res := te.exec(t, "SELECT * FROM t"); res.TraceID != nil {
		t.Error("traced without being asked")
	}
}
