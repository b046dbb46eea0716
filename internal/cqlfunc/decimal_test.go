package cqlfunc

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"varve/internal/cqltype"
)

func genDecimal() *rapid.Generator[decimal] {
	return rapid.Custom(func(t *rapid.T) decimal {
		text := rapid.StringMatching(`-?[0-9]{1,40}`).Draw(t, "digits")
		v, _ := new(big.Int).SetString(text, 10)
		return decimal{Unscaled: v, Scale: rapid.Int32Range(-40, 60).Draw(t, "scale")}
	})
}

func rat(d decimal) *big.Rat {
	r := new(big.Rat).SetInt(d.Unscaled)
	p := new(big.Rat).SetInt(pow10(int64(max(d.Scale, -d.Scale))))
	if d.Scale < 0 {
		return r.Mul(r, p)
	}
	return r.Quo(r, p)
}

// TestDecimalsAgainstRationals checks arithmetic with exact fractions.
func TestDecimalsAgainstRationals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genDecimal().Draw(t, "a"), genDecimal().Draw(t, "b")
		check := func(name string, got decimal, err error, want *big.Rat) {
			if err != nil || rat(got).Cmp(want) != 0 {
				t.Fatalf("%s: %v %v, want %s", name, got, err, want)
			}
		}
		sum, err := add(a, b)
		check("add", sum, err, new(big.Rat).Add(rat(a), rat(b)))
		product, err := multiply(a, b)
		check("multiply", product, err, new(big.Rat).Mul(rat(a), rat(b)))
		if b.Unscaled.Sign() == 0 {
			return
		}
		exact := new(big.Rat).Quo(rat(a), rat(b))
		whole := new(big.Rat).SetInt(new(big.Int).Quo(exact.Num(), exact.Denom()))
		rem, err := remainder(a, b)
		check("remainder", rem, err, new(big.Rat).Sub(rat(a), whole.Mul(whole, rat(b))))
		q, err := divide(a, b)
		if err != nil {
			t.Fatal(err)
		}
		// The quotient is right to half a unit in the 32nd digit, or in the 32nd after the point.
		diff := new(big.Rat).Sub(rat(q), exact)
		ulp := new(big.Rat).SetFrac(big.NewInt(1), pow10(minScale))
		if diff.Abs(diff).Cmp(ulp) > 0 {
			t.Fatalf("divide: %v is off by %s", q, diff)
		}
	})
}

// TestHugeExponents keeps numbers with exponents in the billions from costing
// time or memory: it would not end, or be killed, if one number were written out.
func TestHugeExponents(t *testing.T) {
	values := []decimal{
		{Unscaled: big.NewInt(1), Scale: math.MaxInt32},
		{Unscaled: big.NewInt(1), Scale: math.MinInt32},
		{Unscaled: big.NewInt(-7), Scale: math.MinInt32 + 1},
		{Unscaled: big.NewInt(0), Scale: math.MaxInt32},
		{Unscaled: big.NewInt(0), Scale: math.MinInt32},
		{Unscaled: big.NewInt(12345), Scale: 2},
		{Unscaled: new(big.Int).Lsh(big.NewInt(1), 8*cqltype.MaxNumberBytes-2), Scale: -5},
	}
	for _, a := range values {
		for _, f := range mathFunctions {
			_, _ = f.decimal(a)
		}
		for _, to := range []*cqltype.Type{cqltype.Int, cqltype.Varint, cqltype.Double, cqltype.Float, cqltype.Text} {
			fn, err := Cast(cqltype.Decimal, to)
			if err != nil {
				t.Fatal(err)
			}
			if v, err := fn.Eval(&testContext, [][]byte{a.Encode()}); err == nil && cqltype.Validate(to, v) != nil {
				t.Errorf("cast of %v to %s: %x", a, to, v)
			}
		}
		for _, b := range values {
			for _, op := range []byte("+-*/%") {
				x, y := number{kind: cqltype.KindDecimal, dec: a}, number{kind: cqltype.KindDecimal, dec: b}
				v, err := operate(op, cqltype.Decimal, &x, &y)
				if err == nil && cqltype.Validate(cqltype.Decimal, v) != nil {
					t.Errorf("%v %c %v: invalid result", a, op, b)
				}
			}
			s := averageOf(cqltype.Decimal)()
			_ = s.Add([][]byte{a.Encode()})
			_ = s.Add([][]byte{b.Encode()})
		}
	}
}

func TestLogarithmInvertsExponential(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := decimal{Unscaled: big.NewInt(rapid.Int64Range(-1e12, 1e12).Draw(t, "x")), Scale: rapid.Int32Range(10, 14).Draw(t, "scale")}
		e, err := expDecimal(x)
		if err != nil {
			t.Fatal(err)
		}
		l, err := logDecimal(e)
		if err != nil {
			t.Fatal(err)
		}
		diff := new(big.Rat).Sub(rat(l), rat(x))
		if diff.Abs(diff).Cmp(new(big.Rat).SetFrac(big.NewInt(1), pow10(28))) > 0 {
			t.Fatalf("ln e^%v = %v", x, l)
		}
	})
}
