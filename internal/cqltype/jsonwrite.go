package cqltype

import (
	"encoding/hex"
	"math"
	"strings"
	"unicode/utf8"
)

// AppendJSON writes a value as JSON text, as SELECT JSON and toJson do; nil is null.
// b must be a value that Validate accepts.
func AppendJSON(dst []byte, t *Type, b []byte) []byte {
	if b == nil {
		return append(dst, "null"...)
	}
	switch t.Kind {
	case KindText, KindAscii:
		return AppendJSONString(dst, b)
	case KindBlob, KindCustom:
		return append(hex.AppendEncode(append(dst, `"0x`...), b), '"')
	case KindBoolean:
		if len(b) == 0 {
			return append(dst, "null"...)
		}
		return AppendText(dst, t, b)
	case KindDouble:
		return jsonFloat(dst, t, b, DecodeDouble(b))
	case KindFloat:
		return jsonFloat(dst, t, b, float64(DecodeFloat(b)))
	case KindInt, KindBigint, KindSmallint, KindTinyint, KindCounter, KindVarint, KindDecimal:
		if len(b) > 0 {
			return AppendText(dst, t, b)
		}
	case KindTimestamp:
		if len(b) > 0 {
			return append(appendTimestamp(append(dst, '"'), DecodeBigint(b), ' '), '"')
		}
	case KindList, KindSet:
		return jsonList(dst, t, b)
	case KindMap:
		return jsonMap(dst, t, b)
	case KindTuple:
		return jsonTuple(dst, t, b)
	case KindUDT:
		return jsonUDT(dst, t, b)
	case KindVector:
		return jsonVector(dst, t, b)
	}
	return append(AppendText(append(dst, '"'), t, b), '"')
}

// jsonFloat writes null for what JSON cannot express.
func jsonFloat(dst []byte, t *Type, b []byte, v float64) []byte {
	switch {
	case len(b) == 0:
		return append(dst, `""`...)
	case math.IsNaN(v) || math.IsInf(v, 0):
		return append(dst, "null"...)
	}
	return AppendText(dst, t, b)
}

const upperHex = "0123456789ABCDEF"

// AppendJSONString writes text between double quotes, escaping what JSON asks
// for and no more, control characters in upper case hexadecimal (as Jackson
// does). What is no UTF-8 becomes U+FFFD.
func AppendJSONString(dst, text []byte) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(text[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, text[start:i]...), "\uFFFD"...)
				start = i + 1
			}
			i += size
			continue
		}
		dst = append(append(dst, text[start:i]...), '\\')
		switch c {
		case '"', '\\':
			dst = append(dst, c)
		case '\b':
			dst = append(dst, 'b')
		case '\t':
			dst = append(dst, 't')
		case '\n':
			dst = append(dst, 'n')
		case '\f':
			dst = append(dst, 'f')
		case '\r':
			dst = append(dst, 'r')
		default:
			dst = append(dst, 'u', '0', '0', upperHex[c>>4], upperHex[c&0xF])
		}
		i++
		start = i
	}
	return append(append(dst, text[start:]...), '"')
}

func jsonList(dst []byte, t *Type, b []byte) []byte {
	dst = append(dst, '[')
	n, rest, _ := cutCount(t, b)
	for i := range n {
		elem, tail, ok := cutSized(rest)
		if !ok {
			break
		}
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = AppendJSON(dst, t.Elems[0], elem)
		rest = tail
	}
	return append(dst, ']')
}

// jsonMap writes an object; a key whose JSON is no string is put into one.
func jsonMap(dst []byte, t *Type, b []byte) []byte {
	dst = append(dst, '{')
	n, rest, _ := cutCount(t, b)
	for i := range n {
		elem, tail, ok := cutSized(rest)
		if !ok {
			break
		}
		switch {
		case i%2 == 1:
			dst = append(dst, ": "...)
			dst = AppendJSON(dst, t.Elems[1], elem)
		default:
			if i > 0 {
				dst = append(dst, ", "...)
			}
			start := len(dst)
			dst = AppendJSON(dst, t.Elems[0], elem)
			if dst[start] != '"' {
				key := append([]byte(nil), dst[start:]...)
				dst = AppendJSONString(dst[:start], key)
			}
		}
		rest = tail
	}
	return append(dst, '}')
}

func jsonTuple(dst []byte, t *Type, b []byte) []byte {
	dst = append(dst, '[')
	for i, et := range t.Elems {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		elem, rest, _ := cutSized(b)
		dst = AppendJSON(dst, et, elem)
		b = rest
	}
	return append(dst, ']')
}

func jsonUDT(dst []byte, t *Type, b []byte) []byte {
	dst = append(dst, '{')
	for i, et := range t.Elems {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(AppendJSONName(dst, t.FieldNames[i]), ": "...)
		elem, rest, _ := cutSized(b)
		dst = AppendJSON(dst, et, elem)
		b = rest
	}
	return append(dst, '}')
}

// AppendJSONName writes the name of a column or field as a key of an object:
// a name with upper case letters keeps its double quotes within the string.
func AppendJSONName(dst []byte, name string) []byte {
	if name != strings.ToLower(name) {
		name = `"` + name + `"`
	}
	return AppendJSONString(dst, []byte(name))
}

func jsonVector(dst []byte, t *Type, b []byte) []byte {
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
		dst = AppendJSON(dst, t.Elems[0], elem)
		b = rest
	}
	return append(dst, ']')
}
