package store

import (
	"errors"
	"testing"
)

// TestJumpedTombstones counts the tombstones in a span as a walk over its rows
// does: none for a row that only a range deletion killed, one for a deleted
// row, one for each expired cell.
func TestJumpedTombstones(t *testing.T) {
	e := openEnv(t, Options{ManualBackground: true})
	b := e.s.NewBatch(e.now)
	for c := range 300 {
		ttl := int32(0)
		if c >= 200 {
			ttl = 50
		}
		r := b.Row(e.tab, e.key(1), [][]byte{be8(c)})
		r.Marker(10, ttl)
		r.Set(e.tab.Columns["body"], 10, ttl, []byte("x"))
		r.Set(e.tab.Columns["author"], 10, ttl, []byte("y"))
	}
	b.Row(e.tab, e.key(1), [][]byte{be8(300)}).Marker(10, 0)
	e.apply(b)
	e.now += 60
	b = e.s.NewBatch(e.now)
	b.DeleteRange(e.tab, e.key(1), Slice{from(100), past(140)}, 11)
	e.apply(b)
	for c := range 200 {
		if c < 100 || c >= 140 {
			e.deleteRow(1, c, 11)
		}
	}
	const tombs = 100 + 60 + 2*100
	got, st := e.show(1, RowQuery{})
	e.want(got, "1|300:")
	if st.Walked != tombs {
		t.Fatalf("walked: %+v", st)
	}
	e.background()
	for _, read := range []func(*View) *Rows{
		func(v *View) *Rows { return v.Partition(e.tab, e.key(1), RowQuery{}) },
		func(v *View) *Rows { return v.Partition(e.tab, e.key(1), RowQuery{Reverse: true}) },
		func(v *View) *Rows {
			return v.Range(e.tab, TokenRange{StartUnbounded: true, EndUnbounded: true}, RowQuery{}, nil)
		},
	} {
		for _, failAfter := range []int64{tombs, tombs - 1} {
			var st ReadStats
			v := e.s.View(ReadOptions{NowSec: e.now, Stats: &st, FailAfter: failAfter, CountAll: true})
			rows := read(v)
			n := 0
			for rows.NextPartition() {
				for rows.Next() {
					n++
				}
			}
			err := rows.Close()
			if cerr := v.Close(); cerr != nil {
				t.Error(cerr)
			}
			var tooMany *TombstoneError
			if fails := failAfter < tombs; fails != errors.As(err, &tooMany) || !fails && n != 1 || st.Spans != 1 {
				t.Errorf("limit %d: %d rows, %v, %+v", failAfter, n, err, st)
			}
		}
	}
	if _, st = e.show(1, RowQuery{}); st.Walked != 0 || st.Spans != 1 || st.Jumped != 300 || st.JumpTombs != tombs {
		t.Errorf("jumped: %+v", st)
	}
}
