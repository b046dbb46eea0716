package pg

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"

	"varve/internal/move"
)

// snapshot is what pg_current_snapshot() returns: transactions below xmin are
// visible, from xmax on invisible, and those in progress are invisible.
type snapshot struct {
	xmin, xmax uint64
	running    map[uint64]struct{}
}

func parseSnapshot(text string) (*snapshot, error) {
	bad := fmt.Errorf("snapshot %q is not of the form xmin:xmax:list", text)
	parts := strings.SplitN(text, ":", 3)
	if len(parts) != 3 {
		return nil, bad
	}
	s := &snapshot{running: map[uint64]struct{}{}}
	var err error
	if s.xmin, err = strconv.ParseUint(parts[0], 10, 64); err != nil {
		return nil, bad
	}
	if s.xmax, err = strconv.ParseUint(parts[1], 10, 64); err != nil {
		return nil, bad
	}
	if parts[2] == "" {
		return s, nil
	}
	for part := range strings.SplitSeq(parts[2], ",") {
		xid, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return nil, bad
		}
		s.running[xid] = struct{}{}
	}
	return s, nil
}

// sees reports whether a transaction that has ended is visible. The stream
// tells the low half of its number; it is less than 2^31 away from xmax.
func (s *snapshot) sees(xid uint32) bool {
	full := s.xmax + uint64(int64(int32(xid-uint32(s.xmax))))
	if full >= s.xmax {
		return false
	}
	_, running := s.running[full]
	return !running
}

// runsBefore reports whether a transaction older than xid still runs.
func (s *snapshot) runsBefore(xid uint64) bool {
	for running := range s.running {
		if running < xid {
			return true
		}
	}
	return false
}

// markPrefix is the prefix of a move's marks in the log.
func (s *Side) markPrefix() string { return "varve/" + s.opt.Move }

// ownPrefix marks a transaction as the move writer's own where replication
// origins are not permitted.
func (s *Side) ownPrefix() string { return "varve-own/" + s.opt.Move }

func newToken() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// emit writes a mark and makes it durable. It returns the log's end before the
// mark, and the mark's transaction: what was logged before it is older.
func (s *Side) emit(ctx context.Context, token, content string) (lsn, xid uint64, err error) {
	var before, own string
	// The number of a transaction is taken so that its commit flushes the log:
	// a message alone would wait for the log writer. Standbys are not waited for:
	// a mark that is lost with the server is lost with all that came after it.
	err = s.pool.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn()::text, pg_logical_emit_message(false, $1, $2::text)::text,
		pg_current_xact_id()::text, set_config('synchronous_commit', 'local', true)`,
		s.markPrefix(), token+"\n"+content).Scan(&before, nil, &own, nil)
	if err != nil {
		return 0, 0, fmt.Errorf("write a mark into the log: %w", err)
	}
	end, err := pglogrepl.ParseLSN(before)
	if err != nil {
		return 0, 0, err
	}
	xid, err = strconv.ParseUint(own, 10, 64)
	return uint64(end), xid, err
}

// Now returns the log's end. It writes a mark of no content, so that streams
// come to hear of the position even when nothing else is written.
func (s *Side) Now(ctx context.Context) (move.Position, error) {
	lsn, _, err := s.emit(ctx, newToken(), "")
	return move.Position{lsn}, err
}

// Mark writes a mark and waits until reads see what lies before it.
//
// PostgreSQL logs a commit, then makes it durable, then lets others see it;
// in between lies a write to disk, or a standby's answer. A snapshot taken
// after the mark may lack a transaction whose commit lies before it. Which
// these are only the log tells: Mark waits for an open stream to receive the
// mark, and then until every transaction whose commit the stream received is
// visible. Without a stream it waits for every transaction that ran.
func (s *Side) Mark(ctx context.Context, content string) (move.Position, error) {
	token := newToken()
	s.mu.Lock()
	open := slices.Collect(maps.Keys(s.streams))
	s.mu.Unlock()
	var received []<-chan struct{}
	for _, st := range open {
		received = append(received, st.r.await(token))
		defer st.r.forget(token)
	}
	lsn, own, err := s.emit(ctx, token, content)
	if err != nil {
		return nil, err
	}
	for wait := time.Millisecond; ; wait = min(2*wait, 20*time.Millisecond) {
		now, err := s.snapshot(ctx)
		if err != nil {
			return nil, err
		}
		visible := !now.runsBefore(own)
		for i, st := range open {
			select {
			case <-received[i]:
				visible = visible || !st.r.hidden(now)
			default:
			}
		}
		if visible {
			return move.Position{lsn}, nil
		}
		if err := pause(ctx, wait, received...); err != nil {
			return nil, fmt.Errorf("wait until what lies before a mark is visible: %w", err)
		}
	}
}

func (s *Side) snapshot(ctx context.Context) (*snapshot, error) {
	var text string
	if err := s.pool.QueryRow(ctx, "SELECT pg_current_snapshot()::text").Scan(&text); err != nil {
		return nil, fmt.Errorf("look at running transactions: %w", err)
	}
	return parseSnapshot(text)
}

// pause waits for a while, or until the first of the channels closes.
func pause(ctx context.Context, d time.Duration, early ...<-chan struct{}) error {
	var first <-chan struct{}
	if len(early) > 0 {
		select {
		case <-early[0]:
		default:
			first = early[0]
		}
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
	case <-first:
	}
	return nil
}
