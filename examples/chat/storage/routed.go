package storage

import (
	"context"
	"errors"
	"slices"
	"time"

	"varve/move/app"
)

// Routed is a Store that is being moved: each call goes to the side that the
// move's state says.
type Routed struct {
	node  *app.Node
	sides [2]Store
}

// NewRouted returns a store over both sides of node's move.
func NewRouted(node *app.Node, origin, target Store) *Routed {
	return &Routed{node: node, sides: [2]Store{app.Origin: origin, app.Target: target}}
}

var _ Store = (*Routed)(nil)

type sessionKey struct{}

// Session gives ctx a session of its own, whose reads see its writes.
func (r *Routed) Session(ctx context.Context) context.Context {
	return context.WithValue(ctx, sessionKey{}, r.node.NewSession())
}

// WithSessionOf returns ctx with the session that from has.
func WithSessionOf(ctx, from context.Context) context.Context {
	return context.WithValue(ctx, sessionKey{}, from.Value(sessionKey{}))
}

func sessionOf(ctx context.Context) *app.Session {
	s, _ := ctx.Value(sessionKey{}).(*app.Session)
	return s
}

func (r *Routed) write(ctx context.Context, f func(ctx context.Context, s Store) error) error {
	return r.node.Write(ctx, sessionOf(ctx), func(ctx context.Context, side app.Side) error { return f(ctx, r.sides[side]) })
}

// Append implements Store.
func (r *Routed) Append(ctx context.Context, m Message) (stored Message, duplicate bool, err error) {
	err = r.write(ctx, func(ctx context.Context, s Store) (err error) {
		stored, duplicate, err = s.Append(ctx, m)
		return err
	})
	return stored, duplicate, err
}

// MarkRead implements Store.
func (r *Routed) MarkRead(ctx context.Context, room, upTo, reader int64, at time.Time) (n int, err error) {
	err = r.write(ctx, func(ctx context.Context, s Store) (err error) {
		n, err = s.MarkRead(ctx, room, upTo, reader, at)
		return err
	})
	return n, err
}

// Edit implements Store.
func (r *Routed) Edit(ctx context.Context, room, seq int64, body string, at time.Time) error {
	return r.write(ctx, func(ctx context.Context, s Store) error { return s.Edit(ctx, room, seq, body, at) })
}

// Delete implements Store.
func (r *Routed) Delete(ctx context.Context, room, seq int64, at time.Time) error {
	return r.write(ctx, func(ctx context.Context, s Store) error { return s.Delete(ctx, room, seq, at) })
}

// Page implements Store.
func (r *Routed) Page(ctx context.Context, room, before int64, limit int) ([]Message, error) {
	return r.list(ctx, "page", func(ctx context.Context, s Store) ([]Message, error) { return s.Page(ctx, room, before, limit) })
}

// After implements Store.
func (r *Routed) After(ctx context.Context, room, after int64, limit int) ([]Message, error) {
	return r.list(ctx, "after", func(ctx context.Context, s Store) ([]Message, error) { return s.After(ctx, room, after, limit) })
}

// Get implements Store. That there is no such message is an answer, too.
func (r *Routed) Get(ctx context.Context, room, seq int64) (Message, error) {
	found, err := r.list(ctx, "get", func(ctx context.Context, s Store) ([]Message, error) {
		m, err := s.Get(ctx, room, seq)
		if errors.Is(err, ErrNotFound) {
			return nil, nil
		}
		return []Message{m}, err
	})
	if err != nil {
		return Message{}, err
	}
	if len(found) == 0 {
		return Message{}, ErrNotFound
	}
	return found[0], nil
}

func (r *Routed) list(ctx context.Context, name string, run func(ctx context.Context, s Store) ([]Message, error)) ([]Message, error) {
	return app.Read(ctx, r.node, sessionOf(ctx), app.Query[[]Message]{
		Name:  name,
		Run:   func(ctx context.Context, side app.Side) ([]Message, error) { return run(ctx, r.sides[side]) },
		Equal: func(a, b []Message) bool { return slices.EqualFunc(a, b, sameMessage) },
	})
}

func sameMessage(a, b Message) bool {
	if (a.ReplyTo == nil) != (b.ReplyTo == nil) || a.ReplyTo != nil && *a.ReplyTo != *b.ReplyTo {
		return false
	}
	a.ReplyTo, b.ReplyTo = nil, nil
	return a == b
}
