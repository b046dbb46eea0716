package cqlwire

import (
	"net/netip"

	"varve/internal/cqltype"
)

// Consistency is a consistency level as on the wire.
type Consistency uint16

// The consistency levels.
const (
	Any         Consistency = 0x0000
	One         Consistency = 0x0001
	Two         Consistency = 0x0002
	Three       Consistency = 0x0003
	Quorum      Consistency = 0x0004
	All         Consistency = 0x0005
	LocalQuorum Consistency = 0x0006
	EachQuorum  Consistency = 0x0007
	Serial      Consistency = 0x0008
	LocalSerial Consistency = 0x0009
	LocalOne    Consistency = 0x000A
	NodeLocal   Consistency = 0x000B
)

// ErrorCode is an ERROR message's code.
type ErrorCode int32

// The error codes (native_protocol_v5.spec section 9).
const (
	ErrServer          ErrorCode = 0x0000
	ErrProtocol        ErrorCode = 0x000A
	ErrBadCredentials  ErrorCode = 0x0100
	ErrUnavailable     ErrorCode = 0x1000
	ErrOverloaded      ErrorCode = 0x1001
	ErrIsBootstrapping ErrorCode = 0x1002
	ErrTruncate        ErrorCode = 0x1003
	ErrWriteTimeout    ErrorCode = 0x1100
	ErrReadTimeout     ErrorCode = 0x1200
	ErrReadFailure     ErrorCode = 0x1300
	ErrFunctionFailure ErrorCode = 0x1400
	ErrWriteFailure    ErrorCode = 0x1500
	ErrCDCWrite        ErrorCode = 0x1600
	ErrCASUnknown      ErrorCode = 0x1700
	ErrSyntax          ErrorCode = 0x2000
	ErrUnauthorized    ErrorCode = 0x2100
	ErrInvalid         ErrorCode = 0x2200
	ErrConfig          ErrorCode = 0x2300
	ErrAlreadyExists   ErrorCode = 0x2400
	ErrUnprepared      ErrorCode = 0x2500
)

// Error is an error as a client sees it. Which of the details are used depends
// on the code; the encoder adapts the body to the protocol version.
type Error struct {
	Code     ErrorCode
	Message  string
	Warnings []string // sent with the error

	Consistency Consistency // unavailable, timeouts, failures
	Required    int32       // blockFor or required
	Received    int32       // received, or alive (unavailable)
	Failures    []Failure   // read and write failure
	DataPresent bool
	WriteType   string // SIMPLE, BATCH, UNLOGGED_BATCH, COUNTER, BATCH_LOG, CAS, VIEW, CDC
	Contentions uint16 // CAS write timeout, v5
	Keyspace    string // already exists, function failure
	Table       string // already exists; "" for a keyspace
	Function    string
	ArgTypes    []string
	StatementID []byte // unprepared
}

// Failure is one replica's failure.
type Failure struct {
	Addr netip.Addr
	Code uint16 // 0 unknown, 1 read too many tombstones
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// ColumnSpec describes one column of a result or one bind variable.
type ColumnSpec struct {
	Keyspace, Table, Name string
	Type                  *cqltype.Type
}

// Value is a bound value. Unset differs from null (nil Bytes).
type Value struct {
	Bytes []byte
	Unset bool
}

// Result kinds, as on the wire.
const (
	ResultVoid         = 1
	ResultRows         = 2
	ResultSetKeyspace  = 3
	ResultPrepared     = 4
	ResultSchemaChange = 5
)
