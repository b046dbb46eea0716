package cqltype

import (
	"unicode/utf8"
)

// Validate checks that b is a value of t in its binary form (protocol
// specification section 6; nil and, where Cassandra allows it, empty pass).
// Its error text is Cassandra's MarshalException text.
func Validate(t *Type, b []byte) error {
	if b == nil {
		return nil
	}
	if f := &fixedSizes[t.Kind]; f.size > 0 {
		return f.check(b)
	}
	switch t.Kind {
	case KindAscii:
		return validateASCII(b)
	case KindText:
		return validateText(b)
	case KindBlob, KindCustom:
		return nil
	case KindTimeuuid:
		return validateTimeuuid(b)
	case KindInet:
		if len(b) != 0 && len(b) != 4 && len(b) != 16 {
			return marshalf("Expected 4 or 16 byte inetaddress; got %x", b)
		}
		return nil
	case KindVarint:
		return validateNumberSize(len(b))
	case KindDecimal:
		if len(b) != 0 && len(b) < 4 {
			return marshalf("Expected 0 or at least 4 bytes (%d)", len(b))
		}
		return validateNumberSize(len(b) - 4)
	case KindDuration:
		_, err := DecodeDuration(b)
		return err
	case KindEmpty:
		if len(b) != 0 {
			return marshalf("EmptyType only accept empty values")
		}
		return nil
	case KindList, KindSet, KindMap:
		return validateCollection(t, b)
	case KindTuple:
		return validateTuple(t, b)
	case KindUDT:
		return validateUDT(t, b)
	case KindVector:
		return validateVector(t, b)
	}
	return marshalf("values of type %s cannot be checked", t)
}

// fixedSize is the length in bytes of a type's values, and what is said of others.
type fixedSize struct {
	size      int
	mayBeNone bool // an empty value is one too
	text      string
}

// fixedSizes are those of native types that no more is asked of.
var fixedSizes = [KindVector + 1]fixedSize{
	KindInt:       {4, true, "Expected 4 or 0 byte int (%d)"},
	KindBigint:    {8, true, "Expected 8 or 0 byte long (%d)"},
	KindCounter:   {8, true, "Expected 8 or 0 byte long (%d)"},
	KindTimestamp: {8, true, "Expected 8 or 0 byte long for date (%d)"},
	KindDouble:    {8, true, "Expected 8 or 0 byte value for a double (%d)"},
	KindFloat:     {4, true, "Expected 4 or 0 byte value for a float (%d)"},
	KindBoolean:   {1, true, "Expected 1 or 0 byte value (%d)"},
	KindUUID:      {16, true, "UUID should be 16 or 0 bytes (%d)"},
	KindTinyint:   {1, false, "Expected 1 byte for a tinyint (%d)"},
	KindSmallint:  {2, false, "Expected 2 bytes for a smallint (%d)"},
	KindDate:      {4, false, "Expected 4 byte long for date (%d)"},
	KindTime:      {8, false, "Expected 8 byte long for time (%d)"},
}

func (f *fixedSize) check(b []byte) error {
	if len(b) == f.size || (f.mayBeNone && len(b) == 0) {
		return nil
	}
	return marshalf(f.text, len(b))
}

func validateNumberSize(n int) error {
	if n > MaxNumberBytes {
		return marshalf("Numbers longer than %d bytes are not supported (%d)", MaxNumberBytes, n)
	}
	return nil
}

func validateASCII(b []byte) error {
	for _, c := range b {
		if c >= 0x80 {
			return marshalf("Invalid byte for ascii: %d", int8(c))
		}
	}
	return nil
}

func validateText(b []byte) error {
	if utf8.Valid(b) || validLooseUTF8(b) {
		return nil
	}
	return marshalf("String didn't validate.")
}

// validLooseUTF8 accepts what Cassandra's validator does beyond UTF-8 proper:
// encoded surrogates, 0xC080, four-byte sequences above U+10FFFF, and loosely
// checked second bytes after 0xE0 and 0xF0. Java clients do send the first two.
func validLooseUTF8(b []byte) bool {
	for len(b) > 0 {
		n := looseRune(b)
		if n == 0 {
			return false
		}
		b = b[n:]
	}
	return true
}

// looseRune returns the length of the sequence at the start of b, 0 for none.
func looseRune(b []byte) int {
	follows := func(n int) bool {
		if len(b) < n {
			return false
		}
		for _, c := range b[2:n] {
			if c&0xC0 != 0x80 {
				return false
			}
		}
		return true
	}
	switch c := b[0]; {
	case c < 0x80:
		return 1
	case c == 0xC0:
		if len(b) > 1 && b[1] == 0x80 {
			return 2
		}
	case c>>5 == 0x6 && c&0x1E != 0:
		if len(b) > 1 && b[1]&0xC0 == 0x80 {
			return 2
		}
	case c == 0xE0:
		if follows(3) && b[1]&0xE0 != 0x80 {
			return 3
		}
	case c>>4 == 0xE:
		if follows(3) && b[1]&0xC0 == 0x80 {
			return 3
		}
	case c == 0xF0:
		if follows(4) && b[1]&0x30 != 0 {
			return 4
		}
	case c>>3 == 0x1E:
		if follows(4) && b[1]&0xC0 == 0x80 {
			return 4
		}
	}
	return 0
}

func validateTimeuuid(b []byte) error {
	if err := fixedSizes[KindUUID].check(b); err != nil || len(b) == 0 {
		return err
	}
	if b[6]&0xF0 != 0x10 {
		// The digit shown is the first one of the UUID, as in Cassandra.
		return marshalf("Invalid version for TimeUUID type: 0x%x", b[0]>>4)
	}
	return nil
}

func validateCollection(t *Type, b []byte) error {
	// No count is too large to begin with: every element takes at least four
	// bytes, so that the loop ends with them.
	if len(b) < 4 {
		return collectionError(t, errShort)
	}
	n, rest, null := int64(DecodeInt(b[:4])), b[4:], false
	if t.Kind == KindMap {
		n *= 2
	}
	for i := range n {
		elem, tail, ok := cutSized(rest)
		if !ok {
			return collectionError(t, errShort)
		}
		if elem == nil && t.Kind != KindList {
			return errNull
		}
		// Cassandra reads nulls in lists, which conditions with IN may hold, and
		// so tells first what else is wrong.
		null = null || elem == nil
		et := t.Elems[0]
		if t.Kind == KindMap && i%2 == 1 {
			et = t.Elems[1]
		}
		if err := Validate(et, elem); err != nil {
			return err
		}
		rest = tail
	}
	switch {
	case len(rest) > 0:
		return collectionError(t, errTrailing)
	case n < 0:
		return collectionError(t, errBadLength)
	case null:
		return errNull
	}
	return nil
}

func validateTuple(t *Type, b []byte) error {
	for i, et := range t.Elems {
		if len(b) == 0 {
			return nil
		}
		if len(b) < 4 {
			return marshalf("Not enough bytes to read size of %dth component", i)
		}
		elem, rest, ok := cutSized(b)
		if !ok {
			return marshalf("Not enough bytes to read %dth component", i)
		}
		if err := Validate(et, elem); err != nil {
			return err
		}
		b = rest
	}
	if len(b) > 0 {
		return marshalf("Invalid remaining data after end of tuple value")
	}
	return nil
}

func validateUDT(t *Type, b []byte) error {
	for i, et := range t.Elems {
		if len(b) == 0 {
			return nil
		}
		if len(b) < 4 {
			return marshalf("Not enough bytes to read size of %dth field %s", i, t.FieldNames[i])
		}
		elem, rest, ok := cutSized(b)
		if !ok {
			return marshalf("Not enough bytes to read %dth field %s", i, t.FieldNames[i])
		}
		if err := Validate(et, elem); err != nil {
			return marshalf("Failure validating the %dth field %s; %s", i, t.FieldNames[i], err)
		}
		b = rest
	}
	if len(b) > 0 {
		return marshalf("Invalid remaining data after end of UDT value")
	}
	return nil
}

func validateVector(t *Type, b []byte) error {
	if len(b) == 0 {
		return errEmptyVector
	}
	size := fixedLength(t.Elems[0])
	for range t.Dim {
		elem, rest, ok := cutVector(b, size)
		if !ok {
			return shortVector(t)
		}
		if err := Validate(t.Elems[0], elem); err != nil {
			return err
		}
		b = rest
	}
	if len(b) > 0 {
		return marshalf("Unexpected %d extraneous bytes after %s value", len(b), t)
	}
	return nil
}
