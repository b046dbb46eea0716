package cql

import (
	"strings"

	"varve/internal/cqltype"
)

// statement reads any statement.
func (p *parser) statement() Statement {
	start := p.tok
	switch start.kind {
	case kSelect:
		return p.selectStatement()
	case kInsert:
		return p.insertStatement()
	case kUpdate:
		return p.updateStatement()
	case kBegin:
		return p.batchStatement()
	case kDelete:
		return p.deleteStatement()
	case kUse:
		return p.useStatement()
	case kTruncate:
		return p.truncateStatement()
	case kCreate:
		return p.createStatement()
	case kAlter:
		return p.alterStatement()
	case kDrop:
		return p.dropStatement()
	case kGrant:
		return p.grantStatement(false)
	case kRevoke:
		return p.grantStatement(true)
	case kList:
		return p.listStatement()
	case kDescribe, kDesc:
		return p.describeStatement()
	case kAdd:
		if p.peek(1).kind == kIdentity {
			return p.refuse("identities of client certificates")
		}
	}
	p.failHere()
	return nil
}

// refuse passes over the rest of a statement of a feature that Varve lacks.
func (p *parser) refuse(feature string) Statement {
	for !p.is(tEOF) {
		p.next()
	}
	return &Unsupported{Feature: feature}
}

// The features that are recognised to be refused.
const (
	featureViews      = "materialized views"
	featureFunctions  = "user-defined functions"
	featureAggregates = "user-defined aggregates"
	featureTriggers   = "triggers"
)

func (p *parser) createStatement() Statement {
	start := p.tok
	p.next()
	switch p.tok.kind {
	case kKeyspace:
		return p.createKeyspace()
	case kColumnFamily:
		return p.createTable()
	case kType:
		return p.createType()
	case kIndex, kCustom:
		return p.createIndex()
	case kRole:
		return p.createRole()
	case kUser:
		return p.createUser()
	case kMaterialized:
		return p.refuse(featureViews)
	case kTrigger:
		return p.refuse(featureTriggers)
	case kFunction:
		return p.refuse(featureFunctions)
	case kAggregate:
		return p.refuse(featureAggregates)
	case kOr:
		if p.peek(1).kind == kReplace {
			switch p.peek(2).kind {
			case kFunction:
				return p.refuse(featureFunctions)
			case kAggregate:
				return p.refuse(featureAggregates)
			}
		}
	}
	p.failFrom(start, p.tok)
	return nil
}

func (p *parser) alterStatement() Statement {
	start := p.tok
	p.next()
	switch p.tok.kind {
	case kKeyspace:
		p.next()
		s := &AlterKeyspace{IfExists: p.ifExists(), Name: p.keyspace()}
		p.expect(kWith)
		s.With = p.properties()
		return s
	case kColumnFamily:
		return p.alterTable()
	case kType:
		return p.alterType()
	case kRole:
		return p.alterRole()
	case kUser:
		return p.alterUser()
	case kMaterialized:
		return p.refuse(featureViews)
	}
	p.failFrom(start, p.tok)
	return nil
}

func (p *parser) dropStatement() Statement {
	start := p.tok
	p.next()
	k := p.tok.kind
	switch k {
	case kMaterialized:
		return p.refuse(featureViews)
	case kTrigger:
		return p.refuse(featureTriggers)
	case kFunction:
		return p.refuse(featureFunctions)
	case kAggregate:
		return p.refuse(featureAggregates)
	case kIdentity:
		return p.refuse("identities of client certificates")
	case kKeyspace, kColumnFamily, kType, kIndex, kRole, kUser:
	default:
		p.failFrom(start, p.tok)
		return nil
	}
	p.next()
	exists := p.ifExists()
	switch k {
	case kKeyspace:
		return &DropKeyspace{Name: p.keyspace(), IfExists: exists}
	case kColumnFamily:
		return &DropTable{Table: p.table(), IfExists: exists}
	case kType:
		n, _ := p.userTypeName()
		return &DropType{Type: n, IfExists: exists}
	case kIndex:
		return &DropIndex{Name: p.object("index"), IfExists: exists}
	case kRole:
		return &DropRole{Role: p.role(), IfExists: exists}
	}
	return &DropRole{Role: p.userName(), IfExists: exists, User: true}
}

func (p *parser) createKeyspace() Statement {
	p.next()
	s := &CreateKeyspace{IfNotExists: p.ifNotExists(), Name: p.keyspace()}
	p.expect(kWith)
	s.With = p.properties()
	return s
}

// properties reads name = value AND …
func (p *parser) properties() []Property {
	var list []Property
	for {
		list = p.property(list)
		if !p.accept(kAnd) {
			return list
		}
	}
}

// property reads one property; names may not come twice.
func (p *parser) property(list []Property) []Property {
	start := p.tok
	prop := Property{Name: p.name()}
	if p.err == nil && !p.is(tEq) {
		p.failFrom(start, p.tok)
		return list
	}
	p.next()
	if p.is(tLCurly) {
		prop.Map, prop.Keys = p.propertyMap()
	} else if lit, ok := p.constant(); ok {
		prop.Value = lit
	} else if t := p.tok; t.kind >= kUnreserved {
		p.next()
		prop.Value = &Literal{Kind: cqltype.LitString, Text: p.text(t)}
	} else {
		p.failHere()
	}
	if p.err != nil {
		return list
	}
	for i := range list {
		if list[i].Name == prop.Name {
			p.fail("Multiple definitions for property '%s'", prop.Name)
			return list
		}
	}
	if len(list) >= maxProperties {
		p.fail("Too many properties in statement: the limit is %d", maxProperties)
		return list
	}
	return append(list, prop)
}

// maxProperties is far beyond what tables have; it bounds the search for doubles.
const maxProperties = 1000

// propertyMap reads {'key': 'value', …} of constants.
func (p *parser) propertyMap() (m map[string]string, keys []string) {
	m = map[string]string{}
	p.expect(tLCurly)
	if p.accept(tRCurly) {
		return m, nil
	}
	for {
		key := p.term()
		p.expect(tColon)
		value := p.term()
		if p.err != nil || p.lex.bad != nil {
			return m, keys
		}
		k, v := constantOf(key), constantOf(value)
		switch {
		case k == nil:
			p.fail("Invalid property name: %s%s", FormatExpr(key), markerRemark(key))
		case v == nil:
			p.fail("Invalid property value: %s for property: %s%s", FormatExpr(value), FormatExpr(key), markerRemark(value))
		default:
			if _, twice := m[k.Text]; twice {
				p.fail("Multiple definition for property %s", k.Text)
			}
			m[k.Text] = v.Text
			keys = append(keys, k.Text)
		}
		if !p.accept(tComma) {
			break
		}
	}
	p.expect(tRCurly)
	return m, keys
}

func constantOf(e Expr) *Literal {
	if l, ok := e.(*Literal); ok && l.Kind != cqltype.LitNull {
		return l
	}
	return nil
}

func markerRemark(e Expr) string {
	if _, ok := e.(*Marker); ok {
		return " (bind variables are not supported in DDL queries)"
	}
	return ""
}

func (p *parser) createType() Statement {
	p.next()
	s := &CreateType{IfNotExists: p.ifNotExists()}
	s.Type, _ = p.userTypeName()
	p.expect(tLParen)
	for {
		s.Fields = append(s.Fields, p.name())
		s.Types = append(s.Types, p.typeRef())
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
	return s
}

func (p *parser) alterType() Statement {
	p.next()
	s := &AlterType{IfExists: p.ifExists()}
	s.Type, _ = p.userTypeName()
	switch {
	case p.accept(kAlter):
		s.AlterField = p.name()
		p.expect(kType)
		s.AddType = p.typeRef()
	case p.accept(kAdd):
		s.AddIfNotExists = p.ifNotExists()
		s.AddField, s.AddType = p.name(), p.typeRef()
	case p.accept(kRename):
		s.RenameIfExists = p.ifExists()
		s.RenameFrom, s.RenameTo = p.renames()
	default:
		p.failHere()
	}
	return s
}

func (p *parser) renames() (from, to []string) {
	for {
		from = append(from, p.name())
		p.expect(kTo)
		to = append(to, p.name())
		if !p.accept(kAnd) {
			return from, to
		}
	}
}

func (p *parser) createIndex() Statement {
	s := &CreateIndex{Custom: p.accept(kCustom)}
	p.expect(kIndex)
	s.IfNotExists = p.ifNotExists()
	if !p.is(kOn) {
		if p.is(tQMark) {
			p.fail("Bind variables cannot be used for index names")
		}
		s.Name.Name = p.name()
	}
	p.expect(kOn)
	s.Table = p.table()
	p.expect(tLParen)
	if !p.accept(tRParen) {
		s.Targets = append(s.Targets, p.indexTarget())
		for p.accept(tComma) {
			s.Targets = append(s.Targets, p.indexTarget())
		}
		p.expect(tRParen)
	}
	if p.accept(kUsing) {
		s.Using = p.stringLit()
	}
	if p.accept(kWith) {
		s.With = p.properties()
		for i := range s.With {
			if strings.EqualFold(s.With[i].Name, "options") {
				s.Options = s.With[i].Map
			}
		}
	}
	return s
}

func (p *parser) indexTarget() IndexTarget {
	// ENTRIES and FULL are reserved, VALUES and KEYS may be columns.
	if k := p.tok.kind; k == kEntries || k == kFull || p.peek(1).kind == tLParen {
		switch k {
		case kValues, kKeys, kEntries, kFull:
			p.next()
			p.expect(tLParen)
			t := IndexTarget{Column: p.column(), Kind: keywords[k-kFirst]}
			p.expect(tRParen)
			return t
		}
	}
	return IndexTarget{Column: p.column()}
}
