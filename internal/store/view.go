package store

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"varve/internal/schema"
)

// ReadStats counts what a read touched; one is shared by all of a request's iterators.
type ReadStats struct {
	Rows       int64 // live rows returned
	Walked     int64 // tombstones stepped over: dead rows and dead cells, as Cassandra counts them
	Jumped     int64 // dead rows passed in spans, not touched
	JumpTombs  int64 // what walking those would have added to Walked; less than Jumped where a head deletion killed them
	Spans      int64 // spans used
	RangeTombs int64 // range and partition deletions consulted
	Partitions int64
	BytesRead  int64 // bytes of row values decoded
	// NewestTimestamp is the largest timestamp met, with TrackNewest; 0 when none is above zero.
	NewestTimestamp int64
	LastKey         string // for error texts: last row scanned, as ((1), 2026-…, 7)
}

// Add adds the counts of another part of the same read.
func (st *ReadStats) Add(o *ReadStats) {
	st.Rows += o.Rows
	st.Walked += o.Walked
	st.Jumped += o.Jumped
	st.JumpTombs += o.JumpTombs
	st.Spans += o.Spans
	st.RangeTombs += o.RangeTombs
	st.Partitions += o.Partitions
	st.BytesRead += o.BytesRead
	st.NewestTimestamp = max(st.NewestTimestamp, o.NewestTimestamp)
}

// TombstoneError ends a read that met more tombstones than it may.
type TombstoneError struct {
	Count   int64
	Token   int64
	LastRow [][]byte // clustering of the last row scanned
	LastKey Key
}

// Error implements error.
func (e *TombstoneError) Error() string {
	return fmt.Sprintf("scanned over %d tombstones; last row's token was %d", e.Count, e.Token)
}

// ReadOptions configure a View.
type ReadOptions struct {
	NowSec int64 // clock for expiry
	// FailAfter ends a read with a TombstoneError once it counted more than
	// this many tombstones; 0: never.
	FailAfter int64
	// CountAll counts the tombstones that were jumped as walked ones towards FailAfter.
	CountAll bool
	// TrackNewest fills Stats.NewestTimestamp: no write to a single row that was
	// asked for, or to the static row, is shadowed by what is there if its
	// timestamp is above that. Tombstones, expired cells and deletions of ranges
	// and of the partition count, whether the row is there or not.
	TrackNewest bool
	// Stats receives counts; required.
	Stats *ReadStats
	// Deadline stops an iterator with ErrDeadline between rows; zero: none.
	Deadline time.Time
}

// ErrDeadline says that a read stopped at its deadline; the iterator's
// Position tells from where to go on.
var ErrDeadline = errors.New("read deadline passed")

// View is one consistent state of the store for one request (one state of
// each shard). It must be closed. It is used by one goroutine.
type View struct {
	s      *Store
	o      ReadOptions
	shards []viewShard
	rows   []*Rows // closed, for reuse
	start  time.Time
	tbl    *table // the first table read
}

// viewShard is a view's state of a shard: its first iterator and clones of it.
type viewShard struct {
	epoch uint64 // of spans, noted before the first iterator was opened
	first *pebble.Iterator
	idle  []*pebble.Iterator // open, not in use
	open  []*pebble.Iterator // all of them
}

var views = sync.Pool{New: func() any { return new(View) }}

// View opens a view.
func (s *Store) View(o ReadOptions) *View {
	v := views.Get().(*View)
	v.s, v.o = s, o
	if len(v.shards) != len(s.shards) {
		v.shards = make([]viewShard, len(s.shards))
	}
	s.reads.Add(1)
	return v
}

// Close releases the view.
func (v *View) Close() error {
	var err error
	for i := range v.shards {
		x := &v.shards[i]
		for j, it := range x.open {
			if cerr := it.Close(); err == nil {
				err = cerr
			}
			x.open[j] = nil
		}
		x.first, x.open, x.idle = nil, x.open[:0], x.idle[:0]
	}
	if v.tbl != nil {
		v.tbl.stats.read(time.Since(v.start), v.o.Stats)
		v.s.readTotals.add(v.o.Stats)
	}
	v.s.reads.Add(-1)
	v.s, v.o, v.tbl = nil, ReadOptions{}, nil
	if len(v.rows) > 8 {
		clear(v.rows[8:])
		v.rows = v.rows[:8]
	}
	views.Put(v)
	return err
}

func (v *View) noteTable(tbl *table) {
	if v.tbl == nil {
		v.tbl = tbl
		v.start = time.Now()
	}
}

// take returns an iterator over the view's state of a shard. The spans' epoch
// is noted before the state is fixed, so that no span is used that was
// published for a later one.
func (v *View) take(sh *shard) (*pebble.Iterator, error) {
	x := &v.shards[sh.idx]
	if n := len(x.idle); n > 0 {
		it := x.idle[n-1]
		x.idle = x.idle[:n-1]
		return it, nil
	}
	if x.first == nil {
		if err := v.s.failed(); err != nil {
			return nil, err
		}
		v.s.step(sharedEpoch, false)
		x.epoch = sh.epoch.Load()
		v.s.step(sharedData, false)
		it, err := sh.db.NewIter(nil)
		if err != nil {
			return nil, err
		}
		if v.s.steps != nil {
			x.epoch = v.brokenEpoch(sh, x.epoch)
		}
		x.first = it
		x.open = append(x.open, it)
		return it, nil
	}
	it, err := x.first.Clone(pebble.CloneOptions{})
	if err != nil {
		return nil, err
	}
	x.open = append(x.open, it)
	return it, nil
}

// give returns an iterator for reuse within the view.
func (v *View) give(sh *shard, it *pebble.Iterator) {
	x := &v.shards[sh.idx]
	x.idle = append(x.idle, it)
}

// newRows takes an iterator over rows from the view's own store of them.
func (v *View) newRows(t *schema.Table) *Rows {
	var r *Rows
	if n := len(v.rows); n > 0 {
		r = v.rows[n-1]
		v.rows = v.rows[:n-1]
	} else {
		r = new(Rows)
	}
	r.v, r.t = v, t
	r.tbl = v.s.tableFor(t)
	v.noteTable(r.tbl)
	return r
}
