package cqltype

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// The first byte of a value in a key. Every one of them is larger than
// keyEnd, so that a shorter collection or tuple sorts first, and leaves 0x00
// and 0xFF to bounds set around whole keys.
const (
	keyEnd   = 0x01 // after the last element of a collection or tuple
	keyNull  = 0x04 // inside tuples only
	keyEmpty = 0x08
	keyValue = 0x10
)

// In texts and blobs 0x00 is written 0x00 0xFF and the end is 0x00 0x01.
const (
	escapeZero = 0xFF
	escapeEnd  = 0x01
)

var errKey = errors.New("malformed key")

// AppendKey appends the order-preserving form of a value, so that bytewise
// order of keys is Compare's order (or the reverse with desc), whatever
// component follows. No encoding is a prefix of another of the same type.
//
// b must be a value that Validate accepts; null has no key. It allocates
// nothing beyond dst for types other than long numbers and nested values.
func AppendKey(dst []byte, t *Type, b []byte, desc bool) ([]byte, error) {
	if b == nil {
		return dst, marshalf("null has no place in a key")
	}
	start := len(dst)
	dst, err := appendKeyValue(dst, t, b)
	if err != nil {
		return dst[:start], err
	}
	if desc {
		complement(dst[start:])
	}
	return dst, nil
}

func complement(b []byte) {
	for i := range b {
		b[i] = ^b[i]
	}
}

func appendKeyValue(dst []byte, t *Type, b []byte) ([]byte, error) {
	if len(b) == 0 {
		return append(dst, keyEmpty), nil
	}
	return appendKeyBody(append(dst, keyValue), t, b)
}

func appendKeyBody(dst []byte, t *Type, b []byte) ([]byte, error) {
	size := keySize(t)
	if size > 0 && len(b) != size {
		return dst, marshalf("%d bytes are no %s", len(b), t)
	}
	switch t.Kind {
	case KindTinyint, KindSmallint, KindInt, KindBigint, KindTimestamp, KindCounter:
		dst = append(dst, b...)
		dst[len(dst)-size] ^= 0x80
		return dst, nil
	case KindDate, KindTime:
		return append(dst, b...), nil
	case KindBoolean:
		if b[0] != 0 {
			return append(dst, 1), nil
		}
		return append(dst, 0), nil
	case KindDouble:
		return binary.BigEndian.AppendUint64(dst, orderDouble(binary.BigEndian.Uint64(b))), nil
	case KindFloat:
		return binary.BigEndian.AppendUint32(dst, orderFloat(binary.BigEndian.Uint32(b))), nil
	case KindTimeuuid:
		dst = binary.BigEndian.AppendUint64(dst, timeOrder(binary.BigEndian.Uint64(b)))
		return binary.BigEndian.AppendUint64(dst, binary.BigEndian.Uint64(b[8:])^signFlips), nil
	case KindUUID:
		dst = binary.BigEndian.AppendUint64(dst, uuidOrder(binary.BigEndian.Uint64(b)))
		return append(dst, b[8:]...), nil
	case KindText, KindAscii, KindBlob, KindInet, KindDuration, KindCustom:
		return appendEscaped(dst, b), nil
	case KindVarint:
		return appendVarintKey(dst, b), nil
	case KindDecimal:
		return appendDecimalKey(dst, b)
	case KindList, KindSet, KindMap:
		return appendCollectionKey(dst, t, b)
	case KindTuple, KindUDT:
		return appendTupleKey(dst, t, b)
	case KindVector:
		return appendVectorKey(dst, t, b)
	}
	return dst, marshalf("values of type %s cannot be in a key", t)
}

// keySize is the length of a body that is as long as the value itself, 0 for others.
func keySize(t *Type) int {
	switch t.Kind {
	case KindTinyint, KindBoolean:
		return 1
	case KindSmallint:
		return 2
	case KindInt, KindFloat, KindDate:
		return 4
	case KindBigint, KindTimestamp, KindCounter, KindTime, KindDouble:
		return 8
	case KindUUID, KindTimeuuid:
		return 16
	}
	return 0
}

func appendEscaped(dst, b []byte) []byte {
	for {
		i := bytes.IndexByte(b, 0)
		if i < 0 {
			return append(append(dst, b...), 0, escapeEnd)
		}
		dst = append(append(dst, b[:i+1]...), escapeZero)
		b = b[i+1:]
	}
}

// DecodeKey reverses AppendKey: value is dst with the value's binary form
// appended (never nil), rest is what follows in key. Where several binary
// forms are one key the canonical one is returned: the shortest varint, 0 or 1
// for a boolean, Java's NaN, null for fields that a tuple or UDT left out, and
// a decimal without zeros at its end, for which see LossyKey.
func DecodeKey(dst []byte, t *Type, key []byte, desc bool) (value, rest []byte, err error) {
	r := keyReader{rest: key}
	if desc {
		r.flip = 0xFF
	}
	if dst == nil {
		dst = []byte{}
	}
	value, err = r.value(dst, t)
	if err != nil {
		return dst, key, err
	}
	return value, r.rest, nil
}

// LossyKey reports that DecodeKey may return another written form of the
// value than the one encoded (decimal: 1.0 and 1.00 are one key), so that the
// original must be kept beside the key.
func LossyKey(t *Type) bool {
	if t.Kind == KindDecimal {
		return true
	}
	for _, e := range t.Elems {
		if LossyKey(e) {
			return true
		}
	}
	return false
}

// keyReader reads a key whose bytes are XORed with flip.
type keyReader struct {
	rest []byte
	flip byte
}

func (r *keyReader) byte() (byte, error) {
	if len(r.rest) == 0 {
		return 0, errKey
	}
	c := r.rest[0] ^ r.flip
	r.rest = r.rest[1:]
	return c, nil
}

// copy appends the next n bytes to dst.
func (r *keyReader) copy(dst []byte, n int) ([]byte, error) {
	if n < 0 || len(r.rest) < n {
		return dst, errKey
	}
	start := len(dst)
	dst = append(dst, r.rest[:n]...)
	r.rest = r.rest[n:]
	if r.flip != 0 {
		complement(dst[start:])
	}
	return dst, nil
}

func (r *keyReader) value(dst []byte, t *Type) ([]byte, error) {
	marker, err := r.byte()
	if err != nil {
		return dst, err
	}
	switch marker {
	case keyEmpty:
		return dst, nil
	case keyValue:
		return r.body(dst, t)
	}
	return dst, errKey
}

func (r *keyReader) body(dst []byte, t *Type) ([]byte, error) {
	if size := keySize(t); size > 0 {
		start := len(dst)
		dst, err := r.copy(dst, size)
		if err == nil {
			restoreFixed(t, dst[start:])
		}
		return dst, err
	}
	switch t.Kind {
	case KindText, KindAscii, KindBlob, KindInet, KindDuration, KindCustom:
		return r.escaped(dst)
	case KindVarint:
		return r.varint(dst)
	case KindDecimal:
		return r.decimal(dst)
	case KindList, KindSet, KindMap:
		return r.collection(dst, t)
	case KindTuple, KindUDT:
		return r.tuple(dst, t)
	case KindVector:
		return r.vector(dst, t)
	}
	return dst, errKey
}

// restoreFixed turns a body of fixed length back into the value, in place.
func restoreFixed(t *Type, b []byte) {
	switch t.Kind {
	case KindTinyint, KindSmallint, KindInt, KindBigint, KindTimestamp, KindCounter:
		b[0] ^= 0x80
	case KindDouble:
		v := binary.BigEndian.Uint64(b)
		if v>>63 != 0 {
			v ^= 1 << 63
		} else {
			v = ^v
		}
		binary.BigEndian.PutUint64(b, v)
	case KindFloat:
		v := binary.BigEndian.Uint32(b)
		if v>>31 != 0 {
			v ^= 1 << 31
		} else {
			v = ^v
		}
		binary.BigEndian.PutUint32(b, v)
	case KindTimeuuid:
		binary.BigEndian.PutUint64(b, timeOrderBack(binary.BigEndian.Uint64(b)))
		binary.BigEndian.PutUint64(b[8:], binary.BigEndian.Uint64(b[8:])^signFlips)
	case KindUUID:
		binary.BigEndian.PutUint64(b, uuidOrderBack(binary.BigEndian.Uint64(b)))
	}
}

func (r *keyReader) escaped(dst []byte) ([]byte, error) {
	for {
		i := bytes.IndexByte(r.rest, r.flip)
		if i < 0 || i+1 == len(r.rest) {
			return dst, errKey
		}
		next := r.rest[i+1] ^ r.flip
		n := i + 1
		if next == escapeEnd {
			n = i
		} else if next != escapeZero {
			return dst, errKey
		}
		dst, _ = r.copy(dst, n)
		r.rest = r.rest[i+2-n:]
		if next == escapeEnd {
			return dst, nil
		}
	}
}
