package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"

	"github.com/cockroachdb/pebble/v2"
)

// A partition's head holds its deletion, at the bare prefix and in the form of
// a row that is nothing but deleted, and its range deletions as disjoint
// intervals of suffixes, [lo, hi), each with the newest deletion that covers it.
//
// Intervals lie in chunks that tile the partition. A chunk's key is the prefix
// and the suffix at which it ends, so that the chunk of a suffix is found by a
// single SeekGE; its value is
//
//	u8 1, start (uvarint length and bytes), then for each interval
//	lo, hi (each uvarint length and bytes), i64 little endian timestamp, uvarint local deletion time
//
// See DESIGN.md for why chunks.
const (
	chunkVersion = 1
	chunkMax     = 32 // intervals a chunk may hold
	chunkFill    = 20 // intervals in each part of a chunk that was split
	// manyChunks is from how many on replaced chunks are removed by one range deletion.
	manyChunks = 16
)

var (
	errChunk    = errors.New("malformed range deletions")
	errRowShape = errors.New("malformed row")
)

type interval struct {
	lo, hi []byte
	ts     int64
	ldt    int64
}

func (v *interval) newer(o *interval) bool {
	return v.ts > o.ts || (v.ts == o.ts && v.ldt > o.ldt)
}

// joinInterval appends an interval, joined to the last one where they touch and agree.
func joinInterval(out []interval, v interval) []interval {
	if k := len(out) - 1; k >= 0 && out[k].ts == v.ts && out[k].ldt == v.ldt && bytes.Equal(out[k].hi, v.lo) {
		out[k].hi = v.hi
		return out
	}
	return append(out, v)
}

func maxBytes(a, b []byte) []byte {
	if bytes.Compare(a, b) >= 0 {
		return a
	}
	return b
}

func minBytes(a, b []byte) []byte {
	if bytes.Compare(a, b) <= 0 {
		return a
	}
	return b
}

// decodeChunk appends a chunk's intervals to dst; all alias b.
func decodeChunk(dst []interval, b []byte) (start []byte, list []interval, err error) {
	if len(b) == 0 || b[0] != chunkVersion {
		return nil, dst, errChunk
	}
	start, b, ok := cutBytes(b[1:])
	for ok && len(b) > 0 {
		var v interval
		if v.lo, b, ok = cutBytes(b); !ok {
			break
		}
		if v.hi, b, ok = cutBytes(b); !ok || len(b) < 8 {
			ok = false
			break
		}
		v.ts = int64(binary.LittleEndian.Uint64(b))
		ldt, n := binary.Uvarint(b[8:])
		if n <= 0 {
			ok = false
			break
		}
		v.ldt = int64(ldt)
		b = b[8+n:]
		dst = append(dst, v)
	}
	if !ok {
		return nil, dst, errChunk
	}
	return start, dst, nil
}

func appendChunk(dst, start []byte, list []interval) []byte {
	dst = appendBytes(append(dst, chunkVersion), start)
	for i := range list {
		v := &list[i]
		dst = appendBytes(appendBytes(dst, v.lo), v.hi)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(v.ts))
		dst = binary.AppendUvarint(dst, uint64(v.ldt))
	}
	return dst
}

// mergeIntervals merges two sorted lists of disjoint intervals, in one pass.
func mergeIntervals(a, b []interval) []interval {
	if len(a) == 0 {
		return b
	}
	out := make([]interval, 0, len(a)+2*len(b))
	var x, y interval // what is left of the first of each list
	for {
		if x.hi == nil && len(a) > 0 {
			x, a = a[0], a[1:]
		}
		if y.hi == nil && len(b) > 0 {
			y, b = b[0], b[1:]
		}
		switch {
		case x.hi == nil && y.hi == nil:
			return out
		case y.hi == nil || x.hi != nil && bytes.Compare(x.hi, y.lo) <= 0:
			out = joinInterval(out, x)
			x = interval{}
			continue
		case x.hi == nil || bytes.Compare(y.hi, x.lo) <= 0:
			out = joinInterval(out, y)
			y = interval{}
			continue
		}
		// They overlap: first what only one of them covers, then what both do.
		switch c := bytes.Compare(x.lo, y.lo); {
		case c < 0:
			out = joinInterval(out, interval{x.lo, y.lo, x.ts, x.ldt})
			x.lo = y.lo
		case c > 0:
			out = joinInterval(out, interval{y.lo, x.lo, y.ts, y.ldt})
			y.lo = x.lo
		}
		win, hi := x, minBytes(x.hi, y.hi)
		if y.newer(&x) {
			win = y
		}
		out = joinInterval(out, interval{x.lo, hi, win.ts, win.ldt})
		if x.lo = hi; bytes.Compare(x.hi, hi) <= 0 {
			x = interval{}
		}
		if y.lo = hi; bytes.Compare(y.hi, hi) <= 0 {
			y = interval{}
		}
	}
}

// disjoint merges intervals in any order into a sorted list of disjoint ones,
// in n log n however they overlap.
func disjoint(list []interval) []interval {
	if len(list) < 2 {
		return list
	}
	mid := len(list) / 2
	return mergeIntervals(disjoint(list[:mid:mid]), disjoint(list[mid:]))
}

// rangeWriter adds range deletions to their partitions' chunks. The
// partitions' stripes are held exclusively.
type rangeWriter struct {
	sh     *shard
	ldt    int64
	parts  []partitionRanges
	byPart map[string]int // positions in parts; nil while there is one
}

type partitionRanges struct {
	prefix []byte
	adds   []interval
	sorted bool // adds are sorted and disjoint
}

func (w *rangeWriter) add(b *Batch, o *op) {
	prefix := b.buf[o.key:o.preEnd]
	p := w.part(prefix)
	if p == nil {
		if w.parts = append(w.parts, partitionRanges{prefix: prefix}); len(w.parts) > 1 {
			if w.byPart == nil {
				w.byPart = map[string]int{string(w.parts[0].prefix): 0}
			}
			w.byPart[string(prefix)] = len(w.parts) - 1
		}
		p = &w.parts[len(w.parts)-1]
	}
	p.adds = append(p.adds, interval{b.buf[o.preEnd:o.keyEnd], b.buf[o.val:o.valEnd], o.ts, w.ldt})
	p.sorted = false
}

// part finds what is to be added to a partition.
func (w *rangeWriter) part(prefix []byte) *partitionRanges {
	if w.byPart == nil {
		if len(w.parts) == 0 || !bytes.Equal(w.parts[0].prefix, prefix) {
			return nil
		}
		return &w.parts[0]
	}
	i, ok := w.byPart[alias(prefix)]
	if !ok {
		return nil
	}
	return &w.parts[i]
}

func (p *partitionRanges) sort() {
	if !p.sorted {
		p.adds, p.sorted = disjoint(p.adds), true
	}
}

// covers reports that some range holds the row of a suffix; prefix is the head's.
func (w *rangeWriter) covers(prefix, suffix []byte) bool {
	if suffix[0] == suffixStatic {
		return false
	}
	p := w.part(prefix)
	if p == nil {
		return false
	}
	p.sort()
	k := sort.Search(len(p.adds), func(k int) bool { return bytes.Compare(p.adds[k].hi, suffix) > 0 })
	return k < len(p.adds) && bytes.Compare(p.adds[k].lo, suffix) <= 0
}

func (w *rangeWriter) write(pb *pebble.Batch) error {
	w.sh.rangeOps.Add(int64(len(w.parts)))
	for i := range w.parts {
		w.parts[i].sort()
		if err := w.sh.writeRanges(pb, w.parts[i].prefix, w.parts[i].adds); err != nil {
			return err
		}
	}
	return nil
}

// writeRanges merges sorted disjoint intervals into a partition's chunks.
func (sh *shard) writeRanges(pb *pebble.Batch, prefix []byte, adds []interval) error {
	it, err := sh.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: append(bytes.Clone(prefix), suffixEnd, 0)})
	if err != nil {
		return err
	}
	defer it.Close()
	r := chunkRegion{prefix: prefix, it: it}
	for i := 0; i < len(adds); {
		if err := r.load(adds[i].lo); err != nil {
			return err
		}
		from := i
		for ; i < len(adds) && bytes.Compare(adds[i].lo, r.end) < 0; i++ {
			for bytes.Compare(adds[i].hi, r.end) > 0 {
				if err := r.extend(); err != nil {
					return err
				}
			}
		}
		r.list = mergeIntervals(r.list, adds[from:i])
		if err := r.write(pb); err != nil {
			return err
		}
	}
	return nil
}

// chunkRegion is a run of chunks being rewritten.
type chunkRegion struct {
	prefix  []byte
	it      *pebble.Iterator
	key     []byte
	start   []byte
	end     []byte
	touched [][]byte // ends of the chunks loaded
	list    []interval
}

func (r *chunkRegion) load(lo []byte) error {
	r.touched, r.list, r.start = nil, nil, []byte{suffixFirst}
	found, start, err := r.next(lo)
	if err != nil {
		return err
	}
	if found {
		r.start = start
	}
	return nil
}

func (r *chunkRegion) extend() error {
	if bytes.Equal(r.end, []byte{suffixEnd}) {
		return fmt.Errorf("%w: chunks do not tile the partition", errChunk)
	}
	_, _, err := r.next(r.end)
	return err
}

// next loads the chunk that holds suffix lo, or makes up an empty one to the partition's end.
func (r *chunkRegion) next(lo []byte) (found bool, start []byte, err error) {
	r.key = append(append(append(r.key[:0], r.prefix...), lo...), 0)
	if !r.it.SeekGE(r.key) {
		r.end = []byte{suffixEnd}
		return false, nil, r.it.Error()
	}
	r.end = bytes.Clone(r.it.Key()[len(r.prefix):])
	v, err := r.it.ValueAndErr()
	if err != nil {
		return false, nil, err
	}
	r.touched = append(r.touched, r.end)
	start, r.list, err = decodeChunk(r.list, bytes.Clone(v))
	return true, start, err
}

func (r *chunkRegion) write(pb *pebble.Batch) error {
	key := func(suffix []byte) []byte {
		r.key = append(append(r.key[:0], r.prefix...), suffix...)
		return r.key
	}
	// All touched chunks but the last go; parts of the last may reuse their keys.
	if n := len(r.touched) - 1; n >= manyChunks {
		lo := bytes.Clone(key(r.touched[0]))
		if err := pb.DeleteRange(lo, key(r.touched[n]), nil); err != nil {
			return err
		}
	} else {
		for i := range max(n, 0) {
			if err := pb.Delete(key(r.touched[i]), nil); err != nil {
				return err
			}
		}
	}
	start, list := r.start, r.list
	for len(list) > 0 || bytes.Equal(start, r.start) {
		part, end := list, r.end
		if len(list) > chunkMax {
			part = list[:chunkFill]
			end = part[chunkFill-1].hi
		}
		if err := pb.Set(key(end), appendChunk(nil, start, part), nil); err != nil {
			return err
		}
		start, list = end, list[len(part):]
		if bytes.Equal(end, r.end) {
			break
		}
	}
	return nil
}

// headCursor tells which deletion of its partition's head covers a suffix.
type headCursor struct {
	it     *pebble.Iterator // over the head family; nil: no deletions
	prefix []byte
	part   int64 // the partition deletion's timestamp, or noDeletion
	chunks bool  // there may be chunks
	start  []byte
	end    []byte // end of the chunk that is loaded; nil: none is
	list   []interval
	idx    int
	buf    []byte
	key    []byte
	stats  *ReadStats
	seen   int // interval counted last
}

// reset goes to a partition's head; prefix is that of its rows and is kept as a copy.
func (c *headCursor) reset(it *pebble.Iterator, prefix []byte, stats *ReadStats) error {
	c.prefix = append(c.prefix[:0], prefix...)
	c.prefix[tablePrefixBytes-1] = familyHead
	c.it, c.part, c.chunks, c.end, c.stats = it, noDeletion, false, nil, stats
	if !it.SeekGE(c.prefix) || !bytes.HasPrefix(it.Key(), c.prefix) {
		return it.Error()
	}
	c.chunks = true
	if len(it.Key()) > len(c.prefix) {
		return nil
	}
	v, err := it.ValueAndErr()
	if err != nil {
		return err
	}
	var h rowHeader
	if _, ok := decodeHeader(v, &h); !ok {
		return fmt.Errorf("partition deletion: %w", errRowShape)
	}
	c.part = h.delTS
	if stats != nil {
		stats.RangeTombs++
	}
	return nil
}

func (c *headCursor) none() {
	c.it, c.part, c.chunks, c.end = nil, noDeletion, false, nil
}

// at returns the newest deletion of the partition or of a range that covers a suffix.
func (c *headCursor) at(suffix []byte) (int64, error) {
	if !c.chunks || suffix[0] == suffixStatic {
		return c.part, nil
	}
	if c.end == nil || bytes.Compare(suffix, c.end) >= 0 || bytes.Compare(suffix, c.start) < 0 {
		if err := c.load(suffix); err != nil || !c.chunks {
			return c.part, err
		}
	}
	// Most suffixes are in the interval, or gap, of the one before or the next.
	if c.idx >= len(c.list) || bytes.Compare(suffix, c.list[c.idx].hi) >= 0 ||
		(c.idx > 0 && bytes.Compare(suffix, c.list[c.idx-1].hi) < 0) {
		c.idx = sort.Search(len(c.list), func(i int) bool { return bytes.Compare(c.list[i].hi, suffix) > 0 })
	}
	if c.idx == len(c.list) || bytes.Compare(suffix, c.list[c.idx].lo) < 0 {
		return c.part, nil
	}
	if c.stats != nil && c.seen != c.idx {
		c.stats.RangeTombs++
		c.seen = c.idx
	}
	return max(c.part, c.list[c.idx].ts), nil
}

func (c *headCursor) load(suffix []byte) error {
	c.key = append(append(append(c.key[:0], c.prefix...), suffix...), 0)
	if !c.it.SeekGE(c.key) || !bytes.HasPrefix(c.it.Key(), c.prefix) {
		c.chunks = false
		return c.it.Error()
	}
	v, err := c.it.ValueAndErr()
	if err != nil {
		return err
	}
	c.buf = append(append(c.buf[:0], c.it.Key()[len(c.prefix):]...), v...)
	n := len(c.buf) - len(v)
	c.end = c.buf[:n:n]
	c.start, c.list, err = decodeChunk(c.list[:0], c.buf[n:])
	c.idx, c.seen = 0, -1
	return err
}

// deletionAt returns the newest head deletion that covers a row, as of now.
func (sh *shard) deletionAt(tbl *table, key []byte, prefixLen int) (int64, error) {
	if !tbl.parts[sh.idx].heads.Load() {
		return noDeletion, nil
	}
	it, err := sh.db.NewIter(nil)
	if err != nil {
		return 0, err
	}
	var c headCursor
	err = c.reset(it, key[:prefixLen], nil)
	del := int64(noDeletion)
	if err == nil {
		del, err = c.at(key[prefixLen:])
	}
	return del, errors.Join(err, it.Close())
}
