package store

import (
	"encoding/binary"
	"errors"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/cockroachdb/pebble/v2"
)

// span says that no row with lo <= key < hi is live. A span in the map is
// never changed, but replaced. See docs/design/dead-spans.md.
type span struct {
	lo, hi string // whole row keys
	rows   int64
	tombs  int64 // what a read that walks the rows counts as tombstones
	// newest is the latest local deletion time of a tombstone in the span, or later.
	newest int64
	// expiry is the latest expiry of a row dead by TTL; a reader with an
	// earlier clock must not use the span. 0: none.
	expiry    int64
	bound     int64 // newest as its record says, or later
	epoch     uint64
	estimated bool
	purged    bool // its rows were removed from the engine
}

const (
	spanVersion = 2
	// spanOverhead is the memory of a span besides its keys.
	spanOverhead = 128
	// minSpanRows is how many dead rows make a span; a seek costs about as much as walking them.
	minSpanRows = 32
	// minPieceRows is how few rows a piece of a cut span may have.
	minPieceRows = 16
	// spanChunk is how many spans lie in one slice of the map.
	spanChunk = 128
	// boundSlack is how far ahead a record's deletion time is moved, so that
	// tombstones written into a span seldom write its record.
	boundSlack = 60
	maxDirty   = 4096
)

func (x *span) bytes() int64 { return int64(len(x.lo)+len(x.hi)) + spanOverhead }

// intent is a scan under way over lo <= key < hi, with what was written there meanwhile.
type intent struct {
	lo, hi   string
	dirty    []string // rows that may have come to life
	overflow bool     // there are more of them
	// Rows that were written without that: they are as dead as they were, but
	// hold a tombstone that the scan may not have seen.
	dead         []string
	deadOverflow bool
	deadNewest   int64 // newest deletion time of those tombstones
}

// note keeps a row that is about to be written.
func (x *intent) note(key string, live bool, ldt int64) {
	if live {
		if len(x.dirty) < maxDirty {
			x.dirty = append(x.dirty, strings.Clone(key))
		} else {
			x.overflow = true
		}
		return
	}
	x.deadNewest = max(x.deadNewest, ldt, 1)
	if len(x.dead) < maxDirty {
		x.dead = append(x.dead, strings.Clone(key))
	} else {
		x.deadOverflow = true
	}
}

// all returns every row written, sorted; ok is false when there were too many to tell.
func (x *intent) all() (keys []string, ok bool) {
	keys = slices.Concat(x.dirty, x.dead)
	slices.Sort(keys)
	return slices.Compact(keys), !x.overflow && !x.deadOverflow
}

// spanMap holds one table's spans in one shard, sorted and disjoint.
type spanMap struct {
	store *Store
	// busy is the number of spans and intents: while it is 0, writers need not look.
	busy atomic.Int64
	n    atomic.Int64

	mu      rwLock
	chunks  [][]*span // none empty
	intents []*intent
}

func (m *spanMap) guarded() bool {
	m.store.step(sharedBusy, false)
	return m.busy.Load() != 0
}

// locate returns the position of the first span with hi > key.
func (m *spanMap) locate(key string) (chunk, i int) {
	chunk = sort.Search(len(m.chunks), func(i int) bool {
		c := m.chunks[i]
		return c[len(c)-1].hi > key
	})
	if chunk == len(m.chunks) {
		return chunk, 0
	}
	c := m.chunks[chunk]
	return chunk, sort.Search(len(c), func(i int) bool { return c[i].hi > key })
}

func (m *spanMap) at(key string) *span {
	c, i := m.locate(key)
	if c < len(m.chunks) && m.chunks[c][i].lo <= key {
		return m.chunks[c][i]
	}
	return nil
}

// next returns the first span that ends past key and may be used by a view of
// that epoch with that clock; nil when there is none.
func (m *spanMap) next(key []byte, epoch uint64, now int64) *span {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c, i := m.locate(alias(key))
	for ; c < len(m.chunks); c, i = c+1, 0 {
		for ; i < len(m.chunks[c]); i++ {
			if x := m.chunks[c][i]; x.usable(epoch, now) {
				return x
			}
		}
	}
	return nil
}

// prev returns the last usable span that begins at or before key.
func (m *spanMap) prev(key []byte, epoch uint64, now int64) *span {
	m.mu.RLock()
	defer m.mu.RUnlock()
	k := alias(key)
	c, i := m.locate(k)
	if c == len(m.chunks) || m.chunks[c][i].lo > k {
		i--
	}
	for {
		for ; i >= 0 && c < len(m.chunks); i-- {
			if x := m.chunks[c][i]; x.usable(epoch, now) {
				return x
			}
		}
		if c--; c < 0 {
			return nil
		}
		i = len(m.chunks[c]) - 1
	}
}

func (x *span) usable(epoch uint64, now int64) bool {
	return x.epoch <= epoch && (x.expiry == 0 || now >= x.expiry)
}

// insertLocked adds a span that overlaps none.
func (m *spanMap) insertLocked(x *span) {
	m.n.Add(1)
	m.busy.Add(1)
	m.store.spanBytes.Add(x.bytes())
	c, i := m.locate(x.lo)
	if c == len(m.chunks) {
		if c == 0 {
			m.chunks = append(m.chunks, []*span{x})
			return
		}
		c--
		i = len(m.chunks[c])
	}
	m.chunks[c] = slices.Insert(m.chunks[c], i, x)
	if k := m.chunks[c]; len(k) > spanChunk {
		m.chunks[c] = k[: spanChunk/2 : spanChunk/2]
		m.chunks = slices.Insert(m.chunks, c+1, slices.Clone(k[spanChunk/2:]))
	}
}

// removeLocked removes spans that overlap [lo, hi) and returns them.
func (m *spanMap) removeLocked(lo, hi string) []*span {
	var gone []*span
	c, i := m.locate(lo)
	for c < len(m.chunks) {
		k := m.chunks[c]
		j := i
		for j < len(k) && k[j].lo < hi {
			j++
		}
		gone = append(gone, k[i:j]...)
		more := j == len(k)
		if k = slices.Delete(slices.Clone(k), i, j); len(k) == 0 {
			m.chunks = slices.Delete(m.chunks, c, c+1)
		} else {
			m.chunks[c] = k
			c++
		}
		if !more {
			break
		}
		i = 0
	}
	for _, x := range gone {
		m.store.spanBytes.Add(-x.bytes())
	}
	m.n.Add(-int64(len(gone)))
	m.busy.Add(-int64(len(gone)))
	return gone
}

// begin registers a scan. The caller holds the stripes of everything in it
// exclusively for a moment, so that writers in flight are drained.
func (m *spanMap) begin(lo, hi []byte) *intent {
	x := &intent{lo: string(lo), hi: string(hi)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.intents = append(m.intents, x)
	m.busy.Add(1)
	return x
}

// finish ends a scan; the caller holds its stripes exclusively, or gives it up.
func (m *spanMap) finish(x *intent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.Index(m.intents, x); i >= 0 {
		m.intents = slices.Delete(m.intents, i, i+1)
		m.busy.Add(-1)
	}
}

// touches reports that writing key will change span records.
func (m *spanMap) touches(key []byte, live bool, ldt int64) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	x := m.at(alias(key))
	return x != nil && (live || ldt > x.newest)
}

// written keeps spans true to a row that is about to be written; records that
// change go into pb. The stripe is held; where touches says so the shard's
// spanMu is held too, until pb is committed.
func (m *spanMap) written(pb *pebble.Batch, key []byte, live bool, ldt int64) error {
	k := alias(key)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range m.intents {
		if x.lo <= k && k < x.hi {
			x.note(k, live, ldt)
		}
	}
	x := m.at(k)
	switch {
	case x == nil:
		return nil
	case live:
		return m.cutLocked(pb, x, strings.Clone(k))
	case ldt > x.newest && m.store.keeps(ruleTombstoneRaised):
		y := *x
		y.newest, y.purged = ldt, false
		if ldt > y.bound {
			y.bound = ldt + boundSlack
			if err := putSpan(pb, &y); err != nil {
				return err
			}
		}
		c, i := m.locate(k)
		m.chunks[c][i] = &y
	}
	return nil
}

// cutLocked takes key out of a span.
func (m *spanMap) cutLocked(pb *pebble.Batch, x *span, key string) error {
	m.removeLocked(x.lo, x.hi)
	left, right := *x, *x
	left.hi, right.lo = key, key+"\x00"
	share := fraction(x.lo, key, x.hi)
	left.rows = int64(share * float64(x.rows))
	right.rows = x.rows - left.rows
	left.tombs = int64(share * float64(x.tombs))
	right.tombs = x.tombs - left.tombs
	left.estimated, right.estimated = true, true
	left.purged, right.purged = false, false
	var err error
	if left.rows >= m.store.opts.pieceRows && left.lo < left.hi {
		m.insertLocked(&left)
		err = putSpan(pb, &left)
	} else {
		err = pb.Delete(spanKey(x.lo), nil)
	}
	if right.rows >= m.store.opts.pieceRows && right.lo < right.hi {
		m.insertLocked(&right)
		err = errors.Join(err, putSpan(pb, &right))
	}
	return err
}

// fraction estimates where key lies between lo and hi, as if keys were numbers.
func fraction(lo, key, hi string) float64 {
	n := 0
	for n < len(lo) && n < len(hi) && lo[n] == hi[n] {
		n++
	}
	word := func(s string) float64 {
		var b [8]byte
		if n < len(s) {
			copy(b[:], s[n:])
		}
		return float64(binary.BigEndian.Uint64(b[:]))
	}
	a, k, b := word(lo), word(key), word(hi)
	if b <= a {
		return 0.5
	}
	return max(0, min(1, (k-a)/(b-a)))
}

// alias is b as a string, for look-ups that keep nothing of it.
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// spanKey is the key of the record of a span that begins at lo.
func spanKey(lo string) []byte {
	k := []byte(lo)
	k[tablePrefixBytes-1] = familySpan
	return k
}

// putSpan writes a span's record:
//
//	u8 2, hi without its table prefix (uvarint length and bytes), uvarints rows, newest deletion, expiry, estimated, tombstones
func putSpan(pb *pebble.Batch, x *span) error {
	v := append(make([]byte, 0, len(x.hi)+32), spanVersion)
	v = appendBytes(v, []byte(x.hi[tablePrefixBytes:]))
	v = binary.AppendUvarint(v, uint64(x.rows))
	v = binary.AppendUvarint(v, uint64(x.bound))
	v = binary.AppendUvarint(v, uint64(x.expiry))
	est := uint64(0)
	if x.estimated {
		est = 1
	}
	v = binary.AppendUvarint(v, est)
	v = binary.AppendUvarint(v, uint64(x.tombs))
	return pb.Set(spanKey(x.lo), v, nil)
}

// decodeSpan reads a span's record.
func decodeSpan(key, v []byte) (*span, bool) {
	if len(key) < tablePrefixBytes+tokenBytes || len(v) == 0 || v[0] != spanVersion {
		return nil, false
	}
	hi, rest, ok := cutBytes(v[1:])
	if !ok {
		return nil, false
	}
	var nums [5]uint64
	for i := range nums {
		x, n := binary.Uvarint(rest)
		if n <= 0 {
			return nil, false
		}
		nums[i], rest = x, rest[n:]
	}
	lo := append([]byte(nil), key...)
	lo[tablePrefixBytes-1] = familyRow
	x := &span{
		lo: string(lo), hi: string(lo[:tablePrefixBytes]) + string(hi), rows: int64(nums[0]),
		newest: int64(nums[1]), bound: int64(nums[1]), expiry: int64(nums[2]), estimated: nums[3] != 0,
		tombs: int64(nums[4]),
	}
	return x, x.lo < x.hi && x.rows >= 0 && x.tombs >= 0
}
