package store_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sync/errgroup"

	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
	"varve/internal/vtest"
)

// memOptions are options for a store on a memory disk with small buffers, so
// that flushes and compactions happen within a test.
func memOptions(fs vfs.FS, shards int) store.Options {
	o := store.Options{
		FS: fs, CacheBytes: 1 << 20, MemtableBytes: 256 << 10,
		Fatal: func(err error) { panic(fmt.Sprintf("store gave up: %v", err)) },
	}
	for i := range shards {
		o.DataDirs = append(o.DataDirs, fmt.Sprintf("data%d", i))
	}
	return o
}

func mustOpen(t testing.TB, o store.Options) *store.Store {
	t.Helper()
	st, err := store.Open(context.Background(), o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return st
}

func mustKey(t testing.TB, tab *schema.Table, comps ...[]byte) store.Key {
	t.Helper()
	k, err := store.KeyOf(tab, comps)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func applyWait(st *store.Store, b *store.Batch, logged bool) error {
	c, err := st.Apply(context.Background(), b, logged)
	if err != nil {
		return err
	}
	return c.Wait()
}

// until runs f again and again in each of n goroutines until the time is over or one fails.
func until(g *errgroup.Group, stop *atomic.Bool, n int, f func(worker int, r *rand.Rand) error) {
	for i := range n {
		r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(i)))
		g.Go(func() error {
			for !stop.Load() {
				if err := f(i, r); err != nil {
					stop.Store(true)
					return err
				}
			}
			return nil
		})
	}
}

// wreckers are the background troubles of a concurrency test: forced passes
// of the coalescer, flushes, compactions.
func wreckers(g *errgroup.Group, stop *atomic.Bool, st *store.Store, tables []*schema.Table) {
	until(g, stop, 1, func(_ int, r *rand.Rand) error {
		switch r.IntN(40) {
		case 0:
			return st.Flush(context.Background(), nil)
		case 1:
			return st.Compact(context.Background(), tables[r.IntN(len(tables))])
		}
		st.RunBackground(context.Background())
		return nil
	})
}

func runFor(t *testing.T, d time.Duration, g *errgroup.Group, stop *atomic.Bool) {
	t.Helper()
	timer := time.AfterFunc(d, func() { stop.Store(true) })
	defer timer.Stop()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// TestAcknowledgedRowsAreRead lets writers insert, delete and insert again
// rows of their own in shared partitions: after each acknowledgement the
// writer must read what it wrote.
func TestAcknowledgedRowsAreRead(t *testing.T) {
	const writers, rowsEach = 4, 400
	tab := vtest.NewTable(7, "t", vtest.PK("p", cqltype.Int), vtest.CK("c", cqltype.Int), vtest.Col("v", cqltype.Bigint))
	st := mustOpen(t, memOptions(vfs.NewMem(), 1))
	keys := []store.Key{mustKey(t, tab, be32(1)), mustKey(t, tab, be32(2))}
	var ts atomic.Int64
	var live [writers][2][rowsEach]int64 // timestamp of the live version; 0: dead
	var stop atomic.Bool
	var g errgroup.Group
	until(&g, &stop, writers, func(w int, r *rand.Rand) error {
		p, i := r.IntN(2), r.IntN(rowsEach)
		if r.IntN(3) > 0 { // deletes come in runs
			for n := range 1 + r.IntN(40) {
				j := (i + n) % rowsEach
				b := st.NewBatch(time.Now().Unix())
				b.Row(tab, keys[p], [][]byte{be32(j*writers + w)}).Delete(ts.Add(1))
				if err := applyWait(st, b, false); err != nil {
					return err
				}
				live[w][p][j] = 0
			}
			return verifyOwn(st, tab, keys[p], live[w][p][:], w, writers, i)
		}
		b, at := st.NewBatch(time.Now().Unix()), ts.Add(1)
		b.Row(tab, keys[p], [][]byte{be32(i*writers + w)}).Set(tab.Columns["v"], at, 0, be64(at))
		if err := applyWait(st, b, false); err != nil {
			return err
		}
		live[w][p][i] = at
		return verifyOwn(st, tab, keys[p], live[w][p][:], w, writers, i)
	})
	wreckers(&g, &stop, st, []*schema.Table{tab})
	runFor(t, soak(t, 700*time.Millisecond), &g, &stop)
	for w := range writers {
		for p := range keys {
			if err := verifyOwn(st, tab, keys[p], live[w][p][:], w, writers, -1); err != nil {
				t.Error(err)
			}
		}
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}

// verifyOwn reads one row, or with -1 the whole partition, and compares the
// writer's rows with what it has been acknowledged.
func verifyOwn(st *store.Store, tab *schema.Table, k store.Key, live []int64, w, writers, only int) error {
	var q store.RowQuery
	if only >= 0 {
		b := store.Bound{Prefix: [][]byte{be32(only*writers + w)}, Inclusive: true}
		q.Slices = []store.Slice{{Start: b, End: b}}
	}
	v := st.View(store.ReadOptions{NowSec: time.Now().Unix(), Stats: &store.ReadStats{}})
	rows := v.Partition(tab, k, q)
	got := map[int]int64{}
	for rows.NextPartition() {
		for rows.Next() {
			c := int(binary.BigEndian.Uint32(rows.Row().Clustering()[0]))
			if c%writers == w {
				got[c/writers] = int64(binary.BigEndian.Uint64(rows.Row().Value(tab.Columns["v"])))
			}
		}
	}
	if err := errors.Join(rows.Close(), v.Close()); err != nil {
		return err
	}
	for i, want := range live {
		if (only < 0 || only == i) && got[i] != want {
			return fmt.Errorf("writer %d row %d: read version %d, acknowledged %d", w, i, got[i], want)
		}
	}
	return nil
}

// TestReadersSeeBatchesWhole moves one row per writer about, each time with
// one batch that deletes it here and inserts it there, over stretches of dead
// rows. A reader must find it exactly once, however it reads.
func TestReadersSeeBatchesWhole(t *testing.T) {
	const writers, places = 3, 300
	tab := vtest.NewTable(7, "t", vtest.PK("p", cqltype.Int), vtest.CK("c", cqltype.Int), vtest.Col("w", cqltype.Int))
	st := mustOpen(t, memOptions(vfs.NewMem(), 1))
	keys := []store.Key{mustKey(t, tab, be32(1)), mustKey(t, tab, be32(2))}
	var ts atomic.Int64
	var at [writers][2]int // partition and place
	b := st.NewBatch(1)
	for w := range writers {
		b.Row(tab, keys[0], [][]byte{be32(w)}).Set(tab.Columns["w"], ts.Add(1), 0, be32(w))
		at[w] = [2]int{0, 0}
	}
	if err := applyWait(st, b, false); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var g errgroup.Group
	until(&g, &stop, writers, func(w int, r *rand.Rand) error {
		to := [2]int{r.IntN(2), r.IntN(places)}
		if to == at[w] {
			return nil
		}
		b, now := st.NewBatch(1), ts.Add(1)
		b.Row(tab, keys[at[w][0]], [][]byte{be32(at[w][1]*writers + w)}).Delete(now)
		b.Row(tab, keys[to[0]], [][]byte{be32(to[1]*writers + w)}).Set(tab.Columns["w"], now, 0, be32(w))
		at[w] = to
		return applyWait(st, b, false)
	})
	until(&g, &stop, 2, func(_ int, r *rand.Rand) error { return countOnce(st, tab, keys, writers, r) })
	wreckers(&g, &stop, st, []*schema.Table{tab})
	runFor(t, soak(t, 700*time.Millisecond), &g, &stop)
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}

func countOnce(st *store.Store, tab *schema.Table, keys []store.Key, writers int, r *rand.Rand) error {
	q := store.RowQuery{Reverse: r.IntN(2) == 0}
	v := st.View(store.ReadOptions{NowSec: 1, Stats: &store.ReadStats{}})
	seen := make([]int, writers)
	read := func(rows *store.Rows) error {
		for rows.NextPartition() {
			for rows.Next() {
				seen[binary.BigEndian.Uint32(rows.Row().Value(tab.Columns["w"]))]++
			}
		}
		return rows.Close()
	}
	var err error
	if r.IntN(2) == 0 {
		err = read(v.Range(tab, store.TokenRange{StartUnbounded: true, EndUnbounded: true}, q, nil))
	} else { // two iterators of one view see one state, too
		err = errors.Join(read(v.Partition(tab, keys[1], q)), read(v.Partition(tab, keys[0], q)))
	}
	if err = errors.Join(err, v.Close()); err != nil {
		return err
	}
	for w, n := range seen {
		if n != 1 {
			return fmt.Errorf("row of writer %d seen %d times in one view (reverse=%v)", w, n, q.Reverse)
		}
	}
	return nil
}

// TestLockMakesReadModifyWriteAtomic adds to a plain integer under the
// partition's lock from many goroutines.
func TestLockMakesReadModifyWriteAtomic(t *testing.T) {
	tab := vtest.NewTable(7, "t", vtest.PK("p", cqltype.Int), vtest.Col("v", cqltype.Bigint))
	fs := vfs.NewCrashableMem()
	st := mustOpen(t, memOptions(fs, 2))
	const workers, each, partitions = 6, 30, 3
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				k := mustKey(t, tab, be32((w+i)%partitions))
				other := mustKey(t, tab, be32((w+i+1)%partitions))
				if err := addUnderLock(st, tab, k, other); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	check := func(when string, st *store.Store) {
		var sum int64
		for p := range partitions {
			sum += readBigint(t, st, tab, mustKey(t, tab, be32(p)))
		}
		if sum != workers*each {
			t.Errorf("%s: the sum is %d after %d acknowledged additions", when, sum, workers*each)
		}
	}
	check("running", st)
	after := fs.CrashClone(vfs.CrashCloneCfg{})
	if err := st.Close(); err != nil {
		t.Error(err)
	}
	st = mustOpen(t, memOptions(after, 2))
	check("after a crash", st)
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}

func addUnderLock(st *store.Store, tab *schema.Table, k, other store.Key) error {
	l, err := st.Lock(context.Background(), tab, k, other)
	if err != nil {
		return err
	}
	v, err := valueUnder(st, tab, k)
	if err != nil {
		l.Unlock()
		return err
	}
	b := st.NewBatch(1)
	b.Row(tab, k, [][]byte{}).Set(tab.Columns["v"], v+1, 0, be64(v+1))
	c, err := l.Apply(context.Background(), b)
	err = errors.Join(err, l.Sync())
	l.Unlock()
	if err != nil {
		return err
	}
	return c.Wait()
}

func valueUnder(st *store.Store, tab *schema.Table, k store.Key) (v int64, err error) {
	view := st.View(store.ReadOptions{NowSec: 1, Stats: &store.ReadStats{}})
	rows := view.Partition(tab, k, store.RowQuery{})
	for rows.NextPartition() {
		for rows.Next() {
			if b := rows.Row().Value(tab.Columns["v"]); b != nil {
				v = int64(binary.BigEndian.Uint64(b))
			}
		}
	}
	return v, errors.Join(rows.Close(), view.Close())
}

func readBigint(t testing.TB, st *store.Store, tab *schema.Table, k store.Key) int64 {
	t.Helper()
	v, err := valueUnder(st, tab, k)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
