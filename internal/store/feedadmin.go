package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"varve/internal/schema"
)

const (
	// maxFeedConsumers bounds a table's consumers, and maxConsumerName a name's bytes.
	maxFeedConsumers = 64
	maxConsumerName  = 128
	// feedTrimBytes of confirmed records, or feedTrimAge, make it worth a range
	// deletion, after which the memtable is flushed.
	feedTrimBytes = 8 << 20
	feedTrimAge   = time.Minute
)

// FeedFullError says that a table's feed holds as much as it may.
type FeedFullError struct {
	Keyspace, Table, Consumer string
	Shard                     int
	Position, Begins, Limit   int64
}

func (e *FeedFullError) Error() string {
	return fmt.Sprintf("Rejecting mutation to %s.%s: its change feed holds %d bytes in shard %d, all that cdc_table_space allows. "+
		"Consumer %s has confirmed position %d; let it go on, or delete it from varve.feed_consumers",
		e.Keyspace, e.Table, e.Limit, e.Shard, e.Consumer, e.Position)
}

// feedLimit is how many bytes a table's feed may hold in one shard.
func (s *Store) feedLimit() int64 { return max(1, s.opts.FeedBytes/int64(len(s.shards))) }

// SetFeed switches a table's feed on or off. Once it returns, every change that
// becomes visible has a record. Switched off, its records are removed.
func (s *Store) SetFeed(ctx context.Context, t *schema.Table, on bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.opts.ReadOnly {
		return ErrReadOnly
	}
	if t.Counter && on {
		return fmt.Errorf("table %s.%s holds counters, which a change feed cannot tell of", t.Keyspace, t.Name)
	}
	tbl := s.tableFor(t)
	for _, sh := range s.shards {
		if err := sh.setFeed(tbl, on); err != nil {
			return fmt.Errorf("switch change feed of %s.%s: %w", t.Keyspace, t.Name, err)
		}
	}
	s.updateWatched()
	// Writers that looked before are finished after this.
	s.drainWriters()
	if on {
		return s.failed()
	}
	for _, sh := range s.shards {
		if err := sh.emptyFeed(tbl, false); err != nil {
			return fmt.Errorf("remove change feed of %s.%s: %w", t.Keyspace, t.Name, err)
		}
	}
	return s.failed()
}

func (sh *shard) setFeed(tbl *table, on bool) error {
	c, part := &sh.feed, &tbl.parts[sh.idx].feed
	c.admin.Lock()
	defer c.admin.Unlock()
	if part.on.Load() == on {
		return nil
	}
	c.mu.Lock()
	if on {
		part.begins = max(part.begins, c.last)
		part.last = max(part.last, part.begins)
		part.gone = part.total
		part.held.Store(0)
		part.trimmed = time.Now()
	}
	pb := sh.db.NewBatch()
	err := part.putState(pb, tbl.phys, on)
	c.mu.Unlock()
	if err != nil {
		return errors.Join(err, pb.Close())
	}
	if err := sh.commitSynced(pb); err != nil {
		return err
	}
	part.on.Store(on)
	return nil
}

// emptyFeed removes all records of a feed that is, and stays, on or off.
func (sh *shard) emptyFeed(tbl *table, on bool) error {
	c, part := &sh.feed, &tbl.parts[sh.idx].feed
	c.admin.Lock()
	defer c.admin.Unlock()
	if part.on.Load() != on {
		return nil
	}
	c.mu.Lock()
	part.begins = c.last
	part.gone = part.total
	part.held.Store(0)
	pb := sh.db.NewBatch()
	err := part.putState(pb, tbl.phys, on)
	c.mu.Unlock()
	if err == nil {
		lo := appendFeedKey(nil, tbl.phys, 0)
		err = pb.DeleteRange(lo, prefixEnd(lo[:len(lo)-8]), nil)
	}
	if err != nil {
		return errors.Join(err, pb.Close())
	}
	return sh.commitSynced(pb)
}

// SyncFeeds makes the feeds agree with the definitions of all tables, which a
// crash between the change of one and of the other can leave apart.
func (s *Store) SyncFeeds(ctx context.Context, tables []*schema.Table) error {
	if s.opts.ReadOnly {
		return nil
	}
	known := map[uint32]bool{}
	for _, t := range tables {
		known[t.PhysID] = true
		want := t.Options.CDC && !t.Counter
		parts := s.tableFor(t).parts
		agree := true
		for i := range parts {
			agree = agree && parts[i].feed.on.Load() == want
		}
		if agree {
			continue
		}
		if err := s.SetFeed(ctx, t, want); err != nil {
			return err
		}
	}
	for phys, tbl := range *s.tables.Load() {
		if known[phys] {
			continue
		}
		for _, sh := range s.shards {
			if !tbl.parts[sh.idx].feed.on.Load() {
				continue
			}
			pb := sh.db.NewBatch()
			if err := errors.Join(sh.dropFeed(pb, phys), sh.commitSynced(pb)); err != nil {
				return fmt.Errorf("remove change feed of dropped table %d: %w", phys, err)
			}
		}
	}
	s.updateWatched()
	return nil
}

// dropFeed adds the removal of a dropped table's feed and fence to a batch.
func (sh *shard) dropFeed(pb *pebble.Batch, phys uint32) error {
	tbl := sh.s.tableByID(phys)
	tbl.parts[sh.idx].feed.on.Store(false)
	tbl.fence.Store(nil)
	lo := appendFeedKey(nil, phys, 0)
	return errors.Join(
		pb.DeleteRange(lo, prefixEnd(lo[:len(lo)-8]), nil),
		pb.Delete(feedStateKey(metaFeed, phys), nil),
		pb.Delete(feedStateKey(metaFence, phys), nil),
	)
}

// feedJump is how far positions jump in a store that was made of a snapshot. The
// store that was copied will not have given out that many since.
const feedJump = 1 << 40

// startAnew begins the feeds of a store that was made of a snapshot past all
// positions that the store which was copied may have given out meanwhile: its
// consumers meet a gap instead of taking one history for the other.
func (s *Store) startAnew() error {
	for _, sh := range s.shards {
		sh.feed.last += feedJump
		for phys, tbl := range *s.tables.Load() {
			part := &tbl.parts[sh.idx].feed
			on := part.on.Load()
			if !on && part.begins == 0 {
				continue // it never had one
			}
			part.last = sh.feed.last
			if err := sh.emptyFeed(tbl, on); err != nil {
				return fmt.Errorf("table %d: %w", phys, err)
			}
		}
	}
	return finishLayout(&s.opts, s.id)
}

// FeedPosition is where a consumer is to be set; see SetFeedConsumer.
type FeedPosition struct {
	Shard int
	Name  string
	// Position is the one that the consumer has confirmed; negative: all that
	// is there now, so that it is told of every write that begins later.
	Position int64
	// Known: the consumer must have been registered before.
	Known bool
}

// SetFeedConsumer registers a consumer or moves it, durably. A position that
// the feed no longer reaches back to is a *FeedGapError.
func (s *Store) SetFeedConsumer(t *schema.Table, p FeedPosition) error {
	sh, part, err := s.feedOf(t, p.Shard)
	if err != nil {
		return err
	}
	if s.opts.ReadOnly {
		return ErrReadOnly
	}
	if p.Name == "" || len(p.Name) > maxConsumerName {
		return fmt.Errorf("a consumer's name has 1 to %d bytes, not %d", maxConsumerName, len(p.Name))
	}
	c := &sh.feed
	c.admin.Lock()
	defer c.admin.Unlock()
	c.mu.Lock()
	complete, begins := c.completeLocked(), part.begins
	_, known := part.consumers[p.Name]
	n := len(part.consumers)
	c.mu.Unlock()
	if p.Position < 0 {
		p.Position = max(complete, begins)
	}
	switch {
	case p.Known && !known:
		return fmt.Errorf("consumer %s of %s.%s is not registered in shard %d: INSERT it first", p.Name, t.Keyspace, t.Name, p.Shard)
	case !known && n >= maxFeedConsumers:
		return fmt.Errorf("%s.%s has %d consumers, which is the most there can be", t.Keyspace, t.Name, n)
	case p.Position < begins:
		return &FeedGapError{t.Keyspace, t.Name, p.Shard, p.Position, begins}
	case p.Position > max(complete, begins):
		return fmt.Errorf("position %d has not been given out yet: the change feed of %s.%s in shard %d is complete up to %d",
			p.Position, t.Keyspace, t.Name, p.Shard, complete)
	}
	// A confirmation must not rest on records that a crash takes back.
	if err := sh.syncFeed(p.Position); err != nil {
		return err
	}
	return sh.changeConsumers(s.tableFor(t), part, func(m map[string]feedConsumer) {
		m[p.Name] = feedConsumer{Position: p.Position, Updated: s.opts.Clock().UnixMicro()}
	})
}

// DropFeedConsumer forgets a consumer; found is false when there is none of the name.
func (s *Store) DropFeedConsumer(t *schema.Table, shard int, name string) (found bool, err error) {
	sh, part, err := s.feedOf(t, shard)
	if err != nil {
		return false, err
	}
	if s.opts.ReadOnly {
		return false, ErrReadOnly
	}
	c := &sh.feed
	c.admin.Lock()
	defer c.admin.Unlock()
	c.mu.Lock()
	_, found = part.consumers[name]
	c.mu.Unlock()
	if !found {
		return false, nil
	}
	return true, sh.changeConsumers(s.tableFor(t), part, func(m map[string]feedConsumer) { delete(m, name) })
}

// changeConsumers saves a change of a feed's consumers and removes what all of
// them have confirmed, where that is worth it. admin is held.
func (sh *shard) changeConsumers(tbl *table, part *feedPart, change func(map[string]feedConsumer)) error {
	c := &sh.feed
	c.mu.Lock()
	next := maps.Clone(part.consumers)
	if next == nil {
		next = map[string]feedConsumer{}
	}
	change(next)
	part.consumers = next
	pb := sh.db.NewBatch()
	err := part.putState(pb, tbl.phys, part.on.Load())
	c.mu.Unlock()
	if err != nil {
		return errors.Join(err, pb.Close())
	}
	if err := sh.commitSynced(pb); err != nil {
		return err
	}
	upto, _, ok := sh.confirmed(part)
	if !ok {
		return nil
	}
	_, total, err := sh.recordAt(tbl.phys, upto)
	if err != nil {
		return err
	}
	c.mu.Lock()
	worth := total-part.gone >= min(feedTrimBytes, sh.s.feedLimit()/8) ||
		total > part.gone && time.Since(part.trimmed) > feedTrimAge
	c.mu.Unlock()
	if !worth {
		return nil
	}
	return sh.trimFeed(tbl, part, upto, false)
}

// confirmed is the position that all consumers have passed, and who is
// furthest behind. ok is false when there is no consumer, or none that could
// still miss anything.
func (sh *shard) confirmed(part *feedPart) (upto int64, who string, ok bool) {
	sh.feed.mu.Lock()
	defer sh.feed.mu.Unlock()
	for name, p := range part.consumers {
		if p.Position < part.begins {
			continue // lost already
		}
		if !ok || p.Position < upto || p.Position == upto && name < who {
			upto, who, ok = p.Position, name, true
		}
	}
	return upto, who, ok
}

// trimFeed removes the records up to a position. admin is held.
func (sh *shard) trimFeed(tbl *table, part *feedPart, upto int64, dropped bool) error {
	_, total, err := sh.recordAt(tbl.phys, upto)
	if err != nil {
		return err
	}
	c := &sh.feed
	c.mu.Lock()
	lo := part.begins
	if upto <= lo {
		c.mu.Unlock()
		return nil
	}
	// In memory first: a reader that opens its view after the removal must see it.
	part.begins = upto
	part.gone = max(part.gone, total)
	part.held.Store(part.total - part.gone)
	part.trimmed = time.Now()
	if dropped {
		part.dropped += upto - lo
	}
	pb := sh.db.NewBatch()
	err = part.putState(pb, tbl.phys, part.on.Load())
	c.mu.Unlock()
	if err == nil {
		err = pb.DeleteRange(appendFeedKey(nil, tbl.phys, lo), appendFeedKey(nil, tbl.phys, upto+1), nil)
	}
	if err != nil {
		return errors.Join(err, pb.Close())
	}
	if err := sh.write(pb, pebble.NoSync); err != nil {
		return err
	}
	return pb.Close()
}

// makeFeedRoom is called by writers to a feed that holds as much as it may: what is
// confirmed goes, then, as the options say, the oldest, or the write is refused.
func (sh *shard) makeFeedRoom(tbl *table, part *feedPart) error {
	c := &sh.feed
	c.admin.Lock()
	defer c.admin.Unlock()
	limit := sh.s.feedLimit()
	upto, who, ok := sh.confirmed(part)
	if ok && part.held.Load() >= limit {
		if err := sh.trimFeed(tbl, part, upto, false); err != nil {
			return fmt.Errorf("trim change feed: %w", err)
		}
	}
	if part.held.Load() < limit {
		return nil
	}
	if ok && !sh.s.opts.FeedDrop {
		e := &FeedFullError{Consumer: who, Shard: sh.idx, Position: upto, Limit: limit}
		if t := tbl.def.Load(); t != nil {
			e.Keyspace, e.Table = t.Keyspace, t.Name
		}
		return e
	}
	upto, err := sh.oldest(tbl.phys, part, limit-limit/8)
	if err != nil {
		return fmt.Errorf("trim change feed: %w", err)
	}
	if ok {
		sh.s.opts.Logger.Warn("a change feed is full: its oldest records are dropped",
			"table", tbl.phys, "shard", sh.idx, "upto", upto, "furthest_behind", who)
	}
	return sh.trimFeed(tbl, part, upto, ok)
}

// oldest is the position up to which records must go so that at most keep bytes are left.
func (sh *shard) oldest(phys uint32, part *feedPart, keep int64) (int64, error) {
	c := &sh.feed
	c.mu.Lock()
	lo, hi, total := part.begins, c.completeLocked(), part.total
	c.mu.Unlock()
	var err error
	n := sort.Search(int(hi-lo), func(i int) bool {
		_, t, e := sh.recordAt(phys, lo+int64(i))
		err = errors.Join(err, e)
		return total-t <= keep
	})
	return lo + int64(n), err
}

// listConsumers lists the consumers by name; the clock's mu is held.
func (part *feedPart) listConsumers() []FeedConsumer {
	var out []FeedConsumer
	for _, name := range slices.Sorted(maps.Keys(part.consumers)) {
		p := part.consumers[name]
		out = append(out, FeedConsumer{name, p.Position, p.Updated, p.Position < part.begins})
	}
	return out
}
