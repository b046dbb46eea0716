package cql

// describeStatement reads DESCRIBE or DESC.
func (p *parser) describeStatement() Statement {
	p.next()
	d := &Describe{}
	if !p.describePlural(d) {
		p.describeOne(d)
	}
	if p.accept(kWith) {
		p.expect(kInternals)
		d.Internals = true
	}
	return d
}

// describePlural reads what needs no name. These words are names too: a dot
// after them makes them a keyspace's.
func (p *parser) describePlural(d *Describe) bool {
	k := p.tok.kind
	switch k {
	case kCluster, kKeyspaces, kTables, kTypes, kFunctions, kAggregates:
		if p.peek(1).kind == tDot {
			return false
		}
		d.What = keywords[k-kFirst]
	case kSchema:
		d.What = "schema"
	case kFull:
		p.next()
		if !p.is(kSchema) {
			p.expect(kSchema)
			return true
		}
		d.What = "full schema"
	default:
		return false
	}
	p.next()
	return true
}

// describeOne reads what has a name, and bare names.
func (p *parser) describeOne(d *Describe) {
	next := p.peek(1).kind
	named := next.isName()
	switch k := p.tok.kind; {
	case k == kOnly && next == kKeyspace:
		p.next()
		p.next()
		d.What, d.Only = "keyspace", true
		d.Name.Keyspace = p.optionalName()
	case k == kKeyspace:
		p.next()
		d.What = "keyspace"
		d.Name.Keyspace = p.optionalName()
	case k == kColumnFamily:
		p.next()
		d.What, d.Name = "table", p.describedName()
	case k == kIndex:
		p.next()
		d.What, d.Name = "index", p.describedName()
	case k == kMaterialized:
		p.next()
		p.expect(kView)
		d.What, d.Name = "materialized view", p.describedName()
	case k == kType && named:
		p.next()
		d.What = "type"
		d.Name, _ = p.userTypeName()
	case k == kFunction && (named || next == kToken):
		p.next()
		d.What, d.Name = "function", p.functionName()
	case k == kAggregate && (named || next == kToken):
		p.next()
		d.What, d.Name = "aggregate", p.functionName()
	case k.isName():
		start := p.tok
		d.What, d.Name = "any", p.describedName()
		if d.Name.Keyspace == "" && p.tok.kind.isName() {
			p.failFrom(start, p.tok)
		}
	default:
		p.failHere()
	}
}

// optionalName reads a name if one is there.
func (p *parser) optionalName() string {
	if !p.tok.kind.isName() {
		return ""
	}
	return p.name()
}

func (p *parser) describedName() Name {
	n := Name{Name: p.name()}
	if p.accept(tDot) {
		n.Keyspace = n.Name
		n.Name = p.name()
	}
	return n
}
