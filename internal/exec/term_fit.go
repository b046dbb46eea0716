package exec

import (
	"strconv"
	"strings"

	"varve/internal/cql"
	"varve/internal/cqlfunc"
	"varve/internal/cqltype"
	"varve/internal/cqlwire"
)

// fit tells whether an expression may be given for a type.
type fit uint8

const (
	noFit    fit = iota
	weakFit      // by conversion, or its type is not known yet
	exactFit     // it is of that very type
)

func itoa(n int) string { return strconv.Itoa(n) }

func argName(fn string, i int) string { return "arg" + itoa(i) + "(" + strings.ToLower(fn) + ")" }

// shortName is a native function's name without its keyspace.
func shortName(fn string) string { return strings.TrimPrefix(fn, "system.") }

// fits reports how e may be given for recv, without planning it.
func (p *planner) fits(e cql.Expr, recv cqlwire.ColumnSpec) fit {
	t := recv.Type
	switch e := unwrap(e, t).(type) {
	case *cql.Marker:
		return weakFit
	case *cql.Literal:
		return literalFit(e, t)
	case *cql.ListLit:
		if t.Kind != cqltype.KindList && (t.Kind != cqltype.KindVector || len(e.Elems) != t.Dim) {
			return noFit
		}
		return p.fitAll(e.Elems, part(recv, valueName(recv.Name), t.Elems[0]))
	case *cql.SetLit:
		if t.Kind == cqltype.KindMap && len(e.Elems) == 0 {
			return weakFit
		}
		if t.Kind != cqltype.KindSet {
			return noFit
		}
		return p.fitAll(e.Elems, part(recv, valueName(recv.Name), t.Elems[0]))
	case *cql.MapLit:
		if t.Kind != cqltype.KindMap {
			return noFit
		}
		return min(p.fitAll(e.Keys, part(recv, keyName(recv.Name), t.Elems[0])),
			p.fitAll(e.Values, part(recv, valueName(recv.Name), t.Elems[1])))
	case *cql.TupleLit:
		return weak(p.checkTuple(e, recv))
	case *cql.UDTLit:
		return weak(p.checkUDT(e, recv))
	case *cql.TypeHint:
		hint, err := p.hintType(e)
		if err != nil {
			return noFit
		}
		return assignableType(t, hint)
	case *cql.Call, *cql.CastExpr, *cql.Binary, *cql.Neg:
		fn, _, err := p.resolve(e, t)
		if err != nil {
			return exactFit // planning it gives the better message
		}
		return assignableType(t, fn.Return)
	}
	return noFit
}

func weak(err error) fit {
	if err != nil {
		return noFit
	}
	return weakFit
}

func literalFit(l *cql.Literal, t *cqltype.Type) fit {
	if l.Kind == cqltype.LitNull {
		if t.Kind == cqltype.KindCounter {
			return noFit
		}
		return weakFit
	}
	ok, _ := cqltype.LiteralFits(t, l.Kind)
	switch {
	case !ok:
		return noFit
	case cqltype.LiteralType(l.Kind, l.Text).Equal(t):
		return exactFit
	}
	return weakFit
}

func (p *planner) fitAll(es []cql.Expr, recv cqlwire.ColumnSpec) fit {
	if len(es) == 0 {
		return weakFit
	}
	f := exactFit
	for _, e := range es {
		f = min(f, p.fits(e, recv))
	}
	return f
}

// part describes a part of a receiver: an element, a key, a field.
func part(recv cqlwire.ColumnSpec, name string, t *cqltype.Type) cqlwire.ColumnSpec {
	recv.Name, recv.Type = name, t
	return recv
}

func keyName(column string) string   { return "key(" + column + ")" }
func valueName(column string) string { return "value(" + column + ")" }

// assignableType reports how a value of type t may be given for recv: the same
// type, or one whose binary form is read the same way.
func assignableType(recv, t *cqltype.Type) fit {
	if recv.Equal(t) || recv.AsFrozen().Equal(t.AsFrozen()) {
		return exactFit
	}
	ok := cqltype.ReadsAs(t, recv)
	if recv.IsCollection() || recv.Kind == cqltype.KindTuple {
		ok = recv.Kind == t.Kind && assignableParts(recv, t)
	}
	if ok {
		return weakFit
	}
	return noFit
}

func assignableParts(recv, t *cqltype.Type) bool {
	if len(t.Elems) > len(recv.Elems) || (len(t.Elems) < len(recv.Elems) && recv.Kind != cqltype.KindTuple) {
		return false
	}
	for i, e := range t.Elems {
		if assignableType(recv.Elems[i], e) == noFit {
			return false
		}
	}
	return true
}

// resolve finds the function behind a call, cast or arithmetic expression and
// its arguments; want is the type its value should have.
func (p *planner) resolve(e cql.Expr, want *cqltype.Type) (*cqlfunc.Function, []cql.Expr, error) {
	switch e := e.(type) {
	case *cql.Call:
		fn, err := p.resolveCall(e, want)
		return fn, e.Args, err
	case *cql.CastExpr:
		to, err := p.snap.ResolveType(p.keyspace, e.Type)
		if err != nil {
			return nil, nil, wireError(err)
		}
		from := p.typeOf(e.Expr)
		if l, ok := unwrap(e.Expr, nil).(*cql.Literal); ok && from == nil && l.Kind != cqltype.LitNull {
			from = cqltype.LiteralType(l.Kind, l.Text)
		}
		if from == nil {
			return nil, nil, invalidf("Ambiguous call to function castAs%s: use type casts to disambiguate", to)
		}
		fn, err := cqlfunc.Cast(from, to)
		return fn, []cql.Expr{e.Expr}, functionError(err)
	case *cql.Binary:
		fn, err := cqlfunc.Arithmetic(e.Op, p.arg(e.L), p.arg(e.R), want)
		return fn, []cql.Expr{e.L, e.R}, functionError(err)
	case *cql.Neg:
		t := p.typeOf(e.Expr)
		if t == nil {
			t = want
		}
		if t == nil {
			return nil, nil, invalidf("Ambiguous negation: use type casts to disambiguate")
		}
		fn, err := cqlfunc.Negate(t)
		return fn, []cql.Expr{e.Expr}, functionError(err)
	}
	return nil, nil, invalidf("Invalid term %s", exprText(e))
}

// innermost is the error of an operand that cannot be resolved itself, which
// says more than err, that of the whole operation. It is no part of resolve,
// which nested operations would then call twice at each level.
func (p *planner) innermost(e cql.Expr, want *cqltype.Type, err error) error {
	for e != nil {
		b, ok := e.(*cql.Binary)
		if !ok {
			break
		}
		e = nil
		for _, side := range [...]cql.Expr{b.L, b.R} {
			side = unwrap(side, nil)
			switch side.(type) {
			case *cql.Binary, *cql.Neg, *cql.Call, *cql.CastExpr:
				if _, _, inner := p.resolve(side, want); inner != nil {
					e, err = side, inner
				}
			}
			if e != nil {
				break
			}
		}
	}
	return err
}

func (p *planner) resolveCall(e *cql.Call, want *cqltype.Type) (*cqlfunc.Function, error) {
	if ks := e.Func.Keyspace; (ks != "" && ks != "system") || !cqlfunc.Exists(e.Func.Name) {
		name := e.Func.Name
		if ks != "" {
			name = ks + "." + name
		}
		return nil, invalidf("Unknown function %s called", name)
	}
	args := make([]cqlfunc.Arg, len(e.Args))
	for i, a := range e.Args {
		args[i] = p.arg(a)
	}
	fn, agg, err := cqlfunc.Resolve(e.Func.Name, args, want, p.keyTypes)
	if err != nil {
		return nil, functionError(err)
	}
	if agg != nil || e.Star {
		return nil, invalidf("Aggregation function are not supported in the where clause")
	}
	return fn, nil
}

// arg is what is known of an argument before its function is. Each level of a
// nested call asks for all those below it, so that answers are kept.
func (p *planner) arg(e cql.Expr) cqlfunc.Arg {
	e = unwrap(e, nil)
	switch e.(type) {
	case *cql.Literal, *cql.Marker:
		return p.newArg(e)
	}
	a, ok := p.args[e]
	if !ok {
		a = p.newArg(e)
		if p.args == nil {
			p.args = map[cql.Expr]cqlfunc.Arg{}
		}
		p.args[e] = a
	}
	return a
}

func (p *planner) newArg(e cql.Expr) cqlfunc.Arg {
	a := cqlfunc.Arg{Text: exprText(e)}
	if kind, ok := constantKind(e); ok {
		// Arithmetic on constants takes on the type it is wanted in, as they do.
		a.Literal, a.Kind, a.Type = true, kind, p.typeOf(e)
		return a
	}
	switch l := e.(type) {
	case *cql.Literal:
		if l.Kind != cqltype.LitNull {
			a.Literal, a.Kind, a.Type = true, l.Kind, cqltype.LiteralType(l.Kind, l.Text)
		}
		return a
	case *cql.ListLit:
		a.Elements = make([]cqlfunc.Arg, len(l.Elems))
		for i, el := range l.Elems {
			a.Elements[i] = p.arg(el)
		}
	case *cql.SetLit, *cql.TupleLit:
		a.Natural = p.naturalType(e)
	}
	a.Type = p.typeOf(e)
	return a
}

// naturalType is the type that an expression has by itself, where constants
// are taken for what they are at first sight; nil for markers and for literals
// that such constants say nothing of.
func (p *planner) naturalType(e cql.Expr) *cqltype.Type {
	if t := p.typeOf(e); t != nil {
		return t
	}
	switch e := unwrap(e, nil).(type) {
	case *cql.Literal:
		return cqltype.LiteralType(e.Kind, e.Text)
	case *cql.SetLit:
		for _, el := range e.Elems {
			if t := p.naturalType(el); t != nil {
				return cqltype.SetOf(t).AsFrozen()
			}
		}
	case *cql.TupleLit:
		elems := make([]*cqltype.Type, len(e.Elems))
		for i, el := range e.Elems {
			if elems[i] = p.naturalType(el); elems[i] == nil {
				return nil
			}
		}
		return cqltype.TupleOf(elems...).AsFrozen()
	}
	return nil
}

// constantKind reports arithmetic on numeric constants alone, and the kind of its result.
func constantKind(e cql.Expr) (cqltype.LiteralKind, bool) {
	number := func(e cql.Expr) (cqltype.LiteralKind, bool) {
		e = unwrap(e, nil)
		if l, ok := e.(*cql.Literal); ok {
			return l.Kind, l.Kind == cqltype.LitInteger || l.Kind == cqltype.LitFloat
		}
		return constantKind(e)
	}
	switch e := e.(type) {
	case *cql.Neg:
		return number(e.Expr)
	case *cql.Binary:
		l, lok := number(e.L)
		r, rok := number(e.R)
		return max(l, r), lok && rok
	}
	return 0, false
}

// typeOf is an expression's type where the expression alone decides it, else nil.
func (p *planner) typeOf(e cql.Expr) *cqltype.Type {
	switch e := unwrap(e, nil).(type) {
	case *cql.TypeHint:
		t, err := p.hintType(e)
		if err != nil {
			return nil
		}
		return t
	case *cql.Call, *cql.CastExpr, *cql.Binary, *cql.Neg:
		fn, _, err := p.resolve(e, nil)
		if err != nil {
			return nil
		}
		return fn.Return
	case *cql.ListLit:
		return collectionType(cqltype.ListOf, p.firstType(e.Elems))
	case *cql.SetLit:
		return collectionType(cqltype.SetOf, p.firstType(e.Elems))
	case *cql.MapLit:
		k, v := p.firstType(e.Keys), p.firstType(e.Values)
		if k == nil || v == nil {
			return nil
		}
		return cqltype.MapOf(k, v).AsFrozen()
	case *cql.TupleLit:
		elems := make([]*cqltype.Type, len(e.Elems))
		for i, el := range e.Elems {
			if elems[i] = p.typeOf(el); elems[i] == nil {
				return nil
			}
		}
		return cqltype.TupleOf(elems...)
	}
	return nil
}

func collectionType(of func(*cqltype.Type) *cqltype.Type, elem *cqltype.Type) *cqltype.Type {
	if elem == nil {
		return nil
	}
	return of(elem).AsFrozen()
}

func (p *planner) firstType(es []cql.Expr) *cqltype.Type {
	for _, e := range es {
		if t := p.typeOf(e); t != nil {
			return t
		}
	}
	return nil
}
