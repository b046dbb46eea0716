package store

import (
	"errors"
	"testing"
)

// TestRecount cuts spans: a read that has to count every tombstone walks what
// is left of them, until the background has counted them anew.
func TestRecount(t *testing.T) {
	e := openEnv(t, Options{ManualBackground: true})
	const n = 40_000
	b := e.s.NewBatch(e.now)
	for c := range n {
		switch {
		case c%4 == 0:
			e.tombstones(b, 1, c)
		default:
			b.Row(e.tab, e.key(1), [][]byte{be8(c)}).Delete(11)
		}
	}
	b.Row(e.tab, e.key(1), [][]byte{be8(n)}).Marker(10, 0)
	e.apply(b)
	e.background()
	tombs := int64(n + n/4) // two for those of every fourth row
	e.insert(1, 1000, 20, "x")
	e.insert(1, 30_001, 20, "y")
	tombs -= 2 + 1 // of those rows
	// With a row deleted again a span is whole, but its parts were guessed.
	e.deleteRow(1, 1000, 21)
	tombs++
	count := func(failAfter int64) (ReadStats, error) {
		t.Helper()
		var st ReadStats
		v := e.s.View(ReadOptions{NowSec: e.now, Stats: &st, FailAfter: failAfter, CountAll: true})
		rows := v.Partition(e.tab, e.key(1), RowQuery{})
		for rows.NextPartition() {
			for rows.Next() {
			}
		}
		err := rows.Close()
		if cerr := v.Close(); cerr != nil {
			t.Error(cerr)
		}
		return st, err
	}
	st, err := count(1 << 40)
	if err != nil || st.Walked != tombs || st.Jumped != 0 {
		t.Fatalf("%v, before: %+v, want %d walked", err, st, tombs)
	}
	e.background()
	st, err = count(1 << 40)
	if err != nil || st.JumpTombs+st.Walked != tombs || st.Walked > 2*minPieceRows || st.Spans == 0 {
		t.Fatalf("%v, after: %+v, want %d in spans", err, st, tombs)
	}
	if got := e.s.Metrics()["dead_spans_recounted_total"]; got == 0 {
		t.Error("nothing was counted anew")
	}
	if _, err := count(tombs); err != nil {
		t.Error(err)
	}
	var tooMany *TombstoneError
	if _, err := count(tombs - 1); !errors.As(err, &tooMany) {
		t.Errorf("a limit below the count: %v", err)
	}
	got, _ := e.show(1, RowQuery{})
	e.want(got, "1|30001:y 40000:")
}

// tombstones adds a row that is nothing but two tombstones of cells.
func (e *env) tombstones(b *Batch, p, c int) {
	r := b.Row(e.tab, e.key(p), [][]byte{be8(c)})
	r.Unset(e.tab.Columns["body"], 11)
	r.Unset(e.tab.Columns["author"], 11)
}
