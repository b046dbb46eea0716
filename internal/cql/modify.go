package cql

// insertStatement reads INSERT.
func (p *parser) insertStatement() Statement {
	p.expectAll(kInsert, kInto)
	s := &Insert{Table: p.table()}
	if p.accept(kJSON) {
		p.insertJSON(s)
	} else {
		p.insertValues(s)
	}
	s.IfNotExists = p.ifNotExists()
	p.using(&s.Using, true)
	return s
}

func (p *parser) insertValues(s *Insert) {
	if !p.is(tLParen) {
		p.failHere()
		return
	}
	p.next()
	s.Columns = append(make([]string, 0, 8), p.column())
	for p.accept(tComma) {
		s.Columns = append(s.Columns, p.column())
	}
	p.expectAll(tRParen, kValues, tLParen)
	s.Values = append(make([]Expr, 0, len(s.Columns)), p.term())
	for p.accept(tComma) {
		s.Values = append(s.Values, p.term())
	}
	p.expect(tRParen)
}

func (p *parser) insertJSON(s *Insert) {
	s.DefaultNull = true
	switch {
	case p.isMarker():
		s.JSON = p.marker()
	case p.is(tString):
		s.JSON, _ = p.constant()
	default:
		p.failHere()
		return
	}
	if !p.accept(kDefault) {
		return
	}
	if p.accept(kUnset) {
		s.DefaultNull = false
	} else if !p.accept(kNull) {
		p.failHere()
	}
}

// using reads USING TIMESTAMP … AND TTL … if it is there.
func (p *parser) using(u *Using, ttl bool) {
	if !p.accept(kUsing) {
		return
	}
	if !ttl {
		p.expect(kTimestamp)
		u.Timestamp = p.intValue()
		return
	}
	for {
		switch {
		case p.accept(kTimestamp):
			u.Timestamp = p.intValue()
		case p.accept(kTTL):
			u.TTL = p.intValue()
		default:
			p.failHere()
		}
		if !p.accept(kAnd) {
			return
		}
	}
}

// updateStatement reads UPDATE.
func (p *parser) updateStatement() Statement {
	p.expect(kUpdate)
	s := &Update{Table: p.table()}
	p.using(&s.Using, true)
	p.expect(kSet)
	s.Set = append(make([]Assignment, 0, 4), p.assignment())
	for p.accept(tComma) {
		s.Set = append(s.Set, p.assignment())
	}
	p.checkAssignments(s.Set)
	p.expect(kWhere)
	s.Where = p.where()
	s.If, s.IfExists = p.conditions()
	return s
}

// assignment reads one item of SET.
func (p *parser) assignment() Assignment {
	a := Assignment{Column: p.column()}
	switch {
	case p.accept(tEq):
		p.assigned(&a)
	case p.accept(tPlusEq):
		a.Op, a.Value = AssignAdd, p.term()
	case p.accept(tMinusEq):
		a.Op, a.Value = AssignSub, p.term()
	case p.accept(tLSquare):
		a.Op, a.Key = AssignElement, p.term()
		p.expectAll(tRSquare, tEq)
		a.Value = p.term()
	case p.accept(tDot):
		a.Op, a.Field = AssignField, p.name()
		p.expect(tEq)
		a.Value = p.term()
	default:
		p.failHere()
	}
	return a
}

// assigned reads what stands after "column =": a value, "column + value",
// "column - value" or "value + column".
func (p *parser) assigned(a *Assignment) {
	if p.is(tEmptyQuoted) || p.tok.kind.isName() {
		switch next := p.peek(1); {
		case next.kind == tPlus || next.kind == tMinus:
			name := p.column()
			p.next()
			sign := "+"
			a.Op = AssignAdd
			if next.kind == tMinus {
				sign, a.Op = "-", AssignSub
			}
			a.Value = p.term()
			p.wantSame(a.Column, name, "Only expressions of the form X = X "+sign+"<value> are supported.")
			return
		case next.kind == tInteger:
			// X = X -3 is cut into X, =, X, -3, and adds a negative number.
			name := p.column()
			sign := "+"
			if p.lex.src[next.start] == '-' {
				sign = "-"
			}
			a.Op = AssignAdd
			a.Value, _ = p.constant()
			p.wantSame(a.Column, name, "Only expressions of the form X = X "+sign+" <value> are supported.")
			return
		}
	}
	a.Value = p.termSum(true)
	if !followsTerm[p.tok.kind] {
		p.failHere()
	}
	if p.accept(tPlus) {
		a.Op = AssignPrepend
		p.wantSame(a.Column, p.column(), "Only expressions of the form X = <value> + X are supported.")
	}
}

func (p *parser) wantSame(column, name, message string) {
	if column != name && p.err == nil {
		p.fail("%s", message)
	}
}

// checkAssignments refuses assignments that contradict each other.
func (p *parser) checkAssignments(list []Assignment) {
	if len(list) < 2 || p.err != nil {
		return
	}
	type field struct{ column, name string }
	whole := make(map[string]bool, len(list)) // column: assigned as a whole?
	fields := map[field]bool{}
	for i := range list {
		a := &list[i]
		set, seen := whole[a.Column]
		bad := seen && (set || a.Op == AssignSet)
		if a.Op == AssignField {
			f := field{a.Column, a.Field}
			bad = bad || fields[f]
			fields[f] = true
		}
		if bad {
			p.fail("Multiple incompatible setting of column %s", a.Column)
			return
		}
		whole[a.Column] = a.Op == AssignSet
	}
}

// conditions reads IF EXISTS or IF conditions, if there.
func (p *parser) conditions() (list []Condition, exists bool) {
	if !p.accept(kIf) {
		return nil, false
	}
	if next := p.peek(1).kind; p.is(kExists) && !next.isComparison() && next != kIn && next != kContains &&
		next != tLSquare && next != tDot {
		p.next()
		return nil, true
	}
	list = append(list, p.condition())
	for p.accept(kAnd) && p.countRelation() {
		list = append(list, p.condition())
	}
	return list, false
}

func (p *parser) condition() Condition {
	c := Condition{Column: p.column()}
	whole := false
	switch {
	case p.accept(tLSquare):
		c.Key = p.term()
		p.expect(tRSquare)
	case p.accept(tDot):
		c.Field = p.name()
	default:
		whole = true
	}
	switch {
	case p.accept(kIn):
		c.Op = In
		c.Value, c.Values = p.inValues()
		return c
	case whole && p.is(kContains):
		c.Op = p.contains()
	default:
		c.Op = p.comparison()
	}
	c.Value = p.term()
	return c
}

// deleteStatement reads DELETE.
func (p *parser) deleteStatement() Statement {
	p.expect(kDelete)
	s := &Delete{}
	if !p.is(kFrom) {
		s.Columns = append(s.Columns, p.deletion())
		for p.accept(tComma) {
			s.Columns = append(s.Columns, p.deletion())
		}
	}
	p.expect(kFrom)
	s.Table = p.table()
	p.using(&s.Using, false)
	p.expect(kWhere)
	s.Where = p.where()
	s.If, s.IfExists = p.conditions()
	return s
}

func (p *parser) deletion() Deletion {
	d := Deletion{Column: p.column()}
	if p.accept(tLSquare) {
		d.Key = p.term()
		p.expect(tRSquare)
	} else if p.accept(tDot) {
		d.Field = p.name()
	}
	return d
}

// batchStatement reads BEGIN … APPLY BATCH.
func (p *parser) batchStatement() Statement {
	p.expect(kBegin)
	s := &Batch{}
	if p.accept(kUnlogged) {
		s.Kind = UnloggedBatch
	} else if p.accept(kCounter) {
		s.Kind = CounterBatch
	}
	p.expect(kBatch)
	p.using(&s.Using, true)
	for {
		var m Statement
		switch p.tok.kind {
		case kInsert:
			m = p.insertStatement()
		case kUpdate:
			m = p.updateStatement()
		case kDelete:
			m = p.deleteStatement()
		default:
			p.expectAll(kApply, kBatch)
			return s
		}
		s.Statements = append(s.Statements, m)
		p.accept(tSemi)
	}
}

// truncateStatement reads TRUNCATE [TABLE].
func (p *parser) truncateStatement() Statement {
	p.expect(kTruncate)
	p.accept(kColumnFamily)
	return &Truncate{Table: p.table()}
}

func (p *parser) useStatement() Statement {
	p.expect(kUse)
	return &Use{Keyspace: p.keyspace()}
}
