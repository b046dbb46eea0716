package cql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"varve/internal/move"
)

const (
	// pollRecords is the most records of one table and shard that one look takes.
	pollRecords = 1000
	pollFirst   = time.Millisecond
	pollLast    = 20 * time.Millisecond
	confirmWait = 500 * time.Millisecond
)

// feed is one table whose changes a stream reads: the moved ones, and the two
// by which canaries and marks travel.
type feed struct {
	keyspace, name string
	table          int // move.CanaryTable for the canary
	marks          bool
}

func (s *Side) feeds() []feed {
	var out []feed
	for i, t := range s.tables {
		out = append(out, feed{keyspace: t.Schema, name: t.Name, table: i})
	}
	return append(out, feed{keyspace: ownKeyspace, name: "canary", table: move.CanaryTable}, feed{keyspace: ownKeyspace, name: "marks", marks: true})
}

// feedState is what varve.feeds tells of one table's shards.
type feedState struct {
	begins, last, complete, bytes, limit []int64
}

func (s *Side) feedState(ctx context.Context, f *feed) (*feedState, error) {
	var st feedState
	iter := s.session.Query(`SELECT shard, begins_after, last, complete, bytes, limit_bytes FROM varve.feeds
		WHERE keyspace_name = ? AND table_name = ?`, f.keyspace, f.name).IterContext(ctx)
	var shard int
	var begins, last, complete, bytes, limit int64
	for iter.Scan(&shard, &begins, &last, &complete, &bytes, &limit) {
		for shard >= len(st.last) {
			st.begins, st.last, st.complete = append(st.begins, 0), append(st.last, 0), append(st.complete, 0)
			st.bytes, st.limit = append(st.bytes, 0), append(st.limit, 0)
		}
		st.begins[shard], st.last[shard], st.complete[shard], st.bytes[shard], st.limit[shard] = begins, last, complete, bytes, limit
	}
	if err := iter.Close(); err != nil {
		return nil, fmt.Errorf("look at the change feed of %s.%s: %w", f.keyspace, f.name, err)
	}
	if len(st.last) == 0 {
		return nil, fmt.Errorf("%s.%s has no change feed any more (cdc): %w", f.keyspace, f.name, move.ErrStreamLost)
	}
	return &st, nil
}

// raised returns p with at least n for a shard.
func raised(p move.Position, shard int, n int64) move.Position {
	for shard >= len(p) {
		p = append(p, 0)
	}
	p[shard] = max(p[shard], uint64(n))
	return p
}

// OpenStream implements move.Side.
func (s *Side) OpenStream(ctx context.Context, stream string) (move.Position, error) {
	var start move.Position
	for _, f := range s.feeds() {
		name := quote(f.keyspace) + "." + quote(f.name)
		if err := s.alter(ctx, "ALTER TABLE "+name+" WITH cdc = true"); err != nil {
			return nil, err
		}
		st, err := s.feedState(ctx, &f)
		if err != nil {
			return nil, err
		}
		for shard := range st.last {
			position, err := s.register(ctx, &f, stream, shard)
			if err != nil {
				return nil, err
			}
			start = raised(start, shard, position)
		}
	}
	return start, nil
}

// register makes a consumer unless there is one, and returns its position.
func (s *Side) register(ctx context.Context, f *feed, stream string, shard int) (int64, error) {
	const where = ` WHERE keyspace_name = ? AND table_name = ? AND consumer = ? AND shard = ?`
	var position int64
	find := s.session.Query(`SELECT position FROM varve.feed_consumers`+where, f.keyspace, f.name, stream, shard)
	err := find.ScanContext(ctx, &position)
	if isNotFound(err) {
		err = s.exec(ctx, `INSERT INTO varve.feed_consumers (keyspace_name, table_name, consumer, shard) VALUES (?, ?, ?, ?)`,
			f.keyspace, f.name, stream, shard)
		if err == nil {
			err = find.ScanContext(ctx, &position)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("follow the change feed of %s.%s as %s: %w", f.keyspace, f.name, stream, err)
	}
	return position, nil
}

// DropStream implements move.Side. The tables keep their feeds, which cost
// nothing once nobody reads them but the space they are limited to.
func (s *Side) DropStream(ctx context.Context, stream string) error {
	for _, f := range s.feeds() {
		st, err := s.feedState(ctx, &f)
		if errors.Is(err, move.ErrStreamLost) {
			continue
		}
		if err != nil {
			return err
		}
		for shard := range st.last {
			err := s.exec(ctx, `DELETE FROM varve.feed_consumers WHERE keyspace_name = ? AND table_name = ? AND consumer = ? AND shard = ?`,
				f.keyspace, f.name, stream, shard)
			if err != nil {
				return err
			}
		}
		if err := s.alter(ctx, "ALTER TABLE "+quote(f.keyspace)+"."+quote(f.name)+" WITH cdc = false"); err != nil {
			return err
		}
	}
	return nil
}

// Now implements move.Side.
func (s *Side) Now(ctx context.Context) (move.Position, error) {
	var now move.Position
	for _, f := range s.feeds() {
		st, err := s.feedState(ctx, &f)
		if err != nil {
			return nil, err
		}
		for shard, last := range st.last {
			now = raised(now, shard, last)
		}
	}
	return now, nil
}

// Mark implements move.Side. A mark is a row of a table of its own; it carries
// the positions of all shards from before it was written, and counts once the
// stream has read up to them everywhere.
func (s *Side) Mark(ctx context.Context, content string) (move.Position, error) {
	needs, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.exec(ctx, `INSERT INTO varve_move.marks (id, content, needs) VALUES (now(), ?, ?) USING TTL 86400`, content, needs.String()); err != nil {
		return nil, err
	}
	st, err := s.feedState(ctx, &feed{keyspace: ownKeyspace, name: "marks"})
	if err != nil {
		return nil, err
	}
	for shard, last := range st.last {
		if shard < len(needs) {
			needs[shard] = max(needs[shard], uint64(last))
		}
	}
	return needs, nil
}

// Retained implements move.Side.
func (s *Side) Retained(ctx context.Context, _ string) (held, left int64, err error) {
	left = -1
	for _, f := range s.feeds() {
		st, err := s.feedState(ctx, &f)
		if err != nil {
			return 0, 0, err
		}
		for shard, bytes := range st.bytes {
			held += bytes
			if room := st.limit[shard] - bytes; st.limit[shard] > 0 && (left < 0 || room < left) {
				left = max(room, 0)
			}
		}
	}
	return held, left, nil
}

// stream reads the feeds of all tables, merged by position.
type stream struct {
	side  *Side
	name  string
	feeds []feed
	at    move.Position
	queue []move.Event
	marks []mark

	mu        sync.Mutex
	heard     move.Position
	confirmed move.Position
	cancel    context.CancelFunc
	group     sync.WaitGroup
}

// mark is a mark that was read and waits for the other shards.
type mark struct {
	text  string
	needs move.Position
}

// Follow implements move.Side.
func (s *Side) Follow(ctx context.Context, name string, after move.Position) (move.Stream, error) {
	if err := s.loadPass(ctx); err != nil {
		return nil, err
	}
	st := &stream{side: s, name: name, feeds: s.feeds(), at: slices.Clone(after), heard: slices.Clone(after)}
	for _, f := range st.feeds {
		state, err := s.feedState(ctx, &f)
		if err != nil {
			return nil, err
		}
		for shard, begins := range state.begins {
			st.at = raised(st.at, shard, 0)
			if uint64(begins) > st.at[shard] {
				return nil, fmt.Errorf("%s.%s has dropped its changes up to %d of shard %d and stream %s stands at %d: %w",
					f.keyspace, f.name, begins, shard, name, st.at[shard], move.ErrStreamLost)
			}
		}
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	st.cancel = cancel
	st.group.Go(func() { st.confirming(run) })
	return st, nil
}

// Ready implements move.Stream.
func (st *stream) Ready() bool { return len(st.queue) > 0 }

// Heard implements move.Stream.
func (st *stream) Heard() move.Position {
	st.mu.Lock()
	defer st.mu.Unlock()
	return slices.Clone(st.heard)
}

// Confirm implements move.Stream.
func (st *stream) Confirm(p move.Position) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.confirmed = slices.Clone(p)
}

// Close implements move.Stream.
func (st *stream) Close() error {
	st.cancel()
	st.group.Wait()
	return nil
}

// confirming tells the feeds from time to time what may go.
func (st *stream) confirming(ctx context.Context) {
	tick := time.NewTicker(confirmWait)
	defer tick.Stop()
	var told move.Position
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		st.mu.Lock()
		p := st.confirmed
		st.mu.Unlock()
		if p == nil || told.Covers(p) {
			continue
		}
		if err := st.tell(ctx, p); err == nil {
			told = p
		}
	}
}

func (st *stream) tell(ctx context.Context, p move.Position) error {
	for _, f := range st.feeds {
		for shard, n := range p {
			if n == 0 {
				continue
			}
			err := st.side.exec(ctx, `UPDATE varve.feed_consumers SET position = ? WHERE keyspace_name = ? AND table_name = ? AND consumer = ? AND shard = ?`,
				int64(n), f.keyspace, f.name, st.name, shard)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Next implements move.Stream.
func (st *stream) Next(ctx context.Context) (*move.Event, error) {
	wait := pollFirst
	for len(st.queue) == 0 {
		if err := st.poll(ctx); err != nil {
			return nil, err
		}
		if len(st.queue) > 0 {
			break
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		wait = min(2*wait, pollLast)
	}
	e := st.queue[0]
	st.queue = st.queue[1:]
	return &e, nil
}

// isGap reports the feed's error for records that are gone.
func isGap(err error) bool { return strings.Contains(err.Error(), "change feed gap") }
