package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"varve/internal/bench"
	"varve/internal/bench/lab"
	"varve/internal/upstream"
)

const (
	// bigBody makes compactions frequent.
	bigBody      = 500
	bigRows      = 2_000_000
	maxHindrance = 2.0
)

// compactions reads pages and inserts at half the rate at which both saturate
// the machine, in windows in which the engine compacts and windows in which it is kept from it.
func compactions(ctx context.Context, o options, out io.Writer) (failed []string, err error) {
	srv := o.server("compaction")
	if err := srv.Start(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, srv.Stop()) }()
	c, err := upstream.Dial(ctx, upstream.Options{Address: o.Addr})
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	if err := bench.Schema(ctx, c); err != nil {
		return nil, err
	}
	w := &windows{o: &o, srv: srv}
	// Enough rows that a page is a page, and that there is something to compact into.
	r, err := w.inserts(ctx, max(100_000, int(300_000*o.Scale)), 0, 64)
	if err != nil {
		return nil, err
	}
	w.next = r.N
	most, err := w.window(ctx, 0, 0)
	if err != nil {
		return nil, err
	}
	insertRate, pageRate := most.insert.PerSecond/2, most.page.PerSecond/2
	t := &lab.Table{
		Title: fmt.Sprintf("Pages at half the saturating rate (%.0f inserts and %.0f pages a second), compactions running and paused", insertRate, pageRate),
		Head:  []string{"compactions", "pages", "p50", "p99", "p99.9", "worst", "inserts p99", "written meanwhile", "peak memory"},
	}
	var pages, inserts [2][]time.Duration
	var written [2]int64
	for i := range 2 * o.Windows {
		k := i % 2 // 0: running
		if _, err := srv.Nodetool(ctx, [2]string{"enableautocompaction", "disableautocompaction"}[k]); err != nil {
			return nil, err
		}
		before, err := lab.WrittenBy(srv.PID())
		if err != nil {
			return nil, err
		}
		r, err := w.window(ctx, insertRate, pageRate)
		if err != nil {
			return nil, err
		}
		after, err := lab.WrittenBy(srv.PID())
		if err != nil {
			return nil, err
		}
		written[k] += after - before
		pages[k] = append(pages[k], r.page.Latencies...)
		inserts[k] = append(inserts[k], r.insert.Latencies...)
		fmt.Printf("%s window %d, compactions %s: page p50 %s p99 %s p99.9 %s\n", time.Now().Format("15:04:05"), i+1, [2]string{"running", "paused"}[k],
			micros(r.page.P50), micros(r.page.P99), micros(r.page.P999))
	}
	mem, err := lab.MemoryOf(srv.PID())
	if err != nil {
		return nil, err
	}
	var q [2]lab.Quantiles
	for k, name := range []string{"running", "paused"} {
		q[k] = lab.QuantilesOf(pages[k])
		t.Add(name, fmt.Sprint(q[k].N), lab.Micros(q[k].P50), lab.Micros(q[k].P99), lab.Micros(q[k].P999), lab.Micros(q[k].Worst),
			lab.Micros(lab.QuantilesOf(inserts[k]).P99), lab.MB(written[k]), lab.MB(mem.Peak))
	}
	if _, err := t.WriteTo(out); err != nil {
		return nil, err
	}
	p99, p999 := float64(q[0].P99)/float64(q[1].P99), float64(q[0].P999)/float64(q[1].P999)
	verdict := "ok"
	if max(p99, p999) > maxHindrance {
		verdict = "FAILS"
		failed = append(failed, fmt.Sprintf("compactions make a page's p99 %.2f and p99.9 %.2f times as long", p99, p999))
	}
	fmt.Fprintf(out, "p99 %.2f times, p99.9 %.2f times that with compactions paused, at most %.0f allowed: %s\n\n", p99, p999, maxHindrance, verdict)
	if mem.Peak > o.BudgetMiB<<20 {
		failed = append(failed, fmt.Sprintf("memory reached %s of a budget of %s", lab.MB(mem.Peak), lab.MB(o.BudgetMiB<<20)))
	}
	return failed, nil
}

type windows struct {
	o    *options
	srv  *lab.Varve
	next int // row that was not inserted yet
}

type window struct{ insert, page bench.Result }

func (w *windows) options(op string, n int, rate float64, inFlight int) bench.Options {
	b := w.o.load(op, 1, 32, w.o.Addr)
	b.N, b.Warm, b.Rows, b.BodyBytes, b.Rate, b.InFlight, b.First = max(n, 1), 0, bigRows, bigBody, rate, inFlight, w.next
	b.Conns = 8
	return b
}

func (w *windows) inserts(ctx context.Context, n int, rate float64, inFlight int) (bench.Result, error) {
	r, err := bench.Run(ctx, w.options("insert", n, rate, inFlight))
	if err == nil && r.Errors > 0 {
		err = fmt.Errorf("%d inserts failed, the first: %s", r.Errors, r.FirstError)
	}
	return r, err
}

// window runs both for the window's time, at given rates or, where these are 0, as fast as they go.
func (w *windows) window(ctx context.Context, insertRate, pageRate float64) (r window, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(w.o.Seconds)*time.Second)
	defer cancel()
	const endless = 1 << 30
	nIns, nPage, inFlight := endless, endless, 32
	if insertRate > 0 {
		nIns, nPage, inFlight = int(insertRate*float64(w.o.Seconds)*2), int(pageRate*float64(w.o.Seconds)*2), 256
	}
	var wg sync.WaitGroup
	var errs [2]error
	wg.Go(func() { r.insert, errs[0] = w.inserts(ctx, nIns, insertRate, inFlight) })
	pages := w.options("page", nPage, pageRate, inFlight)
	wg.Go(func() { r.page, errs[1] = bench.Run(ctx, pages) })
	wg.Wait()
	for i, x := range []bench.Result{r.insert, r.page} {
		// The window's end is no error of the runs.
		if errs[i] != nil && !errors.Is(errs[i], context.DeadlineExceeded) {
			return r, errs[i]
		}
		if x.N == 0 {
			return r, fmt.Errorf("nothing was done in a window of %d s", w.o.Seconds)
		}
	}
	w.next = (w.next + r.insert.N) % bigRows
	return r, nil
}
