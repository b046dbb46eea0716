package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"varve/internal/bench/lab"
	"varve/internal/cqlwire"
	"varve/internal/upstream"
)

// worker owns regions of partitions that it shares with other workers, and
// partitions of its own. It does one thing at a time, so that it knows of each
// of its rows what it must be.
type worker struct {
	s       *soak
	id      int
	rng     *rand.Rand
	client  *lab.Client
	gen     int // of the server that client is connected to
	regions []*region
	last    int64 // newest timestamp given out
	done    int   // acknowledged changes
}

// opDeadline is when an operation that is not answered counts as hanging.
const opDeadline = 60 * time.Second

func newWorker(s *soak, id int) *worker {
	w := &worker{s: s, id: id, rng: rand.New(rand.NewPCG(s.o.Seed, uint64(id))), gen: -1}
	for _, table := range tables {
		for p := range sharedPartitions {
			w.regions = append(w.regions, newRegion(table, p, id*s.o.Slice, s.o.Slice, false))
		}
		w.regions = append(w.regions, newRegion(table, 1000+id, 0, s.o.Slice, true))
	}
	return w
}

// run works until the time is over; an operation that is begun then is brought to its end in ctx.
func (w *worker) run(ctx, over context.Context) {
	every := time.Duration(float64(time.Second) * float64(w.s.o.Workers) / w.s.o.Rate)
	next := time.Now()
	for over.Err() == nil {
		if d := time.Until(next); d > 0 {
			pause(over, d)
		} else if d < -time.Second {
			next = time.Now() // do not make up for a stall with a burst
		}
		before := w.done
		w.s.gate.RLock()
		err := w.step(ctx)
		w.s.gate.RUnlock()
		next = next.Add(every * time.Duration(max(1, w.done-before)))
		if err != nil && ctx.Err() == nil {
			w.s.violation("worker %d: %v", w.id, err)
			return
		}
	}
}

// step does one operation. Its error is a violation.
func (w *worker) step(ctx context.Context) error {
	if w.client == nil {
		if err := w.reconnect(ctx); err != nil {
			return err
		}
		for _, g := range w.regions {
			if err := w.whole(ctx, g); err != nil {
				return w.lost(err)
			}
		}
	}
	g := w.regions[w.rng.IntN(len(w.regions))]
	if w.rng.IntN(100) < 30 {
		return w.lost(w.read(ctx, g))
	}
	return w.change(ctx, g)
}

// lost forgets a connection that ended, which is no violation if the server was ended.
func (w *worker) lost(err error) error {
	if err == nil || !gone(err) {
		return err
	}
	if w.client != nil {
		_ = w.client.Close()
		w.client = nil
	}
	if !w.s.ended(w.gen) {
		return fmt.Errorf("the server ended a connection on its own: %w", err)
	}
	return nil
}

// gone tells a connection's end from a server's answer.
func gone(err error) bool {
	var ce *cqlwire.Error
	return !errors.As(err, &ce) && (errors.Is(err, upstream.ErrClosed) || isNetError(err))
}

func (w *worker) reconnect(ctx context.Context) error {
	c, gen, err := w.s.connect(ctx)
	if err != nil {
		return err
	}
	w.client, w.gen = c, gen
	return nil
}

// change makes an operation and sends it until it is acknowledged. If the
// server was ended meanwhile, its outcome is not known: the rows must then be
// as before it or as after it, and whole in either.
func (w *worker) change(ctx context.Context, g *region) error {
	for _, o := range w.make(g) {
		err := w.try(ctx, o)
		for err != nil {
			if !gone(err) {
				return fmt.Errorf("%s: %w", o, err)
			}
			if err := w.lost(err); err != nil {
				return err
			}
			if err := w.reconnect(ctx); err != nil {
				return err
			}
			if err = w.either(ctx, g, o); err == nil {
				err = w.try(ctx, o)
			} else if !gone(err) {
				return err
			}
		}
		o.apply(g)
		w.s.acked.Add(1)
		w.done++
	}
	return nil
}

func (w *worker) try(ctx context.Context, o *op) error {
	if o.sent == 0 {
		o.sent = time.Now().Unix()
	}
	start := time.Now()
	err := o.send()
	o.acked = time.Now().Unix()
	if err == nil {
		w.s.writes.note(time.Since(start))
	}
	return err
}

// either checks all regions after a crash; that of the operation may be as with or as without it.
func (w *worker) either(ctx context.Context, g *region, o *op) error {
	for _, x := range w.regions {
		if x != g {
			if err := w.whole(ctx, x); err != nil {
				return err
			}
			continue
		}
		with := x.clone()
		o.acked = time.Now().Unix()
		o.effect(with, o.sent, o.acked)
		bad, err := w.fetchAndCompare(ctx, x)
		if err != nil {
			return err
		}
		if len(bad) == 0 {
			continue
		}
		badWith, err := w.fetchAndCompare(ctx, with)
		if err != nil {
			return err
		}
		if len(badWith) > 0 {
			return fmt.Errorf("after a kill during %s the rows are neither as before nor as after it: before: %s; after: %s", o, bad[0], badWith[0])
		}
	}
	return nil
}

// stamp returns a timestamp newer than all before it.
func (w *worker) stamp() int64 {
	// Steps of 4: a collection's overwriting deletes at one less than its timestamp.
	w.last = max(w.last+4, time.Now().UnixMicro()&^3)
	return w.last
}

func (w *worker) exec(text string, values ...cqlwire.Value) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), opDeadline)
		defer cancel()
		_, err := w.client.Exec(ctx, text, values...)
		return hung(err, text)
	}
}

func hung(err error, text string) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("HUNG: no answer in %v to %s", opDeadline, text)
	}
	return err
}
