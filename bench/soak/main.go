// Command soak runs a real Varve server under everything at once (inserts,
// TTLs, late writes, row, column, range and partition deletions, batches,
// conditional updates, counters, queues, truncations, flushes, compactions and
// reads of every kind), kills it at random moments and checks each answer
// against what was acknowledged.
//
//	soak --varve bin/varve --seconds 3600
//
// It ends with status 1, and leaves the data directory and the log for whoever
// looks into it, when anything that was acknowledged is lost, anything dead is
// returned, the server complains, hangs or ends on its own, its resident memory
// passes the budget, or its disk keeps growing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"varve/internal/bench/lab"
)

type options struct {
	Varve, Work, Addr string
	Seconds           int
	Rate              float64
	Workers, Slice    int
	BudgetMiB         int64
	KillEvery         time.Duration
	Seed              uint64
	Sabotage          bool
}

func main() {
	var o options
	flag.StringVar(&o.Varve, "varve", "bin/varve", "the server's binary")
	flag.StringVar(&o.Work, "work", "", "where data and log go (default: a temporary directory)")
	flag.StringVar(&o.Addr, "addr", "127.0.0.1:39142", "the server's CQL address")
	flag.IntVar(&o.Seconds, "seconds", 3600, "how long")
	flag.Float64Var(&o.Rate, "rate", 2000, "operations a second of the row workers")
	flag.IntVar(&o.Workers, "workers", 16, "row workers")
	flag.IntVar(&o.Slice, "slice", 600, "rows of a worker in each partition")
	flag.Int64Var(&o.BudgetMiB, "budget", 512, "resident memory the server may have, MiB; its memory_limit")
	flag.DurationVar(&o.KillEvery, "kill-every", 40*time.Second, "mean time between kills")
	flag.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()), "seed of the random choices")
	flag.BoolVar(&o.Sabotage, "sabotage", false, "put an old copy of the data back at the third kill; the soak must then fail")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	ok, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (ok bool, err error) {
	own := o.Work == ""
	if own {
		if o.Work, err = os.MkdirTemp("", "varve-soak-"); err != nil {
			return false, err
		}
	} else if err := os.MkdirAll(o.Work, 0o755); err != nil {
		return false, err
	}
	fmt.Printf("soak: %d s, seed %d, data and log in %s, %s\n", o.Seconds, o.Seed, o.Work, lab.Machine())
	s := newSoak(o)
	ok, err = s.play(ctx)
	if err == nil && ok && own {
		err = os.RemoveAll(o.Work)
	}
	return ok, err
}

func newSoak(o options) *soak {
	s := &soak{o: o, srv: &lab.Varve{
		Binary: o.Varve, Data: filepath.Join(o.Work, "data"), Log: filepath.Join(o.Work, "server.log"), Address: o.Addr,
		Settings: []string{
			"cache_size=64MiB", "memtable_size=16MiB", "span_size=16MiB", fmt.Sprintf("memory_limit=%dMiB", o.BudgetMiB),
			"tombstone_warn_threshold=1000000", "tombstone_failure_threshold=10000000", "batch_size_fail_threshold=500KiB",
		},
	}}
	s.reads.s.Every, s.writes.s.Every = time.Minute, time.Minute
	for i := range o.Workers {
		s.workers = append(s.workers, newWorker(s, i))
	}
	return s
}

// pause sleeps, or less if the context ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

var errStopped = errors.New("stopped before its time")
