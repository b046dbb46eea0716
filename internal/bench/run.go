package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"varve/internal/cqlwire"
	"varve/internal/upstream"
)

// Options of one run.
type Options struct {
	Op          string
	N           int     // operations to time
	Warm        int     // operations before them, not timed
	InFlight    int     // closed loop: requests at once; open loop: at most so many
	Rate        float64 // open loop: operations a second; 0: closed loop
	Conns       int
	Rows        int // rows the table holds, or will
	First       int // the row that the first insert or delete is of
	Channels    int // partitions they are spread over
	BodyBytes   int
	Consistency cqlwire.Consistency
	Check       bool // a read that misses rows is an error
	Seed        uint64
	Dial        func(context.Context) (*upstream.Conn, error)
}

// Validate reports the first option that makes no sense.
func (o *Options) Validate() error {
	switch {
	case !slices.Contains(Ops, o.Op):
		return fmt.Errorf("operation %q is not one of %v", o.Op, Ops)
	case o.N < 1 || o.InFlight < 1 || o.Conns < 1 || o.Rows < 1 || o.Channels < 1 || o.BodyBytes < 0 || o.Warm < 0 || o.Rate < 0 || o.First < 0:
		return errors.New("counts must be positive")
	case o.Rows < o.Channels:
		return fmt.Errorf("%d rows are fewer than %d channels", o.Rows, o.Channels)
	}
	return nil
}

// Result is what a run measured. Latencies are microseconds.
type Result struct {
	Op                         string
	N, Errors                  int
	Seconds, PerSecond         float64
	P50, P95, P99, P999, Worst float64
	FirstError                 string `json:",omitempty"`
	// Latencies are all samples, from the shortest.
	Latencies []time.Duration `json:"-"`
}

// Run runs the operations and returns their latencies' distribution.
func Run(ctx context.Context, o Options) (Result, error) {
	if err := o.Validate(); err != nil {
		return Result{}, err
	}
	r := &runner{o: o}
	defer r.close()
	for range o.Conns {
		c, err := o.Dial(ctx)
		if err != nil {
			return Result{}, err
		}
		proto := &worker{o: &r.o, conn: c}
		r.protos = append(r.protos, proto)
		if err := proto.prepare(ctx); err != nil {
			return Result{}, err
		}
	}
	if o.Warm > 0 {
		if _, err := r.phase(ctx, o.Warm, 0); err != nil {
			return Result{}, err
		}
	}
	return r.phase(ctx, o.N, o.Rate)
}

type runner struct {
	o      Options
	protos []*worker // one a connection
}

func (r *runner) close() {
	for _, p := range r.protos {
		_ = p.conn.Close()
	}
}

func (r *runner) phase(ctx context.Context, n int, rate float64) (Result, error) {
	var (
		next, failed atomic.Int64
		first        atomic.Pointer[string]
		wg           sync.WaitGroup
		latencies    = make([][]time.Duration, r.o.InFlight)
	)
	start := time.Now()
	for g := range r.o.InFlight {
		w := *r.protos[g%len(r.protos)]
		w.rng = rand.New(rand.NewPCG(r.o.Seed, uint64(g)))
		w.body = make([]byte, r.o.BodyBytes)
		wg.Go(func() {
			mine := make([]time.Duration, 0, min(n/r.o.InFlight+16, 1<<16))
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					break
				}
				due := time.Now()
				if rate > 0 {
					due = start.Add(time.Duration(float64(i) / rate * float64(time.Second)))
					wait(due)
				}
				if err := w.do(ctx, r.o.Op, i); err != nil {
					if ctx.Err() != nil {
						break // cut off, neither a failure nor a latency
					}
					failed.Add(1)
					text := err.Error()
					first.CompareAndSwap(nil, &text)
				}
				mine = append(mine, time.Since(due))
			}
			latencies[g] = mine
		})
	}
	wg.Wait()
	res := Result{Op: r.o.Op, Errors: int(failed.Load()), Seconds: time.Since(start).Seconds()}
	if t := first.Load(); t != nil {
		res.FirstError = *t
	}
	all := slices.Concat(latencies...)
	slices.Sort(all)
	res.summarise(all)
	return res, ctx.Err()
}

// wait sleeps until due. Sleeping ends late by some 50 µs, which then counts
// as latency of every server alike.
func wait(due time.Time) {
	if d := time.Until(due); d > 0 {
		time.Sleep(d)
	}
}

func (r *Result) summarise(sorted []time.Duration) {
	if r.N = len(sorted); r.N == 0 {
		return
	}
	at := func(p float64) float64 {
		return float64(sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]) / 1e3
	}
	r.Latencies = sorted
	r.PerSecond = float64(r.N) / r.Seconds
	r.P50, r.P95, r.P99, r.P999, r.Worst = at(.5), at(.95), at(.99), at(.999), at(1)
}
