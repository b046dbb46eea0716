package cqltype

import (
	"encoding/binary"
	"slices"
)

// AppendCollection writes a list or set value (protocol v3+ form: i32 count,
// each i32 length and bytes); for maps elems alternates key and value and the
// count is pairs.
func AppendCollection(dst []byte, t *Type, elems [][]byte) []byte {
	count := len(elems)
	if t.Kind == KindMap {
		count /= 2
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(count))
	for _, e := range elems {
		dst = appendSized(dst, e)
	}
	return dst
}

func appendSized(dst, e []byte) []byte {
	if e == nil {
		return binary.BigEndian.AppendUint32(dst, 0xFFFFFFFF)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(e)))
	return append(dst, e...)
}

var (
	errShort     = marshalf("not enough bytes")
	errNull      = marshalf("Null value read when not allowed")
	errTrailing  = marshalf("unexpected bytes at the end")
	errBadLength = marshalf("bad length")
)

// cutSized reads an i32 length and as many bytes; a negative length is nil.
// elem aliases b with no capacity beyond it.
func cutSized(b []byte) (elem, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	size := int(int32(binary.BigEndian.Uint32(b)))
	b = b[4:]
	if size < 0 {
		return nil, b, true
	}
	if len(b) < size {
		return nil, nil, false
	}
	return b[:size:size], b[size:], true
}

// cutCount reads a collection's count and returns how many elements follow
// (two a pair in maps), refusing counts that b cannot hold.
func cutCount(t *Type, b []byte) (count int, rest []byte, err error) {
	if len(b) < 4 {
		return 0, nil, errShort
	}
	n := int64(int32(binary.BigEndian.Uint32(b)))
	if n < 0 {
		return 0, nil, errBadLength
	}
	if t.Kind == KindMap {
		n *= 2
	}
	if n > int64(len(b)-4)/4 {
		return 0, nil, errShort
	}
	return int(n), b[4:], nil
}

// collectionError gives a collection's error as Cassandra words it.
func collectionError(t *Type, err error) error {
	name := kindNames[t.Kind]
	switch err {
	case errShort:
		return marshalf("Not enough bytes to read a %s", name)
	case errTrailing:
		return marshalf("Unexpected extraneous bytes after %s value", name)
	case errBadLength:
		return marshalf("The data cannot be deserialized as a %s", name)
	}
	return err
}

// SplitCollection returns the elements (for maps: key, value, key, value …),
// aliasing b. Lengths are checked. Elements of negative length, which only
// lists of an IN condition may have, are nil.
func SplitCollection(t *Type, b []byte) ([][]byte, error) {
	return AppendSplitCollection(nil, t, b)
}

// AppendSplitCollection is SplitCollection into a reused slice.
func AppendSplitCollection(dst [][]byte, t *Type, b []byte) ([][]byte, error) {
	n, rest, err := cutCount(t, b)
	if err != nil {
		return dst, collectionError(t, err)
	}
	dst = slices.Grow(dst, n)
	for range n {
		elem, tail, ok := cutSized(rest)
		if !ok {
			return dst, collectionError(t, errShort)
		}
		dst, rest = append(dst, elem), tail
	}
	if len(rest) > 0 {
		return dst, collectionError(t, errTrailing)
	}
	return dst, nil
}

// CollectionLen returns the number of elements (pairs in maps) of a value
// that Validate accepts; 0 for nil.
func CollectionLen(b []byte) int {
	if len(b) < 4 {
		return 0
	}
	return max(0, int(int32(binary.BigEndian.Uint32(b))))
}

// NormalizeCollection returns a set or map that a client sent with its
// elements in the type's order and without duplicates (the last of equal map
// keys wins); a value already so is returned as it is, and so are lists.
// b must pass Validate.
func NormalizeCollection(t *Type, b []byte) ([]byte, error) {
	if t.Kind != KindSet && t.Kind != KindMap || len(b) == 0 {
		return b, nil
	}
	elems, err := SplitCollection(t, b)
	if err != nil {
		return nil, err
	}
	sorted, changed := SortElements(t, elems)
	if !changed {
		return b, nil
	}
	return AppendCollection(make([]byte, 0, len(b)), t, sorted), nil
}

// SortElements puts a set's elements or a map's alternating keys and values in
// order, in place, and drops duplicates; of equal map keys the last one stays.
func SortElements(t *Type, elems [][]byte) (sorted [][]byte, changed bool) {
	step := 1
	if t.Kind == KindMap {
		step = 2
	}
	key := t.Elems[0]
	ordered := true
	for i := step; i < len(elems) && ordered; i += step {
		ordered = Compare(key, elems[i-step], elems[i]) < 0
	}
	if ordered {
		return elems, false
	}
	entries := make([][2][]byte, 0, len(elems)/step)
	for i := 0; i < len(elems); i += step {
		entries = append(entries, [2][]byte{elems[i], elems[i+step-1]})
	}
	slices.SortStableFunc(entries, func(a, b [2][]byte) int { return Compare(key, a[0], b[0]) })
	out := elems[:0]
	for i, e := range entries {
		if i+1 < len(entries) && Compare(key, e[0], entries[i+1][0]) == 0 {
			continue
		}
		out = append(out, e[0])
		if step == 2 {
			out = append(out, e[1])
		}
	}
	return out, true
}

// AppendTuple writes a tuple or UDT value (each i32 length and bytes; nil is -1).
func AppendTuple(dst []byte, elems [][]byte) []byte {
	for _, e := range elems {
		dst = appendSized(dst, e)
	}
	return dst
}

// SplitTuple returns a tuple's or UDT's fields aliasing b; missing trailing fields are nil.
func SplitTuple(t *Type, b []byte) ([][]byte, error) {
	elems := make([][]byte, len(t.Elems))
	for i := range elems {
		if len(b) == 0 {
			return elems, nil
		}
		elem, rest, ok := cutSized(b)
		if !ok {
			return nil, marshalf("Not enough bytes to read %dth component", i)
		}
		elems[i], b = elem, rest
	}
	if len(b) > 0 {
		noun := "values"
		if len(elems) == 1 {
			noun = "value"
		}
		return nil, marshalf("Expected %d %s for %s column, but got more", len(elems), noun, t)
	}
	return elems, nil
}
