package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
	"varve/internal/vtest"
)

// worldOptions are what a run varies besides its steps.
type worldOptions struct {
	seed             uint64
	shards           int
	separateJournals bool
	gcGrace          int32 // seconds; 0: ten days, which no run outlives
	feed             bool  // every table has a change feed, and a mirror is kept by it
}

// world is a store, the model beside it, and the memory disk below it.
type world struct {
	o      worldOptions
	fs     *vfs.MemFS
	st     *store.Store
	model  *vtest.Model
	done   []vtest.Batch // what the model holds, in order
	open   []pending     // applied, not yet waited for
	clock  *atomic.Int64
	tables []*schema.Table
	marks  map[uint32]*schema.Table // by table: where batches leave their mark
	nextID int64
	mirror *feedMirror // nil without feeds
}

// pending is a batch whose acknowledgement is still to come. Its id is written
// as a row beside each partition it changes (same key, so same shard), from
// which a crash test reads how much of the batch has survived.
type pending struct {
	id     int64
	index  int // in world.done
	batch  vtest.Batch
	logged bool
	commit store.Commit
}

// play runs steps from an empty store; its error says what went wrong where.
func play(o worldOptions, steps []step) (err error) {
	w := &world{o: o, fs: vfs.NewCrashableMem(), model: vtest.NewModel(), clock: &atomic.Int64{}}
	w.tables = vtest.Tables()
	byName := map[string]*schema.Table{}
	w.marks = map[uint32]*schema.Table{}
	for _, t := range w.tables {
		if o.gcGrace != 0 {
			t.Options.GCGraceSeconds = o.gcGrace
		}
		byName[t.Name] = t
		w.marks[t.PhysID] = marksTable(t)
	}
	steps = withTables(steps, byName)
	if len(steps) > 0 {
		w.clock.Store(steps[0].now)
	}
	if w.st, err = w.openStore(w.fs); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() {
		if cerr := w.finish(); err == nil && cerr != nil {
			err = cerr
		}
	}()
	if o.feed {
		if w.mirror, err = newFeedMirror(w); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.mirror.close()) }()
	}
	for i, s := range steps {
		w.clock.Store(s.now)
		if err := w.step(s); err != nil {
			return fmt.Errorf("step %d (%s): %w", i, actionNames[s.do], err)
		}
	}
	return nil
}

// withTables rebinds steps to this run's table definitions.
func withTables(steps []step, byName map[string]*schema.Table) []step {
	out := make([]step, len(steps))
	for i, s := range steps {
		ms := make([]vtest.Mutation, len(s.batch.Mutations))
		for j, m := range s.batch.Mutations {
			m.Table = byName[m.Table.Name]
			cs := make([]vtest.Change, len(m.Changes))
			for k, c := range m.Changes {
				if c.Column != nil {
					c.Column = m.Table.Columns[c.Column.Name]
				}
				cs[k] = c
			}
			m.Changes = cs
			ms[j] = m
		}
		s.batch.Mutations = ms
		out[i] = s
	}
	return out
}

func marksTable(t *schema.Table) *schema.Table {
	var specs []vtest.ColumnSpec
	for _, c := range t.PartitionKey {
		specs = append(specs, vtest.PK(c.Name, c.Type))
	}
	return vtest.NewTable(t.PhysID+100, t.Name+"_marks", append(specs, vtest.CK("id", cqltype.Bigint))...)
}

func (w *world) openStore(fs vfs.FS) (*store.Store, error) {
	return store.Open(context.Background(), w.options(fs))
}

func (w *world) options(fs vfs.FS) store.Options {
	o := store.Options{
		FS: fs, CacheBytes: 1 << 20, MemtableBytes: 256 << 10, SpanBytes: 1 << 20,
		Clock:  func() time.Time { return time.Unix(w.clock.Load(), 0) },
		Fatal:  func(err error) { panic(fmt.Sprintf("store gave up: %v", err)) },
		Tables: func() []*schema.Table { return w.tables },
	}
	for i := range w.o.shards {
		o.DataDirs = append(o.DataDirs, fmt.Sprintf("data%d", i))
		if w.o.separateJournals {
			o.JournalDirs = append(o.JournalDirs, fmt.Sprintf("journal%d", i))
		}
	}
	return o
}

func (w *world) finish() error {
	if w.st == nil {
		return nil
	}
	return errors.Join(w.waitAll(), w.st.Close())
}

func (w *world) waitAll() error {
	var errs []error
	for _, p := range w.open {
		errs = append(errs, p.commit.Wait())
	}
	w.open = nil
	return errors.Join(errs...)
}

func (w *world) step(s step) error {
	ctx := context.Background()
	r := rand.New(rand.NewPCG(s.seed, 3))
	switch s.do {
	case doWrite:
		return w.write(s)
	case doCheck:
		if w.mirror != nil {
			if err := w.mirror.check(w, r, s.now); err != nil {
				return err
			}
		}
		return w.check(r, s.now)
	case doFlush:
		return w.st.Flush(ctx, w.maybeTable(r))
	case doCompact:
		return w.st.Compact(ctx, w.maybeTable(r))
	case doCoalesce:
		w.st.RunBackground(ctx)
		return nil
	case doReopen:
		return w.reopen(r, s.now)
	case doCrash:
		return w.crash(r, s.now)
	case doSnapshot:
		return w.snapshot(s.now)
	case doTruncate:
		return w.truncate(r)
	}
	return fmt.Errorf("unknown action %d", s.do)
}

func (w *world) maybeTable(r *rand.Rand) *schema.Table {
	if r.IntN(2) == 0 {
		return nil
	}
	return w.tables[r.IntN(len(w.tables))]
}

func (w *world) write(s step) error {
	w.nextID++
	p := pending{id: w.nextID, index: len(w.done), batch: s.batch, logged: s.logged}
	b := s.batch
	b.Mutations = append([]vtest.Mutation{}, b.Mutations...)
	if !s.wait {
		for _, m := range s.batch.Mutations {
			b.Mutations = append(b.Mutations, w.mark(m, p.id))
		}
	}
	sb, err := b.Build(w.st)
	if err != nil {
		return err
	}
	if p.commit, err = w.st.Apply(context.Background(), sb, s.logged); err != nil {
		return err
	}
	w.model.Apply(s.batch)
	w.done = append(w.done, s.batch)
	if s.wait {
		return p.commit.Wait()
	}
	w.open = append(w.open, p)
	if len(w.open) > 5 {
		return w.waitAll()
	}
	return nil
}

func (w *world) mark(m vtest.Mutation, id int64) vtest.Mutation {
	ck := [][]byte{be64(id)}
	return vtest.Mutation{
		Table: w.marks[m.Table.PhysID], Key: m.Key,
		Changes: []vtest.Change{{Kind: vtest.Marker, Clustering: ck, TS: 1}},
	}
}

func be64(v int64) []byte {
	b := make([]byte, 8)
	for i := range b {
		b[i] = byte(uint64(v) >> (56 - 8*i))
	}
	return b
}

func (w *world) reopen(r *rand.Rand, now int64) error {
	if err := w.finish(); err != nil {
		return err
	}
	var err error
	if w.st, err = w.openStore(w.fs); err != nil {
		w.st = nil
		return fmt.Errorf("open again: %w", err)
	}
	return w.check(r, now)
}

// crash takes the disk as a power cut may leave it: what was synced is there,
// of the rest a part. Every acknowledged batch must be back; of the others
// each must be there or not, whole where the store promises so.
func (w *world) crash(r *rand.Rand, now int64) error {
	cfg := vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 30, 70, 100}[r.IntN(4)], RNG: r}
	after := w.fs.CrashClone(cfg)
	open := w.open
	if err := w.finish(); err != nil {
		return err
	}
	w.fs = after
	var err error
	if w.st, err = w.openStore(w.fs); err != nil {
		w.st = nil
		return fmt.Errorf("open after crash (%d%% of unsynced data kept): %w", cfg.UnsyncedDataPercent, err)
	}
	lost := map[int][]bool{} // by index in done: which mutations are lost
	for _, p := range open {
		gone, err := w.survivors(p)
		if err != nil {
			return err
		}
		lost[p.index] = gone
	}
	w.rebuild(lost)
	return w.check(r, now)
}

// survivors tells for each mutation of a batch whether it is lost.
func (w *world) survivors(p pending) ([]bool, error) {
	gone := make([]bool, len(p.batch.Mutations))
	n := 0
	for i, m := range p.batch.Mutations {
		there, err := w.marked(m, p.id)
		if err != nil {
			return nil, err
		}
		if !there {
			gone[i] = true
			n++
		}
	}
	if n > 0 && n < len(gone) && (p.logged || w.o.shards == 1) {
		return nil, fmt.Errorf("batch torn by the crash (logged=%v, lost %v):\n%s", p.logged, gone, p.batch)
	}
	return gone, nil
}

func (w *world) marked(m vtest.Mutation, id int64) (bool, error) {
	t := w.marks[m.Table.PhysID]
	b := store.Bound{Prefix: [][]byte{be64(id)}, Inclusive: true}
	parts, err := readPartition(w.st, t, m.Key, store.RowQuery{Slices: []store.Slice{{Start: b, End: b}}}, w.clock.Load())
	return len(parts) > 0, err
}

// rebuild makes the model anew from what has survived.
func (w *world) rebuild(lost map[int][]bool) {
	w.model = vtest.NewModel()
	var done []vtest.Batch
	for i, b := range w.done {
		kept := vtest.Batch{Now: b.Now}
		for j, m := range b.Mutations {
			if gone := lost[i]; gone == nil || !gone[j] {
				kept.Mutations = append(kept.Mutations, m)
			}
		}
		w.model.Apply(kept)
		done = append(done, kept)
	}
	w.done = done
}

func (w *world) truncate(r *rand.Rand) error {
	t := w.tables[r.IntN(len(w.tables))]
	if err := w.waitAll(); err != nil {
		return err
	}
	if err := w.st.Truncate(context.Background(), t); err != nil {
		return err
	}
	for i, b := range w.done {
		kept := vtest.Batch{Now: b.Now}
		for _, m := range b.Mutations {
			if m.Table != t {
				kept.Mutations = append(kept.Mutations, m)
			}
		}
		w.done[i] = kept
	}
	w.model.Truncate(t)
	return nil
}

// snapshot opens a checkpoint beside the store and compares everything in it.
func (w *world) snapshot(now int64) error {
	ctx := context.Background()
	dir := fmt.Sprintf("snapshot%d", w.nextID)
	if err := w.st.Snapshot(ctx, dir); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	o := w.options(w.fs)
	dirs, err := snapshotDirs(w.fs, dir)
	if err != nil {
		return err
	}
	o.DataDirs, o.JournalDirs = dirs, nil
	st, err := store.Open(ctx, o)
	if err != nil {
		return fmt.Errorf("open snapshot: %w", err)
	}
	for _, t := range w.tables {
		err = errors.Join(err, w.checkRange(st, t, store.TokenRange{StartUnbounded: true, EndUnbounded: true}, store.RowQuery{}, nil, now))
	}
	return errors.Join(err, st.Close(), w.fs.RemoveAll(dir))
}

// snapshotDirs lists a snapshot's shard directories in order.
func snapshotDirs(fs vfs.FS, dir string) ([]string, error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for i, n := range names {
		names[i] = fs.PathJoin(dir, n)
	}
	return names, nil
}
