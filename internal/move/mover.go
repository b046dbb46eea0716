package move

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Options are what a mover needs.
type Options struct {
	Store StateStore
	// Open connects to both stores of a move file; the sides are closed with the
	// mover.
	Open func(ctx context.Context, f *File) (origin, target Side, err error)
	// Owner names this process in the state rows: user, machine, process.
	Owner string
	// TTL is how long the lease holds without being renewed; the default is 10s.
	TTL time.Duration
	// Once ends the mover when no command waits and the state has no work of its
	// own left to be done.
	Once   bool
	Logger *slog.Logger
}

// Mover carries one move on. It owns the move's lease, both flows, and all
// that it writes anywhere goes through the lease's token or a writer that a
// later mover's writer ends.
type Mover struct {
	o      Options
	file   *File
	lease  Lease
	sides  [2]Side
	tables [2][]Table
	lim    *limiter
	gauge  *gauge
	v      *verifier
	cp     *copier
	fwd    *flow
	rev    *flow
	log    *slog.Logger

	rec *Record // of the main loop

	mu      sync.Mutex
	flows   []*running
	leader  Part
	budgets []Budget // a copy for the gauge's loop
	latency reading
	appSeen []float64 // the app's p95 of the copy, each look's
	state   State
	gen     int64
	paused  bool
	halted  map[*flow]error // ended, until resume

	prepared []Budget // by the task of that name
	mirrored bool     // the mirror's stream is open
	opened   int64    // the generation under which the target was opened

	wg     sync.WaitGroup
	events chan event
	task   *task
}

// running is a flow that runs.
type running struct {
	f      *flow
	cancel context.CancelFunc
	done   chan struct{}
}

// event is what the main loop is woken for.
type event struct {
	task *task    // that ended, with err
	flow *running // that ended, with err
	err  error
}

// task is the work of a state, beside the main loop.
type task struct {
	kind   string
	cancel context.CancelFunc
	done   chan struct{}
}

// Run carries a move on until it is finished or aborted, until the context
// ends, or until another mover takes it.
func Run(ctx context.Context, move string, o Options) error {
	if o.TTL == 0 {
		o.TTL = 10 * time.Second
	}
	lease, err := o.Store.Acquire(ctx, move, o.Owner, o.TTL)
	if err != nil {
		return fmt.Errorf("take over move %s: %w", move, err)
	}
	m := &Mover{o: o, lease: lease, log: o.Logger.With("move", move), events: make(chan event, 16), halted: map[*flow]error{}}
	ctx, cancel := context.WithCancelCause(ctx)
	m.wg.Go(func() { m.hold(ctx, cancel) })
	err = m.run(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, ErrLeaseLost) {
		err = cause
	}
	cancel(nil)
	m.wg.Wait()
	m.close(context.WithoutCancel(ctx))
	return err
}

func (m *Mover) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for _, s := range m.sides {
		if s != nil {
			_ = s.Close(ctx)
		}
	}
	if err := m.o.Store.Release(ctx, m.lease); err != nil {
		m.log.Warn("the lease was not given back and runs out by itself", "err", err)
	}
}

// hold renews the lease, and ends everything when it may have run out: the
// time is counted from before the last renewal that succeeded.
func (m *Mover) hold(ctx context.Context, cancel context.CancelCauseFunc) {
	good := time.Now()
	for sleep(ctx, m.o.TTL/5) {
		began := time.Now()
		attempt, done := context.WithDeadline(ctx, good.Add(m.o.TTL))
		err := m.o.Store.Renew(attempt, m.lease)
		done()
		switch {
		case err == nil:
			good = began
		case errors.Is(err, ErrLeaseLost), time.Since(good) > m.o.TTL-m.o.TTL/5:
			cancel(fmt.Errorf("%w: %w", ErrLeaseLost, err))
			return
		default:
			m.log.Warn("the lease could not be renewed, trying again", "err", err)
		}
	}
}

// bind loads the move and connects everything.
func (m *Mover) bind(ctx context.Context) error {
	rec, err := m.o.Store.Load(ctx, m.lease.Move)
	if err != nil {
		return err
	}
	m.rec = rec
	if m.file, err = ParseFile(rec.File); err != nil {
		return err
	}
	if m.sides[Origin], m.sides[Target], err = m.o.Open(ctx, m.file); err != nil {
		return err
	}
	findings, tables, err := bindSides(ctx, m.file, m.sides)
	if err != nil {
		return err
	}
	for _, f := range findings {
		if f.Stops {
			return fmt.Errorf("%s: %s", f.Object, f.What)
		}
	}
	m.tables = tables
	rules, err := m.file.rules(tables[Origin])
	if err != nil {
		return err
	}
	b := &m.file.Budgets
	m.lim = newLimiter(b.MinRate, b.MaxRate)
	m.gauge = &gauge{sides: m.sides, store: m.o.Store, move: rec.Move, now: time.Now}
	t := newTouched()
	m.fwd = newFlow(ForwardStream(rec.Move), Origin, m.sides[Origin], m.sides[Target], tables[Target], t, m.lease.Token, m.log)
	m.rev = newFlow(rec.Move+"_rev", Target, m.sides[Target], m.sides[Origin], tables[Origin], t, m.lease.Token, m.log)
	m.fwd.other, m.rev.other = m.rev.stream, m.fwd.stream
	m.rev.lenient = true
	m.cp = &copier{f: m.fwd, lim: m.lim}
	m.v = &verifier{
		move: rec.Move, sides: m.sides, tables: tables[Origin], rules: rules, touched: t, store: m.o.Store, lease: m.lease,
		lim: m.lim, logger: m.log, flows: m.running, leader: m.leading, standing: map[rowID]bool{},
	}
	m.adopt()
	return nil
}

func (m *Mover) running() []*flow {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]*flow, len(m.flows))
	for i, r := range m.flows {
		out[i] = r.f
	}
	return out
}

func (m *Mover) leading() Part {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leader
}

// adopt makes the running parts follow the record.
func (m *Mover) adopt() {
	m.mu.Lock()
	m.leader = m.rec.Canonical
	m.state, m.paused, m.gen = m.rec.State, m.rec.Paused, m.rec.Generation
	m.budgets = append([]Budget(nil), m.rec.Budgets...)
	m.mu.Unlock()
	if m.fwd == nil {
		return
	}
	m.fwd.open.Store(m.rec.Canonical == Origin)
	m.rev.open.Store(m.rec.Canonical == Target)
}

// run is the main loop: it carries out commands and the work of the state.
func (m *Mover) run(ctx context.Context) error {
	if err := m.bind(ctx); err != nil {
		m.trouble(ctx, err)
		return err
	}
	m.log.Info("carrying the move on", "state", m.rec.State, "generation", m.rec.Generation)
	m.wg.Go(func() { m.watch(ctx) })
	for {
		done, err := m.round(ctx)
		if err != nil || done {
			m.endTask()
			return err
		}
	}
}

// round does one thing, or waits for one to do.
func (m *Mover) round(ctx context.Context) (done bool, err error) {
	if ctx.Err() != nil {
		return true, context.Cause(ctx)
	}
	rec, err := m.o.Store.Load(ctx, m.lease.Move)
	if err != nil {
		return false, m.retry(ctx, err)
	}
	m.rec = rec
	m.adopt()
	if rec.State == Finished || rec.State == Aborted {
		return true, nil
	}
	if err := m.recover(ctx); err != nil {
		return false, m.retry(ctx, err)
	}
	if i := rec.Intent; i != nil {
		err := m.intent(ctx, i)
		if r := m.rec.Result; err == nil && m.o.Once && r != nil && r.Intent == i.ID && (!r.OK || i.Args["dry-run"] == "true") {
			// Nothing was changed, and nothing else may be.
			return true, nil
		}
		return false, m.retry(ctx, err)
	}
	if err := m.work(ctx); err != nil {
		return false, m.retry(ctx, err)
	}
	if m.o.Once && m.idle() {
		return true, nil
	}
	return false, m.wait(ctx)
}

// retry lets the main loop go on after errors that pass; a lost lease ends it.
func (m *Mover) retry(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, ErrLeaseLost), errors.Is(err, ErrWriterLost):
		return err
	case errors.Is(err, ErrConflict):
		return nil // somebody asked meanwhile
	}
	m.log.Warn("trying again", "err", err)
	sleep(ctx, time.Second)
	return nil
}

// wait waits for a command, a task's end or a flow's.
func (m *Mover) wait(ctx context.Context) error {
	waiting, cancel := context.WithCancel(ctx)
	woken := make(chan error, 1)
	m.wg.Go(func() { woken <- m.o.Store.Wait(waiting, m.lease.Move, m.rec.Generation, time.Second) })
	var err error
	select {
	case e := <-m.events:
		cancel()
		<-woken
		err = m.happened(ctx, e)
	case err = <-woken:
	}
	cancel()
	return m.retry(ctx, err)
}

// happened takes the end of a task or of a flow.
func (m *Mover) happened(ctx context.Context, e event) error {
	if e.flow != nil {
		m.mu.Lock()
		i := slices.Index(m.flows, e.flow)
		if i >= 0 {
			m.flows = slices.Delete(m.flows, i, i+1)
			m.halted[e.flow.f] = e.err
		}
		m.mu.Unlock()
		if i < 0 {
			return nil // one that was halted; the flow may run again by now
		}
		if errors.Is(e.err, ErrWriterLost) {
			return e.err
		}
		return m.stop(ctx, e.err)
	}
	if e.task != m.task {
		return nil // one that was ended
	}
	kind := m.task.kind
	m.task = nil
	return m.taskEnded(ctx, kind, e.err)
}

// start begins a task unless one of its kind runs; another is ended first.
func (m *Mover) start(ctx context.Context, kind string, do func(context.Context) error) {
	if m.task != nil && m.task.kind == kind {
		return
	}
	m.endTask()
	ctx, cancel := context.WithCancel(ctx)
	t := &task{kind: kind, cancel: cancel, done: make(chan struct{})}
	m.task = t
	m.wg.Go(func() {
		defer cancel()
		err := do(ctx)
		close(t.done)
		select {
		case m.events <- event{task: t, err: err}:
		case <-ctx.Done():
		}
	})
}

func (m *Mover) endTask() {
	if m.task != nil {
		m.task.cancel()
		<-m.task.done
		m.task = nil
	}
}

// follow starts a flow unless it runs or ended with an error that stays.
func (m *Mover) follow(ctx context.Context, f *flow) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.halted[f] != nil || slices.ContainsFunc(m.flows, func(r *running) bool { return r.f == f }) {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &running{f: f, cancel: cancel, done: make(chan struct{})}
	m.flows = append(m.flows, r)
	m.wg.Go(func() { m.beats(ctx, f) })
	m.wg.Go(func() {
		err := f.run(ctx)
		close(r.done)
		select {
		case m.events <- event{flow: r, err: err}:
		case <-ctx.Done():
		}
		cancel()
	})
}

// halt ends all flows and waits for it.
func (m *Mover) halt() {
	m.mu.Lock()
	flows := m.flows
	m.flows = nil
	m.mu.Unlock()
	for _, r := range flows {
		r.cancel()
		<-r.done
	}
}

// beats measures a flow's lag all the time.
func (m *Mover) beats(ctx context.Context, f *flow) {
	for sleep(ctx, beatEvery) {
		if err := f.beat(ctx); err != nil && ctx.Err() == nil {
			m.log.Debug("no beat", "stream", f.stream, "err", err)
		}
	}
}

// to makes a transition.
func (m *Mover) to(ctx context.Context, change func(r *Record), why string, measured ...string) error {
	next := *m.rec
	next.Budgets = append([]Budget(nil), m.rec.Budgets...)
	change(&next)
	e := Entry{By: m.o.Owner, From: m.rec.State, To: next.State, Why: why, Measured: measured}
	if err := m.o.Store.Transition(ctx, m.lease, &next, e); err != nil {
		return fmt.Errorf("go from %s to %s: %w", m.rec.State, next.State, err)
	}
	m.log.Info(why, "from", m.rec.State, "to", next.State, "generation", next.Generation, "measured", measured)
	m.rec = &next
	m.adopt()
	return nil
}

// stop puts down why the move does not go on by itself.
func (m *Mover) stop(ctx context.Context, why error) error {
	if why == nil || m.rec.Trouble == why.Error() {
		return nil
	}
	return m.to(ctx, func(r *Record) { r.Trouble = why.Error() }, "stopped: "+why.Error())
}

// trouble is stop for errors before the main loop runs.
func (m *Mover) trouble(ctx context.Context, why error) {
	if m.rec == nil || ctx.Err() != nil {
		return
	}
	if err := m.stop(ctx, why); err != nil {
		m.log.Warn("the reason could not be put down", "err", err)
	}
}
