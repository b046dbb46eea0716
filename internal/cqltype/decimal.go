package cqltype

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// MaxNumberBytes is the longest varint, and the longest unscaled part of a
// decimal, that Validate accepts. Cassandra has no limit here; ours keeps one
// number's conversion to text in the range of milliseconds.
const MaxNumberBytes = 65536

// maxNumberDigits is as many decimal digits as MaxNumberBytes can hold.
const maxNumberDigits = 157827

// DecimalValue is the number Unscaled × 10^-Scale.
type DecimalValue struct {
	Unscaled *big.Int
	Scale    int32
}

// Encode returns d in binary form: the scale, then the unscaled value as a varint.
func (d DecimalValue) Encode() []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(d.Scale))
	return AppendVarint(b, d.Unscaled)
}

// DecodeDecimal reads a decimal; an empty value is 0.
func DecodeDecimal(b []byte) DecimalValue {
	if len(b) < 4 {
		return DecimalValue{Unscaled: new(big.Int)}
	}
	return DecimalValue{Unscaled: DecodeVarint(b[4:]), Scale: int32(binary.BigEndian.Uint32(b))}
}

// EncodeVarint returns v as a varint: the shortest big-endian two's complement.
func EncodeVarint(v *big.Int) []byte { return AppendVarint(nil, v) }

// AppendVarint appends v as a varint.
func AppendVarint(dst []byte, v *big.Int) []byte {
	if v.IsInt64() {
		return appendVarint64(dst, v.Int64())
	}
	if v.Sign() > 0 {
		if v.BitLen()%8 == 0 {
			dst = append(dst, 0)
		}
		return append(dst, v.Bytes()...)
	}
	// -x is the complement of x-1; its top bit must be 0 before complementing.
	m := new(big.Int).Not(v)
	if m.BitLen()%8 == 0 {
		dst = append(dst, 0xFF)
	}
	start := len(dst)
	dst = append(dst, m.Bytes()...)
	for i := start; i < len(dst); i++ {
		dst[i] = ^dst[i]
	}
	return dst
}

func appendVarint64(dst []byte, v int64) []byte {
	n := 1
	for n < 8 && v>>(8*n-1) != v>>63 {
		n++
	}
	for i := n - 1; i >= 0; i-- {
		dst = append(dst, byte(v>>(8*i)))
	}
	return dst
}

// DecodeVarint reads a varint; an empty value is 0.
func DecodeVarint(b []byte) *big.Int {
	if v, ok := varint64(b); ok {
		return big.NewInt(v)
	}
	if b[0] < 0x80 {
		return new(big.Int).SetBytes(b)
	}
	c := make([]byte, len(b))
	for i, x := range b {
		c[i] = ^x
	}
	v := new(big.Int).SetBytes(c)
	return v.Not(v)
}

// varint64 reads a varint of at most 8 bytes.
func varint64(b []byte) (int64, bool) {
	if len(b) > 8 {
		return 0, false
	}
	if len(b) == 0 {
		return 0, true
	}
	v := int64(int8(b[0]))
	for _, c := range b[1:] {
		v = v<<8 | int64(c)
	}
	return v, true
}

// trimVarint drops bytes that only repeat the sign.
func trimVarint(b []byte) []byte {
	for len(b) > 1 && (b[0] == 0 && b[1] < 0x80 || b[0] == 0xFF && b[1] >= 0x80) {
		b = b[1:]
	}
	return b
}

// compareVarint orders two varints, whatever sign bytes lead them; empty is first.
func compareVarint(a, b []byte) int {
	if len(a) == 0 || len(b) == 0 {
		return boolCompare(len(a) > 0, len(b) > 0)
	}
	a, b = trimVarint(a), trimVarint(b)
	negA, negB := a[0] >= 0x80, b[0] >= 0x80
	if negA != negB {
		return boolCompare(negB, negA)
	}
	if len(a) != len(b) {
		longer := boolCompare(len(a) > len(b), len(a) < len(b))
		if negA {
			return -longer
		}
		return longer
	}
	return bytes.Compare(a, b)
}

// varintDigits returns the sign and the decimal digits of a varint ("0" for
// zero), appending the digits to buf.
func varintDigits(buf, b []byte) (neg bool, digits []byte) {
	if v, ok := varint64(b); ok {
		if v < 0 {
			return true, strconv.AppendUint(buf, -uint64(v), 10)
		}
		return false, strconv.AppendUint(buf, uint64(v), 10)
	}
	v := DecodeVarint(b)
	neg = v.Sign() < 0
	return neg, v.Abs(v).Append(buf, 10)
}

// decimalParts takes a non-empty decimal apart: sign (-1, 0, 1), significant
// digits without zeros at the end, and the exponent e of 0.d₁d₂… × 10^e.
func decimalParts(buf, b []byte) (sign int, digits []byte, exponent int64) {
	scale := int64(int32(binary.BigEndian.Uint32(b)))
	neg, digits := varintDigits(buf, b[4:])
	if digits[0] == '0' {
		return 0, nil, 0
	}
	sign = 1
	if neg {
		sign = -1
	}
	exponent = int64(len(digits)) - scale
	for digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
	}
	return sign, digits, exponent
}

// compareDecimal orders decimals by value without ever scaling one of them
// up, so that exponents of billions cost nothing.
func compareDecimal(a, b []byte) int {
	if len(a) < 4 || len(b) < 4 {
		return boolCompare(len(a) > 0, len(b) > 0)
	}
	var bufA, bufB [20]byte
	signA, digitsA, expA := decimalParts(bufA[:0], a)
	signB, digitsB, expB := decimalParts(bufB[:0], b)
	switch {
	case signA != signB:
		return boolCompare(signA > signB, signA < signB)
	case signA == 0:
		return 0
	case expA != expB:
		return signA * boolCompare(expA > expB, expA < expB)
	}
	return signA * bytes.Compare(digitsA, digitsB)
}

// appendDecimalText writes a non-empty decimal as java.math.BigDecimal.toString
// does: scientific notation where the scale is negative or six zeros would
// follow the point, so that a huge exponent never makes a long text.
func appendDecimalText(dst, b []byte) []byte {
	scale := int64(int32(binary.BigEndian.Uint32(b)))
	var buf [20]byte
	neg, digits := varintDigits(buf[:0], b[4:])
	if neg {
		dst = append(dst, '-')
	}
	adjusted := int64(len(digits)) - 1 - scale
	switch {
	case scale == 0:
		return append(dst, digits...)
	case scale > 0 && adjusted >= -6:
		point := int64(len(digits)) - scale
		if point > 0 {
			dst = append(dst, digits[:point]...)
			return append(append(dst, '.'), digits[point:]...)
		}
		dst = append(dst, '0', '.')
		for ; point < 0; point++ {
			dst = append(dst, '0')
		}
		return append(dst, digits...)
	}
	dst = append(dst, digits[0])
	if len(digits) > 1 {
		dst = append(append(dst, '.'), digits[1:]...)
	}
	if adjusted == 0 {
		return dst
	}
	dst = append(dst, 'E')
	if adjusted > 0 {
		dst = append(dst, '+')
	}
	return strconv.AppendInt(dst, adjusted, 10)
}

// parseVarint reads digits with an optional sign.
func parseVarint(s string) (*big.Int, error) {
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 || digits == "" || !allDigits(digits) {
		return nil, errNotNumber
	}
	if len(digits) > maxNumberDigits {
		return nil, marshalf("number has more than %d digits", maxNumberDigits)
	}
	v, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return nil, errNotNumber
	}
	return v, nil
}

var errNotNumber = marshalf("not a number")

// ParseDecimal reads what java.math.BigDecimal does: sign, digits with a
// point, and an exponent whose scale must fit 32 bits.
func ParseDecimal(s string) (DecimalValue, error) {
	mantissa, exponent := s, int64(0)
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa = s[:i]
		e, err := strconv.ParseInt(s[i+1:], 10, 32)
		if err != nil {
			return DecimalValue{}, errNotNumber
		}
		exponent = e
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	if !allDigits(fraction) || strings.TrimLeft(whole, "+-") == "" && fraction == "" {
		return DecimalValue{}, errNotNumber
	}
	if whole == "" || whole == "-" || whole == "+" {
		whole += "0"
	}
	v, err := parseVarint(whole + fraction)
	if err != nil {
		return DecimalValue{}, err
	}
	scale := int64(len(fraction)) - exponent
	if scale < math.MinInt32 || scale > math.MaxInt32 {
		return DecimalValue{}, errNotNumber
	}
	return DecimalValue{Unscaled: v, Scale: int32(scale)}, nil
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
