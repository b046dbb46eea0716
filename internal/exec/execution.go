package exec

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"varve/internal/cql"
	"varve/internal/cqlfunc"
	"varve/internal/cqlwire"
	"varve/internal/schema"
)

var errIncomplete = errors.New("an engine needs a store and a catalogue")

type value = cqlwire.Value

const resultRows = cqlwire.ResultRows

// runner is a plan that can be run any number of times, by several requests at once.
type runner interface {
	run(ctx context.Context, x *execution) (*Result, error)
}

// planned is a statement made ready against one snapshot.
type planned struct {
	run       runner
	variables []cqlwire.ColumnSpec // one a marker
	pkIndexes []int                // variables that make up the partition key
	columns   []cqlwire.ColumnSpec // of a SELECT's result
	tables    []*schema.Table      // what the plan was made from
	warnings  []string
	// fixedColumns: the result always has these columns (SELECT; conditional
	// updates answer with columns that depend on the outcome).
	fixedColumns bool
	modify       *modifyPlan // for batches: INSERT, UPDATE and DELETE only
	// fresh is the newest snapshot for which the plan was found to hold.
	fresh atomic.Pointer[schema.Snapshot]
}

// current reports that the tables a plan was made from are those of snap.
func (st *planned) current(snap *schema.Snapshot) bool {
	for _, t := range st.tables {
		if snap.Table(t.Keyspace, t.Name) != t {
			return false
		}
	}
	return true
}

// authorize checks that the session's role may do what the statement does.
// Batches and administration check for themselves.
func (st *planned) authorize(x *execution) error {
	if len(st.tables) != 1 {
		return nil
	}
	t := st.tables[0]
	if st.modify != nil && st.modify.virtual != nil {
		return nil
	}
	if st.modify == nil {
		if st.fixedColumns {
			return x.e.authorize(x.s, "SELECT", t)
		}
		return nil
	}
	if err := x.e.authorize(x.s, "MODIFY", t); err != nil || st.modify.cond == nil {
		return err
	}
	return x.e.authorize(x.s, "SELECT", t)
}

// plan plans a parsed statement.
func (e *Engine) plan(snap *schema.Snapshot, keyspace string, parsed *cql.Parsed) (*planned, error) {
	p := &planner{snap: snap, keyspace: keyspace}
	st, err := e.planStatement(p, parsed.Stmt)
	if err != nil {
		return nil, err
	}
	for len(p.variables) < len(parsed.Markers) {
		p.variables = append(p.variables, cqlwire.ColumnSpec{})
	}
	for i, v := range p.variables {
		if v.Type == nil {
			return nil, invalidf("Bind variable %d is in a place where none is allowed", i)
		}
	}
	st.variables = p.variables
	st.warnings = p.warnings
	st.fresh.Store(snap)
	if b, ok := st.run.(*batchPlan); len(st.tables) == 1 && (!ok || len(b.stmts) == 1) {
		st.pkIndexes = p.partitionKeyIndexes(st.tables[0])
	}
	return st, nil
}

func (e *Engine) planStatement(p *planner, stmt cql.Statement) (*planned, error) {
	switch stmt := stmt.(type) {
	case *cql.Select:
		sp, err := p.planSelect(stmt)
		if err != nil {
			return nil, err
		}
		return &planned{run: sp, columns: sp.columns, tables: []*schema.Table{sp.table}, fixedColumns: true}, nil
	case *cql.Insert, *cql.Update, *cql.Delete:
		m, err := p.planModify(stmt)
		if err != nil {
			return nil, err
		}
		return &planned{run: m, modify: m, tables: []*schema.Table{m.t}}, nil
	case *cql.Batch:
		b, err := p.planBatch(stmt)
		if err != nil {
			return nil, err
		}
		return &planned{run: b, tables: b.tables()}, nil
	}
	return &planned{run: &adminPlan{st: stmt}}, nil
}

// partitionKeyIndexes are the indexes of the markers that stand for t's
// partition key, in its order; nil when they do not cover it.
func (p *planner) partitionKeyIndexes(t *schema.Table) []int {
	idx := make([]int, len(t.PartitionKey))
	for i, c := range t.PartitionKey {
		idx[i] = -1
		for j, name := range p.columns {
			if name == c.Name && p.variables[j].Type == c.Type {
				idx[i] = j
			}
		}
		if idx[i] < 0 {
			return nil
		}
	}
	return idx
}

// adminPlan is a statement that runAdmin carries out.
type adminPlan struct{ st cql.Statement }

func (a *adminPlan) run(ctx context.Context, x *execution) (*Result, error) {
	if err := x.guardSchema(a.st); err != nil {
		return nil, err
	}
	res, ok, err := x.e.runAdmin(ctx, x.s, a.st, x.p)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, invalidf("Unsupported statement")
	}
	return res, nil
}

// lookupTable finds a table by a name as written.
func (p *planner) lookupTable(n cql.Name) (*schema.Table, error) {
	ks := n.Keyspace
	if ks == "" {
		ks = p.keyspace
	}
	if ks == "" {
		return nil, invalidf("No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename")
	}
	if p.snap.Keyspaces[ks] == nil {
		return nil, invalidf("keyspace %s does not exist", ks)
	}
	t := p.snap.Table(ks, n.Name)
	if t == nil {
		return nil, invalidf("table %s does not exist", n.Name)
	}
	return t, nil
}

// bindValues puts the values of a request into marker order.
func bindValues(st *planned, values []value, names []string) ([]value, error) {
	if len(names) == 0 {
		return values, nil
	}
	out := make([]value, 0, len(st.variables))
	for _, v := range st.variables {
		for i, n := range names {
			if n == v.Name && i < len(values) {
				out = append(out, values[i])
				break
			}
		}
	}
	return out, nil
}

var executions = sync.Pool{New: func() any { return new(execution) }}

// begin starts an execution; end gives it back.
func (e *Engine) begin(s *Session, p *Params, values []value, tr *Trace) *execution {
	x := executions.Get().(*execution)
	x.e, x.s, x.p, x.values, x.trace = e, s, p, values, tr
	x.nowSec, x.nowMicros = e.now()
	if p.HasNow {
		x.nowSec = p.NowSec
	}
	x.timestamp = x.nowMicros
	if p.HasTimestamp {
		x.timestamp = p.Timestamp
	}
	x.fn = cqlfunc.Context{NowMicros: x.nowMicros, ProtocolVersion: s.ProtocolVersion}
	return x
}

func (x *execution) end() {
	*x = execution{}
	executions.Put(x)
}

// with is x with other values, for the statements of a batch.
func (x *execution) with(values []value) *execution {
	c := *x
	c.values = values
	c.warnings = nil
	c.root = x
	if x.root != nil {
		c.root = x.root
	}
	return &c
}
