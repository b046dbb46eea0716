package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"varve/internal/cql"
	"varve/internal/cqlfunc"
	"varve/internal/cqlwire"
	"varve/internal/schema"
	"varve/internal/store"
)

// invalidf makes the error of a statement that is well formed but cannot be
// carried out (InvalidRequest, 0x2200).
func invalidf(format string, args ...any) error {
	if len(args) == 0 {
		return &cqlwire.Error{Code: cqlwire.ErrInvalid, Message: format}
	}
	return &cqlwire.Error{Code: cqlwire.ErrInvalid, Message: fmt.Sprintf(format, args...)}
}

var schemaCodes = map[schema.ErrorKind]cqlwire.ErrorCode{
	schema.Invalid:       cqlwire.ErrInvalid,
	schema.ConfigError:   cqlwire.ErrConfig,
	schema.AlreadyExists: cqlwire.ErrAlreadyExists,
	schema.Unauthorized:  cqlwire.ErrUnauthorized,
	schema.Syntax:        cqlwire.ErrSyntax,
}

// wireError turns any error of a lower layer into the one a client is sent. It
// is the only place where that is decided; nil stays nil.
func wireError(err error) error {
	if err == nil {
		return nil
	}
	var we *cqlwire.Error
	if errors.As(err, &we) {
		return we
	}
	var se *schema.Error
	if errors.As(err, &se) {
		code, ok := schemaCodes[se.Kind]
		if !ok {
			code = cqlwire.ErrInvalid
		}
		return &cqlwire.Error{Code: code, Message: se.Msg, Keyspace: se.Keyspace, Table: se.Table}
	}
	var fenced *store.FencedError
	if errors.As(err, &fenced) {
		return &cqlwire.Error{Code: cqlwire.ErrInvalid, Message: fenced.Error()}
	}
	var full *store.FeedFullError
	if errors.As(err, &full) {
		return &cqlwire.Error{Code: cqlwire.ErrCDCWrite, Message: full.Error()}
	}
	var syn *cql.SyntaxError
	if errors.As(err, &syn) {
		code := cqlwire.ErrSyntax
		if syn.Invalid {
			code = cqlwire.ErrInvalid
		}
		return &cqlwire.Error{Code: code, Message: syn.Msg}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &cqlwire.Error{Code: cqlwire.ErrServer, Message: "request ended before it was done: " + err.Error()}
	}
	return &cqlwire.Error{Code: cqlwire.ErrServer, Message: err.Error()}
}

// withWarnings is err with a request's warnings, which a client gets with the error too.
func withWarnings(err error, warnings []string) error {
	we, ok := wireError(err).(*cqlwire.Error)
	if !ok || errors.Is(err, errStale) {
		return err
	}
	out := *we
	out.Warnings = slices.Clone(warnings)
	return &out
}

// withTrace is err with the id of the request's trace: in Cassandra a traced
// request that failed has one like any other.
func withTrace(err error, id schema.UUID) error {
	we, ok := wireError(err).(*cqlwire.Error)
	if !ok {
		return err
	}
	out := *we
	out.TraceID = (*[16]byte)(&id)
	return &out
}

// writeTimeout is what a write becomes that met its deadline.
func writeTimeout(cl cqlwire.Consistency, writeType string) error {
	return &cqlwire.Error{
		Code:        cqlwire.ErrWriteTimeout,
		Message:     "Operation timed out - received only 0 responses.",
		Consistency: cl,
		Required:    1,
		WriteType:   writeType,
	}
}

// timedOut is the error of a write that met its deadline; others stay as they are.
func timedOut(err error, cl cqlwire.Consistency, writeType string) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrDeadline) {
		return writeTimeout(cl, writeType)
	}
	return err
}

// writeError is wireError for what Store.Apply and Store.Lock return.
func writeError(err error, cl cqlwire.Consistency, writeType string) error {
	return wireError(timedOut(err, cl, writeType))
}

// unprepared tells a client to prepare the statement (again).
func unprepared(id []byte) error {
	return &cqlwire.Error{
		Code: cqlwire.ErrUnprepared,
		Message: fmt.Sprintf("Prepared query with ID %x not found (either the query was not prepared on this host "+
			"(maybe the host has been restarted?) or you have prepared too many queries and it has been evicted from the internal cache)", id),
		StatementID: id,
	}
}

// checkAlive refuses consistency levels that one replica cannot meet.
func checkAlive(cl cqlwire.Consistency) error {
	required := int32(0)
	switch cl {
	case cqlwire.Two:
		required = 2
	case cqlwire.Three:
		required = 3
	default:
		return nil
	}
	return &cqlwire.Error{
		Code:        cqlwire.ErrUnavailable,
		Message:     "Cannot achieve consistency level " + cl.String(),
		Consistency: cl,
		Required:    required,
		Received:    1,
	}
}

// checkWrite refuses consistency levels that a plain write cannot have.
func checkWrite(cl cqlwire.Consistency) error {
	switch cl {
	case cqlwire.Serial, cqlwire.LocalSerial:
		return invalidf("You must use conditional updates for serializable writes")
	}
	return checkLevel(cl)
}

// checkLevel refuses levels that no statement can have, and those that cannot be met.
func checkLevel(cl cqlwire.Consistency) error {
	if cl == cqlwire.NodeLocal {
		return invalidf("NODE_LOCAL consistency level is highly dangerous and should be used only for debugging purposes")
	}
	return checkAlive(cl)
}

// checkConditional checks both levels of a conditional update.
func checkConditional(commit, serial cqlwire.Consistency) error {
	switch serial {
	case 0, cqlwire.Serial, cqlwire.LocalSerial:
	default:
		return invalidf("Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL")
	}
	switch commit {
	case cqlwire.Serial, cqlwire.LocalSerial:
		return invalidf("%s is not supported as conditional update commit consistency. Use ANY if you mean "+
			"\"make sure it is accepted but I don't care how many replicas commit it for non-SERIAL reads\"", commit)
	}
	return checkLevel(commit)
}

// functionError is what a client is told of an error in resolving or
// evaluating a function.
func functionError(err error) error {
	if err == nil {
		return nil
	}
	var we *cqlwire.Error
	if errors.As(err, &we) {
		return we
	}
	var fe *cqlfunc.FailureError
	if errors.As(err, &fe) {
		return &cqlwire.Error{
			Code: cqlwire.ErrFunctionFailure, Message: fe.Msg,
			Keyspace: fe.Keyspace, Function: fe.Function, ArgTypes: fe.ArgTypes,
		}
	}
	return invalidf("%s", err.Error())
}

// serialLevel is a request's serial consistency level, SERIAL by default.
func serialLevel(p *Params) cqlwire.Consistency {
	if p.SerialConsistency == 0 {
		return cqlwire.Serial
	}
	return p.SerialConsistency
}
