package store

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"sync"
	"time"

	"varve/internal/cqltype"
	"varve/internal/schema"
)

type opKind uint8

const (
	opRow       opKind = iota // merge of a row fragment
	opCounter                 // a row fragment with increments
	opIndex                   // an index entry
	opPartition               // merge of a partition deletion into the head
	opRange                   // a range deletion
)

// op is one change in a batch's arena.
type op struct {
	kind   opKind
	live   bool // may make a row live
	kills  bool // deletes a row
	fed    bool // goes into its table's change feed
	stripe uint8
	shard  uint16
	tbl    *table
	// The key is buf[key:keyEnd]; its first preEnd-key bytes are the partition's
	// prefix. A range's key ends with its first suffix, its value is the suffix past it.
	key, preEnd, keyEnd int
	val, valEnd         int
	ts                  int64 // opRange
}

// Batch collects changes to any number of partitions. It is used by one goroutine.
// Timestamps are microseconds, TTLs seconds (0: none).
type Batch struct {
	s      *Store
	nowSec int64
	buf    []byte
	ops    []op
	shards uint64 // bit set of shards touched
	row    RowBuilder
	wait   patience
	err    error

	cells   []cell // scratch of the builder's slow path
	scratch []byte

	origin   string  // of the request, for fences and change feeds
	admitted bool    // no fence keeps it out any more
	replayed bool    // it comes from the batch log
	totals   []int64 // scratch of capture
}

// SetOrigin tells who makes the changes: the token that a fence may let pass,
// kept in change feeds. It has at most MaxOriginBytes.
func (b *Batch) SetOrigin(origin string) { b.origin = origin[:min(len(origin), MaxOriginBytes)] }

var batches = sync.Pool{New: func() any { return new(Batch) }}

// maxPooledBatch bounds the memory that an idle batch keeps.
const maxPooledBatch = 256 << 10

// NewBatch starts a batch; nowSec is the clock in seconds for deletion times and expiry.
func (s *Store) NewBatch(nowSec int64) *Batch {
	b := batches.Get().(*Batch)
	b.s, b.nowSec = s, nowSec
	b.row.b = b
	return b
}

// WaitAtMost bounds how long Apply waits for the batch's partitions, besides
// its context; 0: no more than that.
func (b *Batch) WaitAtMost(d time.Duration) { b.wait.most = d }

// patience is a context that ends a time after it was first waited for: those
// who need not wait, as a rule all, pay nothing for it.
type patience struct {
	context.Context
	most   time.Duration
	timed  context.Context
	cancel context.CancelFunc
}

// Done implements context.Context.
func (p *patience) Done() <-chan struct{} {
	if p.timed == nil {
		p.timed, p.cancel = context.WithTimeout(p.Context, p.most)
	}
	return p.timed.Done()
}

// Err implements context.Context.
func (p *patience) Err() error {
	if p.timed != nil {
		return p.timed.Err()
	}
	return p.Context.Err()
}

func (p *patience) stop() {
	if p.cancel != nil {
		p.cancel()
	}
	*p = patience{}
}

// Discard drops an unapplied batch for reuse.
func (b *Batch) Discard() {
	if b.s == nil {
		return
	}
	if cap(b.buf) > maxPooledBatch || cap(b.ops) > 4096 {
		*b = Batch{}
		return
	}
	for i := range b.ops {
		b.ops[i].tbl = nil
	}
	clear(b.cells[:cap(b.cells)])
	row := RowBuilder{lastPath: b.row.lastPath[:0]}
	*b = Batch{buf: b.buf[:0], ops: b.ops[:0], cells: b.cells[:0], scratch: b.scratch[:0], totals: b.totals[:0], row: row}
	batches.Put(b)
}

// Len is the number of rows and deletions in the batch.
func (b *Batch) Len() int {
	b.finishRow()
	n := 0
	for i := range b.ops {
		if b.ops[i].kind != opIndex {
			n++
		}
	}
	return n
}

// Size is the batch's size in bytes.
func (b *Batch) Size() int {
	b.finishRow()
	n := 0
	for i := range b.ops {
		o := &b.ops[i]
		n += o.keyEnd - o.key + o.valEnd - o.val
	}
	return n
}

func (b *Batch) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// shardOf is the shard that owns a token: shards are equal slices of the ring.
func (s *Store) shardOf(token int64) int {
	hi, _ := bits.Mul64(uint64(token)^(1<<63), uint64(len(s.shards)))
	return int(hi)
}

func stripeOf(token int64) uint8 { return uint8(token) }

func (b *Batch) newOp(kind opKind, tbl *table, k Key) op {
	sh := b.s.shardOf(k.Token)
	b.shards |= 1 << sh
	return op{kind: kind, tbl: tbl, shard: uint16(sh), stripe: stripeOf(k.Token)}
}

// Row starts (or goes on with) changes to one row; clustering nil means the
// partition's static row. The builder is valid until the next call on the batch.
func (b *Batch) Row(t *schema.Table, k Key, clustering [][]byte) *RowBuilder {
	b.finishRow()
	r := &b.row
	tbl := b.s.tableFor(t)
	r.op = b.newOp(opRow, tbl, k)
	r.t, r.k = t, k
	r.op.key = len(b.buf)
	b.buf = appendPartition(b.buf, t.PhysID, familyRow, k)
	r.op.preEnd = len(b.buf)
	var err error
	if b.buf, err = appendSuffix(b.buf, t, clustering); err != nil {
		b.fail(err)
	}
	r.op.keyEnd = len(b.buf)
	r.cells = len(b.buf) + maxHeaderBytes
	var room [maxHeaderBytes]byte
	b.buf = append(b.buf, room[:]...)
	r.hdr = rowHeader{flags: rowVersion, delTS: noDeletion}
	r.n, r.hasBase, r.slow, r.extras, r.open = 0, false, false, false, true
	r.clearCol = -1
	if tbl.isLossy(t) && b.err == nil {
		r.keepKey(clustering)
	}
	return r
}

// DeletePartition deletes everything in the partition written at or before ts.
func (b *Batch) DeletePartition(t *schema.Table, k Key, ts int64) {
	b.finishRow()
	o := b.newOp(opPartition, b.s.tableFor(t), k)
	o.key = len(b.buf)
	b.buf = appendPartition(b.buf, t.PhysID, familyHead, k)
	o.keyEnd, o.preEnd, o.val = len(b.buf), len(b.buf), len(b.buf)
	b.buf = appendHeader(b.buf, &rowHeader{flags: rowVersion | rowHasDeletion, delTS: ts, delLDT: b.nowSec})
	o.valEnd, o.ts = len(b.buf), ts
	b.ops = append(b.ops, o)
}

// DeleteRange deletes the partition's rows in the slice written at or before ts.
func (b *Batch) DeleteRange(t *schema.Table, k Key, sl Slice, ts int64) {
	b.finishRow()
	o := b.newOp(opRange, b.s.tableFor(t), k)
	o.key = len(b.buf)
	b.buf = appendPartition(b.buf, t.PhysID, familyHead, k)
	o.preEnd = len(b.buf)
	var err error
	if b.buf, err = appendStart(b.buf, t, sl.Start); err != nil {
		b.fail(err)
	}
	o.keyEnd, o.val = len(b.buf), len(b.buf)
	if b.buf, err = appendEnd(b.buf, t, sl.End); err != nil {
		b.fail(err)
	}
	o.valEnd, o.ts = len(b.buf), ts
	if string(b.buf[o.preEnd:o.keyEnd]) >= string(b.buf[o.val:o.valEnd]) {
		return // an empty slice
	}
	b.ops = append(b.ops, o)
}

// addIndex adds the entry of the row being built.
func (b *Batch) addIndex(r *RowBuilder, x *schema.Index, value []byte) {
	// The builder's cells lie at the arena's end; entries wait in scratch until the row is finished.
	o := r.op
	o.kind, o.live, o.kills = opIndex, false, false
	start := len(b.scratch)
	buf := appendTablePrefix(b.scratch, x.PhysID, familyIndex)
	buf, err := cqltype.AppendKey(buf, x.ValueType(), value, false)
	if err != nil {
		b.fail(fmt.Errorf("index %s: %w", x.Name, err))
		return
	}
	buf = appendToken(buf, r.k.Token)
	buf = append(buf, r.k.enc...)
	buf = append(buf, b.buf[r.op.preEnd:r.op.keyEnd]...)
	o.key, o.keyEnd, o.preEnd = start, len(buf), start
	o.val = len(buf)
	if cqltype.LossyKey(x.ValueType()) {
		buf = append(buf, value...)
	}
	o.valEnd = len(buf)
	b.scratch = buf
	r.entries = append(r.entries, o)
}

// clampSec keeps a time in seconds encodable as an unsigned number.
func clampSec(sec int64) int64 {
	return max(0, min(sec, math.MaxInt64))
}
