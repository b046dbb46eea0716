package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"varve/internal/schema"
)

// ErrNoFeed says that a table has no change feed.
var ErrNoFeed = errors.New("no change feed")

// FeedGapError says that records after a position are gone.
type FeedGapError struct {
	Keyspace, Table string
	Shard           int
	After           int64 // what was asked for
	Begins          int64 // from where the feed is whole: records after it are there
}

func (e *FeedGapError) Error() string {
	return fmt.Sprintf("change feed gap: records of %s.%s in shard %d after position %d are gone; the feed is whole after position %d. "+
		"What changed in between must be copied anew", e.Keyspace, e.Table, e.Shard, e.After, e.Begins)
}

// FeedQuery asks for the records of a table in one shard.
type FeedQuery struct {
	Table *schema.Table
	Shard int
	// After is the position past which to begin; negative: with the oldest
	// record there is, without an error for what is gone.
	After int64
	Upto  int64 // the last position to return
}

// ReadFeed calls f for each record in order of position, until f returns false
// or an error. Everything it gives out is durable, and nothing below it will
// ever appear later.
func (s *Store) ReadFeed(ctx context.Context, q FeedQuery, f func(*FeedRecord) (bool, error)) (err error) {
	sh, part, err := s.feedOf(q.Table, q.Shard)
	if err != nil {
		return err
	}
	sh.feed.mu.Lock()
	complete, begins := sh.feed.completeLocked(), part.begins
	sh.feed.mu.Unlock()
	upto := min(q.Upto, complete)
	if q.After >= begins && q.After >= upto && q.After <= complete {
		return nil // the usual answer to who asks again and again
	}
	// What is gone is noted before it is removed, so that it is looked up after the view is opened.
	phys := q.Table.PhysID
	it, err := sh.db.NewIterWithContext(ctx, &pebble.IterOptions{
		LowerBound: appendFeedKey(nil, phys, max(q.After, 0)), UpperBound: appendFeedKey(nil, phys, max(upto, 0)+1),
	})
	if err != nil {
		return fmt.Errorf("read change feed: %w", err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	sh.feed.mu.Lock()
	begins = part.begins
	sh.feed.mu.Unlock()
	if q.After >= 0 && q.After < begins {
		return &FeedGapError{q.Table.Keyspace, q.Table.Name, q.Shard, q.After, begins}
	}
	if q.After > max(complete, begins) {
		return fmt.Errorf("change feed gap: position %d of %s.%s in shard %d has not been given out; the feed is complete up to %d. "+
			"Whoever has seen that position saw another history of this store", q.After, q.Table.Keyspace, q.Table.Name, q.Shard, complete)
	}
	first := max(q.After, begins, 0) + 1
	if first > upto || !it.SeekGE(appendFeedKey(nil, phys, first)) {
		return it.Error()
	}
	if err := sh.syncFeed(upto); err != nil {
		return fmt.Errorf("read change feed: %w", err)
	}
	var r FeedRecord
	for ; it.Valid(); it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return fmt.Errorf("read change feed: %w", err)
		}
		position := feedPosition(it.Key())
		if err := r.decode(q.Table, position, v); err != nil {
			return fmt.Errorf("change feed of %s.%s, shard %d, position %d: %w", q.Table.Keyspace, q.Table.Name, q.Shard, position, err)
		}
		if more, err := f(&r); err != nil || !more {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return it.Error()
}

// feedOf finds a table's feed in a shard.
func (s *Store) feedOf(t *schema.Table, shard int) (*shard, *feedPart, error) {
	if shard < 0 || shard >= len(s.shards) {
		return nil, nil, fmt.Errorf("there is no shard %d; the store has %d", shard, len(s.shards))
	}
	part := &s.tableFor(t).parts[shard].feed
	if !part.on.Load() {
		return nil, nil, fmt.Errorf("%s.%s has %w: switch it on with ALTER TABLE … WITH cdc = true", t.Keyspace, t.Name, ErrNoFeed)
	}
	return s.shards[shard], part, nil
}

// syncFeed waits until every record up to a position, all of them visible, is durable.
func (sh *shard) syncFeed(upto int64) error {
	if upto <= sh.feed.synced.Load() || sh.s.opts.ReadOnly {
		return nil
	}
	now := sh.feed.complete()
	if err := sh.syncJournal(); err != nil {
		return err
	}
	for {
		old := sh.feed.synced.Load()
		if old >= now || sh.feed.synced.CompareAndSwap(old, now) {
			return nil
		}
	}
}

// FeedInfo tells of a table's feed in one shard.
type FeedInfo struct {
	Shard     int
	Begins    int64 // records at or below are gone
	Last      int64 // the newest position given to the table
	Complete  int64 // nothing at or below will appear any more
	Bytes     int64
	Limit     int64 // bytes
	Block     bool  // at the limit writes are refused
	Dropped   int64
	Consumers []FeedConsumer // by name
}

// FeedConsumer is a named reader of a feed in one shard.
type FeedConsumer struct {
	Name     string
	Position int64 // confirmed
	Updated  int64 // microseconds since 1970
	Lost     bool  // records that it has not confirmed are gone
}

// FeedInfo lists the state of a table's feed by shard; empty where it has none.
// Everything up to Complete is durable.
func (s *Store) FeedInfo(t *schema.Table) ([]FeedInfo, error) {
	tbl := s.tableFor(t)
	var out []FeedInfo
	for i, sh := range s.shards {
		part := &tbl.parts[i].feed
		if !part.on.Load() {
			continue
		}
		sh.feed.mu.Lock()
		info := FeedInfo{
			Shard: i, Begins: part.begins, Last: part.last, Complete: sh.feed.completeLocked(), Bytes: part.total - part.gone,
			Limit: s.feedLimit(), Block: !s.opts.FeedDrop, Dropped: part.dropped, Consumers: part.listConsumers(),
		}
		sh.feed.mu.Unlock()
		if err := sh.syncFeed(info.Complete); err != nil {
			return nil, err
		}
		out = append(out, info)
	}
	return out, nil
}
