package cql

import (
	"strings"

	"varve/internal/cqltype"
)

// literal reads a constant (NULL is none); ok is false if there is none.
func (p *parser) constant() (lit *Literal, ok bool) {
	t := p.tok
	var k cqltype.LiteralKind
	var text string
	switch t.kind {
	case tString:
		k, text = cqltype.LitString, p.text(t)
	case tInteger:
		k, text = cqltype.LitInteger, p.text(t)
	case tFloat:
		k, text = cqltype.LitFloat, p.text(t)
	case tBoolean:
		k, text = cqltype.LitBoolean, strings.ToLower(p.text(t))
	case tDuration:
		k, text = cqltype.LitDuration, p.text(t)
	case tUUID:
		k, text = cqltype.LitUUID, p.text(t)
	case tHex:
		k, text = cqltype.LitHex, p.text(t)
	case kNaN, tNegNaN:
		k, text = cqltype.LitFloat, "NaN"
	case kInfinity:
		k, text = cqltype.LitFloat, "Infinity"
	case tNegInfinity:
		k, text = cqltype.LitFloat, "-Infinity"
	default:
		return nil, false
	}
	p.next()
	lit = p.nodes.literal()
	lit.Kind, lit.Text = k, text
	return lit, true
}

func (p *parser) null() *Literal {
	p.next()
	lit := p.nodes.literal()
	lit.Kind, lit.Text = cqltype.LitNull, "null"
	return lit
}

// functionName reads [keyspace.]name of a function.
func (p *parser) functionName() Name {
	var n Name
	if p.peek(1).kind == tDot {
		n.Keyspace = p.keyspace()
		p.expect(tDot)
	}
	if !p.tok.kind.isFunction() {
		p.failHere()
		return n
	}
	n.Name = p.nameOf(p.tok)
	p.next()
	return n
}

// term reads a value: constants, markers, literals of collections, function
// calls and arithmetic on them, but no columns.
func (p *parser) term() Expr {
	e := p.termSum(false)
	if !followsTerm[p.tok.kind] {
		p.failHere()
	}
	return e
}

// followsTerm are the tokens that some statement has after a value.
var followsTerm = set(tEOF, tSemi, tComma, tColon, tRParen, tRSquare, tRCurly, tRange, tPlus, tMinus,
	kAnd, kAs, kWhere, kIf, kUsing, kGroup, kOrder, kPer, kLimit, kAllow, kAsc, kDesc, kApply, kInsert,
	kUpdate, kDelete, kPrimary)

// termSum reads a sum. With beforeColumn it leaves a final "+ column" alone.
func (p *parser) termSum(beforeColumn bool) Expr {
	l := p.termProduct()
	for p.is(tPlus) || p.is(tMinus) {
		if beforeColumn && p.is(tPlus) && p.columnAhead() {
			break
		}
		l = p.binary(l, p.termProduct)
	}
	return l
}

// columnAhead reports that after the current token comes a name that is no function's.
func (p *parser) columnAhead() bool {
	t := p.peek(1).kind
	if t == tEmptyQuoted {
		return true
	}
	after := p.peek(2).kind
	return t.isName() && after != tLParen && after != tDot
}

func (p *parser) termProduct() Expr {
	l := p.termFactor()
	for p.is(tStar) || p.is(tSlash) || p.is(tPercent) {
		l = p.binary(l, p.termFactor)
	}
	return l
}

// binary reads an operator and its right side.
func (p *parser) binary(l Expr, right func() Expr) Expr {
	op := p.lex.src[p.tok.start]
	if !p.operator() {
		return l
	}
	p.next()
	return &Binary{Op: op, L: unwrap(l), R: unwrap(right())}
}

// unwrap takes the parentheses off an operand, which is never a tuple.
func unwrap(e Expr) Expr {
	for {
		t, ok := e.(*TupleLit)
		if !ok || len(t.Elems) != 1 {
			return e
		}
		e = t.Elems[0]
	}
}

func (p *parser) termFactor() Expr {
	if p.accept(tMinus) {
		return &Neg{unwrap(p.simpleTerm())}
	}
	return p.simpleTerm()
}

func (p *parser) simpleTerm() Expr {
	switch p.tok.kind {
	case tQMark, tColon:
		return p.marker()
	case kNull:
		return p.null()
	}
	if lit, ok := p.constant(); ok {
		return lit
	}
	if !p.enter() {
		return nil
	}
	defer p.leave()
	switch p.tok.kind {
	case tLSquare:
		p.next()
		return &ListLit{p.termsUntil(tRSquare)}
	case tLCurly:
		return p.braces()
	case tLParen:
		if p.typeAhead() {
			return p.typeHint(p.simpleTerm)
		}
		p.next()
		return &TupleLit{p.terms(tRParen)}
	case kCast:
		if p.peek(1).kind == tLParen {
			p.next()
			p.next()
			return p.cast(p.simpleTerm())
		}
	}
	return p.termCall()
}

// termCall reads a function call, the only use of a name in a term.
func (p *parser) termCall() Expr {
	start := p.tok
	if !start.kind.isName() && !start.kind.isFunction() {
		p.failHere()
		return nil
	}
	next := p.peek(1)
	if next.kind == tDot {
		if after := p.peek(3); after.kind != tLParen || !p.peek(2).kind.isFunction() {
			p.failFrom(start, after)
			return nil
		}
	} else if next.kind != tLParen || !start.kind.isFunction() {
		p.failFrom(start, next)
		return nil
	}
	f := p.functionName()
	p.expect(tLParen)
	return &Call{Func: f, Args: p.termsUntil(tRParen)}
}

// terms reads one or more values up to a closing token, inclusive.
func (p *parser) terms(closing kind) []Expr { return p.list((*parser).term, closing) }

// list reads one or more items, separated by commas, up to a closing token, inclusive.
func (p *parser) list(item func(*parser) Expr, closing kind) []Expr {
	list := make([]Expr, 0, 4)
	list = append(list, item(p))
	for p.accept(tComma) {
		list = append(list, item(p))
	}
	p.expect(closing)
	return list
}

// termsUntil is terms that may be none.
func (p *parser) termsUntil(closing kind) []Expr { return p.listUntil((*parser).term, closing) }

// listUntil is list that may be empty.
func (p *parser) listUntil(item func(*parser) Expr, closing kind) []Expr {
	if p.accept(closing) {
		return nil
	}
	return p.list(item, closing)
}

// braces reads {…}: a set, a map or a user type's value.
func (p *parser) braces() Expr {
	p.expect(tLCurly)
	if p.accept(tRCurly) {
		return &SetLit{}
	}
	if p.tok.kind.isName() && p.peek(1).kind == tColon {
		return p.udtLit()
	}
	first := p.term()
	if !p.is(tColon) {
		set := &SetLit{Elems: []Expr{first}}
		for p.accept(tComma) {
			set.Elems = append(set.Elems, p.term())
		}
		p.expect(tRCurly)
		return set
	}
	m := &MapLit{}
	for key := first; ; key = p.term() {
		p.expect(tColon)
		m.Keys = append(m.Keys, key)
		m.Values = append(m.Values, p.term())
		if !p.accept(tComma) {
			break
		}
	}
	p.expect(tRCurly)
	return m
}

func (p *parser) udtLit() Expr {
	u := &UDTLit{}
	for {
		u.Fields = append(u.Fields, p.name())
		p.expect(tColon)
		u.Values = append(u.Values, p.term())
		if !p.accept(tComma) {
			break
		}
	}
	p.expect(tRCurly)
	return u
}

// typeAhead reports that the current ( begins a type hint. A bare name in
// parentheses is one in terms always, since terms have no columns.
func (p *parser) typeAhead() bool {
	t := p.peek(1).kind
	if !t.isName() && t != kSet {
		return false
	}
	switch p.peek(2).kind {
	case tLt, tRParen:
		return true
	case tDot:
		return p.peek(4).kind == tRParen
	}
	return false
}

// typeHint reads (type) expr.
func (p *parser) typeHint(operand func() Expr) Expr {
	p.expect(tLParen)
	h := &TypeHint{Type: p.typeRef()}
	p.expect(tRParen)
	h.Expr = operand()
	return h
}

// cast reads the rest of CAST(e AS type).
func (p *parser) cast(e Expr) Expr {
	p.expect(kAs)
	t := p.tok
	if !t.kind.isNative() {
		p.failHere()
		return nil
	}
	p.next()
	c := &CastExpr{Expr: e, Type: TypeRef{Name: Name{Name: p.nameOf(t)}}}
	p.expect(tRParen)
	return c
}

// intValue reads an integer or a marker, as LIMIT and USING want.
func (p *parser) intValue() Expr {
	if p.isMarker() {
		return p.marker()
	}
	if !p.is(tInteger) {
		p.failHere()
		return nil
	}
	lit, _ := p.constant()
	return lit
}
