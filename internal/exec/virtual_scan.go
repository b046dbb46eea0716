package exec

import (
	"context"
	"time"

	"varve/internal/store"
)

// virtualScan is a read of one partition of a virtual table that is too large
// to be made as a whole.
type virtualScan struct {
	e   *Engine
	s   *Session
	key [][]byte // the partition key's components
	// slice is what is asked for of the partition, in clustering order.
	slice store.Slice
	need  map[string]bool // columns whose values will be looked at
}

// scanVirtual reads a virtual table that is read by place: the partition key
// must be given, and the rows come in clustering order from where they are
// asked for.
func (r *selectRun) scanVirtual(ctx context.Context) error {
	sp := r.plan
	w, t := sp.where, sp.table
	if w.partitionEmpty() || w.keyRange || w.keyIn() || w.token != nil || w.partitionNeedsFiltering() || sp.distinct || sp.reversed {
		return invalidf("%s.%s is read one partition at a time and forwards: restrict %s by =",
			t.Keyspace, t.Name, columnList(t.PartitionKey))
	}
	key, slices, err := r.placeOf()
	if err != nil {
		return err
	}
	filters, err := bindVirtual(r.x, w.other)
	if err != nil {
		return err
	}
	if s := r.resume; s != nil && s.key != nil {
		if s.done {
			return r.closeGroups()
		}
		slices = slicesAfter(t, slices, s.clustering, false)
		if s.perPartition >= 0 {
			r.perLeft = min(r.perLimit, s.perPartition)
		}
	}
	scan := virtualScan{e: r.x.e, s: r.x.s, key: key, need: r.needed()}
	deadline := time.Time{}
	if ms := r.x.e.opts.Limits.RangeTimeoutMillis.Load(); ms > 0 {
		deadline = time.Now().Add(time.Duration(ms) * time.Millisecond)
	}
	c := &r.ctx
	c.key = key
	for _, scan.slice = range slices {
		err := sp.virtual.Scan(ctx, &scan, func(row [][]byte) error {
			c.virt = row
			if !deadline.IsZero() && time.Now().After(deadline) {
				return store.ErrDeadline
			}
			if !passes(c, filters) || r.perLeft <= 0 {
				return nil
			}
			return r.take()
		})
		if err == errFull {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return r.closeGroups()
}

// placeOf is the one partition that WHERE names, and what of it.
func (r *selectRun) placeOf() (key [][]byte, slices []store.Slice, err error) {
	w := r.plan.where
	keys, err := w.keys(r.x)
	if err != nil {
		return nil, nil, err
	}
	if len(keys) != 1 {
		return nil, nil, nil
	}
	if key, err = keys[0].Components(w.t); err != nil {
		return nil, nil, err
	}
	slices, _, err = w.slices(r.x)
	if slices == nil {
		all := store.Bound{Inclusive: true}
		slices = []store.Slice{{Start: all, End: all}}
	}
	return key, slices, err
}

// needed are the names of the columns that are selected or filtered by.
func (r *selectRun) needed() map[string]bool {
	need := map[string]bool{}
	for _, c := range r.plan.used {
		need[c.Name] = true
	}
	for _, rs := range r.plan.where.other {
		for _, c := range rs.cols {
			need[c.Name] = true
		}
	}
	return need
}
