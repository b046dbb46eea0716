package exec

import (
	"time"

	"varve/internal/cql"
	"varve/internal/cqlfunc"
	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/schema"
	"varve/internal/store"
)

// planner turns one parsed statement into a plan against one snapshot.
type planner struct {
	snap      *schema.Snapshot
	keyspace  string               // of the session or request; "" when none
	variables []cqlwire.ColumnSpec // one a marker, filled as terms are planned
	warnings  []string

	// columns are, one a marker, the names of the columns they were planned
	// for: unlike a variable's name, a named marker does not replace it.
	columns []string
	// keyTypes are the partition key's types of the statement's table, which
	// calls of token() need; set before terms are planned.
	keyTypes []*cqltype.Type
	// args are what arg found of expressions that are no plain literals.
	args map[cql.Expr]cqlfunc.Arg
}

// execution is one run of a plan.
type execution struct {
	e         *Engine
	s         *Session
	p         *Params
	values    []cqlwire.Value // one a marker, in marker order (named values resolved)
	fn        cqlfunc.Context
	nowSec    int64
	nowMicros int64
	timestamp int64  // of writes without USING TIMESTAMP
	trace     *Trace // nil when not traced
	warnings  []string
	json      map[string]value // INSERT JSON's values by column
	start     time.Time        // of the request, for the slow log
	text      string           // of the statement; "": a batch of the protocol
	reads     store.ReadStats  // what its reads met, for the slow log
	root      *execution       // that of the batch, where this is of one of its statements
}

// term is a planned expression without columns: what may stand in VALUES,
// SET, WHERE, LIMIT, USING and IF.
type term interface {
	// eval computes the value. Unset comes only from an unset marker itself,
	// and the caller decides whether it is allowed.
	eval(x *execution) (cqlwire.Value, error)
}
