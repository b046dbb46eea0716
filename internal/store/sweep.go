package store

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"varve/internal/schema"
)

const (
	// defaultGCGrace is Cassandra's, for tables whose definition is not known.
	defaultGCGrace = 864000
	// sweepRows is how many rows a sweep looks at between two short waits.
	sweepRows = 4096
	sweepWait = 20 * time.Millisecond
	// purgeChanges is how many rows are changed while writers wait.
	purgeChanges = 256
	purgePeriod  = time.Second
)

// definitions are the tables that are known.
func (s *Store) definitions() []*schema.Table {
	if s.opts.Tables != nil {
		return s.opts.Tables()
	}
	var out []*schema.Table
	for _, tbl := range *s.tables.Load() {
		if def := tbl.def.Load(); def != nil {
			out = append(out, def)
		}
	}
	return out
}

// gcBefore is the time before which a table's tombstones may go.
func (s *Store) gcBefore(tbl *table) int64 {
	grace := int64(defaultGCGrace)
	if def := tbl.def.Load(); def != nil {
		grace = int64(def.Options.GCGraceSeconds)
	}
	return s.opts.Clock().Unix() - grace
}

// sweepTable purges everything in a table that may be purged, spans last.
func (s *Store) sweepTable(ctx context.Context, tbl *table, gently bool) (tombs, error) {
	var left tombs
	gcBefore := s.gcBefore(tbl)
	for _, sh := range s.shards {
		if err := sh.sweepRows(ctx, tbl, gcBefore, gently, &left); err != nil {
			return left, err
		}
		if err := sh.sweepHeads(ctx, tbl, gcBefore, &left); err != nil {
			return left, err
		}
	}
	if gently {
		return left, nil // spans are the reclaimer's
	}
	return left, s.purgeSpans(ctx, tbl)
}

// sweepRows goes over all of a table's rows outside spans.
func (sh *shard) sweepRows(ctx context.Context, tbl *table, gcBefore int64, gently bool, left *tombs) error {
	lo := appendTablePrefix(nil, tbl.phys, familyRow)
	hi := prefixEnd(lo)
	for cur := lo; cur != nil; {
		if err := ctx.Err(); err != nil {
			return err
		}
		next, err := sh.sweepSome(tbl, cur, hi, gcBefore, left)
		if err != nil {
			return err
		}
		cur = next
		if gently && cur != nil {
			select {
			case <-ctx.Done():
			case <-time.After(sweepWait):
			}
		}
	}
	return nil
}

// change is what a sweep does to a row: value nil removes it.
type change struct {
	key, value []byte
}

// sweepSome purges some rows from cur; next is where to go on.
func (sh *shard) sweepSome(tbl *table, cur, hi []byte, gcBefore int64, left *tombs) (next []byte, err error) {
	sh.s.passMu.Lock()
	defer sh.s.passMu.Unlock()
	m := &tbl.parts[sh.idx].spans
	var all stripeSet
	all.addAll()
	sh.lock(&all)
	in := m.begin(cur, hi)
	sh.unlock(&all)
	defer m.finish(in)
	sc, err := sh.newScan(tbl, cur, hi)
	if err != nil {
		return nil, err
	}
	changes, next, err := sc.purgeable(gcBefore, sh.s.expiredBefore(), true, left)
	if err = errors.Join(err, sc.close()); err != nil {
		return nil, err
	}
	for len(changes) > 0 {
		n := min(len(changes), purgeChanges)
		if ok, err := sh.applySome(m, in, &all, changes[:n]); err != nil || !ok {
			return next, err // the next sweep comes by again
		}
		changes = changes[n:]
	}
	return next, nil
}

// applySome writes some of a sweep's changes; ok is false when too much was
// written meanwhile to tell which of them still hold.
func (sh *shard) applySome(m *spanMap, in *intent, set *stripeSet, changes []change) (ok bool, err error) {
	sh.lock(set)
	defer sh.unlock(set)
	dirty, ok := m.writtenIn(in)
	if !ok {
		return false, nil
	}
	return true, sh.applyChanges(changes, dirty)
}

// purgeable gathers the changes of some thousand rows.
func (sc *deadScan) purgeable(gcBefore, expired int64, skipSpans bool, left *tombs) (changes []change, next []byte, err error) {
	valid := sc.it.First()
	for n := 0; valid; n++ {
		key := sc.it.Key()
		if n >= sweepRows {
			return changes, slices.Clone(key), nil
		}
		if skipSpans {
			// Rows dead by TTL may have values to lose.
			if x := sc.spanAt(key); x != nil && (x.expiry == 0 || x.expiry >= expired) {
				if x.expiry != 0 {
					left.expires(x.expiry)
				}
				valid = sc.it.SeekGE([]byte(x.hi))
				continue
			}
		}
		v, err := sc.it.ValueAndErr()
		if err != nil {
			return nil, nil, err
		}
		del, err := sc.heads.deletionOf(key)
		if err != nil {
			return nil, nil, err
		}
		out, what := purgeRow(nil, v, del, gcBefore, expired, left)
		switch what {
		case purgedAll:
			changes = append(changes, change{key: slices.Clone(key)})
		case purgedPart:
			changes = append(changes, change{slices.Clone(key), out})
		}
		valid = sc.it.Next()
	}
	return changes, nil, sc.it.Error()
}

// applyChanges writes a sweep's changes but for rows written since it read
// them, sorted. The stripes of all of them are held exclusively.
func (sh *shard) applyChanges(changes []change, dirty []string) error {
	pb := sh.db.NewBatch()
	var owed debt
	for _, c := range changes {
		if _, found := slices.BinarySearch(dirty, string(c.key)); found {
			continue
		}
		if err := sh.putChange(pb, c); err != nil {
			return errors.Join(err, pb.Close())
		}
		if owed.rows++; owed.rows == 1 {
			owed.lo, owed.hi = string(c.key), string(c.key)
		}
		owed.lo, owed.hi = min(owed.lo, string(c.key)), max(owed.hi, string(c.key))
		owed.removed = owed.removed || c.value == nil
	}
	if pb.Empty() {
		return pb.Close()
	}
	if err := errors.Join(sh.write(pb, pebble.NoSync), pb.Close()); err != nil {
		return err
	}
	sh.debts.add(owed)
	return nil
}

func (sh *shard) putChange(pb *pebble.Batch, c change) error {
	if c.value == nil {
		sh.s.metrics.rowsRemoved.Add(1)
		return pb.Delete(c.key, nil)
	}
	sh.s.metrics.rowsPurged.Add(1)
	return pb.Set(c.key, c.value, nil)
}

// sweepHeads purges partition and range deletions past gc_grace.
func (sh *shard) sweepHeads(ctx context.Context, tbl *table, gcBefore int64, left *tombs) error {
	def := tbl.def.Load()
	if def == nil || !tbl.parts[sh.idx].heads.Load() {
		return nil
	}
	lo := appendTablePrefix(nil, tbl.phys, familyHead)
	hi := prefixEnd(lo)
	for cur := lo; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := sh.readHead(def, cur, hi)
		if err != nil || h == nil {
			return err
		}
		if h.due(gcBefore, left) {
			if err := sh.purgeHead(ctx, tbl, h, gcBefore); err != nil {
				return err
			}
		}
		cur = append(slices.Clone(h.prefix), suffixEnd, 0)
	}
}

// headCopy is a partition's head as a sweep read it.
type headCopy struct {
	prefix []byte // in the head family
	hasDel bool
	del    rowHeader
	list   []interval
	chunks [][]byte // ends
}

// readHead reads the first head at or after cur; nil when there is none.
func (sh *shard) readHead(def *schema.Table, cur, hi []byte) (*headCopy, error) {
	it, err := sh.db.NewIter(&pebble.IterOptions{LowerBound: cur, UpperBound: hi})
	if err != nil {
		return nil, err
	}
	var h *headCopy
	for valid := it.First(); valid && err == nil; valid = it.Next() {
		key := it.Key()
		if h == nil {
			var n int
			if n, _, err = partitionLen(def, key, nil); err != nil {
				break
			}
			h = &headCopy{prefix: slices.Clone(key[:n])}
		}
		if !bytes.HasPrefix(key, h.prefix) {
			break
		}
		var v []byte
		if v, err = it.ValueAndErr(); err != nil {
			break
		}
		if len(key) == len(h.prefix) {
			var ok bool
			if _, ok = decodeHeader(v, &h.del); !ok {
				err = errRowShape
			}
			h.hasDel = true
			continue
		}
		h.chunks = append(h.chunks, slices.Clone(key[len(h.prefix):]))
		_, h.list, err = decodeChunk(h.list, slices.Clone(v))
	}
	return h, errors.Join(err, it.Error(), it.Close())
}

// due reports that part of the head is past gc_grace.
func (h *headCopy) due(gcBefore int64, left *tombs) bool {
	due := false
	if h.hasDel {
		if h.del.delLDT < gcBefore {
			due = true
		} else {
			left.keep(h.del.delLDT)
		}
	}
	for i := range h.list {
		if h.list[i].ldt < gcBefore {
			due = true
		} else {
			left.keep(h.list[i].ldt)
		}
	}
	return due
}

// purgeHead removes what a partition's head covers, those rows too that a span
// hides, and then those of its deletions that are past gc_grace. Rows written
// meanwhile are looked at again under the lock under which the deletions go.
func (sh *shard) purgeHead(ctx context.Context, tbl *table, h *headCopy, gcBefore int64) error {
	sh.s.passMu.Lock()
	defer sh.s.passMu.Unlock()
	m := &tbl.parts[sh.idx].spans
	lo := slices.Clone(h.prefix)
	lo[tablePrefixBytes-1] = familyRow
	hi := append(slices.Clone(lo), suffixEnd)
	stripe := &sh.stripes[stripeOf(tokenOf(lo[tablePrefixBytes:]))]
	stripe.Lock()
	in := m.begin(lo, hi)
	stripe.Unlock()
	defer m.finish(in)
	var ignored tombs
	for cur := lo; cur != nil; {
		if err := ctx.Err(); err != nil {
			return err
		}
		sc, err := sh.newScan(tbl, cur, hi)
		if err != nil {
			return err
		}
		changes, next, err := sc.purgeable(noDeletion, noDeletion, false, &ignored)
		if err = errors.Join(err, sc.close()); err != nil {
			return err
		}
		stripe.Lock()
		dirty, ok := m.writtenIn(in)
		if ok {
			err = sh.applyChanges(changes, dirty)
		}
		stripe.Unlock()
		if err != nil || !ok {
			return err // where too much was written, the next sweep tries again
		}
		cur = next
	}
	stripe.Lock()
	defer stripe.Unlock()
	dirty, ok := m.writtenIn(in)
	if !ok {
		return nil
	}
	pb := sh.db.NewBatch()
	err := sh.purgeDirty(pb, tbl, len(lo), dirty)
	if err == nil {
		err = sh.removeHead(pb, h, gcBefore)
	}
	if err != nil {
		return errors.Join(err, pb.Close())
	}
	return errors.Join(sh.write(pb, pebble.NoSync), pb.Close())
}

func (m *spanMap) writtenIn(in *intent) (keys []string, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return in.all()
}

// purgeDirty removes covered parts of single rows.
func (sh *shard) purgeDirty(pb *pebble.Batch, tbl *table, prefix int, dirty []string) error {
	var ignored tombs
	for _, k := range dirty {
		v, err := sh.get([]byte(k))
		if err != nil {
			return err
		}
		if v == nil {
			continue
		}
		del, err := sh.deletionAt(tbl, []byte(k), prefix)
		if err != nil {
			return err
		}
		out, what := purgeRow(nil, v, del, noDeletion, noDeletion, &ignored)
		if what == purgedNothing {
			continue
		}
		if err := sh.putChange(pb, change{[]byte(k), out}); err != nil {
			return err
		}
	}
	return nil
}

// removeHead removes the deletions past gc_grace that were there when the
// sweep of the partition began.
func (sh *shard) removeHead(pb *pebble.Batch, old *headCopy, gcBefore int64) error {
	now, err := sh.headNow(old)
	if err != nil || now == nil {
		return err
	}
	if now.hasDel && now.del.delLDT < gcBefore && old.hasDel && now.del.delTS <= old.del.delTS {
		sh.s.metrics.intervalsPurged.Add(1)
		if err := pb.Delete(now.prefix, nil); err != nil {
			return err
		}
	}
	key := func(suffix []byte) []byte { return append(slices.Clone(now.prefix), suffix...) }
	kept := slices.DeleteFunc(slices.Clone(now.list), func(v interval) bool {
		return v.ldt < gcBefore && old.holds(v)
	})
	if len(kept) == len(now.list) {
		return nil
	}
	sh.s.metrics.intervalsPurged.Add(int64(len(now.list) - len(kept)))
	for _, end := range now.chunks {
		if err := pb.Delete(key(end), nil); err != nil {
			return err
		}
	}
	if len(kept) == 0 {
		return nil
	}
	r := chunkRegion{prefix: now.prefix, start: []byte{suffixFirst}, end: []byte{suffixEnd}, list: kept}
	return r.write(pb)
}

// headNow reads a head again.
func (sh *shard) headNow(old *headCopy) (*headCopy, error) {
	it, err := sh.db.NewIter(&pebble.IterOptions{
		LowerBound: old.prefix, UpperBound: append(slices.Clone(old.prefix), suffixEnd, 0),
	})
	if err != nil {
		return nil, err
	}
	h := &headCopy{prefix: old.prefix}
	for valid := it.First(); valid && err == nil; valid = it.Next() {
		var v []byte
		if v, err = it.ValueAndErr(); err != nil {
			break
		}
		if len(it.Key()) == len(h.prefix) {
			if _, ok := decodeHeader(v, &h.del); !ok {
				err = errRowShape
			}
			h.hasDel = true
			continue
		}
		h.chunks = append(h.chunks, slices.Clone(it.Key()[len(h.prefix):]))
		_, h.list, err = decodeChunk(h.list, slices.Clone(v))
	}
	return h, errors.Join(err, it.Error(), it.Close())
}

// holds reports that v lies in an interval of the same deletion.
func (h *headCopy) holds(v interval) bool {
	for i := range h.list {
		o := &h.list[i]
		if o.ts == v.ts && o.ldt == v.ldt && bytes.Compare(o.lo, v.lo) <= 0 && bytes.Compare(v.hi, o.hi) <= 0 {
			return true
		}
	}
	return false
}
