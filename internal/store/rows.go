package store

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"varve/internal/cqltype"
	"varve/internal/schema"
)

// RowQuery says which rows of a partition, or of each partition, to return.
type RowQuery struct {
	// Slices in clustering order, disjoint; nil: all rows. A slice with equal
	// full prefixes, both inclusive, is a single row.
	Slices  []Slice
	Reverse bool
	// StaticOnly asks for static rows alone (DISTINCT, or only static columns).
	// A partition without one is returned if it has a live row.
	StaticOnly bool
	// NoStatic skips the static row.
	NoStatic bool
}

// suffixRange is an encoded slice; point: it can only hold the row at lo.
type suffixRange struct {
	lo, hi []byte
	point  bool
}

var allRows = []suffixRange{{lo: []byte{suffixFirst}, hi: []byte{suffixEnd}}}

// soleRow is the only row of a partition without clustering columns.
var soleRow = []suffixRange{{lo: []byte{suffixSole}, hi: []byte{suffixSole, suffixEnd}, point: true}}

// deadRowsWalked is how many dead rows a read walks before it asks the
// background for a span over them.
const deadRowsWalked = 512

// Rows iterates over rows, partition by partition. A partition is returned
// when it has a live static row or any live row. Usage:
//
//	for rows.NextPartition() { for rows.Next() { rows.Row() … } }
//
// Everything returned is valid until the next call of Next or NextPartition.
type Rows struct {
	v   *View
	t   *schema.Table
	tbl *table
	sh  *shard
	q   RowQuery
	err error

	it     *pebble.Iterator // over rows
	headIt *pebble.Iterator // over heads, when the table has any
	head   headCursor
	heads  bool

	slices    []suffixRange
	sliceBuf  []byte
	first     []suffixRange // of the first partition of a range scan
	firstKey  Key
	cur       []suffixRange // of this partition
	si        int           // slice being read
	inSlice   bool          // the iterator stands in it
	done      bool          // the partition's rows are exhausted
	pending   bool          // row is found but not returned yet
	ranged    bool          // over partitions
	started   bool
	atNext    bool // the iterator stands on the first row of the partition
	lastShard int
	rng       TokenRange
	rangeLo   []byte
	rangeHi   []byte
	headAt    bool // the heads' iterator stands on, or past, a head that was looked for

	key     []byte // scratch for seeks
	key2    []byte
	prefix  []byte // the partition's row prefix
	k       Key
	comps   [][]byte
	arena   []byte // of comps
	compBuf []byte

	span     *span // next usable one; valid when spanSet
	spanSet  bool
	hasSpans bool

	row       Row
	static    Row
	staticBuf []byte
	hasStatic bool

	steps     int
	deadRun   int64
	deadFirst []byte
	deadLast  []byte
	lastRow   []byte // suffix of the row at which a deadline struck
}

// Partition reads one partition.
func (v *View) Partition(t *schema.Table, k Key, q RowQuery) *Rows {
	r := v.newRows(t)
	r.reset(q)
	r.k = k
	r.sh = v.s.shards[v.s.shardOf(k.Token)]
	r.prefix = appendPartition(r.prefix[:0], t.PhysID, familyRow, k)
	if len(t.Clustering) == 0 && q.Slices == nil {
		r.slices = append(r.slices[:0], soleRow...)
	} else {
		r.slices, r.err = r.encodeSlices(r.slices[:0], q.Slices)
	}
	r.cur = r.slices
	return r
}

func (r *Rows) reset(q RowQuery) {
	r.q, r.err = q, nil
	r.it, r.headIt, r.heads = nil, nil, false
	r.head.none()
	r.first, r.si, r.inSlice, r.done, r.pending = nil, 0, false, false, false
	r.ranged, r.started, r.atNext, r.hasStatic = false, false, false, false
	r.span, r.spanSet, r.hasSpans = nil, false, false
	r.sliceBuf, r.comps = r.sliceBuf[:0], r.comps[:0]
	r.steps, r.deadRun, r.lastRow = 0, 0, nil
	r.row.t, r.row.now, r.row.lossy = r.t, r.v.o.NowSec, r.tbl.isLossy(r.t)
	r.static.t, r.static.now, r.static.lossy = r.t, r.v.o.NowSec, r.row.lossy
}

// encodeSlices puts slices into key form; with Reverse the last comes first.
func (r *Rows) encodeSlices(dst []suffixRange, in []Slice) ([]suffixRange, error) {
	if in == nil {
		return append(dst, allRows...), nil
	}
	for i := range in {
		sl := &in[i]
		var x suffixRange
		from := len(r.sliceBuf)
		var err error
		if r.sliceBuf, err = appendStart(r.sliceBuf, r.t, sl.Start); err != nil {
			return dst, err
		}
		mid := len(r.sliceBuf)
		if r.sliceBuf, err = appendEnd(r.sliceBuf, r.t, sl.End); err != nil {
			return dst, err
		}
		x.lo, x.hi = r.sliceBuf[from:mid:mid], r.sliceBuf[mid:len(r.sliceBuf):len(r.sliceBuf)]
		x.point = sl.Start.Inclusive && sl.End.Inclusive && len(sl.Start.Prefix) == len(r.t.Clustering) &&
			len(x.hi) == len(x.lo)+1 && bytes.Equal(x.lo, x.hi[:len(x.lo)]) && len(r.t.Clustering) > 0
		if bytes.Compare(x.lo, x.hi) < 0 {
			dst = append(dst, x)
		}
	}
	if r.q.Reverse {
		slices.Reverse(dst)
	}
	return dst, nil
}

func (r *Rows) fail(err error) bool {
	if r.err == nil {
		r.err = err
	}
	return false
}

// open takes the iterators for the rows of a shard.
func (r *Rows) open() bool {
	it, err := r.v.take(r.sh)
	if err != nil {
		return r.fail(err)
	}
	r.it = it
	part := &r.tbl.parts[r.sh.idx]
	r.v.s.step(sharedHeads, false)
	r.v.s.step(sharedBusy, false)
	// Both are read after the view's state is fixed: deletions and cuts in it
	// were announced before they were committed.
	r.heads = part.heads.Load()
	r.hasSpans = part.spans.n.Load() != 0
	r.spanSet = false
	return true
}

// NextPartition goes to the next partition that is not empty (skipping what is left of this one).
func (r *Rows) NextPartition() bool {
	if r.err != nil {
		return false
	}
	if r.ranged {
		return r.nextInRange()
	}
	if r.started {
		return false
	}
	r.started = true
	if !r.open() {
		return false
	}
	if r.heads && !r.loadHead() {
		return false
	}
	if r.v.o.TrackNewest && !r.noteHead() {
		return false
	}
	r.key = append(append(r.key[:0], r.prefix...), suffixEnd)
	r.it.SetBounds(r.prefix, r.key)
	if !r.readStatic() {
		return false
	}
	return r.beginPartition()
}

// loadHead reads the partition's head; an iterator of its own is kept only
// for a head with range deletions.
func (r *Rows) loadHead() bool {
	if r.headIt == nil {
		it, err := r.v.take(r.sh)
		if err != nil {
			return r.fail(err)
		}
		r.headIt = it
	}
	r.key = append(append(r.key[:0], r.prefix...), suffixEnd, 0)
	r.key[tablePrefixBytes-1] = familyHead
	r.key2 = append(r.key2[:0], r.prefix...)
	r.key2[tablePrefixBytes-1] = familyHead
	r.headIt.SetBounds(r.key2, r.key)
	if err := r.head.reset(r.headIt, r.prefix, r.v.o.Stats); err != nil {
		return r.fail(err)
	}
	return true
}

// noteHead takes the head's deletions that cover the single rows asked for into
// NewestTimestamp: they shadow rows of which nothing else is left.
func (r *Rows) noteHead() bool {
	st := r.v.o.Stats
	st.NewestTimestamp = max(st.NewestTimestamp, r.head.part)
	for i := range r.cur {
		if !r.cur[i].point {
			continue
		}
		del, err := r.head.at(r.cur[i].lo)
		if err != nil {
			return r.fail(err)
		}
		st.NewestTimestamp = max(st.NewestTimestamp, del)
	}
	return true
}

// readStatic reads the static row by a seek, where the table may have one.
func (r *Rows) readStatic() bool {
	r.hasStatic = false
	if r.q.NoStatic || len(r.t.Static) == 0 {
		return true
	}
	r.key = append(append(r.key[:0], r.prefix...), suffixStatic)
	if !r.it.SeekGE(r.key) {
		return r.it.Error() == nil || r.fail(r.it.Error())
	}
	if !bytes.Equal(r.it.Key(), r.key) {
		return true
	}
	return r.takeStatic()
}

// takeStatic keeps a copy of the static row at the iterator.
func (r *Rows) takeStatic() bool {
	v, err := r.it.ValueAndErr()
	if err != nil {
		return r.fail(err)
	}
	r.staticBuf = append(append(r.staticBuf[:0], suffixStatic), v...)
	live, ok := r.load(&r.static, r.staticBuf[:1], r.staticBuf[1:])
	r.hasStatic = live
	return ok
}

// beginPartition looks for the first live row unless the static row already
// shows that the partition is not empty.
func (r *Rows) beginPartition() bool {
	r.si, r.inSlice, r.done, r.pending = 0, false, false, false
	r.comps = r.comps[:0]
	if r.hasStatic && r.q.StaticOnly {
		r.done = true
	}
	if !r.hasStatic {
		if !r.advance() {
			return false
		}
		r.pending = !r.q.StaticOnly
		r.done = r.q.StaticOnly
	}
	r.v.o.Stats.Partitions++
	return true
}

// Next goes to the next live row of the partition.
func (r *Rows) Next() bool {
	if r.err != nil || r.done {
		return false
	}
	if r.pending {
		r.pending = false
	} else if !r.advance() {
		return false
	}
	r.v.o.Stats.Rows++
	return true
}

// advance moves the iterator to the partition's next live row.
func (r *Rows) advance() bool {
	for r.si < len(r.cur) {
		sl := &r.cur[r.si]
		valid := r.move(sl)
		for valid {
			suffix, in := r.within(sl)
			if !in {
				break
			}
			if r.hasSpans && !(sl.point && r.v.o.TrackNewest) {
				jumped, ok := r.jump(sl)
				if !ok {
					return false
				}
				if jumped {
					valid = r.it.Valid()
					continue
				}
			}
			v, err := r.it.ValueAndErr()
			if err != nil {
				return r.fail(err)
			}
			live, ok := r.load(&r.row, suffix, v)
			if !ok {
				return false
			}
			if live {
				return r.row.hdr.flags&rowHasExtras == 0 || r.underLimit(suffix)
			}
			r.noteDead()
			if !r.mayGoOn(suffix) {
				return false
			}
			if sl.point {
				break
			}
			valid = r.step()
		}
		if !valid {
			if err := r.it.Error(); err != nil {
				return r.fail(err)
			}
		}
		r.si++
		r.inSlice = false
	}
	r.done = true
	return false
}

// move goes to the next row of a slice, or to its first one.
func (r *Rows) move(sl *suffixRange) bool {
	if r.inSlice {
		if sl.point {
			return false
		}
		return r.step()
	}
	r.inSlice = true
	r.spanSet = false
	if r.atRow(sl) {
		r.atNext = false
		return true
	}
	r.atNext = false
	if sl.point {
		r.key = append(append(r.key[:0], r.prefix...), sl.lo...)
		return r.it.SeekPrefixGE(r.key)
	}
	if r.q.Reverse {
		r.key = append(append(r.key[:0], r.prefix...), sl.hi...)
		return r.it.SeekLT(r.key)
	}
	r.key = append(append(r.key[:0], r.prefix...), sl.lo...)
	return r.it.SeekGE(r.key)
}

// atRow reports that a range scan already stands on the first row of a slice
// over all rows, so that small partitions need no seek.
func (r *Rows) atRow(sl *suffixRange) bool {
	return r.ranged && r.atNext && !r.q.Reverse && len(sl.lo) == 1 && sl.lo[0] == suffixFirst && r.it.Valid()
}

func (r *Rows) step() bool {
	if r.q.Reverse {
		return r.it.Prev()
	}
	return r.it.Next()
}

// within returns the suffix of the row at the iterator if it is in the slice.
func (r *Rows) within(sl *suffixRange) ([]byte, bool) {
	key := r.it.Key()
	n := len(r.prefix)
	if len(key) <= n || !bytes.Equal(key[:n], r.prefix) {
		return nil, false
	}
	suffix := key[n:]
	if r.q.Reverse {
		return suffix, bytes.Compare(suffix, sl.lo) >= 0
	}
	return suffix, bytes.Compare(suffix, sl.hi) < 0
}

// jump passes a dead span that holds the row at the iterator.
func (r *Rows) jump(sl *suffixRange) (jumped, ok bool) {
	key := r.it.Key()
	spans := &r.tbl.parts[r.sh.idx].spans
	epoch := r.v.shards[r.sh.idx].epoch
	if r.q.Reverse {
		if !r.spanSet || (r.span != nil && alias(key) < r.span.lo) {
			r.span, r.spanSet = spans.prev(key, epoch, r.v.o.NowSec), true
		}
	} else if !r.spanSet || (r.span != nil && alias(key) >= r.span.hi) {
		r.span, r.spanSet = spans.next(key, epoch, r.v.o.NowSec), true
	}
	x := r.span
	if x == nil || alias(key) < x.lo || alias(key) >= x.hi {
		return false, true
	}
	share, use := r.shareOf(x, sl)
	if !use {
		return false, true
	}
	st := r.v.o.Stats
	if share == 1 {
		st.Jumped += x.rows
		st.JumpTombs += x.tombs
	} else {
		st.Jumped += max(1, int64(share*float64(x.rows)))
		st.JumpTombs += int64(share * float64(x.tombs))
	}
	st.Spans++
	if r.v.o.CountAll && !r.underLimit(key[len(r.prefix):]) {
		return false, false
	}
	r.noteRunEnd()
	if r.q.Reverse {
		r.key = append(r.key[:0], x.lo...)
		r.it.SeekLT(r.key)
	} else {
		r.key = append(r.key[:0], x.hi...)
		r.it.SeekGE(r.key)
	}
	return true, true
}

// shareOf says what part of a span the read would walk. Where every tombstone
// must be counted exactly, a span of which that is not known is walked.
func (r *Rows) shareOf(x *span, sl *suffixRange) (share float64, use bool) {
	from, to := r.rangeLo, r.rangeHi
	if !r.ranged || len(r.cur) != 1 || sl.lo[0] != suffixFirst || sl.hi[0] != suffixEnd {
		r.key = append(append(r.key[:0], r.prefix...), sl.lo...)
		r.key2 = append(append(r.key2[:0], r.prefix...), sl.hi...)
		from, to = r.key, r.key2
	}
	if alias(from) <= x.lo && x.hi <= alias(to) {
		return 1, !r.v.o.CountAll || !x.estimated
	}
	if r.v.o.CountAll {
		return 0, false
	}
	lo, hi := max(x.lo, string(from)), min(x.hi, string(to))
	return fraction(x.lo, hi, x.hi) - fraction(x.lo, lo, x.hi), true
}

// load decodes a row as far as it takes to tell whether it is live, and counts tombstones.
func (r *Rows) load(row *Row, suffix, v []byte) (live, ok bool) {
	cells, ok := decodeHeader(v, &row.hdr)
	if !ok {
		return false, r.fail(fmt.Errorf("%w at key %x", errRowShape, r.it.Key()))
	}
	row.set(suffix, cells)
	row.del = noDeletion
	if r.heads {
		var err error
		if row.del, err = r.head.at(suffix); err != nil {
			return false, r.fail(err)
		}
	}
	st := r.v.o.Stats
	st.BytesRead += int64(len(v))
	if r.v.o.TrackNewest {
		if newest, ok := row.newest(); ok {
			st.NewestTimestamp = max(st.NewestTimestamp, newest)
		}
	}
	live = row.hdr.markerLive(row.del, row.now)
	if live && row.hdr.flags&rowHasExtras == 0 {
		return true, true
	}
	dead := int64(0)
	dropped := r.t.HasDropped()
	var c cell
	for rest := cells; len(rest) > 0; {
		if rest, ok = nextCell(rest, row.hdr.base, &c); !ok {
			return false, r.fail(fmt.Errorf("%w at key %x", errRowShape, r.it.Key()))
		}
		switch {
		case c.col == keyColumn || c.ts <= row.del || c.flags&cellClear != 0:
		case dropped && r.t.Gone(c.col, c.ts):
		case c.dead(row.del, row.now):
			dead++
		default:
			live = true
			if row.hdr.flags&rowHasExtras == 0 {
				return true, true
			}
		}
	}
	if !live && dead == 0 && row.hdr.deadByItself(row.del, row.now) {
		dead = 1
	}
	st.Walked += dead
	return live, true
}

// deadByItself reports a row deletion or an expired marker that the
// partition's head does not cover.
func (h *rowHeader) deadByItself(del, now int64) bool {
	return (h.flags&rowHasDeletion != 0 && h.delTS > del) ||
		(h.flags&rowMarkerTTL != 0 && h.base > del && now >= h.markerExpiry)
}

// mayGoOn checks limits after a dead row.
func (r *Rows) mayGoOn(suffix []byte) bool {
	if !r.underLimit(suffix) {
		return false
	}
	if r.steps++; r.steps&127 == 0 && !r.v.o.Deadline.IsZero() && !time.Now().Before(r.v.o.Deadline) {
		r.lastRow = bytes.Clone(suffix)
		return r.fail(ErrDeadline)
	}
	return true
}

func (r *Rows) underLimit(suffix []byte) bool {
	limit := r.v.o.FailAfter
	if limit <= 0 {
		return true
	}
	st := r.v.o.Stats
	n := st.Walked
	if r.v.o.CountAll {
		n += st.JumpTombs
	}
	if n <= limit {
		return true
	}
	row, _, _ := decodeSuffix(nil, nil, r.t, suffix)
	k := r.Key().Clone()
	st.LastKey = describeRow(r.t, k, row)
	return r.fail(&TombstoneError{Count: limit + 1, Token: k.Token, LastRow: row, LastKey: k})
}

// noteDead remembers the run of dead rows that the read walks, for a span over it.
func (r *Rows) noteDead() {
	if r.deadRun == 0 {
		r.deadFirst = append(r.deadFirst[:0], r.it.Key()...)
	}
	r.deadRun++
	if r.deadRun >= deadRowsWalked {
		r.deadLast = append(r.deadLast[:0], r.it.Key()...)
	}
}

// noteRunEnd hands what was walked so far to the background.
func (r *Rows) noteRunEnd() {
	if r.deadRun >= deadRowsWalked {
		lo, hi := r.deadFirst, r.deadLast
		if bytes.Compare(lo, hi) > 0 {
			lo, hi = hi, lo
		}
		prefix := 0
		if bytes.HasPrefix(lo, r.prefix) && bytes.HasPrefix(hi, r.prefix) {
			prefix = len(r.prefix)
		}
		r.v.s.walked(r.sh, r.tbl, lo, hi, prefix, r.deadRun)
	}
	r.deadRun = 0
}

// Key is the current partition's.
func (r *Rows) Key() Key { return r.k }

// KeyComponents are the current partition's key components in binary form.
func (r *Rows) KeyComponents() [][]byte {
	if len(r.comps) == 0 {
		r.arena = r.arena[:0]
		rest := r.k.enc
		for i, c := range r.t.PartitionKey {
			from := len(r.arena)
			v, left, err := cqltype.DecodeKey(r.arena, c.Type, rest, false)
			if err != nil {
				r.fail(fmt.Errorf("partition key column %s: %w", c.Name, err))
				return make([][]byte, len(r.t.PartitionKey))
			}
			rest, r.arena = left, v
			comp := v[from:len(v):len(v)]
			if r.row.lossy {
				if kept := r.keptKey(keyPathPartition | uint16(i)); kept != nil {
					comp = bytes.Clone(kept)
				}
			}
			r.comps = append(r.comps, comp)
		}
	}
	return r.comps
}

func (r *Rows) keptKey(i uint16) []byte {
	if r.hasStatic {
		if v := r.static.keptComponent(i); v != nil {
			return v
		}
	}
	if r.row.cells != nil {
		return r.row.keptComponent(i)
	}
	return nil
}

// Static is the partition's static row; nil when it holds nothing live.
func (r *Rows) Static() *Row {
	if !r.hasStatic {
		return nil
	}
	return &r.static
}

// Row is the current row.
func (r *Rows) Row() *Row { return &r.row }

// Err is the error that ended iteration, if any.
func (r *Rows) Err() error { return r.err }

// Position is where iteration stopped (after ErrDeadline): the partition, and the
// clustering of the last row passed, nil when none was.
func (r *Rows) Position() (Key, [][]byte, bool) {
	if len(r.lastRow) == 0 {
		return r.k.Clone(), nil, r.started
	}
	row, _, err := decodeSuffix(nil, nil, r.t, r.lastRow)
	return r.k.Clone(), row, err == nil
}

// Close releases the iterator and returns Err.
func (r *Rows) Close() error {
	if r.v == nil {
		return nil
	}
	if r.sh != nil {
		r.noteRunEnd()
	}
	v, err := r.v, r.err
	r.release()
	r.v, r.sh, r.row.cells, r.row.suffix = nil, nil, nil, nil
	v.rows = append(v.rows, r)
	return err
}

func (r *Rows) release() {
	if r.it != nil {
		r.v.give(r.sh, r.it)
		r.it = nil
	}
	if r.headIt != nil {
		r.v.give(r.sh, r.headIt)
		r.headIt = nil
	}
}
