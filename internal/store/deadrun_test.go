package store_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
	"varve/internal/vtest"
)

// deadRows is the number of clusterings of the partition that TestDeadRuns works on.
const deadRows = 1500

// runOp is one operation of TestDeadRuns on rows lo to hi.
type runOp struct {
	kind   runKind
	lo, hi int
	ts     int64
	ttl    int32
	now    int64
	seed   uint64
}

type runKind uint8

const (
	runInsert      runKind = iota // rows lo..hi, one batch
	runDeleteEach                 // rows lo..hi by single deletes, in order
	runDeleteMixed                // the same in random order
	runDeleteRange                // one range deletion
	runRead
	runCoalesce
	runFlush
	runCompact
	runReopen
	runCrash
)

var runNames = [...]string{
	"insert", "delete each", "delete shuffled", "delete range", "read", "coalesce", "flush", "compact", "reopen", "crash",
}

func (o runOp) String() string {
	return fmt.Sprintf("%s %d..%d ts=%d ttl=%d now=%d seed=%d", runNames[o.kind], o.lo, o.hi, o.ts, o.ttl, o.now, o.seed)
}

// TestDeadRuns makes long runs of dead rows in every way, writes into them at
// random, and compares pages over them with a plain array of rows, the store's
// own background work going on all the while.
func TestDeadRuns(t *testing.T) {
	for _, desc := range []bool{false, true} {
		t.Run(fmt.Sprintf("desc=%v", desc), func(t *testing.T) {
			seeds(t, 1300*time.Millisecond, func(seed uint64) {
				ops := deadRunOps(rand.New(rand.NewPCG(seed, 4)), 120)
				fails := func(ops []runOp) error { return playDeadRuns(desc, ops) }
				err := fails(ops)
				if err == nil {
					return
				}
				ops, err = shrink(ops, err, fails)
				var b strings.Builder
				for _, o := range ops {
					fmt.Fprintf(&b, "%s\n", o)
				}
				t.Errorf("VARVE_SEED=%d desc=%v\n%s%v", seed, desc, b.String(), err)
			})
		})
	}
}

func deadRunOps(r *rand.Rand, n int) []runOp {
	now := int64(1_700_000_000)
	ops := []runOp{{kind: runInsert, hi: deadRows - 1, ts: 1000, now: now}}
	for range n {
		o := runOp{now: now, seed: r.Uint64(), ts: 1000 + int64(r.IntN(30))}
		if r.IntN(30) == 0 {
			o.ts = 1 << 60
		}
		width := []int{1, 5, 90, 600}[r.IntN(4)]
		o.lo = r.IntN(deadRows)
		o.hi = min(deadRows-1, o.lo+r.IntN(width))
		switch d := r.IntN(100); {
		case d < 12:
			o.hi = min(o.lo+r.IntN(3), deadRows-1)
			o.ts += 15
		case d < 18:
			o.ttl = 1 + r.Int32N(8)
		case d < 36:
			o.kind = runDeleteEach
		case d < 44:
			o.kind = runDeleteMixed
		case d < 52:
			o.kind = runDeleteRange
		case d < 78:
			o.kind = runRead
		case d < 88:
			o.kind = runCoalesce
		case d < 91:
			o.kind = runFlush
		case d < 93:
			o.kind = runCompact
		case d < 95:
			o.kind = runReopen
		case d < 97:
			o.kind = runCrash
		default:
			now += int64(r.IntN(9)) - 3
			o.kind = runRead
		}
		ops = append(ops, o)
	}
	return append(ops, runOp{kind: runRead, now: now, seed: 1})
}

// plainRow is all that decides whether a row of TestDeadRuns is live.
type plainRow struct {
	insert, deletion int64 // timestamps; 0: none
	ttl              int32
	expiry           int64
}

func (p *plainRow) put(ts int64, ttl int32, now int64) {
	expiry := int64(0)
	if ttl != 0 {
		expiry = now + int64(ttl)
	}
	later := ts == p.insert && (expiry > p.expiry || expiry == p.expiry && ttl < p.ttl)
	if ts > p.insert || later {
		p.insert, p.ttl, p.expiry = ts, ttl, expiry
	}
}

func (p *plainRow) live(now int64) bool {
	return p.insert > p.deletion && (p.ttl == 0 || now < p.expiry)
}

type deadRunWorld struct {
	table *schema.Table
	desc  bool
	fs    *vfs.MemFS
	st    *store.Store
	key   store.Key
	rows  [deadRows]plainRow
	clock atomic.Int64
}

func playDeadRuns(desc bool, ops []runOp) (err error) {
	ck := vtest.CK("c", cqltype.Int)
	ck.Desc = desc
	w := &deadRunWorld{
		table: vtest.NewTable(7, "runs", vtest.PK("p", cqltype.Int), ck), desc: desc, fs: vfs.NewCrashableMem(),
	}
	if w.key, err = store.KeyOf(w.table, [][]byte{be32(1)}); err != nil {
		return err
	}
	w.clock.Store(1_700_000_000)
	if err := w.openStore(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.st.Close()) }()
	for i, o := range ops {
		w.clock.Store(o.now)
		if err := w.do(o); err != nil {
			return fmt.Errorf("operation %d (%s): %w", i, runNames[o.kind], err)
		}
	}
	return nil
}

func (w *deadRunWorld) openStore() (err error) {
	w.st, err = store.Open(context.Background(), store.Options{
		FS: w.fs, DataDirs: []string{"d"}, CacheBytes: 1 << 20, MemtableBytes: 256 << 10, SpanBytes: 1 << 20,
		Clock:  func() time.Time { return time.Unix(w.clock.Load(), 0) },
		Fatal:  func(err error) { panic(err) },
		Tables: func() []*schema.Table { return []*schema.Table{w.table} },
	})
	return err
}

func be32(v int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(v)) }

func (w *deadRunWorld) do(o runOp) error {
	ctx := context.Background()
	r := rand.New(rand.NewPCG(o.seed, 5))
	switch o.kind {
	case runInsert:
		return w.insert(o)
	case runDeleteEach, runDeleteMixed:
		order := r.Perm(o.hi - o.lo + 1)
		for i := range order {
			at := o.lo + i
			if o.kind == runDeleteMixed {
				at = o.lo + order[i]
			}
			if err := w.deleteRow(at, o); err != nil {
				return err
			}
		}
		return nil
	case runDeleteRange:
		return w.deleteRange(o)
	case runRead:
		return w.read(r, o.now)
	case runCoalesce:
		w.st.RunBackground(ctx)
		return nil
	case runFlush:
		return w.st.Flush(ctx, w.table)
	case runCompact:
		return w.st.Compact(ctx, w.table)
	case runReopen:
		if err := w.st.Close(); err != nil {
			return err
		}
		return w.openStore()
	case runCrash:
		after := w.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.IntN(101), RNG: r})
		if err := w.st.Close(); err != nil {
			return err
		}
		w.fs = after
		return w.openStore()
	}
	return fmt.Errorf("unknown operation %d", o.kind)
}

func (w *deadRunWorld) apply(b *store.Batch) error {
	c, err := w.st.Apply(context.Background(), b, false)
	if err != nil {
		return err
	}
	return c.Wait()
}

func (w *deadRunWorld) insert(o runOp) error {
	b := w.st.NewBatch(o.now)
	for i := o.lo; i <= o.hi; i++ {
		b.Row(w.table, w.key, [][]byte{be32(i)}).Marker(o.ts, o.ttl)
		w.rows[i].put(o.ts, o.ttl, o.now)
	}
	return w.apply(b)
}

func (w *deadRunWorld) deleteRow(i int, o runOp) error {
	b := w.st.NewBatch(o.now)
	b.Row(w.table, w.key, [][]byte{be32(i)}).Delete(o.ts)
	w.rows[i].deletion = max(w.rows[i].deletion, o.ts)
	return w.apply(b)
}

func (w *deadRunWorld) slice(lo, hi int) store.Slice {
	s := store.Slice{
		Start: store.Bound{Prefix: [][]byte{be32(lo)}, Inclusive: true},
		End:   store.Bound{Prefix: [][]byte{be32(hi)}, Inclusive: true},
	}
	if w.desc {
		s.Start, s.End = s.End, s.Start
	}
	return s
}

func (w *deadRunWorld) deleteRange(o runOp) error {
	b := w.st.NewBatch(o.now)
	b.DeleteRange(w.table, w.key, w.slice(o.lo, o.hi), o.ts)
	for i := o.lo; i <= o.hi; i++ {
		w.rows[i].deletion = max(w.rows[i].deletion, o.ts)
	}
	return w.apply(b)
}
