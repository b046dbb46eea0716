package app

import (
	"context"
	"time"

	"varve/internal/move"
)

// comparison is a read that waits to be made on the other side too.
type comparison struct {
	query string
	other Side
	wrote move.Position // the session's last write before the read
	run   func(ctx context.Context, side Side) error
	equal func() bool
	shown func() (origin, target string)
}

// shadow compares reads one after the other, so that it takes little from
// either side.
type shadow struct {
	node  *Node
	queue chan comparison
}

func newShadow(n *Node, length int) *shadow {
	return &shadow{node: n, queue: make(chan comparison, length)}
}

func (s *shadow) offer(c comparison) {
	select {
	case s.queue <- c:
	default:
		s.node.stats.dropped()
	}
}

func (s *shadow) run(ctx context.Context) {
	for {
		select {
		case c := <-s.queue:
			s.compare(ctx, &c)
		case <-ctx.Done():
			return
		}
	}
}

const (
	compareTimeout = 10 * time.Second
	// A difference counts when it is still there after the target has caught up
	// so many times: rows change between the two reads.
	rechecks = 4
)

func (s *shadow) compare(ctx context.Context, c *comparison) {
	ctx, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	n := s.node
	if c.wrote != nil {
		n.reached(ctx, c.wrote, time.Second)
	}
	if err := c.run(ctx, c.other); err != nil {
		s.failed(ctx, c, err)
		return
	}
	for try := 0; !c.equal(); try++ {
		if try == rechecks {
			origin, target := c.shown()
			n.stats.different()
			sample := &move.Sample{Node: n.cfg.Name, Query: c.query, Origin: origin, Target: target}
			if err := n.state.AddSample(ctx, n.cfg.Move, sample); err != nil {
				n.cfg.Logger.Warn("a sample of a difference was not taken", "query", c.query, "error", err)
			}
			return
		}
		if err := s.again(ctx, c); err != nil {
			s.failed(ctx, c, err)
			return
		}
	}
	n.stats.compared()
}

// again reads both sides once more: origin, then the target once it has
// applied what origin had by then.
func (s *shadow) again(ctx context.Context, c *comparison) error {
	if err := c.run(ctx, Origin); err != nil {
		return err
	}
	if s.node.route.Load().canonical == Origin {
		at, err := s.node.origin.Now(ctx)
		if err != nil {
			return err
		}
		s.node.reached(ctx, at, time.Second)
	}
	return c.run(ctx, Target)
}

func (s *shadow) failed(ctx context.Context, c *comparison, err error) {
	if ctx.Err() == nil || ctx.Err() == context.DeadlineExceeded {
		s.node.stats.failed()
		s.node.cfg.Logger.Debug("a shadow read failed", "query", c.query, "error", err)
	}
}
