package exec

import (
	"varve/internal/cql"
	"varve/internal/cqlfunc"
	"varve/internal/cqltype"
	"varve/internal/cqlwire"
)

// term plans an expression whose value goes to recv (its type and, for
// messages and bind metadata, its name).
func (p *planner) term(e cql.Expr, recv cqlwire.ColumnSpec) (term, error) {
	e = unwrap(e, recv.Type)
	switch e := e.(type) {
	case *cql.Literal:
		return literalTerm(e, recv)
	case *cql.Marker:
		return p.marker(e, recv), nil
	case *cql.ListLit:
		if recv.Type.Kind == cqltype.KindVector {
			return p.vectorTerm(e, recv)
		}
		return p.listTerm(e, recv)
	case *cql.SetLit:
		return p.setTerm(e, recv)
	case *cql.MapLit:
		return p.mapTerm(e, recv)
	case *cql.UDTLit:
		return p.udtTerm(e, recv)
	case *cql.TupleLit:
		return p.tupleTerm(e, recv)
	case *cql.TypeHint:
		return p.hintTerm(e, recv)
	case *cql.Call, *cql.CastExpr, *cql.Binary, *cql.Neg:
		return p.callTerm(e, recv)
	}
	return nil, invalidf("Invalid term %s: columns are not allowed here", exprText(e))
}

// unwrap takes an expression out of its parentheses, unless they make a tuple
// of one for a receiver of type t.
func unwrap(e cql.Expr, t *cqltype.Type) cql.Expr {
	for {
		l, ok := e.(*cql.TupleLit)
		if !ok || len(l.Elems) != 1 || (t != nil && t.Kind == cqltype.KindTuple) {
			return e
		}
		e = l.Elems[0]
	}
}

// constTerm is a value known when the statement is planned.
type constTerm struct{ v cqlwire.Value }

func (c *constTerm) eval(*execution) (cqlwire.Value, error) { return c.v, nil }

func constant(b []byte) term { return &constTerm{v: cqlwire.Value{Bytes: b}} }

// markerTerm is a bind marker. Its value is checked and passed on as it is,
// but for sets and maps, whose elements a client may send in any order.
type markerTerm struct {
	index   int
	typ     *cqltype.Type
	reorder bool // the type holds sets or maps whose order matters
}

func (m *markerTerm) eval(x *execution) (cqlwire.Value, error) {
	if m.index >= len(x.values) {
		return cqlwire.Value{}, invalidf("Invalid amount of bind variables")
	}
	v := x.values[m.index]
	if v.Unset || v.Bytes == nil {
		return v, nil
	}
	if err := cqltype.Validate(m.typ, v.Bytes); err != nil {
		return v, invalidf("%s", err.Error())
	}
	if m.reorder {
		b, err := ordered(m.typ, v.Bytes)
		if err != nil {
			return v, invalidf("%s", err.Error())
		}
		v.Bytes = b
	}
	return v, nil
}

// holdsOrdered reports that ordered may change a value of t.
func holdsOrdered(t *cqltype.Type) bool {
	return t.IsCollection() && (t.Kind != cqltype.KindList || holdsOrdered(t.Elems[0]))
}

// ordered puts the elements of sets and maps in a collection in their types'
// order, so that equal values have equal bytes. A value in order is returned as
// it is. As in Cassandra, what is inside a tuple, user type or vector is not
// looked at: clients read such values as they wrote them.
func ordered(t *cqltype.Type, b []byte) ([]byte, error) {
	if len(b) == 0 || !holdsOrdered(t) {
		return b, nil
	}
	parts, err := cqltype.SplitCollection(t, b)
	if err != nil {
		return nil, err
	}
	changed := false
	for i, p := range parts {
		q, err := ordered(t.Elems[i%len(t.Elems)], p)
		if err != nil {
			return nil, err
		}
		changed = changed || !sameBytes(p, q)
		parts[i] = q
	}
	if t.Kind != cqltype.KindList {
		sorted, moved := cqltype.SortElements(t, parts)
		parts, changed = sorted, changed || moved
	}
	if !changed {
		return b, nil
	}
	return cqltype.AppendCollection(make([]byte, 0, len(b)), t, parts), nil
}

// sameBytes reports that two slices are one piece of memory.
func sameBytes(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func (p *planner) marker(m *cql.Marker, recv cqlwire.ColumnSpec) term {
	for len(p.variables) <= m.Index {
		p.variables = append(p.variables, cqlwire.ColumnSpec{})
		p.columns = append(p.columns, "")
	}
	p.columns[m.Index] = recv.Name
	if m.Name != "" {
		recv.Name = m.Name
	}
	p.variables[m.Index] = recv
	return &markerTerm{index: m.Index, typ: recv.Type, reorder: holdsOrdered(recv.Type)}
}

func literalTerm(l *cql.Literal, recv cqlwire.ColumnSpec) (term, error) {
	if l.Kind == cqltype.LitNull {
		if recv.Type.Kind == cqltype.KindCounter {
			return nil, invalidf("Invalid null value for counter increment/decrement")
		}
		return constant(nil), nil
	}
	if ok, _ := cqltype.LiteralFits(recv.Type, l.Kind); !ok {
		return nil, invalidf("Invalid %s constant (%s) for \"%s\" of type %s", l.Kind, l.Text, recv.Name, recv.Type)
	}
	b, err := cqltype.ParseLiteral(recv.Type, l.Kind, l.Text)
	if err != nil {
		return nil, invalidf("%s", err.Error())
	}
	if b == nil {
		b = []byte{} // an empty constant is a value, not null
	}
	return constant(b), nil
}

// hintTerm plans (type) expr, which must be right for its type and for recv.
func (p *planner) hintTerm(h *cql.TypeHint, recv cqlwire.ColumnSpec) (term, error) {
	t, err := p.hintType(h)
	if err != nil {
		return nil, err
	}
	cast := recv
	cast.Name, cast.Type = exprText(h), t
	if p.fits(h.Expr, cast) == noFit {
		return nil, invalidf("Cannot cast value %s to type %s", exprText(h.Expr), typeText(h.Type))
	}
	if assignableType(recv.Type, t) == noFit {
		return nil, invalidf("Cannot assign value %s to %s of type %s", exprText(h), recv.Name, recv.Type)
	}
	return p.term(h.Expr, recv)
}

func (p *planner) hintType(h *cql.TypeHint) (*cqltype.Type, error) {
	t, err := p.snap.ResolveType(p.keyspace, h.Type)
	if err != nil {
		return nil, wireError(err)
	}
	return t, nil
}

// callTerm plans everything that is a function of other terms: calls, casts
// and arithmetic. A pure function of constants is evaluated at once.
func (p *planner) callTerm(e cql.Expr, recv cqlwire.ColumnSpec) (term, error) {
	fn, args, err := p.resolve(e, recv.Type)
	if err != nil {
		return nil, p.innermost(e, recv.Type, err)
	}
	if assignableType(recv.Type, fn.Return) == noFit {
		what, name := "function", fn.Name
		if op, ok := operatorOf(e); ok {
			what, name = "operation", op
		}
		return nil, invalidf("Type error: cannot assign result of %s %s (type %s) to %s (type %s)",
			what, name, fn.Return, recv.Name, recv.Type)
	}
	return p.funcTerm(fn, args, recv)
}

func operatorOf(e cql.Expr) (string, bool) {
	switch e := e.(type) {
	case *cql.Binary:
		return string(e.Op), true
	case *cql.Neg:
		return "-", true
	}
	return "", false
}

// funcTerm plans the arguments of a resolved function.
func (p *planner) funcTerm(fn *cqlfunc.Function, args []cql.Expr, recv cqlwire.ColumnSpec) (term, error) {
	if len(fn.Args) != len(args) {
		return nil, invalidf("Incorrect number of arguments specified for function %s (expected %d, found %d)",
			fn.Name, len(fn.Args), len(args))
	}
	f := &funcTerm{fn: fn, args: make([]term, len(args)), keyTypes: p.keyTypes}
	pure := fn.Pure
	for i, a := range args {
		spec := recv
		spec.Name, spec.Type = argName(fn.Name, i), fn.Args[i]
		t, err := p.term(a, spec)
		if err != nil {
			return nil, err
		}
		f.args[i] = t
		if _, ok := t.(*constTerm); !ok {
			pure = false
		}
	}
	if !pure {
		return f, nil
	}
	v, err := f.eval(&execution{fn: cqlfunc.Context{ProtocolVersion: 5}})
	if err != nil {
		return nil, err
	}
	return &constTerm{v: v}, nil
}

// funcTerm is a function call evaluated at each execution.
type funcTerm struct {
	fn       *cqlfunc.Function
	args     []term
	keyTypes []*cqltype.Type
}

func (f *funcTerm) eval(x *execution) (cqlwire.Value, error) {
	args := make([][]byte, len(f.args))
	for i, a := range f.args {
		v, err := a.eval(x)
		if err != nil {
			return v, err
		}
		if v.Unset {
			return v, invalidf("Invalid unset value for argument in call to function %s", shortName(f.fn.Name))
		}
		args[i] = v.Bytes
	}
	x.fn.KeyTypes = f.keyTypes
	b, err := f.fn.Eval(&x.fn, args)
	if err != nil {
		return cqlwire.Value{}, functionError(err)
	}
	// min_timeuuid and max_timeuuid of times that no timeuuid can hold give what
	// must neither be stored nor looked for.
	if f.fn.Return.Kind == cqltype.KindTimeuuid && cqltype.Validate(f.fn.Return, b) != nil {
		return cqlwire.Value{}, invalidf("Return of function %s (%x) is not a valid value for its declared return type %s",
			f.fn.Name, b, f.fn.Return)
	}
	return cqlwire.Value{Bytes: b}, nil
}
