package exec

import (
	"varve/internal/cql"
	"varve/internal/cqlfunc"
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
	trace     *Trace // nil when not traced
	warnings  []string
}

// term is a planned expression without columns: what may stand in VALUES,
// SET, WHERE, LIMIT, USING and IF.
type term interface {
	// eval computes the value. Unset comes only from an unset marker itself,
	// and the caller decides whether it is allowed.
	eval(x *execution) (cqlwire.Value, error)
}

// term plans an expression whose value goes to recv (its type and, for
// messages and bind metadata, its name).
func (p *planner) term(e cql.Expr, recv cqlwire.ColumnSpec) (term, error) { panic(errUnwritten) }

// where is a planned WHERE clause. For modifications it admits only what
// identifies rows.
type where struct{ whereState }

type whereState struct{}

// where plans a WHERE clause on t. kind is "SELECT", "UPDATE" or "DELETE",
// which decides what is admitted and the wording of refusals.
func (p *planner) where(t *schema.Table, rels []cql.Relation, kind string, allowFiltering bool) (*where, error) {
	panic(errUnwritten)
}

// keys are the partitions named by = and IN, in token order without
// duplicates for SELECT, as written for modifications.
func (w *where) keys(x *execution) ([]store.Key, error) { panic(errUnwritten) }

// slices are the clustering slices, in clustering order and disjoint; nil: all
// rows. rows reports that each is one full clustering key.
func (w *where) slices(x *execution) (slices []store.Slice, rows bool, err error) {
	panic(errUnwritten)
}
