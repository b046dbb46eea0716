package schema

import "fmt"

// ErrorKind is the protocol error a schema error becomes.
type ErrorKind uint8

// The kinds of schema error.
const (
	Invalid       ErrorKind = iota // 0x2200
	ConfigError                    // 0x2300
	AlreadyExists                  // 0x2400
	Unauthorized                   // 0x2100
	Syntax                         // 0x2000
)

// Error is a refused schema change, with the text Cassandra gives.
type Error struct {
	Kind            ErrorKind
	Msg             string
	Keyspace, Table string // AlreadyExists
}

// Error implements error.
func (e *Error) Error() string { return e.Msg }

func invalid(format string, args ...any) error {
	return &Error{Kind: Invalid, Msg: fmt.Sprintf(format, args...)}
}

func misconfigured(format string, args ...any) error {
	return &Error{Kind: ConfigError, Msg: fmt.Sprintf(format, args...)}
}

func syntax(format string, args ...any) error {
	return &Error{Kind: Syntax, Msg: fmt.Sprintf(format, args...)}
}

func unauthorized(format string, args ...any) error {
	return &Error{Kind: Unauthorized, Msg: fmt.Sprintf(format, args...)}
}

// unsupported refuses a feature of Cassandra's that Varve does not have.
func unsupported(feature string) error {
	return invalid("Varve does not support %s", feature)
}

func keyspaceExists(name string) error {
	return &Error{
		Kind: AlreadyExists, Keyspace: name,
		Msg: fmt.Sprintf("Cannot add existing keyspace %q", name),
	}
}

func tableExists(keyspace, name string) error {
	return &Error{
		Kind: AlreadyExists, Keyspace: keyspace, Table: name,
		Msg: fmt.Sprintf("Cannot add already existing table %q to keyspace %q", name, keyspace),
	}
}

func noKeyspace(name string) error { return invalid("Keyspace '%s' doesn't exist", name) }
