package move

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	watchEvery  = 250 * time.Millisecond
	reportEvery = time.Second
	// leastLeft is how much log origin must still be able to keep.
	leastLeft = 64 << 20
)

// watch sets the pace by what the app feels and reports the move's figures.
func (m *Mover) watch(ctx context.Context) {
	var probing context.CancelFunc
	var probes sync.WaitGroup
	defer func() {
		if probing != nil {
			probing()
		}
		probes.Wait()
	}()
	for round := 0; sleep(ctx, watchEvery); round++ {
		m.mu.Lock()
		state, paused := m.state, m.paused
		budgets := m.budgets
		m.mu.Unlock()
		wanted := state == Preparing || state == Copying || state == Following
		switch {
		case wanted && probing == nil:
			pctx, cancel := context.WithCancel(ctx)
			probing = cancel
			for part := range m.sides {
				probes.Go(func() { m.gauge.run(pctx, Part(part)) })
			}
		case !wanted && probing != nil:
			probing()
			probing = nil
		}
		if wanted && state != Preparing {
			m.pace(ctx, budgets)
		}
		m.lim.hold("paused", paused)
		if round%int(reportEvery/watchEvery) == 0 {
			m.report(ctx)
		}
	}
}

// pace looks at the app's latency and at origin's log.
func (m *Mover) pace(ctx context.Context, budgets []Budget) {
	r, err := m.gauge.read(ctx, budgets, m.lim.since())
	if err != nil {
		m.log.Debug("the app's latency is unknown", "err", err)
		return
	}
	if r.exists {
		m.lim.judge(r.usage, r.by)
	}
	m.mu.Lock()
	m.latency = r
	if r.exists && r.name == budgetApp {
		m.appSeen = append(m.appSeen, r.ms)
	}
	m.mu.Unlock()
}

// measured returns what a budget of the copy came to since a time.
func (m *Mover) measured(name string, since time.Time) (float64, bool) {
	switch name {
	case budgetOrigin:
		return m.gauge.probed(Origin, since)
	case budgetTarget:
		return m.gauge.probed(Target, since)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.appSeen) == 0 {
		return 0, false
	}
	// Each is the p95 of some seconds already.
	return quantile(slices.Clone(m.appSeen), 0.5), true
}

// report stores the figures of this moment.
func (m *Mover) report(ctx context.Context) {
	live := m.figures(ctx)
	if err := m.o.Store.Report(ctx, m.lease, live); err != nil && ctx.Err() == nil {
		m.log.Debug("the figures could not be stored", "err", err)
	}
}

func (m *Mover) figures(ctx context.Context) *Live {
	l := &Live{At: time.Now(), Touched: int64(m.v.touched.count())}
	l.Rate, l.Limit, l.Reason = m.lim.figures()
	m.mu.Lock()
	l.Latency, l.Baseline = m.latency.ms, m.latency.base
	state := m.state
	m.mu.Unlock()
	left := m.tableFigures(ctx, l, state)
	if state == Copying && l.Rate > 0 {
		l.Remaining = left / l.Rate
	}
	for _, f := range m.running() {
		l.Flows = append(l.Flows, m.flowFigures(ctx, f))
	}
	if _, n, err := m.o.Store.Differences(ctx, m.lease.Move, 1); err == nil {
		l.Differences = n
	}
	return l
}

// tableFigures adds each table's and returns how many rows are left to copy.
func (m *Mover) tableFigures(ctx context.Context, l *Live, state State) (left float64) {
	if state == Planned || state == Preparing {
		return 0
	}
	for t := range m.tables[Origin] {
		fr := m.fwd.frontierOf(t)
		tl := TableLive{Table: m.tables[Origin][t].Schema + "." + m.tables[Origin][t].Name, Copied: fr.rows, Done: fr.done}
		if n, err := m.sides[Origin].Rows(ctx, t); err == nil {
			tl.Rows = n
		}
		if rs, err := m.o.Store.Ranges(ctx, m.lease.Move, t); err == nil && state != Copying {
			for _, r := range rs {
				if r.Done && r.Side == Origin {
					tl.Verified += r.Rows
				}
			}
		}
		if !tl.Done {
			left += max(float64(tl.Rows-tl.Copied), 0)
		}
		l.Tables = append(l.Tables, tl)
	}
	return left
}

func (m *Mover) flowFigures(ctx context.Context, f *flow) FlowLive {
	out := FlowLive{Stream: f.stream, Lag: -1}
	if lag := f.behind(); lag >= 0 {
		out.Lag = float64(lag) / float64(time.Millisecond)
	}
	held, left, err := f.from.Retained(ctx, f.stream)
	if err == nil {
		out.Held, out.Left = held, left
		if f == m.fwd {
			m.lim.hold(fmt.Sprintf("origin may keep only %d bytes of log more", left), left >= 0 && left < max(leastLeft, (held+left)/10))
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	out.Position, out.Changes, out.Refill, out.Trouble = f.applied.String(), f.changes, int64(len(f.refill)), f.trouble
	if f.breaches > 0 {
		out.Trouble = fmt.Sprintf("%d changes were made past the fence; verify and repair before going on. %s", f.breaches, out.Trouble)
	}
	return out
}
