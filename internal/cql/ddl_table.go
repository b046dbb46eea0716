package cql

import "varve/internal/cqltype"

func (p *parser) createTable() Statement {
	p.next()
	s := &CreateTable{IfNotExists: p.ifNotExists(), Table: p.table()}
	if !p.is(tLParen) {
		p.failHere()
		return s
	}
	p.next()
	for {
		p.tableColumn(s)
		if !p.accept(tComma) {
			break
		}
		for p.accept(tComma) {
		}
		if p.is(tRParen) {
			break
		}
	}
	p.expect(tRParen)
	if !p.accept(kWith) {
		return s
	}
	for {
		p.tableProperty(s)
		if !p.accept(kAnd) {
			return s
		}
	}
}

// tableColumn reads a column's definition or PRIMARY KEY (…).
func (p *parser) tableColumn(s *CreateTable) {
	if p.accept(kPrimary) {
		p.expectAll(kKey, tLParen)
		var partition, clustering []string
		if p.accept(tLParen) {
			partition = p.names(tRParen)
		} else {
			partition = []string{p.name()}
		}
		for p.accept(tComma) {
			clustering = append(clustering, p.name())
		}
		p.expect(tRParen)
		s.setPrimaryKey(partition, clustering)
		return
	}
	c := p.columnDef()
	if p.accept(kPrimary) {
		p.expect(kKey)
		c.PrimaryKey = true
		s.setPrimaryKey([]string{c.Name}, nil)
	}
	s.Columns = append(s.Columns, c)
}

// setPrimaryKey keeps the first definition and counts them all.
func (s *CreateTable) setPrimaryKey(partition, clustering []string) {
	if s.HasPrimaryKey++; s.HasPrimaryKey == 1 {
		s.PartitionKey, s.Clustering = partition, clustering
	}
}

// names reads a, b, … up to a closing token, inclusive.
func (p *parser) names(closing kind) []string {
	list := []string{p.name()}
	for p.accept(tComma) {
		list = append(list, p.name())
	}
	p.expect(closing)
	return list
}

// columnDef reads name type [STATIC] [MASKED WITH …].
func (p *parser) columnDef() ColumnDef {
	c := ColumnDef{Name: p.name(), Type: p.typeRef()}
	c.Static = p.accept(kStatic)
	c.Mask = p.mask()
	return c
}

func (p *parser) mask() bool {
	if !p.accept(kMasked) {
		return false
	}
	p.expect(kWith)
	if p.is(kDefault) && p.peek(1).kind != tLParen && p.peek(1).kind != tDot {
		p.next()
		return true
	}
	p.functionName()
	p.expect(tLParen)
	p.termsUntil(tRParen)
	return true
}

func (p *parser) tableProperty(s *CreateTable) {
	switch next := p.peek(1).kind; {
	case p.is(kCompact) && next == kStorage:
		p.next()
		p.next()
		s.CompactStorage = true
	case p.is(kClustering) && next == kOrder:
		p.next()
		p.next()
		p.expectAll(kBy, tLParen)
		for {
			o := ClusteringOrder{Column: p.name()}
			if p.accept(kDesc) {
				o.Desc = true
			} else if !p.accept(kAsc) {
				p.failHere()
			}
			s.Order = append(s.Order, o)
			if !p.accept(tComma) {
				break
			}
		}
		p.expect(tRParen)
	default:
		s.With = p.property(s.With)
	}
}

func (p *parser) alterTable() Statement {
	p.next()
	s := &AlterTable{IfExists: p.ifExists(), Table: p.table()}
	switch {
	case p.accept(kAlter):
		p.alterColumn(s)
	case p.accept(kAdd):
		s.AddIfNotExists = p.ifNotExists()
		if !p.accept(tLParen) {
			s.Add = []ColumnDef{p.columnDef()}
			break
		}
		s.Add = append(s.Add, p.columnDef())
		for p.accept(tComma) {
			s.Add = append(s.Add, p.columnDef())
		}
		p.expect(tRParen)
	case p.accept(kDrop):
		p.dropColumns(s)
	case p.accept(kRename):
		s.RenameIfExists = p.ifExists()
		s.RenameFrom, s.RenameTo = p.renames()
	case p.accept(kWith):
		s.With = p.properties()
	default:
		p.failHere()
	}
	return s
}

// alterColumn reads ALTER column TYPE …, MASKED WITH … or DROP MASKED.
func (p *parser) alterColumn(s *AlterTable) {
	exists := p.ifExists()
	s.AlterColumn = p.column()
	switch {
	case !exists && p.accept(kType):
		s.AlterType = p.typeRef()
	case p.is(kMasked):
		s.Mask = p.mask()
	case p.accept(kDrop):
		p.expect(kMasked)
		s.Mask = true
	default:
		p.failHere()
	}
}

func (p *parser) dropColumns(s *AlterTable) {
	if p.is(kCompact) && p.peek(1).kind == kStorage {
		p.next()
		p.next()
		s.DropCompact = true
		return
	}
	s.DropIfExists = p.ifExists()
	if p.accept(tLParen) {
		s.Drop = p.names(tRParen)
	} else {
		s.Drop = []string{p.name()}
	}
	if p.accept(kUsing) {
		p.expect(kTimestamp)
		t := p.expect(tInteger)
		s.DropTimestamp = &Literal{Kind: cqltype.LitInteger, Text: p.text(t)}
	}
}
