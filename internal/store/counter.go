package store

import (
	"encoding/binary"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// counterWriter turns increments into totals. A counter's cell holds its total
// and the server's time of the last increment, later than the one before; a
// row with counters is written whole, so that no operands pile up.
//
// The rules are Cassandra's: no client timestamps; a counter column that was
// deleted is gone for good (its tombstone beats any increment); after a row,
// range or partition deletion, of the column's tombstone too, counting starts
// again at zero. All of a batch has one time, at which deletions beat
// increments: what a row, range or partition deletion in it covers is not counted.
type counterWriter struct {
	sh    *shard
	rows  []counterRow
	index map[string]int // of rows by key, once there are many
}

// manyCounters is from how many rows on they are found by a map.
const manyCounters = 16

type counterRow struct {
	key   []byte
	value []byte
}

// find returns the position of a row that is being written, or -1.
func (w *counterWriter) find(key []byte) int {
	if w.index == nil {
		return slices.IndexFunc(w.rows, func(r counterRow) bool { return string(r.key) == string(key) })
	}
	if i, ok := w.index[alias(key)]; ok {
		return i
	}
	return -1
}

// row returns the position of a row, which is read when it is new.
func (w *counterWriter) row(key []byte) (int, error) {
	if i := w.find(key); i >= 0 {
		return i, nil
	}
	old, err := w.sh.get(key)
	if err != nil {
		return 0, err
	}
	w.rows = append(w.rows, counterRow{key: key, value: old})
	n := len(w.rows)
	if n == manyCounters {
		w.index = make(map[string]int, 2*manyCounters)
		for i, r := range w.rows {
			w.index[string(r.key)] = i
		}
	} else if w.index != nil {
		w.index[string(key)] = n - 1
	}
	return n - 1, nil
}

// fill applies the changes of the batch to the rows; ranges are its range deletions.
func (w *counterWriter) fill(b *Batch, ranges *rangeWriter) error {
	gone := w.deleted(b)
	var head []byte
	for i := range b.ops {
		o := &b.ops[i]
		if int(o.shard) != w.sh.idx || !o.isRow() {
			continue
		}
		if o.kind == opRow && w.find(b.buf[o.key:o.keyEnd]) < 0 {
			continue
		}
		_, covered := gone[string(b.buf[o.key:o.keyEnd])]
		if !covered && (gone != nil || ranges != nil) {
			head = append(head[:0], b.buf[o.key:o.preEnd]...)
			head[tablePrefixBytes-1] = familyHead
			_, covered = gone[string(head)]
			covered = covered || (ranges != nil && ranges.covers(head, b.buf[o.preEnd:o.keyEnd]))
		}
		if o.kind == opCounter && covered {
			continue
		}
		if err := w.add(b, o); err != nil {
			return err
		}
	}
	return nil
}

// deleted returns the keys of the rows, and of the heads of the partitions, that
// the batch deletes.
func (w *counterWriter) deleted(b *Batch) map[string]struct{} {
	var gone map[string]struct{}
	for i := range b.ops {
		o := &b.ops[i]
		if int(o.shard) != w.sh.idx {
			continue
		}
		if o.kind == opRow {
			var h rowHeader
			if _, ok := decodeHeader(b.buf[o.val:o.valEnd], &h); !ok || h.flags&rowHasDeletion == 0 {
				continue
			}
		} else if o.kind != opPartition {
			continue
		}
		if gone == nil {
			gone = map[string]struct{}{}
		}
		gone[string(b.buf[o.key:o.keyEnd])] = struct{}{}
	}
	return gone
}

// add applies a change to a counter row, in the order of the batch: a deletion
// in it too, which would be lost beside the row's new value.
func (w *counterWriter) add(b *Batch, o *op) error {
	i, err := w.row(b.buf[o.key:o.keyEnd])
	if err != nil {
		return err
	}
	key := w.rows[i].key
	del, err := w.sh.deletionAt(o.tbl, key, o.preEnd-o.key)
	if err != nil {
		return err
	}
	now := w.sh.s.opts.Clock().UnixMicro()
	merged, err := addCounters(w.rows[i].value, b.buf[o.val:o.valEnd], del, now)
	if err != nil {
		return err
	}
	w.rows[i].value = merged
	return nil
}

// addCounters applies a fragment with increments to a row's value.
func addCounters(old, fragment []byte, del, now int64) ([]byte, error) {
	var h rowHeader
	rest, ok := decodeHeader(fragment, &h)
	if !ok {
		return nil, errRowShape
	}
	acc := old
	if h.flags&rowHasDeletion != 0 {
		var w rowWriter
		w.begin(nil, rowHeader{flags: rowVersion | rowHasDeletion, delTS: h.delTS, delLDT: h.delLDT})
		acc = mergeInto(acc, w.end())
	}
	for len(rest) > 0 {
		var c cell
		if rest, ok = nextCell(rest, h.base, &c); !ok {
			return nil, errRowShape
		}
		var err error
		if c.flags&cellDelta != 0 {
			acc, err = increment(acc, c.col, binary.BigEndian.Uint64(c.value), del, now)
		} else {
			var w rowWriter
			w.begin(nil, rowHeader{flags: rowVersion, delTS: noDeletion})
			w.add(&c)
			acc = mergeInto(acc, w.end())
		}
		if err != nil {
			return nil, err
		}
	}
	return acc, nil
}

// increment adds to one counter of a row.
func increment(row []byte, col uint16, delta uint64, del, now int64) ([]byte, error) {
	var hdr rowHeader
	var cells []byte
	if row != nil {
		var ok bool
		if cells, ok = decodeHeader(row, &hdr); !ok {
			return nil, errRowShape
		}
		del = max(del, hdr.delTS)
	}
	next := cell{col: col, flags: cellCounter, ts: now}
	prev, found := findCell(cells, hdr.base, col)
	switch {
	case found && prev.flags&cellTomb != 0 && prev.ts > del:
		return row, nil
	case found && prev.ts > del && len(prev.value) == 8:
		delta += binary.BigEndian.Uint64(prev.value)
		next.ts = max(now, prev.ts+1)
	}
	next.value = binary.BigEndian.AppendUint64(nil, delta)
	var w rowWriter
	if row == nil {
		w.begin(nil, rowHeader{flags: rowVersion, delTS: noDeletion})
		w.add(&next)
		return w.end(), nil
	}
	none := rowHeader{flags: rowVersion, delTS: noDeletion}
	w.begin(nil, mergeHeaders(&hdr, &none))
	put := false
	for rest := cells; len(rest) > 0; {
		var c cell
		var ok bool
		if rest, ok = nextCell(rest, hdr.base, &c); !ok {
			return nil, errRowShape
		}
		if !put && c.col >= col {
			w.add(&next)
			put = true
		}
		if c.col != col {
			w.add(&c)
		}
	}
	if !put {
		w.add(&next)
	}
	return w.end(), nil
}

// findCell looks a simple column's cell up.
func findCell(cells []byte, base int64, col uint16) (c cell, ok bool) {
	for len(cells) > 0 {
		if cells, ok = nextCell(cells, base, &c); !ok || c.col > col {
			return cell{}, false
		}
		if c.col == col {
			return c, true
		}
	}
	return cell{}, false
}

func (w *counterWriter) write(pb *pebble.Batch) error {
	for _, r := range w.rows {
		if r.value == nil {
			continue
		}
		if err := pb.Set(r.key, r.value, nil); err != nil {
			return err
		}
	}
	return nil
}
