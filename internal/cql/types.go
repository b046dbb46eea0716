package cql

import "strconv"

// reservedTypeNames may not name user types: they are kept for types to come.
var reservedTypeNames = map[string]bool{
	"byte": true, "complex": true, "enum": true, "date": true, "interval": true, "macaddr": true, "bitstring": true,
}

// typeRef reads a type.
func (p *parser) typeRef() TypeRef {
	if !p.enter() {
		return TypeRef{}
	}
	defer p.leave()
	start := p.tok
	if start.kind == tString {
		p.next()
		return TypeRef{ClassName: p.text(start)}
	}
	next := p.peek(1).kind
	if next == tLt {
		switch start.kind {
		case kMap:
			return p.parameterised(2)
		case kList, kSet, kFrozen:
			return p.parameterised(1)
		case kTuple:
			return p.parameterised(0)
		case kVector:
			return p.vector()
		}
	}
	if start.kind.isNative() && next != tDot {
		p.next()
		if !followsType[p.tok.kind] {
			p.failFrom(start, p.tok)
		}
		return TypeRef{Name: Name{Name: p.nameOf(start)}}
	}
	name, quoted := p.userTypeName()
	return TypeRef{Name: name, Quoted: quoted}
}

// followsType are the tokens that some statement has after a type.
var followsType = set(tEOF, tSemi, tComma, tRParen, tGt, kStatic, kMasked, kPrimary, kWith, kSFunc, kSType,
	kFinalFunc, kInitCond, kReturns, kCalled, kLanguage, kTo, kFrom, kOf, kOn, kNoRecursive, kAs)

// userTypeName reads [keyspace.]name of a user type.
func (p *parser) userTypeName() (n Name, quoted bool) {
	if p.tok.kind.isName() && p.peek(1).kind == tDot {
		n.Keyspace = p.name()
		p.next()
	}
	t := p.tok
	if t.kind != tIdent && t.kind != tQuoted && t.kind != kKey && (t.kind < kBasic || t.kind.isNative()) {
		p.failHere()
		return n, false
	}
	p.next()
	n.Name = p.nameOf(t)
	if t.kind == tIdent && reservedTypeNames[p.text(t)] {
		p.fail("Invalid (reserved) user type name %s", p.text(t))
	}
	return n, t.kind == tQuoted
}

// parameterised reads name<type, …> with that many types; 0 is one or more.
func (p *parser) parameterised(args int) TypeRef {
	frozen := p.is(kFrozen)
	t := TypeRef{Name: Name{Name: p.nameOf(p.tok)}}
	p.next()
	p.expect(tLt)
	t.Args = append(t.Args, p.typeRef())
	for (args == 0 || len(t.Args) < args) && (args > 0 || p.is(tComma)) && p.err == nil {
		p.expect(tComma)
		t.Args = append(t.Args, p.typeRef())
	}
	p.expect(tGt)
	if frozen && p.err == nil && !t.Args[0].freezable() {
		p.fail("frozen<> is only allowed on collections, tuples, and user-defined types (got %s)",
			t.Args[0].Name.Name)
	}
	return t
}

// freezable reports what frozen<> may be put around.
func (t TypeRef) freezable() bool {
	return t.ClassName == "" && (t.Quoted || len(t.Args) > 0 || t.Name.Keyspace != "" || !isNativeName(t.Name.Name))
}

func isNativeName(s string) bool {
	for k := kNative; k < numKinds; k++ {
		if keywords[k-kFirst] == s {
			return true
		}
	}
	return false
}

func (p *parser) vector() TypeRef {
	t := TypeRef{Name: Name{Name: "vector"}}
	p.next()
	p.expect(tLt)
	t.Args = []TypeRef{p.typeRef()}
	p.expect(tComma)
	d := p.expect(tInteger)
	p.expect(tGt)
	if p.err == nil && p.lex.bad == nil {
		n, err := strconv.ParseInt(p.text(d), 10, 32)
		if err != nil {
			p.fail("Failed parsing statement: [%s] reason: NumberFormatException For input string: %q", p.lex.src, p.text(d))
		}
		t.Dim = int(n)
	}
	return t
}
