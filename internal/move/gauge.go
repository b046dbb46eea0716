package move

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// How the app's latency is probed where no app node reports it.
const (
	probeEvery  = 40 * time.Millisecond
	probeWindow = 3 * time.Second
	nodeFresh   = 5 * time.Second
	nodeWindow  = 2 * time.Second
)

// Names of the latency budgets.
const (
	budgetApp    = "app write p95"
	budgetOrigin = "origin probe p95"
	budgetTarget = "target probe p95"
)

// gauge measures what the app feels: by the nodes' own reports where there are
// any, else by small durable writes into the canary's table of either side.
type gauge struct {
	sides [2]Side
	store StateStore
	move  string
	now   func() time.Time

	mu     sync.Mutex
	probes [2][]probe
}

type probe struct {
	at time.Time
	ms float64
}

// run probes a side until the context ends.
func (g *gauge) run(ctx context.Context, part Part) {
	for n := int64(1); sleep(ctx, probeEvery); n++ {
		began := g.now()
		err := g.sides[part].Canary(ctx, "probe", n)
		took := float64(g.now().Sub(began)) / float64(time.Millisecond)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			// A probe that fails is one that the app would wait for.
			took = max(took, 1000)
			if !sleep(ctx, time.Second) {
				return
			}
		}
		g.mu.Lock()
		g.probes[part] = append(g.probes[part], probe{began, took})
		if len(g.probes[part]) > 4000 {
			g.probes[part] = slices.Delete(g.probes[part], 0, 2000)
		}
		g.mu.Unlock()
	}
}

// probed returns the p95 of the probes since a time, in milliseconds.
func (g *gauge) probed(part Part, since time.Time) (float64, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var ms []float64
	for _, p := range g.probes[part] {
		if p.at.After(since) {
			ms = append(ms, p.ms)
		}
	}
	if len(ms) < 10 {
		return 0, false
	}
	return quantile(ms, 0.95), true
}

// quantile sorts ms.
func quantile(ms []float64, q float64) float64 {
	slices.Sort(ms)
	return ms[min(int(q*float64(len(ms))), len(ms)-1)]
}

// app returns the greatest p95 that a node reports, in milliseconds.
func (g *gauge) app(ctx context.Context) (float64, bool, error) {
	nodes, err := g.store.Nodes(ctx, g.move)
	if err != nil {
		return 0, false, err
	}
	newest := time.Time{}
	for _, n := range nodes {
		if n.Seen.After(newest) {
			newest = n.Seen
		}
	}
	worst, any := 0.0, false
	for _, n := range nodes {
		if n.Writes > 0 && n.WriteP95 > 0 && newest.Sub(n.Seen) < nodeFresh {
			worst, any = max(worst, n.WriteP95), true
		}
	}
	return worst, any, nil
}

// baseline measures for a while and returns the latency budgets of the copy.
func (g *gauge) baseline(ctx context.Context, d time.Duration, factor float64) ([]Budget, error) {
	began := g.now()
	var app []float64
	for g.now().Sub(began) < d {
		if ms, ok, err := g.app(ctx); err != nil {
			return nil, err
		} else if ok {
			app = append(app, ms)
		}
		if !sleep(ctx, min(d/10, time.Second)) {
			return nil, ctx.Err()
		}
	}
	var out []Budget
	add := func(name string, base float64) {
		out = append(out, Budget{
			Step: Copying, Name: name, Limit: factor * base, Unit: "ms", Set: g.now(),
			Rule: fmt.Sprintf("%g times the %.2f ms of %s before the copy", factor, base, d),
		})
	}
	if len(app) > 0 {
		add(budgetApp, quantile(app, 0.5))
	}
	for part, name := range []string{budgetOrigin, budgetTarget} {
		if ms, ok := g.probed(Part(part), began); ok {
			add(name, ms)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no app node reports its latency and fewer than ten probes in %s answered", d)
	}
	return out, nil
}

// reading is one look at what the app feels beside the budgets.
type reading struct {
	usage  float64 // of the tightest budget, 1 is all of it
	by     string
	name   string
	ms     float64
	base   float64
	exists bool
}

// read compares what was measured after a time with the budgets: the app's if
// nodes report, else the probes'.
func (g *gauge) read(ctx context.Context, budgets []Budget, after time.Time) (reading, error) {
	app, reported, err := g.app(ctx)
	if err != nil {
		return reading{}, err
	}
	byApp := reported && slices.ContainsFunc(budgets, func(b Budget) bool { return b.Name == budgetApp })
	since := g.now().Add(-probeWindow)
	if after.After(since) {
		since = after
	}
	// Nodes tell about the seconds before their report.
	fresh := g.now().Sub(after) > nodeWindow
	var worst reading
	for _, b := range budgets {
		var ms float64
		var ok bool
		switch b.Name {
		case budgetApp:
			ms, ok = app, byApp && fresh
		case budgetOrigin:
			ms, ok = g.probed(Origin, since)
			ok = ok && !byApp
		case budgetTarget:
			ms, ok = g.probed(Target, since)
			ok = ok && !byApp
		}
		if !ok || b.Limit <= 0 {
			continue
		}
		if u := ms / b.Limit; !worst.exists || u > worst.usage {
			worst = reading{usage: u, name: b.Name, ms: ms, base: b.Limit, exists: true, by: fmt.Sprintf("%s is %.2f ms of %.2f", b.Name, ms, b.Limit)}
		}
	}
	return worst, nil
}
