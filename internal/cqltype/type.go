package cqltype

import (
	"strconv"
	"strings"
)

// Kind is the family of a CQL type.
type Kind uint8

// The kinds, in no meaningful order; they are never stored.
const (
	KindInvalid Kind = iota
	KindAscii
	KindBigint
	KindBlob
	KindBoolean
	KindCounter
	KindDate
	KindDecimal
	KindDouble
	KindDuration
	KindFloat
	KindInet
	KindInt
	KindSmallint
	KindText
	KindTime
	KindTimestamp
	KindTimeuuid
	KindTinyint
	KindUUID
	KindVarint
	KindEmpty  // org.apache.cassandra.db.marshal.EmptyType
	KindCustom // a Java class name that Varve stores as bytes; ClassName holds it
	KindList
	KindSet
	KindMap
	KindTuple
	KindUDT
	KindVector
)

// Type is a CQL data type. Types are immutable once built and may be shared
// between goroutines; native types are the package's singletons.
type Type struct {
	Kind   Kind
	Frozen bool    // frozen<…>; always false for native types, tuples and vectors (which cannot be thawed)
	Elems  []*Type // list, set, vector: 1; map: key, value; tuple, UDT: one a field

	Dim       int    // vector: number of elements
	ClassName string // KindCustom

	Keyspace   string   // UDT
	Name       string   // UDT
	FieldNames []string // UDT, parallel to Elems
}

// The native types.
var (
	Ascii     = &Type{Kind: KindAscii}
	Bigint    = &Type{Kind: KindBigint}
	Blob      = &Type{Kind: KindBlob}
	Boolean   = &Type{Kind: KindBoolean}
	Counter   = &Type{Kind: KindCounter}
	Date      = &Type{Kind: KindDate}
	Decimal   = &Type{Kind: KindDecimal}
	Double    = &Type{Kind: KindDouble}
	Duration  = &Type{Kind: KindDuration}
	Float     = &Type{Kind: KindFloat}
	Inet      = &Type{Kind: KindInet}
	Int       = &Type{Kind: KindInt}
	Smallint  = &Type{Kind: KindSmallint}
	Text      = &Type{Kind: KindText}
	Time      = &Type{Kind: KindTime}
	Timestamp = &Type{Kind: KindTimestamp}
	Timeuuid  = &Type{Kind: KindTimeuuid}
	Tinyint   = &Type{Kind: KindTinyint}
	UUID      = &Type{Kind: KindUUID}
	Varint    = &Type{Kind: KindVarint}
	Empty     = &Type{Kind: KindEmpty}
)

// ListOf returns list<elem>, not frozen.
func ListOf(elem *Type) *Type { return &Type{Kind: KindList, Elems: []*Type{elem}} }

// SetOf returns set<elem>, not frozen.
func SetOf(elem *Type) *Type { return &Type{Kind: KindSet, Elems: []*Type{elem}} }

// MapOf returns map<key, value>, not frozen.
func MapOf(key, value *Type) *Type { return &Type{Kind: KindMap, Elems: []*Type{key, value}} }

// TupleOf returns tuple<elems…>.
func TupleOf(elems ...*Type) *Type { return &Type{Kind: KindTuple, Elems: elems} }

// VectorOf returns vector<elem, dim>.
func VectorOf(elem *Type, dim int) *Type {
	return &Type{Kind: KindVector, Elems: []*Type{elem}, Dim: dim}
}

// AsFrozen returns t frozen (t itself where it already is, or cannot be).
func (t *Type) AsFrozen() *Type {
	switch t.Kind {
	case KindList, KindSet, KindMap, KindUDT:
		if t.Frozen {
			return t
		}
		c := *t
		c.Frozen = true
		return &c
	}
	return t
}

// IsCollection reports list, set or map, frozen or not.
func (t *Type) IsCollection() bool {
	return t.Kind == KindList || t.Kind == KindSet || t.Kind == KindMap
}

// IsMultiCell reports that values of t are stored cell by cell: non-frozen
// collections and non-frozen UDTs.
func (t *Type) IsMultiCell() bool {
	return (t.IsCollection() || t.Kind == KindUDT) && !t.Frozen
}

// Equal reports that two types are the same, frozenness included.
func (t *Type) Equal(o *Type) bool {
	if t == o {
		return true
	}
	if t == nil || o == nil || t.Kind != o.Kind || t.Frozen != o.Frozen || t.Dim != o.Dim ||
		t.ClassName != o.ClassName || t.Keyspace != o.Keyspace || t.Name != o.Name || len(t.Elems) != len(o.Elems) {
		return false
	}
	for i, e := range t.Elems {
		if !e.Equal(o.Elems[i]) || (t.Kind == KindUDT && t.FieldNames[i] != o.FieldNames[i]) {
			return false
		}
	}
	return true
}

var kindNames = [...]string{
	KindAscii: "ascii", KindBigint: "bigint", KindBlob: "blob", KindBoolean: "boolean",
	KindCounter: "counter", KindDate: "date", KindDecimal: "decimal", KindDouble: "double",
	KindDuration: "duration", KindFloat: "float", KindInet: "inet", KindInt: "int",
	KindSmallint: "smallint", KindText: "text", KindTime: "time", KindTimestamp: "timestamp",
	KindTimeuuid: "timeuuid", KindTinyint: "tinyint", KindUUID: "uuid", KindVarint: "varint",
	KindEmpty: "empty", KindList: "list", KindSet: "set", KindMap: "map", KindTuple: "tuple",
	KindVector: "vector",
}

// String returns the CQL name, as DESCRIBE prints it: frozen<map<text, int>>.
func (t *Type) String() string {
	var b strings.Builder
	t.write(&b)
	return b.String()
}

func (t *Type) write(b *strings.Builder) {
	if t.Frozen {
		b.WriteString("frozen<")
		defer b.WriteByte('>')
	}
	// A tuple is implicitly frozen and is printed so.
	if t.Kind == KindTuple {
		b.WriteString("frozen<")
		defer b.WriteByte('>')
	}
	switch t.Kind {
	case KindUDT:
		b.WriteString(MaybeQuote(t.Name))
		return
	case KindCustom:
		b.WriteString("'" + t.ClassName + "'")
		return
	}
	b.WriteString(kindNames[t.Kind])
	if len(t.Elems) == 0 {
		return
	}
	b.WriteByte('<')
	for i, e := range t.Elems {
		if i > 0 {
			b.WriteString(", ")
		}
		e.write(b)
	}
	if t.Kind == KindVector {
		b.WriteString(", ")
		b.WriteString(strconv.Itoa(t.Dim))
	}
	b.WriteByte('>')
}
