package app

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	"varve/internal/move"
)

// Query is a read that either side can answer.
type Query[T any] struct {
	// Name groups reads of one kind in reports.
	Name string
	// Run reads from a side.
	Run func(ctx context.Context, side Side) (T, error)
	// Equal compares the answers of both sides; reflect.DeepEqual if nil. Fields
	// that may differ and orders that do not count are left to it.
	Equal func(origin, target T) bool
}

// Read answers a query from the side that the move's state says. A side that
// follows is only asked once the session's own writes have arrived there. With
// shadow reads on, the other side is asked the same afterwards, outside of the
// answer's way.
func Read[T any](ctx context.Context, n *Node, s *Session, q Query[T]) (T, error) {
	r := n.route.Load()
	side := n.readSide(ctx, r, s)
	began := time.Now()
	v, err := q.Run(ctx, side)
	if err != nil && side != r.canonical && ctx.Err() == nil {
		n.stats.failed()
		n.cfg.Logger.Debug("a read failed on the side that follows and goes to the canonical one", "query", q.Name, "error", err)
		side, began = r.canonical, time.Now()
		v, err = q.Run(ctx, side)
	}
	if err != nil {
		return v, err
	}
	took := time.Since(began)
	n.stats.read(side, took)
	if r.shadow {
		n.shadow.offer(comparisonOf(n, q, s, side, v))
	}
	return v, nil
}

// readSide picks the side by the percentage, and the canonical one where the
// session's last write has not arrived at the other in time.
func (n *Node) readSide(ctx context.Context, r *route, s *Session) Side {
	side := Origin
	if r.readPercent > 0 && rand.IntN(100) < r.readPercent {
		side = Target
	}
	if r.canonical == Target {
		return Target
	}
	if side == r.canonical || s == nil || n.arrived(ctx, s, n.cfg.ReadWait) {
		return side
	}
	return r.canonical
}

const arrivalPoll = 2 * time.Millisecond

// arrived waits until the target has applied the session's last write.
func (n *Node) arrived(ctx context.Context, s *Session, patience time.Duration) bool {
	if err := s.place(ctx, n.origin); err != nil {
		n.cfg.Logger.Debug("the position of a write is unknown", "error", err)
		return false
	}
	want := s.get()
	if want == nil {
		return true
	}
	if !n.reached(ctx, want, patience) {
		return false
	}
	s.forget(want)
	return true
}

func (n *Node) reached(ctx context.Context, want move.Position, patience time.Duration) bool {
	deadline := time.Now().Add(patience)
	for {
		at, err := n.target.Applied(ctx, n.stream)
		if err == nil && at.Covers(want) {
			return true
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return false
		}
		pause(ctx, arrivalPoll)
	}
}

// comparisonOf makes the comparison of an answer with the other side's.
func comparisonOf[T any](n *Node, q Query[T], s *Session, answered Side, v T) comparison {
	equal := q.Equal
	if equal == nil {
		equal = func(a, b T) bool { return reflect.DeepEqual(a, b) }
	}
	var wrote move.Position
	if s != nil {
		wrote = s.get()
	}
	answers := [2]T{}
	answers[answered] = v
	run := func(ctx context.Context, side Side) error {
		began := time.Now()
		v, err := q.Run(ctx, side)
		if err != nil {
			return err
		}
		answers[side] = v
		n.stats.read(side, time.Since(began))
		return nil
	}
	return comparison{
		query: q.Name, other: answered.Other(), wrote: wrote, run: run,
		equal: func() bool { return equal(answers[Origin], answers[Target]) },
		shown: func() (string, string) { return show(answers[Origin]), show(answers[Target]) },
	}
}

// shownLength is how much of an answer a sample keeps.
const shownLength = 2000

func show(v any) string {
	text := fmt.Sprintf("%+v", v)
	if len(text) > shownLength {
		text = text[:shownLength] + "…"
	}
	return text
}
