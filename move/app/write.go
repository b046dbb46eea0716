package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"varve/internal/move"
	"varve/internal/move/pg"
)

// FencedState is the SQLSTATE with which PostgreSQL's side of the fence
// refuses a write.
const FencedState = pg.FencedState

// Session is what one user sees: it never misses its own writes, whichever
// side answers its reads.
type Session struct {
	mu   sync.Mutex
	last move.Position // of the session's last write on origin, nil once it is known to have arrived
	// unplaced counts the writes on origin whose position nobody has asked for,
	// since origin answered all reads. It is asked for before the first read elsewhere.
	unplaced uint64
}

// NewSession returns a session without writes.
func (n *Node) NewSession() *Session { return &Session{} }

// Fenced reports whether an error is the refusal of a table's fence. Write
// handles it; writes that do not go through Write see it.
func Fenced(err error) bool {
	if err == nil {
		return false
	}
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) {
		return refusal.Code == FencedState
	}
	return strings.Contains(err.Error(), "varve fence: ")
}

// Write runs f against the canonical side. When the store refuses the write
// because of the fence, it waits for the move to go on and runs f again, on
// the side that is canonical then; so f must be fit to be run again after a
// refusal, as after any failed transaction. A session may be nil.
func (n *Node) Write(ctx context.Context, s *Session, f func(ctx context.Context, side Side) error) error {
	began := time.Now()
	for {
		r := n.route.Load()
		err := f(ctx, r.canonical)
		if err == nil {
			n.stats.wrote(time.Since(began))
			return n.note(ctx, s, r)
		}
		if !Fenced(err) {
			return err
		}
		left := n.cfg.WriteWait - time.Since(began)
		if left <= 0 {
			return fmt.Errorf("move %s did not let writes through within %s: %w", n.cfg.Move, n.cfg.WriteWait, err)
		}
		n.await(ctx, r, left)
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// A refused write looks again so soon, since a fence may also be lifted
// without any change of state.
const fenceRetry = 5 * time.Millisecond

func (n *Node) await(ctx context.Context, r *route, left time.Duration) {
	timer := time.NewTimer(min(fenceRetry, left))
	defer timer.Stop()
	select {
	case <-r.changed:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// note remembers where the session's write lies, if its reads may be answered
// by the other side.
func (n *Node) note(ctx context.Context, s *Session, r *route) error {
	if s == nil {
		return nil
	}
	if r.canonical == Target {
		s.set(nil)
		return nil
	}
	if r.readPercent == 0 {
		s.wroteUnplaced()
		return nil
	}
	at, err := n.origin.Now(ctx)
	if err != nil {
		// The write is done. Not knowing its place, the session stays with origin.
		n.cfg.Logger.Debug("the position of a write is unknown", "error", err)
		at = move.Position{1<<64 - 1}
	}
	s.set(at)
	n.stats.position(at)
	return nil
}

func (s *Session) set(p move.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.unplaced = p, 0
}

func (s *Session) wroteUnplaced() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unplaced++
}

// place asks where the writes lie whose position is not known: before now.
func (s *Session) place(ctx context.Context, origin source) error {
	s.mu.Lock()
	writes := s.unplaced
	s.mu.Unlock()
	if writes == 0 {
		return nil
	}
	at, err := origin.Now(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unplaced >= writes {
		s.last, s.unplaced = at, s.unplaced-writes
	}
	return nil
}

func (s *Session) get() move.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// forget drops the position if it is still p.
func (s *Session) forget(p move.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.String() == p.String() {
		s.last = nil
	}
}
