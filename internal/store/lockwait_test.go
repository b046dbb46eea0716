package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"varve/internal/cqltype"
	"varve/internal/store"
	"varve/internal/vtest"
)

// TestWaitsEndWithTheContext holds a partition: everything that needs it gives up
// when its context ends, having done nothing, and works once it is free.
func TestWaitsEndWithTheContext(t *testing.T) {
	tab := vtest.NewTable(7, "t", vtest.PK("p", cqltype.Int), vtest.CK("c", cqltype.Int), vtest.Col("v", cqltype.Counter))
	other := vtest.NewTable(8, "u", vtest.PK("p", cqltype.Int), vtest.CK("c", cqltype.Int))
	for _, shards := range []int{1, 2} {
		st := mustOpen(t, memOptions(vfs.NewMem(), shards))
		k, free := mustKey(t, tab, be32(1)), mustKey(t, tab, be32(2))
		row := func(ctx context.Context, wait time.Duration, keys ...store.Key) error {
			b := st.NewBatch(1)
			b.WaitAtMost(wait)
			for _, k := range keys {
				b.Row(other, k, [][]byte{be32(1)}).Marker(1, 0)
			}
			c, err := st.Apply(ctx, b, true)
			if err != nil {
				return err
			}
			return c.Wait()
		}
		work := map[string]func(ctx context.Context) error{
			"lock": func(ctx context.Context) error {
				l, err := st.Lock(ctx, tab, free, k)
				if err == nil {
					l.Unlock()
				}
				return err
			},
			"write":          func(ctx context.Context) error { return row(ctx, 0, k) },
			"batch":          func(ctx context.Context) error { return row(ctx, 0, free, k) },
			"patient write":  func(context.Context) error { return row(context.Background(), 5*time.Millisecond, k) },
			"patient batch":  func(context.Context) error { return row(context.Background(), 5*time.Millisecond, k, free) },
			"truncate":       func(ctx context.Context) error { return st.Truncate(ctx, tab) },
			"drop":           func(ctx context.Context) error { return st.DropPhys(ctx, 99) },
			"snapshot":       func(ctx context.Context) error { return st.Snapshot(ctx, "snap") },
			"range deletion": func(ctx context.Context) error { return deleteAll(ctx, st, k) },
			"increment":      func(ctx context.Context) error { return countUp(ctx, st, k) },
		}
		for name, f := range work {
			held, err := st.Lock(tContext, tab, k)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(tContext, 5*time.Millisecond)
			if err := f(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%d shards, %s while the partition is held: %v", shards, name, err)
			}
			cancel()
			held.Unlock()
			if err := f(tContext); err != nil {
				t.Errorf("%d shards, %s after that: %v", shards, name, err)
			}
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestLoggedBatchGivesUpWhole holds a partition of logged batches over two shards:
// one that gives up waiting leaves nothing behind, then or in the batch log.
func TestLoggedBatchGivesUpWhole(t *testing.T) {
	tab := vtest.NewTable(7, "t", vtest.PK("p", cqltype.Int), vtest.CK("c", cqltype.Int), vtest.Col("v", cqltype.Bigint))
	o := memOptions(vfs.NewMem(), 2)
	st := mustOpen(t, o)
	k := mustKey(t, tab, be32(0))
	held, err := st.Lock(tContext, tab, k)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 16 { // in both shards
		b := st.NewBatch(1)
		b.WaitAtMost(time.Millisecond)
		b.Row(tab, k, [][]byte{be32(1)}).Marker(1, 0)
		b.Row(tab, mustKey(t, tab, be32(i+1)), [][]byte{be32(1)}).Marker(1, 0)
		if _, err := st.Apply(tContext, b, true); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("batch with partition %d: %v", i+1, err)
		}
	}
	held.Unlock()
	for _, when := range []string{"", ", opened again"} {
		rows, err := readAllRows(st, tab, 1)
		if err != nil || len(rows) > 0 {
			t.Errorf("rows of batches that gave up%s: %v, %v", when, rows, err)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		if when == "" {
			st = mustOpen(t, o)
		}
	}
}

func deleteAll(ctx context.Context, st *store.Store, k store.Key) error {
	t := vtest.NewTable(8, "u", vtest.PK("p", cqltype.Int), vtest.CK("c", cqltype.Int))
	b := st.NewBatch(1)
	b.DeleteRange(t, k, store.Slice{}, 5)
	c, err := st.Apply(ctx, b, false)
	if err != nil {
		return err
	}
	return c.Wait()
}

func countUp(ctx context.Context, st *store.Store, k store.Key) error {
	t := vtest.NewTable(7, "t", vtest.PK("p", cqltype.Int), vtest.CK("c", cqltype.Int), vtest.Col("v", cqltype.Counter))
	b := st.NewBatch(1)
	b.Row(t, k, [][]byte{be32(1)}).Increment(t.Columns["v"], 1)
	c, err := st.Apply(ctx, b, false)
	if err != nil {
		return err
	}
	return c.Wait()
}
