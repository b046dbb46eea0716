package exec

import (
	"bytes"
	"context"
	"math"
	"slices"

	"varve/internal/cqlwire"
	"varve/internal/schema"
	"varve/internal/store"
)

// casRow is one row that the conditions of a request ask about.
type casRow struct {
	clustering [][]byte
	exists     bool
	notExists  bool
	asked      []casCondition
}

type casCondition struct {
	c *ifCondition
	x *execution
}

// casStatement is one statement of a conditional request.
type casStatement struct {
	m     *modifyPlan
	x     *execution
	named target
}

// casRequest is a conditional statement or a batch with conditions: all of it
// is on one partition, and is applied when every condition holds.
type casRequest struct {
	x     *execution // of the request
	t     *schema.Table
	key   store.Key
	comps [][]byte
	stmts []casStatement
	batch bool

	rows    []*casRow // by clustering, in order of appearance
	statics *casRow   // conditions on the static row
	columns []*schema.Column
	all     bool // some IF [NOT] EXISTS: all columns are returned
	// Whether some statement changes static columns or rows: with [NOT] EXISTS
	// only such columns are told, as in Cassandra.
	touchesStatics, touchesRows bool

	static  *rowImage
	images  []*rowImage // parallel to rows
	first   *rowImage   // the partition's first row, where only statics are asked about
	newest  int64       // the newest timestamp read, tombstones' too
	started bool
}

func (m *modifyPlan) runConditional(ctx context.Context, x *execution) (*Result, error) {
	if err := checkConditional(x.p.Consistency, x.p.SerialConsistency); err != nil {
		return nil, err
	}
	r := &casRequest{x: x, t: m.t, stmts: []casStatement{{m: m, x: x}}}
	return r.run(ctx)
}

func (r *casRequest) run(ctx context.Context) (*Result, error) {
	for i := range r.stmts {
		if err := r.addStatement(&r.stmts[i]); err != nil {
			return nil, err
		}
	}
	r.collectColumns()
	if err := checkConditional(r.x.p.Consistency, r.x.p.SerialConsistency); err != nil {
		return nil, err
	}
	ctx, cancel := r.x.writeDeadline(ctx)
	defer cancel()
	l, err := r.x.e.opts.Store.Lock(ctx, r.t, r.key)
	if err != nil {
		return nil, writeError(err, r.x.p.Consistency, "CAS")
	}
	defer l.Unlock()
	var stats store.ReadStats
	view := r.x.e.opts.Store.View(store.ReadOptions{
		NowSec: r.x.nowSec, Stats: &stats, TrackNewest: true, Deadline: deadlineOf(ctx),
	})
	var res *Result
	err = closing(view, func() (err error) {
		res, err = r.decide(ctx, l, view, &stats)
		r.x.reads.Add(&stats)
		return err
	})
	return res, timedOut(err, r.x.p.Consistency, "CAS")
}

// decide reads the rows, checks the conditions, and either applies the changes
// or answers with what the rows hold.
func (r *casRequest) decide(
	ctx context.Context, l *store.Lock, view *store.View, stats *store.ReadStats,
) (*Result, error) {
	// What is not applied would write nothing, but to retry it elsewhere is for whoever put the fence up.
	if err := r.x.e.opts.Store.CheckFence(r.t, r.x.p.Move); err != nil {
		return nil, writeError(err, r.x.p.Consistency, "CAS")
	}
	r.x.trace.Event("Reading existing values for CAS precondition")
	if err := r.read(view); err != nil {
		return nil, writeError(err, r.x.p.Consistency, "CAS")
	}
	r.newest = stats.NewestTimestamp
	ok, err := r.holds()
	if err != nil {
		return nil, err
	}
	if !ok {
		r.x.trace.Event("CAS precondition does not match current values")
		// What is told of the rows must survive a crash.
		if err := l.Sync(); err != nil {
			return nil, writeError(err, r.x.p.Consistency, "CAS")
		}
		return r.refusal(), nil
	}
	r.x.trace.Event("CAS precondition is met; proposing client-requested updates")
	b := r.x.newBatch()
	if err := r.addChanges(b, view); err != nil {
		b.Discard()
		return nil, err
	}
	w := &writeResult{}
	if w.commit, err = l.Apply(ctx, b); err != nil {
		return nil, writeError(err, r.x.p.Consistency, "CAS")
	}
	r.x.trace.Event("CAS applied successfully")
	w.Kind = cqlwire.ResultRows
	w.Columns = []cqlwire.ColumnSpec{r.appliedSpec()}
	w.Count, w.Data = 1, appliedTrue
	w.Commit = &w.commit
	return &w.Result, nil
}

// addStatement checks that a statement is on the request's partition and
// files its conditions under its row.
func (r *casRequest) addStatement(s *casStatement) error {
	m := s.m
	verb := "updates"
	if m.kind == deleteKind {
		verb = "deletions"
	}
	if m.where != nil && m.where.keyIn() {
		if r.batch {
			return invalidf("Batch with conditions cannot span multiple partitions (you cannot use IN on the partition key)")
		}
		return invalidf("IN on the partition key is not supported with conditional %s", verb)
	}
	mu := &mutation{x: s.x, m: m}
	keys, err := m.targetKeys(mu)
	if err != nil {
		return err
	}
	if len(keys) != 1 {
		return invalidf("Batch with conditions cannot span multiple partitions")
	}
	s.named.keys = keys
	comps, err := keys[0].Components(r.t)
	if err != nil {
		return err
	}
	if !r.started {
		r.started, r.key, r.comps = true, keys[0], comps
	} else if keys[0].Token != r.key.Token || !slices.EqualFunc(comps, r.comps, bytes.Equal) {
		return invalidf("Batch with conditions cannot span multiple partitions")
	}
	r.touchesStatics = r.touchesStatics || len(m.statics) > 0
	r.touchesRows = r.touchesRows || m.changesRows()
	if m.cond == nil {
		return nil
	}
	clustering, err := r.clusteringOf(mu, verb)
	if err != nil {
		return err
	}
	s.named.row = clustering
	return r.addConditions(s, clustering)
}

// clusteringOf is the one row that a conditional statement names; nil for the static row.
func (r *casRequest) clusteringOf(mu *mutation, verb string) ([][]byte, error) {
	m := mu.m
	if !m.changesRows() {
		return nil, nil
	}
	if m.where == nil {
		return mu.keyValues([][]byte{}, m.t.Clustering, m.ck)
	}
	for _, c := range m.where.clustering {
		if c.op == restrictIn {
			return nil, invalidf("IN on the clustering key columns is not supported with conditional %s", verb)
		}
	}
	sl, rows, err := m.where.slices(mu.x)
	if err != nil {
		return nil, err
	}
	if len(m.t.Clustering) == 0 {
		return [][]byte{}, nil
	}
	if !rows || len(sl) != 1 {
		return nil, invalidf("IN on the clustering key columns is not supported with conditional %s", verb)
	}
	return sl[0].Start.Prefix, nil
}

func (r *casRequest) addConditions(s *casStatement, clustering [][]byte) error {
	cond := s.m.cond
	if cond.exists || cond.notExists {
		r.all = true
		row := r.rowFor(clustering)
		switch {
		case len(row.asked) > 0 && cond.notExists:
			return invalidf("Cannot mix IF conditions and IF NOT EXISTS for the same row")
		case len(row.asked) > 0:
			return invalidf("Cannot mix IF conditions and IF EXISTS for the same row")
		case (row.exists && cond.notExists) || (row.notExists && cond.exists):
			return invalidf("Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row")
		}
		row.exists, row.notExists = row.exists || cond.exists, row.notExists || cond.notExists
		return nil
	}
	if err := r.ask(s, clustering, cond.regulars); err != nil {
		return err
	}
	return r.ask(s, nil, cond.statics)
}

func (r *casRequest) ask(s *casStatement, clustering [][]byte, cs []ifCondition) error {
	if len(cs) == 0 {
		return nil
	}
	row := r.rowFor(clustering)
	if row.notExists {
		return invalidf("Cannot mix IF conditions and IF NOT EXISTS for the same row")
	}
	if row.exists {
		return invalidf("Cannot mix IF conditions and IF EXISTS for the same row")
	}
	for i := range cs {
		row.asked = append(row.asked, casCondition{c: &cs[i], x: s.x})
	}
	return nil
}

func (r *casRequest) rowFor(clustering [][]byte) *casRow {
	if clustering == nil {
		if r.statics == nil {
			r.statics = &casRow{}
		}
		return r.statics
	}
	for _, row := range r.rows {
		if slices.EqualFunc(row.clustering, clustering, bytes.Equal) {
			return row
		}
	}
	row := &casRow{clustering: clustering}
	r.rows = append(r.rows, row)
	return row
}

// addChanges adds all statements' changes with one timestamp, newer than
// anything that was read, dead or alive, as a Paxos ballot would be: what is
// answered as applied must not be shadowed.
func (r *casRequest) addChanges(b *store.Batch, view *store.View) error {
	ballot := r.x.nowMicros
	if r.newest >= ballot {
		if r.newest == math.MaxInt64 {
			return invalidf("Cannot apply a conditional update: the row holds a value or a deletion with timestamp %d, "+
				"the largest there is, which no update can supersede", r.newest)
		}
		ballot = r.newest + 1
	}
	for _, s := range r.stmts {
		s.x.timestamp = ballot
		mu := &mutation{x: s.x, m: s.m, b: b, view: view, named: s.named}
		if err := mu.times(); err != nil {
			return err
		}
		if err := mu.add(); err != nil {
			return err
		}
	}
	return r.x.checkSize(r.t, b)
}
