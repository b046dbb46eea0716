package cqlfunc

import (
	"math"
	"math/big"

	"varve/internal/cqltype"
)

// numericTypes are the types of arithmetic.
var numericTypes = []*cqltype.Type{
	cqltype.Tinyint, cqltype.Smallint, cqltype.Int, cqltype.Bigint, cqltype.Float, cqltype.Double,
	cqltype.Decimal, cqltype.Varint, cqltype.Counter,
}

func isNumeric(t *cqltype.Type) bool {
	for _, n := range numericTypes {
		if t.Kind == n.Kind {
			return true
		}
	}
	return false
}

// number is a decoded numeric value of one of three families.
type number struct {
	kind cqltype.Kind
	i    int64 // tinyint, smallint, int, bigint, counter
	f    float64
	big  *big.Int             // varint
	dec  cqltype.DecimalValue // decimal
}

// decode reads a non-empty numeric value.
func decode(t *cqltype.Type, b []byte) number {
	n := number{kind: t.Kind}
	switch t.Kind {
	case cqltype.KindTinyint:
		n.i = int64(cqltype.DecodeTinyint(b))
	case cqltype.KindSmallint:
		n.i = int64(cqltype.DecodeSmallint(b))
	case cqltype.KindInt:
		n.i = int64(cqltype.DecodeInt(b))
	case cqltype.KindBigint, cqltype.KindCounter:
		n.i = cqltype.DecodeBigint(b)
	case cqltype.KindFloat:
		n.f = float64(cqltype.DecodeFloat(b))
	case cqltype.KindDouble:
		n.f = cqltype.DecodeDouble(b)
	case cqltype.KindVarint:
		n.big = cqltype.DecodeVarint(b)
	case cqltype.KindDecimal:
		n.dec = cqltype.DecodeDecimal(b)
	}
	return n
}

// encodeInt writes the low bits of v as t.
func encodeInt(t *cqltype.Type, v int64) []byte {
	switch t.Kind {
	case cqltype.KindTinyint:
		return cqltype.EncodeTinyint(int8(v))
	case cqltype.KindSmallint:
		return cqltype.EncodeSmallint(int16(v))
	case cqltype.KindInt:
		return cqltype.EncodeInt(int32(v))
	}
	return cqltype.EncodeBigint(v)
}

// long is the number as a 64-bit integer, as Java's Number.longValue: low
// bits of integers, decimals cut at the point, floats saturated.
func (n *number) long() int64 {
	switch n.kind {
	case cqltype.KindFloat, cqltype.KindDouble:
		return saturate(n.f, math.MinInt64, math.MaxInt64)
	case cqltype.KindVarint:
		return lowBits(n.big)
	case cqltype.KindDecimal:
		return decimalLong(n.dec)
	}
	return n.i
}

// integer is the number as an integer of t's width; narrower ones than int
// come from Java's int, so that 300.0 as tinyint is 44.
func (n *number) integer(t *cqltype.Type) int64 {
	if (n.kind == cqltype.KindFloat || n.kind == cqltype.KindDouble) && t.Kind != cqltype.KindBigint && t.Kind != cqltype.KindCounter {
		return saturate(n.f, math.MinInt32, math.MaxInt32)
	}
	return n.long()
}

// saturate is Java's conversion of a floating point number to an integer.
func saturate(f float64, lo, hi int64) int64 {
	switch {
	case math.IsNaN(f):
		return 0
	case f >= float64(hi):
		return hi
	case f <= float64(lo):
		return lo
	}
	return int64(f)
}

// lowBits returns the low 64 bits in two's complement.
func lowBits(v *big.Int) int64 {
	if v.IsInt64() {
		return v.Int64()
	}
	mask := new(big.Int).SetUint64(math.MaxUint64)
	return int64(mask.And(mask, v).Uint64())
}

// double is the number as Java's Number.doubleValue.
func (n *number) double() float64 {
	switch n.kind {
	case cqltype.KindFloat, cqltype.KindDouble:
		return n.f
	case cqltype.KindVarint:
		f, _ := new(big.Float).SetInt(n.big).Float64()
		return f
	case cqltype.KindDecimal:
		return decimalDouble(n.dec, 64)
	}
	return float64(n.i)
}

// float is the number as Java's Number.floatValue.
func (n *number) float() float32 {
	switch n.kind {
	case cqltype.KindFloat, cqltype.KindDouble:
		return float32(n.f)
	case cqltype.KindVarint:
		f, _ := new(big.Float).SetInt(n.big).Float32()
		return f
	case cqltype.KindDecimal:
		return float32(decimalDouble(n.dec, 32))
	}
	return float32(n.i)
}

// integral is the number as an unbounded integer: of a varint itself, of
// others what fits in 64 bits.
func (n *number) integral() *big.Int {
	if n.kind == cqltype.KindVarint {
		return n.big
	}
	return big.NewInt(n.long())
}

var (
	errNaNDecimal      = invalidf("A NaN cannot be converted into a decimal")
	errInfiniteDecimal = invalidf("An infinite number cannot be converted into a decimal")
)

// decimal is the number as an operand of decimal arithmetic. Integers take the
// way over double, as in Cassandra: 1 becomes 1.0.
func (n *number) decimal() (cqltype.DecimalValue, error) {
	switch n.kind {
	case cqltype.KindDecimal:
		return n.dec, nil
	case cqltype.KindVarint:
		return cqltype.DecimalValue{Unscaled: n.big}, nil
	}
	return doubleDecimal(n.double(), cqltype.Double)
}

// doubleDecimal returns the decimal that a float's or double's text is.
func doubleDecimal(f float64, t *cqltype.Type) (cqltype.DecimalValue, error) {
	switch {
	case math.IsNaN(f):
		return cqltype.DecimalValue{}, errNaNDecimal
	case math.IsInf(f, 0):
		return cqltype.DecimalValue{}, errInfiniteDecimal
	}
	b := cqltype.EncodeDouble(f)
	if t.Kind == cqltype.KindFloat {
		b = cqltype.EncodeFloat(float32(f))
	}
	return cqltype.ParseDecimal(string(cqltype.AppendText(nil, t, b)))
}
