package cqltype

import (
	"encoding/hex"
	"math"
	"strconv"
	"strings"
)

// LiteralKind tells how a constant was written in CQL text.
type LiteralKind uint8

// The ways to write a constant.
const (
	LitString   LiteralKind = iota // 'text', $$text$$ (already unescaped)
	LitInteger                     // 42, -7
	LitFloat                       // 1.5, 1e10, NaN, Infinity
	LitBoolean                     // true, false
	LitUUID                        // 8-4-4-4-12 hex
	LitHex                         // 0xCAFE
	LitDuration                    // 1h30m, P1Y, P1Y2M
	LitNull                        // null, never given to ParseLiteral
)

var literalKindNames = [...]string{
	LitString: "STRING", LitInteger: "INTEGER", LitFloat: "FLOAT", LitBoolean: "BOOLEAN",
	LitUUID: "UUID", LitHex: "HEX", LitDuration: "DURATION", LitNull: "NULL",
}

// String returns the kind's name as messages show it: STRING, INTEGER ….
func (k LiteralKind) String() string { return literalKindNames[k] }

// LiteralFits reports whether a constant of that kind may be given for t at
// all, and whether exactly (t is the kind's natural type) or by conversion,
// as Cassandra's Constants.Literal.testAssignment. Where the natural type
// depends on the text (see LiteralType), it is text, int or double here.
func LiteralFits(t *Type, kind LiteralKind) (ok, exact bool) {
	if t.IsCollection() || t.Kind == KindUDT || t.Kind == KindVector {
		return kind == LitNull, false
	}
	if t.Kind == KindTuple || t.Kind == KindCustom {
		return true, false
	}
	switch kind {
	case LitNull:
		return t.Kind != KindCounter, false
	case LitString:
		switch t.Kind {
		case KindText:
			return true, true
		case KindAscii, KindInet, KindDate, KindTime, KindTimestamp:
			return true, false
		}
	case LitInteger:
		switch t.Kind {
		case KindInt:
			return true, true
		case KindBigint, KindCounter, KindDate, KindDecimal, KindDouble, KindDuration, KindFloat,
			KindSmallint, KindTime, KindTimestamp, KindTinyint, KindVarint:
			return true, false
		}
	case LitUUID:
		return t.Kind == KindUUID || t.Kind == KindTimeuuid, t.Kind == KindUUID
	case LitFloat:
		ok = t.Kind == KindDecimal || t.Kind == KindDouble || t.Kind == KindFloat
		return ok, t.Kind == KindDouble
	case LitBoolean:
		return t.Kind == KindBoolean, t.Kind == KindBoolean
	case LitHex:
		// Cassandra takes hexadecimal constants for tinyint first of all.
		return t.Kind == KindBlob || t.Kind == KindTinyint, t.Kind == KindTinyint
	case LitDuration:
		return t.Kind == KindDuration, t.Kind == KindDuration
	}
	return false, false
}

// LiteralType returns the natural type of a constant, by which Cassandra
// chooses among functions and calls an assignment exact: ascii or text, the
// smallest of int, bigint and varint, double where it holds the number exactly
// or else decimal, timeuuid or uuid, boolean, tinyint for hexadecimal, and
// duration. It is nil for null.
func LiteralType(kind LiteralKind, text string) *Type {
	switch kind {
	case LitString:
		if validateASCII([]byte(text)) == nil {
			return Ascii
		}
		return Text
	case LitInteger:
		if _, err := strconv.ParseInt(text, 10, 32); err == nil {
			return Int
		}
		if _, err := strconv.ParseInt(text, 10, 64); err == nil {
			return Bigint
		}
		return Varint
	case LitUUID:
		if u, err := ParseUUID(text); err == nil && u[6]>>4 == 1 {
			return Timeuuid
		}
		return UUID
	case LitFloat:
		return floatLiteralType(text)
	case LitBoolean:
		return Boolean
	case LitHex:
		return Tinyint
	case LitDuration:
		return Duration
	}
	return nil
}

func floatLiteralType(text string) *Type {
	v, ok := parseJavaFloat(text, 64)
	if ok && (math.IsNaN(v) || strings.HasSuffix(text, "Infinity")) {
		return Double
	}
	if !ok || math.IsInf(v, 0) {
		return Decimal
	}
	exact, err := ParseDecimal(text)
	rounded, err2 := ParseDecimal(string(appendJavaFloat(nil, v, 64)))
	if err == nil && err2 == nil && compareDecimal(exact.Encode(), rounded.Encode()) == 0 {
		return Double
	}
	return Decimal
}

// ParseLiteral turns a constant into t's binary form, or says as Cassandra
// does why it cannot ("Invalid STRING constant (x) for \"c\" of type int" is
// the caller's; this returns the inner reason).
func ParseLiteral(t *Type, kind LiteralKind, text string) ([]byte, error) {
	if kind != LitHex {
		return FromText(t, text)
	}
	b, err := parseHex(strings.TrimPrefix(strings.TrimPrefix(text, "0x"), "0X"))
	if err != nil {
		return nil, err
	}
	return b, Validate(t, b)
}

func parseHex(s string) ([]byte, error) {
	b, err := hex.DecodeString(s)
	if err != nil {
		return nil, marshalf("cannot parse '%s' as hex bytes", s)
	}
	return b, nil
}

// FromText reads a value's text form, as Cassandra's AbstractType.fromString:
// an empty text is the empty value of numbers, UUIDs, timestamps and inet.
func FromText(t *Type, s string) ([]byte, error) {
	switch t.Kind {
	case KindText:
		return []byte(s), nil
	case KindAscii:
		return parseASCII(s)
	case KindBlob, KindCustom, KindList, KindSet, KindMap, KindVector:
		return parseHex(s)
	case KindBoolean:
		switch {
		case s == "" || strings.EqualFold(s, "false"):
			return []byte{0}, nil
		case strings.EqualFold(s, "true"):
			return []byte{1}, nil
		}
		return nil, marshalf("Unable to make boolean from '%s'", s)
	case KindDate:
		return parseDate(s)
	case KindTime:
		return parseTime(s)
	case KindTuple, KindUDT:
		return tupleFromText(t, s)
	case KindEmpty:
		if s != "" {
			return nil, marshalf("'%s' is not empty", s)
		}
		return []byte{}, nil
	}
	if s == "" {
		return []byte{}, nil
	}
	switch t.Kind {
	case KindTimestamp:
		return parseTimestamp(s)
	case KindDuration:
		d, err := ParseDuration(s)
		if err != nil {
			return nil, err
		}
		return d.Encode(), nil
	case KindInet:
		if b, ok := parseInet(s); ok {
			return b, nil
		}
		return nil, marshalf("Unable to make inet address from '%s'", s)
	case KindUUID:
		u, err := ParseUUID(s)
		if err != nil {
			return nil, marshalf("Unable to make UUID from '%s'", s)
		}
		return u[:], nil
	case KindTimeuuid:
		return timeuuidFromText(s)
	}
	return numberFromText(t, s)
}

func parseASCII(s string) ([]byte, error) {
	for _, r := range s {
		if r < 0x80 {
			continue
		}
		units := 1
		if r > 0xFFFF {
			units = 2
		}
		return nil, marshalf("Invalid ASCII character in string literal: "+
			"java.nio.charset.UnmappableCharacterException: Input length = %d", units)
	}
	return []byte(s), nil
}

func timeuuidFromText(s string) ([]byte, error) {
	u, err := ParseUUID(s)
	if err != nil {
		return nil, marshalf("Unknown timeuuid representation: %s", s)
	}
	if u[6]>>4 != 1 {
		return nil, marshalf("TimeUUID supports only version 1 UUIDs")
	}
	return u[:], nil
}

func numberFromText(t *Type, s string) ([]byte, error) {
	switch t.Kind {
	case KindInt:
		v, err := strconv.ParseInt(s, 10, 32)
		if err != nil {
			return nil, marshalf("Unable to make int from '%s'", s)
		}
		return EncodeInt(int32(v)), nil
	case KindBigint, KindCounter:
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return nil, marshalf("Unable to make long from '%s'", s)
		}
		return EncodeBigint(v), nil
	case KindSmallint:
		v, err := strconv.ParseInt(s, 10, 16)
		if err != nil {
			return nil, marshalf("Unable to make short from '%s'", s)
		}
		return EncodeSmallint(int16(v)), nil
	case KindTinyint:
		v, err := strconv.ParseInt(s, 10, 8)
		if err != nil {
			return nil, marshalf("Unable to make byte from '%s'", s)
		}
		return EncodeTinyint(int8(v)), nil
	case KindVarint:
		v, err := parseVarint(s)
		if err != nil {
			return nil, marshalf("unable to make int from '%s'", s)
		}
		return EncodeVarint(v), nil
	case KindDecimal:
		d, err := ParseDecimal(s)
		if err != nil {
			return nil, marshalf("unable to make BigDecimal from '%s'", s)
		}
		return d.Encode(), nil
	case KindDouble:
		v, ok := parseJavaFloat(s, 64)
		if !ok {
			return nil, marshalf("Unable to make double from '%s'", s)
		}
		return EncodeBigint(int64(javaDoubleBits(v))), nil
	case KindFloat:
		v, ok := parseJavaFloat(s, 32)
		if !ok {
			return nil, marshalf("Unable to make float from '%s'", s)
		}
		return EncodeInt(int32(javaFloatBits(float32(v)))), nil
	}
	return nil, marshalf("values of type %s have no text form", t)
}

func javaDoubleBits(v float64) uint64 {
	if math.IsNaN(v) {
		return canonicalNaN64
	}
	return math.Float64bits(v)
}

func javaFloatBits(v float32) uint32 {
	if v != v {
		return canonicalNaN32
	}
	return math.Float32bits(v)
}

// tupleFromText reads fields between colons; @ is null, and a backslash
// before either takes it as it is.
func tupleFromText(t *Type, s string) ([]byte, error) {
	var fields []string
	if s != "" {
		start := 0
		for i := range len(s) {
			if s[i] == ':' && (i == 0 || s[i-1] != '\\') {
				fields = append(fields, s[start:i])
				start = i + 1
			}
		}
		fields = append(fields, s[start:])
	}
	if len(fields) > len(t.Elems) {
		return nil, marshalf("Invalid tuple literal: too many elements. Type %s expects %d but got %d",
			t, len(t.Elems), len(fields))
	}
	elems := make([][]byte, len(fields))
	for i, f := range fields {
		if f == "@" {
			continue
		}
		f = strings.ReplaceAll(strings.ReplaceAll(f, `\:`, ":"), `\@`, "@")
		b, err := FromText(t.Elems[i], f)
		if err != nil {
			return nil, err
		}
		elems[i] = b
	}
	return AppendTuple([]byte{}, elems), nil
}
