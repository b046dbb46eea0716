package cqlfunc

import (
	"math"
	"math/big"

	"varve/internal/cqltype"
)

// addMath registers abs, exp, log, log10 and round for every numeric type.
func (r *registry) addMath() {
	for _, t := range numericTypes {
		for _, f := range mathFunctions {
			r.add(f.name, t, mathEval(f, t), t)
		}
	}
}

// mathFunction is one function on the three families of numbers.
type mathFunction struct {
	name    string
	integer func(int64) float64 // nil: the integer itself
	float   func(float64) float64
	varint  func(*big.Int) (*big.Int, error)
	decimal func(decimal) (decimal, error)
}

var mathFunctions = []mathFunction{
	{
		name: "abs", float: math.Abs,
		varint: func(v *big.Int) (*big.Int, error) { return new(big.Int).Abs(v), nil },
		decimal: func(d decimal) (decimal, error) {
			return decimal{Unscaled: new(big.Int).Abs(d.Unscaled), Scale: d.Scale}, nil
		},
	},
	{name: "exp", integer: ofFloat(math.Exp), float: math.Exp, varint: ofDecimal(expDecimal), decimal: expDecimal},
	{name: "log", integer: ofFloat(math.Log), float: math.Log, varint: ofDecimal(logDecimal), decimal: logDecimal},
	{name: "log10", integer: ofFloat(log10), float: log10, varint: ofDecimal(log10Decimal), decimal: log10Decimal},
	{
		name:    "round",
		varint:  func(v *big.Int) (*big.Int, error) { return v, nil },
		decimal: roundToInteger,
	},
}

func ofFloat(f func(float64) float64) func(int64) float64 {
	return func(v int64) float64 { return f(float64(v)) }
}

// log10 is exact for powers of ten, as Java's is.
func log10(x float64) float64 {
	l := math.Log10(x)
	if n := math.Round(l); n != l && n >= 0 && n <= 22 && math.Pow(10, n) == x {
		return n
	}
	return l
}

func ofDecimal(f func(decimal) (decimal, error)) func(*big.Int) (*big.Int, error) {
	return func(v *big.Int) (*big.Int, error) {
		d, err := f(decimal{Unscaled: v})
		if err != nil {
			return nil, err
		}
		return integralPart(d)
	}
}

func mathEval(f mathFunction, t *cqltype.Type) eval {
	return func(_ *Context, args [][]byte) ([]byte, error) {
		if anyNull(args) {
			return nil, nil
		}
		n := decode(t, args[0])
		b, err := f.apply(t, &n)
		if err != nil {
			return nil, failure(f.name, []*cqltype.Type{t}, err.Error())
		}
		return b, nil
	}
}

func (f *mathFunction) apply(t *cqltype.Type, n *number) ([]byte, error) {
	switch t.Kind {
	case cqltype.KindDecimal:
		d, err := f.decimal(n.dec)
		if err != nil {
			return nil, err
		}
		return d.Encode(), nil
	case cqltype.KindVarint:
		v, err := f.varint(n.big)
		if err != nil {
			return nil, err
		}
		return cqltype.EncodeVarint(v), nil
	case cqltype.KindFloat:
		if f.float == nil {
			return cqltype.EncodeFloat(float32(roundJava(n.f, math.MinInt32, math.MaxInt32))), nil
		}
		return cqltype.EncodeFloat(float32(f.float(n.f))), nil
	case cqltype.KindDouble:
		if f.float == nil {
			return cqltype.EncodeDouble(float64(roundJava(n.f, math.MinInt64, math.MaxInt64))), nil
		}
		return cqltype.EncodeDouble(f.float(n.f)), nil
	}
	switch {
	case f.integer != nil:
		x := number{kind: cqltype.KindDouble, f: f.integer(n.i)}
		return encodeInt(t, x.integer(t)), nil
	case f.name == "abs" && n.i < 0:
		return encodeInt(t, -n.i), nil
	}
	return encodeInt(t, n.i), nil
}

// roundJava is Math.round: up from one half, saturated.
func roundJava(f float64, lo, hi int64) int64 {
	if r := math.Floor(f); f-r < 0.5 || math.IsInf(f, 0) {
		return saturate(r, lo, hi)
	}
	return saturate(math.Floor(f)+1, lo, hi)
}
