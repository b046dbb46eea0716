package exec

import (
	"slices"

	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
)

// boundFilter is a restriction with its values, ready to be checked against rows.
type boundFilter struct {
	r        *restriction
	eq       [][]byte // one a column
	in       [][]byte
	lo, hi   []byte
	contains [][]byte
	keys     [][]byte
	entries  [][2][]byte
}

// bindFilters evaluates restrictions for filtering.
func bindFilters(x *execution, rs []*restriction) ([]boundFilter, error) {
	if len(rs) == 0 {
		return nil, nil
	}
	out := make([]boundFilter, len(rs))
	for i, r := range rs {
		f := &out[i]
		f.r = r
		if err := f.bind(x); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (f *boundFilter) bind(x *execution) (err error) {
	r := f.r
	switch r.op {
	case restrictEq:
		f.eq, err = f.operand(x, r.eq)
		return err
	case restrictIn:
		return f.bindIn(x)
	case restrictSlice:
		if r.lo != nil {
			if f.lo, err = f.one(x, r.lo.v); err != nil {
				return err
			}
		}
		if r.hi != nil {
			f.hi, err = f.one(x, r.hi.v)
		}
		return err
	}
	if f.contains, err = f.terms(x, r.contains); err != nil {
		return err
	}
	if f.keys, err = f.terms(x, r.containsKey); err != nil {
		return err
	}
	for _, e := range r.entries {
		k, err := f.term(x, e.key, "map key")
		if err != nil {
			return err
		}
		v, err := f.term(x, e.value, "map value")
		if err != nil {
			return err
		}
		f.entries = append(f.entries, [2][]byte{k, v})
	}
	return nil
}

func (f *boundFilter) bindIn(x *execution) error {
	if f.r.multi {
		ts, err := f.r.tuples(x)
		if err != nil {
			return err
		}
		for _, t := range ts {
			f.in = append(f.in, t[0])
		}
	} else {
		vs, err := f.r.listValues(x)
		if err != nil {
			return err
		}
		f.in = vs
	}
	// Nothing equals null, so that it may stand in the list to no effect.
	f.in = slices.DeleteFunc(f.in, func(v []byte) bool { return v == nil })
	return nil
}

func (f *boundFilter) one(x *execution, o *operand) ([]byte, error) {
	vs, err := f.operand(x, o)
	if err != nil {
		return nil, err
	}
	return vs[0], nil
}

func (f *boundFilter) operand(x *execution, o *operand) ([][]byte, error) {
	if f.r.multi {
		vs, err := o.tuple(x, f.r.cols)
		if err != nil {
			return nil, err
		}
		for i, v := range vs {
			if v == nil {
				return nil, invalidf("Unsupported null value for column %s", f.r.cols[i].Name)
			}
		}
		return vs, nil
	}
	return f.terms(x, o.elems)
}

func (f *boundFilter) terms(x *execution, ts []term) ([][]byte, error) {
	var out [][]byte
	for _, t := range ts {
		v, err := f.term(x, t, "value")
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func (f *boundFilter) term(x *execution, t term, what string) ([]byte, error) {
	v, err := t.eval(x)
	switch {
	case err != nil:
		return nil, err
	case v.Unset:
		return nil, invalidf("Unsupported unset %s for column %s", what, f.r.first().Name)
	case v.Bytes == nil:
		return nil, invalidf("Unsupported null %s for column %s", what, f.r.first().Name)
	}
	return v.Bytes, nil
}

// checkIndexable refuses values longer than an index holds.
func checkIndexable(fs []boundFilter) error {
	for i := range fs {
		f := &fs[i]
		for _, vs := range [...][][]byte{f.eq, f.contains, f.keys, {f.lo, f.hi}} {
			for _, v := range vs {
				if len(v) > maxIndexValueBytes {
					return invalidf("Index expression values may not be larger than 64K")
				}
			}
		}
	}
	return nil
}

// passes reports that the row at hand meets all filters.
func passes(r *rowContext, fs []boundFilter) bool {
	for i := range fs {
		if !fs[i].match(r) {
			return false
		}
	}
	return true
}

func (f *boundFilter) match(r *rowContext) bool {
	if f.r.op == restrictContains {
		return f.matchContains(r)
	}
	for i, c := range f.r.cols {
		v := r.column(c)
		if v == nil || !f.matchValue(i, c, v) {
			return false
		}
		if f.r.op != restrictEq {
			break
		}
	}
	return true
}

func (f *boundFilter) matchValue(i int, c *schema.Column, v []byte) bool {
	switch f.r.op {
	case restrictEq:
		return cqltype.Compare(c.Type, v, f.eq[i]) == 0
	case restrictIn:
		for _, want := range f.in {
			if cqltype.Compare(c.Type, v, want) == 0 {
				return true
			}
		}
		return false
	}
	if f.lo != nil {
		if n := cqltype.Compare(c.Type, v, f.lo); n < 0 || (n == 0 && !f.r.lo.inclusive) {
			return false
		}
	}
	if f.hi != nil {
		if n := cqltype.Compare(c.Type, v, f.hi); n > 0 || (n == 0 && !f.r.hi.inclusive) {
			return false
		}
	}
	return true
}

func (f *boundFilter) matchContains(r *rowContext) bool {
	c := f.r.first()
	if c.Type.IsMultiCell() && r.virt == nil {
		row := r.of(c)
		if row == nil {
			return false
		}
		r.cells = row.Elements(r.cells[:0], c)
		return f.matchCells(c.Type, r.cells)
	}
	v := r.column(c)
	if v == nil {
		return false
	}
	elems, err := cqltype.SplitCollection(c.Type, v)
	if err != nil {
		return false
	}
	// The same checks serve both forms once a whole value is taken apart.
	r.cells = r.cells[:0]
	for i := 0; i < len(elems); i++ {
		switch c.Type.Kind {
		case cqltype.KindMap:
			r.cells = append(r.cells, store.Cell{Path: elems[i], Value: elems[i+1]})
			i++
		case cqltype.KindSet:
			r.cells = append(r.cells, store.Cell{Path: elems[i]})
		default:
			r.cells = append(r.cells, store.Cell{Value: elems[i]})
		}
	}
	return f.matchCells(c.Type, r.cells)
}

func (f *boundFilter) matchCells(t *cqltype.Type, cells []store.Cell) bool {
	value := func(c *store.Cell) []byte {
		if t.Kind == cqltype.KindSet {
			return c.Path
		}
		return c.Value
	}
	some := func(ok func(*store.Cell) bool) bool {
		for i := range cells {
			if ok(&cells[i]) {
				return true
			}
		}
		return false
	}
	vt := t.Elems[len(t.Elems)-1]
	for _, want := range f.contains {
		if !some(func(c *store.Cell) bool { return cqltype.Compare(vt, value(c), want) == 0 }) {
			return false
		}
	}
	for _, want := range f.keys {
		if !some(func(c *store.Cell) bool { return cqltype.Compare(t.Elems[0], c.Path, want) == 0 }) {
			return false
		}
	}
	for _, e := range f.entries {
		if !some(func(c *store.Cell) bool {
			return cqltype.Compare(t.Elems[0], c.Path, e[0]) == 0 && cqltype.Compare(vt, c.Value, e[1]) == 0
		}) {
			return false
		}
	}
	return true
}
