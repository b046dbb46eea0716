package cqlfunc

import (
	"math"
	"math/big"

	"varve/internal/cqltype"
)

// exp and logarithms of decimals, to as many digits as the argument has, at
// least 32 and at most maxPrecision.

var (
	errLogDomain   = invalidf("Natural log of number zero or less")
	errLog10Domain = invalidf("Log10 of number zero or less")
)

// expLimit keeps the exponent of a result within a decimal's scale.
const expLimit = 4.9e9

func precisionFor(d decimal) int64 {
	return min(maxPrecision, max(minSignificant, digits(d.Unscaled)))
}

// bitsFor is the working precision for that many digits.
func bitsFor(precision int64) uint { return uint(float64(precision)*math.Log2(10)) + 64 }

// toFloat converts a decimal whose scale is no larger than numbers are long.
func toFloat(d decimal, prec uint) *big.Float {
	f := new(big.Float).SetPrec(prec).SetInt(d.Unscaled)
	if d.Scale == 0 {
		return f
	}
	p := new(big.Float).SetPrec(prec + 32).SetInt(pow10(int64(max(d.Scale, -d.Scale))))
	if d.Scale > 0 {
		return f.Quo(f, p)
	}
	return f.Mul(f, p)
}

// fromFloat rounds to that many significant digits.
func fromFloat(f *big.Float, precision int64) (decimal, error) {
	d, err := cqltype.ParseDecimal(f.Text('e', int(precision)-1))
	if err != nil {
		return d, errTooLarge
	}
	return d, nil
}

func expDecimal(d decimal) (decimal, error) {
	if d.Unscaled.Sign() == 0 {
		return decimal{Unscaled: newInt(1)}, nil
	}
	precision := precisionFor(d)
	switch m := magnitude(d); {
	case m > 11:
		return decimal{}, errTooLarge
	case m < -2*maxPrecision:
		// 1 + d is 1 to any precision asked for.
		return add(decimal{Unscaled: newInt(1)}, decimal{Unscaled: newInt(d.Unscaled.Sign()), Scale: int32(2 * precision)})
	}
	x := toFloat(d, bitsFor(precision)+64)
	f, _ := x.Float64()
	if math.Abs(f) > expLimit {
		return decimal{}, errTooLarge
	}
	// Powers of ten go to the scale, so that the rest stays small.
	tens := int64(f / math.Ln10)
	if tens != 0 {
		ten := logFloat(new(big.Float).SetPrec(x.Prec()).SetInt64(10), x.Prec())
		x.Sub(x, ten.Mul(ten, new(big.Float).SetInt64(tens)))
	}
	e, err := fromFloat(expFloat(x), precision)
	if err != nil {
		return e, err
	}
	return newDecimal(e.Unscaled, int64(e.Scale)-tens)
}

// expFloat computes e^x: x is halved until the series converges fast, and the
// sum squared as often.
func expFloat(x *big.Float) *big.Float {
	prec := x.Prec()
	halvings := max(0, x.MantExp(nil)+int(math.Sqrt(float64(prec))/2)+4)
	work := prec + uint(halvings) + 16
	r := new(big.Float).SetPrec(work).SetMantExp(new(big.Float).SetPrec(work).Set(x), -halvings)
	sum := new(big.Float).SetPrec(work).SetInt64(1)
	term := new(big.Float).SetPrec(work).SetInt64(1)
	for n := int64(1); ; n++ {
		term.Mul(term, r)
		term.Quo(term, new(big.Float).SetInt64(n))
		if term.Sign() == 0 || term.MantExp(nil) < -int(work) {
			break
		}
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum.SetPrec(prec)
}

// logFloat computes ln x for x of moderate size by Halley's iteration, which
// triples the good bits each time; the working precision grows with them.
func logFloat(x *big.Float, prec uint) *big.Float {
	guess, _ := x.Float64()
	near, _ := new(big.Float).SetPrec(prec).Sub(x, big.NewFloat(1)).Float64()
	y := new(big.Float)
	if near > -0.5 && near < 1 {
		y.SetFloat64(math.Log1p(near))
	} else {
		y.SetFloat64(math.Log(guess))
	}
	for good := uint(45); ; {
		good *= 3
		work := min(prec, good+128)
		y.SetPrec(work)
		e := expFloat(y)
		num := new(big.Float).SetPrec(work).Sub(x, e)
		den := new(big.Float).SetPrec(work).Add(x, e)
		num.Add(num, num)
		y.Add(y, num.Quo(num, den))
		if good > prec {
			return y
		}
	}
}

// ln returns ln d with bits of working precision beyond the digits wanted.
func ln(d decimal, precision int64) (*big.Float, error) {
	m := magnitude(d)
	if m != 0 && m != 1 {
		// d = mantissa · 10^(m-1) with a mantissa from 1 to 10.
		prec := bitsFor(precision) + 64
		x := toFloat(decimal{Unscaled: d.Unscaled, Scale: int32(digits(d.Unscaled) - 1)}, prec)
		tens := logFloat(new(big.Float).SetPrec(prec).SetInt64(10), prec)
		tens.Mul(tens, new(big.Float).SetPrec(prec).SetInt64(m-1))
		return tens.Add(tens, logFloat(x, prec)), nil
	}
	// Near 1 the logarithm is as small as the difference, whose digits must all be seen.
	apart, err := addExact(d, decimal{Unscaled: newInt(-1)})
	if err != nil {
		return nil, err
	}
	prec := bitsFor(precision+max(0, -magnitude(apart))) + 64
	return logFloat(toFloat(d, prec), prec), nil
}

func isOne(d decimal) bool {
	if magnitude(d) != 1 {
		return false
	}
	s := stripZeros(d, math.MinInt32)
	return s.Scale == 0 && s.Unscaled.IsInt64() && s.Unscaled.Int64() == 1
}

func logDecimal(d decimal) (decimal, error) {
	if d.Unscaled.Sign() <= 0 {
		return decimal{}, errLogDomain
	}
	if isOne(d) {
		return decimal{Unscaled: new(big.Int)}, nil
	}
	precision := precisionFor(d)
	l, err := ln(d, precision)
	if err != nil {
		return decimal{}, err
	}
	return fromFloat(l, precision)
}

// log10Decimal divides logarithms of two digits more, as Cassandra's library
// does: that shows in the scale of whole results.
func log10Decimal(d decimal) (decimal, error) {
	if d.Unscaled.Sign() <= 0 {
		return decimal{}, errLog10Domain
	}
	precision := precisionFor(d)
	if isOne(d) {
		return decimal{Unscaled: new(big.Int), Scale: int32(-precision - 1)}, nil
	}
	l, err := ln(d, precision+2)
	if err != nil {
		return decimal{}, err
	}
	top, err := fromFloat(l, precision+2)
	if err != nil {
		return decimal{}, err
	}
	ten, err := fromFloat(logFloat(new(big.Float).SetPrec(l.Prec()).SetInt64(10), l.Prec()), precision+2)
	if err != nil {
		return decimal{}, err
	}
	q, err := quotient(top, ten, precision+2)
	if err != nil {
		return decimal{}, err
	}
	return round(q, precision, true)
}

// quotient divides to that many digits, half even. Where it comes out even,
// zeros go off the end down to the difference of the scales.
func quotient(a, b decimal, precision int64) (decimal, error) {
	scale := precision - (magnitude(a) - magnitude(b))
	q, err := divideAt(a, b, scale, true)
	if err != nil {
		return q, err
	}
	back, err := multiply(q, b)
	if err != nil {
		return q, err
	}
	if diff, err := addExact(back, negated(a)); err == nil && diff.Unscaled.Sign() == 0 {
		return stripZeros(q, int64(a.Scale)-int64(b.Scale)), nil
	}
	return round(q, precision, true)
}
