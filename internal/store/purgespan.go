package store

import (
	"context"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// goneSpan is a span whose rows were removed. It stays in the map until the
// memtable with the removal is written out: until then a read without it would
// step over what was removed.
type goneSpan struct {
	tbl *table
	x   *span
}

const (
	// goneQuiet and goneBusy are how long spans that may be purged, and those
	// that were, wait for others before the memtable is written out for them.
	goneQuiet = 3 * time.Second
	goneBusy  = 20 * time.Second
	// manyGone is how many of them are reason enough: the engine sorts the range
	// deletions of a memtable anew after each one.
	manyGone = 2048
	// purgeBatch is how many spans of one stripe are purged by one commit.
	purgeBatch = 128
	// exciseBytes is how much a purged span must hold in whole files for those
	// to be dropped at once.
	exciseBytes = 16 << 20
)

// goneSpans are a shard's purged spans, used by one pass at a time.
type goneSpans struct {
	spans       []goneSpan
	first, last time.Time
}

// ripening is what is known of a table's spans that may be purged.
type ripening struct {
	n           int
	first, last time.Time // when there were some, and when there were more or fewer
}

// ripe reports whether n spans of a table have waited for others long enough.
func (sh *shard) ripe(tbl *table, n int, now time.Time) bool {
	if sh.ripening == nil {
		sh.ripening = map[*table]*ripening{}
	}
	r := sh.ripening[tbl]
	if r == nil {
		r = &ripening{first: now}
		sh.ripening[tbl] = r
	}
	if r.n != n {
		r.n, r.last = n, now
	}
	if n < manyGone && now.Sub(r.last) < goneQuiet && now.Sub(r.first) < goneBusy {
		return false
	}
	delete(sh.ripening, tbl)
	return true
}

// takeGone returns the purged spans when the memtable is to be written out for them.
func (sh *shard) takeGone(now time.Time, all bool) []goneSpan {
	g := &sh.gone
	if len(g.spans) == 0 {
		return nil
	}
	if !all && len(g.spans) < manyGone && now.Sub(g.last) < goneQuiet && now.Sub(g.first) < goneBusy {
		return nil
	}
	out := g.spans
	g.spans = nil
	return out
}

func (sh *shard) giveGone(spans []goneSpan) { sh.gone.spans = append(spans, sh.gone.spans...) }

// purgeSpans purges all of a table's spans that need not be kept, and forgets them.
func (s *Store) purgeSpans(ctx context.Context, tbl *table) error {
	s.reclaimMu.Lock()
	defer s.reclaimMu.Unlock()
	now := time.Now()
	for _, sh := range s.shards {
		if err := sh.purgeDue(ctx, tbl, s.gcBefore(tbl), now, true); err != nil {
			return err
		}
		gone := sh.takeGone(now, true)
		if len(gone) == 0 {
			continue
		}
		if err := sh.flush(ctx); err != nil {
			sh.giveGone(gone)
			return err
		}
		if err := sh.dropSpans(ctx, gone); err != nil {
			return err
		}
	}
	return nil
}

// purgeDue removes the rows of a table's spans that need not be kept: those
// that only a head deletion killed, at once, and those whose every tombstone is
// past gc_grace. Those rows must have left the memtable before: the engine steps
// over each that is in the same memtable as its removal, before a read can see
// that there is a span. all does not wait for more of them.
func (sh *shard) purgeDue(ctx context.Context, tbl *table, gcBefore int64, now time.Time, all bool) error {
	m := &tbl.parts[sh.idx].spans
	if m.n.Load() == 0 {
		return nil
	}
	due := m.due(gcBefore)
	if len(due) == 0 {
		delete(sh.ripening, tbl)
		return nil
	}
	if !all && !sh.ripe(tbl, len(due), now) {
		return nil
	}
	if err := sh.flush(ctx); err != nil {
		return err
	}
	sh.s.passMu.Lock()
	defer sh.s.passMu.Unlock()
	for len(due) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		set := sh.spanStripes(tbl, due[0])
		n := 1
		for n < len(due) && n < purgeBatch && sh.spanStripes(tbl, due[n]) == set {
			n++
		}
		gone, err := sh.purgeSome(tbl, due[:n], &set, gcBefore)
		if err != nil {
			return err
		}
		for _, x := range gone {
			if len(sh.gone.spans) == 0 {
				sh.gone.first = now
			}
			sh.gone.last = now
			sh.gone.spans = append(sh.gone.spans, goneSpan{tbl, x})
			sh.debts.add(debt{lo: x.lo, hi: x.hi, rows: x.rows, removed: true})
		}
		due = due[n:]
	}
	return nil
}

func (x *span) due(gcBefore int64) bool {
	return !x.purged && (x.newest == 0 || x.newest < gcBefore)
}

// due are the spans that may be purged.
func (m *spanMap) due(gcBefore int64) []*span {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []*span
	for _, c := range m.chunks {
		for _, x := range c {
			if x.due(gcBefore) {
				out = append(out, x)
			}
		}
	}
	return out
}

// spanStripes are the stripes of every row in a span.
func (sh *shard) spanStripes(tbl *table, x *span) stripeSet {
	var set stripeSet
	if def := tbl.def.Load(); def != nil {
		if n, _, err := partitionLen(def, []byte(x.lo), nil); err == nil && len(x.hi) > n && x.hi[:n] == x.lo[:n] {
			set.add(stripeOf(tokenOf([]byte(x.lo)[tablePrefixBytes:])), true)
			return set
		}
	}
	set.addAll()
	return set
}

// purgeSome removes the rows of some spans, all of the same stripes. The spans
// stay, now holding nothing.
func (sh *shard) purgeSome(tbl *table, due []*span, set *stripeSet, gcBefore int64) (gone []*span, err error) {
	sh.lock(set)
	defer sh.unlock(set)
	sh.spanMu.Lock()
	defer sh.spanMu.Unlock()
	m := &tbl.parts[sh.idx].spans
	m.mu.Lock()
	defer m.mu.Unlock()
	pb := sh.db.NewBatch()
	for _, x := range due {
		// A write may have cut the span, or put a tombstone into it.
		if m.at(x.lo) != x || !x.due(gcBefore) {
			continue
		}
		y := *x
		y.newest, y.bound, y.purged = 0, 0, true
		if err := errors.Join(pb.DeleteRange([]byte(x.lo), []byte(x.hi), nil), putSpan(pb, &y)); err != nil {
			return nil, errors.Join(err, pb.Close())
		}
		gone = append(gone, &y)
	}
	if len(gone) == 0 {
		return nil, pb.Close()
	}
	if err := errors.Join(sh.write(pb, pebble.NoSync), pb.Close()); err != nil {
		return nil, err
	}
	for _, y := range gone {
		c, i := m.locate(y.lo)
		m.chunks[c][i] = y
		sh.s.metrics.spansPurged.Add(1)
		sh.s.metrics.rowsRemoved.Add(y.rows)
	}
	return gone, nil
}

// dropSpans forgets purged spans that nothing was written into since. Their
// removal lies in tables by now.
func (sh *shard) dropSpans(ctx context.Context, gone []goneSpan) error {
	if len(gone) == 0 {
		return nil
	}
	sh.s.passMu.Lock()
	defer sh.s.passMu.Unlock()
	for _, g := range gone {
		if err := sh.dropSpan(ctx, &g.tbl.parts[sh.idx].spans, sh.spanStripes(g.tbl, g.x), g.x); err != nil {
			return err
		}
	}
	return nil
}

func (sh *shard) dropSpan(ctx context.Context, m *spanMap, set stripeSet, x *span) error {
	lo, hi, err := sh.wholeFiles(x)
	if err != nil {
		return err
	}
	sh.lock(&set)
	defer sh.unlock(&set)
	sh.spanMu.Lock()
	defer sh.spanMu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at(x.lo) != x {
		return nil
	}
	if lo != nil {
		// Nothing was written there since the rows were removed: no write could
		// pass the span without changing it.
		if err := sh.db.Excise(ctx, pebble.KeyRange{Start: lo, End: hi}); err != nil {
			sh.s.opts.Logger.Warn("space of deleted rows is not returned yet", "shard", sh.idx, "err", err)
		} else {
			sh.s.metrics.excised.Add(1)
		}
	}
	if err := sh.committed(sh.db.Delete(spanKey(x.lo), pebble.NoSync)); err != nil {
		return err
	}
	m.removeLocked(x.lo, x.hi)
	return nil
}

// wholeFiles are the keys from the first to past the last of a span's keys that
// lie in files of the deepest level which hold nothing else; nil where those are
// too small to be worth dropping by themselves. Compactions may change the files
// meanwhile, which makes the cut less neat but not wrong.
func (sh *shard) wholeFiles(x *span) (lo, hi []byte, err error) {
	n, err := sh.db.EstimateDiskUsage([]byte(x.lo), []byte(x.hi))
	if err != nil || n < exciseBytes {
		return nil, nil, err
	}
	levels, err := sh.db.SSTables(pebble.WithKeyRangeFilter([]byte(x.lo), []byte(x.hi)))
	if err != nil {
		return nil, nil, err
	}
	level, from, to := deepest(levels, x.lo, x.hi)
	if level == 0 {
		return nil, nil, nil
	}
	size := uint64(0)
	for _, f := range levels[level][from : to+1] {
		if string(f.Smallest.UserKey) < x.lo || string(f.Largest.UserKey) >= x.hi {
			continue
		}
		if lo == nil {
			lo = f.Smallest.UserKey
		}
		hi = successor(f.Largest.UserKey)
		size += f.Size
	}
	if size < exciseBytes {
		return nil, nil, nil
	}
	return lo, hi, nil
}
