package exec

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"varve/internal/cql"
	"varve/internal/schema"
)

// Engine executes statements. All methods may be called concurrently.
type Engine struct {
	opts   Options // with its defaults filled in
	cache  statementCache
	tracer *tracer
	uuids  uuidSource
	micros atomic.Int64 // the last timestamp given to a write

	started   time.Time // by the options' clock
	begun     time.Time // by the machine's
	passwords passwords
	builds    indexBuilds
	gate      schemaGate
	slow      slowLog
	walks     walks
	watch     guardWatch
}

// New builds an engine and starts its background work.
func New(o Options) (*Engine, error) {
	if o.Store == nil || o.Catalog == nil {
		return nil, errIncomplete
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Limits == nil {
		o.Limits = NewLimits()
	}
	if o.Node.Datacenter != "" {
		o.Catalog.SetDatacenter(o.Node.Datacenter)
	}
	e := &Engine{opts: o, started: o.Clock(), begun: time.Now()}
	o.Catalog.SetClock(func() time.Time {
		_, micros := e.now()
		return time.UnixMicro(micros)
	})
	if err := e.watchFeeds(); err != nil {
		return nil, err
	}
	if err := e.passwords.init(); err != nil {
		return nil, err
	}
	e.uuids.init()
	e.tracer = newTracer(e)
	orphans, err := e.orphans()
	if err != nil {
		return nil, err
	}
	e.builds.start(e, orphans)
	e.slow.start(o.Logger)
	e.watch.start(e)
	return e, nil
}

// Close waits for background work: indexes being filled, traces being written.
func (e *Engine) Close() error {
	e.builds.close()
	e.tracer.close()
	e.slow.close()
	e.watch.close()
	return nil
}

// Auth reports whether clients must log in.
func (e *Engine) Auth() bool { return e.opts.Auth }

// Limits returns the live settings.
func (e *Engine) Limits() *Limits { return e.opts.Limits }

// Subscribe calls f after each schema change.
func (e *Engine) Subscribe(f func(schema.Event)) { e.opts.Catalog.Subscribe(f) }

// Query parses and runs one statement.
func (e *Engine) Query(ctx context.Context, s *Session, text string, p *Params) (*Result, error) {
	tr := e.startTrace(s, p, "Execute CQL3 query", text)
	tr.Event("Parsing %s", text)
	res, err := e.query(ctx, s, text, p, tr)
	return e.finish(s, tr, res, err)
}

func (e *Engine) query(ctx context.Context, s *Session, text string, p *Params, tr *Trace) (*Result, error) {
	start := time.Now()
	res, err := e.queryOnce(ctx, s, text, p, tr, start)
	for range maxReplans {
		if !errors.Is(err, errStale) {
			break
		}
		res, err = e.queryOnce(ctx, s, text, p, tr, start)
	}
	return res, err
}

func (e *Engine) queryOnce(ctx context.Context, s *Session, text string, p *Params, tr *Trace, start time.Time) (*Result, error) {
	st, err := e.planText(s, text, p.Keyspace, tr)
	if err != nil {
		return nil, err
	}
	values, err := bindValues(st, p.Values, p.Names)
	if err != nil {
		return nil, err
	}
	if len(values) != len(st.variables) {
		return nil, invalidf("Invalid amount of bind variables")
	}
	x := e.begin(s, p, values, tr)
	defer x.end()
	x.start, x.text = start, text
	res, err := x.run(ctx, st)
	if res != nil && len(st.warnings) > 0 {
		res.Warnings = append(st.warnings[:len(st.warnings):len(st.warnings)], res.Warnings...)
	}
	return res, err
}

// Execute runs a prepared statement.
func (e *Engine) Execute(ctx context.Context, s *Session, ps *Prepared, p *Params) (*Result, error) {
	tr := e.startTrace(s, p, "Execute CQL3 prepared query", ps.Text)
	start := time.Now()
	res, err := e.execute(ctx, s, ps, p, tr, start)
	for range maxReplans {
		if !errors.Is(err, errStale) {
			break
		}
		if ps, err = e.Lookup(ctx, s, ps.ID); err != nil {
			break
		}
		res, err = e.execute(ctx, s, ps, p, tr, start)
	}
	return e.finish(s, tr, res, err)
}

func (e *Engine) execute(ctx context.Context, s *Session, ps *Prepared, p *Params, tr *Trace, start time.Time) (*Result, error) {
	st := ps.plan
	values, err := bindValues(st, p.Values, p.Names)
	if err != nil {
		return nil, err
	}
	if len(values) != len(st.variables) {
		return nil, invalidf("there were %d markers(?) in CQL but %d bound variables", len(st.variables), len(values))
	}
	x := e.begin(s, p, values, tr)
	defer x.end()
	x.start, x.text = start, ps.Text
	res, err := x.run(ctx, st)
	if err == nil && res.Kind == resultRows && st.fixedColumns {
		res.MetadataID = ps.ResultMetadataID
	}
	return res, err
}

// run carries out a planned statement, notes it where it was slow, and gives
// its warnings to the answer or to the error.
func (x *execution) run(ctx context.Context, st *planned) (*Result, error) {
	res, err := x.runPlan(ctx, st)
	x.noteSlow(st, err)
	if len(x.warnings) > 0 {
		if err != nil {
			return nil, withWarnings(err, x.warnings)
		}
		res.Warnings = append(res.Warnings, x.warnings...)
	}
	return res, err
}

func (x *execution) runPlan(ctx context.Context, st *planned) (*Result, error) {
	e := x.e
	if len(st.tables) > 0 {
		defer leave(e.gate.enter(x.nowMicros))
		if !st.holds(e.opts.Catalog.Snapshot()) {
			return nil, errStale
		}
	}
	if err := st.authorize(x); err != nil {
		return nil, err
	}
	return st.run.run(ctx, x)
}

// finish ends a request: its trace is closed and its error made fit for the wire.
func (e *Engine) finish(s *Session, tr *Trace, res *Result, err error) (*Result, error) {
	if tr == nil {
		if err != nil {
			return nil, wireError(err)
		}
		return res, nil
	}
	if err == nil && res.Commit != nil {
		// A traced request waits here, so that the trace shows the wait.
		err = res.Commit.Wait()
		res.Commit = nil
	}
	if err != nil {
		tr.Event("%s", err.Error())
		err = withTrace(err, tr.id)
	} else {
		id := tr.id
		res.TraceID = &id
	}
	e.tracer.finish(tr)
	if err != nil {
		return nil, err
	}
	return res, nil
}

// now is the time of a request: seconds for expiry, and microseconds that no
// other request got, for timestamps.
func (e *Engine) now() (sec, micros int64) {
	micros = e.opts.Clock().UnixMicro()
	sec = micros / 1_000_000
	for {
		last := e.micros.Load()
		if micros <= last {
			micros = last + 1
		}
		if e.micros.CompareAndSwap(last, micros) {
			return sec, micros
		}
	}
}

// planText parses and plans one statement.
func (e *Engine) planText(s *Session, text, keyspace string, tr *Trace) (*planned, error) {
	if limit := e.opts.Limits.MaxStatementBytes.Load(); limit > 0 && int64(len(text)) > limit {
		return nil, invalidf("Statement of %d bytes is longer than the maximum of %d", len(text), limit)
	}
	parsed, err := cql.Parse(text)
	if err != nil {
		return nil, err
	}
	tr.Event("Preparing statement")
	if keyspace == "" {
		keyspace = s.Keyspace
	}
	return e.plan(e.opts.Catalog.Snapshot(), keyspace, parsed)
}
