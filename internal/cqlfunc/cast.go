package cqlfunc

import (
	"strings"

	"varve/internal/cqltype"
)

// addCasts registers the functions behind CAST.
func (r *registry) addCasts() {
	targets := []*cqltype.Type{
		cqltype.Tinyint, cqltype.Smallint, cqltype.Int, cqltype.Bigint, cqltype.Float, cqltype.Double,
		cqltype.Decimal, cqltype.Varint,
	}
	for _, from := range numericTypes {
		for _, to := range targets {
			if from != to {
				r.addCast(from, to, castNumber(from, to))
			}
		}
		r.addTextCasts(from)
	}
	r.addCast(cqltype.Ascii, cqltype.Text, identity)
	r.addTextCasts(cqltype.Inet)
	r.addTextCasts(cqltype.Boolean)
	r.addCast(cqltype.Timeuuid, cqltype.Date, convertTime(cqltype.Timeuuid, dateOf))
	r.addCast(cqltype.Timeuuid, cqltype.Timestamp, convertTime(cqltype.Timeuuid, cqltype.EncodeBigint))
	r.addTextCasts(cqltype.Timeuuid)
	r.addCast(cqltype.Timestamp, cqltype.Date, convertTime(cqltype.Timestamp, dateOf))
	r.addTextCasts(cqltype.Timestamp)
	r.addCast(cqltype.Date, cqltype.Timestamp, convertTime(cqltype.Date, cqltype.EncodeBigint))
	r.addTextCasts(cqltype.Date)
	r.addTextCasts(cqltype.Time)
	r.addTextCasts(cqltype.UUID)
}

func (r *registry) addCast(from, to *cqltype.Type, e eval) {
	name := to.String()
	r.addBoth("cast_as_"+name, "castAs"+strings.ToUpper(name[:1])+name[1:], to, e, from)
}

func (r *registry) addTextCasts(from *cqltype.Type) {
	text := func(_ *Context, args [][]byte) ([]byte, error) {
		if anyNull(args) {
			return nil, nil
		}
		return cqltype.AppendText(nil, from, args[0]), nil
	}
	r.addCast(from, cqltype.Ascii, text)
	r.addCast(from, cqltype.Text, text)
}

func identity(_ *Context, args [][]byte) ([]byte, error) { return args[0], nil }

// Cast returns the function behind CAST(x AS to).
func Cast(from, to *cqltype.Type) (*Function, error) { return CastArg(Arg{Type: from}, to) }

// CastArg is Cast for an argument whose text messages shall show.
func CastArg(from Arg, to *cqltype.Type) (*Function, error) {
	if t := from.natural(); t != nil && t.Equal(to) {
		name := native + "cast_as_" + to.String()
		return &Function{Name: name, Args: []*cqltype.Type{to}, Return: to, Pure: true, Eval: identity}, nil
	}
	name := "cast_as_" + to.String()
	if functions.fixed[name] == nil {
		return nil, invalidf("%s cannot be cast to %s", from, to)
	}
	s, err := resolve(native+name, []Arg{from}, nil, nil)
	if err != nil {
		return nil, err
	}
	return s.fn, nil
}

func castNumber(from, to *cqltype.Type) eval {
	name := "cast_as_" + to.String()
	return func(_ *Context, args [][]byte) ([]byte, error) {
		if anyNull(args) {
			return nil, nil
		}
		n := decode(from, args[0])
		switch to.Kind {
		case cqltype.KindFloat:
			return cqltype.EncodeFloat(n.float()), nil
		case cqltype.KindDouble:
			return cqltype.EncodeDouble(n.double()), nil
		case cqltype.KindVarint:
			// By way of 64 bits, decimals too.
			return encodeVarint64(n.long()), nil
		case cqltype.KindDecimal:
			d, err := castDecimal(from, &n)
			if err != nil {
				return nil, failure(name, []*cqltype.Type{from}, err.Error())
			}
			return d.Encode(), nil
		}
		return encodeInt(to, n.integer(to)), nil
	}
}

// castDecimal makes a decimal without the detour over double that arithmetic takes.
func castDecimal(from *cqltype.Type, n *number) (decimal, error) {
	switch from.Kind {
	case cqltype.KindFloat, cqltype.KindDouble:
		return doubleDecimal(n.f, from)
	}
	return decimal{Unscaled: n.integral()}, nil
}
