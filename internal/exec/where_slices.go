package exec

import (
	"slices"
	"strings"

	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
)

// slices are the clustering slices, in clustering order and disjoint; nil: all
// rows. rows reports that each is one full clustering key.
func (w *where) slices(x *execution) (sl []store.Slice, rows bool, err error) {
	var sc whereScratch
	all, rows, err := w.appendSlices(x, &sc)
	if err != nil || all {
		return nil, false, err
	}
	if sc.slices == nil {
		sc.slices = []store.Slice{}
	}
	return sc.slices, rows, nil
}

// appendSlices fills sc.slices; all says that nothing restricts the rows.
func (w *where) appendSlices(x *execution, sc *whereScratch) (all, rows bool, err error) {
	if w.simpleSlices() {
		return w.oneSlice(x, sc)
	}
	prefixes := [][][]byte{nil}
	pos := 0
	for _, r := range w.clustering {
		if r.op == restrictContains || r.first().Position != pos {
			break
		}
		if r.op == restrictSlice {
			if err := w.guardSlices(x, len(prefixes)); err != nil {
				return false, false, err
			}
			return false, false, w.productSlices(x, sc, prefixes, r)
		}
		more, err := w.values(x, r)
		if err != nil {
			return false, false, err
		}
		if n := len(prefixes) * len(more); n > maxProduct {
			return false, false, productTooLarge(w.t.Clustering, n)
		}
		prefixes = product(prefixes, more)
		pos = r.last().Position + 1
	}
	if pos == 0 {
		return true, false, nil
	}
	if err := w.guardSlices(x, len(prefixes)); err != nil {
		return false, false, err
	}
	for _, p := range prefixes {
		b := store.Bound{Prefix: p, Inclusive: true}
		sc.slices = append(sc.slices, store.Slice{Start: b, End: b})
	}
	return false, pos == len(w.t.Clustering), nil
}

// guardSlices checks how many rows or slices the IN restrictions of a SELECT make.
func (w *where) guardSlices(x *execution, n int) error {
	if n < 2 || w.kind != "SELECT" {
		return nil
	}
	return x.guard(GuardInSelectCartesianProduct, int64(n), "clustering key")
}

// simpleSlices: equalities on single columns, and at most a slice on one after them.
func (w *where) simpleSlices() bool {
	pos := 0
	for _, r := range w.clustering {
		if r.multi || (r.op != restrictEq && r.op != restrictSlice) || r.first().Position != pos {
			return false
		}
		pos++
		if r.op == restrictSlice {
			return pos == len(w.clustering)
		}
	}
	return true
}

// oneSlice is the common case: one slice, built in the run's buffers.
func (w *where) oneSlice(x *execution, sc *whereScratch) (all, rows bool, err error) {
	if len(w.clustering) == 0 {
		return true, false, nil
	}
	for _, r := range w.clustering {
		if r.op == restrictSlice {
			err := w.endSlice(x, sc, r)
			return false, false, err
		}
		v, err := r.eqValue(x)
		if err != nil {
			return false, false, err
		}
		sc.start = append(sc.start, v)
	}
	b := store.Bound{Prefix: sc.start, Inclusive: true}
	sc.slices = append(sc.slices, store.Slice{Start: b, End: b})
	return false, len(sc.start) == len(w.t.Clustering), nil
}

// endSlice ends oneSlice with a range on the column after the equalities.
func (w *where) endSlice(x *execution, sc *whereScratch, r *restriction) error {
	lo, hi, empty, err := w.columnRange(x, r)
	if err != nil || empty {
		return err
	}
	sc.end = append(sc.end, sc.start...)
	s := store.Slice{Start: store.Bound{Inclusive: true}, End: store.Bound{Inclusive: true}}
	if r.first().Desc {
		lo, hi = hi, lo
	}
	if lo.set {
		sc.start = append(sc.start, lo.value)
		s.Start.Inclusive = lo.inclusive
	}
	if hi.set {
		sc.end = append(sc.end, hi.value)
		s.End.Inclusive = hi.inclusive
	}
	s.Start.Prefix, s.End.Prefix = sc.start, sc.end
	sc.slices = append(sc.slices, s)
	return nil
}

type rangeEnd struct {
	value          []byte
	set, inclusive bool
}

// columnRange evaluates a range on one column. It is empty when its ends
// exclude all values. Null sorts before all values in the table's own order: as
// the end that comes first on disk it is no bound, as the other it leaves
// nothing. Modifications refuse it.
func (w *where) columnRange(x *execution, r *restriction) (lo, hi rangeEnd, empty bool, err error) {
	read := func(b *sliceBound, first bool) (rangeEnd, error) {
		if b == nil {
			return rangeEnd{}, nil
		}
		v, err := b.v.elems[0].eval(x)
		if err != nil {
			return rangeEnd{}, err
		}
		if v.Unset {
			return rangeEnd{}, invalidf("Invalid unset value for column %s", r.first().Name)
		}
		if v.Bytes == nil {
			if w.kind != "SELECT" {
				return rangeEnd{}, invalidf("Invalid null value in condition for column %s", r.first().Name)
			}
			empty = empty || !first
			return rangeEnd{}, nil
		}
		return rangeEnd{value: v.Bytes, set: true, inclusive: b.inclusive}, nil
	}
	if lo, err = read(r.lo, !r.first().Desc); err != nil {
		return lo, hi, empty, err
	}
	if hi, err = read(r.hi, r.first().Desc); err != nil {
		return lo, hi, empty, err
	}
	if !empty && lo.set && hi.set {
		n := cqltype.Compare(r.first().Type, lo.value, hi.value)
		empty = n > 0 || (n == 0 && !(lo.inclusive && hi.inclusive))
	}
	return lo, hi, empty, nil
}

// values are the combinations of values of an equality or IN on one or more
// clustering columns, in the table's order without duplicates.
func (w *where) values(x *execution, r *restriction) ([][][]byte, error) {
	if !r.multi {
		vs, err := r.inValues(x)
		if err != nil {
			return nil, err
		}
		vs = sortValues(r.first(), vs)
		out := make([][][]byte, len(vs))
		for i := range vs {
			out[i] = vs[i : i+1 : i+1]
		}
		return out, nil
	}
	if r.op == restrictEq {
		vs, err := r.eq.tuple(x, r.cols)
		if err != nil {
			return nil, err
		}
		for i, v := range vs {
			if v == nil {
				return nil, invalidf("Invalid null value for column %s", r.cols[i].Name)
			}
		}
		return [][][]byte{vs}, nil
	}
	return w.tupleValues(x, r)
}

func (w *where) tupleValues(x *execution, r *restriction) ([][][]byte, error) {
	out, err := r.tuples(x)
	if err != nil {
		return nil, err
	}
	for _, t := range out {
		for _, v := range t {
			if v == nil {
				names := make([]string, len(r.cols))
				for i, c := range r.cols {
					names[i] = c.Name
				}
				return nil, invalidf("Invalid null value in condition for columns: [%s]", strings.Join(names, ", "))
			}
		}
	}
	cmp := func(a, b [][]byte) int { return comparePrefix(r.cols, a, b) }
	slices.SortStableFunc(out, cmp)
	return slices.CompactFunc(out, func(a, b [][]byte) bool { return cmp(a, b) == 0 }), nil
}

// tuples evaluates IN of tuples.
func (r *restriction) tuples(x *execution) ([][][]byte, error) {
	var out [][][]byte
	if r.inMarker == nil {
		for _, o := range r.in {
			vs, err := o.tuple(x, r.cols)
			if err != nil {
				return nil, err
			}
			out = append(out, vs)
		}
		return out, nil
	}
	types := make([]*cqltype.Type, len(r.cols))
	for i, c := range r.cols {
		types[i] = c.Type
	}
	tt := cqltype.TupleOf(types...)
	v, err := r.inMarker.eval(x)
	if err != nil {
		return nil, err
	}
	if v.Unset {
		return nil, invalidf("Invalid unset value for in%s", tupleName(r.cols))
	}
	if v.Bytes == nil {
		return nil, invalidf("Invalid null value for IN restriction")
	}
	list, err := cqltype.SplitCollection(cqltype.ListOf(tt), v.Bytes)
	if err != nil {
		return nil, invalidf("%s", err.Error())
	}
	for _, b := range list {
		vs, err := splitTuple(tt, b, len(r.cols))
		if err != nil {
			return nil, err
		}
		out = append(out, vs)
	}
	return out, nil
}

// comparePrefix orders clustering prefixes as the table does, as far as both go.
func comparePrefix(cols []*schema.Column, a, b [][]byte) int {
	for i := range min(len(a), len(b)) {
		if n := compareColumn(cols[i], a[i], b[i]); n != 0 {
			return n
		}
	}
	return 0
}

func product(prefixes, more [][][]byte) [][][]byte {
	if len(prefixes) == 1 && prefixes[0] == nil {
		return more
	}
	out := make([][][]byte, 0, len(prefixes)*len(more))
	for _, p := range prefixes {
		for _, m := range more {
			out = append(out, append(p[:len(p):len(p)], m...))
		}
	}
	return out
}
