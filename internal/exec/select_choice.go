package exec

import (
	"slices"

	"varve/internal/schema"
	"varve/internal/store"
)

// indexChoice is a restriction that an index can look up.
type indexChoice struct {
	x *schema.Index
	r *restriction
}

// choiceSteps are how many entries of each index are counted, one step after
// another, to find the one that holds the fewest. Reading the row of an entry
// costs about ten times what passing the entry does, so that the last step
// stays cheap beside the read that it spares.
var choiceSteps = [...]int{64, 512, 4096}

// lookups are the restrictions that name one value of an index, best first.
// Their entries come in token order, so that any of them may drive the read.
func (w *where) lookups() []indexChoice {
	var out []indexChoice
	for _, op := range []restrictOp{restrictEq, restrictContains} {
		for _, f := range slices.Concat(w.other, w.clustering, w.partition) {
			if f == nil || f.op != op {
				continue
			}
			for _, i := range w.t.Indexes {
				if slices.Contains(f.cols, i.Column) && indexSupports(i, f) {
					out = append(out, indexChoice{i, f})
					break
				}
			}
		}
	}
	return out
}

// pickIndex chooses the index that drives the read: of several that name one
// value each, the one with the fewest entries; the other conditions are
// checked on each row. Later pages keep to the choice of the first.
func (r *selectRun) pickIndex() (*indexRead, error) {
	ir := &indexRead{x: r.plan.index, driver: r.plan.driver}
	if len(r.plan.lookups) < 2 {
		return ir, nil
	}
	if s := r.resume; s != nil {
		for _, c := range r.plan.lookups {
			if s.hasIndex && c.x.PhysID == s.index {
				return &indexRead{x: c.x, driver: c.r}, nil
			}
		}
		return ir, nil
	}
	candidates := make([]*indexRead, len(r.plan.lookups))
	queries := make([]store.IndexQuery, len(candidates))
	for i, c := range r.plan.lookups {
		candidates[i] = &indexRead{x: c.x, driver: c.r}
		var err error
		if queries[i], err = candidates[i].bounds(r.x); err != nil {
			return nil, err
		}
	}
	for _, limit := range choiceSteps {
		for i, c := range candidates {
			n, err := r.countEntries(c.x, queries[i], limit)
			if err != nil {
				return nil, err
			}
			if n < limit {
				r.x.trace.Event("Index %s holds the fewest entries (%d) of %d indexes", c.x.Name, n, len(candidates))
				return c, nil
			}
		}
	}
	return ir, nil
}

// countEntries counts entries of an index up to a limit.
func (r *selectRun) countEntries(x *schema.Index, q store.IndexQuery, limit int) (n int, err error) {
	it := r.view.Index(r.plan.table, x, q)
	for n < limit && it.Next() {
		n++
	}
	return n, it.Close()
}
