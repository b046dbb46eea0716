package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
	"varve/internal/vtest"
)

// exploreNow is the clock of the explored scenarios, in seconds.
const exploreNow = 1_000_000

// arena is one execution of a scenario: a table of its own, and the model of
// what was committed to it.
type arena struct {
	st    *store.Store
	tab   *schema.Table
	now   int64
	model *vtest.Model // of what was there before the threads began
	acked []bool       // by batch: acknowledged
	order []int        // batches in the order of their commits
	all   []vtest.Batch
	quiet bool // apply only tells the model
}

// actor is one thread of a scenario.
type actor func(a *arena, th *store.ExploredThread) error

// scenario is a beginning and some threads.
type scenario struct {
	name   string
	setup  func(a *arena) error
	actors []actor
	grace  int32 // gc_grace_seconds; 0: ten days
	finish func(a *arena) error
}

func exploreTable(phys uint32) *schema.Table {
	t := vtest.NewTable(phys, "t", vtest.PK("p", cqltype.Int), vtest.CK("c", cqltype.Int), vtest.Col("v", cqltype.Int))
	return t
}

// partitions 0 and 1 have stripes of their own.
func (a *arena) key(p int) [][]byte { return [][]byte{be32(p)} }

func (a *arena) storeKey(p int) store.Key {
	k, err := store.KeyOf(a.tab, a.key(p))
	if err != nil {
		panic(err)
	}
	return k
}

func (a *arena) mutation(p int, cs ...vtest.Change) vtest.Mutation {
	return vtest.Mutation{Table: a.tab, Key: a.key(p), Changes: cs}
}

func ck(n int) [][]byte { return [][]byte{be32(n)} }

func insertRow(c int, ts int64, ttl int32) vtest.Change {
	return vtest.Change{Kind: vtest.Marker, Clustering: ck(c), TS: ts, TTL: ttl}
}

func deleteRow(c int, ts int64) vtest.Change {
	return vtest.Change{Kind: vtest.Delete, Clustering: ck(c), TS: ts}
}

func deleteRange(from, to int, ts int64) vtest.Change {
	return vtest.Change{Kind: vtest.DeleteRange, TS: ts, Slice: store.Slice{
		Start: store.Bound{Prefix: ck(from), Inclusive: true}, End: store.Bound{Prefix: ck(to), Inclusive: true},
	}}
}

func deletePartition(ts int64) vtest.Change { return vtest.Change{Kind: vtest.DeletePartition, TS: ts} }

// batch is a batch at the arena's clock.
func (a *arena) batch(ms ...vtest.Mutation) vtest.Batch {
	return vtest.Batch{Now: a.now, Mutations: ms}
}

// apply writes before the threads begin.
func (a *arena) apply(b vtest.Batch) error {
	sb, err := b.Build(a.st)
	if err != nil {
		return err
	}
	a.model.Apply(b)
	if a.quiet {
		sb.Discard()
		return nil
	}
	return applyWait(a.st, sb, false)
}

// deadRows writes and deletes the rows 1 to n of a partition.
func (a *arena) deadRows(p, n int) error {
	for c := 1; c <= n; c++ {
		err := errors.Join(
			a.apply(a.batch(a.mutation(p, insertRow(c, 1, 0)))),
			a.apply(a.batch(a.mutation(p, deleteRow(c, 2)))))
		if err != nil {
			return err
		}
	}
	return nil
}

// writes is a writer of one batch.
func writes(ms func(a *arena) []vtest.Mutation) actor { return writesAhead(0, ms) }

// writesAhead has a clock ahead of the others'.
func writesAhead(ahead int64, ms func(a *arena) []vtest.Mutation) actor {
	return func(a *arena, th *store.ExploredThread) error {
		b := a.batch(ms(a)...)
		b.Now += ahead
		id := len(a.all)
		a.all = append(a.all, b)
		a.acked = append(a.acked, false)
		sb, err := b.Build(a.st)
		if err != nil {
			return err
		}
		first := true
		th.Committing = func() {
			if first {
				first = false
				a.order = append(a.order, id)
			}
		}
		c, err := a.st.Apply(context.Background(), sb, false)
		if err != nil {
			return err
		}
		th.Pause()
		if err := c.Wait(); err != nil {
			return err
		}
		a.acked[id] = true
		return nil
	}
}

func inserts(p, c int, ts int64, ttl int32) actor {
	return writes(func(a *arena) []vtest.Mutation { return []vtest.Mutation{a.mutation(p, insertRow(c, ts, ttl))} })
}

func deletes(p, c int, ts int64) actor {
	return writes(func(a *arena) []vtest.Mutation { return []vtest.Mutation{a.mutation(p, deleteRow(c, ts))} })
}

func deletesLater(p, c int, ts int64) actor {
	return writesAhead(10, func(a *arena) []vtest.Mutation { return []vtest.Mutation{a.mutation(p, deleteRow(c, ts))} })
}

func changes(p int, cs ...vtest.Change) actor {
	return writes(func(a *arena) []vtest.Mutation { return []vtest.Mutation{a.mutation(p, cs...)} })
}

// coalesces is a publisher over a partition, or the table for p < 0.
func coalesces(p int, sweep bool) actor {
	return func(a *arena, _ *store.ExploredThread) error {
		if p < 0 {
			return a.st.Coalesce(context.Background(), a.tab, nil, sweep)
		}
		k := a.storeKey(p)
		return a.st.Coalesce(context.Background(), a.tab, &k, sweep)
	}
}

// committed is the model of the first n commits, all for n < 0.
func (a *arena) committed(n int) *vtest.Model {
	if n < 0 {
		n = len(a.order)
	}
	m := a.model.Clone()
	for _, id := range a.order[:n] {
		m.Apply(a.all[id])
	}
	return m
}

var everything = store.TokenRange{StartUnbounded: true, EndUnbounded: true}

// reads is a reader of one view: of partitions, or of all for none; at its
// clock, which may be behind or ahead of the writers' by so much.
func reads(reverse bool, ahead int64, ps ...int) actor {
	return func(a *arena, th *store.ExploredThread) error {
		at := -1
		th.Viewing = func() {
			if at < 0 {
				at = len(a.order)
			}
		}
		now := a.now + ahead
		q := store.RowQuery{Reverse: reverse}
		v := a.st.View(store.ReadOptions{NowSec: now, Stats: &store.ReadStats{}})
		var got []vtest.PartState
		var err error
		if len(ps) == 0 {
			got, err = vtest.Collect(a.tab, v.Range(a.tab, everything, q, nil))
		}
		for _, p := range ps {
			part, perr := vtest.Collect(a.tab, v.Partition(a.tab, a.storeKey(p), q))
			got, err = append(got, part...), errors.Join(err, perr)
		}
		if err := errors.Join(err, v.Close()); err != nil {
			return err
		}
		m := a.committed(at)
		var want []vtest.PartState
		if len(ps) == 0 {
			want = m.Range(a.tab, everything, q, nil, now)
		}
		for _, p := range ps {
			if s, ok := m.Partition(a.tab, a.key(p), q, now); ok {
				want = append(want, s)
			}
		}
		if d := vtest.Diff(want, got); d != "" {
			return fmt.Errorf("read of a view with %d of the batches, reverse=%v: %s", at, reverse, d)
		}
		return nil
	}
}

// check compares the end with the model, and proves the spans.
func (a *arena) check() error {
	for _, reverse := range []bool{false, true} {
		q := store.RowQuery{Reverse: reverse}
		v := a.st.View(store.ReadOptions{NowSec: a.now, Stats: &store.ReadStats{}})
		got, err := vtest.Collect(a.tab, v.Range(a.tab, everything, q, nil))
		if err = errors.Join(err, v.Close()); err != nil {
			return err
		}
		if d := vtest.Diff(a.committed(-1).Range(a.tab, everything, q, nil, a.now), got); d != "" {
			return fmt.Errorf("at the end, reverse=%v: %s", reverse, d)
		}
	}
	return a.st.CheckSpans(a.tab)
}

// exploration opens stores for executions, each of which has a table of its own.
type exploration struct {
	e    *store.Explorer
	s    scenario
	st   *store.Store
	used int
	at   *arena // of the execution at hand
	fs   vfs.FS // nil: one for each store
	now  int64
}

// tablesAStore is how many executions share a store.
const tablesAStore = 400

func (x *exploration) open() error {
	if x.st != nil && x.used < tablesAStore {
		return nil
	}
	if err := x.close(); err != nil {
		return err
	}
	fs := x.fs
	if fs == nil {
		fs = vfs.NewMem()
	}
	o := exploreOptions(fs, func() int64 { return x.now })
	store.UseExplorer(&o, x.e, 2)
	var err error
	x.st, err = store.Open(context.Background(), o)
	x.used = 0
	return err
}

func exploreOptions(fs vfs.FS, now func() int64) store.Options {
	o := memOptions(fs, 1)
	o.ManualBackground, o.MemtableBytes = true, 4<<20
	o.Clock = func() time.Time { return time.Unix(now(), 0) }
	return o
}

func (x *exploration) close() error {
	if x.st == nil {
		return nil
	}
	err := x.st.Close()
	x.st = nil
	return err
}

// run makes one execution.
func (x *exploration) run() (*store.ExploredRun, error) {
	if err := x.open(); err != nil {
		return nil, err
	}
	x.used++
	x.now = exploreNow
	a := &arena{st: x.st, tab: exploreTable(uint32(100 + x.used)), now: exploreNow, model: vtest.NewModel()}
	x.at = a
	if x.s.grace != 0 {
		a.tab.Options.GCGraceSeconds = x.s.grace
	}
	return x.runOf(a)
}

func (x *exploration) runOf(a *arena) (*store.ExploredRun, error) {
	if x.s.setup != nil {
		if err := x.s.setup(a); err != nil {
			return nil, fmt.Errorf("set up: %w", err)
		}
	}
	r := &store.ExploredRun{Store: x.st, Phys: a.tab.PhysID, Stripes: []store.Key{a.storeKey(0), a.storeKey(1)}}
	for _, f := range x.s.actors {
		r.Threads = append(r.Threads, func(th *store.ExploredThread) error { return f(a, th) })
	}
	r.Check = func() error {
		if x.s.finish != nil {
			if err := x.s.finish(a); err != nil {
				return err
			}
		}
		return a.check()
	}
	return r, nil
}

// explored is what came of a scenario.
type explored struct {
	*store.Explorer
	// disks are orders that differ in what is written to the disk, or in what order.
	disks [][]int
}

// explore runs a scenario in every order.
func (s scenario) explore(broken store.Rule) (explored, error) {
	e := explored{Explorer: &store.Explorer{Broken: broken}}
	x := &exploration{e: e.Explorer, s: s}
	seen := map[string]bool{}
	err := e.Explore(func() (*store.ExploredRun, error) {
		r, err := x.run()
		if err != nil {
			return nil, err
		}
		var disk strings.Builder
		for i, f := range r.Threads {
			r.Threads[i] = func(th *store.ExploredThread) error {
				th.Writing = func() { fmt.Fprintf(&disk, "%d%s", i, x.st.SpanText(x.at.tab)) }
				return f(th)
			}
		}
		check := r.Check
		r.Check = func() error {
			if !seen[disk.String()] {
				seen[disk.String()] = true
				e.disks = append(e.disks, e.Schedule())
			}
			return check()
		}
		return r, nil
	})
	return e, errors.Join(err, x.close())
}

// TestEveryOrderOfSteps runs every scenario in every order of its threads'
// steps, and cuts the power between any two in every order that leaves another disk.
func TestEveryOrderOfSteps(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(strings.ReplaceAll(s.name, " ", "_"), func(t *testing.T) {
			e, err := s.explore(store.RuleNone)
			if err != nil {
				t.Fatal(err)
			}
			images := 0
			for _, order := range e.disks {
				n, err := s.crashes(order, store.RuleNone)
				if err != nil {
					t.Fatal(err)
				}
				images += n
			}
			t.Logf("%d executions of up to %d steps, %d cut short; %d of them leave another disk, %d power cuts",
				e.Runs, e.Steps, e.Redundant, len(e.disks), images)
		})
	}
}

// TestExplorerFindsBrokenRules breaks the protocol's rules one by one: each
// time some order must be found in which an answer is wrong.
func TestExplorerFindsBrokenRules(t *testing.T) {
	for rule, name := range broken {
		t.Run(fmt.Sprintf("rule_%d", rule), func(t *testing.T) {
			e, err := scenarioNamed(name).explore(rule)
			if err == nil {
				t.Fatalf("%s: nothing was found in %d executions", name, e.Runs)
			}
			t.Logf("%s, execution %d: %v", name, e.Runs+e.Redundant, err)
		})
	}
}

// TestExplorerCountsOrders knows how many orders there are of threads that
// only touch things a number of times.
func TestExplorerCountsOrders(t *testing.T) {
	type thread struct {
		n, what int
		write   bool
	}
	for _, tc := range []struct {
		threads []thread
		orders  int
	}{
		{[]thread{{3, 0, true}, {3, 0, true}}, 20},
		{[]thread{{3, 0, true}, {3, 1, true}}, 1},
		{[]thread{{3, 0, false}, {3, 0, false}}, 1},
		{[]thread{{2, 0, true}, {2, 0, false}}, 6},
		{[]thread{{2, 0, true}, {2, 0, true}, {2, 0, true}}, 90},
		{[]thread{{2, 0, true}, {1, 0, false}, {1, 0, false}}, 9},
		{[]thread{{2, 0, true}, {2, 0, true}, {4, 1, true}}, 6},
	} {
		e := &store.Explorer{}
		err := e.Explore(func() (*store.ExploredRun, error) {
			r := &store.ExploredRun{Check: func() error { return nil }}
			for _, th := range tc.threads {
				r.Threads = append(r.Threads, func(*store.ExploredThread) error {
					e.SharedSteps(th.n, th.what, th.write)
					return nil
				})
			}
			return r, nil
		})
		if err != nil || e.Runs != tc.orders {
			t.Errorf("%v: %d orders, %v; want %d", tc.threads, e.Runs, err, tc.orders)
		}
	}
}
