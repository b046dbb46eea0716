package main

import (
	"context"
	"fmt"
	"time"

	"varve/internal/bench/lab"
	"varve/internal/cqlwire"
)

const headText = "SELECT c, body FROM bench.pages WHERE p = ? LIMIT 1"

// head reads the first row of a queue.
func (b *bench) head(ctx context.Context, p int64) (key int64, ok bool, err error) {
	rows, err := b.c.Rows(ctx, headText, 0, lab.Bigint(p))
	if err != nil || len(rows) == 0 {
		return 0, false, err
	}
	for _, x := range rows[0][0] {
		key = key<<8 | int64(x)
	}
	return key, true, nil
}

// quiet makes a queue that nobody takes from, to compare with.
func (b *bench) quiet(ctx context.Context) (int64, error) {
	p := b.part()
	return p, b.load(ctx, p, edge, func(i int) int64 { return int64(i) }, nil)
}

// flow is the heads of a queue in consecutive intervals, beside those of a quiet one.
type flow struct {
	busy, quiet lab.Series
}

func (b *bench) timeHead(ctx context.Context, f *flow, p, quiet int64) (key int64, ok bool, err error) {
	start := time.Now()
	if _, _, err := b.head(ctx, quiet); err != nil {
		return 0, false, err
	}
	f.quiet.Note(time.Since(start))
	start = time.Now()
	key, ok, err = b.head(ctx, p)
	f.busy.Note(time.Since(start))
	return key, ok, err
}

// report prints the intervals; flat means that the last are like the first ones.
func (b *bench) report(title, unit string, f *flow) error {
	f.busy.End()
	f.quiet.End()
	t := &lab.Table{Title: title, Head: []string{unit, "reads", "p50", "p99", "worst", "untouched queue p50", "p99", "verdict"}}
	n := min(len(f.busy.Intervals), len(f.quiet.Intervals))
	if n < 2 {
		return fmt.Errorf("%s: only %d intervals", title, n)
	}
	for i, q := range f.busy.Intervals[:n] {
		first, base := f.busy.Intervals[0], f.quiet.Intervals[i]
		// What slows the untouched queue too is the machine's.
		drift := max(1, ratio(base.P99, f.quiet.Intervals[0].P99))
		ok := ratio(q.P50, first.P50) <= maxMedian*max(1, ratio(base.P50, f.quiet.Intervals[0].P50)) && ratio(q.P99, first.P99) <= maxP99*drift
		t.Add(fmt.Sprint(i+1), fmt.Sprint(q.N), lab.Micros(q.P50), lab.Micros(q.P99), lab.Micros(q.Worst), lab.Micros(base.P50), lab.Micros(base.P99),
			b.verdict(ok, "%s: %s %d has p50 %s and p99 %s, the first %s and %s", title, unit, i+1,
				lab.Micros(q.P50), lab.Micros(q.P99), lab.Micros(first.P50), lab.Micros(first.P99)))
	}
	return b.print(t)
}

// queue enqueues and then dequeues one by one.
func (b *bench) queue(ctx context.Context) error {
	n := min(10_000, b.o.Rows)
	p := b.part()
	quiet, err := b.quiet(ctx)
	if err != nil {
		return err
	}
	if err := b.load(ctx, p, n, func(i int) int64 { return int64(i) }, nil); err != nil {
		return err
	}
	var f flow
	f.busy.Every, f.quiet.Every = time.Hour, time.Hour // ended by count
	for i := range n {
		key, ok, err := b.timeHead(ctx, &f, p, quiet)
		if err != nil {
			return err
		}
		if !ok || key != int64(i) {
			return fmt.Errorf("the head is %d (there: %v), not %d", key, ok, i)
		}
		if _, err := b.c.Exec(ctx, deleteText, lab.Bigint(p), lab.Bigint(key)); err != nil {
			return err
		}
		if (i+1)%(n/10) == 0 {
			f.busy.End()
			f.quiet.End()
		}
	}
	return b.report(fmt.Sprintf("Queue: %d enqueued, dequeued one by one with LIMIT 1", n), "tenth", &f)
}

// churn enqueues one and dequeues one for minutes.
func (b *bench) churn(ctx context.Context) error {
	p := b.part()
	quiet, err := b.quiet(ctx)
	if err != nil {
		return err
	}
	const depth = 100
	if err := b.load(ctx, p, depth, func(i int) int64 { return int64(i) }, nil); err != nil {
		return err
	}
	f := b.newFlow()
	end := time.Now().Add(b.long())
	next := 0
	for ; time.Now().Before(end); next++ {
		if _, err := b.c.Exec(ctx, insertText, lab.Bigint(p), lab.Bigint(int64(depth+next)), body(next)); err != nil {
			return err
		}
		key, ok, err := b.timeHead(ctx, f, p, quiet)
		if err != nil {
			return err
		}
		if !ok || key != int64(next) {
			return fmt.Errorf("the head is %d (there: %v), not %d", key, ok, next)
		}
		if _, err := b.c.Exec(ctx, deleteText, lab.Bigint(p), lab.Bigint(key)); err != nil {
			return err
		}
	}
	return b.report(fmt.Sprintf("Queue of 100 in steady churn, %d passed through", next), b.interval(), f)
}

func (b *bench) long() time.Duration { return time.Duration(b.o.Seconds) * time.Second }

func (b *bench) interval() string { return fmt.Sprintf("interval of %.0f s", b.long().Seconds()/6) }

func (b *bench) newFlow() *flow {
	f := new(flow)
	f.busy.Every, f.quiet.Every = b.long()/6, b.long()/6
	return f
}

// ttlQueue polls the head of a queue whose rows expire.
func (b *bench) ttlQueue(ctx context.Context) error {
	p := b.part()
	quiet, err := b.quiet(ctx)
	if err != nil {
		return err
	}
	const ttl = 2
	f := b.newFlow()
	next := 0
	var headAt [1 << 16]time.Time // when a key was written
	begin := time.Now()
	// The first rows must have begun to expire, or the first interval would be another thing than the others.
	settled := begin.Add((2*ttl + 1) * time.Second)
	for end := settled.Add(b.long()); time.Now().Before(end); next++ {
		headAt[next%len(headAt)] = time.Now()
		if _, err := b.c.Exec(ctx, insertText+" USING TTL ?", lab.Bigint(p), lab.Bigint(int64(next)), body(next), lab.Int(ttl)); err != nil {
			return err
		}
		into := f
		if time.Now().Before(settled) {
			into = new(flow)
		}
		key, ok, err := b.timeHead(ctx, into, p, quiet)
		if err != nil {
			return err
		}
		if !ok || time.Since(headAt[key%int64(len(headAt))]) > (ttl+2)*time.Second {
			return fmt.Errorf("the head is %d (there: %v) when %d is written", key, ok, next)
		}
	}
	return b.report(fmt.Sprintf("Queue whose rows live %d s, polled from the head, %d passed through", ttl, next), b.interval(), f)
}

// nested deletes ever larger ranges of one partition.
func (b *bench) nested(ctx context.Context) error {
	n := max(1000, b.o.Rows*2/5)
	p := b.part()
	quiet, err := b.quiet(ctx)
	if err != nil {
		return err
	}
	if err := b.load(ctx, p, edge, func(i int) int64 { return int64(i) }, nil); err != nil {
		return err
	}
	if err := b.load(ctx, p, 10_000, func(i int) int64 { return edge + int64(i)*int64(n)/10_000 }, nil); err != nil {
		return err
	}
	down := func(p int64) func(context.Context) error {
		return func(ctx context.Context) error {
			r, err := b.c.Exec(ctx, "SELECT c, body FROM bench.pages WHERE p = ? ORDER BY c DESC LIMIT 50", lab.Bigint(p))
			if err == nil && r.Rows.Count != pageRows {
				err = fmt.Errorf("a page has %d rows", r.Rows.Count)
			}
			return err
		}
	}
	t := &lab.Table{Title: fmt.Sprintf("%d nested range deletes on one partition", n), Head: []string{
		"deletes", "deletes a second", "resident", "page p50", "untouched p50", "page p99", "untouched p99", "verdict",
	}}
	const steps = 8
	var firstRate float64
	var firstMem int64
	for s := range steps {
		took, err := b.c.Many(ctx, inFlight, n/steps, "DELETE FROM bench.pages WHERE p = ? AND c >= ?", func(i int) []cqlwire.Value {
			return []cqlwire.Value{lab.Bigint(p), lab.Bigint(int64(edge + n - s*(n/steps) - i - 1))}
		})
		if err != nil {
			return err
		}
		with, without, err := lab.Pair(ctx, max(200, b.o.Samples/4), down(p), down(quiet))
		if err != nil {
			return err
		}
		mem, err := lab.MemoryOf(b.srv.PID())
		if err != nil {
			return err
		}
		rate := float64(n/steps) / took.Seconds()
		if s == 0 {
			firstRate, firstMem = rate, mem.Resident
		}
		ok := ratio(with.P50, without.P50) <= maxMedian && ratio(with.P99, without.P99) <= maxP99 && rate >= firstRate/2 && mem.Resident < firstMem+64<<20
		t.Add(fmt.Sprint((s+1)*(n/steps)), fmt.Sprintf("%.0f", rate), lab.MB(mem.Resident), lab.Micros(with.P50), lab.Micros(without.P50),
			lab.Micros(with.P99), lab.Micros(without.P99),
			b.verdict(ok, "nested ranges after %d: %.0f/s (first %.0f), %s resident (first %s), page p50 %s for %s, p99 %s for %s", (s+1)*(n/steps), rate, firstRate,
				lab.MB(mem.Resident), lab.MB(firstMem), lab.Micros(with.P50), lab.Micros(without.P50), lab.Micros(with.P99), lab.Micros(without.P99)))
	}
	return b.print(t)
}
