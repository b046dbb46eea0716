// Package load drives chat nodes as users would and measures what users would
// notice: how long messages take, and whether any is lost, stored twice, or
// out of order.
package load

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"varve/examples/chat/server"
)

// Options say how to load.
type Options struct {
	Nodes    []string // ws://host:port of each node
	Pairs    int      // rooms with one sender and one receiver, on different nodes
	Rate     float64  // messages a second over all pairs, sent when they are due whether or not others were answered
	Duration time.Duration
	Room     int64         // number of the first room
	Reads    time.Duration // a receiver marks all as read this often; 0 never
	Pages    time.Duration // a receiver reads a page of its room's history this often; 0 never
	Edits    float64       // share of messages that are edited afterwards
	Deletes  float64       // share of messages that are deleted afterwards
	Settle   time.Duration // how long to wait for the last messages
	Body     int           // bytes a message
}

// Report is what a run saw. Latencies are in milliseconds, from the moment a
// message was due until the receiver had it.
type Report struct {
	Sent, Acknowledged, Delivered int
	P50, P95, P99, Max            float64
	// Pages are history pages that were read, and how long they took.
	Pages            int
	PageP50, PageP95 float64
	// Lost were acknowledged and are not in the store, or never reached the
	// receiver.
	Lost int
	// Doubled are in the store more than once.
	Doubled int
	// Inverted reached a receiver after a higher number.
	Inverted int
	// Unanswered were neither acknowledged nor refused.
	Unanswered int
	Errors     map[string]int
	// Seconds has the p95 of the messages due in each second.
	Seconds []float64
}

// sample is one message on its way.
type sample struct {
	due       time.Time
	delivered time.Time
	seq       int64
	room      int64
}

type run struct {
	opt   Options
	start time.Time

	mu       sync.Mutex
	samples  map[string]*sample
	inverted int
	pages    []float64
	errors   map[string]int
}

// Run loads the nodes and returns what it saw. The error is for a load that
// could not be driven, not for what the report counts.
func Run(ctx context.Context, opt Options) (*Report, error) {
	if len(opt.Nodes) == 0 || opt.Pairs < 1 || opt.Rate <= 0 {
		return nil, fmt.Errorf("give at least one node, one pair and a rate above 0")
	}
	r := &run{opt: opt, samples: map[string]*sample{}, errors: map[string]int{}}
	connected, stop := context.WithCancel(ctx)
	var users sync.WaitGroup
	defer users.Wait()
	defer stop()
	var senders, receivers []*user
	for i := range opt.Pairs {
		room := opt.Room + int64(i)
		s := newUser(r, opt.Nodes[i%len(opt.Nodes)], room, 2*int64(i)+1, false)
		t := newUser(r, opt.Nodes[(i+1)%len(opt.Nodes)], room, 2*int64(i)+2, true)
		for _, u := range []*user{s, t} {
			users.Go(func() { u.run(connected) })
			if err := u.joined(ctx); err != nil {
				return nil, err
			}
		}
		senders, receivers = append(senders, s), append(receivers, t)
	}
	r.start = time.Now()
	var work sync.WaitGroup
	for i, s := range senders {
		work.Go(func() { r.send(ctx, s, i) })
	}
	marking, unmark := context.WithCancel(ctx)
	for _, t := range receivers {
		if opt.Reads > 0 {
			work.Go(func() { t.markRead(marking, opt.Reads) })
		}
		if opt.Pages > 0 {
			work.Go(func() { t.browse(marking, opt.Pages) })
		}
	}
	r.wait(ctx, time.Until(r.start.Add(opt.Duration)))
	unmark()
	work.Wait()
	r.settle(ctx, senders)
	return r.report(ctx, senders)
}

func (r *run) wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// send sends one pair's share, each message when it is due.
func (r *run) send(ctx context.Context, u *user, index int) {
	every := time.Duration(float64(r.opt.Pairs) / r.opt.Rate * float64(time.Second))
	due := r.start.Add(every * time.Duration(index) / time.Duration(r.opt.Pairs))
	end := r.start.Add(r.opt.Duration)
	for n := 0; due.Before(end); n++ {
		r.wait(ctx, time.Until(due))
		if ctx.Err() != nil {
			return
		}
		id := server.NewID()
		r.mu.Lock()
		r.samples[id] = &sample{due: due, room: u.room}
		r.mu.Unlock()
		u.post(id, body(r.opt.Body, n))
		u.vary(n, r.opt.Edits, r.opt.Deletes)
		due = due.Add(every)
	}
}

// settle waits until all is answered and delivered, or for so long.
func (r *run) settle(ctx context.Context, senders []*user) {
	deadline := time.Now().Add(r.opt.Settle)
	for time.Now().Before(deadline) && ctx.Err() == nil {
		open := 0
		for _, s := range senders {
			open += s.unanswered()
		}
		r.mu.Lock()
		for _, s := range r.samples {
			if s.delivered.IsZero() {
				open++
			}
		}
		r.mu.Unlock()
		if open == 0 {
			return
		}
		r.wait(ctx, 20*time.Millisecond)
	}
}

func (r *run) delivered(id string, seq int64, inverted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if inverted {
		r.inverted++
	}
	if s, ok := r.samples[id]; ok && s.delivered.IsZero() {
		s.delivered, s.seq = time.Now(), seq
	}
}

func (r *run) paged(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pages = append(r.pages, d.Seconds()*1000)
}

func (r *run) failed(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors[reason]++
}

func (r *run) report(ctx context.Context, senders []*user) (*Report, error) {
	stored := map[string]int{}
	acknowledged := map[string]bool{}
	out := &Report{Errors: r.errors}
	for _, s := range senders {
		if err := s.history(ctx, stored); err != nil {
			return nil, fmt.Errorf("read room %d back: %w", s.room, err)
		}
		for _, id := range s.answered() {
			acknowledged[id] = true
		}
		out.Unanswered += s.unanswered()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out.Sent, out.Acknowledged, out.Inverted = len(r.samples), len(acknowledged), r.inverted
	var all []float64
	seconds := make([][]float64, int(r.opt.Duration/time.Second)+1)
	for id, s := range r.samples {
		if n := stored[id]; n > 1 {
			out.Doubled++
		} else if acknowledged[id] && (n == 0 || s.delivered.IsZero()) {
			out.Lost++
		}
		if s.delivered.IsZero() {
			continue
		}
		out.Delivered++
		ms := s.delivered.Sub(s.due).Seconds() * 1000
		all = append(all, ms)
		second := int(s.due.Sub(r.start) / time.Second)
		seconds[second] = append(seconds[second], ms)
	}
	out.P50, out.P95, out.P99, out.Max = quantile(all, 0.5), quantile(all, 0.95), quantile(all, 0.99), quantile(all, 1)
	out.Pages, out.PageP50, out.PageP95 = len(r.pages), quantile(r.pages, 0.5), quantile(r.pages, 0.95)
	for _, s := range seconds {
		if len(s) > 0 {
			out.Seconds = append(out.Seconds, quantile(s, 0.95))
		}
	}
	return out, nil
}

func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[min(int(q*float64(len(v))), len(v)-1)]
}

func body(size, n int) string {
	text := fmt.Sprintf("message %d of this run ", n)
	for len(text) < size {
		text += "and some more words to give it its length "
	}
	return text[:max(size, 1)]
}
