package move

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	fenceTries = 5 // for writers that do not end in time
	fencePause = 500 * time.Millisecond
)

// switchover is a cutover or a rollback: the same with the sides exchanged.
type switchover struct {
	m        *Mover
	word     string // "cutover"
	from, to Part
	out      *flow // whose changes have to be drained
	back     *flow // whose changes begin
	under    State // while it goes on
	then     State

	raised, drained, compared, switched, lifted time.Duration // since the beginning
	rows                                        int
}

func (m *Mover) cutover() *switchover {
	return &switchover{m: m, word: "cutover", from: Origin, to: Target, out: m.fwd, back: m.rev, under: CuttingOver, then: CutOver}
}

func (m *Mover) rollback() *switchover {
	return &switchover{m: m, word: "rollback", from: Target, to: Origin, out: m.rev, back: m.fwd, under: RollingBack, then: RolledBack}
}

// refusals returns everything that forbids the switch, checked before any
// writer is held up.
func (s *switchover) refusals(ctx context.Context) (no []string, proof string, err error) {
	m, b := s.m, &s.m.file.Budgets
	add := func(format string, args ...any) { no = append(no, fmt.Sprintf(format, args...)) }
	if err := m.v.covered(ctx); err != nil {
		add("%v", err)
	}
	if err := m.v.clean(ctx); err != nil {
		add("%v", err)
	}
	if len(m.running()) < 2 {
		add("both directions must be followed; %s", m.haltedWhy())
		return no, "", nil
	}
	for _, f := range []*flow{s.out, s.back} {
		switch lag := f.behind(); {
		case lag < 0:
			add("the lag of %s is not known yet", f.stream)
		case lag > b.Lag:
			add("%s is %s behind, the mark is %s", f.stream, lag.Round(time.Millisecond), b.Lag)
		}
		if n := f.toFill(); n > 0 {
			add("%d rows that %s refused are not filled yet", n, f.to)
		}
		f.mu.Lock()
		if f.breaches > 0 {
			add("%d changes were made on %s past the fence; verify and repair first", f.breaches, f.source)
		}
		f.mu.Unlock()
	}
	if n := m.v.touched.count(); n > b.Touched {
		add("%d rows wait to be compared again, the mark is %d", n, b.Touched)
	}
	long, err := m.sides[s.from].Long(ctx, b.LongTransaction)
	if err != nil {
		return nil, "", fmt.Errorf("look for long transactions on %s: %w", s.from, err)
	}
	for _, l := range long {
		add("a long transaction on %s: %s", s.from, l)
	}
	if len(no) > 0 {
		return no, "", nil
	}
	proof, err = m.canaries(ctx)
	if err != nil {
		add("%v", err)
	}
	return no, proof, nil
}

// haltedWhy says why a flow does not run.
func (m *Mover) haltedWhy() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for f, err := range m.halted {
		return fmt.Sprintf("%s ended: %v", f.stream, err)
	}
	return "one has not begun yet"
}

// run makes the switch. It returns nil when the record says that it is done.
func (s *switchover) run(ctx context.Context, proof string) error {
	m := s.m
	limit := float64(m.file.Budgets.Deadline) / float64(time.Millisecond)
	err := m.to(ctx, func(r *Record) {
		r.Back, r.State = r.State, s.under
		r.Budgets = append(r.Budgets, Budget{
			Step: s.then, Name: s.word + ": writers held up", Limit: limit, Unit: "ms", Set: time.Now(),
			Rule: "after that everything is as before",
		})
	}, s.word+" begins", proof)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		err = s.fenced(ctx)
		if !errors.Is(err, ErrFenceBusy) || try == fenceTries || !sleep(ctx, fencePause) {
			break
		}
	}
	if m.rec.State == s.then {
		return err
	}
	// Whether it was committed is for the record to say.
	rec, loadErr := m.o.Store.Load(ctx, m.lease.Move)
	if loadErr != nil {
		return fmt.Errorf("%s: %w; its state could not be read: %w", s.word, err, loadErr)
	}
	if rec.State == s.then {
		m.rec = rec
		m.adopt()
		return nil
	}
	m.adopt()
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if liftErr := lift(undo, m.sides[s.from], m.rec.Generation); liftErr != nil {
		return fmt.Errorf("%s: %w; %w", s.word, err, liftErr)
	}
	return err
}

// fenced holds writers up, makes both sides equal, proves it and switches.
func (s *switchover) fenced(ctx context.Context) error {
	m, b := s.m, &s.m.file.Budgets
	gen := m.rec.Generation
	began := time.Now()
	// The rest of the deadline is for the commit and for lifting.
	ctx, cancel := context.WithTimeout(ctx, b.Deadline-b.Deadline/8)
	defer cancel()
	if err := m.sides[s.from].RaiseFence(ctx, gen, b.Patience, b.Deadline); err != nil {
		return fmt.Errorf("hold up the writers of %s: %w", s.from, err)
	}
	s.raised = time.Since(began)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.counters(gctx) })
	g.Go(func() (err error) {
		if err := s.out.drain(gctx); err != nil {
			return err
		}
		s.drained = time.Since(began)
		s.rows, err = m.v.rest(gctx)
		return err
	})
	if err := g.Wait(); err != nil {
		return err
	}
	s.compared = time.Since(began)
	s.back.open.Store(true)
	if s.then == RolledBack {
		// Origin's state rows cannot hold the target's fence; so it is kept first.
		if err := m.sides[s.from].KeepFence(ctx, gen); err != nil {
			return fmt.Errorf("keep the fence of %s: %w", s.from, err)
		}
	}
	floor := max(m.rec.StampFloor, m.fwd.stamps(), m.rev.stamps())
	err := m.to(ctx, func(r *Record) {
		r.State, r.Back, r.Canonical, r.StampFloor = s.then, "", s.to, floor
		r.Trouble, r.Shadow = "", false
		r.ReadPercent = 100
		if s.to == Origin {
			r.ReadPercent = 0
		}
	}, fmt.Sprintf("%s: %s is right from now on", s.word, s.to), fmt.Sprintf("%d rows compared inside the fence", s.rows))
	if err != nil {
		return err
	}
	s.switched = time.Since(began)
	// From here on nothing is taken back, whatever the deadline says.
	opening, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer done()
	if err := lift(opening, m.sides[s.to], m.rec.Generation); err != nil {
		return err
	}
	m.opened = m.rec.Generation
	s.lifted = time.Since(began)
	return nil
}

// counters carries sequences over.
func (s *switchover) counters(ctx context.Context) error {
	c, err := s.m.sides[s.from].Counters(ctx)
	if err != nil {
		return fmt.Errorf("read the sequences of %s: %w", s.from, err)
	}
	if err := s.m.sides[s.to].RaiseCounters(ctx, c); err != nil {
		return fmt.Errorf("set the sequences of %s: %w", s.to, err)
	}
	return nil
}

// stamps is greater than every write timestamp that went through the flow.
func (f *flow) stamps() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stamp
}

// details are the times of each part, for the result.
func (s *switchover) details() map[string]string {
	ms := func(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond)) }
	return map[string]string{
		"1 writers held up after": ms(s.raised), "2 drained": ms(s.drained - s.raised), "3 compared": ms(s.compared - s.drained),
		"4 switched": ms(s.switched - s.compared), "5 opened": ms(s.lifted - s.switched), "blocked": ms(s.lifted),
		"rows compared": fmt.Sprint(s.rows),
	}
}
