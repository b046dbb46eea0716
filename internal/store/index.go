package store

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"varve/internal/cqltype"
	"varve/internal/schema"
)

// IndexQuery is a range of an index: values between Lo and Hi (nil: unbounded).
type IndexQuery struct {
	Lo, Hi                   []byte
	LoInclusive, HiInclusive bool
	Partition                *Key        // only this partition
	After                    *IndexEntry // paging: start past this entry
}

// IndexEntry is one entry: a row that had the value at some time.
type IndexEntry struct {
	Value      []byte
	Key        Key
	Clustering [][]byte // nil: static row
}

// IndexIter iterates over index entries, those of all shards in one order.
type IndexIter struct {
	v       *View
	t       *schema.Table
	x       *schema.Index
	q       IndexQuery
	err     error
	sources []indexSource
	cur     int
	started bool
	lower   []byte // bounds of what is read
	upper   []byte
	part    []byte // what entries of the asked partition have behind the value
	entry   IndexEntry

	// What the entry aliases.
	buf, key, scratch, arena []byte
	clustering               [][]byte
}

// indexSource is one shard's entries.
type indexSource struct {
	sh *shard
	it *pebble.Iterator
}

// Index reads entries in order of value, token, partition key, clustering.
func (v *View) Index(t *schema.Table, x *schema.Index, q IndexQuery) *IndexIter {
	i := &IndexIter{v: v, t: t, x: x, q: q, cur: -1}
	v.noteTable(v.s.tableFor(t))
	i.err = i.open()
	return i
}

func (i *IndexIter) open() error {
	lower, upper, err := i.bounds()
	if err != nil || bytes.Compare(lower, upper) >= 0 {
		return err
	}
	for _, sh := range i.v.s.shards {
		if i.q.Partition != nil && i.v.s.shardOf(i.q.Partition.Token) != sh.idx {
			continue
		}
		it, err := i.v.take(sh)
		if err != nil {
			return err
		}
		i.sources = append(i.sources, indexSource{sh, it})
		it.SetBounds(lower, upper)
		it.ResetStats()
	}
	i.lower, i.upper = lower, upper
	if i.q.Partition != nil {
		i.part = append(appendToken(nil, i.q.Partition.Token), i.q.Partition.enc...)
	}
	return nil
}

func (i *IndexIter) bounds() (lower, upper []byte, err error) {
	prefix := appendTablePrefix(nil, i.x.PhysID, familyIndex)
	lower, upper = slices.Clone(prefix), prefixEnd(prefix)
	vt := i.x.ValueType()
	if i.q.Lo != nil {
		if lower, err = cqltype.AppendKey(lower, vt, i.q.Lo, false); err != nil {
			return nil, nil, fmt.Errorf("index %s: %w", i.x.Name, err)
		}
		if !i.q.LoInclusive {
			lower = prefixEnd(lower)
		}
	}
	if i.q.Hi != nil {
		if upper, err = cqltype.AppendKey(slices.Clone(prefix), vt, i.q.Hi, false); err != nil {
			return nil, nil, fmt.Errorf("index %s: %w", i.x.Name, err)
		}
		if i.q.HiInclusive {
			upper = prefixEnd(upper)
		}
	}
	if i.q.After != nil {
		after, err := entryKey(i.t, i.x, i.q.After)
		if err != nil {
			return nil, nil, err
		}
		if after = successor(after); bytes.Compare(after, lower) > 0 {
			lower = after
		}
	}
	return lower, upper, nil
}

// entryKey is the key of an entry.
func entryKey(t *schema.Table, x *schema.Index, e *IndexEntry) ([]byte, error) {
	key, err := cqltype.AppendKey(appendTablePrefix(nil, x.PhysID, familyIndex), x.ValueType(), e.Value, false)
	if err != nil {
		return nil, fmt.Errorf("index %s: %w", x.Name, err)
	}
	key = append(appendToken(key, e.Key.Token), e.Key.enc...)
	return appendSuffix(key, t, e.Clustering)
}

// Next goes to the next entry.
func (i *IndexIter) Next() bool {
	if i.err != nil || len(i.sources) == 0 {
		return false
	}
	if !i.started {
		i.started = true
		for _, s := range i.sources {
			s.it.First()
		}
	} else {
		i.sources[i.cur].it.Next()
	}
	for {
		i.cur = -1
		for n, s := range i.sources {
			if !s.it.Valid() {
				if i.err = s.it.Error(); i.err != nil {
					return false
				}
				continue
			}
			if i.cur < 0 || bytes.Compare(s.it.Key(), i.sources[i.cur].it.Key()) < 0 {
				i.cur = n
			}
		}
		if i.cur < 0 {
			return false
		}
		ok, moved := i.decode()
		if i.err != nil {
			return false
		}
		if ok {
			return true
		}
		if !moved {
			i.sources[i.cur].it.Next()
		}
	}
}

// decode reads the current entry. Entries of other partitions than the one
// asked for are passed by a seek.
func (i *IndexIter) decode() (ok, moved bool) {
	it := i.sources[i.cur].it
	key := it.Key()
	i.buf = i.buf[:0]
	value, rest, err := cqltype.DecodeKey(i.buf, i.x.ValueType(), key[tablePrefixBytes:], false)
	if err != nil || len(rest) < tokenBytes {
		i.err = fmt.Errorf("index %s: %w", i.x.Name, errKeyShape)
		return false, false
	}
	i.buf = value
	if i.part != nil && !bytes.HasPrefix(rest, i.part) {
		valueEnd := key[:len(key)-len(rest)]
		to := append(slices.Clone(valueEnd), i.part...)
		if bytes.Compare(rest, i.part) > 0 {
			to = prefixEnd(slices.Clone(valueEnd)) // past this value
		}
		it.SeekGE(to)
		return false, true
	}
	if v, err := it.ValueAndErr(); err != nil {
		i.err = err
		return false, false
	} else if len(v) > 0 {
		value = append([]byte(nil), v...)
	}
	left := rest[tokenBytes:]
	for _, c := range i.t.PartitionKey {
		if i.scratch, left, err = cqltype.DecodeKey(i.scratch[:0], c.Type, left, false); err != nil {
			i.err = fmt.Errorf("index %s: %w", i.x.Name, errKeyShape)
			return false, false
		}
	}
	i.key = append(i.key[:0], rest[tokenBytes:len(rest)-len(left)]...)
	clustering, arena, err := decodeSuffix(i.clustering[:0], i.arena[:0], i.t, left)
	if err != nil {
		i.err = fmt.Errorf("index %s: %w", i.x.Name, err)
		return false, false
	}
	if clustering != nil {
		i.clustering = clustering
	} else if left[0] != suffixStatic {
		clustering = [][]byte{}
	}
	i.arena = arena
	i.entry = IndexEntry{Value: value, Key: Key{Token: tokenOf(rest), enc: i.key}, Clustering: clustering}
	return true, false
}

// Entry is the current entry, valid until Next.
func (i *IndexIter) Entry() IndexEntry { return i.entry }

// Close releases the iterator and returns its error.
func (i *IndexIter) Close() error {
	for _, s := range i.sources {
		i.noteSkips(s.sh, s.it)
		i.v.give(s.sh, s.it)
	}
	i.sources = nil
	return i.err
}

// RemoveStaleEntry removes an index entry that the caller found stale, unless
// its partition is in use (the next read finds it again), or
// stillStale, called under the partition's exclusive stripe with a fresh view, says otherwise.
func (s *Store) RemoveStaleEntry(t *schema.Table, x *schema.Index, e IndexEntry, stillStale func(*View) bool) error {
	if s.opts.ReadOnly {
		return ErrReadOnly
	}
	key, err := entryKey(t, x, &e)
	if err != nil {
		return err
	}
	s.tableByID(x.PhysID).staleSeen.Add(1)
	sh := s.shards[s.shardOf(e.Key.Token)]
	stripe := &sh.stripes[stripeOf(e.Key.Token)]
	if !stripe.try(true) {
		return nil
	}
	defer stripe.Unlock()
	var stats ReadStats
	v := s.View(ReadOptions{NowSec: s.opts.Clock().Unix(), Stats: &stats})
	stale := stillStale(v)
	if err := v.Close(); err != nil || !stale {
		return err
	}
	if err := s.failed(); err != nil {
		return err
	}
	if err := sh.committed(sh.db.Delete(key, pebble.NoSync)); err != nil {
		return err
	}
	sh.debts.add(debt{lo: string(key), hi: string(key), rows: 1, removed: true})
	return s.failed()
}
