package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// ErrReadOnly says that the store was opened without writing.
var ErrReadOnly = errors.New("store is read-only")

// Commit is an applied batch that may not be durable yet.
type Commit struct {
	s     *Store
	batch *pebble.Batch // the only shard's, or nil
	more  []shardBatch  // several shards'
	logID uint64        // batch log record to remove once all are durable; 0: none
	start time.Time     // when Apply began
	tbl   *table        // the first change's, for latency
	_     [0]func()     // not comparable
}

type shardBatch struct {
	sh    *shard
	batch *pebble.Batch
}

// Wait returns once the batch may be acknowledged. It must be called once.
func (c Commit) Wait() error {
	if c.s == nil {
		return nil
	}
	var err error
	if c.batch != nil {
		err = c.s.waitSync(c.batch)
	}
	for _, x := range c.more {
		err = errors.Join(err, c.s.waitSync(x.batch))
	}
	if c.logID != 0 && err == nil {
		err = c.s.forgetLogged(c.logID)
	}
	if err == nil {
		err = c.s.failed()
	}
	if c.tbl != nil {
		c.tbl.stats.wrote(time.Since(c.start))
	}
	return err
}

// waitSync waits for a batch's journal record; a failure is the store's end.
func (s *Store) waitSync(b *pebble.Batch) error {
	if s.opts.Durability == Durable {
		if err := b.SyncWait(); err != nil {
			s.fatal(err)
			return err
		}
	}
	return b.Close()
}

// Apply makes the batch visible: atomically in each shard, and, where logged
// and the batch spans shards, whole even after a crash. The batch is used up.
func (s *Store) Apply(ctx context.Context, b *Batch, logged bool) (Commit, error) {
	return s.apply(ctx, b, logged, nil)
}

func (s *Store) apply(ctx context.Context, b *Batch, logged bool, held *Lock) (Commit, error) {
	defer b.Discard()
	b.finishRow()
	if b.err != nil {
		return Commit{}, b.err
	}
	if err := ctx.Err(); err != nil {
		return Commit{}, err
	}
	if s.opts.ReadOnly {
		return Commit{}, ErrReadOnly
	}
	if err := s.failed(); err != nil {
		return Commit{}, err
	}
	if len(b.ops) == 0 {
		return Commit{}, nil
	}
	if held == nil && b.wait.most > 0 {
		b.wait.Context = ctx
		ctx = &b.wait
		defer b.wait.stop()
	}
	c := Commit{s: s, start: time.Now(), tbl: b.ops[0].tbl}
	if b.shards&(b.shards-1) == 0 {
		sh := s.shards[b.ops[0].shard]
		pb, err := sh.applyOps(ctx, b, held)
		if err != nil {
			return Commit{}, err
		}
		c.batch = pb
		return c, nil
	}
	if held == nil {
		if err := s.fenceMu.take(ctx, false); err != nil {
			return Commit{}, err
		}
		defer s.fenceMu.RUnlock()
	}
	if s.watched.Load() && !b.admitted {
		if err := s.admit(b, -1); err != nil {
			return Commit{}, err
		}
	}
	b.admitted = true
	if logged && held == nil {
		// Who gives up waiting has done nothing: what is in the log gets everywhere.
		l, err := s.lockBatch(ctx, b)
		if err != nil {
			return Commit{}, err
		}
		defer l.Unlock()
		held = l
	}
	if logged {
		id, err := s.logBatch(b)
		if err != nil {
			return Commit{}, err
		}
		c.logID = id
	}
	for i, sh := range s.shards {
		if b.shards>>i&1 == 0 {
			continue
		}
		pb, err := sh.applyOps(ctx, b, held)
		if err != nil {
			for _, x := range c.more {
				err = errors.Join(err, s.waitSync(x.batch))
			}
			return Commit{}, fmt.Errorf("apply to shard %d: %w", i, err)
		}
		c.more = append(c.more, shardBatch{sh, pb})
	}
	return c, nil
}

// applyOps commits the batch's changes of one shard. Every change passes the
// guard of dead spans under its partition's stripe: shared, unless it reads
// before it writes.
func (sh *shard) applyOps(ctx context.Context, b *Batch, held *Lock) (*pebble.Batch, error) {
	if len(b.ops) == 1 && held == nil {
		o := &b.ops[0]
		if !o.reads() {
			return sh.applyOne(ctx, b, o)
		}
	}
	var set stripeSet
	for i := range b.ops {
		if o := &b.ops[i]; int(o.shard) == sh.idx {
			set.add(o.stripe, o.reads())
			if held != nil && !held.holds(sh.idx, o.stripe) {
				return nil, errors.New("batch touches a partition that its lock does not hold")
			}
		}
	}
	if held == nil {
		if err := sh.lockWithin(ctx, &set); err != nil {
			return nil, err
		}
		defer sh.unlock(&set)
	}
	if err := sh.admit(b); err != nil {
		return nil, err
	}
	pb := sh.db.NewBatchWithSize(len(b.buf) + 32*len(b.ops) + 64)
	guarded := false
	for i := range b.ops {
		o := &b.ops[i]
		if int(o.shard) != sh.idx {
			continue
		}
		guarded = guarded || o.tbl.parts[sh.idx].spans.guarded()
		if err := sh.put(pb, b, o); err != nil {
			return nil, errors.Join(err, pb.Close())
		}
	}
	if err := sh.putReading(pb, b); err != nil {
		return nil, errors.Join(err, pb.Close())
	}
	if !guarded {
		return pb, sh.commit(pb, b)
	}
	return sh.commitGuarded(pb, b)
}

// commitGuarded passes a batch's changes through the guard and commits it.
// Batches that change span records are committed one at a time, in the order
// in which they changed the map.
func (sh *shard) commitGuarded(pb *pebble.Batch, b *Batch) (*pebble.Batch, error) {
	for i := range b.ops {
		o := &b.ops[i]
		if int(o.shard) == sh.idx && o.isRow() && sh.s.keeps(ruleRecordsOrdered) &&
			o.tbl.parts[sh.idx].spans.touches(b.buf[o.key:o.keyEnd], o.live, b.nowSec) {
			sh.spanMu.Lock()
			defer sh.spanMu.Unlock()
			break
		}
	}
	if !sh.s.keeps(ruleCutFirst) || !sh.s.keeps(ruleCutRecorded) {
		return sh.commitBroken(pb, b)
	}
	if err := sh.keepSpans(pb, b); err != nil {
		return nil, errors.Join(err, pb.Close())
	}
	return pb, sh.commit(pb, b)
}

// keepSpans keeps the spans true to a batch's rows; records that change go into pb.
func (sh *shard) keepSpans(pb *pebble.Batch, b *Batch) error {
	for i := range b.ops {
		o := &b.ops[i]
		if int(o.shard) != sh.idx || !o.isRow() {
			continue
		}
		err := o.tbl.parts[sh.idx].spans.written(pb, b.buf[o.key:o.keyEnd], o.live, clampSec(b.nowSec))
		if err != nil {
			return err
		}
	}
	return nil
}

// deletes reports that the change may leave dead rows behind: a deletion, or
// nothing but tombstones of cells.
func (o *op) deletes() bool {
	return o.kills || o.kind == opRange || o.kind == opPartition || o.kind == opRow && !o.live
}

// reads reports that the change reads before it writes, with its stripe held exclusively.
func (o *op) reads() bool { return o.kind == opRange || o.kind == opCounter }

func (o *op) isRow() bool { return o.kind == opRow || o.kind == opCounter }

// applyOne is applyOps for the most frequent batch: one blind change.
func (sh *shard) applyOne(ctx context.Context, b *Batch, o *op) (*pebble.Batch, error) {
	lock := &sh.stripes[o.stripe]
	pb := sh.db.NewBatchWithSize(len(b.buf) + 64)
	if err := sh.put(pb, b, o); err != nil {
		return nil, errors.Join(err, pb.Close())
	}
	if err := lock.take(ctx, false); err != nil {
		return nil, errors.Join(err, pb.Close())
	}
	defer lock.RUnlock()
	if err := sh.admit(b); err != nil {
		return nil, errors.Join(err, pb.Close())
	}
	if !o.tbl.parts[sh.idx].spans.guarded() {
		return pb, sh.commit(pb, b)
	}
	return sh.commitGuarded(pb, b)
}

// admit refuses the batch where a fence or a full change feed keeps it out. The
// stripes are held, and stay so until the batch is visible: what looks before a
// fence is published is finished before it is reported as closed.
func (sh *shard) admit(b *Batch) error {
	if b.admitted || !sh.s.watched.Load() {
		return nil
	}
	return sh.s.admit(b, sh.idx)
}

// put adds a blind change to a Pebble batch.
func (sh *shard) put(pb *pebble.Batch, b *Batch, o *op) error {
	key, val := b.buf[o.key:o.keyEnd], b.buf[o.val:o.valEnd]
	switch o.kind {
	case opRow:
		return pb.Merge(key, val, nil)
	case opIndex:
		return pb.Set(key, val, nil)
	case opPartition:
		sh.s.step(sharedHeads, true)
		o.tbl.parts[sh.idx].heads.Store(true)
		return pb.Merge(key, val, nil)
	case opRange:
		sh.s.step(sharedHeads, true)
		o.tbl.parts[sh.idx].heads.Store(true)
	}
	return nil
}

// putReading adds the changes that read before they write; their stripes are
// held exclusively.
func (sh *shard) putReading(pb *pebble.Batch, b *Batch) error {
	counters, err := sh.counterRows(b)
	if err != nil {
		return err
	}
	var ranges *rangeWriter
	for i := range b.ops {
		o := &b.ops[i]
		if int(o.shard) != sh.idx || o.kind != opRange {
			continue
		}
		if ranges == nil {
			ranges = &rangeWriter{sh: sh, ldt: clampSec(b.nowSec)}
		}
		ranges.add(b, o)
	}
	if counters != nil {
		if err := counters.fill(b, ranges); err != nil {
			return err
		}
		if err := counters.write(pb); err != nil {
			return err
		}
	}
	if ranges != nil {
		return ranges.write(pb)
	}
	return nil
}

// counterRows reads the rows that a batch has increments for; nil when it has none.
func (sh *shard) counterRows(b *Batch) (w *counterWriter, err error) {
	for i := range b.ops {
		o := &b.ops[i]
		if int(o.shard) != sh.idx || o.kind != opCounter {
			continue
		}
		if w == nil {
			w = &counterWriter{sh: sh}
		}
		if _, err := w.row(b.buf[o.key:o.keyEnd]); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// commit makes a Pebble batch visible; it is durable once its sync is waited for.
func (sh *shard) commit(pb *pebble.Batch, b *Batch) error {
	first, err := int64(0), error(nil)
	if sh.s.watched.Load() {
		if first, err = sh.capture(pb, b); err != nil {
			return err
		}
		defer sh.feed.land(first)
	}
	if sh.s.opts.Durability == Durable {
		sh.s.step(sharedData, true)
		err = sh.committed(sh.db.ApplyNoSyncWait(pb, pebble.Sync))
	} else {
		err = sh.write(pb, pebble.NoSync)
	}
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	for i := range b.ops {
		o := &b.ops[i]
		if int(o.shard) == sh.idx && o.deletes() {
			sh.pending.note(sh, b, o)
		}
	}
	return sh.s.failed()
}
