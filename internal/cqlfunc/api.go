package cqlfunc

import (
	"errors"

	"varve/internal/cqltype"
)

var errUnwritten = errors.New("unwritten")

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
	// Eval never keeps or changes its arguments; nil is null.
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
	Add(args [][]byte) error
	Result() ([]byte, error)
	Reset()
}

// Arg is what is known of an argument when a function is looked up: its type,
// or nil for a bind marker or null; Literal for an untyped constant.
type Arg struct {
	Type    *cqltype.Type
	Literal bool
	Kind    cqltype.LiteralKind
}

// Exists reports whether name is a native function or aggregate at all.
func Exists(name string) bool { panic(errUnwritten) }

// Resolve finds the function for the arguments; receiver is the type wanted,
// or nil. Exactly one of the results is non-nil. Errors carry Cassandra's texts
// (unknown function, ambiguous call, wrong argument types).
// keyTypes serve token(); they may be nil.
func Resolve(name string, args []Arg, receiver *cqltype.Type, keyTypes []*cqltype.Type) (*Function, *Aggregate, error) {
	panic(errUnwritten)
}

// Cast returns the function behind CAST(x AS to).
func Cast(from, to *cqltype.Type) (*Function, error) { panic(errUnwritten) }

// Arithmetic returns the function behind l op r (op + - * / %); types may be
// nil for a marker or literal whose type follows from the other side or the receiver.
func Arithmetic(op byte, l, r Arg, receiver *cqltype.Type) (*Function, error) { panic(errUnwritten) }

// Negate returns the function behind -x.
func Negate(t *cqltype.Type) (*Function, error) { panic(errUnwritten) }
