package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"varve/internal/move"
)

// Side is one of the two stores of a move.
type Side = move.Part

// The sides.
const (
	Origin = move.Origin
	Target = move.Target
)

// Config says which move a node takes part in, and how.
type Config struct {
	// Origin is a PostgreSQL connection string. The move's state lies there.
	Origin string
	// Target is a PostgreSQL connection string, or empty where TargetHosts names a
	// Varve (host:port).
	Target                     string
	TargetHosts                []string
	TargetUser, TargetPassword string
	TargetTLS                  *tls.Config
	// Move is the move's name.
	Move string
	// Name tells this node from others; the default is host name and process id.
	Name string
	// WriteWait is how long a refused write waits for the move to go on before
	// the refusal is returned; 10 s if 0.
	WriteWait time.Duration
	// ReadWait is how long a read on the side that follows waits for the
	// session's last write to arrive there before it reads the canonical side
	// instead; 100 ms if 0.
	ReadWait time.Duration
	// ShadowQueue bounds the comparisons that wait; more are dropped and counted.
	// 100 if 0.
	ShadowQueue int
	// Logger is slog.Default() if nil.
	Logger *slog.Logger
}

func (c *Config) defaults() {
	if c.Name == "" {
		host, _ := os.Hostname()
		c.Name = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	if c.WriteWait == 0 {
		c.WriteWait = 10 * time.Second
	}
	if c.ReadWait == 0 {
		c.ReadWait = 100 * time.Millisecond
	}
	if c.ShadowQueue == 0 {
		c.ShadowQueue = 100
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
}

// route is what a node does by the move's state.
type route struct {
	generation  int64
	canonical   Side
	readPercent int // of the reads that the target answers
	shadow      bool
	since       int64         // generation of the transition that began the shadow reads
	floor       int64         // of write timestamps
	changed     chan struct{} // closed when another route is there
}

// follower tells how far the target has followed origin.
type follower interface {
	Applied(ctx context.Context, stream string) (move.Position, error)
}

// source tells the position of what was written on origin.
type source interface {
	Now(ctx context.Context) (move.Position, error)
}

// Node is one application process in a move. It is safe for use by several
// goroutines.
type Node struct {
	cfg    Config
	state  move.StateStore
	origin source
	target follower
	stream string // from origin to target
	close  []func(context.Context) error

	route  atomic.Pointer[route]
	stats  stats
	shadow *shadow
	stamp  atomic.Int64
	cancel context.CancelFunc
	group  sync.WaitGroup
}

const (
	pollEvery   = time.Second
	reportEvery = time.Second
	retryAfter  = 200 * time.Millisecond
)

// start reads the move's state and begins to follow it.
func start(ctx context.Context, cfg Config, state move.StateStore, origin source, target follower, stream string) (*Node, error) {
	cfg.defaults()
	n := &Node{cfg: cfg, state: state, origin: origin, target: target, stream: stream}
	r, err := n.load(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the state of move %s: %w", cfg.Move, err)
	}
	n.route.Store(r)
	n.stats.changed(r)
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	n.cancel = cancel
	n.shadow = newShadow(n, cfg.ShadowQueue)
	n.group.Go(func() { n.watch(run) })
	n.group.Go(func() { n.report(run) })
	n.group.Go(func() { n.shadow.run(run) })
	return n, nil
}

// Close ends the node's part in the move and waits for its goroutines.
func (n *Node) Close(ctx context.Context) error {
	n.cancel()
	n.group.Wait()
	var errs []error
	for _, f := range n.close {
		errs = append(errs, f(ctx))
	}
	return errors.Join(errs...)
}

func (n *Node) load(ctx context.Context) (*route, error) {
	r := &route{canonical: Origin, changed: make(chan struct{})}
	rec, err := n.state.Load(ctx, n.cfg.Move)
	if errors.Is(err, move.ErrNoMove) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	r.generation, r.canonical, r.floor = rec.Generation, rec.Canonical, rec.StampFloor
	r.readPercent, r.shadow, r.since = rec.ReadPercent, rec.Shadow, rec.ShadowSince
	if rec.State == move.Aborted {
		r.canonical, r.readPercent, r.shadow = Origin, 0, false
	}
	return r, nil
}

// watch keeps the route as the state says. While origin cannot be asked, the
// node goes on as it knows: the fence refuses what is no longer right.
func (n *Node) watch(ctx context.Context) {
	for ctx.Err() == nil {
		old := n.route.Load()
		err := n.state.Wait(ctx, n.cfg.Move, old.generation, pollEvery)
		if err == nil || errors.Is(err, move.ErrNoMove) {
			err = n.refresh(ctx)
		}
		if ctx.Err() == nil && err != nil {
			n.cfg.Logger.Warn("the move's state cannot be read; going on as before", "move", n.cfg.Move, "error", err)
		}
		if err != nil {
			pause(ctx, retryAfter)
		}
		if n.route.Load().generation == 0 {
			pause(ctx, pollEvery) // nothing notifies of a move that is not there yet
		}
	}
}

func (n *Node) refresh(ctx context.Context) error {
	next, err := n.load(ctx)
	if err != nil {
		return err
	}
	for {
		old := n.route.Load()
		if old.generation == next.generation {
			return nil
		}
		if n.route.CompareAndSwap(old, next) {
			n.stats.changed(next)
			close(old.changed)
			return nil
		}
	}
}

func (n *Node) report(ctx context.Context) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r := n.route.Load()
		if r.generation == 0 {
			continue
		}
		node := n.stats.node(n.cfg.Name, r.generation)
		if err := n.state.ReportNode(ctx, n.cfg.Move, &node); err != nil && ctx.Err() == nil {
			n.cfg.Logger.Debug("the node's report was not taken", "move", n.cfg.Move, "error", err)
		}
	}
}

// Timestamp is a write timestamp in microseconds for CQL writes: later than
// all that this node and the move gave before, whatever this machine's clock
// says.
func (n *Node) Timestamp() int64 {
	for {
		last := n.stamp.Load()
		next := max(time.Now().UnixMicro(), last+1, n.route.Load().floor+1)
		if n.stamp.CompareAndSwap(last, next) {
			return next
		}
	}
}

// Canonical is the side whose writes count at this moment, as far as the node
// knows.
func (n *Node) Canonical() Side { return n.route.Load().canonical }

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
