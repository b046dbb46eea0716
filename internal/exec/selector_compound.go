package exec

import (
	"strings"

	"varve/internal/cql"
	"varve/internal/cqltype"
)

// anyExpr reports whether f holds for e or an expression inside it.
func anyExpr(e cql.Expr, f func(cql.Expr) bool) bool {
	if e == nil {
		return false
	}
	if f(e) {
		return true
	}
	some := func(es ...cql.Expr) bool {
		for _, e := range es {
			if anyExpr(e, f) {
				return true
			}
		}
		return false
	}
	switch e := e.(type) {
	case *cql.ListLit:
		return some(e.Elems...)
	case *cql.SetLit:
		return some(e.Elems...)
	case *cql.MapLit:
		return some(e.Keys...) || some(e.Values...)
	case *cql.UDTLit:
		return some(e.Values...)
	case *cql.TupleLit:
		return some(e.Elems...)
	case *cql.Call:
		return some(e.Args...)
	case *cql.TypeHint:
		return some(e.Expr)
	case *cql.CastExpr:
		return some(e.Expr)
	case *cql.Binary:
		return some(e.L, e.R)
	case *cql.Neg:
		return some(e.Expr)
	case *cql.Field:
		return some(e.Expr)
	case *cql.Element:
		return some(e.Expr)
	case *cql.SliceExpr:
		return some(e.Expr)
	case *cql.Meta:
		return some(e.Expr)
	}
	return false
}

func hasColumn(e cql.Expr) bool {
	return anyExpr(e, func(e cql.Expr) bool {
		_, ok := e.(*cql.Column)
		return ok
	})
}

func hasAggregate(e cql.Expr) bool {
	return anyExpr(e, func(e cql.Expr) bool {
		c, ok := e.(*cql.Call)
		return ok && c.Star
	})
}

// compound plans collection, tuple and user type literals of selectors.
func (sp *selectorPlanner) compound(e cql.Expr, want *cqltype.Type) (selector, error) {
	// {k: v} may be written for a user type or for a map keyed by a column.
	if u, ok := e.(*cql.UDTLit); ok && want != nil && want.Kind == cqltype.KindMap {
		m := &cql.MapLit{Values: u.Values}
		for _, f := range u.Fields {
			m.Keys = append(m.Keys, &cql.Column{Name: f})
		}
		return sp.mapping(m, want)
	}
	if !hasColumn(e) && !hasAggregate(e) {
		t := want
		if t == nil {
			t = sp.p.typeOf(e)
		}
		return sp.constant(e, t)
	}
	switch e := e.(type) {
	case *cql.TupleLit:
		return sp.tuple(e, want)
	case *cql.ListLit:
		return sp.list(e, want)
	case *cql.SetLit:
		return sp.set(e, want)
	case *cql.MapLit:
		return sp.mapping(e, want)
	case *cql.UDTLit:
		return sp.udt(e, want)
	}
	return nil, cannotInfer(e)
}

func elemType(want *cqltype.Type, kind cqltype.Kind, i int) *cqltype.Type {
	if want == nil || want.Kind != kind || i >= len(want.Elems) {
		return nil
	}
	return want.Elems[i]
}

// parts plans elements that share a type, which the first that has one gives to the rest.
func (sp *selectorPlanner) parts(es []cql.Expr, t *cqltype.Type) ([]selector, *cqltype.Type, error) {
	out := make([]selector, len(es))
	for i, e := range es {
		if t == nil && !hasColumn(e) && sp.p.typeOf(e) == nil {
			continue
		}
		s, err := sp.plan(e, t)
		if err != nil {
			return nil, nil, err
		}
		out[i] = s
		if t == nil {
			t = s.typ()
		}
	}
	for i, s := range out {
		if s != nil {
			continue
		}
		if t == nil {
			return nil, nil, cannotInfer(es[i])
		}
		c, err := sp.constant(es[i], t)
		if err != nil {
			return nil, nil, err
		}
		out[i] = c
	}
	return out, t, nil
}

func (sp *selectorPlanner) tuple(e *cql.TupleLit, want *cqltype.Type) (selector, error) {
	if len(e.Elems) == 1 && want == nil {
		return nil, cannotInfer(e) // it may be a tuple of one, or not a tuple at all
	}
	parts := make([]selector, len(e.Elems))
	types := make([]*cqltype.Type, len(e.Elems))
	for i, el := range e.Elems {
		s, err := sp.plan(el, elemType(want, cqltype.KindTuple, i))
		if err != nil {
			return nil, err
		}
		parts[i], types[i] = s, s.typ()
	}
	t := cqltype.TupleOf(types...)
	return &buildSelector{t: t, parts: parts, build: buildTuple, text: "(" + selectorNames(parts) + ")"}, nil
}

func (sp *selectorPlanner) list(e *cql.ListLit, want *cqltype.Type) (selector, error) {
	if want != nil && want.Kind == cqltype.KindVector {
		parts, _, err := sp.parts(e.Elems, want.Elems[0])
		if err != nil {
			return nil, err
		}
		if len(parts) != want.Dim {
			return nil, invalidf("Invalid vector literal of type %s; expected %d elements, but given %d",
				want, want.Dim, len(parts))
		}
		return &buildSelector{t: want, parts: parts, build: buildVector, text: "[" + selectorNames(parts) + "]"}, nil
	}
	parts, t, err := sp.parts(e.Elems, elemType(want, cqltype.KindList, 0))
	if err != nil {
		return nil, err
	}
	return &buildSelector{
		t: cqltype.ListOf(t), parts: parts, build: buildList,
		text: "[" + selectorNames(parts) + "]",
	}, nil
}

func (sp *selectorPlanner) set(e *cql.SetLit, want *cqltype.Type) (selector, error) {
	parts, t, err := sp.parts(e.Elems, elemType(want, cqltype.KindSet, 0))
	if err != nil {
		return nil, err
	}
	return &buildSelector{
		t: cqltype.SetOf(t), parts: parts, build: buildSorted,
		text: "{" + selectorNames(parts) + "}",
	}, nil
}

// mapping plans a map of selectors; its type must be given, as in Cassandra.
func (sp *selectorPlanner) mapping(e *cql.MapLit, want *cqltype.Type) (selector, error) {
	if want == nil || want.Kind != cqltype.KindMap {
		return nil, cannotInfer(e)
	}
	keys, _, err := sp.parts(e.Keys, want.Elems[0])
	if err != nil {
		return nil, err
	}
	values, _, err := sp.parts(e.Values, want.Elems[1])
	if err != nil {
		return nil, err
	}
	parts := make([]selector, 0, 2*len(keys))
	names := make([]string, len(keys))
	for i := range keys {
		parts = append(parts, keys[i], values[i])
		names[i] = keys[i].name() + ": " + values[i].name()
	}
	return &buildSelector{t: want, parts: parts, build: buildSorted, text: "{" + strings.Join(names, ", ") + "}"}, nil
}

func (sp *selectorPlanner) udt(e *cql.UDTLit, want *cqltype.Type) (selector, error) {
	if want == nil || want.Kind != cqltype.KindUDT {
		return nil, cannotInfer(e)
	}
	parts := make([]selector, len(want.Elems))
	names := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		n := fieldIndex(want, f)
		if n < 0 {
			return nil, invalidf("Unknown field '%s' in value of user defined type %s", f, want.Name)
		}
		s, err := sp.plan(e.Values[i], want.Elems[n])
		if err != nil {
			return nil, err
		}
		parts[n] = s
		names[i] = f + ": " + s.name()
	}
	for i, s := range parts {
		if s == nil {
			parts[i] = &termSelector{t: constant(nil), typ_: want.Elems[i], text: "null"}
		}
	}
	return &buildSelector{t: want, parts: parts, build: buildTuple, text: "{" + strings.Join(names, ", ") + "}"}, nil
}
