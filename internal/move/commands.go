package move

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// The verbs of intents.
const (
	VerbPause       = "pause"
	VerbResume      = "resume"
	VerbVerify      = "verify"
	VerbRepair      = "repair"
	VerbShadow      = "shadow"
	VerbSwitchReads = "switch-reads"
	VerbCutover     = "cutover"
	VerbRollback    = "rollback"
	VerbFinish      = "finish"
	VerbAbort       = "abort"
)

// refused is why a command is not carried out; nothing was changed.
type refused struct{ reasons []string }

func (r *refused) Error() string { return strings.Join(r.reasons, "; ") }

func refuse(format string, args ...any) error {
	return &refused{[]string{fmt.Sprintf(format, args...)}}
}

// intent carries a command out and puts its result down.
func (m *Mover) intent(ctx context.Context, i *Intent) error {
	m.log.Info("carrying a command out", "verb", i.Verb, "args", i.Args, "by", i.By)
	do := map[string]func(context.Context, *Intent) (*Result, error){
		VerbPause: m.pause, VerbResume: m.resume, VerbVerify: m.verifyAgain, VerbRepair: m.repair,
		VerbShadow: m.shadow, VerbSwitchReads: m.switchReads, VerbCutover: m.doCutover, VerbRollback: m.doRollback,
		VerbFinish: m.finish, VerbAbort: m.abort,
	}[i.Verb]
	if do == nil {
		return m.answer(ctx, i, &Result{Text: fmt.Sprintf("unknown command %q", i.Verb)}, nil)
	}
	res, err := do(ctx, i)
	switch {
	case err == nil && res == nil:
		return nil // answered already
	case err == nil:
		return m.answer(ctx, i, res, nil)
	case ctx.Err() != nil, errors.Is(err, ErrLeaseLost), errors.Is(err, ErrWriterLost):
		return err
	case errors.Is(err, ErrConflict):
		return err // looked at again with the new record
	}
	return m.answer(ctx, i, &Result{Text: err.Error()}, nil)
}

// answer ends a command, with a change of the record in the same transition.
func (m *Mover) answer(ctx context.Context, i *Intent, res *Result, change func(r *Record)) error {
	res.Intent = i.ID
	why := i.Verb + " by " + i.By
	if res.Text != "" {
		why += ": " + res.Text
	}
	return m.to(ctx, func(r *Record) {
		if change != nil {
			change(r)
		}
		r.Intent, r.Result = nil, res
	}, why)
}

func done(format string, args ...any) *Result {
	return &Result{OK: true, Text: fmt.Sprintf(format, args...)}
}

// in refuses unless the move is in one of the states.
func (m *Mover) in(states ...State) error {
	names := make([]string, len(states))
	for i, s := range states {
		if m.rec.State == s {
			return nil
		}
		names[i] = string(s)
	}
	return refuse("the move is %s; this is for a move that is %s", m.rec.State, strings.Join(names, " or "))
}

func (m *Mover) pause(ctx context.Context, i *Intent) (*Result, error) {
	if m.rec.Paused {
		return done("it was paused already"), nil
	}
	return nil, m.answer(ctx, i, done("copy and comparisons rest, changes are still followed"), func(r *Record) { r.Paused = true })
}

func (m *Mover) resume(ctx context.Context, i *Intent) (*Result, error) {
	m.mu.Lock()
	halted := maps.Clone(m.halted)
	m.mu.Unlock()
	for f, why := range halted {
		// A stream that holds what cannot be applied would stop at it again, also
		// when origin's row or table is as it should be by now.
		if !errors.Is(why, ErrStreamLost) && (i.Args["reopen"] != "true" || !lasting(why)) {
			continue
		}
		if i.Args["reopen"] != "true" {
			return nil, refuse("%v; --reopen begins the stream anew and compares every row again, which finds what was skipped", why)
		}
		if err := f.reopen(ctx); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	clear(m.halted)
	m.mu.Unlock()
	if i.Args["reopen"] == "true" && m.rec.State != CutOver && m.rec.State != Copying {
		return nil, m.answer(ctx, i, done("the stream begins anew, every row is compared again"), func(r *Record) {
			r.State, r.Paused, r.Trouble = Following, false, ""
			r.Shadow, r.ReadPercent = false, 0
		})
	}
	return nil, m.answer(ctx, i, done("goes on"), func(r *Record) { r.Paused, r.Trouble = false, "" })
}

func (m *Mover) verifyAgain(ctx context.Context, i *Intent) (*Result, error) {
	if err := m.in(Following, Verified, Shadowing, ReadsSwitched, RolledBack, CutOver); err != nil {
		return nil, err
	}
	m.endTask()
	if err := m.o.Store.ForgetRanges(ctx, m.lease, -1); err != nil {
		return nil, err
	}
	for _, f := range []*flow{m.fwd, m.rev} {
		f.mu.Lock()
		f.breaches = 0
		f.mu.Unlock()
	}
	if m.rec.State == CutOver {
		// The state stays: the app lives on the target.
		return done("every row is compared again; status shows when that is over"), nil
	}
	return nil, m.answer(ctx, i, done("every row is compared again"), func(r *Record) {
		r.State, r.Trouble = Following, ""
		r.Shadow, r.ReadPercent = false, 0
	})
}

func (m *Mover) repair(ctx context.Context, i *Intent) (*Result, error) {
	if err := m.in(Following, Verified, Shadowing, ReadsSwitched, RolledBack, CutOver); err != nil {
		return nil, err
	}
	if err := m.startFlows(ctx); err != nil {
		return nil, err
	}
	f := m.fwd
	if m.rec.Canonical == Target {
		f = m.rev
	}
	n := 0
	// Changes that built on rows that were wrong show only when those are right.
	for range 5 {
		mended, err := m.v.repair(ctx, f)
		n += mended
		if err != nil {
			return nil, err
		}
		if err := m.v.catchUp(ctx, 30*time.Second); err != nil {
			return nil, err
		}
		if err := m.v.clean(ctx); !errors.Is(err, errDifferences) {
			break
		}
	}
	if f.toFill() > 0 {
		if left, err := f.fill(ctx); left > 0 {
			return nil, fmt.Errorf("%d rows that the sink refused could not be filled: %w", left, err)
		}
	}
	if err := m.v.clean(ctx); err != nil {
		return nil, fmt.Errorf("%d rows are mended, but: %w", n, err)
	}
	return nil, m.answer(ctx, i, done("%d rows are mended and were found equal", n), func(r *Record) { r.Trouble = "" })
}

func (m *Mover) shadow(ctx context.Context, i *Intent) (*Result, error) {
	if err := m.in(Verified, Shadowing); err != nil {
		return nil, err
	}
	if i.Args["off"] == "true" {
		return nil, m.answer(ctx, i, done("no more shadow reads"), func(r *Record) { r.Shadow, r.State = false, Verified })
	}
	b := &m.file.Budgets
	return nil, m.answer(ctx, i, done("app nodes send reads to both sides and compare"), func(r *Record) {
		r.State, r.Shadow, r.ShadowSince = Shadowing, true, r.Generation+1
		r.Budgets = append(r.Budgets, Budget{
			Step: ReadsSwitched, Name: "shadow reads compared", Limit: float64(b.Comparisons), Unit: "comparisons", Least: true,
			Set: time.Now(), Rule: "none of them different",
		})
	})
}

func (m *Mover) abort(ctx context.Context, i *Intent) (*Result, error) {
	if err := m.in(Planned, Preparing, Copying, Following, Verified, Shadowing, ReadsSwitched, RolledBack); err != nil {
		return nil, err
	}
	m.endTask()
	m.halt()
	if err := m.takeAway(ctx, []Part{Origin, Target}); err != nil {
		return nil, err
	}
	if i.Args["drop-target"] == "true" {
		if err := m.sides[Target].DropTables(ctx); err != nil {
			return nil, fmt.Errorf("drop the target's tables: %w", err)
		}
	}
	return nil, m.answer(ctx, i, done("the move's streams, fences and tables are gone from both sides"), func(r *Record) {
		r.State, r.Trouble, r.Shadow, r.ReadPercent = Aborted, "", false, 0
	})
}

// takeAway removes streams and, from these sides, what the move made.
func (m *Mover) takeAway(ctx context.Context, parts []Part) error {
	for _, f := range []*flow{m.fwd, m.rev} {
		if err := f.from.DropStream(ctx, f.stream); err != nil {
			return fmt.Errorf("drop stream %s: %w", f.stream, err)
		}
	}
	for _, p := range parts {
		if err := m.sides[p].RemoveFence(ctx); err != nil {
			return fmt.Errorf("remove the fence of %s: %w", p, err)
		}
		if err := m.sides[p].Remove(ctx); err != nil {
			return fmt.Errorf("remove what the move made on %s: %w", p, err)
		}
	}
	return nil
}

func (m *Mover) doCutover(ctx context.Context, i *Intent) (*Result, error) {
	if m.rec.State == CutOver {
		return done("the target is right already"), nil
	}
	allowed := []State{ReadsSwitched}
	if i.Args["skip-shadow"] == "true" {
		allowed = []State{Verified, Shadowing, ReadsSwitched, RolledBack}
	}
	if err := m.in(allowed...); err != nil {
		return nil, err
	}
	return m.doSwitch(ctx, i, m.cutover())
}

func (m *Mover) doRollback(ctx context.Context, i *Intent) (*Result, error) {
	switch m.rec.State {
	case RolledBack:
		return done("origin is right already"), nil
	case ReadsSwitched, Shadowing:
		return nil, m.answer(ctx, i, done("reads are back at origin, which has been right all the time"), func(r *Record) {
			r.State, r.Shadow, r.ReadPercent = Verified, false, 0
		})
	}
	if err := m.in(CutOver); err != nil {
		return nil, err
	}
	return m.doSwitch(ctx, i, m.rollback())
}

func (m *Mover) doSwitch(ctx context.Context, i *Intent, s *switchover) (*Result, error) {
	if err := m.startFlows(ctx); err != nil {
		return nil, err
	}
	no, proof, err := s.refusals(ctx)
	if err != nil {
		return nil, err
	}
	if len(no) > 0 {
		return nil, &refused{no}
	}
	if i.Args["dry-run"] == "true" {
		return done("nothing forbids the %s (%s)", s.word, proof), nil
	}
	if err := s.run(ctx, proof); err != nil {
		if m.rec.State != s.under {
			return nil, err
		}
		return nil, m.answer(ctx, i, &Result{Text: "everything is as before: " + err.Error()}, func(r *Record) {
			r.State, r.Back = r.Back, ""
		})
	}
	blocked := float64(s.lifted) / float64(time.Millisecond)
	res := done("%s is right from now on; writers were held up for %.1f ms, %d rows compared inside", s.to, blocked, s.rows)
	res.Details = s.details()
	return nil, m.answer(ctx, i, res, func(r *Record) { r.Budgets[len(r.Budgets)-1].Measured = &blocked })
}

func (m *Mover) finish(ctx context.Context, i *Intent) (*Result, error) {
	if err := m.in(CutOver); err != nil {
		return nil, err
	}
	if n := m.rev.toFill(); n > 0 {
		return nil, refuse("%d rows that origin refused are not filled yet", n)
	}
	if i.Args["ignore-reads"] != "true" {
		if err := m.originUnread(ctx); err != nil {
			return nil, err
		}
	}
	if i.Args["dry-run"] == "true" {
		return done("nothing forbids to finish"), nil
	}
	m.endTask()
	m.halt()
	// Origin keeps its fence: a writer that was forgotten must not write there.
	if err := m.takeAway(ctx, []Part{Target}); err != nil {
		return nil, err
	}
	return nil, m.answer(ctx, i, done("the target stands alone; origin stays closed to writers and may be dropped"), func(r *Record) {
		r.State, r.Trouble = Finished, ""
	})
}

// originUnread looks for a while whether anybody but the move reads origin.
func (m *Mover) originUnread(ctx context.Context) error {
	nodes, err := m.o.Store.Nodes(ctx, m.lease.Move)
	if err != nil {
		return err
	}
	before := map[string]int64{}
	for _, n := range nodes {
		before[n.Name] = n.OriginReads
	}
	m.endTask()
	m.halt()
	first, _, err := m.sides[Origin].Scans(ctx)
	if err != nil {
		return fmt.Errorf("count the reads of origin: %w", err)
	}
	quiet := m.file.Budgets.QuietReads
	if !sleep(ctx, quiet) {
		return ctx.Err()
	}
	last, who, err := m.sides[Origin].Scans(ctx)
	if err != nil {
		return fmt.Errorf("count the reads of origin: %w", err)
	}
	var no []string
	if last != first {
		no = append(no, fmt.Sprintf("origin was read %d times in %s", last-first, quiet))
	}
	for _, w := range who {
		no = append(no, "reads origin: "+w)
	}
	if nodes, err = m.o.Store.Nodes(ctx, m.lease.Move); err != nil {
		return err
	}
	for _, n := range nodes {
		if n.OriginReads > before[n.Name] {
			no = append(no, fmt.Sprintf("node %s sent %d reads to origin", n.Name, n.OriginReads-before[n.Name]))
		}
	}
	if len(no) > 0 {
		return &refused{no}
	}
	return nil
}

// startFlows starts what follows both directions, where the command is the
// first thing that this mover does, and waits until their lag is known.
func (m *Mover) startFlows(ctx context.Context) error {
	if m.rec.State == Following && !m.mirrored {
		if err := m.rev.begin(ctx); err != nil {
			return err
		}
		m.mirrored = true
	}
	m.follow(ctx, m.fwd)
	m.follow(ctx, m.rev)
	for began := time.Now(); time.Since(began) < 10*time.Second; {
		known := true
		for _, f := range m.running() {
			known = known && f.behind() >= 0
		}
		if known || !sleep(ctx, 10*time.Millisecond) {
			break
		}
	}
	return ctx.Err()
}

func percentOf(args map[string]string) (int, error) {
	n, err := strconv.Atoi(args["percent"])
	if err != nil || n < 0 || n > 100 {
		return 0, refuse("percent %q is not a number from 0 to 100", args["percent"])
	}
	return n, nil
}
