package exec

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"varve/internal/cqltype"
	"varve/internal/store"
)

// cells are an answer's rows as text, for comparing.
func cells(t *testing.T, res *Result) []string {
	t.Helper()
	var out []string
	data := res.Data
	for range res.Count {
		var row []string
		for _, c := range res.Columns {
			n := int32(uint32(data[0])<<24 | uint32(data[1])<<16 | uint32(data[2])<<8 | uint32(data[3]))
			data = data[4:]
			if n < 0 {
				row = append(row, "null")
				continue
			}
			row = append(row, string(cqltype.FormatLiteral(nil, c.Type, data[:n])))
			data = data[n:]
		}
		out = append(out, strings.Join(row, " "))
	}
	return out
}

// deadTable has one partition with a span of 1000 deleted rows, one with 200
// dead rows between live ones, and one that is alive.
func deadTable(t *testing.T) *testEngine {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE t (k text, c int, v int, PRIMARY KEY (k, c)) WITH gc_grace_seconds = 3600")
	for c := range 1000 {
		te.exec(t, fmt.Sprintf("DELETE FROM t WHERE k = 'run' AND c = %d", c))
		if c < 400 {
			te.exec(t, fmt.Sprintf("INSERT INTO t (k, c) VALUES ('mixed', %d)", c))
		}
		if c < 400 && c%2 == 0 {
			te.exec(t, fmt.Sprintf("DELETE FROM t WHERE k = 'mixed' AND c = %d", c))
		}
	}
	te.exec(t, "INSERT INTO t (k, c) VALUES ('alive', 1)")
	if err := te.opts.Store.RunBackground(context.Background()); err != nil {
		t.Fatal(err)
	}
	return te
}

func TestTombstoneTables(t *testing.T) {
	te := deadTable(t)
	te.exec(t, "SELECT * FROM t WHERE k = 'mixed'")
	te.exec(t, "SELECT * FROM t WHERE k = 'mixed'")
	te.exec(t, "SELECT * FROM t WHERE k = 'run'")
	te.exec(t, "SELECT * FROM t WHERE k = 'alive'")
	got := cells(t, te.exec(t, `SELECT partition_key, spans, dead_rows, tombstones, walks, most_walked, removable_at FROM varve.tombstones
		WHERE keyspace_name = 'ks' AND table_name = 't'`))
	want := []string{
		"'''mixed''' 0 0 null 2 200 null",
		"'''run''' 1 1000 1000 0 null '2026-01-02T04:04:05.000Z'",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("tombstones:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	got = cells(t, te.exec(t, `SELECT partition_key, "start", "end", rows, tombstones, removable_at, removed_by FROM varve.dead_spans
		WHERE keyspace_name = 'ks' AND table_name = 't'`))
	if len(got) != 1 || !strings.HasPrefix(got[0], "'''run''' '0' '999' 1000 1000 '2026-01-02T04:04:05.000Z' 'purge of the span once") {
		t.Errorf("dead_spans: %q", got)
	}
	st, err := te.opts.Store.TableStats(te.opts.Catalog.Snapshot().Table("ks", "t"))
	if err != nil || st.Walked != 400 || st.Jumped != 1000 {
		t.Errorf("table statistics: %+v, %v", st, err)
	}
	for table, want := range map[string]string{
		"tombstones_per_read": "4 200.0 0.0 200.0", "rows_per_read": "4 200.0 1.0 200.0",
	} {
		got := cells(t, te.exec(t, "SELECT count, max, p50th, p99th FROM system_views."+table+" WHERE keyspace_name = 'ks' AND table_name = 't'"))
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %s", table, got, want)
		}
	}
	for table, want := range map[string]int{"local_read_latency": 1, "local_write_latency": 1, "max_partition_size": 1} {
		if res := te.exec(t, "SELECT * FROM system_views."+table+" WHERE keyspace_name = 'ks' AND table_name = 't'"); res.Count != want {
			t.Errorf("%s: %d rows", table, res.Count)
		}
	}
	var text []string
	for _, table := range []string{"dead_spans", "tombstones", "large_partitions", "slow_queries"} {
		text = append(text, cells(t, te.exec(t, "DESCRIBE TABLE varve."+table))...)
	}
	if n := strings.Count(strings.Join(text, ""), "comment = "); n != 4 {
		t.Errorf("%d comments in the descriptions of 4 tables", n)
	}
}

// TestGuardPartitions: large partitions and many tombstones are logged in
// Cassandra's words, by the look at the tables and by a read, once in a while.
func TestGuardPartitions(t *testing.T) {
	te := deadTable(t)
	var buf bytes.Buffer
	te.opts.Logger = slog.New(slog.NewTextHandler(&buf, nil))
	for c := range 300 {
		te.exec(t, fmt.Sprintf("INSERT INTO t (k, c, v) VALUES ('large', %d, %d)", c*7919, c*104729))
	}
	if err := te.opts.Store.Flush(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	watch := func() string {
		buf.Reset()
		if err := te.watchPartitions(context.Background()); err != nil {
			t.Fatal(err)
		}
		return buf.String()
	}
	if out := watch(); out != "" {
		t.Errorf("logged while off: %s", out)
	}
	rails := &te.Limits().Guardrails
	rails.Set(GuardPartitionSize, 1000, 0)
	rails.Set(GuardPartitionTombstones, 500, 900)
	out := watch()
	for _, want := range []string{
		"level=WARN msg=\"Guardrail partition_size violated: Partition ks.t:'large' has size ",
		"this exceeds the warning threshold of 1000. Too large partitions can cause performance problems.",
		"level=ERROR msg=\"Guardrail partition_tombstones violated: Partition ks.t:'run' has 1000 tombstones, this exceeds the failure threshold of 900.",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	if out := watch(); out != "" {
		t.Errorf("logged again at once: %s", out)
	}
	te.clock.advance(guardLogPeriod + time.Minute)
	rails.Set(GuardPartitionTombstones, 100, 0)
	buf.Reset()
	te.exec(t, "SELECT * FROM t WHERE k = 'mixed'")
	if want := "Partition ks.t:'mixed' has 200 tombstones, this exceeds the warning threshold of 100."; !strings.Contains(buf.String(), want) {
		t.Errorf("a read's log: %q", buf.String())
	}
	if got := cells(t, te.exec(t, "SELECT partition_key FROM varve.large_partitions WHERE keyspace_name = 'ks' AND table_name = 't'")); len(got) == 0 || !strings.Contains(strings.Join(got, ""), "large") {
		t.Errorf("large_partitions: %q", got)
	}
	rails.Set(GuardPartitionSize, 0, 0)
	if got := te.exec(t, "SELECT * FROM varve.large_partitions"); got.Count != 0 {
		t.Errorf("%d partitions over 100 MiB", got.Count)
	}
}

func TestWalksAreBounded(t *testing.T) {
	var w walks
	for i := range 2 * walksKept {
		w.note(walkPlace{"ks", "t", fmt.Sprint(i)}, &store.ReadStats{Walked: 500}, time.Unix(int64(i), 0))
	}
	got := w.of("ks", "t")
	if _, newest := got[fmt.Sprint(2*walksKept-1)]; len(got) != walksKept || !newest {
		t.Errorf("%d kept", len(got))
	}
}
