package cqlfunc

import (
	"math"
	"math/big"

	"varve/internal/cqltype"
)

// addAggregates registers count, sum, avg, min and max.
func (r *registry) addAggregates() {
	count := func() State { return &countState{} }
	r.addAggregate("count_rows", cqltype.Bigint, func() State { return &countState{rows: true} })
	r.addAggregate("countRows", cqltype.Bigint, func() State { return &countState{rows: true} })
	// Every type can be read as a blob.
	r.addAggregate("count", cqltype.Bigint, count, cqltype.Blob)
	for _, t := range numericTypes {
		r.addAggregate("sum", t, sumOf(t), t)
		r.addAggregate("avg", t, averageOf(t), t)
	}
	for _, name := range []string{"min", "max"} {
		r.factories[name] = &factory{params: "any", min: 1, max: 1, resolve: resolveExtreme}
	}
}

func (r *registry) addAggregate(name string, ret *cqltype.Type, state func() State, args ...*cqltype.Type) {
	r.fixed[name] = append(r.fixed[name], aggregate(native+name, ret, state, args...))
}

func aggregate(name string, ret *cqltype.Type, state func() State, args ...*cqltype.Type) *signature {
	a := &Aggregate{Name: name, Args: args, Return: ret, New: state}
	return &signature{name: name, args: args, ret: ret, agg: a}
}

func resolveExtreme(name string, args []Arg, receiver *cqltype.Type) (*signature, error) {
	t := args[0].natural()
	if t == nil {
		t = receiver
	}
	if t == nil {
		return nil, errCannotInfer(args[0], name, "any")
	}
	return aggregate(name, t, extremeOf(t, name == native+"max"), t), nil
}

// countState counts rows, or values that are not null.
type countState struct {
	rows bool
	n    int64
	buf  [8]byte
}

func (s *countState) Add(args [][]byte) error {
	if s.rows || args[0] != nil {
		s.n++
	}
	return nil
}

func (s *countState) Result() ([]byte, error) { return putLong(&s.buf, s.n), nil }

func (s *countState) Reset() { s.n = 0 }

// extremeOf keeps the smallest or largest value by the type's order.
func extremeOf(t *cqltype.Type, largest bool) func() State {
	return func() State { return &extremeState{t: t, largest: largest} }
}

type extremeState struct {
	t       *cqltype.Type
	largest bool
	found   bool
	value   []byte
}

func (s *extremeState) Add(args [][]byte) error {
	v := args[0]
	if v == nil {
		return nil
	}
	if s.found {
		if c := cqltype.Compare(s.t, v, s.value); c == 0 || c > 0 != s.largest {
			return nil
		}
	}
	s.found = true
	s.value = append(s.value[:0], v...)
	return nil
}

func (s *extremeState) Result() ([]byte, error) {
	if !s.found {
		return nil, nil
	}
	return s.value, nil
}

func (s *extremeState) Reset() { s.found, s.value = false, s.value[:0] }

func sumOf(t *cqltype.Type) func() State {
	switch t.Kind {
	case cqltype.KindFloat, cqltype.KindDouble:
		return func() State { return &floatSum{t: t} }
	case cqltype.KindVarint:
		return func() State { return &varintSum{sum: new(big.Int)} }
	case cqltype.KindDecimal:
		return func() State { return &decimalSum{sum: decimal{Unscaled: new(big.Int)}} }
	}
	return func() State { return &intSum{t: t} }
}

func averageOf(t *cqltype.Type) func() State {
	switch t.Kind {
	case cqltype.KindFloat, cqltype.KindDouble:
		return func() State { return &floatAverage{floatSum: floatSum{t: t}} }
	case cqltype.KindVarint:
		return func() State { return &varintAverage{varintSum: varintSum{sum: new(big.Int)}} }
	case cqltype.KindDecimal:
		return func() State { return &decimalAverage{avg: decimal{Unscaled: new(big.Int)}} }
	}
	return func() State { return &intAverage{t: t} }
}

// intSum adds integers and wraps around in the width of their type.
type intSum struct {
	t   *cqltype.Type
	sum int64
}

func (s *intSum) Add(args [][]byte) error {
	if len(args[0]) > 0 {
		n := decode(s.t, args[0])
		s.sum += n.i
	}
	return nil
}

func (s *intSum) Result() ([]byte, error) { return encodeInt(s.t, s.sum), nil }

func (s *intSum) Reset() { s.sum = 0 }

// intAverage adds without overflow: beyond 64 bits the sum goes on in big.
type intAverage struct {
	t     *cqltype.Type
	sum   int64
	count int64
	big   *big.Int
}

func (s *intAverage) Add(args [][]byte) error {
	if len(args[0]) == 0 {
		return nil
	}
	n := decode(s.t, args[0])
	s.count++
	if s.big != nil {
		s.big.Add(s.big, big.NewInt(n.i))
		return nil
	}
	sum := s.sum + n.i
	if (s.sum^sum)&(n.i^sum) < 0 {
		s.big = new(big.Int).Add(big.NewInt(s.sum), big.NewInt(n.i))
	}
	s.sum = sum
	return nil
}

func (s *intAverage) Result() ([]byte, error) {
	switch {
	case s.count == 0:
		return encodeInt(s.t, 0), nil
	case s.big != nil:
		return encodeInt(s.t, lowBits(new(big.Int).Quo(s.big, big.NewInt(s.count)))), nil
	}
	return encodeInt(s.t, s.sum/s.count), nil
}

func (s *intAverage) Reset() { s.sum, s.count, s.big = 0, 0, nil }

// floatSum is Kahan's summation, with the plain sum kept for infinities.
type floatSum struct {
	t                         *cqltype.Type
	sum, compensation, simple float64
}

func (s *floatSum) add(d float64) {
	s.simple += d
	tmp := d - s.compensation
	rounded := s.sum + tmp
	s.compensation = (rounded - s.sum) - tmp
	s.sum = rounded
}

func (s *floatSum) total() float64 {
	total := s.sum + s.compensation
	if math.IsNaN(total) && math.IsInf(s.simple, 0) {
		return s.simple
	}
	return total
}

func (s *floatSum) encode(v float64) []byte {
	if s.t.Kind == cqltype.KindFloat {
		return cqltype.EncodeFloat(float32(v))
	}
	return cqltype.EncodeDouble(v)
}

func (s *floatSum) Add(args [][]byte) error {
	if len(args[0]) > 0 {
		n := decode(s.t, args[0])
		s.add(n.f)
	}
	return nil
}

func (s *floatSum) Result() ([]byte, error) { return s.encode(s.total()), nil }

func (s *floatSum) Reset() { s.sum, s.compensation, s.simple = 0, 0, 0 }

// floatAverage goes on in decimals when finite numbers add up to infinity.
type floatAverage struct {
	floatSum
	count    int64
	overflow bool
	exact    decimal
}

func (s *floatAverage) Add(args [][]byte) error {
	if len(args[0]) == 0 {
		return nil
	}
	n := decode(s.t, args[0])
	s.count++
	if !s.overflow {
		before := s.sum
		s.add(n.f)
		if !math.IsInf(s.sum, 0) || math.IsInf(n.f, 0) {
			return nil
		}
		if math.IsInf(before, 0) {
			return nil
		}
		s.overflow = true
		var err error
		if s.exact, err = doubleDecimal(before, cqltype.Double); err != nil {
			return s.failed(err)
		}
	}
	d, err := doubleDecimal(n.f, cqltype.Double)
	if err == nil {
		s.exact, err = addExact(s.exact, d)
	}
	return s.failed(err)
}

func (s *floatAverage) failed(err error) error {
	if err == nil {
		return nil
	}
	return failure("avg", []*cqltype.Type{s.t}, err.Error())
}

func (s *floatAverage) Result() ([]byte, error) {
	switch {
	case s.count == 0:
		return s.encode(0), nil
	case s.overflow:
		q, err := divideAt(s.exact, decimal{Unscaled: big.NewInt(s.count)}, int64(s.exact.Scale), true)
		if err != nil {
			return nil, s.failed(err)
		}
		return s.encode(decimalDouble(q, 64)), nil
	}
	return s.encode(s.total() / float64(s.count)), nil
}

func (s *floatAverage) Reset() {
	s.floatSum.Reset()
	s.count, s.overflow, s.exact = 0, false, decimal{}
}

type varintSum struct{ sum *big.Int }

func (s *varintSum) Add(args [][]byte) error {
	if len(args[0]) > 0 {
		s.sum.Add(s.sum, cqltype.DecodeVarint(args[0]))
	}
	return nil
}

func (s *varintSum) Result() ([]byte, error) { return cqltype.EncodeVarint(s.sum), nil }

func (s *varintSum) Reset() { s.sum.SetInt64(0) }

type varintAverage struct {
	varintSum
	count int64
}

func (s *varintAverage) Add(args [][]byte) error {
	if len(args[0]) > 0 {
		s.count++
	}
	return s.varintSum.Add(args)
}

func (s *varintAverage) Result() ([]byte, error) {
	if s.count == 0 {
		return encodeVarint64(0), nil
	}
	return cqltype.EncodeVarint(new(big.Int).Quo(s.sum, big.NewInt(s.count))), nil
}

func (s *varintAverage) Reset() {
	s.varintSum.Reset()
	s.count = 0
}

type decimalSum struct{ sum decimal }

func (s *decimalSum) Add(args [][]byte) error {
	if len(args[0]) == 0 {
		return nil
	}
	sum, err := addExact(s.sum, cqltype.DecodeDecimal(args[0]))
	if err != nil {
		return failure("sum", []*cqltype.Type{cqltype.Decimal}, err.Error())
	}
	s.sum = sum
	return nil
}

func (s *decimalSum) Result() ([]byte, error) { return s.sum.Encode(), nil }

func (s *decimalSum) Reset() { s.sum = decimal{Unscaled: new(big.Int)} }

// decimalAverage moves the average by each value's part, at the scale of the
// difference, rounding half even: the result's digits depend on that.
type decimalAverage struct {
	avg   decimal
	count int64
}

func (s *decimalAverage) Add(args [][]byte) error {
	if len(args[0]) == 0 {
		return nil
	}
	s.count++
	diff, err := addExact(cqltype.DecodeDecimal(args[0]), negated(s.avg))
	if err == nil {
		diff, err = divideAt(diff, decimal{Unscaled: big.NewInt(s.count)}, int64(diff.Scale), true)
	}
	if err == nil {
		s.avg, err = addExact(s.avg, diff)
	}
	if err != nil {
		return failure("avg", []*cqltype.Type{cqltype.Decimal}, err.Error())
	}
	return nil
}

func (s *decimalAverage) Result() ([]byte, error) { return s.avg.Encode(), nil }

func (s *decimalAverage) Reset() { s.avg, s.count = decimal{Unscaled: new(big.Int)}, 0 }
