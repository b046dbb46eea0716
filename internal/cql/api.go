package cql

import "errors"

var errUnwritten = errors.New("unwritten")

// SyntaxError is a refusal by the parser, in the form Cassandra's users know:
// "line 1:9 no viable alternative at input 'FRM' (…)".
type SyntaxError struct {
	Line, Col int // as Cassandra counts them: line from 1, column from 0
	Msg       string
}

// Error implements error.
func (e *SyntaxError) Error() string { return e.Msg }

// Parsed is a statement with what the planner needs to know of its text.
type Parsed struct {
	Stmt    Statement
	Markers []string // one a bind marker in order: its name, or "" for ?
}

// Limits of what one statement may hold; beyond them Parse returns a SyntaxError.
const (
	MaxMarkers   = 65535
	MaxDepth     = 256 // nested expressions and types
	MaxRelations = 10000
)

// Parse reads exactly one statement; a final ; is allowed.
func Parse(text string) (*Parsed, error) { panic(errUnwritten) }

// ParseType reads a CQL type, as in system tables and DESCRIBE.
func ParseType(text string) (TypeRef, error) { panic(errUnwritten) }

// IsReserved reports whether name must be quoted to serve as an identifier.
func IsReserved(name string) bool { panic(errUnwritten) }
