package store

import (
	"context"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"varve/internal/schema"
)

// death is a way in which rows die.
type death struct {
	name string
	make func(e *env, r *RowBuilder)        // what the row is before
	kill func(e *env, p, c int)             // one row
	many func(e *env, p, from, to int) bool // several at once, where it does that
}

func (e *env) col(name string) *schema.Column { return e.tab.Columns[name] }

func (e *env) one(p, c int, f func(r *RowBuilder)) {
	e.t.Helper()
	b := e.s.NewBatch(e.now)
	f(b.Row(e.tab, e.key(p), [][]byte{be8(c)}))
	e.apply(b)
}

var deaths = []death{
	{"row deletes", insertRow, func(e *env, p, c int) { e.deleteRow(p, c, 11) }, nil},
	{"ttl of rows", func(e *env, r *RowBuilder) {
		r.Marker(10, 50)
		r.Set(e.col("body"), 10, 50, []byte("x"))
	}, nil, nil},
	{"ttl of cells of rows without a marker", func(e *env, r *RowBuilder) {
		r.Set(e.col("body"), 10, 50, []byte("x"))
		r.Set(e.col("author"), 10, 40, []byte("x"))
	}, nil, nil},
	{"column tombstones", func(e *env, r *RowBuilder) { r.Set(e.col("body"), 10, 0, []byte("x")) }, func(e *env, p, c int) {
		e.one(p, c, func(r *RowBuilder) { r.Unset(e.col("body"), 11) })
	}, nil},
	{"nulls bound in updates", func(e *env, r *RowBuilder) {
		r.Set(e.col("body"), 10, 0, []byte("x"))
		r.Unset(e.col("author"), 10)
	}, func(e *env, p, c int) {
		e.one(p, c, func(r *RowBuilder) {
			r.Unset(e.col("body"), 12)
			r.Unset(e.col("author"), 12)
		})
	}, nil},
	{"overwritten collections", func(e *env, r *RowBuilder) { r.SetElement(e.col("tags"), be4(1), 10, 0, nil) }, func(e *env, p, c int) {
		e.one(p, c, func(r *RowBuilder) { r.Clear(e.col("tags"), 11) })
	}, nil},
	{"elements taken away", func(e *env, r *RowBuilder) {
		r.SetElement(e.col("tags"), be4(1), 10, 0, nil)
		r.SetElement(e.col("tags"), be4(2), 10, 0, nil)
	}, func(e *env, p, c int) {
		e.one(p, c, func(r *RowBuilder) {
			r.UnsetElement(e.col("tags"), be4(1), 11)
			r.UnsetElement(e.col("tags"), be4(2), 11)
		})
	}, nil},
	{"a range deletion", insertRow, nil, func(e *env, p, from0, to int) bool {
		b := e.s.NewBatch(e.now)
		b.DeleteRange(e.tab, e.key(p), Slice{from(from0), past(to)}, 11)
		e.apply(b)
		return true
	}},
	{"a partition deletion", insertRow, nil, func(e *env, p, from, to int) bool {
		if from == 0 {
			b := e.s.NewBatch(e.now)
			b.DeletePartition(e.tab, e.key(p), 11)
			e.apply(b)
			b = e.s.NewBatch(e.now)
			b.Row(e.tab, e.key(p), [][]byte{be8(to)}).Marker(12, 0)
			e.apply(b)
		}
		return true
	}},
}

func insertRow(e *env, r *RowBuilder) {
	r.Marker(10, 0)
	r.Set(e.col("body"), 10, 0, []byte("x"))
	r.SetElement(e.col("tags"), be4(1), 10, 0, nil)
}

func (x *death) apply(e *env, p, from, to int) {
	if x.many != nil && x.many(e, p, from, to) {
		return
	}
	for c := from; c < to && x.kill != nil; c++ {
		x.kill(e, p, c)
	}
}

// TestEveryDeathIsSkipped kills the first rows of a partition in every way and
// reads what is left, in both directions and by token ranges: before the
// background acted a read walks, afterwards it jumps, and in time nothing is
// left on disk.
func TestEveryDeathIsSkipped(t *testing.T) {
	const n = 700
	for _, x := range deaths {
		t.Run(x.name, func(t *testing.T) {
			e := openEnv(t, Options{ManualBackground: true})
			b := e.s.NewBatch(e.now)
			for c := range n {
				x.make(e, b.Row(e.tab, e.key(1), [][]byte{be8(c)}))
			}
			b.Row(e.tab, e.key(1), [][]byte{be8(n)}).Marker(10, 0)
			e.apply(b)
			x.apply(e, 1, 0, n)
			e.now += 60
			want := fmt.Sprintf("1|%d:", n)
			got, _ := e.show(1, RowQuery{})
			e.want(got, want)
			e.background()
			for _, q := range []RowQuery{{}, {Reverse: true}} {
				got, st := e.show(1, q)
				e.want(got, want)
				if st.Walked != 0 {
					t.Errorf("%+v walks: %+v", q, st)
				}
			}
			if got, st := e.ranged(); got != want || st.Walked != 0 {
				t.Errorf("a token range gives %q and walks: %+v", got, st)
			}
			e.now += int64(e.tab.Options.GCGraceSeconds) + 100
			if err := e.s.sweepTick(context.Background(), false); err != nil {
				t.Fatal(err)
			}
			e.background()
			e.background()
			if rows, heads, spans := e.keys(familyRow), e.keys(familyHead), e.keys(familySpan); rows != 1 || heads != 0 || spans != 0 {
				t.Errorf("%d rows, %d head deletions and %d spans on disk after gc_grace, want 1, 0, 0", rows, heads, spans)
			}
			got, _ = e.show(1, RowQuery{})
			e.want(got, want)
		})
	}
}

// ranged reads the whole table.
func (e *env) ranged() (string, ReadStats) {
	e.t.Helper()
	var st ReadStats
	v := e.s.View(ReadOptions{NowSec: e.now, Stats: &st})
	defer v.Close()
	return e.rows(v.Range(e.tab, TokenRange{StartUnbounded: true, EndUnbounded: true}, RowQuery{}, nil)), st
}

// TestDeathsSpreadOverPartitions kills one row, or the static row, in each of
// many partitions: a scan jumps over those stretches without having walked them before.
func TestDeathsSpreadOverPartitions(t *testing.T) {
	const parts = 3000
	for _, x := range append(deaths, death{name: "static leftovers"}) {
		if x.kill == nil && x.name != "static leftovers" {
			continue
		}
		t.Run(x.name, func(t *testing.T) {
			e := openEnv(t, Options{ManualBackground: true})
			for p := range parts {
				b := e.s.NewBatch(e.now)
				if x.kill != nil {
					x.make(e, b.Row(e.tab, e.key(p), [][]byte{be8(1)}))
				} else {
					b.Row(e.tab, e.key(p), nil).Set(e.col("s"), 10, 0, []byte("s"))
				}
				e.apply(b)
			}
			for p := range parts {
				if x.kill != nil {
					x.kill(e, p, 1)
					continue
				}
				b := e.s.NewBatch(e.now)
				b.Row(e.tab, e.key(p), nil).Unset(e.col("s"), 11)
				e.apply(b)
			}
			e.insert(77, 2, 10, "alive")
			e.background()
			got, st := e.ranged()
			e.want(got, "77|2:alive")
			if st.Walked > 2*minPieceRows || st.Jumped < parts-2*minPieceRows {
				t.Errorf("%+v", st)
			}
			if st.Spans > 4 {
				t.Errorf("%d spans for what lies in a row", st.Spans)
			}
		})
	}
}

// headSteps is what reading a partition's head costs the engine, and its keys.
func (e *env) headSteps(p int) (keys, steps int) {
	e.t.Helper()
	prefix := appendPartition(nil, e.tab.PhysID, familyRow, e.key(p))
	it, err := e.s.shards[0].db.NewIter(nil)
	if err != nil {
		e.t.Fatal(err)
	}
	var c headCursor
	if err := c.reset(it, prefix, nil); err != nil {
		e.t.Fatal(err)
	}
	for c0 := range 20 {
		if _, err := c.at(append([]byte(nil), mustSuffix(e, c0*50)...)); err != nil {
			e.t.Fatal(err)
		}
	}
	st := it.Stats()
	if err := it.Close(); err != nil {
		e.t.Fatal(err)
	}
	return e.keys(familyHead), st.ForwardStepCount[pebble.InternalIterCall]
}

func mustSuffix(e *env, c int) []byte {
	s, err := appendSuffix(nil, e.tab, [][]byte{be8(c)})
	if err != nil {
		e.t.Fatal(err)
	}
	return s
}

// TestNestedRangeDeletions deletes from a point on, the point falling, and up
// to a point, the point rising, tens of thousands of times, with inserts in
// between: heads, spans, steps and memory stay as small as after the first.
func TestNestedRangeDeletions(t *testing.T) {
	n := 24_000
	if raceEnabled {
		n = 3_000
	}
	for _, rising := range []bool{false, true} {
		t.Run(fmt.Sprintf("rising=%v", rising), func(t *testing.T) {
			d := openDisk(t)
			most := 0
			for i := range n {
				b := d.s.NewBatch(d.now)
				sl := Slice{Start: from(2*n - i)}
				if rising {
					sl = Slice{End: past(i)}
				}
				at := 2*n - i
				if rising {
					at = i + 1 // the row past the range
				}
				b.DeleteRange(d.tab, d.key(1), sl, int64(100+i))
				b.Row(d.tab, d.key(1), [][]byte{be8(at - 1)}).Marker(int64(100+i), 0)
				d.apply(b)
				if i%1000 == 999 {
					d.s.shards[0].flushHeads()
					d.ticks(1)
					keys, steps := d.headSteps(1)
					if keys > 2 {
						t.Fatalf("%d head keys after %d deletions", keys, i+1)
					}
					most = max(most, steps)
				}
			}
			d.ticks(30)
			if _, steps := d.headSteps(1); steps > 100 || most > 2*headChanges {
				t.Errorf("%d steps to read the head, up to %d meanwhile", steps, most)
			}
			if got := d.count(1); got != 1 {
				t.Errorf("%d rows", got)
			}
			if got, m := d.keys(familyRow), d.s.Metrics(); got > 3 || m["dead_spans"] > 2 || m["memtable_bytes"] > 64<<20 {
				t.Errorf("%d rows on disk, %.0f spans, %.0f bytes of memtables", got, m["dead_spans"], m["memtable_bytes"])
			}
		})
	}
}

// TestDisjointRangeDeletions has as many range deletions in one partition, with
// live rows between them: a page costs its chunks, and a read of all is linear.
func TestDisjointRangeDeletions(t *testing.T) {
	n := 20_000
	if raceEnabled {
		n = 2_000
	}
	d := openDisk(t)
	d.fill(1, 0, 5*n, 10, 0)
	for i, at := range d.r.Perm(n) {
		b := d.s.NewBatch(d.now)
		b.DeleteRange(d.tab, d.key(1), Slice{from(5 * at), past(5*at + 4)}, 11)
		d.apply(b)
		if i%1000 == 999 {
			d.s.shards[0].flushHeads()
			d.ticks(1)
		}
	}
	d.ticks(30)
	if got := d.count(1); got != int64(n) {
		t.Errorf("%d rows, want %d", got, n)
	}
	keys, steps := d.headSteps(1)
	if keys > n/10 || steps > 200 {
		t.Errorf("%d chunks, %d steps to look 20 rows up", keys, steps)
	}
	if got := d.keys(familyRow); got != n {
		t.Errorf("%d rows on disk, want only the %d that live", got, n)
	}
	if got := d.steps(1); got > 1.1 {
		t.Errorf("%.2f steps of the engine a row", got)
	}
}
