package cqlwire

import (
	"errors"
	"fmt"
	"net/netip"
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
	Warnings []string  // sent with the error
	TraceID  *[16]byte // of a traced request

	Consistency Consistency // unavailable, timeouts, failures
	Required    int32       // blockFor or required
	Received    int32       // received, or alive (unavailable)
	Failures    []Failure   // read and write failure
	NumFailures int32       // where the failures themselves are not known (decoded from version 4)
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

// AsError returns err as what a client is sent: itself where it is (or wraps)
// a *Error, and a server error with its text otherwise.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: ErrServer, Message: err.Error()}
}

// maxFailures bounds the failure map of an error.
const maxFailures = 1 << 16

// forVersion returns the error as clients of v know it: codes that came later
// are told as the nearest earlier one, as Cassandra does.
func (e *Error) forVersion(v Version) *Error {
	var code ErrorCode
	var message string
	writeType := e.WriteType
	switch {
	case v < V5 && e.Code == ErrCASUnknown:
		code, message, writeType = ErrWriteTimeout, timedOut(e), "CAS"
	case v < V4 && e.Code == ErrReadFailure:
		code, message = ErrReadTimeout, timedOut(e)
	case v < V4 && e.Code == ErrWriteFailure:
		code, message = ErrWriteTimeout, timedOut(e)
	case v < V4 && e.Code == ErrFunctionFailure:
		code, message = ErrInvalid, "ERROR FUNCTION_FAILURE: "+e.Message
	case v < V4 && e.Code == ErrCDCWrite:
		code, message = ErrInvalid, "ERROR CDC_WRITE_FAILURE: "+e.Message
	default:
		return e
	}
	down := *e
	down.Code, down.Message, down.WriteType = code, message, writeType
	return &down
}

func timedOut(e *Error) string {
	return fmt.Sprintf("Operation timed out - received only %d responses.", e.Received)
}

// Append writes the ERROR body for a protocol version.
func (e *Error) Append(dst []byte, v Version) []byte {
	e = e.forVersion(v)
	dst = AppendString(AppendInt(dst, int32(e.Code)), e.Message)
	switch e.Code {
	case ErrUnavailable:
		dst = AppendConsistency(dst, e.Consistency)
		dst = AppendInt(AppendInt(dst, e.Required), e.Received)
	case ErrReadFailure, ErrWriteFailure:
		dst = AppendConsistency(dst, e.Consistency)
		dst = AppendInt(AppendInt(dst, e.Received), e.Required)
		dst = e.appendFailures(dst, v)
		dst = e.appendKind(dst)
	case ErrReadTimeout, ErrWriteTimeout:
		dst = AppendConsistency(dst, e.Consistency)
		dst = AppendInt(AppendInt(dst, e.Received), e.Required)
		dst = e.appendKind(dst)
		if v >= V5 && e.Code == ErrWriteTimeout && e.WriteType == "CAS" {
			dst = AppendShort(dst, int(e.Contentions))
		}
	case ErrCASUnknown:
		dst = AppendConsistency(dst, e.Consistency)
		dst = AppendInt(AppendInt(dst, e.Received), e.Required)
	case ErrFunctionFailure:
		dst = AppendString(AppendString(dst, e.Keyspace), e.Function)
		dst = AppendStringList(dst, e.ArgTypes)
	case ErrAlreadyExists:
		dst = AppendString(AppendString(dst, e.Keyspace), e.Table)
	case ErrUnprepared:
		dst = AppendShortBytes(dst, e.StatementID)
	}
	return dst
}

// appendKind writes what tells reads and writes apart.
func (e *Error) appendKind(dst []byte) []byte {
	if e.Code == ErrWriteFailure || e.Code == ErrWriteTimeout {
		return AppendString(dst, e.WriteType)
	}
	if e.DataPresent {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func (e *Error) appendFailures(dst []byte, v Version) []byte {
	if v < V5 {
		return AppendInt(dst, max(int32(len(e.Failures)), e.NumFailures))
	}
	dst = AppendInt(dst, int32(len(e.Failures)))
	for _, f := range e.Failures {
		dst = AppendShort(AppendInetAddr(dst, f.Addr), int(f.Code))
	}
	return dst
}

// Decode reads an ERROR body.
func (e *Error) Decode(v Version, body []byte) error {
	r := NewReader(body)
	*e = Error{Code: ErrorCode(r.Int()), Message: r.String()}
	switch e.Code {
	case ErrUnavailable:
		e.Consistency, e.Required, e.Received = r.Consistency(), r.Int(), r.Int()
	case ErrReadFailure, ErrWriteFailure:
		e.Consistency, e.Received, e.Required = r.Consistency(), r.Int(), r.Int()
		e.readFailures(&r, v)
		e.readKind(&r)
	case ErrReadTimeout, ErrWriteTimeout:
		e.Consistency, e.Received, e.Required = r.Consistency(), r.Int(), r.Int()
		e.readKind(&r)
		if v >= V5 && e.Code == ErrWriteTimeout && e.WriteType == "CAS" {
			e.Contentions = uint16(r.Short())
		}
	case ErrCASUnknown:
		e.Consistency, e.Received, e.Required = r.Consistency(), r.Int(), r.Int()
	case ErrFunctionFailure:
		e.Keyspace, e.Function, e.ArgTypes = r.String(), r.String(), r.StringList()
	case ErrAlreadyExists:
		e.Keyspace, e.Table = r.String(), r.String()
	case ErrUnprepared:
		e.StatementID = r.ShortBytes()
	}
	return r.Err()
}

func (e *Error) readKind(r *Reader) {
	if e.Code == ErrWriteFailure || e.Code == ErrWriteTimeout {
		e.WriteType = r.String()
		return
	}
	e.DataPresent = r.Byte() != 0
}

func (e *Error) readFailures(r *Reader, v Version) {
	n := r.Int()
	e.NumFailures = n
	if v < V5 {
		return
	}
	if n < 0 || n > maxFailures {
		r.fail(errShort)
		return
	}
	for range r.count(int(n), 7) {
		e.Failures = append(e.Failures, Failure{Addr: r.InetAddr(), Code: uint16(r.Short())})
		if r.err != nil {
			return
		}
	}
}
