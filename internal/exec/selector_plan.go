package exec

import (
	"strings"

	"varve/internal/cql"
	"varve/internal/cqlfunc"
	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/schema"
)

// selectorPlanner plans the expressions of a SELECT list.
type selectorPlanner struct {
	p    *planner
	t    *schema.Table
	used []*schema.Column // columns met, each once, in order
	aggs []*aggSelector
}

func (sp *selectorPlanner) use(c *schema.Column) {
	for _, d := range sp.used {
		if c == d {
			return
		}
	}
	sp.used = append(sp.used, c)
}

func (sp *selectorPlanner) column(name string) (*schema.Column, error) {
	c := sp.t.Columns[name]
	if c == nil {
		return nil, undefinedColumn(sp.t, name)
	}
	sp.use(c)
	return c, nil
}

func cannotInfer(e cql.Expr) error {
	return invalidf("Cannot infer type for term %s in selection clause (try using a cast to force a type)", exprText(e))
}

// plan plans one expression. want is the type asked for by what surrounds it,
// or nil; it decides the type of constants and markers only.
func (sp *selectorPlanner) plan(e cql.Expr, want *cqltype.Type) (selector, error) {
	switch e := e.(type) {
	case *cql.Column:
		c, err := sp.column(e.Name)
		if err != nil {
			return nil, err
		}
		return &columnSelector{c: c}, nil
	case *cql.Literal, *cql.Marker:
		return sp.constant(e, want)
	case *cql.Meta:
		return sp.meta(e)
	case *cql.Field:
		return sp.field(e)
	case *cql.Element:
		return sp.element(e)
	case *cql.SliceExpr:
		return sp.slice(e)
	case *cql.TypeHint:
		return sp.hint(e)
	case *cql.Call:
		return sp.call(e, want)
	case *cql.CastExpr:
		return sp.cast(e)
	case *cql.Binary:
		return sp.binary(e, want)
	case *cql.Neg:
		return sp.negate(e, want)
	case *cql.TupleLit:
		if len(e.Elems) == 1 && want != nil && want.Kind != cqltype.KindTuple {
			return sp.parenthesised(e, want)
		}
	}
	return sp.compound(e, want)
}

// parenthesised plans (e), which is e where no tuple is wanted.
func (sp *selectorPlanner) parenthesised(e *cql.TupleLit, want *cqltype.Type) (selector, error) {
	s, err := sp.plan(e.Elems[0], want)
	if err != nil {
		return nil, err
	}
	return inParentheses(s), nil
}

func inParentheses(s selector) selector {
	return &hintSelector{selector: s, t: s.typ(), text: "(" + s.name() + ")"}
}

// constant plans a term without columns, whose type must be known from around it.
func (sp *selectorPlanner) constant(e cql.Expr, want *cqltype.Type) (selector, error) {
	if want == nil {
		return nil, cannotInfer(e)
	}
	return sp.constantFor(e, cqlwire.ColumnSpec{
		Keyspace: sp.t.Keyspace, Table: sp.t.Name, Name: "[selection]", Type: want,
	})
}

func (sp *selectorPlanner) constantFor(e cql.Expr, recv cqlwire.ColumnSpec) (selector, error) {
	t, err := sp.p.term(e, recv)
	if err != nil {
		return nil, err
	}
	return &termSelector{t: t, typ_: recv.Type, text: exprText(e)}, nil
}

func (sp *selectorPlanner) meta(e *cql.Meta) (selector, error) {
	m := &metaSelector{kind: e.Kind, field: -1}
	inner := e.Expr
	var of *cql.Column
	switch in := inner.(type) {
	case *cql.Column:
		of = in
	case *cql.Field:
		of, _ = in.Expr.(*cql.Column)
	case *cql.Element:
		of, _ = in.Expr.(*cql.Column)
	case *cql.SliceExpr:
		of, _ = in.Expr.(*cql.Column)
	}
	if of == nil {
		return nil, invalidf("Invalid argument of %s: %s", e.Kind, exprText(inner))
	}
	c, err := sp.column(of.Name)
	if err != nil {
		return nil, err
	}
	if c.Kind == schema.PartitionKey || c.Kind == schema.Clustering {
		return nil, invalidf("Cannot use selection function %s on PRIMARY KEY part %s", e.Kind, c.Name)
	}
	m.c = c
	multi := c.Type.IsMultiCell()
	switch in := inner.(type) {
	case *cql.Column:
		m.many = multi
		m.text = e.Kind + "(" + c.Name + ")"
	case *cql.Field:
		s, err := sp.field(in)
		if err != nil {
			return nil, err
		}
		m.field, m.text = s.(*fieldSelector).field, e.Kind+"("+s.name()+")"
	case *cql.Element:
		s, err := sp.element(in)
		if err != nil {
			return nil, err
		}
		m.key, m.text = s.(*elementSelector).key, e.Kind+"("+s.name()+")"
	case *cql.SliceExpr:
		s, err := sp.slice(in)
		if err != nil {
			return nil, err
		}
		sl := s.(*sliceSelector)
		m.slice, m.many, m.from, m.to = true, multi, sl.from, sl.to
		m.text = e.Kind + "(" + s.name() + ")"
	}
	return m, nil
}

func (sp *selectorPlanner) field(e *cql.Field) (selector, error) {
	of, err := sp.plan(e.Expr, nil)
	if err != nil {
		return nil, err
	}
	t := of.typ()
	if t.Kind != cqltype.KindUDT {
		return nil, invalidf("Invalid field selection: %s of type %s is not a user type", of.name(), t)
	}
	i := fieldIndex(t, e.Name)
	if i < 0 {
		return nil, invalidf("%s of type %s has no field %s", of.name(), cqltype.MaybeQuote(t.Name), e.Name)
	}
	return &fieldSelector{of: of, field: i, text: of.name() + "." + e.Name}, nil
}

func (sp *selectorPlanner) element(e *cql.Element) (selector, error) {
	of, err := sp.plan(e.Expr, nil)
	if err != nil {
		return nil, err
	}
	t := of.typ()
	if !t.IsCollection() {
		return nil, invalidf("Invalid element selection: %s is of type %s is not a collection", of.name(), t)
	}
	if t.Kind == cqltype.KindList {
		return nil, invalidf("Element selection is only allowed on sets and maps, but %s is a list", of.name())
	}
	key, err := sp.p.term(e.Key, sp.keySpec(of))
	if err != nil {
		return nil, err
	}
	return &elementSelector{of: of, key: key, text: of.name() + "[" + exprText(e.Key) + "]"}, nil
}

// keySpec describes the key of an element of a selector's collection.
func (sp *selectorPlanner) keySpec(of selector) cqlwire.ColumnSpec {
	name := keyName(of.name())
	if of.typ().Kind == cqltype.KindSet {
		name = valueName(of.name())
	}
	return cqlwire.ColumnSpec{Keyspace: sp.t.Keyspace, Table: sp.t.Name, Name: name, Type: of.typ().Elems[0]}
}

func (sp *selectorPlanner) slice(e *cql.SliceExpr) (selector, error) {
	of, err := sp.plan(e.Expr, nil)
	if err != nil {
		return nil, err
	}
	t := of.typ()
	if !t.IsCollection() {
		return nil, invalidf("Invalid slice selection: %s of type %s is not a collection", of.name(), t)
	}
	if t.Kind == cqltype.KindList {
		return nil, invalidf("Slice selection is only allowed on sets and maps, but %s is a list", of.name())
	}
	s := &sliceSelector{of: of, text: of.name() + "[" + optionalText(e.From) + ".." + optionalText(e.To) + "]"}
	if e.From != nil {
		if s.from, err = sp.p.term(e.From, sp.keySpec(of)); err != nil {
			return nil, err
		}
	}
	if e.To != nil {
		if s.to, err = sp.p.term(e.To, sp.keySpec(of)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (sp *selectorPlanner) hint(e *cql.TypeHint) (selector, error) {
	t, err := sp.p.hintType(e)
	if err != nil {
		return nil, err
	}
	s, err := sp.plan(e.Expr, t)
	if err != nil {
		return nil, err
	}
	if assignableType(t, s.typ()) == noFit {
		return nil, invalidf("Cannot assign value %s to %s of type %s", s.name(), "[selection]", t)
	}
	return &hintSelector{selector: s, t: t, text: "(" + hintText(t) + ")" + s.name()}, nil
}

// hintText is a type as a hint's result column names it: user types with
// their keyspace, and nothing frozen that can only be so.
func hintText(t *cqltype.Type) string {
	switch {
	case t.Kind == cqltype.KindUDT:
		return t.Keyspace + "." + t.Name
	case t.Kind == cqltype.KindTuple:
		return strings.TrimSuffix(strings.TrimPrefix(t.String(), "frozen<"), ">")
	}
	return t.String()
}

func (sp *selectorPlanner) cast(e *cql.CastExpr) (selector, error) {
	to, err := sp.p.snap.ResolveType(sp.p.keyspace, e.Type)
	if err != nil {
		return nil, wireError(err)
	}
	arg, err := sp.plan(e.Expr, nil)
	if err != nil {
		return nil, err
	}
	if arg.typ().Equal(to) {
		return arg, nil
	}
	name := "cast(" + arg.name() + " as " + typeText(e.Type) + ")"
	fn, err := cqlfunc.Cast(arg.typ(), to)
	if err != nil {
		return nil, functionError(err)
	}
	return &funcSelector{fn: fn, args: []selector{arg}, text: name}, nil
}

// argument is what is known of an argument before its function is: a selector,
// or none yet for what takes its type from the function.
func (sp *selectorPlanner) argument(e cql.Expr) (selector, cqlfunc.Arg, error) {
	if t, ok := e.(*cql.TupleLit); ok && len(t.Elems) == 1 {
		s, a, err := sp.argument(t.Elems[0])
		a.Text = "(" + a.Text + ")"
		if s != nil {
			s = inParentheses(s)
		}
		return s, a, err
	}
	if !hasColumn(e) && !hasAggregate(e) {
		a := sp.p.arg(e)
		if a.Literal || a.Type == nil {
			return nil, a, nil
		}
		s, err := sp.constant(e, a.Type)
		return s, a, err
	}
	s, err := sp.plan(e, nil)
	if err != nil {
		return nil, cqlfunc.Arg{}, err
	}
	return s, cqlfunc.Arg{Type: s.typ(), Text: s.name()}, nil
}

// arguments plans what argument left open, once the types are known.
func (sp *selectorPlanner) arguments(es []cql.Expr, known []selector, types []*cqltype.Type) error {
	for i, s := range known {
		if s != nil {
			continue
		}
		c, err := sp.plan(es[i], types[i])
		if err != nil {
			return err
		}
		known[i] = c
	}
	return nil
}

func selectorNames(ss []selector) string {
	names := make([]string, len(ss))
	for i, s := range ss {
		names[i] = s.name()
	}
	return strings.Join(names, ", ")
}

func (sp *selectorPlanner) call(e *cql.Call, want *cqltype.Type) (selector, error) {
	if ks := e.Func.Keyspace; (ks != "" && ks != "system") || !cqlfunc.Exists(e.Func.Name) {
		name := e.Func.Name
		if ks != "" {
			name = ks + "." + name
		}
		return nil, invalidf("Unknown function '%s'", name)
	}
	if e.Star {
		_, agg, err := cqlfunc.Resolve("count", nil, nil, nil)
		if err != nil {
			return nil, functionError(err)
		}
		return sp.aggregate(agg, nil, "count")
	}
	before := len(sp.aggs)
	known := make([]selector, len(e.Args))
	args := make([]cqlfunc.Arg, len(e.Args))
	for i, a := range e.Args {
		s, arg, err := sp.argument(a)
		if err != nil {
			return nil, err
		}
		known[i], args[i] = s, arg
	}
	fn, agg, err := cqlfunc.Resolve(e.Func.Name, args, want, sp.keyTypes())
	if err != nil {
		return nil, functionError(err)
	}
	if agg != nil {
		if len(sp.aggs) > before {
			return nil, invalidf("aggregate functions cannot be used as arguments of aggregate functions")
		}
		if err := sp.arguments(e.Args, known, agg.Args); err != nil {
			return nil, err
		}
		return sp.aggregate(agg, known, agg.Name+"("+selectorNames(known)+")")
	}
	if err := sp.arguments(e.Args, known, fn.Args); err != nil {
		return nil, err
	}
	return &funcSelector{
		fn: fn, args: known, keyTypes: sp.keyTypes(), text: fn.Name + "(" + selectorNames(known) + ")",
	}, nil
}

func (sp *selectorPlanner) keyTypes() []*cqltype.Type {
	ts := make([]*cqltype.Type, len(sp.t.PartitionKey))
	for i, c := range sp.t.PartitionKey {
		ts[i] = c.Type
	}
	return ts
}

func (sp *selectorPlanner) aggregate(agg *cqlfunc.Aggregate, args []selector, text string) (selector, error) {
	s := &aggSelector{agg: agg, args: args, text: text, slot: len(sp.aggs)}
	sp.aggs = append(sp.aggs, s)
	return s, nil
}

func (sp *selectorPlanner) binary(e *cql.Binary, want *cqltype.Type) (selector, error) {
	l, la, err := sp.argument(e.L)
	if err != nil {
		return nil, err
	}
	r, ra, err := sp.argument(e.R)
	if err != nil {
		return nil, err
	}
	fn, err := cqlfunc.Arithmetic(e.Op, la, ra, want)
	if err != nil {
		return nil, functionError(err)
	}
	args := []selector{l, r}
	if err := sp.arguments([]cql.Expr{e.L, e.R}, args, fn.Args); err != nil {
		return nil, err
	}
	return &funcSelector{fn: fn, args: args, text: operandName(e.L, args[0], e.Op, false) + " " + string(e.Op) + " " +
		operandName(e.R, args[1], e.Op, true)}, nil
}

// operandName names one side of an operation, in parentheses where it binds
// less tightly than the operation.
func operandName(e cql.Expr, s selector, op byte, right bool) string {
	b, ok := e.(*cql.Binary)
	if ok && (precedence(b.Op) < precedence(op) || (right && precedence(b.Op) == precedence(op))) {
		return "(" + s.name() + ")"
	}
	return s.name()
}

func precedence(op byte) int {
	if op == '+' || op == '-' {
		return 1
	}
	return 2
}

func (sp *selectorPlanner) negate(e *cql.Neg, want *cqltype.Type) (selector, error) {
	arg, known, err := sp.argument(e.Expr)
	if err != nil {
		return nil, err
	}
	if arg == nil {
		t := want
		if t == nil {
			t = known.Type
		}
		if t == nil {
			return nil, invalidf("Ambiguous negation: use type casts to disambiguate")
		}
		if arg, err = sp.plan(e.Expr, t); err != nil {
			return nil, err
		}
	}
	fn, err := cqlfunc.Negate(arg.typ())
	if err != nil {
		return nil, functionError(err)
	}
	name := arg.name()
	if _, ok := e.Expr.(*cql.Binary); ok {
		name = "(" + name + ")"
	}
	return &funcSelector{fn: fn, args: []selector{arg}, text: "-" + name}, nil
}
