package cqltype

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
)

// Compare orders two values in binary form as Cassandra's AbstractType does.
// Empty sorts first. It panics on values that Validate refuses.
func Compare(t *Type, a, b []byte) int {
	switch t.Kind {
	case KindText, KindBlob, KindAscii, KindDate, KindTime, KindInet, KindDuration, KindCustom:
		return bytes.Compare(a, b)
	case KindEmpty:
		return 0
	case KindUUID:
		return compareUUID(a, b)
	case KindTimeuuid:
		return compareTimeuuid(a, b)
	case KindVarint:
		return compareVarint(a, b)
	case KindDecimal:
		return compareDecimal(a, b)
	case KindTuple, KindUDT:
		return compareTuple(t, a, b)
	}
	if len(a) == 0 || len(b) == 0 {
		return boolCompare(len(a) > 0, len(b) > 0)
	}
	switch t.Kind {
	case KindInt:
		return cmp.Compare(int32(binary.BigEndian.Uint32(a)), int32(binary.BigEndian.Uint32(b)))
	case KindBigint, KindTimestamp, KindCounter:
		return cmp.Compare(int64(binary.BigEndian.Uint64(a)), int64(binary.BigEndian.Uint64(b)))
	case KindSmallint:
		return cmp.Compare(int16(binary.BigEndian.Uint16(a)), int16(binary.BigEndian.Uint16(b)))
	case KindTinyint:
		return cmp.Compare(int8(a[0]), int8(b[0]))
	case KindBoolean:
		return boolCompare(a[0] != 0, b[0] != 0)
	case KindDouble:
		return cmp.Compare(orderDouble(binary.BigEndian.Uint64(a)), orderDouble(binary.BigEndian.Uint64(b)))
	case KindFloat:
		return cmp.Compare(orderFloat(binary.BigEndian.Uint32(a)), orderFloat(binary.BigEndian.Uint32(b)))
	case KindList, KindSet, KindMap:
		return compareCollection(t, a, b)
	case KindVector:
		return compareVector(t, a, b)
	}
	panic("BUG: compare values of type " + t.String())
}

// boolCompare orders false before true.
func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// orderDouble turns the bits of a double into an unsigned integer of the same
// order: -0 before +0, every NaN equal and above everything.
func orderDouble(v uint64) uint64 {
	if v&math.MaxInt64 > 0x7FF0000000000000 {
		v = canonicalNaN64
	}
	if v>>63 != 0 {
		return ^v
	}
	return v | 1<<63
}

// orderFloat is orderDouble for floats.
func orderFloat(v uint32) uint32 {
	if v&math.MaxInt32 > 0x7F800000 {
		v = canonicalNaN32
	}
	if v>>31 != 0 {
		return ^v
	}
	return v | 1<<31
}

// The bits of the one NaN that Java's floatToIntBits and doubleToLongBits give.
const (
	canonicalNaN64 = 0x7FF8000000000000
	canonicalNaN32 = 0x7FC00000
)

// compareCollection orders by the first element that differs, then by length;
// in maps a key is followed by its value.
func compareCollection(t *Type, a, b []byte) int {
	countA, countB := CollectionLen(a), CollectionLen(b)
	n := min(countA, countB)
	a, b = a[4:], b[4:]
	for range n {
		for _, et := range t.Elems {
			var x, y []byte
			x, a = mustCut(a)
			y, b = mustCut(b)
			if c := Compare(et, x, y); c != 0 {
				return c
			}
		}
	}
	return cmp.Compare(countA, countB)
}

func mustCut(b []byte) (elem, rest []byte) {
	elem, rest, ok := cutSized(b)
	if !ok {
		panic("BUG: compare values that were not validated")
	}
	return elem, rest
}

// compareTuple orders by the first field that differs, null first; a value
// that ends early is as if null followed.
func compareTuple(t *Type, a, b []byte) int {
	if len(a) == 0 || len(b) == 0 {
		return boolCompare(len(a) > 0, len(b) > 0)
	}
	for _, et := range t.Elems {
		var x, y []byte
		if len(a) > 0 {
			x, a = mustCut(a)
		}
		if len(b) > 0 {
			y, b = mustCut(b)
		}
		if x == nil || y == nil {
			if c := boolCompare(x != nil, y != nil); c != 0 {
				return c
			}
			continue
		}
		if c := Compare(et, x, y); c != 0 {
			return c
		}
	}
	return 0
}

func compareVector(t *Type, a, b []byte) int {
	size := fixedLength(t.Elems[0])
	for range t.Dim {
		x, restA, okA := cutVector(a, size)
		y, restB, okB := cutVector(b, size)
		if !okA || !okB {
			panic("BUG: compare vectors that were not validated")
		}
		if c := Compare(t.Elems[0], x, y); c != 0 {
			return c
		}
		a, b = restA, restB
	}
	return 0
}
