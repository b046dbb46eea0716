package exec

import (
	"varve/internal/cql"
	"varve/internal/cqltype"
	"varve/internal/cqlwire"
)

// hasMarker reports a bind marker anywhere in an expression.
func hasMarker(e cql.Expr) bool {
	return anyExpr(e, func(e cql.Expr) bool {
		_, ok := e.(*cql.Marker)
		return ok
	})
}

// compoundTerm builds a value out of parts. unset words the refusal of an
// unset part.
type compoundTerm struct {
	typ   *cqltype.Type
	parts []term
	build func(t *cqltype.Type, parts [][]byte) ([]byte, error)
	unset func(i int) error
}

func (c *compoundTerm) eval(x *execution) (cqlwire.Value, error) {
	parts := make([][]byte, len(c.parts))
	for i, t := range c.parts {
		v, err := t.eval(x)
		if err != nil {
			return v, err
		}
		if v.Unset {
			if c.unset == nil {
				return v, nil
			}
			if err := c.unset(i); err != nil {
				return v, err
			}
		}
		parts[i] = v.Bytes
	}
	b, err := c.build(c.typ, parts)
	return cqlwire.Value{Bytes: b}, err
}

// fold evaluates a compound of constants at once.
func (c *compoundTerm) fold() (term, error) {
	for _, t := range c.parts {
		if _, ok := t.(*constTerm); !ok {
			return c, nil
		}
	}
	v, err := c.eval(nil)
	if err != nil {
		return nil, err
	}
	return &constTerm{v: v}, nil
}

// elements plans the elements of a collection literal of the kind named.
func (p *planner) elements(kind, what string, es []cql.Expr, recv, elem cqlwire.ColumnSpec) ([]term, error) {
	for _, e := range es {
		if p.fits(e, elem) == noFit {
			return nil, invalidf("Invalid %s literal for %s: %s %s is not of type %s", kind, recv.Name, what, exprText(e), elem.Type)
		}
	}
	parts := make([]term, len(es))
	for i, e := range es {
		t, err := p.term(e, elem)
		if err != nil {
			return nil, err
		}
		if kind != "vector" && hasMarker(e) {
			return nil, invalidf("Invalid %s literal for %s: bind variables are not supported inside collection literals", kind, recv.Name)
		}
		parts[i] = t
	}
	return parts, nil
}

func (p *planner) listTerm(e *cql.ListLit, recv cqlwire.ColumnSpec) (term, error) {
	if recv.Type.Kind != cqltype.KindList {
		return nil, invalidf("Unexpected receiver type '%s'; only list and vector are expected", recv.Type)
	}
	parts, err := p.elements("list", "value", e.Elems, recv, part(recv, valueName(recv.Name), recv.Type.Elems[0]))
	if err != nil {
		return nil, err
	}
	return (&compoundTerm{typ: recv.Type, parts: parts, build: buildList}).fold()
}

func refuseNulls(parts [][]byte, where string) error {
	for _, b := range parts {
		if b == nil {
			return invalidf("null is not supported inside %s", where)
		}
	}
	return nil
}

func buildList(t *cqltype.Type, parts [][]byte) ([]byte, error) {
	if err := refuseNulls(parts, "collections"); err != nil {
		return nil, err
	}
	return cqltype.AppendCollection(nil, t, parts), nil
}

func (p *planner) vectorTerm(e *cql.ListLit, recv cqlwire.ColumnSpec) (term, error) {
	t := recv.Type
	if len(e.Elems) != t.Dim {
		return nil, invalidf("Invalid vector literal for %s of type %s; expected %d elements, but given %d",
			recv.Name, t, t.Dim, len(e.Elems))
	}
	parts, err := p.elements("vector", "value", e.Elems, recv, part(recv, valueName(recv.Name), t.Elems[0]))
	if err != nil {
		return nil, err
	}
	c := &compoundTerm{typ: t, parts: parts, build: buildVector}
	c.unset = func(int) error { return invalidf("null is not supported inside vectors") }
	return c.fold()
}

func buildVector(t *cqltype.Type, parts [][]byte) ([]byte, error) {
	if err := refuseNulls(parts, "vectors"); err != nil {
		return nil, err
	}
	return cqltype.AppendVector(nil, t, parts), nil
}

func (p *planner) setTerm(e *cql.SetLit, recv cqlwire.ColumnSpec) (term, error) {
	t := recv.Type
	if t.Kind == cqltype.KindMap && len(e.Elems) == 0 {
		return constant(cqltype.AppendCollection(nil, t, nil)), nil
	}
	if t.Kind != cqltype.KindSet {
		return nil, invalidf("Invalid set literal for %s of type %s", recv.Name, t)
	}
	parts, err := p.elements("set", "value", e.Elems, recv, part(recv, valueName(recv.Name), t.Elems[0]))
	if err != nil {
		return nil, err
	}
	return (&compoundTerm{typ: t, parts: parts, build: buildSorted}).fold()
}

// buildSorted makes a set or a map: in order and without duplicates, the last
// of several values for one key taken.
func buildSorted(t *cqltype.Type, parts [][]byte) ([]byte, error) {
	if err := refuseNulls(parts, "collections"); err != nil {
		return nil, err
	}
	parts, _ = cqltype.SortElements(t, parts)
	return cqltype.AppendCollection(nil, t, parts), nil
}

func (p *planner) mapTerm(e *cql.MapLit, recv cqlwire.ColumnSpec) (term, error) {
	t := recv.Type
	if t.Kind != cqltype.KindMap {
		return nil, invalidf("Invalid map literal for %s of type %s", recv.Name, t)
	}
	keys, err := p.elements("map", "key", e.Keys, recv, part(recv, keyName(recv.Name), t.Elems[0]))
	if err != nil {
		return nil, err
	}
	values, err := p.elements("map", "value", e.Values, recv, part(recv, valueName(recv.Name), t.Elems[1]))
	if err != nil {
		return nil, err
	}
	parts := make([]term, 0, 2*len(keys))
	for i := range keys {
		parts = append(parts, keys[i], values[i])
	}
	return (&compoundTerm{typ: t, parts: parts, build: buildSorted}).fold()
}

// checkTuple tests a tuple literal against its receiver.
func (p *planner) checkTuple(e *cql.TupleLit, recv cqlwire.ColumnSpec) error {
	t := recv.Type
	if t.Kind != cqltype.KindTuple {
		return invalidf("Invalid tuple type literal for %s of type %s", recv.Name, t)
	}
	for i, el := range e.Elems {
		if i >= len(t.Elems) {
			return invalidf("Invalid tuple literal for %s: too many elements. Type %s expects %d but got %d",
				recv.Name, t, len(t.Elems), len(e.Elems))
		}
		if p.fits(el, part(recv, componentName(recv.Name, i), t.Elems[i])) == noFit {
			return invalidf("Invalid tuple literal for %s: component %d is not of type %s", recv.Name, i, t.Elems[i])
		}
	}
	return nil
}

func componentName(column string, i int) string { return column + "[" + itoa(i) + "]" }

func (p *planner) tupleTerm(e *cql.TupleLit, recv cqlwire.ColumnSpec) (term, error) {
	if err := p.checkTuple(e, recv); err != nil {
		return nil, err
	}
	c := &compoundTerm{typ: recv.Type, parts: make([]term, len(e.Elems)), build: buildTuple}
	c.unset = func(i int) error { return invalidf("Invalid unset value for tuple field number %d", i) }
	for i, el := range e.Elems {
		t, err := p.term(el, part(recv, componentName(recv.Name, i), recv.Type.Elems[i]))
		if err != nil {
			return nil, err
		}
		c.parts[i] = t
	}
	return c.fold()
}

func buildTuple(_ *cqltype.Type, parts [][]byte) ([]byte, error) {
	return cqltype.AppendTuple([]byte{}, parts), nil
}

// fieldIndex is a UDT field's position, or -1.
func fieldIndex(t *cqltype.Type, name string) int {
	for i, f := range t.FieldNames {
		if f == name {
			return i
		}
	}
	return -1
}

// checkUDT tests a user type literal against its receiver.
func (p *planner) checkUDT(e *cql.UDTLit, recv cqlwire.ColumnSpec) error {
	t := recv.Type
	if t.Kind != cqltype.KindUDT {
		return invalidf("Invalid user type literal for %s of type %s", recv.Name, t)
	}
	for i, f := range e.Fields {
		n := fieldIndex(t, f)
		if n < 0 {
			return invalidf("Unknown field '%s' in value of user defined type %s", f, t.Name)
		}
		if p.fits(e.Values[i], part(recv, recv.Name+"."+f, t.Elems[n])) == noFit {
			return invalidf("Invalid user type literal for %s: field %s is not of type %s", recv.Name, f, t.Elems[n])
		}
	}
	return nil
}

func (p *planner) udtTerm(e *cql.UDTLit, recv cqlwire.ColumnSpec) (term, error) {
	if err := p.checkUDT(e, recv); err != nil {
		return nil, err
	}
	t := recv.Type
	c := &compoundTerm{typ: t, parts: make([]term, len(t.Elems)), build: buildTuple}
	c.unset = func(i int) error {
		if t.IsMultiCell() {
			return nil // a field that is not given
		}
		return invalidf("Invalid unset value for field '%s' of user defined type %s", t.FieldNames[i], t.Name)
	}
	for i := range c.parts {
		c.parts[i] = constant(nil)
	}
	for i, f := range e.Fields {
		n := fieldIndex(t, f)
		v, err := p.term(e.Values[i], part(recv, recv.Name+"."+f, t.Elems[n]))
		if err != nil {
			return nil, err
		}
		c.parts[n] = v
	}
	return c.fold()
}
