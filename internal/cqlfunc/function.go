package cqlfunc

import (
	"fmt"
	"strings"

	"varve/internal/cqltype"
)

// Context is what functions may depend on beside their arguments.
type Context struct {
	NowMicros       int64 // the statement's time
	ProtocolVersion int
	// KeyTypes are the partition key's types, for token().
	KeyTypes []*cqltype.Type
}

// Function is a scalar function of fixed argument types.
type Function struct {
	Name   string // with "system." where Cassandra shows it so
	Args   []*cqltype.Type
	Return *cqltype.Type
	// Pure: same arguments, same result (now() and uuid() are not).
	Pure bool
	// Eval never keeps or changes its arguments; nil is null. The result may
	// alias an argument. Arguments are values of the types Args (Validate
	// accepts them). A *FailureError is a failed execution, which Cassandra
	// reports as FUNCTION_FAILURE; any other error is an invalid request.
	Eval func(ctx *Context, args [][]byte) ([]byte, error)
}

// Aggregate is an aggregate function of fixed argument types.
type Aggregate struct {
	Name   string
	Args   []*cqltype.Type
	Return *cqltype.Type
	New    func() State
}

// State accumulates one group.
type State interface {
	// Add takes the arguments of one row; it keeps nothing of them.
	Add(args [][]byte) error
	// Result is valid until the next call of Add or Reset.
	Result() ([]byte, error)
	Reset()
}

// Arg is what is known of an argument when a function is looked up: its type,
// or nil for a bind marker or null; Literal for an untyped constant.
type Arg struct {
	// Type of a Literal is its natural type (cqltype.LiteralType) or nil.
	Type    *cqltype.Type
	Literal bool
	Kind    cqltype.LiteralKind
	// Text is the argument as messages show it. Without it they show its type.
	Text string
	// Elements are those of a list literal without a type of its own, which may
	// stand for a vector of as many dimensions.
	Elements []Arg
	// Natural is the type that a set or tuple literal without a type of its own
	// has by its constants' natural types, or nil.
	Natural *cqltype.Type
}

// FailureError is a function that failed on its arguments.
type FailureError struct {
	Keyspace string
	Function string   // without the keyspace
	ArgTypes []string // CQL names
	Msg      string
}

// Error implements error.
func (e *FailureError) Error() string { return e.Msg }

// failure reports that a function failed.
func failure(name string, args []*cqltype.Type, msg string) *FailureError {
	e := &FailureError{Keyspace: "system", Function: strings.TrimPrefix(name, native), Msg: msg}
	for _, t := range args {
		e.ArgTypes = append(e.ArgTypes, t.String())
	}
	return e
}

// invalidf makes an error with a text of Cassandra's, which begins with a capital.
func invalidf(format string, args ...any) error { return fmt.Errorf(format, args...) }

// UnknownError says that there is no function of a name. Selections word it
// as "Unknown function 'x'".
type UnknownError struct{ Name string }

// Error implements error.
func (e *UnknownError) Error() string { return "Unknown function " + e.Name + " called" }

// UnsupportedError says that a function of Cassandra's is left out of Varve.
type UnsupportedError struct{ Function, Feature string }

// Error implements error.
func (e *UnsupportedError) Error() string {
	return e.Feature + " is not supported: function " + e.Function
}

// native is the keyspace of native functions as names show it.
const native = "system."

// signature is what resolution needs of a function or an aggregate.
type signature struct {
	name string
	args []*cqltype.Type
	ret  *cqltype.Type
	fn   *Function
	agg  *Aggregate
}

func (s *signature) String() string {
	names := make([]string, len(s.args))
	for i, t := range s.args {
		names[i] = t.String()
	}
	name := s.name
	if bare := strings.TrimPrefix(name, native); strings.HasPrefix(bare, "_") {
		name = native + `"` + bare + `"`
	}
	return name + " : (" + strings.Join(names, ", ") + ") -> " + s.ret.String()
}

// factory makes functions for types without end.
type factory struct {
	params  string // as messages show them
	min     int    // arguments
	max     int
	resolve func(name string, args []Arg, receiver *cqltype.Type) (*signature, error)
}

// registry holds the native functions by name.
type registry struct {
	fixed     map[string][]*signature
	factories map[string]*factory
}

// functions is built once and never changed.
var functions = newRegistry()

func newRegistry() *registry {
	r := &registry{fixed: map[string][]*signature{}, factories: map[string]*factory{}}
	r.addTime()
	r.addBlob()
	r.addMath()
	r.addOperations()
	r.addCasts()
	r.addAggregates()
	r.addCollections()
	r.addVectors()
	r.addJSON()
	r.add("uuid", cqltype.UUID, newUUID).Pure = false
	return r
}

type eval = func(ctx *Context, args [][]byte) ([]byte, error)

// add registers a scalar function.
func (r *registry) add(name string, ret *cqltype.Type, e eval, args ...*cqltype.Type) *Function {
	f := &Function{Name: native + name, Args: args, Return: ret, Pure: true, Eval: e}
	r.fixed[name] = append(r.fixed[name], &signature{name: f.Name, args: args, ret: ret, fn: f})
	return f
}

// addBoth registers a function under its name and the one it had before 5.0.
func (r *registry) addBoth(name, legacy string, ret *cqltype.Type, e eval, args ...*cqltype.Type) {
	r.add(name, ret, e, args...)
	r.add(legacy, ret, e, args...)
}

func newUUID(*Context, [][]byte) ([]byte, error) {
	u := cqltype.NewRandomUUID()
	return u[:], nil
}

// anyNull reports an argument that is null, or empty where that is no value.
func anyNull(args [][]byte) bool {
	for _, a := range args {
		if len(a) == 0 {
			return true
		}
	}
	return false
}
