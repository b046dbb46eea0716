package cql

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
)

// PostgreSQL's type numbers (pg_type.dat), as far as they can be moved.
const (
	oidBool        = 16
	oidBytea       = 17
	oidInt8        = 20
	oidInt2        = 21
	oidInt4        = 23
	oidText        = 25
	oidJSON        = 114
	oidFloat4      = 700
	oidFloat8      = 701
	oidInet        = 869
	oidBpchar      = 1042
	oidVarchar     = 1043
	oidDate        = 1082
	oidTime        = 1083
	oidTimestamp   = 1114
	oidTimestamptz = 1184
	oidNumeric     = 1700
	oidUUID        = 2950
	oidJSONB       = 3802
)

// Days and microseconds between 1970-01-01 and PostgreSQL's 2000-01-01.
const (
	epochDays   = 10957
	epochMicros = epochDays * 86400 * 1000000
)

// A conversion takes a value of one store to the other's form and back. Both
// directions are exact, or refuse the value.
type conversion struct {
	toCQL, toPG func(v []byte) ([]byte, error)
}

var errRange = errors.New("the value does not fit")

// conversions are the pairs of types between which values can move without
// loss. The exceptions (infinite dates, NaN as numeric, fractions of a
// millisecond) are refused value by value, the last by column where the type
// allows them.
var conversions = map[uint32]map[string]conversion{
	oidBool:        {"boolean": same(1)},
	oidBytea:       {"blob": anyBytes},
	oidText:        {"text": anyBytes},
	oidVarchar:     {"text": anyBytes},
	oidBpchar:      {"text": anyBytes},
	oidJSON:        {"text": anyBytes},
	oidJSONB:       {"text": {jsonbToText, textToJSONB}},
	oidUUID:        {"uuid": same(16)},
	oidInt2:        {"smallint": same(2), "int": integers(2, 4), "bigint": integers(2, 8)},
	oidInt4:        {"int": same(4), "bigint": integers(4, 8)},
	oidInt8:        {"bigint": same(8)},
	oidFloat4:      {"float": same(4), "double": {floatToDouble, doubleToFloat}},
	oidFloat8:      {"double": same(8)},
	oidNumeric:     {"decimal": {numericToDecimal, decimalToNumeric}},
	oidDate:        {"date": {dateToCQL, dateToPG}},
	oidTime:        {"time": {timeToCQL, timeToPG}},
	oidTimestamp:   {"timestamp": {microsToMillis, millisToMicros}, "bigint": {microsToUnix, unixToMicros}},
	oidTimestamptz: {"timestamp": {microsToMillis, millisToMicros}, "bigint": {microsToUnix, unixToMicros}},
	oidInet:        {"inet": {inetToCQL, inetToPG}},
}

var anyBytes = conversion{toCQL: identity, toPG: identity}

func identity(v []byte) ([]byte, error) { return v, nil }

func same(size int) conversion {
	check := func(v []byte) ([]byte, error) {
		if len(v) != size {
			return nil, fmt.Errorf("%d bytes instead of %d", len(v), size)
		}
		return v, nil
	}
	return conversion{toCQL: check, toPG: check}
}

// integers widens big-endian integers from one size to another, and narrows
// back those that fit.
func integers(from, to int) conversion {
	resize := func(size int) func(v []byte) ([]byte, error) {
		return func(v []byte) ([]byte, error) {
			n, err := integer(v)
			if err != nil {
				return nil, err
			}
			shift := 64 - 8*size
			if n<<shift>>shift != n {
				return nil, errRange
			}
			var b [8]byte
			binary.BigEndian.PutUint64(b[:], uint64(n))
			return append([]byte(nil), b[8-size:]...), nil
		}
	}
	return conversion{toCQL: resize(to), toPG: resize(from)}
}

func integer(v []byte) (int64, error) {
	switch len(v) {
	case 2:
		return int64(int16(binary.BigEndian.Uint16(v))), nil
	case 4:
		return int64(int32(binary.BigEndian.Uint32(v))), nil
	case 8:
		return int64(binary.BigEndian.Uint64(v)), nil
	}
	return 0, fmt.Errorf("%d bytes are no integer", len(v))
}

func big8(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

func floatToDouble(v []byte) ([]byte, error) {
	if len(v) != 4 {
		return nil, errRange
	}
	f := math.Float32frombits(binary.BigEndian.Uint32(v))
	return binary.BigEndian.AppendUint64(nil, math.Float64bits(float64(f))), nil
}

func doubleToFloat(v []byte) ([]byte, error) {
	if len(v) != 8 {
		return nil, errRange
	}
	d := math.Float64frombits(binary.BigEndian.Uint64(v))
	if f := float32(d); float64(f) == d || d != d {
		return binary.BigEndian.AppendUint32(nil, math.Float32bits(f)), nil
	}
	return nil, errRange
}

func jsonbToText(v []byte) ([]byte, error) {
	if len(v) < 1 || v[0] != 1 {
		return nil, errors.New("jsonb of an unknown version")
	}
	return v[1:], nil
}

func textToJSONB(v []byte) ([]byte, error) { return append([]byte{1}, v...), nil }

func dateToCQL(v []byte) ([]byte, error) {
	n, err := integer(v)
	if err != nil || n == math.MaxInt32 || n == math.MinInt32 {
		return nil, errRange
	}
	return binary.BigEndian.AppendUint32(nil, uint32(n+epochDays+1<<31)), nil
}

func dateToPG(v []byte) ([]byte, error) {
	if len(v) != 4 {
		return nil, errRange
	}
	n := int64(binary.BigEndian.Uint32(v)) - 1<<31 - epochDays
	if n <= math.MinInt32 {
		return nil, errRange
	}
	return binary.BigEndian.AppendUint32(nil, uint32(int32(n))), nil
}

const dayMicros = 86400 * 1000000

func timeToCQL(v []byte) ([]byte, error) {
	n, err := integer(v)
	if err != nil || n >= dayMicros { // PostgreSQL's 24:00:00
		return nil, errRange
	}
	return big8(n * 1000), nil
}

func timeToPG(v []byte) ([]byte, error) {
	n, err := integer(v)
	if err != nil || n%1000 != 0 {
		return nil, errRange
	}
	return big8(n / 1000), nil
}

func microsToUnix(v []byte) ([]byte, error) {
	n, err := integer(v)
	if err != nil || n == math.MaxInt64 || n == math.MinInt64 || n > math.MaxInt64-epochMicros {
		return nil, errRange
	}
	return big8(n + epochMicros), nil
}

func unixToMicros(v []byte) ([]byte, error) {
	n, err := integer(v)
	if err != nil || n < math.MinInt64+epochMicros+1 {
		return nil, errRange
	}
	return big8(n - epochMicros), nil
}

func microsToMillis(v []byte) ([]byte, error) {
	u, err := microsToUnix(v)
	if err != nil {
		return nil, err
	}
	n, _ := integer(u)
	if n%1000 != 0 {
		return nil, errors.New("a fraction of a millisecond would be lost")
	}
	return big8(n / 1000), nil
}

func millisToMicros(v []byte) ([]byte, error) {
	n, err := integer(v)
	if err != nil || n > math.MaxInt64/1000 || n < math.MinInt64/1000 {
		return nil, errRange
	}
	return unixToMicros(big8(n * 1000))
}

// inetToCQL: PostgreSQL sends family, prefix length, whether it is a cidr,
// length, address (network.c); CQL knows addresses alone.
func inetToCQL(v []byte) ([]byte, error) {
	if len(v) < 4 || len(v) != 4+int(v[3]) || int(v[1]) != 8*int(v[3]) || v[2] != 0 {
		return nil, errors.New("a network, not an address")
	}
	return v[4:], nil
}

func inetToPG(v []byte) ([]byte, error) {
	family := byte(2)
	if len(v) == 16 {
		family = 3
	} else if len(v) != 4 {
		return nil, errRange
	}
	return append([]byte{family, byte(8 * len(v)), 0, byte(len(v))}, v...), nil
}

const (
	numericNegative = 0x4000
	numericSpecial  = 0xC000
	maxScale        = 16383 // of PostgreSQL's numeric
)

// numericToDecimal reads digits in base 10,000, the power of the first one,
// the sign, and how many decimal places are shown (numeric_send).
func numericToDecimal(v []byte) ([]byte, error) {
	if len(v) < 8 {
		return nil, errRange
	}
	digits := int(binary.BigEndian.Uint16(v))
	weight := int(int16(binary.BigEndian.Uint16(v[2:])))
	sign := binary.BigEndian.Uint16(v[4:])
	scale := int(binary.BigEndian.Uint16(v[6:]))
	if sign >= numericSpecial || len(v) != 8+2*digits {
		return nil, errors.New("NaN and infinity have no decimal")
	}
	n, base := new(big.Int), big.NewInt(10000)
	for i := range digits {
		n.Mul(n, base)
		n.Add(n, big.NewInt(int64(binary.BigEndian.Uint16(v[8+2*i:]))))
	}
	// n counts units of 10000^(weight-digits+1); wanted are units of 10^-scale.
	if power := 4*(weight-digits+1) + scale; power >= 0 {
		n.Mul(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(power)), nil))
	} else {
		n.Quo(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-power)), nil))
	}
	if sign == numericNegative {
		n.Neg(n)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(scale)), twosComplement(n)...), nil
}

// decimalToNumeric is the way back; a negative scale becomes zeros.
func decimalToNumeric(v []byte) ([]byte, error) {
	if len(v) < 5 {
		return nil, errRange
	}
	scale := int(int32(binary.BigEndian.Uint32(v)))
	n := fromTwosComplement(v[4:])
	if scale < -maxScale || scale > maxScale || n.BitLen() > 8*maxScale {
		return nil, errRange
	}
	if scale < 0 {
		n.Mul(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-scale)), nil))
		scale = 0
	}
	var sign uint16
	if n.Sign() < 0 {
		sign = numericNegative
		n.Neg(n)
	}
	// Digits of four, aligned at the decimal point.
	after := (scale + 3) / 4
	n.Mul(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(4*after-scale)), nil))
	var digits []uint16
	base, rest := big.NewInt(10000), new(big.Int)
	for n.Sign() > 0 {
		n.QuoRem(n, base, rest)
		digits = append(digits, uint16(rest.Int64()))
	}
	weight := len(digits) - after - 1
	low := 0
	for low < len(digits) && digits[low] == 0 {
		low++
	}
	digits = digits[low:]
	if len(digits) == 0 {
		weight = 0
	}
	out := binary.BigEndian.AppendUint16(nil, uint16(len(digits)))
	out = binary.BigEndian.AppendUint16(out, uint16(int16(weight)))
	out = binary.BigEndian.AppendUint16(out, sign)
	out = binary.BigEndian.AppendUint16(out, uint16(scale))
	for i := len(digits) - 1; i >= 0; i-- {
		out = binary.BigEndian.AppendUint16(out, digits[i])
	}
	return out, nil
}

// twosComplement is the shortest big-endian form, as CQL's varint.
func twosComplement(n *big.Int) []byte {
	if n.Sign() >= 0 {
		b := n.Bytes()
		if len(b) == 0 || b[0]&0x80 != 0 {
			b = append([]byte{0}, b...)
		}
		return b
	}
	size := new(big.Int).Not(n).BitLen()/8 + 1
	return new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(8*size))).FillBytes(make([]byte, size))
}

func fromTwosComplement(b []byte) *big.Int {
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return n
}
