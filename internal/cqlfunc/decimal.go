package cqlfunc

import (
	"errors"
	"math"
	"math/big"
	"strconv"

	"varve/internal/cqltype"
)

// Decimal arithmetic as java.math.BigDecimal does it, with bounds: a decimal's
// exponent may be in the billions, and must never make us write that many digits.

type decimal = cqltype.DecimalValue

const (
	maxPrecision    = 10000 // digits of a result of + - *, as in Cassandra
	minScale        = 32    // digits after the point of a quotient, at least
	maxScale        = 1000
	minSignificant  = 32
	maxDigits       = 160_000 // of any number we are willing to write out
	errTooLargeText = "the result is too large"
)

var errTooLarge = errors.New(errTooLargeText)

// pow10 returns 10^n, n at most maxDigits or so.
func pow10(n int64) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil) }

// digits counts the decimal digits of v; 0 has one.
func digits(v *big.Int) int64 {
	if v.IsInt64() {
		i := v.Int64()
		n := len(strconv.FormatInt(i, 10))
		if i < 0 {
			n--
		}
		return int64(n)
	}
	// The bit length gives the digits but for one.
	n := int64(float64(v.BitLen()-1)*math.Log10(2)) + 1
	if new(big.Int).Abs(v).Cmp(pow10(n)) >= 0 {
		n++
	}
	return n
}

// newDecimal makes a decimal whose scale must fit.
func newDecimal(unscaled *big.Int, scale int64) (decimal, error) {
	if unscaled.Sign() == 0 {
		scale = max(math.MinInt32, min(math.MaxInt32, scale))
	}
	if scale != int64(int32(scale)) || unscaled.BitLen() > 8*cqltype.MaxNumberBytes {
		return decimal{}, errTooLarge
	}
	return decimal{Unscaled: unscaled, Scale: int32(scale)}, nil
}

// rescaled returns v × 10^by, by at least 0.
func rescaled(v *big.Int, by int64) (*big.Int, error) {
	if by == 0 || v.Sign() == 0 {
		return v, nil
	}
	if by > maxDigits {
		return nil, errTooLarge
	}
	return new(big.Int).Mul(v, pow10(by)), nil
}

// aligned returns both unscaled values at the larger of the two scales.
func aligned(a, b decimal) (x, y *big.Int, scale int64, err error) {
	x, y, scale = a.Unscaled, b.Unscaled, max(int64(a.Scale), int64(b.Scale))
	if x, err = rescaled(x, scale-int64(a.Scale)); err != nil {
		return nil, nil, 0, err
	}
	y, err = rescaled(y, scale-int64(b.Scale))
	return x, y, scale, err
}

// addExact adds without rounding.
func addExact(a, b decimal) (decimal, error) {
	x, y, scale, err := aligned(a, b)
	if err != nil {
		return decimal{}, err
	}
	return newDecimal(new(big.Int).Add(x, y), scale)
}

func negated(a decimal) decimal {
	return decimal{Unscaled: new(big.Int).Neg(a.Unscaled), Scale: a.Scale}
}

// add adds to maxPrecision digits. Of a number too small to matter only the
// sign is kept, which rounding needs.
func add(a, b decimal) (decimal, error) {
	if a.Unscaled.Sign() != 0 && b.Unscaled.Sign() != 0 && a.Scale != b.Scale {
		big, small := a, b
		if big.Scale > small.Scale {
			big, small = small, big
		}
		ulp := int64(big.Scale) - digits(big.Unscaled) + maxPrecision
		top := int64(small.Scale) - digits(small.Unscaled) + 1
		if top > int64(big.Scale)+2 && top > ulp+2 {
			scale := max(int64(big.Scale), ulp) + 3
			if scale > math.MaxInt32 {
				return decimal{}, errTooLarge
			}
			a, b = big, decimal{Unscaled: newInt(small.Unscaled.Sign()), Scale: int32(scale)}
		}
	} else if a.Unscaled.Sign() == 0 || b.Unscaled.Sign() == 0 {
		return addZero(a, b)
	}
	sum, err := addExact(a, b)
	if err != nil {
		return decimal{}, err
	}
	return round(sum, maxPrecision, false)
}

func newInt(v int) *big.Int { return big.NewInt(int64(v)) }

// addZero adds where one is zero: the other at the larger scale, as far as
// the digits suffice.
func addZero(a, b decimal) (decimal, error) {
	scale := max(int64(a.Scale), int64(b.Scale))
	v := a
	if a.Unscaled.Sign() == 0 {
		v = b
	}
	if v.Unscaled.Sign() == 0 {
		return decimal{Unscaled: new(big.Int), Scale: int32(scale)}, nil
	}
	r, err := round(v, maxPrecision, false)
	if err != nil || int64(r.Scale) >= scale {
		return r, err
	}
	by := min(scale-int64(r.Scale), maxPrecision-digits(r.Unscaled))
	x, err := rescaled(r.Unscaled, by)
	if err != nil {
		return decimal{}, err
	}
	return newDecimal(x, int64(r.Scale)+by)
}

func multiply(a, b decimal) (decimal, error) {
	p, err := newDecimal(new(big.Int).Mul(a.Unscaled, b.Unscaled), int64(a.Scale)+int64(b.Scale))
	if err != nil {
		return p, err
	}
	return round(p, maxPrecision, false)
}

// round rounds to that many digits, half up or half even.
func round(a decimal, precision int64, even bool) (decimal, error) {
	for {
		drop := digits(a.Unscaled) - precision
		if drop <= 0 {
			return a, nil
		}
		q := divRound(a.Unscaled, pow10(drop), even)
		var err error
		if a, err = newDecimal(q, int64(a.Scale)-drop); err != nil {
			return a, err
		}
	}
}

// divRound divides and rounds to the nearest, ties away from zero or to even.
func divRound(x, y *big.Int, even bool) *big.Int {
	q, r := new(big.Int).QuoRem(x, y, new(big.Int))
	if r.Sign() == 0 {
		return q
	}
	half := r.Abs(r).Lsh(r, 1).CmpAbs(y)
	if half > 0 || half == 0 && (!even || q.Bit(0) == 1) {
		q.Add(q, newInt(x.Sign()*y.Sign()))
	}
	return q
}

// divideAt divides to a scale, which is not negative beyond reason.
func divideAt(a, b decimal, scale int64, even bool) (decimal, error) {
	x, y := a.Unscaled, b.Unscaled
	if x.Sign() == 0 {
		return newDecimal(x, scale)
	}
	by := scale + int64(b.Scale) - int64(a.Scale)
	var err error
	if by >= 0 {
		x, err = rescaled(x, by)
	} else {
		y, err = rescaled(y, -by)
	}
	if err != nil {
		return decimal{}, err
	}
	return newDecimal(divRound(x, y, even), scale)
}

var errBigDivision = invalidf("BigInteger divide by zero")

// divide divides as CQL's / on decimals: at least 32 significant digits, and
// at least 32 but at most 1000 after the point.
func divide(a, b decimal) (decimal, error) {
	if b.Unscaled.Sign() == 0 {
		return decimal{}, errBigDivision
	}
	first := (digits(a.Unscaled) - int64(a.Scale)) - (digits(b.Unscaled) - int64(b.Scale))
	scale := max(minSignificant-first, int64(a.Scale), int64(b.Scale), minScale)
	q, err := divideAt(a, b, min(scale, maxScale), false)
	if err != nil {
		return q, err
	}
	return stripZeros(q, math.MinInt32), nil
}

// stripZeros takes zeros off the end as long as the scale stays above least.
func stripZeros(a decimal, least int64) decimal {
	if a.Unscaled.Sign() == 0 {
		return decimal{Unscaled: new(big.Int), Scale: int32(max(0, least))}
	}
	text := a.Unscaled.String()
	n := int64(0)
	for text[int64(len(text))-1-n] == '0' && int64(a.Scale)-n > least {
		n++
	}
	if n == 0 {
		return a
	}
	return decimal{Unscaled: new(big.Int).Quo(a.Unscaled, pow10(n)), Scale: a.Scale - int32(n)}
}

var errDivision = invalidf("Division by zero")

// remainder is a - b × (a / b cut to an integer).
func remainder(a, b decimal) (decimal, error) {
	if b.Unscaled.Sign() == 0 {
		return decimal{}, errDivision
	}
	x, y, scale, err := aligned(a, b)
	if err != nil {
		// The smaller is below the larger's last digit: either nothing is left
		// of a, or a is the remainder itself.
		if magnitude(a) < magnitude(b) {
			return a, nil
		}
		return decimal{}, err
	}
	q, r := new(big.Int).QuoRem(x, y, new(big.Int))
	// The quotient's own scale shows in the result's: 10 % 0.5 is 0, not 0.0.
	least := int64(a.Scale) - int64(b.Scale)
	quo := decimal{Unscaled: q}
	if q.Sign() == 0 {
		quo.Scale = int32(max(math.MinInt32, min(math.MaxInt32, least)))
	} else if least < 0 {
		quo = stripZeros(quo, max(least, math.MinInt32))
	}
	if want := max(int64(a.Scale), int64(quo.Scale)+int64(b.Scale)); want < scale {
		if r.Sign() != 0 {
			r.Quo(r, pow10(scale-want))
		}
		scale = want
	}
	return newDecimal(r, scale)
}

// magnitude is the exponent of the first digit.
func magnitude(a decimal) int64 {
	if a.Unscaled.Sign() == 0 {
		return math.MinInt64
	}
	return digits(a.Unscaled) - int64(a.Scale)
}

// integralPart cuts a decimal at the point.
func integralPart(a decimal) (*big.Int, error) {
	if a.Scale <= 0 {
		v, err := rescaled(a.Unscaled, -int64(a.Scale))
		if err == nil && v.BitLen() > 8*cqltype.MaxNumberBytes {
			err = errTooLarge
		}
		return v, err
	}
	if int64(a.Scale) > digits(a.Unscaled) {
		return new(big.Int), nil
	}
	return new(big.Int).Quo(a.Unscaled, pow10(int64(a.Scale))), nil
}

// roundToInteger rounds half up to scale 0.
func roundToInteger(a decimal) (decimal, error) {
	if a.Scale <= 0 {
		v, err := integralPart(a)
		return decimal{Unscaled: v}, err
	}
	if int64(a.Scale) > digits(a.Unscaled)+1 {
		return decimal{Unscaled: new(big.Int)}, nil
	}
	return decimal{Unscaled: divRound(a.Unscaled, pow10(int64(a.Scale)), false)}, nil
}

// decimalLong is the low 64 bits of the integral part.
func decimalLong(a decimal) int64 {
	if a.Scale <= -64 {
		return 0 // 10^64 is a multiple of 2^64
	}
	v, err := integralPart(a)
	if err != nil {
		return 0
	}
	return lowBits(v)
}

// decimalDouble is the nearest floating point number of that many bits.
func decimalDouble(a decimal, bits int) float64 {
	if m := magnitude(a); m < -400 {
		return 0
	} else if m > 400 {
		return math.Inf(a.Unscaled.Sign())
	}
	f, _ := strconv.ParseFloat(a.Unscaled.String()+"e"+strconv.FormatInt(-int64(a.Scale), 10), bits)
	return f
}
