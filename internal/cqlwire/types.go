package cqlwire

import (
	"varve/internal/cqltype"
)

// Type options (specification section 4.2.5.2).
const (
	typeCustom    = 0x0000
	typeAscii     = 0x0001
	typeBigint    = 0x0002
	typeBlob      = 0x0003
	typeBoolean   = 0x0004
	typeCounter   = 0x0005
	typeDecimal   = 0x0006
	typeDouble    = 0x0007
	typeFloat     = 0x0008
	typeInt       = 0x0009
	typeText      = 0x000A // versions 1 and 2; read as varchar
	typeTimestamp = 0x000B
	typeUUID      = 0x000C
	typeVarchar   = 0x000D
	typeVarint    = 0x000E
	typeTimeuuid  = 0x000F
	typeInet      = 0x0010
	typeDate      = 0x0011
	typeTime      = 0x0012
	typeSmallint  = 0x0013
	typeTinyint   = 0x0014
	typeDuration  = 0x0015
	typeList      = 0x0020
	typeMap       = 0x0021
	typeSet       = 0x0022
	typeUDT       = 0x0030
	typeTuple     = 0x0031
)

// nativeTypes gives each native type's option and the first version that has
// it; earlier versions are told its class name.
var nativeTypes = [...]struct {
	id    uint16
	since Version
	typ   *cqltype.Type
}{
	cqltype.KindAscii:     {typeAscii, V3, cqltype.Ascii},
	cqltype.KindBigint:    {typeBigint, V3, cqltype.Bigint},
	cqltype.KindBlob:      {typeBlob, V3, cqltype.Blob},
	cqltype.KindBoolean:   {typeBoolean, V3, cqltype.Boolean},
	cqltype.KindCounter:   {typeCounter, V3, cqltype.Counter},
	cqltype.KindDate:      {typeDate, V4, cqltype.Date},
	cqltype.KindDecimal:   {typeDecimal, V3, cqltype.Decimal},
	cqltype.KindDouble:    {typeDouble, V3, cqltype.Double},
	cqltype.KindDuration:  {typeDuration, V5, cqltype.Duration},
	cqltype.KindFloat:     {typeFloat, V3, cqltype.Float},
	cqltype.KindInet:      {typeInet, V3, cqltype.Inet},
	cqltype.KindInt:       {typeInt, V3, cqltype.Int},
	cqltype.KindSmallint:  {typeSmallint, V4, cqltype.Smallint},
	cqltype.KindText:      {typeVarchar, V3, cqltype.Text},
	cqltype.KindTime:      {typeTime, V4, cqltype.Time},
	cqltype.KindTimestamp: {typeTimestamp, V3, cqltype.Timestamp},
	cqltype.KindTimeuuid:  {typeTimeuuid, V3, cqltype.Timeuuid},
	cqltype.KindTinyint:   {typeTinyint, V4, cqltype.Tinyint},
	cqltype.KindUUID:      {typeUUID, V3, cqltype.UUID},
	cqltype.KindVarint:    {typeVarint, V3, cqltype.Varint},
}

var typeByID = func() (t [typeDuration + 1]*cqltype.Type) {
	for _, n := range nativeTypes {
		if n.typ != nil {
			t[n.id] = n.typ
		}
	}
	t[typeText] = cqltype.Text
	return t
}()

// AppendType writes a type as an [option]. What the version has no option for
// (vectors in all, durations before version 5, …) is named by its class.
func AppendType(dst []byte, v Version, t *cqltype.Type) []byte {
	if int(t.Kind) < len(nativeTypes) {
		if n := &nativeTypes[t.Kind]; n.typ != nil && v >= n.since {
			return AppendShort(dst, int(n.id))
		}
	}
	switch t.Kind {
	case cqltype.KindList:
		return AppendType(AppendShort(dst, typeList), v, t.Elems[0])
	case cqltype.KindSet:
		return AppendType(AppendShort(dst, typeSet), v, t.Elems[0])
	case cqltype.KindMap:
		dst = AppendType(AppendShort(dst, typeMap), v, t.Elems[0])
		return AppendType(dst, v, t.Elems[1])
	case cqltype.KindTuple:
		dst = AppendShort(AppendShort(dst, typeTuple), len(t.Elems))
		for _, e := range t.Elems {
			dst = AppendType(dst, v, e)
		}
		return dst
	case cqltype.KindUDT:
		dst = AppendString(AppendString(AppendShort(dst, typeUDT), t.Keyspace), t.Name)
		dst = AppendShort(dst, len(t.Elems))
		for i, e := range t.Elems {
			dst = AppendType(AppendString(dst, t.FieldNames[i]), v, e)
		}
		return dst
	case cqltype.KindCustom:
		return AppendString(AppendShort(dst, typeCustom), t.ClassName)
	}
	return AppendString(AppendShort(dst, typeCustom), cqltype.ClassNameOf(t))
}

// maxTypeDepth bounds how deep types nest in what is decoded.
const maxTypeDepth = 32

// Type reads a type. Collections and user types come out thawed: the protocol
// does not tell frozen ones apart.
func (r *Reader) Type() *cqltype.Type { return r.typ(0) }

func (r *Reader) typ(depth int) *cqltype.Type {
	if depth > maxTypeDepth {
		r.fail(protocolErrorf("Type nested deeper than %d", maxTypeDepth))
		return nil
	}
	id := r.Short()
	if r.err != nil {
		return nil
	}
	switch id {
	case typeCustom:
		return r.customType()
	case typeList:
		return cqltype.ListOf(r.typ(depth + 1))
	case typeSet:
		return cqltype.SetOf(r.typ(depth + 1))
	case typeMap:
		k := r.typ(depth + 1)
		return cqltype.MapOf(k, r.typ(depth+1))
	case typeTuple:
		n := r.count(r.Short(), 2)
		elems := make([]*cqltype.Type, 0, n)
		for range n {
			elems = append(elems, r.typ(depth+1))
		}
		return cqltype.TupleOf(elems...)
	case typeUDT:
		return r.udt(depth)
	}
	if id < len(typeByID) && typeByID[id] != nil {
		return typeByID[id]
	}
	r.fail(protocolErrorf("Unknown data type option 0x%04x", id))
	return nil
}

func (r *Reader) udt(depth int) *cqltype.Type {
	t := &cqltype.Type{Kind: cqltype.KindUDT, Keyspace: r.String(), Name: r.String()}
	n := r.count(r.Short(), 4)
	for range n {
		t.FieldNames = append(t.FieldNames, r.String())
		t.Elems = append(t.Elems, r.typ(depth+1))
		if r.err != nil {
			return nil
		}
	}
	return t
}

func (r *Reader) customType() *cqltype.Type {
	name := r.String()
	if r.err != nil {
		return nil
	}
	t, _, err := cqltype.ParseClassName(name)
	if err != nil {
		// A client can still pass such values on as bytes.
		return &cqltype.Type{Kind: cqltype.KindCustom, ClassName: name}
	}
	return t
}
