package cqltype

import "fmt"

// MarshalError says that bytes or a text are no value of a type. Its text is
// that of Cassandra's MarshalException, which clients see.
type MarshalError struct{ Reason string }

func (e *MarshalError) Error() string { return e.Reason }

func marshalf(format string, args ...any) error {
	return &MarshalError{fmt.Sprintf(format, args...)}
}
