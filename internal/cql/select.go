package cql

// selectStatement reads SELECT.
func (p *parser) selectStatement() Statement {
	p.expect(kSelect)
	s := &Select{}
	s.JSON = p.selectWord(kJSON)
	s.Distinct = p.selectWord(kDistinct)
	if !p.accept(tStar) {
		s.Items = append(make([]Selection, 0, 4), p.selection())
		for p.accept(tComma) {
			s.Items = append(s.Items, p.selection())
		}
	}
	p.expect(kFrom)
	s.Table = p.table()
	if p.accept(kWhere) {
		s.Where = p.where()
	}
	if p.accept(kGroup) {
		p.expect(kBy)
		s.GroupBy = append(s.GroupBy, p.selector())
		for p.accept(tComma) {
			s.GroupBy = append(s.GroupBy, p.selector())
		}
	}
	if p.accept(kOrder) {
		p.expect(kBy)
		s.OrderBy = append(s.OrderBy, p.ordering())
		for p.accept(tComma) {
			s.OrderBy = append(s.OrderBy, p.ordering())
		}
	}
	if p.accept(kPer) {
		p.expectAll(kPartition, kLimit)
		s.PerPartitionLimit = p.intValue()
	}
	if p.accept(kLimit) {
		s.Limit = p.intValue()
	}
	if p.accept(kAllow) {
		p.expect(kFiltering)
		s.AllowFiltering = true
	}
	return s
}

// selectWord reads JSON or DISTINCT where it is the word and not a column so
// called: where a selector follows.
func (p *parser) selectWord(k kind) bool {
	if !p.is(k) {
		return false
	}
	next := p.peek(1).kind
	switch {
	case next == kAs:
		// "json AS x" names a column, "json as FROM" selects one called as.
		if p.peek(2).kind.isName() {
			return false
		}
	case next.isName(), next == kToken, next == kNull, next == kNaN, next == kInfinity:
	case next >= tString && next <= tQMark:
	case next == tStar, next == tMinus, next == tLParen, next == tLSquare, next == tLCurly, next == tColon:
	case next == tNegNaN, next == tNegInfinity:
	default:
		return false
	}
	p.next()
	return true
}

func (p *parser) selection() Selection {
	s := Selection{Expr: p.selector()}
	if p.accept(kAs) {
		s.Alias = p.name()
	}
	return s
}

func (p *parser) ordering() Ordering {
	o := Ordering{Column: p.column()}
	if p.accept(kAnn) {
		p.expect(kOf)
		o.Ann = p.term()
	}
	if p.accept(kDesc) {
		o.Desc = true
	} else {
		p.accept(kAsc)
	}
	return o
}

// where reads relations joined by AND.
func (p *parser) where() []Relation {
	list := make([]Relation, 0, 2)
	for {
		if p.exprIndex() {
			return list
		}
		list = p.relationInto(list)
		if !p.accept(kAnd) || !p.countRelation() {
			return list
		}
	}
}

// exprIndex meets expr(index, …), which queries a custom index.
func (p *parser) exprIndex() bool {
	t := p.tok
	if t.kind != tIdent || p.lex.src[t.start:t.end] != "expr" || p.peek(1).kind != tLParen {
		return false
	}
	p.unsupported = "custom index expressions"
	for !p.is(tEOF) {
		p.next()
	}
	return true
}

// relationInto reads one relation, which may stand in parentheses.
func (p *parser) relationInto(list []Relation) []Relation {
	t := p.tok
	switch t.kind {
	case kToken:
		p.next()
		r := Relation{Columns: p.columnTuple(), Token: true, Op: p.comparison()}
		r.Value = p.term()
		return append(list, r)
	case tLParen:
		if k := p.peek(2).kind; p.peek(1).kind != tLParen && (k == tComma || k == tRParen) {
			return append(list, p.tupleRelation())
		}
		if !p.enter() {
			return list
		}
		defer p.leave()
		p.next()
		list = p.relationInto(list)
		p.expect(tRParen)
		return list
	}
	return append(list, p.columnRelation())
}

func (p *parser) columnTuple() []string {
	p.expect(tLParen)
	list := append(make([]string, 0, 2), p.column())
	for p.accept(tComma) {
		list = append(list, p.column())
	}
	p.expect(tRParen)
	return list
}

// columnRelation reads a relation of one column.
func (p *parser) columnRelation() Relation {
	start := p.tok
	r := Relation{Columns: p.nodes.one(p.column())}
	switch p.tok.kind {
	case kIn:
		p.next()
		r.Op = In
		r.Value, r.Values = p.inValues()
		return r
	case kContains:
		r.Op = p.contains()
	case kLike:
		p.next()
		r.Op = Like
	case kIs:
		p.next()
		p.expectAll(kNot, kNull)
		r.Op = IsNotNull
		return r
	case tLSquare:
		p.next()
		r.Key = p.term()
		p.expect(tRSquare)
		r.Op = p.comparison()
	default:
		if !p.tok.kind.isComparison() {
			p.failFrom(start, p.tok)
			return r
		}
		r.Op = p.comparison()
	}
	r.Value = p.term()
	return r
}

// comparison reads one of = != < <= > >=.
func (p *parser) comparison() Op {
	k := p.tok.kind
	if !k.isComparison() {
		p.failHere()
		return Eq
	}
	p.next()
	return Op(k - tEq)
}

func (p *parser) contains() Op {
	p.expect(kContains)
	if p.accept(kKey) {
		return ContainsKey
	}
	return Contains
}

// inValues reads the right side of IN: a marker, or values in parentheses.
func (p *parser) inValues() (Expr, []Expr) {
	if p.isMarker() {
		return p.marker(), nil
	}
	p.expect(tLParen)
	return nil, p.termsUntil(tRParen)
}

// tupleRelation reads (a, b) op …
func (p *parser) tupleRelation() Relation {
	r := Relation{Columns: p.columnTuple(), Tuple: true}
	if !p.accept(kIn) {
		r.Op = p.comparison()
		r.Value = p.tupleValue()
		return r
	}
	r.Op = In
	if p.isMarker() {
		r.Value = p.marker()
		return r
	}
	p.expect(tLParen)
	if p.accept(tRParen) {
		return r
	}
	markers := p.isMarker()
	for {
		if p.isMarker() != markers {
			p.failHere()
		}
		r.Values = append(r.Values, p.tupleValue())
		if !p.accept(tComma) {
			break
		}
	}
	p.expect(tRParen)
	return r
}

// tupleValue reads a tuple or a marker for one.
func (p *parser) tupleValue() Expr {
	if p.isMarker() {
		return p.marker()
	}
	p.expect(tLParen)
	return &TupleLit{p.terms(tRParen)}
}
