package store_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
	"varve/internal/vtest"
)

func counterTable() *schema.Table {
	return vtest.NewTable(7, "t", vtest.PK("p", cqltype.Int), vtest.Col("v", cqltype.Counter))
}

func increment(st *store.Store, tab *schema.Table, k store.Key, delta int64) (store.Commit, error) {
	b := st.NewBatch(1)
	b.Row(tab, k, [][]byte{}).Increment(tab.Columns["v"], delta)
	return st.Apply(tContext, b, false)
}

// TestCountersAddUp increments shared counters from many goroutines, then
// cuts the power: no acknowledged increment may be lost, none doubled.
func TestCountersAddUp(t *testing.T) {
	tab := counterTable()
	fs := vfs.NewCrashableMem()
	st := mustOpen(t, memOptions(fs, 2))
	const workers, each, counters = 6, 40, 2
	var sums [counters]atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 6))
			for range each {
				n, delta := r.IntN(counters), int64(r.IntN(100))-40
				c, err := increment(st, tab, mustKey(t, tab, be32(n)), delta)
				if err == nil {
					err = c.Wait()
				}
				if err != nil {
					t.Error(err)
					return
				}
				sums[n].Add(delta)
			}
		})
	}
	wg.Wait()
	check := func(when string, st *store.Store) {
		for n := range sums {
			if got := readBigint(t, st, tab, mustKey(t, tab, be32(n))); got != sums[n].Load() {
				t.Errorf("%s: counter %d is %d, increments add up to %d", when, n, got, sums[n].Load())
			}
		}
	}
	check("running", st)
	if err := st.Flush(tContext, nil); err != nil {
		t.Fatal(err)
	}
	check("flushed", st)
	if err := st.Compact(tContext, tab); err != nil {
		t.Fatal(err)
	}
	check("compacted", st)
	after := fs.CrashClone(vfs.CrashCloneCfg{})
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	st = mustOpen(t, memOptions(after, 2))
	check("after a crash", st)
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}

// TestCounterInOneBatchTwice adds twice to one counter in one batch.
func TestCounterInOneBatchTwice(t *testing.T) {
	tab := counterTable()
	st := mustOpen(t, memOptions(vfs.NewMem(), 1))
	k := mustKey(t, tab, be32(1))
	b := st.NewBatch(1)
	b.Row(tab, k, [][]byte{}).Increment(tab.Columns["v"], 5)
	b.Row(tab, k, [][]byte{}).Increment(tab.Columns["v"], -7)
	if err := applyWait(st, b, false); err != nil {
		t.Fatal(err)
	}
	if got := readBigint(t, st, tab, k); got != -2 {
		t.Errorf("5 - 7 = %d", got)
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}

// TestDeletedCounterIsGone deletes counters by cell, row and partition.
func TestDeletedCounterIsGone(t *testing.T) {
	tab := counterTable()
	deletions := map[string]func(*store.Batch, store.Key){
		"cell":      func(b *store.Batch, k store.Key) { b.Row(tab, k, [][]byte{}).Unset(tab.Columns["v"], 1<<60) },
		"row":       func(b *store.Batch, k store.Key) { b.Row(tab, k, [][]byte{}).Delete(1 << 60) },
		"partition": func(b *store.Batch, k store.Key) { b.DeletePartition(tab, k, 1<<60) },
	}
	for name, del := range deletions {
		t.Run(name, func(t *testing.T) {
			st := mustOpen(t, memOptions(vfs.NewMem(), 1))
			k := mustKey(t, tab, be32(1))
			c, err := increment(st, tab, k, 9)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Wait(); err != nil {
				t.Fatal(err)
			}
			b := st.NewBatch(1)
			del(b, k)
			if err := applyWait(st, b, false); err != nil {
				t.Fatal(err)
			}
			parts, err := readPartition(st, tab, [][]byte{be32(1)}, store.RowQuery{}, 1)
			if err != nil {
				t.Fatal(err)
			}
			if len(parts) != 0 {
				t.Errorf("a deleted counter is still there: %v", vtest.Lines(parts))
			}
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCounterBatch deletes and increments in one batch, many rows of them:
// what was deleted stays so, and counting begins again after a row's deletion.
func TestCounterBatch(t *testing.T) {
	tab := vtest.NewTable(7, "t", vtest.PK("p", cqltype.Int), vtest.CK("c", cqltype.Int),
		vtest.Col("v", cqltype.Counter), vtest.Col("w", cqltype.Counter))
	o := memOptions(vfs.NewMem(), 1)
	now := time.Unix(1000, 0)
	o.Clock = func() time.Time { return now }
	st := mustOpen(t, o)
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	k := mustKey(t, tab, be32(1))
	const rows = 40
	for round, change := range []func(b *store.Batch, ck [][]byte, ts int64){
		func(b *store.Batch, ck [][]byte, _ int64) {
			b.Row(tab, k, ck).Increment(tab.Columns["v"], 5)
			b.Row(tab, k, ck).Increment(tab.Columns["w"], 1)
		},
		func(b *store.Batch, ck [][]byte, ts int64) {
			b.Row(tab, k, ck).Delete(ts)
			b.Row(tab, k, ck).Increment(tab.Columns["v"], 7)
		},
		func(b *store.Batch, ck [][]byte, ts int64) {
			b.Row(tab, k, ck).Increment(tab.Columns["v"], 1)
			b.Row(tab, k, ck).Unset(tab.Columns["w"], ts)
			b.Row(tab, k, ck).Increment(tab.Columns["w"], 3)
		},
	} {
		now = now.Add(time.Second)
		b, ts := st.NewBatch(now.Unix()), now.UnixMicro()-1
		for c := range rows {
			change(b, [][]byte{be32(c)}, ts)
		}
		if err := applyWait(st, b, false); err != nil {
			t.Fatal(err)
		}
		want := [][2]int64{{5, 1}, {0, 0}, {1, 0}}[round]
		v := st.View(store.ReadOptions{NowSec: now.Unix(), Stats: &store.ReadStats{}})
		it, n := v.Partition(tab, k, store.RowQuery{}), 0
		for it.NextPartition() {
			for it.Next() {
				var got [2]int64
				for i, name := range []string{"v", "w"} {
					if x := it.Row().Value(tab.Columns[name]); x != nil {
						got[i] = int64(binary.BigEndian.Uint64(x))
					}
				}
				if n++; got != want {
					t.Errorf("round %d, row %d: %v, want %v", round, n, got, want)
				}
			}
		}
		if err := errors.Join(it.Close(), v.Close()); err != nil || n != []int{rows, 0, rows}[round] {
			t.Errorf("round %d: %d rows, %v", round, n, err)
		}
	}
}

// TestCounterBatchDeletesAround deletes ranges and partitions in a batch with
// increments, before and after them: the deletions win, rows beside them count,
// and counting begins again afterwards.
func TestCounterBatchDeletesAround(t *testing.T) {
	tab := vtest.NewTable(7, "t", vtest.PK("p", cqltype.Int), vtest.CK("c", cqltype.Int), vtest.Col("v", cqltype.Counter))
	one := store.Bound{Prefix: [][]byte{be32(1)}, Inclusive: true}
	dels := map[string]func(b *store.Batch, k store.Key, ts int64){
		"partition": func(b *store.Batch, k store.Key, ts int64) { b.DeletePartition(tab, k, ts) },
		"range": func(b *store.Batch, k store.Key, ts int64) {
			b.DeleteRange(tab, k, store.Slice{Start: one, End: one}, ts)
		},
	}
	for name, del := range dels {
		for _, first := range []bool{true, false} {
			o := memOptions(vfs.NewMem(), 1)
			now := time.Unix(1000, 0)
			o.Clock = func() time.Time { return now }
			st := mustOpen(t, o)
			k, other := mustKey(t, tab, be32(1)), mustKey(t, tab, be32(2))
			apply := func(delta int64, withDel bool) {
				t.Helper()
				now = now.Add(time.Second)
				b, ts := st.NewBatch(now.Unix()), now.UnixMicro()-1
				if withDel && first {
					del(b, k, ts)
				}
				b.Row(tab, k, [][]byte{be32(1)}).Increment(tab.Columns["v"], delta)
				b.Row(tab, other, [][]byte{be32(1)}).Increment(tab.Columns["v"], delta)
				if withDel && !first {
					del(b, k, ts)
				}
				if err := applyWait(st, b, false); err != nil {
					t.Fatal(err)
				}
			}
			check := func(when string, p int, want ...int64) {
				t.Helper()
				var got []int64
				v := st.View(store.ReadOptions{NowSec: now.Unix(), Stats: &store.ReadStats{}})
				it := v.Partition(tab, mustKey(t, tab, be32(p)), store.RowQuery{})
				for it.NextPartition() {
					for it.Next() {
						got = append(got, int64(binary.BigEndian.Uint64(it.Row().Value(tab.Columns["v"]))))
					}
				}
				if err := errors.Join(it.Close(), v.Close()); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s (first: %v), %s: partition %d holds %v, want %v", name, first, when, p, got, want)
				}
			}
			apply(5, false)
			apply(1, true)
			check("with the deletion", 1)
			check("with the deletion", 2, 6)
			apply(7, false)
			check("later", 1, 7)
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
