package cqlfunc

import (
	"strings"

	"varve/internal/cqltype"
)

// Exists reports whether name is a native function or aggregate at all.
func Exists(name string) bool {
	name = strings.TrimPrefix(name, native)
	return name == "token" || functions.fixed[name] != nil || functions.factories[name] != nil || isMask(name)
}

func isMask(name string) bool {
	switch name {
	case "mask_null", "mask_default", "mask_replace", "mask_inner", "mask_outer", "mask_hash":
		return true
	}
	return false
}

// Resolve finds the function for the arguments; receiver is the type wanted,
// or nil. Exactly one of the results is non-nil. Errors carry Cassandra's texts
// (unknown function, ambiguous call, wrong argument types).
// keyTypes serve token(); they may be nil. The name count without arguments is
// count(*); count_rows is its name in Cassandra.
func Resolve(name string, args []Arg, receiver *cqltype.Type, keyTypes []*cqltype.Type) (*Function, *Aggregate, error) {
	s, err := resolve(name, args, receiver, keyTypes)
	if err != nil {
		return nil, nil, err
	}
	return s.fn, s.agg, nil
}

func resolve(name string, args []Arg, receiver *cqltype.Type, keyTypes []*cqltype.Type) (*signature, error) {
	bare := strings.TrimPrefix(name, native)
	switch {
	case bare == "token":
		return resolveToken(args, keyTypes)
	case bare == "count" && len(args) == 0:
		bare = "count_rows"
	case isMask(bare):
		return nil, &UnsupportedError{Function: native + bare, Feature: "Dynamic data masking"}
	}
	if f := functions.factories[bare]; f != nil {
		if len(args) < f.min || len(args) > f.max {
			return nil, invalidf("Invalid number of arguments for function %s%s(%s)", native, bare, f.params)
		}
		s, err := f.resolve(native+bare, args, receiver)
		if err != nil {
			return nil, err
		}
		return s, s.check(args)
	}
	candidates := functions.fixed[bare]
	switch len(candidates) {
	case 0:
		return nil, &UnknownError{Name: name}
	case 1:
		return candidates[0], candidates[0].check(args)
	}
	compatible, exact := match(candidates, args, receiver)
	switch {
	case exact != nil:
		return exact, nil
	case len(compatible) == 0:
		return nil, invalidf("Invalid call to function %s, none of its type signatures match (known type signatures: %s)",
			name, list(candidates))
	case len(compatible) > 1:
		return nil, invalidf("Ambiguous call to function %s (can be matched by following signatures: %s): "+
			"use type casts to disambiguate", name, list(compatible))
	}
	return compatible[0], nil
}

func list(sigs []*signature) string {
	texts := make([]string, len(sigs))
	for i, s := range sigs {
		texts[i] = s.String()
	}
	return strings.Join(texts, ", ")
}

// match returns the first exact match, or all candidates that the arguments
// can be converted for and whose result the receiver can take.
func match(candidates []*signature, args []Arg, receiver *cqltype.Type) (compatible []*signature, exact *signature) {
	for _, s := range candidates {
		if receiver != nil && fit(s.ret, receiver) == unfit {
			continue
		}
		switch s.fit(args) {
		case fitsExactly:
			return nil, s
		case fits:
			compatible = append(compatible, s)
		}
	}
	return compatible, nil
}

// fitness tells how a value serves where a type is wanted.
type fitness uint8

const (
	unfit       fitness = iota
	fits                // the bytes may be read as that type, or the constant converted
	fitsExactly         // the same type
)

func (s *signature) fit(args []Arg) fitness {
	if len(args) != len(s.args) {
		return unfit
	}
	worst := fitsExactly
	for i, a := range args {
		worst = min(worst, a.fit(s.args[i]))
	}
	return worst
}

// check tells precisely what is wrong with the arguments of the only candidate.
func (s *signature) check(args []Arg) error {
	if len(args) != len(s.args) {
		return invalidf("Invalid number of arguments in call to function %s: %d required but %d provided",
			s.name, len(s.args), len(args))
	}
	for i, a := range args {
		if a.fit(s.args[i]) == unfit {
			return invalidf("Type error: %s cannot be passed as argument %d of function %s of type %s",
				a, i, s.name, s.args[i])
		}
	}
	return nil
}

// String is the argument as messages show it.
func (a Arg) String() string {
	switch {
	case a.Text != "":
		return a.Text
	case a.Literal && a.Kind == cqltype.LitNull:
		return "NULL"
	case a.Literal:
		return a.Kind.String() + " constant"
	case a.Type == nil:
		return "?"
	}
	return a.Type.String()
}

// fit reports whether the argument serves as a value of t.
func (a Arg) fit(t *cqltype.Type) fitness {
	if a.Literal {
		ok, exact := cqltype.LiteralFits(t, a.Kind)
		if a.Type != nil {
			exact = a.Type.Equal(t)
		}
		switch {
		case !ok:
			return unfit
		case exact:
			return fitsExactly
		}
		return fits
	}
	if a.Type == nil {
		return a.fitLiteral(t)
	}
	return fit(a.Type, t)
}

// fitLiteral is fit for markers and for literals without a type of their own.
func (a Arg) fitLiteral(t *cqltype.Type) fitness {
	if a.Elements != nil && t.Kind != cqltype.KindList && (t.Kind != cqltype.KindVector || t.Dim != len(a.Elements)) {
		return unfit
	}
	if a.Natural != nil && a.Natural.Kind != t.Kind {
		return unfit
	}
	for _, e := range a.Elements {
		if e.fit(t.Elems[0]) == unfit {
			return unfit
		}
	}
	return fits
}

// natural is the type of the argument by itself, or nil.
func (a Arg) natural() *cqltype.Type {
	switch {
	case a.Type != nil:
		return a.Type
	case !a.Literal:
		return a.Natural
	}
	switch a.Kind {
	case cqltype.LitString:
		return cqltype.Text
	case cqltype.LitInteger:
		return cqltype.Int
	case cqltype.LitFloat:
		return cqltype.Double
	case cqltype.LitBoolean:
		return cqltype.Boolean
	case cqltype.LitUUID:
		return cqltype.UUID
	case cqltype.LitHex:
		return cqltype.Blob
	case cqltype.LitDuration:
		return cqltype.Duration
	}
	return nil
}

// fit reports whether values of from may be read as values of to, as
// Cassandra's AbstractType.testAssignment. Frozen or not makes no difference.
func fit(from, to *cqltype.Type) fitness {
	if from == to {
		return fitsExactly
	}
	if from.Kind == to.Kind {
		return fitSameKind(from, to)
	}
	if cqltype.ReadsAs(from, to) {
		return fits
	}
	return unfit
}

func fitSameKind(from, to *cqltype.Type) fitness {
	if len(from.Elems) != len(to.Elems) || from.Dim != to.Dim || from.ClassName != to.ClassName ||
		from.Keyspace != to.Keyspace || from.Name != to.Name {
		return unfit
	}
	worst := fitsExactly
	for i, e := range from.Elems {
		worst = min(worst, fit(e, to.Elems[i]))
	}
	return worst
}

// assignable reports that values of from may be read as to.
func assignable(from, to *cqltype.Type) bool { return fit(from, to) != unfit }

// errNoTable is token() where no table is being read.
var errNoTable = invalidf("No receiver table has been specified for function system.token")

func resolveToken(args []Arg, keyTypes []*cqltype.Type) (*signature, error) {
	if len(keyTypes) == 0 {
		return nil, errNoTable
	}
	s := &signature{name: native + "token", args: keyTypes, ret: cqltype.Bigint}
	if err := s.check(args); err != nil {
		return nil, err
	}
	s.fn = &Function{Name: s.name, Args: keyTypes, Return: s.ret, Pure: true, Eval: token}
	return s, nil
}

// token hashes the serialized partition key.
func token(_ *Context, args [][]byte) ([]byte, error) {
	for _, a := range args {
		if a == nil {
			return nil, nil
		}
	}
	key, err := cqltype.JoinKey(nil, args)
	if err != nil {
		return nil, err
	}
	return cqltype.EncodeBigint(cqltype.Token(key)), nil
}
