package cqlfunc

import (
	"errors"
	"fmt"
	"math"
	"math/big"

	"varve/internal/cqltype"
)

// operators are the arithmetic operators and the functions behind them.
var operators = []struct {
	op   byte
	name string
}{
	{'+', "_add"}, {'-', "_substract"}, {'*', "_multiply"}, {'/', "_divide"}, {'%', "_modulo"},
}

const negation = "_negate"

// addOperations registers the functions behind arithmetic.
func (r *registry) addOperations() {
	for _, l := range numericTypes {
		for _, right := range numericTypes {
			ret := widest(l, right)
			for _, o := range operators {
				r.add(o.name, ret, numericOperation(o.op, l, right, ret), l, right)
			}
		}
		r.add(negation, l, negate(l), l)
	}
	for _, t := range []*cqltype.Type{cqltype.Timestamp, cqltype.Date} {
		r.add("_add", t, temporalOperation('+', t), t, cqltype.Duration)
		r.add("_substract", t, temporalOperation('-', t), t, cqltype.Duration)
	}
	for _, s := range [][3]*cqltype.Type{
		{cqltype.Text, cqltype.Text, cqltype.Text},
		{cqltype.Ascii, cqltype.Ascii, cqltype.Ascii},
		{cqltype.Ascii, cqltype.Text, cqltype.Text},
		{cqltype.Text, cqltype.Ascii, cqltype.Text},
	} {
		r.add("_add", s[2], concat, s[0], s[1])
	}
}

// sizes of numeric types in bytes; varint and decimal are beyond any.
func sizeOf(t *cqltype.Type) int {
	switch t.Kind {
	case cqltype.KindTinyint:
		return 1
	case cqltype.KindSmallint:
		return 2
	case cqltype.KindInt, cqltype.KindFloat:
		return 4
	case cqltype.KindBigint, cqltype.KindCounter, cqltype.KindDouble:
		return 8
	}
	return math.MaxInt
}

func isFloating(t *cqltype.Type) bool {
	return t.Kind == cqltype.KindFloat || t.Kind == cqltype.KindDouble || t.Kind == cqltype.KindDecimal
}

// widest is the type of arithmetic on l and r: floating if either is, as wide
// as the wider.
func widest(l, r *cqltype.Type) *cqltype.Type {
	floating := isFloating(l) || isFloating(r)
	switch max(sizeOf(l), sizeOf(r)) {
	case 1:
		return cqltype.Tinyint
	case 2:
		return cqltype.Smallint
	case 4:
		if floating {
			return cqltype.Float
		}
		return cqltype.Int
	case 8:
		if floating {
			return cqltype.Double
		}
		return cqltype.Bigint
	}
	if floating {
		return cqltype.Decimal
	}
	return cqltype.Varint
}

// Arithmetic returns the function behind l op r (op + - * / %); types may be
// nil for a marker or literal whose type follows from the other side or the receiver.
func Arithmetic(op byte, l, r Arg, receiver *cqltype.Type) (*Function, error) {
	name := ""
	for _, o := range operators {
		if o.op == op {
			name = o.name
		}
	}
	compatible, exact := match(functions.fixed[name], []Arg{l, r}, receiver)
	switch {
	case exact != nil:
		return exact.fn, nil
	case len(compatible) == 0:
		return nil, invalidf("the '%c' operation is not supported between %s and %s", op, l, r)
	case len(compatible) == 1:
		return compatible[0].fn, nil
	}
	if receiver != nil && !l.isMarker() && !r.isMarker() {
		for _, s := range compatible {
			if receiver.Equal(s.args[0]) && receiver.Equal(s.args[1]) {
				return s.fn, nil
			}
		}
	}
	return nil, invalidf("Ambiguous '%c' operation with args %s and %s: use type hint to disambiguate, example '(int) ?'", op, l, r)
}

func (a Arg) isMarker() bool { return !a.Literal && a.Type == nil }

// operationFailure is an operation that failed on its arguments.
func operationFailure(op byte, name string, l, r *cqltype.Type, err error) error {
	return failure(name, []*cqltype.Type{l, r}, fmt.Sprintf("the operation '%s %c %s' failed: %v", l, op, r, err))
}

func numericOperation(op byte, l, r, ret *cqltype.Type) eval {
	return func(_ *Context, args [][]byte) ([]byte, error) {
		if anyNull(args) {
			return nil, nil
		}
		x, y := decode(l, args[0]), decode(r, args[1])
		b, err := operate(op, ret, &x, &y)
		if err != nil {
			return nil, operationFailure(op, operatorName(op), l, r, err)
		}
		return b, nil
	}
}

func operatorName(op byte) string {
	for _, o := range operators {
		if o.op == op {
			return o.name
		}
	}
	return ""
}

var errIntDivision = errors.New("/ by zero")

// operate computes x op y as ret.
func operate(op byte, ret *cqltype.Type, x, y *number) ([]byte, error) {
	switch ret.Kind {
	case cqltype.KindFloat:
		return cqltype.EncodeFloat(operateFloat(op, x.float(), y.float())), nil
	case cqltype.KindDouble:
		return cqltype.EncodeDouble(operateFloat(op, x.double(), y.double())), nil
	case cqltype.KindVarint:
		v, err := operateBig(op, x.integral(), y.integral())
		if err != nil {
			return nil, err
		}
		return cqltype.EncodeVarint(v), nil
	case cqltype.KindDecimal:
		return operateDecimal(op, x, y)
	}
	v, err := operateLong(op, x.integer(ret), y.integer(ret))
	if err != nil {
		return nil, err
	}
	return encodeInt(ret, v), nil
}

func operateLong(op byte, x, y int64) (int64, error) {
	switch op {
	case '+':
		return x + y, nil
	case '-':
		return x - y, nil
	case '*':
		return x * y, nil
	}
	if y == 0 {
		return 0, errIntDivision
	}
	if op == '/' {
		return x / y, nil
	}
	return x % y, nil
}

func operateFloat[T float32 | float64](op byte, x, y T) T {
	switch op {
	case '+':
		return x + y
	case '-':
		return x - y
	case '*':
		return x * y
	case '/':
		return x / y
	}
	return T(math.Mod(float64(x), float64(y)))
}

func operateBig(op byte, x, y *big.Int) (*big.Int, error) {
	z := new(big.Int)
	switch op {
	case '+':
		z.Add(x, y)
	case '-':
		z.Sub(x, y)
	case '*':
		z.Mul(x, y)
	default:
		if y.Sign() == 0 {
			return nil, errBigDivision
		}
		if op == '/' {
			z.Quo(x, y)
		} else {
			z.Rem(x, y)
		}
	}
	if z.BitLen() > 8*cqltype.MaxNumberBytes {
		return nil, errTooLarge
	}
	return z, nil
}

func operateDecimal(op byte, x, y *number) ([]byte, error) {
	a, err := x.decimal()
	if err != nil {
		return nil, err
	}
	b, err := y.decimal()
	if err != nil {
		return nil, err
	}
	switch op {
	case '+':
		a, err = add(a, b)
	case '-':
		a, err = add(a, negated(b))
	case '*':
		a, err = multiply(a, b)
	case '/':
		a, err = divide(a, b)
	default:
		a, err = remainder(a, b)
	}
	if err != nil {
		return nil, err
	}
	return a.Encode(), nil
}

func temporalOperation(op byte, t *cqltype.Type) eval {
	sign := int64(1)
	if op == '-' {
		sign = -1
	}
	return func(_ *Context, args [][]byte) ([]byte, error) {
		if anyNull(args) {
			return nil, nil
		}
		d, err := cqltype.DecodeDuration(args[1])
		if err == nil {
			var b []byte
			if b, err = addDuration(t, args[0], d, sign); err == nil {
				return b, nil
			}
		}
		return nil, operationFailure(op, operatorName(op), t, cqltype.Duration, err)
	}
}

func concat(_ *Context, args [][]byte) ([]byte, error) {
	if args[0] == nil || args[1] == nil {
		return nil, nil
	}
	b := make([]byte, 0, len(args[0])+len(args[1]))
	return append(append(b, args[0]...), args[1]...), nil
}

var errAmbiguousNegation = invalidf("Ambiguous negation: use type casts to disambiguate")

// Negate returns the function behind -x.
func Negate(t *cqltype.Type) (*Function, error) {
	if t == nil {
		return nil, errAmbiguousNegation
	}
	candidates := functions.fixed[negation]
	compatible, exact := match(candidates, []Arg{{Type: t}}, nil)
	switch {
	case exact != nil:
		return exact.fn, nil
	case len(compatible) == 1:
		return compatible[0].fn, nil
	case len(compatible) > 1:
		return nil, errAmbiguousNegation
	}
	return nil, invalidf("Invalid call to function %s%s, none of its type signatures match (known type signatures: %s)",
		native, negation, list(candidates))
}

func negate(t *cqltype.Type) eval {
	return func(_ *Context, args [][]byte) ([]byte, error) {
		if anyNull(args) {
			return nil, nil
		}
		n := decode(t, args[0])
		switch t.Kind {
		case cqltype.KindFloat:
			return cqltype.EncodeFloat(float32(-n.f)), nil
		case cqltype.KindDouble:
			return cqltype.EncodeDouble(-n.f), nil
		case cqltype.KindVarint:
			return cqltype.EncodeVarint(new(big.Int).Neg(n.big)), nil
		case cqltype.KindDecimal:
			return negated(n.dec).Encode(), nil
		}
		return encodeInt(t, -n.i), nil
	}
}
