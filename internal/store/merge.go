package store

import (
	"bytes"
	"cmp"
	"io"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// mergerName is stored in every Pebble instance and may never change: what
// changes is the version in a row's first byte.
const mergerName = "varve.row.v1"

// opaque begins a value in which some merge operand was not understood. It
// holds, each behind its length, the merged row of all operands that were
// (possibly empty), then the others, sorted and each once. Nothing is lost, a
// compaction never fails, and a binary that knows the operands can still merge them.
const opaque = 0xfe

// goneForGood are the flags of a counter's tombstone.
const goneForGood = cellCounter | cellTomb

// compareCells orders two versions of one cell; the greater one survives. The
// rules are those of Cassandra's Cells.reconcile: newer timestamp; at equal
// ones a tombstone or expiring cell beats a plain one, a tombstone an expiring
// one, then the later local deletion time, the smaller TTL, the larger value.
// A counter's tombstone beats every other version of it (CASSANDRA-7346).
func compareCells(a, b *cell) int {
	if (a.flags|b.flags)&cellCounter != 0 {
		x, y := a.flags&goneForGood == goneForGood, b.flags&goneForGood == goneForGood
		if x != y {
			if x {
				return 1
			}
			return -1
		}
	}
	if a.ts != b.ts {
		return cmp.Compare(a.ts, b.ts)
	}
	if x, y := cellRank(a.flags), cellRank(b.flags); x != y {
		return cmp.Compare(x, y)
	}
	if a.ldt != b.ldt {
		return cmp.Compare(a.ldt, b.ldt)
	}
	if a.ttl != b.ttl {
		return cmp.Compare(b.ttl, a.ttl)
	}
	if c := bytes.Compare(a.value, b.value); c != 0 {
		return c
	}
	return cmp.Compare(a.flags&^cellTS, b.flags&^cellTS)
}

func cellRank(flags byte) int {
	switch {
	case flags&(cellTomb|cellClear) != 0:
		return 2
	case flags&cellExpiring != 0:
		return 1
	}
	return 0
}

// compareMarkers orders two row markers as LivenessInfo.supersedes does.
func compareMarkers(a, b *rowHeader) int {
	if a.base != b.base {
		return cmp.Compare(a.base, b.base)
	}
	if x, y := a.flags&rowMarkerTTL, b.flags&rowMarkerTTL; x != y {
		return cmp.Compare(x, y)
	}
	if a.markerExpiry != b.markerExpiry {
		return cmp.Compare(a.markerExpiry, b.markerExpiry)
	}
	return cmp.Compare(b.markerTTL, a.markerTTL)
}

// mergeHeaders reconciles markers and row deletions; the result has no base
// of its own unless the marker survives.
func mergeHeaders(a, b *rowHeader) rowHeader {
	out := rowHeader{flags: rowVersion, delTS: noDeletion}
	d := a
	if (b.flags&rowHasDeletion != 0) && (a.flags&rowHasDeletion == 0 ||
		b.delTS > a.delTS || (b.delTS == a.delTS && b.delLDT > a.delLDT)) {
		d = b
	}
	if d.flags&rowHasDeletion != 0 {
		out.flags |= rowHasDeletion
		out.delTS, out.delLDT = d.delTS, d.delLDT
	}
	m := a
	if b.hasMarker() && (!a.hasMarker() || compareMarkers(b, a) > 0) {
		m = b
	}
	if m.hasMarker() && (out.flags&rowHasDeletion == 0 || m.base > out.delTS) {
		out.flags |= rowHasBase | rowHasMarker | m.flags&rowMarkerTTL
		out.base, out.markerTTL, out.markerExpiry = m.base, m.markerTTL, m.markerExpiry
	}
	return out
}

// rowWriter writes cells, in order, behind a header, dropping those that the
// row's or their column's deletion covers.
type rowWriter struct {
	dst      []byte
	start    int
	hdr      rowHeader
	started  bool // header written
	extras   bool
	clearCol int32
	clearTS  int64
}

func (w *rowWriter) begin(dst []byte, hdr rowHeader) {
	*w = rowWriter{dst: dst, start: len(dst), hdr: hdr, clearCol: -1}
}

func (w *rowWriter) add(c *cell) {
	if c.col != keyColumn {
		// A counter's tombstone stays: it may have to beat versions that are newer than the deletion.
		if w.hdr.flags&rowHasDeletion != 0 && c.ts <= w.hdr.delTS && c.flags&goneForGood != goneForGood {
			return
		}
		if c.flags&cellClear != 0 {
			w.clearCol, w.clearTS = int32(c.col), c.ts
		} else if w.clearCol == int32(c.col) && c.ts <= w.clearTS {
			return
		}
		w.extras = w.extras || c.flags&cellExtras != 0
	}
	if !w.started {
		w.started = true
		if w.hdr.flags&rowHasBase == 0 {
			w.hdr.flags |= rowHasBase
			w.hdr.base = c.ts
		}
		w.dst = appendHeader(w.dst, &w.hdr)
	}
	w.dst = appendCell(w.dst, c, w.hdr.base)
}

func (w *rowWriter) end() []byte {
	if !w.started {
		w.dst = appendHeader(w.dst, &w.hdr)
	}
	if w.extras {
		w.dst[w.start] |= rowHasExtras
	}
	return w.dst
}

// mergeRows appends the reconciliation of two rows to dst; ok is false (and
// dst as it was) when one of them is not a well-formed row.
func mergeRows(dst, a, b []byte) (out []byte, ok bool) {
	var ha, hb rowHeader
	ra, ok := decodeHeader(a, &ha)
	if !ok {
		return dst, false
	}
	rb, ok := decodeHeader(b, &hb)
	if !ok {
		return dst, false
	}
	var w rowWriter
	w.begin(dst, mergeHeaders(&ha, &hb))
	var ca, cb cell
	haveA, haveB := false, false
	for {
		if !haveA && len(ra) > 0 {
			if ra, ok = nextCell(ra, ha.base, &ca); !ok {
				return dst, false
			}
			haveA = true
		}
		if !haveB && len(rb) > 0 {
			if rb, ok = nextCell(rb, hb.base, &cb); !ok {
				return dst, false
			}
			haveB = true
		}
		switch {
		case !haveA && !haveB:
			return w.end(), true
		case !haveB:
			w.add(&ca)
			haveA = false
		case !haveA:
			w.add(&cb)
			haveB = false
		default:
			c := comparePlace(&ca, &cb)
			if c == 0 {
				if compareCells(&ca, &cb) >= 0 {
					w.add(&ca)
				} else {
					w.add(&cb)
				}
				haveA, haveB = false, false
			} else if c < 0 {
				w.add(&ca)
				haveA = false
			} else {
				w.add(&cb)
				haveB = false
			}
		}
	}
}

// mergeValues is mergeRows for any bytes.
func mergeValues(dst, a, b []byte) []byte {
	if out, ok := mergeRows(dst, a, b); ok {
		return out
	}
	var row []byte
	var blobs [][]byte
	for _, v := range [][]byte{a, b} {
		r, others := opaqueParts(v)
		blobs = append(blobs, others...)
		if len(r) == 0 {
			continue
		}
		if row == nil {
			row = r
		} else if m, ok := mergeRows(nil, row, r); ok {
			row = m
		}
	}
	slices.SortFunc(blobs, bytes.Compare)
	blobs = slices.CompactFunc(blobs, bytes.Equal)
	dst = appendBytes(append(dst, opaque), row)
	for _, o := range blobs {
		dst = appendBytes(dst, o)
	}
	return dst
}

// opaqueParts takes a value apart into its understood row and what is not understood.
func opaqueParts(v []byte) (row []byte, blobs [][]byte) {
	if wellFormed(v) {
		return v, nil
	}
	if len(v) == 0 || v[0] != opaque {
		return nil, [][]byte{v}
	}
	row, rest, ok := cutBytes(v[1:])
	if !ok || (len(row) > 0 && !wellFormed(row)) {
		return nil, [][]byte{v}
	}
	for len(rest) > 0 {
		var o []byte
		if o, rest, ok = cutBytes(rest); !ok {
			return nil, [][]byte{v}
		}
		blobs = append(blobs, o)
	}
	return row, blobs
}

const (
	// hotOperands is how many operands a read may merge before the row is folded.
	hotOperands       = 64
	maxPooledMergeCap = 64 << 10
)

// rowMerger is Pebble's ValueMerger over rows. Slot i holds the merger of 2^i
// operands, so that the work is n log n bytes however many operands there are.
type rowMerger struct {
	hot   func(key []byte)
	n     int
	key   []byte
	slots [][]byte
	used  []bool
	spare []byte
}

var rowMergers = sync.Pool{New: func() any { return new(rowMerger) }}

// newMerger is a store's merge operator; hot is told of keys with many operands.
func newMerger(hot func(key []byte)) *pebble.Merger {
	return &pebble.Merger{
		Name: mergerName,
		Merge: func(key, value []byte) (pebble.ValueMerger, error) {
			m := rowMergers.Get().(*rowMerger)
			m.hot = hot
			m.key = append(m.key[:0], key...)
			m.n = 0
			m.add(value)
			return m, nil
		},
	}
}

// MergeNewer implements pebble.ValueMerger; order does not matter.
func (m *rowMerger) MergeNewer(value []byte) error {
	m.add(value)
	return nil
}

// MergeOlder implements pebble.ValueMerger.
func (m *rowMerger) MergeOlder(value []byte) error {
	m.add(value)
	return nil
}

func (m *rowMerger) add(value []byte) {
	m.n++
	carry := append(m.spare[:0], value...)
	m.spare = nil
	for i := 0; ; i++ {
		if i == len(m.slots) {
			m.slots = append(m.slots, nil)
			m.used = append(m.used, false)
		}
		if !m.used[i] {
			m.spare, m.slots[i] = m.slots[i], carry
			m.used[i] = true
			return
		}
		m.used[i] = false
		// The next slot's own buffer, when it is free, takes the result.
		var out []byte
		if i+1 < len(m.slots) && !m.used[i+1] {
			out = m.slots[i+1]
			m.slots[i+1] = nil
		}
		out = mergeValues(out[:0], m.slots[i], carry)
		carry = out
	}
}

// Finish implements pebble.ValueMerger. The result is valid until the closer
// (the merger itself, which goes back to its pool) is closed.
func (m *rowMerger) Finish(bool) ([]byte, io.Closer, error) {
	if m.n > hotOperands && m.hot != nil {
		m.hot(m.key)
	}
	var acc []byte
	for i, s := range m.slots {
		if !m.used[i] {
			continue
		}
		if acc == nil {
			acc = s
		} else {
			acc = mergeValues(nil, s, acc)
		}
	}
	return acc, m, nil
}

// Close implements io.Closer.
func (m *rowMerger) Close() error {
	for i, s := range m.slots {
		m.used[i] = false
		if cap(s) > maxPooledMergeCap {
			m.slots[i] = nil
		}
	}
	if cap(m.spare) > maxPooledMergeCap {
		m.spare = nil
	}
	m.hot = nil
	rowMergers.Put(m)
	return nil
}

// mergeInto is mergeValues for callers that hold no merger: acc nil means nothing yet.
func mergeInto(acc, value []byte) []byte {
	if acc == nil {
		return append([]byte(nil), value...)
	}
	return mergeValues(nil, acc, value)
}
