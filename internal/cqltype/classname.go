package cqltype

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

const (
	marshalPackage = "org.apache.cassandra.db.marshal."
	// maxTypeDepth bounds types within types.
	maxTypeDepth = 64
	// maxTypeName bounds the text of a class name.
	maxTypeName = 1 << 20
	// MaxVectorDim is the largest dimension of a vector that ParseClassName accepts.
	MaxVectorDim = 1 << 16
)

var classKinds = map[string]*Type{
	"AsciiType": Ascii, "LongType": Bigint, "BytesType": Blob, "BooleanType": Boolean,
	"CounterColumnType": Counter, "SimpleDateType": Date, "DecimalType": Decimal, "DoubleType": Double,
	"DurationType": Duration, "FloatType": Float, "InetAddressType": Inet, "Int32Type": Int,
	"ShortType": Smallint, "UTF8Type": Text, "TimeType": Time, "TimestampType": Timestamp, "DateType": Timestamp,
	"TimeUUIDType": Timeuuid, "ByteType": Tinyint, "UUIDType": UUID, "IntegerType": Varint, "EmptyType": Empty,
}

// bytesClasses are Cassandra's classes that CQL has no name for; Varve stores
// their values as bytes, in byte order.
var bytesClasses = map[string]bool{
	"CompositeType": true, "DynamicCompositeType": true, "LexicalUUIDType": true, "LegacyTimeUUIDType": true,
}

var classNames = [...]string{
	KindAscii: "AsciiType", KindBigint: "LongType", KindBlob: "BytesType", KindBoolean: "BooleanType",
	KindCounter: "CounterColumnType", KindDate: "SimpleDateType", KindDecimal: "DecimalType",
	KindDouble: "DoubleType", KindDuration: "DurationType", KindFloat: "FloatType", KindInet: "InetAddressType",
	KindInt: "Int32Type", KindSmallint: "ShortType", KindText: "UTF8Type", KindTime: "TimeType",
	KindTimestamp: "TimestampType", KindTimeuuid: "TimeUUIDType", KindTinyint: "ByteType", KindUUID: "UUIDType",
	KindVarint: "IntegerType", KindEmpty: "EmptyType", KindList: "ListType", KindSet: "SetType", KindMap: "MapType",
	KindTuple: "TupleType", KindUDT: "UserType", KindVector: "VectorType",
}

// ParseClassName reads a marshal class name, with or without its package, such as
// org.apache.cassandra.db.marshal.ListType(org…Int32Type) or ReversedType(…);
// reversed tells of the latter. Unknown classes give an error.
func ParseClassName(s string) (t *Type, reversed bool, err error) {
	if len(s) > maxTypeName {
		return nil, false, marshalf("type name is longer than %d bytes", maxTypeName)
	}
	p := classParser{s: s}
	p.blanks()
	t, reversed, err = p.outer()
	if err != nil {
		return nil, false, err
	}
	p.blanks()
	if p.at < len(s) {
		return nil, false, p.fail("unexpected character")
	}
	return t, reversed, nil
}

type classParser struct {
	s     string
	at    int
	depth int
}

func (p *classParser) fail(why string) error {
	return marshalf("Syntax error parsing '%s' at char %d: %s", p.s, p.at, why)
}

func (p *classParser) peek() byte {
	if p.at < len(p.s) {
		return p.s[p.at]
	}
	return 0
}

func (p *classParser) blanks() {
	for p.at < len(p.s) && strings.IndexByte(" \t\n", p.s[p.at]) >= 0 {
		p.at++
	}
}

func (p *classParser) accept(c byte) bool {
	p.blanks()
	if p.peek() != c {
		return false
	}
	p.at++
	return true
}

func (p *classParser) identifier() string {
	start := p.at
	for p.at < len(p.s) {
		c := p.s[p.at]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && strings.IndexByte("-+._&", c) < 0 {
			break
		}
		p.at++
	}
	return p.s[start:p.at]
}

// outer reads a type that may be reversed.
func (p *classParser) outer() (*Type, bool, error) {
	start := p.at
	if name := strings.TrimPrefix(p.identifier(), marshalPackage); name != "ReversedType" {
		p.at = start
		t, err := p.parse()
		return t, false, err
	}
	params, err := p.params(1)
	if err != nil {
		return nil, false, err
	}
	return params[0], true, nil
}

func (p *classParser) parse() (*Type, error) {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxTypeDepth {
		return nil, marshalf("types are nested deeper than %d", maxTypeDepth)
	}
	p.blanks()
	start := p.at
	full := p.identifier()
	if full == "" {
		return nil, p.fail("a class name is expected")
	}
	name := strings.TrimPrefix(full, marshalPackage)
	if t := classKinds[name]; t != nil {
		return t, nil
	}
	switch name {
	case "ListType", "SetType", "VectorType", "FrozenType", "MapType", "TupleType":
		return p.generic(name)
	case "UserType":
		return p.userType()
	}
	if bytesClasses[name] {
		return p.opaque(start)
	}
	if !strings.Contains(full, ".") {
		full = marshalPackage + full
	}
	return nil, marshalf("Unable to find abstract-type class '%s'", full)
}

func (p *classParser) generic(name string) (*Type, error) {
	switch name {
	case "VectorType":
		return p.vector()
	case "TupleType":
		params, err := p.params(0)
		if err != nil {
			return nil, err
		}
		return TupleOf(frozenAll(params)...), nil
	case "MapType":
		params, err := p.params(2)
		if err != nil {
			return nil, err
		}
		return MapOf(params[0].AsFrozen(), params[1].AsFrozen()), nil
	}
	params, err := p.params(1)
	if err != nil {
		return nil, err
	}
	elem := params[0].AsFrozen()
	switch name {
	case "ListType":
		return ListOf(elem), nil
	case "SetType":
		return SetOf(elem), nil
	}
	return elem, nil // FrozenType
}

func frozenAll(types []*Type) []*Type {
	for i, t := range types {
		types[i] = t.AsFrozen()
	}
	return types
}

// params reads a list of types between parentheses, want of them or, where
// want is 0, at least one.
func (p *classParser) params(want int) ([]*Type, error) {
	if !p.accept('(') {
		return nil, p.fail("'(' is expected")
	}
	var types []*Type
	for !p.accept(')') {
		if len(types) > 0 && !p.accept(',') {
			return nil, p.fail("',' or ')' is expected")
		}
		t, err := p.parse()
		if err != nil {
			return nil, err
		}
		types = append(types, t)
	}
	if want == 0 && len(types) == 0 || want > 0 && len(types) != want {
		return nil, p.fail(fmt.Sprintf("%d type parameters are not right here", len(types)))
	}
	return types, nil
}

func (p *classParser) vector() (*Type, error) {
	if !p.accept('(') {
		return nil, p.fail("'(' is expected")
	}
	elem, err := p.parse()
	if err != nil {
		return nil, err
	}
	if !p.accept(',') {
		return nil, p.fail("',' is expected")
	}
	p.blanks()
	dim, err := strconv.ParseInt(p.identifier(), 10, 32)
	if err != nil || !p.accept(')') {
		return nil, p.fail("a dimension and ')' are expected")
	}
	if dim <= 0 {
		return nil, marshalf("vectors may only have positive dimensions; given %d", dim)
	}
	if dim > MaxVectorDim {
		return nil, marshalf("vectors may have at most %d dimensions; given %d", MaxVectorDim, dim)
	}
	return VectorOf(elem.AsFrozen(), int(dim)), nil
}

// userType reads (keyspace, hex name, hex field name:type, …).
func (p *classParser) userType() (*Type, error) {
	if !p.accept('(') {
		return nil, p.fail("'(' is expected")
	}
	p.blanks()
	t := &Type{Kind: KindUDT, Keyspace: p.identifier()}
	if !p.accept(',') {
		return nil, p.fail("',' is expected")
	}
	var err error
	if t.Name, err = p.hexName(); err != nil {
		return nil, err
	}
	for !p.accept(')') {
		if !p.accept(',') {
			return nil, p.fail("',' or ')' is expected")
		}
		field, err := p.hexName()
		if err != nil {
			return nil, err
		}
		if !p.accept(':') {
			return nil, p.fail("expecting ':' token")
		}
		ft, err := p.parse()
		if err != nil {
			return nil, err
		}
		t.FieldNames = append(t.FieldNames, field)
		t.Elems = append(t.Elems, ft)
	}
	return t, nil
}

func (p *classParser) hexName() (string, error) {
	p.blanks()
	b, err := hex.DecodeString(p.identifier())
	if err != nil || validateText(b) != nil {
		return "", p.fail("a name in hexadecimal digits is expected")
	}
	return string(b), nil
}

// opaque takes a class with whatever parameters follow it as they are written.
func (p *classParser) opaque(start int) (*Type, error) {
	end := p.at
	if p.accept('(') {
		for open := 1; open > 0; p.at++ {
			switch p.peek() {
			case '(':
				open++
			case ')':
				open--
			case 0:
				return nil, p.fail("unexpected end of string")
			}
		}
		end = p.at
	}
	name := p.s[start:end]
	if !strings.HasPrefix(name, marshalPackage) {
		name = marshalPackage + name
	}
	return &Type{Kind: KindCustom, ClassName: name}, nil
}

// ClassNameOf writes t as a marshal class name, as the protocol's custom type option does.
func ClassNameOf(t *Type) string {
	var b strings.Builder
	writeClassName(&b, t, false)
	return b.String()
}

// writeClassName leaves FrozenType out inside a type that is frozen itself.
func writeClassName(b *strings.Builder, t *Type, inFrozen bool) {
	if t.Kind == KindCustom {
		b.WriteString(t.ClassName)
		return
	}
	if t.Frozen && !inFrozen {
		b.WriteString(marshalPackage + "FrozenType(")
		defer b.WriteByte(')')
	}
	b.WriteString(marshalPackage)
	b.WriteString(classNames[t.Kind])
	if t.Kind == KindUDT {
		writeUserParams(b, t, inFrozen)
		return
	}
	if len(t.Elems) == 0 {
		return
	}
	inFrozen = inFrozen || t.Frozen || t.Kind == KindTuple
	b.WriteByte('(')
	for i, e := range t.Elems {
		if i > 0 {
			b.WriteByte(',')
		}
		writeClassName(b, e, inFrozen)
	}
	if t.Kind == KindVector {
		fmt.Fprintf(b, " , %d", t.Dim)
	}
	b.WriteByte(')')
}

func writeUserParams(b *strings.Builder, t *Type, inFrozen bool) {
	fmt.Fprintf(b, "(%s,%x", t.Keyspace, t.Name)
	for i, e := range t.Elems {
		fmt.Fprintf(b, ",%x:", t.FieldNames[i])
		writeClassName(b, e, inFrozen || t.Frozen)
	}
	b.WriteByte(')')
}
