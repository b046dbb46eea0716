package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"varve/internal/cql"
	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/schema"
	"varve/internal/store"
)

// batchPlan is a planned BEGIN … APPLY BATCH.
type batchPlan struct {
	kind      cql.BatchKind
	timestamp term
	stmts     []*modifyPlan
}

func (p *planner) planBatch(st *cql.Batch) (*batchPlan, error) {
	b := &batchPlan{kind: st.Kind}
	if st.Using.TTL != nil {
		return nil, invalidf("Global TTL on the BATCH statement is not supported.")
	}
	if st.Using.Timestamp != nil {
		var err error
		spec := cqlwire.ColumnSpec{Keyspace: p.keyspace, Table: "[batch]", Name: "[timestamp]", Type: cqltype.Bigint}
		if b.timestamp, err = p.term(st.Using.Timestamp, spec); err != nil {
			return nil, err
		}
	}
	keyspace := p.keyspace
	for _, s := range st.Statements {
		m, err := p.planModify(s)
		if err != nil {
			return nil, err
		}
		p.keyspace = keyspace // planning a statement moves to its table's
		b.stmts = append(b.stmts, m)
	}
	return b, checkBatch(b.kind, b.stmts, b.timestamp != nil)
}

func (b *batchPlan) tables() []*schema.Table {
	var ts []*schema.Table
	for _, m := range b.stmts {
		if !slices.Contains(ts, m.t) {
			ts = append(ts, m.t)
		}
	}
	return ts
}

func (b *batchPlan) run(ctx context.Context, x *execution) (*Result, error) {
	r := &batchRun{x: x, kind: b.kind}
	if b.timestamp != nil {
		v, err := b.timestamp.eval(x)
		if err != nil {
			return nil, err
		}
		if len(v.Bytes) == 0 && !v.Unset {
			return nil, invalidf("Invalid null value of timestamp")
		}
		if !v.Unset {
			x.timestamp = bigintOf(v.Bytes)
		}
	}
	for _, m := range b.stmts {
		r.stmts = append(r.stmts, casStatement{m: m, x: x.with(x.values)})
	}
	return r.run(ctx)
}

// Batch runs a protocol BATCH.
func (e *Engine) Batch(ctx context.Context, s *Session, kind cql.BatchKind, items []BatchItem, p *Params) (*Result, error) {
	tr := e.startTrace(s, p, "Execute batch of CQL3 queries", "")
	start := time.Now()
	res, err := e.batch(ctx, s, kind, items, p, tr, start)
	for range maxReplans {
		if !errors.Is(err, errStale) {
			break
		}
		res, err = e.batch(ctx, s, kind, items, p, tr, start)
	}
	return e.finish(s, tr, res, err)
}

func (e *Engine) batch(
	ctx context.Context, s *Session, kind cql.BatchKind, items []BatchItem, p *Params, tr *Trace, start time.Time,
) (*Result, error) {
	x := e.begin(s, p, nil, tr)
	defer x.end()
	x.start = start
	r := &batchRun{x: x, kind: kind, stmts: make([]casStatement, 0, len(items))}
	plans := make([]*modifyPlan, 0, len(items))
	defer leave(e.gate.enter(x.nowMicros))
	snap := e.opts.Catalog.Snapshot()
	var warnings []string
	for i := range items {
		st, err := e.batchItem(ctx, s, &items[i], p, tr)
		if err != nil {
			return nil, err
		}
		if !st.holds(snap) {
			return nil, errStale
		}
		if st.modify == nil {
			return nil, invalidf("Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.")
		}
		values, err := bindValues(st, items[i].Values, items[i].Names)
		if err != nil {
			return nil, err
		}
		if len(values) != len(st.variables) {
			return nil, invalidf("There were %d markers(?) in CQL but %d bound variables", len(st.variables), len(values))
		}
		warnings = append(warnings, st.warnings...)
		plans = append(plans, st.modify)
		r.stmts = append(r.stmts, casStatement{m: st.modify, x: x.with(values)})
	}
	if err := checkBatch(kind, plans, false); err != nil {
		return nil, err
	}
	res, err := r.run(ctx)
	r.noteSlow(err)
	if err != nil {
		if len(x.warnings) > 0 {
			err = withWarnings(err, x.warnings)
		}
		return nil, err
	}
	res.Warnings = append(append(res.Warnings, warnings...), x.warnings...)
	return res, nil
}

func (e *Engine) batchItem(ctx context.Context, s *Session, item *BatchItem, p *Params, tr *Trace) (*planned, error) {
	if item.ID != nil {
		ps, err := e.Lookup(ctx, s, item.ID)
		if err != nil {
			return nil, err
		}
		return ps.plan, nil
	}
	return e.planText(s, item.Text, p.Keyspace, tr)
}

// checkBatch applies the rules on what may stand in a batch together.
func checkBatch(kind cql.BatchKind, stmts []*modifyPlan, timestamp bool) error {
	counters, others, conditional := 0, 0, false
	for _, m := range stmts {
		if m.virtual != nil {
			return invalidf("Cannot include a virtual table statement in a batch")
		}
		conditional = conditional || m.cond != nil
	}
	if timestamp {
		if conditional {
			return invalidf("Cannot provide custom timestamp for conditional BATCH")
		}
		if kind == cql.CounterBatch {
			return invalidf("Cannot provide custom timestamp for counter BATCH")
		}
	}
	for _, m := range stmts {
		if timestamp && m.t.Counter {
			return invalidf("Cannot provide custom timestamp for a BATCH containing counters")
		}
		if timestamp && m.timestamp != nil {
			return invalidf("Timestamp must be set either on BATCH or individual statements")
		}
		if m.t.Counter {
			counters++
		} else {
			others++
		}
	}
	switch {
	case kind == cql.CounterBatch && others > 0:
		return invalidf("Cannot include non-counter statement in a counter batch")
	case counters > 0 && others > 0:
		return invalidf("Counter and non-counter mutations cannot exist in the same batch")
	case kind == cql.LoggedBatch && counters > 0:
		return invalidf("Cannot include a counter statement in a logged batch")
	}
	if conditional {
		for _, m := range stmts {
			if m.t != stmts[0].t {
				return invalidf("Batch with conditions cannot span multiple tables")
			}
		}
	}
	return nil
}

// batchRun is one run of a batch, of either kind.
type batchRun struct {
	x     *execution
	kind  cql.BatchKind
	stmts []casStatement
}

func (r *batchRun) run(ctx context.Context) (*Result, error) {
	reads := false
	for i := range r.stmts {
		s := &r.stmts[i]
		if s.m.cond != nil {
			return r.runConditional(ctx)
		}
		reads = reads || s.m.reads
	}
	// Cassandra takes SERIAL for a batch, where it refuses it for a statement.
	if err := checkLevel(r.x.p.Consistency); err != nil {
		return nil, err
	}
	if reads && r.x.p.Consistency == cqlwire.Any {
		return nil, invalidf("Write operation require a read but consistency ANY is not supported on reads")
	}
	for _, s := range r.stmts {
		if err := r.x.e.authorize(r.x.s, "MODIFY", s.m.t); err != nil {
			return nil, err
		}
	}
	if reads {
		return r.runReading(ctx)
	}
	b := r.x.newBatch()
	if err := r.fill(b, nil); err != nil {
		b.Discard()
		return nil, err
	}
	return r.x.apply(ctx, b, r.kind == cql.LoggedBatch, r.writeType())
}

func (r *batchRun) writeType() string {
	switch r.kind {
	case cql.UnloggedBatch:
		return "UNLOGGED_BATCH"
	case cql.CounterBatch:
		return "COUNTER"
	}
	return "BATCH"
}

func (r *batchRun) runConditional(ctx context.Context) (*Result, error) {
	for _, s := range r.stmts {
		if err := r.x.e.authorize(r.x.s, "MODIFY", s.m.t); err != nil {
			return nil, err
		}
		if s.m.cond != nil {
			if err := r.x.e.authorize(r.x.s, "SELECT", s.m.t); err != nil {
				return nil, err
			}
		}
	}
	c := &casRequest{x: r.x, t: r.stmts[0].m.t, stmts: r.stmts, batch: true}
	return c.run(ctx)
}

// runReading carries out a batch in which some list is changed by index or value.
func (r *batchRun) runReading(ctx context.Context) (*Result, error) {
	var keys []store.Key
	for i := range r.stmts {
		s := &r.stmts[i]
		if err := r.x.e.opts.Store.CheckFence(s.m.t, r.x.p.Move); err != nil {
			return nil, wireError(err)
		}
		k, err := s.m.targetKeys(&mutation{x: s.x, m: s.m})
		if err != nil {
			return nil, err
		}
		s.named.keys = k
		keys = append(keys, k...)
	}
	ctx, cancel := r.x.writeDeadline(ctx)
	defer cancel()
	// Partitions are held by token alone, so any of the tables will do.
	l, err := r.x.e.opts.Store.Lock(ctx, r.stmts[0].m.t, keys...)
	if err != nil {
		return nil, writeError(err, r.x.p.Consistency, r.writeType())
	}
	defer l.Unlock()
	var stats store.ReadStats
	view := r.x.e.opts.Store.View(store.ReadOptions{NowSec: r.x.nowSec, Stats: &stats, Deadline: deadlineOf(ctx)})
	b := r.x.newBatch()
	err = closing(view, func() error { return r.fill(b, view) })
	if err != nil {
		b.Discard()
		return nil, timedOut(err, r.x.p.Consistency, r.writeType())
	}
	w := &writeResult{}
	if w.commit, err = l.Apply(ctx, b); err != nil {
		return nil, writeError(err, r.x.p.Consistency, r.writeType())
	}
	w.Kind = cqlwire.ResultVoid
	w.Commit = &w.commit
	return &w.Result, nil
}

// fill adds all statements' changes to b and checks the batch's size.
func (r *batchRun) fill(b *store.Batch, view *store.View) error {
	seen := partitionSet{}
	mu := mutations.Get().(*mutation)
	defer mu.release()
	for _, s := range r.stmts {
		*mu = mutation{x: s.x, m: s.m, b: b, view: view, named: s.named, onKey: func(k store.Key) { seen.add(s.m.t, k) }}
		if err := mu.times(); err != nil {
			return err
		}
		if err := mu.add(); err != nil {
			return err
		}
		seen.bytes += mu.size
	}
	if len(r.stmts) == 0 {
		return nil
	}
	if err := r.x.checkSize(r.stmts[0].m.t, b); err != nil {
		return err
	}
	return r.checkBatchSize(&seen)
}

// partitionSet counts the partitions that a batch touches. Tokens stand for
// keys, which is exact enough for a warning.
type partitionSet struct {
	mutations map[partitionID]struct{} // by keyspace: what Cassandra makes one mutation of
	tokens    map[int64]struct{}
	updates   map[tableToken]struct{}
	tables    []string
	bytes     int // of all rows and cells
}

type tableToken struct {
	t     *schema.Table
	token int64
}

// size is the batch's size as Cassandra counts it.
func (p *partitionSet) size() int64 { return int64(p.bytes + partitionBytes*len(p.updates)) }

type partitionID struct {
	keyspace string
	token    int64
}

func (p *partitionSet) add(t *schema.Table, k store.Key) {
	if p.mutations == nil {
		p.mutations, p.tokens = map[partitionID]struct{}{}, map[int64]struct{}{}
		p.updates = map[tableToken]struct{}{}
	}
	p.updates[tableToken{t, k.Token}] = struct{}{}
	p.mutations[partitionID{t.Keyspace, k.Token}] = struct{}{}
	p.tokens[k.Token] = struct{}{}
	if name := t.Keyspace + "." + t.Name; !slices.Contains(p.tables, name) {
		p.tables = append(p.tables, name)
	}
}

// checkBatchSize warns of, or refuses, large batches, and warns of unlogged
// ones over many partitions. Batches on one partition are spared.
func (r *batchRun) checkBatchSize(seen *partitionSet) error {
	if len(seen.mutations) <= 1 {
		return nil
	}
	lim := r.x.e.opts.Limits
	tables := "[" + strings.Join(seen.tables, ", ") + "]"
	size := seen.size()
	warn, fail := lim.BatchWarnBytes.Load(), lim.BatchFailBytes.Load()
	if fail > 0 && size > fail {
		r.x.e.opts.Logger.Error(batchSizeText(tables, size, fail) + " (see batch_size_fail_threshold)")
		r.x.trace.Event("%s (see batch_size_fail_threshold)", batchSizeText(tables, size, fail))
		return invalidf("Batch too large")
	}
	if warn > 0 && size > warn {
		r.warn(batchSizeText(tables, size, warn))
	}
	if n := int64(len(seen.tokens)); r.kind != cql.LoggedBatch && n > lim.UnloggedWarnParts.Load() && lim.UnloggedWarnParts.Load() > 0 {
		plural := ""
		if len(seen.tables) > 1 {
			plural = "s"
		}
		r.warn(fmt.Sprintf("Unlogged batch covering %d partitions detected against table%s %s. You should use a logged batch for "+
			"atomicity, or asynchronous writes for performance.", n, plural, tables))
	}
	return nil
}

func (r *batchRun) warn(text string) {
	r.x.e.opts.Logger.Warn(text)
	r.x.warnings = append(r.x.warnings, text)
}

func batchSizeText(tables string, size, limit int64) string {
	return fmt.Sprintf("Batch for %s is of size %d, exceeding specified threshold of %d by %d.", tables, size, limit, size-limit)
}
