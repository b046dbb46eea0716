package cqltype

import (
	"encoding/binary"
)

// appendCollectionKey writes each element (in maps key, value, key …) as a
// value of its own and then keyEnd, which sorts before any further element.
func appendCollectionKey(dst []byte, t *Type, b []byte) ([]byte, error) {
	n, rest, err := cutCount(t, b)
	if err != nil {
		return dst, collectionError(t, err)
	}
	for i := range n {
		elem, tail, ok := cutSized(rest)
		if !ok {
			return dst, collectionError(t, errShort)
		}
		if elem == nil {
			return dst, errNull
		}
		dst, err = appendKeyValue(dst, t.Elems[i%len(t.Elems)], elem)
		if err != nil {
			return dst, err
		}
		rest = tail
	}
	if len(rest) > 0 {
		return dst, collectionError(t, errTrailing)
	}
	return append(dst, keyEnd), nil
}

// appendTupleKey writes the fields up to the last that is not null and then
// keyEnd, so that null, and a field left out, sort before every value.
func appendTupleKey(dst []byte, t *Type, b []byte) ([]byte, error) {
	nulls := 0
	for i, et := range t.Elems {
		if len(b) == 0 {
			break
		}
		elem, rest, ok := cutSized(b)
		if !ok {
			return dst, marshalf("Not enough bytes to read %dth component", i)
		}
		b = rest
		if elem == nil {
			nulls++
			continue
		}
		for ; nulls > 0; nulls-- {
			dst = append(dst, keyNull)
		}
		var err error
		dst, err = appendKeyValue(dst, et, elem)
		if err != nil {
			return dst, err
		}
	}
	if len(b) > 0 {
		return dst, errTrailing
	}
	return append(dst, keyEnd), nil
}

// appendVectorKey writes the elements one after another: their number is
// fixed. Those of fixed length cannot be empty and need no marker.
func appendVectorKey(dst []byte, t *Type, b []byte) ([]byte, error) {
	et := t.Elems[0]
	size := fixedLength(et)
	for range t.Dim {
		elem, rest, ok := cutVector(b, size)
		if !ok {
			return dst, shortVector(t)
		}
		var err error
		if size > 0 {
			dst, err = appendKeyBody(dst, et, elem)
		} else {
			dst, err = appendKeyValue(dst, et, elem)
		}
		if err != nil {
			return dst, err
		}
		b = rest
	}
	if len(b) > 0 {
		return dst, errTrailing
	}
	return dst, nil
}

// sized appends a value with its i32 length in front.
func (r *keyReader) sized(dst []byte, t *Type) ([]byte, error) {
	at := len(dst)
	dst, err := r.value(append(dst, 0, 0, 0, 0), t)
	if err == nil {
		binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	}
	return dst, err
}

// atEnd consumes keyEnd if it is next.
func (r *keyReader) atEnd() bool {
	if len(r.rest) == 0 || r.rest[0]^r.flip != keyEnd {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

func (r *keyReader) collection(dst []byte, t *Type) ([]byte, error) {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	for count := uint32(0); ; count++ {
		if r.atEnd() {
			binary.BigEndian.PutUint32(dst[at:], count)
			return dst, nil
		}
		for _, et := range t.Elems {
			var err error
			dst, err = r.sized(dst, et)
			if err != nil {
				return dst, err
			}
		}
	}
}

func (r *keyReader) tuple(dst []byte, t *Type) ([]byte, error) {
	ended := false
	for _, et := range t.Elems {
		ended = ended || r.atEnd()
		if ended || len(r.rest) > 0 && r.rest[0]^r.flip == keyNull {
			if !ended {
				r.rest = r.rest[1:]
			}
			dst = append(dst, 0xFF, 0xFF, 0xFF, 0xFF)
			continue
		}
		var err error
		dst, err = r.sized(dst, et)
		if err != nil {
			return dst, err
		}
	}
	if !ended && !r.atEnd() {
		return dst, errKey
	}
	return dst, nil
}

func (r *keyReader) vector(dst []byte, t *Type) ([]byte, error) {
	et := t.Elems[0]
	size := fixedLength(et)
	var scratch []byte
	for range t.Dim {
		var err error
		switch {
		case size > 0:
			dst, err = r.body(dst, et)
		case size == 0:
			dst, err = r.value(dst, et)
		default:
			// The vint in front depends on the length, so the value is read apart.
			scratch, err = r.value(scratch[:0], et)
			dst = append(appendUvint(dst, uint64(len(scratch))), scratch...)
		}
		if err != nil {
			return dst, err
		}
	}
	return dst, nil
}
