package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// A change feed holds a record of every change to its table, written in the
// batch of the change; see docs/design/change-feed.md. Records lie under
// [0 u32][familyFeed][table's physical id u32][position u64].
const feedKeyBytes = tablePrefixBytes + 4 + 8

func appendFeedKey(dst []byte, phys uint32, position int64) []byte {
	dst = binary.BigEndian.AppendUint32(appendTablePrefix(dst, 0, familyFeed), phys)
	return binary.BigEndian.AppendUint64(dst, uint64(position))
}

// feedClock gives out the positions of a shard's records. A position is in
// flight until its batch is visible: readers stop below the lowest one.
type feedClock struct {
	mu     sync.Mutex
	last   int64   // the newest position given out
	flying []int64 // the first positions of batches that are not visible yet, ascending

	synced atomic.Int64 // everything up to here is durable

	// admin is held while what is saved of a feed changes; before mu, after stripes.
	admin sync.Mutex
}

// complete is the position up to which everything is visible to views opened later.
func (c *feedClock) complete() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.completeLocked()
}

func (c *feedClock) completeLocked() int64 {
	if len(c.flying) > 0 {
		return c.flying[0] - 1
	}
	return c.last
}

// land ends the flight of a batch, which is visible now; 0 is none.
func (c *feedClock) land(first int64) {
	if first == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.flying, first); i >= 0 {
		c.flying = slices.Delete(c.flying, i, i+1)
	}
}

// feedPart is a table's feed in one shard. What is not atomic is guarded by
// the shard's feedClock.mu, and changes of what is saved by its admin too.
type feedPart struct {
	on   atomic.Bool
	held atomic.Int64 // bytes of records: total - gone

	last      int64 // the newest position given to this table
	total     int64 // bytes ever appended
	begins    int64 // records at or below are gone
	gone      int64 // total of what is gone
	dropped   int64 // positions dropped by the limit
	trimmed   time.Time
	consumers map[string]feedConsumer
}

type feedConsumer struct {
	Position int64 `json:"position"`
	Updated  int64 `json:"updated"` // microseconds since 1970
}

// feedState is what is saved of a feedPart, as JSON under metaFeed.
type feedState struct {
	On        bool                    `json:"on"`
	Begins    int64                   `json:"begins_after"`
	Gone      int64                   `json:"bytes_gone"`
	Dropped   int64                   `json:"dropped,omitempty"`
	Consumers map[string]feedConsumer `json:"consumers,omitempty"`
}

func feedStateKey(kind byte, phys uint32) []byte {
	return binary.BigEndian.AppendUint32(metaKey(kind, ""), phys)
}

// putState adds what is to be saved of a part to a batch; its fields are guarded by the caller.
func (part *feedPart) putState(pb *pebble.Batch, phys uint32, on bool) error {
	v, err := json.Marshal(feedState{
		On: on, Begins: part.begins, Gone: part.gone, Dropped: part.dropped, Consumers: part.consumers,
	})
	if err != nil {
		return err
	}
	return pb.Set(feedStateKey(metaFeed, phys), v, nil)
}

// loadFeeds reads the feeds of a shard that is being opened.
func (sh *shard) loadFeeds() error {
	return sh.eachMeta(metaFeed, func(phys uint32, v []byte) error {
		var st feedState
		if err := json.Unmarshal(v, &st); err != nil {
			return fmt.Errorf("change feed of table %d: %w", phys, err)
		}
		part := &sh.s.tableByID(phys).parts[sh.idx].feed
		part.begins, part.gone, part.dropped, part.consumers = st.Begins, st.Gone, st.Dropped, st.Consumers
		last, total, err := sh.lastRecord(phys)
		if err != nil {
			return err
		}
		part.last, part.total = max(last, st.Begins), max(total, st.Gone)
		part.held.Store(part.total - part.gone)
		part.on.Store(st.On)
		sh.feed.last = max(sh.feed.last, part.last)
		return nil
	})
}

// eachMeta calls f for the store's own records of a kind that are kept by physical id.
func (sh *shard) eachMeta(kind byte, f func(phys uint32, v []byte) error) (err error) {
	lower := metaKey(kind, "")
	it, err := sh.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: prefixEnd(lower)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.First(); it.Valid(); it.Next() {
		k := it.Key()[len(lower):]
		v, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if len(k) != 4 {
			return fmt.Errorf("record %q: %w", it.Key(), errKeyShape)
		}
		if err := f(binary.BigEndian.Uint32(k), v); err != nil {
			return err
		}
	}
	return it.Error()
}

// lastRecord is the newest record's position, and the total it tells; zeros when there is none.
func (sh *shard) lastRecord(phys uint32) (position, total int64, err error) {
	return sh.recordAt(phys, 1<<63-2)
}

// recordAt is the newest record at or below a position.
func (sh *shard) recordAt(phys uint32, upto int64) (position, total int64, err error) {
	it, err := sh.db.NewIter(&pebble.IterOptions{
		LowerBound: appendFeedKey(nil, phys, 0), UpperBound: appendFeedKey(nil, phys, upto+1),
	})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	if !it.Last() {
		return 0, 0, it.Error()
	}
	v, err := it.ValueAndErr()
	if err != nil {
		return 0, 0, err
	}
	if len(v) < feedHeaderBytes || len(it.Key()) != feedKeyBytes {
		return 0, 0, errFeedRecord
	}
	return feedPosition(it.Key()), int64(binary.LittleEndian.Uint64(v[feedTotalAt:])), nil
}

func feedPosition(key []byte) int64 {
	return int64(binary.BigEndian.Uint64(key[feedKeyBytes-8:]))
}

// capture appends to a Pebble batch the records of the batch's changes in this
// shard to tables with a feed. Their stripes are held. first is the position of
// the first, to be landed once the batch is visible; 0 when there is none.
func (sh *shard) capture(pb *pebble.Batch, b *Batch) (first int64, err error) {
	n := int64(0)
	for i := range b.ops {
		o := &b.ops[i]
		o.fed = int(o.shard) == sh.idx && o.kind != opIndex && o.tbl.parts[sh.idx].feed.on.Load()
		if o.fed {
			n++
		}
	}
	if n == 0 {
		return 0, nil
	}
	h := feedHeader{size: uint32(n), written: sh.s.opts.Clock().UnixMicro(), now: clampSec(b.nowSec), origin: b.origin}
	if b.replayed {
		h.flags |= feedReplayed
	}
	b.totals = b.totals[:0]
	c := &sh.feed
	c.mu.Lock()
	first = c.last + 1
	c.last += n
	c.flying = append(c.flying, first)
	next := first
	for i := range b.ops {
		if o := &b.ops[i]; o.fed {
			part := &o.tbl.parts[sh.idx].feed
			size := int64(feedKeyBytes + b.recordSize(o))
			part.last = next
			part.total += size
			part.held.Add(size)
			b.totals = append(b.totals, part.total)
			next++
		}
	}
	c.mu.Unlock()
	for i := range b.ops {
		o := &b.ops[i]
		if !o.fed {
			continue
		}
		h.total = b.totals[h.place]
		d := pb.SetDeferred(feedKeyBytes, b.recordSize(o))
		appendFeedKey(d.Key[:0], o.tbl.phys, first+int64(h.place))
		b.appendRecord(d.Value[:0], &h, o)
		if err := d.Finish(); err != nil {
			c.land(first)
			return 0, fmt.Errorf("change feed: %w", err)
		}
		h.place++
	}
	sh.s.metrics.feedRecords.Add(n)
	return first, nil
}

// captureTruncate appends the record of a truncation; all stripes are held.
func (sh *shard) captureTruncate(pb *pebble.Batch, tbl *table, origin string) (first int64, err error) {
	part := &tbl.parts[sh.idx].feed
	if !part.on.Load() {
		return 0, nil
	}
	now := sh.s.opts.Clock()
	h := feedHeader{size: 1, written: now.UnixMicro(), now: clampSec(now.Unix()), origin: origin}
	v := h.append(nil, FeedTruncate, now.UnixMicro())
	v = binary.AppendUvarint(binary.AppendUvarint(v, 0), 0)
	c := &sh.feed
	c.mu.Lock()
	c.last++
	first = c.last
	c.flying = append(c.flying, first)
	size := int64(feedKeyBytes + len(v))
	part.last = first
	part.total += size
	part.held.Add(size)
	binary.LittleEndian.PutUint64(v[feedTotalAt:], uint64(part.total))
	c.mu.Unlock()
	if err := pb.Set(appendFeedKey(nil, tbl.phys, first), v, nil); err != nil {
		c.land(first)
		return 0, fmt.Errorf("change feed: %w", err)
	}
	sh.s.metrics.feedRecords.Add(1)
	return first, nil
}
