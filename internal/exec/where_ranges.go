package exec

import (
	"slices"

	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
)

// productSlices are the slices of a range restriction behind each prefix.
func (w *where) productSlices(x *execution, sc *whereScratch, prefixes [][][]byte, r *restriction) error {
	pieces, err := w.pieces(x, r)
	if err != nil {
		return err
	}
	if n := len(prefixes) * len(pieces); n > maxProduct {
		return productTooLarge(w.t.Clustering, n)
	}
	for _, p := range prefixes {
		for _, s := range pieces {
			s.Start.Prefix = append(p[:len(p):len(p)], s.Start.Prefix...)
			s.End.Prefix = append(p[:len(p):len(p)], s.End.Prefix...)
			sc.slices = append(sc.slices, s)
		}
	}
	return nil
}

// pieces are the disjoint slices, in the table's order, that make up a range
// over one or more clustering columns, relative to the columns before them.
func (w *where) pieces(x *execution, r *restriction) ([]store.Slice, error) {
	if !r.multi {
		lo, hi, empty, err := w.columnRange(x, r)
		if err != nil || empty {
			return nil, err
		}
		return []store.Slice{columnSlice(r.first(), nil, lo, hi)}, nil
	}
	lo, err := w.tupleEnd(x, r, r.lo)
	if err != nil {
		return nil, err
	}
	hi, err := w.tupleEnd(x, r, r.hi)
	if err != nil {
		return nil, err
	}
	out := rangePieces(r.cols, lo, hi)
	sortPieces(r.cols, out)
	return out, nil
}

// sortPieces puts disjoint slices in the table's order.
func sortPieces(cols []*schema.Column, pieces []store.Slice) {
	slices.SortFunc(pieces, func(a, b store.Slice) int {
		if n := comparePrefix(cols, a.Start.Prefix, b.Start.Prefix); n != 0 {
			return n
		}
		// One prefix begins with the other: the piece that takes its prefix
		// in whole comes first unless it starts past it.
		return startRank(a.Start, len(b.Start.Prefix)) - startRank(b.Start, len(a.Start.Prefix))
	})
}

// startRank places a start bound against a longer or equal one that begins with its prefix.
func startRank(b store.Bound, other int) int {
	switch {
	case len(b.Prefix) > other:
		return 1
	case b.Inclusive:
		return 0
	}
	return 2
}

// tupleEnd is one end of a range over several columns: the rows whose columns
// compare, in ascending order of values, past (or at) it.
type tupleEnd struct {
	values         [][]byte
	set, inclusive bool
}

func (w *where) tupleEnd(x *execution, r *restriction, b *sliceBound) (tupleEnd, error) {
	if b == nil {
		return tupleEnd{}, nil
	}
	e := tupleEnd{set: true, inclusive: b.inclusive}
	n := len(b.v.elems)
	if b.v.whole != nil {
		n = len(b.v.typ.Elems)
	}
	vs, err := b.v.tuple(x, r.cols[:n])
	if err != nil {
		return e, err
	}
	for i, v := range vs {
		if v == nil {
			return e, invalidf("Invalid null value in condition for column %s", r.cols[i].Name)
		}
	}
	e.values = vs
	return e, nil
}

// rangePieces splits a range of tuples by the first column in which a row
// differs from an end: each piece then ranges over one column only, so that it
// is one slice whichever way that column is ordered. When all columns are
// ordered alike the range is one slice as it is.
func rangePieces(cols []*schema.Column, lo, hi tupleEnd) []store.Slice {
	p := 0
	for lo.set && hi.set && p < len(lo.values) && p < len(hi.values) {
		n := cqltype.Compare(cols[p].Type, lo.values[p], hi.values[p])
		if n > 0 {
			return nil
		}
		if n < 0 {
			break
		}
		p++
	}
	loDone, hiDone := lo.set && p == len(lo.values), hi.set && p == len(hi.values)
	if (loDone && !lo.inclusive && hi.set && (hiDone || p < len(hi.values))) ||
		(hiDone && !hi.inclusive && lo.set && (loDone || p < len(lo.values))) {
		return nil
	}
	if sameOrder(cols, lo, hi) {
		return []store.Slice{plainSlice(cols[0].Desc, lo, hi)}
	}
	var out []store.Slice
	if lo.set && !loDone {
		out = append(out, tail(cols, lo, p+1, false)...)
	}
	if hi.set && !hiDone {
		out = append(out, tail(cols, hi, p+1, true)...)
	}
	switch {
	case loDone && hiDone:
		b := store.Bound{Prefix: lo.values, Inclusive: true}
		return append(out, store.Slice{Start: b, End: b})
	case loDone:
		// Rows that begin with lo's values and are below hi: bounded by hi alone.
		return append(out, columnSlice(cols[p], hi.values[:p], rangeEnd{}, rangeEnd{value: hi.values[p], set: true}))
	case hiDone:
		return append(out, columnSlice(cols[p], lo.values[:p], rangeEnd{value: lo.values[p], set: true}, rangeEnd{}))
	}
	var a, b rangeEnd
	prefix := lo.values
	if !lo.set {
		prefix = hi.values
	}
	if lo.set {
		a = rangeEnd{value: lo.values[p], set: true}
	}
	if hi.set {
		b = rangeEnd{value: hi.values[p], set: true}
	}
	return append(out, columnSlice(cols[p], prefix[:p], a, b))
}

// tail are the pieces of an end's range that agree with it up to column from,
// exclusive: above it (or below), column by column, and the end itself.
func tail(cols []*schema.Column, e tupleEnd, from int, below bool) []store.Slice {
	var out []store.Slice
	for i := from; i < len(e.values); i++ {
		v := rangeEnd{value: e.values[i], set: true}
		if below {
			out = append(out, columnSlice(cols[i], e.values[:i], rangeEnd{}, v))
		} else {
			out = append(out, columnSlice(cols[i], e.values[:i], v, rangeEnd{}))
		}
	}
	if e.inclusive {
		b := store.Bound{Prefix: e.values, Inclusive: true}
		out = append(out, store.Slice{Start: b, End: b})
	}
	return out
}

// columnSlice is a range of one column behind a prefix.
func columnSlice(c *schema.Column, prefix [][]byte, lo, hi rangeEnd) store.Slice {
	if c.Desc {
		lo, hi = hi, lo
	}
	bound := func(e rangeEnd) store.Bound {
		if !e.set {
			return store.Bound{Prefix: prefix, Inclusive: true}
		}
		return store.Bound{Prefix: append(prefix[:len(prefix):len(prefix)], e.value), Inclusive: e.inclusive}
	}
	return store.Slice{Start: bound(lo), End: bound(hi)}
}

func sameOrder(cols []*schema.Column, lo, hi tupleEnd) bool {
	n := max(len(lo.values), len(hi.values))
	for _, c := range cols[:n] {
		if c.Desc != cols[0].Desc {
			return false
		}
	}
	return true
}

func plainSlice(desc bool, lo, hi tupleEnd) store.Slice {
	if desc {
		lo, hi = hi, lo
	}
	bound := func(e tupleEnd) store.Bound {
		if !e.set {
			return store.Bound{Inclusive: true}
		}
		return store.Bound{Prefix: e.values, Inclusive: e.inclusive}
	}
	return store.Slice{Start: bound(lo), End: bound(hi)}
}
