package cqltype

import (
	"math"
)

// fixedLength is the length of all values of t where Cassandra serializes the
// type without lengths, else -1. Small integers, date and time are, for no
// good reason, not among those types.
func fixedLength(t *Type) int {
	switch t.Kind {
	case KindEmpty:
		return 0
	case KindBoolean:
		return 1
	case KindInt, KindFloat:
		return 4
	case KindBigint, KindDouble, KindTimestamp:
		return 8
	case KindUUID, KindTimeuuid:
		return 16
	case KindVector:
		if n := fixedLength(t.Elems[0]); n >= 0 {
			// Saturated, so that nested dimensions cannot overflow: no value is that long.
			return int(min(int64(n)*int64(t.Dim), math.MaxInt32))
		}
	}
	return -1
}

// AppendVector writes a vector; fixed-length element types are packed, others
// have an unsigned-vint length each (Cassandra's VectorType).
func AppendVector(dst []byte, t *Type, elems [][]byte) []byte {
	fixed := fixedLength(t.Elems[0]) >= 0
	for _, e := range elems {
		if !fixed {
			dst = appendUvint(dst, uint64(len(e)))
		}
		dst = append(dst, e...)
	}
	return dst
}

// SplitVector returns a vector's elements aliasing b.
func SplitVector(t *Type, b []byte) ([][]byte, error) {
	if len(b) == 0 {
		return nil, errEmptyVector
	}
	size := fixedLength(t.Elems[0])
	if t.Dim <= 0 || len(b) < minVectorBytes(t, size) {
		return nil, shortVector(t)
	}
	elems := make([][]byte, 0, t.Dim)
	for range t.Dim {
		elem, rest, ok := cutVector(b, size)
		if !ok {
			return nil, shortVector(t)
		}
		elems, b = append(elems, elem), rest
	}
	if len(b) > 0 {
		return nil, marshalf("Unexpected %d extraneous bytes after %s value", len(b), t)
	}
	return elems, nil
}

var errNullInVector = marshalf("null is not supported inside vectors")

// isNull reports null and what Cassandra takes for null: the empty value of
// all types but texts, blobs, tuples, UDTs and vectors.
func isNull(t *Type, b []byte) bool {
	switch t.Kind {
	case KindText, KindAscii, KindBlob, KindCustom, KindTuple, KindUDT, KindVector:
		return b == nil
	}
	return len(b) == 0
}

var errEmptyVector = marshalf("Invalid empty vector value")

func shortVector(t *Type) error { return marshalf("Not enough bytes to read a %s", t) }

// minVectorBytes is the least that a vector's bytes can be, so that a
// dimension read from a type's name never makes a large allocation.
func minVectorBytes(t *Type, size int) int {
	if size < 0 {
		return t.Dim
	}
	return int(min(int64(size)*int64(t.Dim), math.MaxInt32))
}

// cutVector reads the next element; size is -1 where a vint gives the length.
func cutVector(b []byte, size int) (elem, rest []byte, ok bool) {
	if size < 0 {
		v, n := readUvint(b)
		if n == 0 || v > uint64(len(b)-n) {
			return nil, nil, false
		}
		b, size = b[n:], int(v)
	}
	if len(b) < size {
		return nil, nil, false
	}
	return b[:size:size], b[size:], true
}
