package store

import (
	"encoding/binary"
	"slices"

	"varve/internal/cqltype"
	"varve/internal/schema"
)

// RowBuilder adds changes to one row. It encodes them straight into the
// batch's arena; a row whose cells come in order, each once, is not copied again.
type RowBuilder struct {
	b  *Batch
	t  *schema.Table
	k  Key
	op op

	open    bool
	hdr     rowHeader // base is the marker's timestamp once it is set
	base    int64     // what cells were encoded against
	hasBase bool
	cells   int // where the arena's cells begin
	n       int // cells added
	slow    bool
	extras  bool

	last     cell // the last cell's place
	lastPath []byte
	clearCol int32
	clearTS  int64
	entries  []op
}

// Marker sets the row marker (INSERT).
func (r *RowBuilder) Marker(ts int64, ttl int32) {
	r.op.live = true
	h := rowHeader{flags: rowVersion | rowHasBase | rowHasMarker, base: ts}
	if ttl > 0 {
		h.flags |= rowMarkerTTL
		h.markerTTL, h.markerExpiry = ttl, clampSec(r.b.nowSec+int64(ttl))
	}
	if !r.hasBase {
		r.hasBase, r.base = true, ts
	} else if r.base != ts {
		r.slow = true
	}
	if !r.hdr.hasMarker() || compareMarkers(&h, &r.hdr) > 0 {
		flags := r.hdr.flags & rowHasDeletion
		h.delTS, h.delLDT = r.hdr.delTS, r.hdr.delLDT
		r.hdr = h
		r.hdr.flags |= flags
	}
}

// Set writes a simple (single-cell) column.
func (r *RowBuilder) Set(c *schema.Column, ts int64, ttl int32, value []byte) {
	x := cell{col: c.ID, ts: ts, value: value}
	r.expire(&x, ttl)
	r.add(&x)
}

// Unset writes a simple column's tombstone.
func (r *RowBuilder) Unset(c *schema.Column, ts int64) {
	x := cell{col: c.ID, ts: ts, flags: cellTomb, ldt: clampSec(r.b.nowSec)}
	if c.Type.Kind == cqltype.KindCounter {
		x.flags |= cellCounter
	}
	r.add(&x)
}

// SetElement writes one cell of a multi-cell column: path is the list's
// timeuuid, the set's element, the map's key, or the UDT field's index (i16).
func (r *RowBuilder) SetElement(c *schema.Column, path []byte, ts int64, ttl int32, value []byte) {
	x := cell{col: c.ID, ts: ts, flags: cellPath, path: path, value: value}
	r.expire(&x, ttl)
	r.add(&x)
}

// UnsetElement writes one element's tombstone.
func (r *RowBuilder) UnsetElement(c *schema.Column, path []byte, ts int64) {
	r.add(&cell{col: c.ID, ts: ts, flags: cellPath | cellTomb, path: path, ldt: clampSec(r.b.nowSec)})
}

// Clear deletes all elements of a multi-cell column written at or before ts.
// (An overwrite is Clear at ts-1, then SetElement at ts, as in Cassandra.)
func (r *RowBuilder) Clear(c *schema.Column, ts int64) {
	r.add(&cell{col: c.ID, ts: ts, flags: cellClear, ldt: clampSec(r.b.nowSec)})
}

// Delete deletes the row (or the static row's cells) written at or before ts.
func (r *RowBuilder) Delete(ts int64) {
	r.op.kills = true
	if r.hdr.flags&rowHasDeletion == 0 || ts > r.hdr.delTS {
		r.hdr.flags |= rowHasDeletion
		r.hdr.delTS, r.hdr.delLDT = ts, clampSec(r.b.nowSec)
	}
}

// Increment adds to a counter. Apply reads the counter under the partition's exclusive stripe.
func (r *RowBuilder) Increment(c *schema.Column, delta int64) {
	var v [8]byte
	binary.BigEndian.PutUint64(v[:], uint64(delta))
	r.op.kind = opCounter
	r.add(&cell{col: c.ID, flags: cellCounter | cellDelta, value: v[:]})
}

// Index adds an index entry that points from value to this row (static rows:
// to the partition). Entries are hints: they carry no time and a reader checks the row.
func (r *RowBuilder) Index(x *schema.Index, value []byte) { r.b.addIndex(r, x, value) }

func (r *RowBuilder) expire(c *cell, ttl int32) {
	if ttl > 0 {
		c.flags |= cellExpiring
		c.ttl, c.ldt = ttl, clampSec(r.b.nowSec+int64(ttl))
	}
}

func (r *RowBuilder) add(c *cell) {
	if !r.hasBase {
		r.hasBase, r.base = true, c.ts
	}
	if r.n > 0 && comparePlace(&r.last, c) >= 0 {
		r.slow = true
	}
	if c.flags&cellClear != 0 {
		r.clearCol, r.clearTS = int32(c.col), c.ts
	} else if r.clearCol == int32(c.col) && c.ts <= r.clearTS {
		r.slow = true
	}
	if c.col != keyColumn {
		r.extras = r.extras || c.flags&cellExtras != 0
		if c.flags&(cellTomb|cellClear) == 0 {
			r.op.live = true
		}
	}
	r.b.buf = appendCell(r.b.buf, c, r.base)
	r.lastPath = append(r.lastPath[:0], c.path...)
	r.last = cell{col: c.col, flags: c.flags, path: r.lastPath}
	r.n++
}

// keepKey adds the key components that the key form does not give back, so
// that they are returned as they were written.
func (r *RowBuilder) keepKey(clustering [][]byte) {
	for i, v := range r.k.raw {
		if v != nil {
			r.keepComponent(keyPathPartition|uint16(i), v)
		}
	}
	for i, v := range clustering {
		if t := r.t.Clustering[i].Type; cqltype.LossyKey(t) && keyLoses(t, v) {
			r.keepComponent(uint16(i), v)
		}
	}
}

// keyPathPartition marks the paths of partition key components in keyColumn.
const keyPathPartition = 0x8000

func (r *RowBuilder) keepComponent(i uint16, v []byte) {
	live := r.op.live
	r.add(&cell{col: keyColumn, flags: cellPath, path: binary.BigEndian.AppendUint16(nil, i), value: v})
	r.op.live = live
	// The row's own cells come later, and belong before this one.
	r.slow = true
}

// finishRow closes the row being built and adds its changes to the batch.
func (b *Batch) finishRow() {
	r := &b.row
	if !r.open {
		return
	}
	r.open = false
	if r.n > 0 || r.hdr.flags != rowVersion {
		b.encodeRow(r)
		b.ops = append(b.ops, r.op)
	} else {
		b.buf = b.buf[:r.op.key]
	}
	for _, o := range r.entries {
		off := len(b.buf) - o.key
		b.buf = append(b.buf, b.scratch[o.key:o.valEnd]...)
		o.key, o.preEnd, o.keyEnd, o.val, o.valEnd = o.key+off, o.preEnd+off, o.keyEnd+off, o.val+off, o.valEnd+off
		b.ops = append(b.ops, o)
	}
	r.entries, b.scratch = r.entries[:0], b.scratch[:0]
}

func (b *Batch) encodeRow(r *RowBuilder) {
	deletes := r.hdr.flags&rowHasDeletion != 0
	if r.op.kind == opCounter || (!r.slow && !(deletes && (r.n > 0 || r.hdr.hasMarker()))) {
		if r.hasBase {
			r.hdr.flags |= rowHasBase
			r.hdr.base = r.base
		}
		if r.extras {
			r.hdr.flags |= rowHasExtras
		}
		var h [maxHeaderBytes]byte
		enc := appendHeader(h[:0], &r.hdr)
		r.op.val = r.cells - len(enc)
		copy(b.buf[r.op.val:], enc)
		r.op.valEnd = len(b.buf)
		return
	}
	rest := b.buf[r.cells:len(b.buf):len(b.buf)]
	b.cells = b.cells[:0]
	for len(rest) > 0 {
		var c cell
		rest, _ = nextCell(rest, r.base, &c)
		b.cells = append(b.cells, c)
	}
	slices.SortStableFunc(b.cells, func(x, y cell) int { return comparePlace(&x, &y) })
	var none rowHeader
	none.delTS = noDeletion
	var w rowWriter
	w.begin(b.buf, mergeHeaders(&r.hdr, &none))
	for i := 0; i < len(b.cells); {
		best := &b.cells[i]
		for i++; i < len(b.cells) && comparePlace(best, &b.cells[i]) == 0; i++ {
			if compareCells(&b.cells[i], best) > 0 {
				best = &b.cells[i]
			}
		}
		w.add(best)
	}
	r.op.val = len(b.buf)
	b.buf = w.end()
	r.op.valEnd = len(b.buf)
}
