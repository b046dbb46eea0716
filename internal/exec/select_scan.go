package exec

import (
	"context"
	"errors"

	"varve/internal/cqlwire"
	"varve/internal/store"
)

// readKeys reads the partitions that WHERE names.
func (r *selectRun) readKeys(ctx context.Context) error {
	w := r.plan.where
	if err := w.appendKeys(r.x, &r.sc); err != nil {
		return err
	}
	keys := r.sc.keys
	all, _, err := w.appendSlices(r.x, &r.sc)
	if err != nil {
		return err
	}
	slices := r.sc.slices
	if all {
		slices = nil
	} else if len(slices) == 0 {
		return r.closeGroups()
	}
	if w.token != nil {
		if keys, err = r.keysInToken(keys); err != nil {
			return err
		}
	}
	lock, err := r.serialLock(ctx, keys)
	if err != nil {
		return err
	}
	if lock != nil {
		defer lock.Unlock()
	}
	r.openView()
	if err := r.scanKeys(ctx, keys, slices); err != nil {
		return err
	}
	if lock != nil {
		return lock.Sync()
	}
	return nil
}

// serialLock keeps writers of the partition out while a SERIAL read goes on.
func (r *selectRun) serialLock(ctx context.Context, keys []store.Key) (*store.Lock, error) {
	switch r.x.p.Consistency {
	case cqlwire.Serial, cqlwire.LocalSerial:
	default:
		return nil, nil
	}
	if len(keys) > 1 {
		return nil, invalidf("SERIAL/LOCAL_SERIAL consistency may only be requested for one partition at a time")
	}
	if len(keys) == 0 {
		return nil, nil
	}
	ctx, cancel := withTimeout(ctx, r.x.e.opts.Limits.ReadTimeoutMillis.Load())
	defer cancel()
	return r.st.Lock(ctx, r.plan.table, keys...)
}

func (r *selectRun) scanKeys(ctx context.Context, keys []store.Key, slices []store.Slice) error {
	sp := r.plan
	first := 0
	var from [][]byte
	if r.resume != nil && r.resume.key != nil {
		var err error
		if first, err = r.resumeAt(keys); err != nil {
			return err
		}
		from = r.resume.clustering
	}
	single := len(keys) == 1 && len(r.sc.comps) == len(sp.table.PartitionKey)
	for i := first; i < len(keys); i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.at = i
		q := r.query(slices)
		resumed := i == first && r.resume != nil && r.resume.key != nil
		if resumed {
			if from != nil {
				q.Slices = slicesAfter(sp.table, slices, from, sp.reversed)
			}
		}
		if r.x.trace != nil {
			r.x.trace.Event("Executing single-partition query on %s", sp.table.Name)
		}
		rows := r.view.Partition(sp.table, keys[i], q)
		err := r.scan(ctx, rows, single, resumed)
		if cerr := rows.Close(); err == nil {
			err = cerr
		}
		if err == nil || err == errFull {
			r.report(nil)
		}
		if err == errFull {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return r.closeGroups()
}

// resumeAt finds the partition at which the page starts.
func (r *selectRun) resumeAt(keys []store.Key) (int, error) {
	k, err := store.KeyOf(r.plan.table, r.resume.key)
	if err != nil {
		return 0, errPagingState
	}
	for i := range keys {
		if !keys[i].Equal(k) {
			continue
		}
		if r.resume.done {
			r.resume.key = nil
			return i + 1, nil
		}
		return i, nil
	}
	return 0, errPagingState
}

// scan takes the rows of one iterator in. single: it has one partition, whose
// key is in the run's buffers; resumed: an earlier page began the partition
// at which this one starts, unless it has gone since.
func (r *selectRun) scan(ctx context.Context, rows *store.Rows, single, resumed bool) error {
	c, sp := &r.ctx, r.plan
	for rows.NextPartition() {
		if single {
			c.key = r.sc.comps
		} else {
			c.key = rows.KeyComponents()
			r.lastTok, r.tokenSet = rows.Key().Token, true
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		c.row, c.static = nil, nil
		if sp.readStatic {
			c.static = rows.Static()
		}
		begun := r.beginPartition(c.key, resumed)
		resumed = false
		if err := r.scanPartition(rows, begun); err != nil {
			return err
		}
	}
	if !single {
		// Partitions without a live row were passed, but read all the same.
		r.lastTok, r.tokenSet = rows.Key().Token, true
	}
	if !errors.Is(rows.Err(), store.ErrDeadline) {
		return rows.Err()
	}
	// The deadline struck before the partition's first row.
	begun := r.beginPartition(rows.KeyComponents(), resumed)
	return r.stopped(rows.Err(), rows, !begun)
}

// beginPartition sets how many rows of a partition may still be returned.
// begun: an earlier page returned some already.
func (r *selectRun) beginPartition(key [][]byte, resumed bool) (begun bool) {
	r.perLeft = r.perLimit
	if !resumed || !sameComponents(key, r.resume.key) {
		return false
	}
	if r.resume.perPartition >= 0 {
		r.perLeft = min(r.perLimit, r.resume.perPartition)
	}
	return !r.resume.untouched
}

func (r *selectRun) scanPartition(rows *store.Rows, resumed bool) error {
	c, sp := &r.ctx, r.plan
	if !passes(c, r.keyFilters) || !passes(c, r.staticFilters) {
		return nil
	}
	if sp.distinct {
		return r.take()
	}
	any := false
	for (r.perLeft > 0 || r.group.open) && rows.Next() {
		c.row = rows.Row()
		if len(r.rowFilters) > 0 && !passes(c, r.rowFilters) {
			continue
		}
		any = true
		if err := r.take(); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return r.stopped(err, rows, !any && !resumed)
	}
	c.row = nil
	if !any && !resumed && sp.staticRow && c.static != nil {
		return r.take()
	}
	return nil
}

// stopped deals with what ended an iterator: at the deadline a paged read
// gives what it has and says from where to go on. untouched: nothing of the
// partition at hand was returned yet.
func (r *selectRun) stopped(err error, rows *store.Rows, untouched bool) error {
	if !errors.Is(err, store.ErrDeadline) || !r.paging || r.plan.grouped {
		return err
	}
	k, ck, ok := rows.Position()
	if !ok {
		return err
	}
	comps, kerr := k.Components(r.plan.table)
	if kerr != nil {
		return kerr
	}
	if s := r.resume; r.count == 0 && s != nil && sameComponents(comps, s.key) && sameComponents(ck, s.clustering) {
		return err // no step forward: another page would not get further
	}
	if ck != nil {
		ck = copyAll(nil, ck)
	}
	r.next = r.pageAt(copyAll(nil, comps), ck, false, r.perLeft)
	r.next.untouched = untouched
	return errFull
}
