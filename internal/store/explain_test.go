package store

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func (e *env) explain(p int, o ExplainOptions) *Explanation {
	e.t.Helper()
	o.NowSec = e.now
	if o.MaxRows == 0 {
		o.MaxRows = 1 << 20
	}
	if o.PageRows == 0 {
		o.PageRows = 50
	}
	x, err := e.s.Explain(context.Background(), e.tab, e.key(p), o)
	if err != nil {
		e.t.Fatal(err)
	}
	x.Forward.Took, x.Backward.Took, x.DiskBytes = 0, 0, 0
	return x
}

// TestExplainCauses kills one row in each way there is, and counts each once,
// by what killed it, before and after a flush.
func TestExplainCauses(t *testing.T) {
	e := openEnv(t, Options{ManualBackground: true})
	body, tags := e.tab.Columns["body"], e.tab.Columns["tags"]
	row := func(c int, f func(*RowBuilder)) {
		b := e.s.NewBatch(e.now)
		f(b.Row(e.tab, e.key(1), [][]byte{be8(c)}))
		e.apply(b)
	}
	for c := range 20 {
		if c < 2 || c >= 10 {
			e.insert(1, c, 10, "x")
		}
	}
	e.deleteRow(1, 0, 20)
	row(2, func(r *RowBuilder) { r.Marker(10, 5); r.Set(body, 10, 5, []byte("x")) }) // row TTL
	row(3, func(r *RowBuilder) { r.Set(body, 10, 7, []byte("x")) })                  // cell TTL
	row(4, func(r *RowBuilder) { r.Unset(body, 10) })                                // column tombstone
	row(5, func(r *RowBuilder) { r.Clear(tags, 10) })                                // the same
	row(1, func(r *RowBuilder) { r.Unset(body, 20); r.Clear(tags, 20) })             // dead cells in a live row
	row(6, func(r *RowBuilder) { r.Marker(10, 1000); r.Set(body, 10, 1000, []byte("x")) })
	b := e.s.NewBatch(e.now)
	b.DeleteRange(e.tab, e.key(1), Slice{from(10), past(13)}, 30)
	b.DeleteRange(e.tab, e.key(1), Slice{from(15), past(17)}, 30)
	b.Row(e.tab, e.key(1), nil).Unset(e.tab.Columns["s"], 20)
	e.apply(b)
	start := e.now
	e.now += 100
	// A row deletion in a range that a newer deletion covers counts as the range's.
	want := &Explanation{
		LiveRows: 7, DeadRows: 10, DeadCells: 2, Static: StaticDead, RangeDeletions: 2,
		Causes:         DeadCauses{RowDeletion: 1, RangeDeletion: 5, RowTTL: 1, CellTTL: 1, ColumnTombstones: 2},
		OldestDeletion: start, NewestDeletion: start + 7, NextExpiry: start + 1000,
	}
	check := func(when string) {
		t.Helper()
		got := e.explain(1, ExplainOptions{})
		if got.LiveBytes == 0 || got.DeadBytes == 0 || got.Forward.Rows != 7 || got.Forward.Walked != got.Backward.Walked {
			t.Errorf("%s: %+v", when, got)
		}
		got.LiveBytes, got.DeadBytes, got.Forward, got.Backward = 0, 0, PageCost{}, PageCost{}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: (-want +got)\n%s", when, d)
		}
	}
	check("in memory")
	if err := e.s.Flush(context.Background(), e.tab); err != nil {
		t.Fatal(err)
	}
	check("flushed")
	before := e.tableStats().Reads
	e.explain(1, ExplainOptions{})
	if after := e.tableStats().Reads; after != before {
		t.Errorf("an explanation counted as %d reads", after-before)
	}
	part := e.explain(1, ExplainOptions{Slices: []Slice{{from(10), past(12)}}})
	if part.DeadRows != 2 || part.LiveRows != 0 || part.RangeDeletions != 1 {
		t.Errorf("slice: %+v", part)
	}
	b = e.s.NewBatch(e.now)
	b.DeletePartition(e.tab, e.key(1), 40)
	e.apply(b)
	gone := e.explain(1, ExplainOptions{})
	if gone.LiveRows != 0 || gone.Causes.PartitionDeletion != gone.DeadRows || gone.PartitionDeleted != e.now {
		t.Errorf("partition deleted: %+v", gone)
	}
}

func (e *env) tableStats() TableStats {
	e.t.Helper()
	st, err := e.s.TableStats(e.tab)
	if err != nil {
		e.t.Fatal(err)
	}
	return st
}

// TestExplainBounds stops at a bound, says where, and tells of the dead rows
// past it what the spans know.
func TestExplainBounds(t *testing.T) {
	e := openEnv(t, Options{ManualBackground: true})
	const n = 2000
	for c := range n {
		e.deleteRow(1, c, 10)
	}
	e.insert(1, n, 20, "alive")
	e.background()
	x := e.explain(1, ExplainOptions{})
	if x.DeadRows != n || x.LiveRows != 1 || x.Stopped || x.Spans.Count != 1 || x.Spans.Rows != n || x.Spans.Estimated {
		t.Fatalf("whole: %+v", x)
	}
	if f := x.Forward; f.Rows != 1 || f.Walked != 0 || f.Jumped != n || f.Spans != 1 {
		t.Errorf("forward page: %+v", f)
	}
	x = e.explain(1, ExplainOptions{MaxRows: 100, Slices: []Slice{{from(0), past(50)}, {from(60), Bound{}}}})
	if !x.Stopped || x.DeadRows != 100 || len(x.StoppedAt) != 1 || string(x.StoppedAt[0]) != string(be8(109)) {
		t.Errorf("bounded: %+v", x)
	}
	x = e.explain(1, ExplainOptions{Deadline: time.Now().Add(-time.Second)})
	if !x.Stopped || x.DeadRows != 0 || x.SpanRowsLeft != n {
		t.Errorf("late: %+v", x)
	}
	if x := e.explain(2, ExplainOptions{}); x.DeadRows+x.LiveRows+x.Spans.Count != 0 || x.Stopped {
		t.Errorf("empty partition: %+v", x)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := e.s.Explain(ctx, e.tab, e.key(1), ExplainOptions{MaxRows: 1 << 20}); err == nil {
		t.Error("a canceled explanation went on")
	}
}
