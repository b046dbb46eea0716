package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
	"varve/internal/vtest"
)

// ledgerTable holds numbered batches: batch n is the row n of each of its
// partitions, with the value n.
func ledgerTable() *schema.Table {
	return vtest.NewTable(7, "t", vtest.PK("p", cqltype.Int), vtest.CK("n", cqltype.Int), vtest.Col("v", cqltype.Int))
}

const ledgerPartitions = 6

func ledgerBatch(t testing.TB, st *store.Store, tab *schema.Table, n int) *store.Batch {
	b := st.NewBatch(1)
	for p := range ledgerPartitions {
		b.Row(tab, mustKey(t, tab, be32(p)), [][]byte{be32(n)}).Set(tab.Columns["v"], int64(n), 0, be32(n))
	}
	return b
}

// readLedger tells in how many partitions each batch is found, and complains
// about values that were never written.
func readLedger(st *store.Store, tab *schema.Table) (map[int]int, error) {
	v := st.View(store.ReadOptions{NowSec: 1, Stats: &store.ReadStats{}})
	parts, err := vtest.Collect(tab, v.Range(tab, store.TokenRange{StartUnbounded: true, EndUnbounded: true}, store.RowQuery{}, nil))
	if err = errors.Join(err, v.Close()); err != nil {
		return nil, err
	}
	found := map[int]int{}
	for _, p := range parts {
		for _, r := range p.Rows {
			c, ok := r.Cells["v"]
			if !ok || !slices.Equal(c.Value, r.Clustering[0]) {
				return nil, fmt.Errorf("wrong row: %v", vtest.Lines(parts))
			}
			found[int(c.Timestamp)]++
		}
	}
	return found, nil
}

// diskImage is what a power cut would leave of the disk at some moment.
type diskImage struct {
	fs      *vfs.MemFS
	acked   int // batches acknowledged by then
	applied int // batches begun by then
	op      int // number of the disk operation that did not happen any more
}

// TestLoggedBatchesSurviveCrashAnywhere cuts the power before each of a
// sample of disk operations while logged batches over three shards are
// written: each acknowledged batch is back whole, every other whole or not at all.
func TestLoggedBatchesSurviveCrashAnywhere(t *testing.T) {
	crashAnywhere(t, 3, true)
}

// TestBatchesSurviveCrashAnywhere does the same for plain batches on one shard.
func TestBatchesSurviveCrashAnywhere(t *testing.T) {
	crashAnywhere(t, 1, false)
}

func crashAnywhere(t *testing.T, shards int, logged bool) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 7))
	every := 9
	if soak(t, 0) > 0 {
		every = 1
	}
	images := recordImages(t, r, shards, logged, every)
	tab := ledgerTable()
	for _, im := range images {
		st, err := store.Open(tContext, memOptions(im.fs, shards))
		if err != nil {
			t.Fatalf("open after a crash at operation %d: %v", im.op, err)
		}
		found, err := readLedger(st, tab)
		if err != nil {
			t.Fatalf("after a crash at operation %d: %v", im.op, err)
		}
		for n := 1; n <= im.applied; n++ {
			if found[n] != 0 && found[n] != ledgerPartitions {
				t.Fatalf("batch %d torn by a crash at operation %d: found in %d partitions", n, im.op, found[n])
			}
			if n <= im.acked && found[n] != ledgerPartitions {
				t.Fatalf("batch %d, acknowledged before a crash at operation %d, is found in %d partitions", n, im.op, found[n])
			}
			delete(found, n)
		}
		if len(found) > 0 {
			t.Errorf("batches from nowhere: %v", found)
		}
		if err := st.Close(); err != nil {
			t.Errorf("close after a crash at operation %d: %v", im.op, err)
		}
	}
	t.Logf("%d crashes", len(images))
}

// recordImages runs a store and takes an image of its disk before every n-th operation.
func recordImages(t *testing.T, r *rand.Rand, shards int, logged bool, every int) []diskImage {
	mem := vfs.NewCrashableMem()
	var mu sync.Mutex
	var images []diskImage
	var acked, applied, ops atomic.Int64
	next := every
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		n := int(ops.Add(1))
		if op.Kind.ReadOrWrite() == errorfs.OpIsRead {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if n < next {
			return nil
		}
		next = n + 1 + r.IntN(2*every)
		im := diskImage{acked: int(acked.Load()), op: n}
		im.fs = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 40, 100}[r.IntN(3)], RNG: r})
		im.applied = int(applied.Load())
		images = append(images, im)
		return nil
	}))
	tab := ledgerTable()
	st := mustOpen(t, memOptions(fs, shards))
	for n := 1; n <= 40; n++ {
		applied.Store(int64(n))
		if err := applyWait(st, ledgerBatch(t, st, tab, n), logged); err != nil {
			t.Fatal(err)
		}
		acked.Store(int64(n))
		if n%15 == 0 {
			if err := st.Flush(tContext, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := st.Compact(tContext, tab); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	return images
}

// faultRun is one pass of the script below over a disk that fails.
type faultRun struct {
	fs      vfs.FS
	gaveUp  chan error
	mu      sync.Mutex
	acked   []int
	applied int
}

func (f *faultRun) begin() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.applied++
	return f.applied
}

func (f *faultRun) acknowledge(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.acked = append(f.acked, n)
}

func (f *faultRun) soFar() (acked []int, applied int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.acked), f.applied
}

// script goes through a store's life and returns at the first error.
func (f *faultRun) script(t *testing.T) error {
	o := memOptions(f.fs, 2)
	o.Fatal = func(err error) {
		f.gaveUp <- err
		select {} // the process would be gone
	}
	tab := ledgerTable()
	for range 2 {
		st, err := store.Open(tContext, o)
		if err != nil {
			return err
		}
		if err := f.work(t, st, tab); err != nil {
			return errors.Join(err, st.Close())
		}
		if err := st.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (f *faultRun) work(t *testing.T, st *store.Store, tab *schema.Table) error {
	write := func(times int) error {
		for range times {
			n := f.begin()
			if err := applyWait(st, ledgerBatch(t, st, tab, n), n%2 == 0); err != nil {
				return err
			}
			f.acknowledge(n)
		}
		return nil
	}
	if err := write(4); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(tContext, 500*time.Millisecond)
	defer cancel()
	if err := st.Flush(ctx, nil); err != nil {
		return err
	}
	b := st.NewBatch(1)
	b.DeletePartition(tab, mustKey(t, tab, be32(99)), 1)
	if err := applyWait(st, b, false); err != nil {
		return err
	}
	if err := write(3); err != nil {
		return err
	}
	if _, err := readLedger(st, tab); err != nil {
		return err
	}
	if err := st.Compact(ctx, tab); err != nil {
		return err
	}
	return write(2)
}

// TestEveryDiskErrorIsHarmless fails the Nth disk operation, once or from
// then on, for N = 1, 2, 3 … until none fails. The store may return errors or
// give up through Options.Fatal; it may not lose an acknowledged batch.
func TestEveryDiskErrorIsHarmless(t *testing.T) {
	for _, lasting := range []bool{false, true} {
		t.Run(fmt.Sprintf("lasting=%v", lasting), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 8))
			stride := 12
			if soak(t, 0) > 0 {
				stride = 1
			}
			n, runs := 1+r.IntN(stride), 0
			for ; ; n += 1 + r.IntN(2*stride-1) {
				failed := failNth(t, n, lasting, r)
				runs++
				if !failed || t.Failed() {
					break
				}
			}
			t.Logf("%d runs, up to operation %d", runs, n)
		})
	}
}

// failNth runs the script with a failing operation and judges what is left;
// false when the script has fewer operations.
func failNth(t *testing.T, n int, lasting bool, r *rand.Rand) bool {
	mem := vfs.NewCrashableMem()
	var count atomic.Int64
	var off atomic.Bool
	f := &faultRun{gaveUp: make(chan error, 100)}
	f.fs = errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if c := int(count.Add(1)); !off.Load() && (c == n || lasting && c > n) {
			return errorfs.ErrInjected
		}
		return nil
	}))
	done := make(chan error, 1)
	go func() { done <- f.script(t) }()
	var err error
	select {
	case err = <-f.gaveUp:
	case err = <-done:
	case <-time.After(30 * time.Second):
		stacks := make([]byte, 1<<20)
		t.Fatalf("operation %d failing: the store hangs\n%s", n, stacks[:runtime.Stack(stacks, true)])
	}
	acked, _ := f.soFar()
	after := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 100}[r.IntN(3)], RNG: r})
	_, applied := f.soFar()
	off.Store(true)
	if jerr := judge(after, acked, applied); jerr != nil {
		t.Errorf("operation %d failing (lasting=%v, error seen: %v): %v", n, lasting, err, jerr)
	}
	return int(count.Load()) >= n
}

// judge opens what the failing disk has left on a healthy one.
func judge(fs vfs.FS, acked []int, applied int) error {
	st, err := store.Open(tContext, memOptions(fs, 2))
	if err != nil {
		return fmt.Errorf("open on a healthy disk: %w", err)
	}
	found, err := readLedger(st, ledgerTable())
	if err = errors.Join(err, st.Close()); err != nil {
		return err
	}
	for n, times := range found {
		if n > applied || n%2 == 0 && times != ledgerPartitions {
			return fmt.Errorf("batch %d of %d begun, found in %d partitions", n, applied, times)
		}
	}
	for _, n := range acked {
		if found[n] != ledgerPartitions {
			return fmt.Errorf("acknowledged batch %d found in %d partitions", n, found[n])
		}
	}
	return nil
}
