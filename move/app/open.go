package app

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"varve/internal/move"
	"varve/internal/move/cql"
	"varve/internal/move/pg"
)

// Open makes this process a node of the move. The move need not be there yet.
func Open(ctx context.Context, cfg Config) (*Node, error) {
	if cfg.Move == "" {
		return nil, errors.New("give the name of the move")
	}
	states, err := pg.OpenStates(ctx, cfg.Origin)
	if err != nil {
		return nil, fmt.Errorf("origin: %w", err)
	}
	origin, err := pg.Open(ctx, pg.Options{URL: cfg.Origin, Move: cfg.Move})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("origin: %w", err), states.Close(ctx))
	}
	target := &lateTarget{cfg: cfg}
	n, err := start(ctx, cfg, states, origin, target, move.ForwardStream(cfg.Move))
	if err != nil {
		return nil, errors.Join(err, origin.Close(ctx), states.Close(ctx))
	}
	n.close = append(n.close, target.Close, origin.Close, states.Close)
	return n, nil
}

// lateTarget connects to the target when something is asked of it for the
// first time: until reads are compared, a node does not need it.
type lateTarget struct {
	cfg  Config
	mu   sync.Mutex
	side interface {
		follower
		Close(ctx context.Context) error
	}
}

// Applied implements follower.
func (t *lateTarget) Applied(ctx context.Context, stream string) (move.Position, error) {
	side, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	return side.Applied(ctx, stream)
}

func (t *lateTarget) open(ctx context.Context) (follower, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.side != nil {
		return t.side, nil
	}
	if len(t.cfg.TargetHosts) > 0 {
		side, err := cql.Open(ctx, cql.Options{
			Hosts: t.cfg.TargetHosts, User: t.cfg.TargetUser, Password: t.cfg.TargetPassword, TLS: t.cfg.TargetTLS,
		})
		if err != nil {
			return nil, fmt.Errorf("target: %w", err)
		}
		t.side = side
		return side, nil
	}
	side, err := pg.Open(ctx, pg.Options{URL: t.cfg.Target, Move: t.cfg.Move})
	if err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	t.side = side
	return side, nil
}

// Close ends the connection, if there is one.
func (t *lateTarget) Close(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.side == nil {
		return nil
	}
	return t.side.Close(ctx)
}
