package cql

import "varve/internal/cqltype"

// selector reads an expression that may have columns in it: an item of SELECT
// or GROUP BY.
func (p *parser) selector() Expr {
	l := p.selectorProduct()
	for p.is(tPlus) || p.is(tMinus) {
		l = p.binary(l, p.selectorProduct)
	}
	return l
}

func (p *parser) selectorProduct() Expr {
	l := p.selectorFactor()
	for p.is(tStar) || p.is(tSlash) || p.is(tPercent) {
		l = p.binary(l, p.selectorFactor)
	}
	return l
}

func (p *parser) selectorFactor() Expr {
	if p.is(tMinus) {
		if !p.enter() {
			return nil
		}
		defer p.leave()
		p.next()
		return &Neg{unwrap(p.selectorFactor())}
	}
	return p.modifiers(p.simpleSelector())
}

// modifiers reads what may follow an expression: .field, [element], [from..to].
func (p *parser) modifiers(e Expr) Expr {
	for (p.is(tDot) || p.is(tLSquare)) && p.operator() {
		if p.accept(tDot) {
			e = &Field{Expr: e, Name: p.name()}
			continue
		}
		p.next()
		if p.accept(tRange) {
			e = &SliceExpr{Expr: e, To: p.term()}
			p.expect(tRSquare)
			continue
		}
		from := p.term()
		if !p.accept(tRange) {
			e = &Element{Expr: e, Key: from}
		} else {
			s := &SliceExpr{Expr: e, From: from}
			if !p.is(tRSquare) {
				s.To = p.term()
			}
			e = s
		}
		p.expect(tRSquare)
	}
	return e
}

func (p *parser) simpleSelector() Expr {
	start := p.tok
	next := p.peek(1).kind
	switch {
	case start.kind == tIdent || start.kind == tQuoted || start.kind >= kUnreserved || start.kind == kToken:
		if next == tLParen || next == tDot && p.peek(3).kind == tLParen && p.peek(2).kind.isFunction() {
			return p.selectorCall()
		}
		name := p.name()
		if p.err == nil && !followsSelector[p.tok.kind] {
			p.failFrom(start, p.tok)
		}
		return p.nodes.column(name)
	case start.kind == tQMark || start.kind == tColon:
		return p.marker()
	case start.kind == kNull:
		return p.null()
	}
	if lit, ok := p.constant(); ok {
		return lit
	}
	if !p.enter() {
		return nil
	}
	defer p.leave()
	switch start.kind {
	case tLSquare:
		p.next()
		return &ListLit{p.selectorsUntil(tRSquare)}
	case tLCurly:
		return p.selectorBraces()
	case tLParen:
		if p.selectorHintAhead() {
			return p.typeHint(p.simpleSelector)
		}
		p.next()
		return &TupleLit{p.selectors(tRParen)}
	}
	p.failHere()
	return nil
}

// followsSelector are the tokens that some statement has after a column in a selector.
var followsSelector = set(tEOF, tSemi, tComma, tColon, tRParen, tRSquare, tRCurly, tPlus, tMinus, tStar, tSlash,
	tPercent, tDot, tLSquare, kAs, kFrom, kOrder, kPer, kLimit, kAllow)

// selectorHintAhead tells (type) x from (column): the former when an operand follows.
func (p *parser) selectorHintAhead() bool {
	if !p.typeAhead() {
		return false
	}
	if p.peek(2).kind != tRParen {
		// (a.b) x is rare enough not to look five tokens ahead: (a.b) is a field.
		return p.peek(2).kind == tLt
	}
	switch k := p.peek(3).kind; {
	case k == kAs:
		return !p.peek(4).kind.isName()
	case k.isName(), k == kToken, k == kNull, k == kNaN, k == kInfinity:
		return true
	case k >= tString && k <= tQMark, k == tLParen, k == tLCurly, k == tColon:
		return p.peek(1).kind.isName()
	case k == tLSquare:
		// ( a ) [ 1 ] is an element, (list) [ 1 ] cannot be: bare list is no type.
		return false
	case k == tNegNaN, k == tNegInfinity:
		return true
	}
	return false
}

func (p *parser) selectors(closing kind) []Expr { return p.list((*parser).selector, closing) }

func (p *parser) selectorsUntil(closing kind) []Expr { return p.listUntil((*parser).selector, closing) }

// selectorBraces reads {…}. Where all keys are plain columns it is taken for a
// user type's value, but may be a map keyed by columns too.
func (p *parser) selectorBraces() Expr {
	p.expect(tLCurly)
	if p.accept(tRCurly) {
		return &SetLit{}
	}
	first := p.selector()
	if !p.is(tColon) {
		set := &SetLit{Elems: []Expr{first}}
		for p.accept(tComma) {
			set.Elems = append(set.Elems, p.selector())
		}
		p.expect(tRCurly)
		return set
	}
	m := &MapLit{}
	fields := []string{}
	for key := first; ; key = p.selector() {
		if c, ok := key.(*Column); ok {
			fields = append(fields, c.Name)
		}
		p.expect(tColon)
		m.Keys = append(m.Keys, key)
		m.Values = append(m.Values, p.selector())
		if !p.accept(tComma) {
			break
		}
	}
	p.expect(tRCurly)
	if len(fields) == len(m.Keys) {
		return &UDTLit{Fields: fields, Values: m.Values}
	}
	return m
}

// selectorCall reads what looks like a call: the name is followed by a (.
func (p *parser) selectorCall() Expr {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	start := p.tok
	switch start.kind {
	case kCast:
		p.next()
		p.next()
		return p.cast(p.selector())
	case kTTL, kWriteTime, kMaxWriteTime:
		m := &Meta{Kind: keywords[start.kind-kFirst]}
		p.next()
		p.next()
		m.Expr = p.modifiers(p.nodes.column(p.name()))
		p.expect(tRParen)
		return m
	case kKey, kJSON, kDistinct:
		if p.peek(1).kind == tLParen {
			p.failFrom(start, p.peek(1))
			return nil
		}
	}
	c := &Call{Func: p.functionName()}
	p.expect(tLParen)
	if start.kind == kCount && p.is(tStar) {
		p.next()
		p.expect(tRParen)
		c.Star = true
		return c
	}
	c.Args = p.selectorsUntil(tRParen)
	if c.countsRows() {
		c.Args, c.Star = nil, true
	}
	return c
}

// countsRows reports count(constant), which is count(*).
func (c *Call) countsRows() bool {
	if c.Func.Name != "count" || (c.Func.Keyspace != "" && c.Func.Keyspace != "system") || len(c.Args) != 1 {
		return false
	}
	l, ok := c.Args[0].(*Literal)
	return ok && l.Kind != cqltype.LitNull
}
