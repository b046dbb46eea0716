package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"varve/internal/schema"
)

// ExplainOptions bound an Explain.
type ExplainOptions struct {
	NowSec int64 // clock for expiry
	// Slices limit it to rows of the partition, in clustering order and disjoint; nil: all of it.
	Slices []Slice
	// MaxRows is how many keys are looked at, rows and range deletions each; required.
	MaxRows int64
	// Deadline ends the walk early; zero: none.
	Deadline time.Time
	// PageRows is how many live rows make a page.
	PageRows int
}

// Explanation says what lies in a partition, or in some slices of it.
type Explanation struct {
	LiveRows, LiveBytes int64 // bytes of keys and values, before compression
	DeadRows, DeadBytes int64
	Causes              DeadCauses // of the dead rows
	// DeadCells are the tombstones, expired and shadowed cells that live rows hold.
	DeadCells int64
	Static    StaticState

	PartitionDeleted int64 // local deletion time, seconds; 0: never
	RangeDeletions   int64 // kept over the slices, as disjoint pieces
	// OldestDeletion and NewestDeletion are local deletion times in seconds of
	// anything dead that is kept, expired data included; 0: nothing is.
	OldestDeletion, NewestDeletion int64
	NextExpiry                     int64 // of what is live now; 0: nothing expires

	Spans SpanTotals
	// DiskBytes is an estimate of what tables on disk hold; the memtable is not in it.
	DiskBytes int64

	// StoppedAt is the clustering of the last row that was looked at when a
	// bound ended the walk; nil: all was seen.
	StoppedAt [][]byte
	Stopped   bool
	// SpanRowsLeft are dead rows past StoppedAt that spans tell of.
	SpanRowsLeft int64

	Forward, Backward PageCost
}

// DeadCauses counts dead rows, each once, by what killed it.
type DeadCauses struct {
	RowDeletion, RangeDeletion, PartitionDeletion int64
	RowTTL                                        int64 // the row's marker expired
	CellTTL                                       int64 // without a marker, all its cells expired
	ColumnTombstones                              int64 // nothing is left but deleted columns
	DroppedColumns                                int64 // only columns that the table has no more
}

// StaticState is what is known of the static row.
type StaticState uint8

// The states of a static row. StaticLeftover is a live one in a partition
// without live rows.
const (
	StaticNone StaticState = iota
	StaticLive
	StaticDead
	StaticLeftover
)

// SpanTotals sums up the dead spans over what was asked for.
type SpanTotals struct {
	Count, Rows    int64
	Estimated      bool  // Rows is an estimate: a span was cut, or sticks out
	NewestDeletion int64 // of all of them, seconds; 0: they hold nothing to keep
	GoneSoon       int64 // spans that hold nothing to keep and go within seconds
}

// PageCost is what one page reads.
type PageCost struct {
	Rows, Walked, Jumped, Spans, RangeDeletions int64
	Took                                        time.Duration
	TimedOut                                    bool
}

// Explain walks a partition without jumping and tells what it holds. It is one
// view's state; it counts as no read in a table's figures.
func (s *Store) Explain(ctx context.Context, t *schema.Table, k Key, o ExplainOptions) (*Explanation, error) {
	if o.MaxRows <= 0 {
		return nil, errors.New("explain: no bound on rows")
	}
	v := s.View(ReadOptions{NowSec: o.NowSec, Stats: new(ReadStats)})
	x := &explainer{s: s, v: v, t: t, k: k, o: o, sh: s.shards[s.shardOf(k.Token)]}
	err := x.run(ctx)
	v.tbl = nil
	if err = errors.Join(err, v.Close()); err != nil {
		return nil, fmt.Errorf("explain partition of %s.%s: %w", t.Keyspace, t.Name, err)
	}
	for _, p := range []struct {
		cost    *PageCost
		reverse bool
	}{{&x.out.Forward, false}, {&x.out.Backward, true}} {
		if *p.cost, err = s.pageCost(ctx, t, k, &o, p.reverse); err != nil {
			return nil, fmt.Errorf("read a page of %s.%s: %w", t.Keyspace, t.Name, err)
		}
	}
	return &x.out, nil
}

// pageCost reads one page as a client would.
func (s *Store) pageCost(ctx context.Context, t *schema.Table, k Key, o *ExplainOptions, reverse bool) (PageCost, error) {
	var st ReadStats
	v := s.View(ReadOptions{NowSec: o.NowSec, Stats: &st, Deadline: o.Deadline})
	start := time.Now()
	rows := v.Partition(t, k, RowQuery{Slices: o.Slices, Reverse: reverse})
	for n := 0; rows.NextPartition(); {
		for n < o.PageRows && rows.Next() {
			n++
		}
	}
	err := rows.Close()
	out := PageCost{
		Rows: st.Rows, Walked: st.Walked, Jumped: st.Jumped, Spans: st.Spans, RangeDeletions: st.RangeTombs,
		Took: time.Since(start),
	}
	v.tbl = nil
	if errors.Is(err, ErrDeadline) {
		out.TimedOut, err = true, nil
	}
	return out, errors.Join(err, v.Close(), ctx.Err())
}

// explainer is one Explain under way.
type explainer struct {
	s   *Store
	v   *View
	t   *schema.Table
	k   Key
	o   ExplainOptions
	sh  *shard
	out Explanation

	prefix []byte
	head   headCursor
	left   int64 // rows that may still be looked at
	last   []byte
}

func (x *explainer) run(ctx context.Context) error {
	it, err := x.v.take(x.sh)
	if err != nil {
		return err
	}
	headIt, err := x.v.take(x.sh)
	if err != nil {
		return err
	}
	x.prefix = appendPartition(nil, x.t.PhysID, familyRow, x.k)
	headPrefix := bytes.Clone(x.prefix)
	headPrefix[tablePrefixBytes-1] = familyHead
	headIt.SetBounds(headPrefix, append(bytes.Clone(headPrefix), suffixEnd, 0))
	if err := x.head.reset(headIt, x.prefix, nil); err != nil {
		return err
	}
	parts, err := x.parts()
	if err != nil {
		return err
	}
	x.left = x.o.MaxRows
	if err := x.static(it); err != nil {
		return err
	}
	for i := range parts {
		if err := x.rows(ctx, it, &parts[i]); err != nil {
			return err
		}
		x.spans(&parts[i])
	}
	if x.out.Static == StaticLive && x.out.LiveRows == 0 && !x.out.Stopped && x.o.Slices == nil {
		x.out.Static = StaticLeftover
	}
	if err := x.deletions(ctx, headIt, headPrefix, parts); err != nil {
		return err
	}
	return x.disk(parts)
}

// parts are the slices in key form.
func (x *explainer) parts() ([]suffixRange, error) {
	if len(x.t.Clustering) == 0 && x.o.Slices == nil {
		return soleRow, nil
	}
	r := Rows{t: x.t}
	return r.encodeSlices(nil, x.o.Slices)
}

// deleted takes in the time of a deletion that is kept.
func (x *explainer) deleted(ldt int64) {
	if x.out.OldestDeletion == 0 || ldt < x.out.OldestDeletion {
		x.out.OldestDeletion = ldt
	}
	x.out.NewestDeletion = max(x.out.NewestDeletion, ldt)
}

func (x *explainer) expires(at int64) {
	if x.out.NextExpiry == 0 || at < x.out.NextExpiry {
		x.out.NextExpiry = at
	}
}

func (x *explainer) static(it *pebble.Iterator) error {
	if len(x.t.Static) == 0 {
		return nil
	}
	key := append(bytes.Clone(x.prefix), suffixStatic)
	it.SetBounds(key, append(bytes.Clone(key), 0))
	if !it.First() {
		return it.Error()
	}
	v, err := it.ValueAndErr()
	if err != nil {
		return err
	}
	live, _, _, err := x.row(key[len(x.prefix):], v)
	if err != nil {
		return err
	}
	x.out.Static = StaticDead
	if live {
		x.out.Static = StaticLive
	}
	return nil
}

// rows looks at the rows of a slice.
func (x *explainer) rows(ctx context.Context, it *pebble.Iterator, part *suffixRange) error {
	if x.out.Stopped {
		return nil
	}
	it.SetBounds(append(bytes.Clone(x.prefix), part.lo...), append(bytes.Clone(x.prefix), part.hi...))
	for valid := it.First(); valid; valid = it.Next() {
		if x.left&127 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !x.o.Deadline.IsZero() && !time.Now().Before(x.o.Deadline) {
				return x.stop()
			}
		}
		if x.left <= 0 {
			return x.stop()
		}
		x.left--
		v, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		suffix := it.Key()[len(x.prefix):]
		x.last = append(x.last[:0], suffix...)
		live, cause, dead, err := x.row(suffix, v)
		if err != nil {
			return err
		}
		n := int64(len(it.Key()) + len(v))
		if live {
			x.out.LiveRows++
			x.out.LiveBytes += n
			x.out.DeadCells += dead
		} else {
			x.out.DeadRows++
			x.out.DeadBytes += n
			*cause++
		}
	}
	return it.Error()
}

func (x *explainer) stop() (err error) {
	x.out.Stopped = true
	if len(x.last) > 0 {
		x.out.StoppedAt, _, err = decodeSuffix(nil, nil, x.t, x.last)
	}
	return err
}

// row tells whether a row is live, and else what killed it; dead are the dead
// cells that it holds.
func (x *explainer) row(suffix, v []byte) (live bool, cause *int64, dead int64, err error) {
	var h rowHeader
	cells, ok := decodeHeader(v, &h)
	if !ok {
		return false, nil, 0, errRowShape
	}
	del, err := x.head.at(suffix)
	if err != nil {
		return false, nil, 0, err
	}
	now := x.o.NowSec
	live = h.markerLive(del, now)
	if live && h.flags&rowMarkerTTL != 0 {
		x.expires(h.markerExpiry)
	}
	if h.flags&rowHasDeletion != 0 {
		x.deleted(h.delLDT)
	}
	expired := h.flags&rowMarkerTTL != 0 && h.base > del && now >= h.markerExpiry
	if expired {
		x.deleted(h.markerExpiry)
	}
	cellTTL, tombs, gone := false, false, false
	var c cell
	for len(cells) > 0 {
		if cells, ok = nextCell(cells, h.base, &c); !ok {
			return false, nil, 0, errRowShape
		}
		if c.col == keyColumn {
			continue
		}
		switch {
		case c.ts <= del:
			dead++
		case x.t.HasDropped() && x.t.Gone(c.col, c.ts):
			gone = true
		case c.flags&(cellTomb|cellClear) != 0:
			tombs = true
			dead++
			x.deleted(c.ldt)
		case c.dead(del, now):
			cellTTL = true
			dead++
			x.deleted(c.ldt)
		default:
			live = true
			if c.flags&cellExpiring != 0 {
				x.expires(c.ldt)
			}
		}
	}
	return live, x.cause(&h, del, expired, cellTTL, tombs, gone), dead, nil
}

// cause picks what killed a dead row: its own deletion before anything else,
// what covers it only where nothing in it is newer.
func (x *explainer) cause(h *rowHeader, del int64, expired, cellTTL, tombs, gone bool) *int64 {
	c := &x.out.Causes
	switch {
	case h.flags&rowHasDeletion != 0 && h.delTS > del:
		return &c.RowDeletion
	case expired:
		return &c.RowTTL
	case cellTTL:
		return &c.CellTTL
	case tombs:
		return &c.ColumnTombstones
	case gone:
		return &c.DroppedColumns
	case del > x.head.part:
		return &c.RangeDeletion
	case del > noDeletion:
		return &c.PartitionDeletion
	}
	return &c.ColumnTombstones
}

// maxSpansExplained bounds the spans that one explanation sums up.
const maxSpansExplained = 1 << 20

// spans sums up the dead spans over a slice.
func (x *explainer) spans(part *suffixRange) {
	lo := string(append(bytes.Clone(x.prefix), part.lo...))
	hi := string(append(bytes.Clone(x.prefix), part.hi...))
	stop := lo
	if x.out.Stopped {
		stop = max(lo, string(append(bytes.Clone(x.prefix), x.last...)))
	}
	o := &x.out.Spans
	for _, sp := range x.s.tableFor(x.t).parts[x.sh.idx].spans.list(x.t, &x.k, maxSpansExplained) {
		if sp.hi <= lo || sp.lo >= hi {
			continue
		}
		rows := sp.rows
		if sp.lo < lo || sp.hi > hi {
			share := fraction(sp.lo, min(sp.hi, hi), sp.hi) - fraction(sp.lo, max(sp.lo, lo), sp.hi)
			rows = int64(share * float64(rows))
			o.Estimated = true
		}
		o.Count++
		o.Rows += rows
		o.Estimated = o.Estimated || sp.estimated
		o.NewestDeletion = max(o.NewestDeletion, sp.newest)
		if sp.newest == 0 {
			o.GoneSoon++
		}
		if x.out.Stopped && sp.lo >= stop {
			x.out.SpanRowsLeft += rows
		}
	}
}

// deletions counts the partition's deletion and the range deletions over the slices.
func (x *explainer) deletions(ctx context.Context, it *pebble.Iterator, prefix []byte, parts []suffixRange) error {
	var list []interval
	left := x.o.MaxRows
	for valid := it.SeekGE(prefix); valid && bytes.HasPrefix(it.Key(), prefix); valid = it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		v, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if len(it.Key()) == len(prefix) {
			var h rowHeader
			if _, ok := decodeHeader(v, &h); !ok {
				return errRowShape
			}
			if h.flags&rowHasDeletion != 0 {
				x.out.PartitionDeleted = h.delLDT
				x.deleted(h.delLDT)
			}
			continue
		}
		if _, list, err = decodeChunk(list[:0], v); err != nil {
			return err
		}
		for i := range list {
			if overlapsAny(&list[i], parts) {
				x.out.RangeDeletions++
				x.deleted(list[i].ldt)
			}
		}
		if left -= int64(len(list)); left <= 0 {
			x.out.Stopped = true
			return it.Error()
		}
	}
	return it.Error()
}

func overlapsAny(v *interval, parts []suffixRange) bool {
	for i := range parts {
		if bytes.Compare(v.lo, parts[i].hi) < 0 && bytes.Compare(parts[i].lo, v.hi) < 0 {
			return true
		}
	}
	return false
}

func (x *explainer) disk(parts []suffixRange) error {
	for _, family := range []byte{familyRow, familyHead} {
		prefix := bytes.Clone(x.prefix)
		prefix[tablePrefixBytes-1] = family
		for i := range parts {
			n, err := x.sh.db.EstimateDiskUsage(append(bytes.Clone(prefix), parts[i].lo...), append(bytes.Clone(prefix), parts[i].hi...))
			if err != nil {
				return err
			}
			x.out.DiskBytes += int64(n)
		}
	}
	return nil
}
