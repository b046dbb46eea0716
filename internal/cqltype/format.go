package cqltype

import (
	"encoding/hex"
	"strconv"
)

// FormatLiteral writes a value as a CQL literal, as Cassandra's toCQLString:
// null for nil, and for the empty value of types that are not texts or blobs.
// b must be a value that Validate accepts.
func FormatLiteral(dst []byte, t *Type, b []byte) []byte {
	if b == nil {
		return append(dst, "null"...)
	}
	switch t.Kind {
	case KindText, KindAscii:
		return appendQuoted(dst, b)
	case KindBlob, KindCustom:
		return hex.AppendEncode(append(dst, "0x"...), b)
	case KindList, KindSet, KindMap:
		return formatCollection(dst, t, b)
	case KindTuple, KindUDT:
		return formatFields(dst, t, b)
	case KindVector:
		return formatVector(dst, t, b)
	}
	if len(b) == 0 {
		return append(dst, "null"...)
	}
	switch t.Kind {
	case KindInet, KindDate, KindTime:
		return append(AppendText(append(dst, '\''), t, b), '\'')
	case KindTimestamp:
		return append(appendTimestamp(append(dst, '\''), DecodeBigint(b), 'T'), '\'')
	}
	return AppendText(dst, t, b)
}

// AppendText writes a native value's plain text form without quotes, as
// Cassandra's AbstractType.getString: empty for an empty value. Other types
// are written as hexadecimal digits.
func AppendText(dst []byte, t *Type, b []byte) []byte {
	if len(b) == 0 {
		return dst
	}
	switch t.Kind {
	case KindText, KindAscii:
		return append(dst, b...)
	case KindInt:
		return strconv.AppendInt(dst, int64(DecodeInt(b)), 10)
	case KindBigint, KindCounter:
		return strconv.AppendInt(dst, DecodeBigint(b), 10)
	case KindSmallint:
		return strconv.AppendInt(dst, int64(DecodeSmallint(b)), 10)
	case KindTinyint:
		return strconv.AppendInt(dst, int64(DecodeTinyint(b)), 10)
	case KindBoolean:
		return strconv.AppendBool(dst, DecodeBool(b))
	case KindDouble:
		return appendJavaFloat(dst, DecodeDouble(b), 64)
	case KindFloat:
		return appendJavaFloat(dst, float64(DecodeFloat(b)), 32)
	case KindVarint:
		return appendVarintText(dst, b)
	case KindDecimal:
		return appendDecimalText(dst, b)
	case KindUUID, KindTimeuuid:
		return AppendUUID(dst, b)
	case KindInet:
		return appendInet(dst, b)
	case KindDate:
		return appendDate(dst, DateToDays(b))
	case KindTime:
		return appendTime(dst, DecodeBigint(b))
	case KindTimestamp:
		return appendTimestamp(dst, DecodeBigint(b), 'T')
	case KindDuration:
		d, err := DecodeDuration(b)
		if err != nil {
			return dst
		}
		return d.Append(dst)
	}
	return hex.AppendEncode(dst, b)
}

func appendVarintText(dst, b []byte) []byte {
	var buf [20]byte
	neg, digits := varintDigits(buf[:0], b)
	if neg {
		dst = append(dst, '-')
	}
	return append(dst, digits...)
}

// appendQuoted writes a text between single quotes, which are doubled inside.
func appendQuoted(dst, b []byte) []byte {
	dst = append(dst, '\'')
	for _, c := range b {
		if c == '\'' {
			dst = append(dst, '\'')
		}
		dst = append(dst, c)
	}
	return append(dst, '\'')
}

func formatCollection(dst []byte, t *Type, b []byte) []byte {
	opening, closing := byte('{'), byte('}')
	if t.Kind == KindList {
		opening, closing = '[', ']'
	}
	dst = append(dst, opening)
	n, rest, _ := cutCount(t, b)
	for i := range n {
		elem, tail, ok := cutSized(rest)
		if !ok {
			break
		}
		switch {
		case t.Kind == KindMap && i%2 == 1:
			dst = append(dst, ": "...)
		case i > 0:
			dst = append(dst, ", "...)
		}
		dst = FormatLiteral(dst, t.Elems[i%len(t.Elems)], elem)
		rest = tail
	}
	return append(dst, closing)
}

// formatFields writes a tuple or a UDT; fields left out at the end are not written.
func formatFields(dst []byte, t *Type, b []byte) []byte {
	opening, closing := byte('('), byte(')')
	if t.Kind == KindUDT {
		opening, closing = '{', '}'
	}
	dst = append(dst, opening)
	for i, et := range t.Elems {
		elem, rest, ok := cutSized(b)
		if !ok {
			break
		}
		if i > 0 {
			dst = append(dst, ", "...)
		}
		if t.Kind == KindUDT {
			dst = append(append(dst, MaybeQuote(t.FieldNames[i])...), ": "...)
		}
		dst = FormatLiteral(dst, et, elem)
		b = rest
	}
	return append(dst, closing)
}

func formatVector(dst []byte, t *Type, b []byte) []byte {
	dst = append(dst, '[')
	size := fixedLength(t.Elems[0])
	for i := range t.Dim {
		elem, rest, ok := cutVector(b, size)
		if !ok {
			break
		}
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = FormatLiteral(dst, t.Elems[0], elem)
		b = rest
	}
	return append(dst, ']')
}
