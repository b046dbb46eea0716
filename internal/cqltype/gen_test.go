package cqltype

import (
	"encoding/binary"
	"math"
	"math/big"
	"net/netip"

	"pgregory.net/rapid"
)

// natives are the native types that may be part of a primary key, and duration.
var natives = []*Type{
	Ascii, Bigint, Blob, Boolean, Date, Decimal, Double, Duration, Float, Inet, Int,
	Smallint, Text, Time, Timestamp, Timeuuid, Tinyint, UUID, Varint,
}

// genType draws a type, all of whose nested types are frozen.
func genType(rt *rapid.T, depth int) *Type {
	if depth == 0 || rapid.IntRange(0, 9).Draw(rt, "native") < 5 {
		return rapid.SampledFrom(natives).Draw(rt, "type")
	}
	sub := func() *Type { return genType(rt, depth-1).AsFrozen() }
	switch rapid.IntRange(0, 5).Draw(rt, "shape") {
	case 0:
		return ListOf(sub()).AsFrozen()
	case 1:
		return SetOf(sub()).AsFrozen()
	case 2:
		return MapOf(sub(), sub()).AsFrozen()
	case 3:
		elems := make([]*Type, rapid.IntRange(1, 3).Draw(rt, "arity"))
		for i := range elems {
			elems[i] = sub()
		}
		return TupleOf(elems...)
	case 4:
		udt := &Type{Kind: KindUDT, Keyspace: "ks", Name: "My_type", Frozen: true}
		for i := range rapid.IntRange(1, 3).Draw(rt, "fields") {
			udt.FieldNames = append(udt.FieldNames, []string{"a", "B b", "select"}[i])
			udt.Elems = append(udt.Elems, sub())
		}
		return udt
	}
	return VectorOf(sub(), rapid.IntRange(1, 3).Draw(rt, "dim"))
}

// allowsEmpty reports whether the empty value passes Validate.
func allowsEmpty(t *Type) bool { return Validate(t, []byte{}) == nil }

// genValue draws a value of t that Validate accepts, biased to where order
// and text forms change.
func genValue(rt *rapid.T, t *Type) []byte {
	if allowsEmpty(t) && rapid.IntRange(0, 14).Draw(rt, "empty") == 0 {
		return []byte{}
	}
	switch t.Kind {
	case KindText:
		return []byte(rapid.StringOfN(rapid.RuneFrom([]rune{0, 1, 'a', 'b', '\'', '"', 0x7F, 'é', 0xFFFF, 0x10FFFF}), 0, 6, -1).
			Draw(rt, "text"))
	case KindAscii:
		return []byte(rapid.StringOfN(rapid.RuneFrom([]rune{0, 1, 'a', 'Z', 0x7F}), 0, 5, -1).Draw(rt, "ascii"))
	case KindBlob:
		return rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x10, 0x7F, 0x80, 0xFE, 0xFF}), 0, 6).Draw(rt, "blob")
	case KindBoolean:
		return EncodeBool(rapid.Bool().Draw(rt, "bool"))
	case KindTinyint:
		return EncodeTinyint(rapid.Int8().Draw(rt, "tinyint"))
	case KindSmallint:
		return EncodeSmallint(rapid.Int16().Draw(rt, "smallint"))
	case KindInt:
		return EncodeInt(rapid.Int32().Draw(rt, "int"))
	case KindBigint, KindTimestamp, KindCounter:
		return EncodeBigint(rapid.Int64().Draw(rt, "bigint"))
	case KindDate:
		return EncodeInt(rapid.Int32().Draw(rt, "date"))
	case KindTime:
		return EncodeBigint(rapid.Int64Range(0, nanosPerDay-1).Draw(rt, "time"))
	case KindDouble:
		return genDouble(rt)
	case KindFloat:
		return genFloat(rt)
	case KindInet:
		return genInet(rt)
	case KindUUID:
		return genUUID(rt, rapid.IntRange(0, 15).Draw(rt, "version"))
	case KindTimeuuid:
		return genUUID(rt, 1)
	case KindVarint:
		return EncodeVarint(genBig(rt))
	case KindDecimal:
		scale := rapid.OneOf(rapid.Int32Range(-12, 12), rapid.Int32(),
			rapid.SampledFrom([]int32{math.MinInt32, math.MaxInt32})).Draw(rt, "scale")
		return DecimalValue{Unscaled: genBig(rt), Scale: scale}.Encode()
	case KindDuration:
		return genDuration(rt).Encode()
	}
	return genNested(rt, t)
}

func genNested(rt *rapid.T, t *Type) []byte {
	switch t.Kind {
	case KindList, KindSet, KindMap:
		var elems [][]byte
		for range rapid.IntRange(0, 3).Draw(rt, "len") {
			for _, et := range t.Elems {
				elems = append(elems, genValue(rt, et))
			}
		}
		if t.Kind != KindList {
			elems, _ = SortElements(t, elems)
		}
		return AppendCollection(nil, t, elems)
	case KindTuple, KindUDT:
		elems := make([][]byte, rapid.IntRange(1, len(t.Elems)).Draw(rt, "fields"))
		for i := range elems {
			if rapid.IntRange(0, 4).Draw(rt, "null") > 0 {
				elems[i] = genValue(rt, t.Elems[i])
			}
		}
		return AppendTuple(nil, elems)
	case KindVector:
		elems := make([][]byte, t.Dim)
		size := fixedLength(t.Elems[0])
		for i := range elems {
			elems[i] = genValue(rt, t.Elems[0])
			for size > 0 && len(elems[i]) != size {
				elems[i] = genValue(rt, t.Elems[0])
			}
		}
		b := AppendVector(nil, t, elems)
		if len(b) == 0 {
			return genNested(rt, t)
		}
		return b
	}
	panic("no generator for " + t.String())
}

func genBig(rt *rapid.T) *big.Int {
	if rapid.Bool().Draw(rt, "small") {
		return big.NewInt(rapid.OneOf(rapid.Int64Range(-1100, 1100), rapid.Int64()).Draw(rt, "n"))
	}
	n := rapid.OneOf(rapid.IntRange(8, 20), rapid.IntRange(115, 130)).Draw(rt, "bytes")
	b := make([]byte, n)
	for i := range b {
		b[i] = rapid.SampledFrom([]byte{0, 1, 0x7F, 0x80, 0xFF}).Draw(rt, "b")
	}
	v := new(big.Int).SetBytes(b)
	if rapid.Bool().Draw(rt, "negative") {
		v.Neg(v)
	}
	return v
}

func genDouble(rt *rapid.T) []byte {
	bits := rapid.OneOf(
		rapid.Map(rapid.Float64(), math.Float64bits),
		rapid.SampledFrom([]uint64{0, 1 << 63, 0x7FF0000000000000, 0xFFF0000000000000, canonicalNaN64, 1, 1<<63 | 1}),
		rapid.Map(rapid.Float64Range(-1e8, 1e8), math.Float64bits),
	).Draw(rt, "double")
	return EncodeBigint(int64(bits))
}

func genFloat(rt *rapid.T) []byte {
	bits := rapid.OneOf(
		rapid.Map(rapid.Float32(), math.Float32bits),
		rapid.SampledFrom([]uint32{0, 1 << 31, 0x7F800000, 0xFF800000, canonicalNaN32, 1, 1<<31 | 1}),
	).Draw(rt, "float")
	return EncodeInt(int32(bits))
}

func genInet(rt *rapid.T) []byte {
	n := 4
	if rapid.Bool().Draw(rt, "v6") {
		n = 16
	}
	a, _ := netip.AddrFromSlice(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x7F, 0x80, 0xFF}), n, n).Draw(rt, "inet"))
	return EncodeInet(a)
}

func genUUID(rt *rapid.T, version int) []byte {
	b := make([]byte, 16)
	for i := 0; i < 16; i += 8 {
		binary.BigEndian.PutUint64(b[i:], rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 3),
			rapid.SampledFrom([]uint64{signFlips, 1 << 63, math.MaxUint64})).Draw(rt, "half"))
	}
	b[6] = b[6]&0x0F | byte(version)<<4
	return b
}

func genDuration(rt *rapid.T) DurationValue {
	d := DurationValue{
		Months: rapid.Int32Range(0, math.MaxInt32).Draw(rt, "months"),
		Days:   rapid.Int32Range(0, math.MaxInt32).Draw(rt, "days"),
		Nanos:  rapid.Int64Range(0, math.MaxInt64).Draw(rt, "nanos"),
	}
	if rapid.Bool().Draw(rt, "negative") {
		d = DurationValue{Months: -d.Months, Days: -d.Days, Nanos: -d.Nanos}
	}
	return d
}
