package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"varve/internal/bench/lab"
)

// The bounds of the page matrix.
const (
	maxMedian = 1.3
	maxP99    = 2.0
	// mixedCost is what a dead row between live ones may add to a page.
	mixedCost = 150 * time.Nanosecond
	// walkCost is what a dead row may add until the background had its time.
	walkCost = time.Microsecond
	warmUp   = 20
)

var bothWays = []bool{false, true}

// cell is a case in all states: one death of n rows, in partition p, beside partition none with no deletes.
type cell struct {
	d       *death
	n       int
	p, none int64
	first   time.Duration
	states  []string
	results map[string][2]result // by state; up and down
}

type result struct {
	with, without lab.Quantiles
	read          lab.Read
	ok            bool
}

func (c *cell) name() string { return fmt.Sprintf("%d, %s", c.n, c.d.name) }

// cells of a matrix with the given sizes.
func (b *bench) cells(sizes []int, ranges int) (out []*cell) {
	out = append(out, &cell{d: deaths[0], n: 0})
	for _, n := range sizes {
		for _, d := range deaths {
			out = append(out, &cell{d: d, n: n})
		}
	}
	if ranges > 0 {
		out = append(out, &cell{d: disjoint, n: ranges})
	}
	for _, c := range out {
		c.p, c.none, c.results = b.part(), b.part(), map[string][2]result{}
	}
	return out
}

// sizes of the issue, as far as they are not over the largest wanted.
func (b *bench) sizes() (out []int) {
	for _, n := range []int{1000, 33_334} {
		if n < b.o.Rows {
			out = append(out, n)
		}
	}
	return append(out, b.o.Rows)
}

func (b *bench) matrixOf(ctx context.Context) error {
	cells := b.cells(b.sizes(), min(100_000, b.o.Rows))
	t := b.newMatrixTable("Pages of 50 over dead rows")
	if err := b.matrix(ctx, cells, t); err != nil {
		return err
	}
	if err := b.print(b.summary(cells)); err != nil {
		return err
	}
	_, err := t.WriteTo(stdout)
	return err
}

func (b *bench) newMatrixTable(title string) *lab.Table {
	return &lab.Table{Title: title, Head: []string{
		"dead rows", "state", "order", "none p50", "p50", "ratio", "none p99", "p99", "ratio", "walked", "jumped", "spans", "verdict",
	}}
}

// matrix runs all cells through all states.
func (b *bench) matrix(ctx context.Context, cells []*cell, t *lab.Table) error {
	for _, c := range cells {
		none := deaths[0]
		if _, err := b.prepare(ctx, none, c.none, 0); err != nil {
			return err
		}
		var err error
		start := time.Now()
		if c.first, err = b.prepare(ctx, c.d, c.p, c.n); err != nil {
			return fmt.Errorf("%s: %w", c.name(), err)
		}
		b.progress("%s: made in %.1f s; the first page, before the background's time, took %s", c.name(), time.Since(start).Seconds(), lab.Micros(c.first))
		if err := b.measure(ctx, c, "at once", t); err != nil {
			return err
		}
	}
	for _, s := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"killed", b.killAndStart},
		{"flushed", func(ctx context.Context) error { return b.srv.Flush(ctx, "bench") }},
		{"compacted", func(ctx context.Context) error { return b.srv.Compact(ctx, "bench") }},
		{"restarted", b.stopAndStart},
	} {
		start := time.Now()
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		b.progress("%s in %.1f s", s.name, time.Since(start).Seconds())
		for _, c := range cells {
			if err := b.measure(ctx, c, s.name, t); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) killAndStart(ctx context.Context) error {
	if err := b.srv.Kill(); err != nil {
		return err
	}
	if err := b.srv.Start(ctx); err != nil {
		return err
	}
	return b.dial(ctx)
}

func (b *bench) stopAndStart(ctx context.Context) error {
	if err := b.srv.Stop(); err != nil {
		return err
	}
	if err := b.srv.Start(ctx); err != nil {
		return err
	}
	return b.dial(ctx)
}

func (b *bench) measure(ctx context.Context, c *cell, state string, t *lab.Table) error {
	var both [2]result
	for i, down := range bothWays {
		if err := b.right(ctx, c.d, c.p, c.n, down); err != nil {
			return err
		}
		with := func(ctx context.Context) error { return b.page(ctx, c.d, c.p, c.n, down) }
		without := func(ctx context.Context) error { return b.page(ctx, deaths[0], c.none, 0, down) }
		if _, _, err := lab.Pair(ctx, warmUp, with, without); err != nil {
			return err
		}
		var r result
		var err error
		if r.with, r.without, err = lab.Pair(ctx, b.o.Samples, with, without); err != nil {
			return err
		}
		text, values := c.d.query(c.p, c.n, down)
		if r.read, err = b.c.Trace(ctx, text, values...); err != nil {
			return err
		}
		var extra time.Duration
		if c.d.alive > 0 {
			extra = mixedCost * time.Duration(c.d.crossed(c.n))
		}
		r.ok = float64(r.with.P50) <= maxMedian*float64(r.without.P50)+float64(extra) &&
			float64(r.with.P99) <= maxP99*float64(r.without.P99)+float64(extra)
		order := [2]string{"up", "down"}[i]
		t.Add(c.name(), state, order, lab.Micros(r.without.P50), lab.Micros(r.with.P50), fmt.Sprintf("%.2f", ratio(r.with.P50, r.without.P50)),
			lab.Micros(r.without.P99), lab.Micros(r.with.P99), fmt.Sprintf("%.2f", ratio(r.with.P99, r.without.P99)),
			fmt.Sprint(r.read.Walked), fmt.Sprint(r.read.Jumped), fmt.Sprint(r.read.Spans),
			b.verdict(r.ok, "page over %s, %s, %s: p50 %s for %s, p99 %s for %s, walked %d", c.name(), state, order,
				lab.Micros(r.with.P50), lab.Micros(r.without.P50), lab.Micros(r.with.P99), lab.Micros(r.without.P99), r.read.Walked))
		both[i] = r
	}
	c.states = append(c.states, state)
	c.results[state] = both
	return nil
}

// summary has one line a case: the worse of the two orders, as a multiple of the page without deletes.
func (b *bench) summary(cells []*cell) *lab.Table {
	t := &lab.Table{
		Title: "Pages of 50 over dead rows: p50 and p99 as multiples of the same page with none",
		Head:  slices.Concat([]string{"dead rows", "first page, a dead row"}, cells[0].states, []string{"verdict"}),
	}
	for _, c := range cells {
		base := c.results["at once"][0].without.P50
		walk := max(c.first-base, 0) / time.Duration(max(c.d.crossed(c.n), 1))
		row := []string{c.name(), "-"}
		if c.n > 0 {
			row[1] = fmt.Sprintf("%d ns", walk.Nanoseconds())
		}
		ok := true
		for _, s := range c.states {
			r := c.results[s]
			row = append(row, fmt.Sprintf("%.2f, %.2f",
				max(ratio(r[0].with.P50, r[0].without.P50), ratio(r[1].with.P50, r[1].without.P50)),
				max(ratio(r[0].with.P99, r[0].without.P99), ratio(r[1].with.P99, r[1].without.P99))))
			ok = ok && r[0].ok && r[1].ok
		}
		// One sample only, so that small cases are left to chance.
		if c.n >= 10_000 && walk > walkCost {
			ok = false
			b.verdict(false, "the first page over %s took %s, over 1 µs a dead row", c.name(), lab.Micros(c.first))
		}
		v := "ok"
		if !ok {
			v = "FAILS"
		}
		t.Add(append(row, v)...)
	}
	return t
}
