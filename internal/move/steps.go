package move

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// recover ends what an earlier mover left half done: a cutover or a rollback
// that was not committed is taken back, one that was is completed.
func (m *Mover) recover(ctx context.Context) error {
	gen := m.rec.Generation
	switch m.rec.State {
	case CuttingOver:
		if err := lift(ctx, m.sides[Origin], gen); err != nil {
			return err
		}
		return m.to(ctx, func(r *Record) { r.State, r.Back = r.Back, "" }, "the cutover was interrupted: everything is as before")
	case RollingBack:
		if err := lift(ctx, m.sides[Target], gen); err != nil {
			return err
		}
		return m.to(ctx, func(r *Record) { r.State, r.Back = r.Back, "" }, "the rollback was interrupted: everything is as before")
	case CutOver:
		if m.opened != 0 {
			return nil
		}
		if err := lift(ctx, m.sides[Target], gen); err != nil {
			return err
		}
		m.opened = gen
	}
	return nil
}

// lift opens a side; that a later generation rules there is none of its
// business.
func lift(ctx context.Context, s Side, gen int64) error {
	if err := s.LiftFence(ctx, gen); err != nil && !errors.Is(err, ErrFenceGeneration) {
		return fmt.Errorf("lift the fence of %s: %w", s, err)
	}
	return nil
}

// work starts what the state needs.
func (m *Mover) work(ctx context.Context) error {
	switch m.rec.State {
	case Planned, Preparing:
	default:
		m.follow(ctx, m.fwd)
	}
	if m.rec.Trouble != "" || m.rec.Paused {
		if m.rec.State != CutOver {
			m.endTask()
			return nil
		}
	}
	switch m.rec.State {
	case Planned:
		return m.check(ctx)
	case Preparing:
		m.start(ctx, "prepare", m.prepare)
	case Copying:
		m.start(ctx, "copy", m.cp.run)
	case Following:
		if !m.mirrored {
			m.start(ctx, "open the mirror", m.rev.begin)
			return nil
		}
		m.follow(ctx, m.rev)
		m.start(ctx, "verify", m.verify)
	case Verified, Shadowing, ReadsSwitched, RolledBack:
		m.follow(ctx, m.rev)
		m.start(ctx, "keep", m.v.keep)
		if m.rec.State == ReadsSwitched {
			if err := m.guardReads(ctx); err != nil {
				return err
			}
		}
		return m.guardEqual(ctx)
	case CutOver:
		m.follow(ctx, m.rev)
		m.start(ctx, "mirror", m.mirror)
	}
	return nil
}

// guardEqual goes back to before the verification when a difference was found
// after it, reads included.
func (m *Mover) guardEqual(ctx context.Context) error {
	err := m.v.clean(ctx)
	if !errors.Is(err, errDifferences) {
		return err
	}
	why := fmt.Errorf("%w; `varve move repair` mends those that are not of a rule", err)
	return m.to(ctx, func(r *Record) {
		r.State, r.Trouble, r.Shadow, r.ReadPercent = Following, why.Error(), false, 0
	}, "no longer verified: "+err.Error())
}

// idle reports whether the state waits for a person.
func (m *Mover) idle() bool {
	switch m.rec.State {
	case Verified, Shadowing, ReadsSwitched, RolledBack, CutOver, Finished, Aborted:
		return true
	}
	return m.rec.Trouble != "" || m.rec.Paused
}

// check looks at both sides once more before anything is made.
func (m *Mover) check(ctx context.Context) error {
	for part, s := range m.sides {
		found, err := s.Check(ctx, Part(part))
		if err != nil {
			return fmt.Errorf("check %s: %w", Part(part), err)
		}
		for _, f := range found {
			if f.Stops {
				return m.stop(ctx, fmt.Errorf("%s: %s: %s", Part(part), f.Object, f.What))
			}
		}
	}
	return m.to(ctx, func(r *Record) { r.State = Preparing }, "both sides can be moved")
}

// prepare makes what the move needs on both sides and measures the app.
func (m *Mover) prepare(ctx context.Context) error {
	for part, s := range m.sides {
		if err := s.Prepare(ctx); err != nil {
			return fmt.Errorf("prepare %s: %w", Part(part), err)
		}
		if err := s.InstallFence(ctx); err != nil {
			return fmt.Errorf("install the fence of %s: %w", Part(part), err)
		}
	}
	if err := m.closeTarget(ctx); err != nil {
		return err
	}
	if err := m.fwd.begin(ctx); err != nil {
		return err
	}
	b := &m.file.Budgets
	budgets, err := m.gauge.baseline(ctx, b.Baseline, b.CopyLatency)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.prepared = budgets
	m.mu.Unlock()
	return nil
}

// closeTarget lets nobody but the move write the target until the cutover.
func (m *Mover) closeTarget(ctx context.Context) error {
	b := &m.file.Budgets
	gen := m.generation()
	if err := m.sides[Target].RaiseFence(ctx, gen, b.Patience, b.Deadline); err != nil {
		return fmt.Errorf("close the target to others: %w", err)
	}
	if err := m.sides[Target].KeepFence(ctx, gen); err != nil {
		return fmt.Errorf("keep the target closed to others: %w", err)
	}
	return nil
}

func (m *Mover) generation() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gen
}

// verify compares everything and proves both directions.
func (m *Mover) verify(ctx context.Context) error {
	if err := m.v.loadStanding(ctx); err != nil {
		return err
	}
	if err := m.v.run(ctx); err != nil {
		return err
	}
	began := time.Now()
	for m.v.touched.count() > m.file.Budgets.Touched || m.v.touched.anyFrom(began) {
		if err := m.v.catchUp(ctx, time.Hour); err != nil {
			return err
		}
	}
	if err := m.v.covered(ctx); err != nil {
		return err
	}
	if err := m.v.clean(ctx); err != nil {
		return err
	}
	_, err := m.canaries(ctx)
	return err
}

// canaries proves both directions and returns a sentence about it.
func (m *Mover) canaries(ctx context.Context) (string, error) {
	var took [2]time.Duration
	for i, f := range []*flow{m.fwd, m.rev} {
		d, err := proveCanary(ctx, f, 10*time.Second)
		if err != nil {
			return "", err
		}
		took[i] = d
	}
	return fmt.Sprintf("a row of the move's own took %s there and %s back", took[0].Round(10*time.Microsecond), took[1].Round(10*time.Microsecond)), nil
}

// taskEnded goes on after a task.
func (m *Mover) taskEnded(ctx context.Context, kind string, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, ErrLeaseLost), errors.Is(err, ErrWriterLost):
		return err
	case errors.Is(err, errDifferences):
		return m.stop(ctx, fmt.Errorf("%w; `varve move repair` mends those that are not of a rule", err))
	case err != nil && lasting(err):
		return m.stop(ctx, err)
	case err != nil:
		m.log.Warn("a step is begun again", "step", kind, "err", err)
		sleep(ctx, time.Second)
		return nil
	}
	switch kind {
	case "open the mirror":
		m.mirrored = true
	case "prepare":
		return m.to(ctx, func(r *Record) {
			r.State = Copying
			m.mu.Lock()
			r.Budgets = m.prepared
			m.mu.Unlock()
		}, "everything is prepared, the copy begins", m.budgetLines()...)
	case "copy":
		return m.copied(ctx)
	case "verify":
		return m.to(ctx, func(r *Record) { r.State = Verified }, "every row is equal on both sides, both directions are proven")
	}
	return nil
}

// lasting reports errors that trying again does not mend.
func lasting(err error) bool {
	var refused *RowError
	return errors.As(err, &refused) || errors.Is(err, ErrStreamLost) || errors.Is(err, ErrSchemaChanged) || errors.Is(err, errUnfollowable)
}

// copied judges the copy by its budgets and goes on.
func (m *Mover) copied(ctx context.Context) error {
	if !m.fwd.copiedAll() {
		return nil // rows were added to be read again: the task begins again
	}
	budgets := append([]Budget(nil), m.rec.Budgets...)
	var lines []string
	for i := range budgets {
		b := &budgets[i]
		if ms, ok := m.measured(b.Name, m.rec.Changed); ok && b.Step == Copying {
			b.Measured = &ms
			lines = append(lines, judged(b))
		}
	}
	return m.to(ctx, func(r *Record) { r.State, r.Budgets = Following, budgets }, "every row is copied", lines...)
}

// judged is a budget's line of the history.
func judged(b *Budget) string {
	word := "kept"
	if !b.Met() {
		word = "MISSED"
	}
	if b.Measured == nil {
		return fmt.Sprintf("%s: at most %.4g %s (%s)", b.Name, b.Limit, b.Unit, b.Rule)
	}
	return fmt.Sprintf("%s: %.4g %s, mark %.4g (%s): %s", b.Name, *b.Measured, b.Unit, b.Limit, b.Rule, word)
}

func (m *Mover) budgetLines() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for i := range m.prepared {
		out = append(out, judged(&m.prepared[i]))
	}
	return out
}

// mirror keeps both sides comparable after the cutover, and fills what origin
// refused.
func (m *Mover) mirror(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	m.wg.Go(func() {
		defer close(done)
		for sleep(ctx, time.Second) {
			if m.rev.toFill() == 0 {
				continue
			}
			if left, err := m.rev.fill(ctx); err != nil && ctx.Err() == nil {
				m.log.Warn("origin still refuses rows of the mirror", "left", left, "err", err)
				sleep(ctx, 5*time.Second)
			}
		}
	})
	var err error
	if m.v.covered(ctx) != nil {
		err = m.v.run(ctx)
	}
	if err == nil {
		err = m.v.keep(ctx)
	}
	cancel()
	<-done
	return err
}

func (f *flow) toFill() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.refill)
}
