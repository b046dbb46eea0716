package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"varve/internal/cqltype"
	"varve/internal/schema"
)

// A record's value is, little endian,
//
//	u8 1, u8 kind, u8 flags, u8 length of the origin
//	u32 place in its batch, u32 records of the batch
//	u64 total of bytes ever appended to the feed, this record included
//	i64 when it was written (microseconds), i64 timestamp of a range's or partition's deletion, i64 clock of the batch (seconds)
//	origin
//	uvarint length of the partition's prefix, uvarint length of the key
//	key without physical id and family, value: both as they are in the batch
//
// A range's key ends with its first suffix, its value is the suffix past it.
const (
	feedVersion     = 1
	feedHeaderBytes = 4 + 4 + 4 + 8 + 8 + 8 + 8
	feedTotalAt     = 12

	feedReplayed = 1

	// MaxOriginBytes is how long an origin may be, in bytes.
	MaxOriginBytes = 128
)

// FeedKind is what a record tells of.
type FeedKind uint8

// The kinds of record.
const (
	FeedRow       FeedKind = iota + 1 // cells, marker or deletion of a row, or of a static row
	FeedPartition                     // the deletion of a partition
	FeedRange                         // the deletion of a slice of a partition
	FeedTruncate                      // all rows of the table in this shard are gone
)

var errFeedRecord = errors.New("malformed change feed record")

// feedHeader is what the records of one batch have in common, and their places.
type feedHeader struct {
	flags       byte
	place, size uint32
	total       int64
	written     int64
	now         int64
	origin      string
}

func (h *feedHeader) append(dst []byte, kind FeedKind, ts int64) []byte {
	dst = append(dst, feedVersion, byte(kind), h.flags, byte(len(h.origin)))
	dst = binary.LittleEndian.AppendUint32(dst, h.place)
	dst = binary.LittleEndian.AppendUint32(dst, h.size)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.total))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.written))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(ts))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.now))
	return append(dst, h.origin...)
}

func uvarintLen(n int) int { return (bits.Len64(uint64(n)|1) + 6) / 7 }

// recordSize is the size of a change's record in bytes, without its key.
func (b *Batch) recordSize(o *op) int {
	key := o.keyEnd - o.key - tablePrefixBytes
	return feedHeaderBytes + len(b.origin) + uvarintLen(o.preEnd-o.key-tablePrefixBytes) + uvarintLen(key) + key + o.valEnd - o.val
}

// appendRecord writes a change's record; h.origin is the batch's.
func (b *Batch) appendRecord(dst []byte, h *feedHeader, o *op) []byte {
	kind := FeedRow
	switch o.kind {
	case opPartition:
		kind = FeedPartition
	case opRange:
		kind = FeedRange
	}
	dst = h.append(dst, kind, o.ts)
	from := o.key + tablePrefixBytes
	dst = binary.AppendUvarint(dst, uint64(o.preEnd-from))
	dst = binary.AppendUvarint(dst, uint64(o.keyEnd-from))
	dst = append(dst, b.buf[from:o.keyEnd]...)
	return append(dst, b.buf[o.val:o.valEnd]...)
}

// FeedRecord is one record of a change feed. Its slices are valid until the
// function that was given it returns.
type FeedRecord struct {
	Position int64
	// BatchFirst is the position of the first record of the batch, which has BatchSize in this shard.
	BatchFirst int64
	BatchSize  int
	Kind       FeedKind
	Replayed   bool   // written again from the batch log
	Origin     []byte // of the request
	Written    int64  // the server's clock, microseconds
	NowSec     int64  // the clock of the batch: its tombstones' local deletion time

	t      *schema.Table
	ts     int64
	prefix []byte // token and partition key
	suffix []byte
	value  []byte
	hdr    rowHeader
	cells  []byte
}

// decode reads a record; everything in it aliases v.
func (r *FeedRecord) decode(t *schema.Table, position int64, v []byte) error {
	if len(v) < feedHeaderBytes || v[0] != feedVersion {
		return errFeedRecord
	}
	le := binary.LittleEndian
	*r = FeedRecord{
		Position: position, BatchFirst: position - int64(le.Uint32(v[4:])), BatchSize: int(le.Uint32(v[8:])),
		Kind: FeedKind(v[1]), Replayed: v[2]&feedReplayed != 0, Written: int64(le.Uint64(v[20:])), NowSec: int64(le.Uint64(v[36:])),
		t: t, ts: int64(le.Uint64(v[28:])),
	}
	origin := int(v[3])
	v = v[feedHeaderBytes:]
	if len(v) < origin {
		return errFeedRecord
	}
	r.Origin, v = v[:origin:origin], v[origin:]
	pre, n := binary.Uvarint(v)
	if n <= 0 {
		return errFeedRecord
	}
	key, m := binary.Uvarint(v[n:])
	if m <= 0 || key > uint64(len(v)-n-m) || pre > key {
		return errFeedRecord
	}
	v = v[n+m:]
	r.prefix, r.suffix, r.value = v[:pre:pre], v[pre:key:key], v[key:]
	switch r.Kind {
	case FeedTruncate:
		return nil
	case FeedRange:
		r.hdr.delTS = r.ts
	case FeedRow, FeedPartition:
		var ok bool
		if r.cells, ok = decodeHeader(r.value, &r.hdr); !ok || !wellFormedFragment(r.value) {
			return errFeedRecord
		}
	default:
		return fmt.Errorf("%w: kind %d", errFeedRecord, r.Kind)
	}
	if len(r.prefix) < tokenBytes || (r.Kind != FeedPartition && len(r.suffix) == 0) {
		return errFeedRecord
	}
	return nil
}

// wellFormedFragment reports that every cell of a fragment can be read.
func wellFormedFragment(b []byte) bool {
	var h rowHeader
	rest, ok := decodeHeader(b, &h)
	var c cell
	for ok && len(rest) > 0 {
		rest, ok = nextCell(rest, h.base, &c)
	}
	return ok
}

// keptComponent is a key component as it was written, where its key form does not tell.
func (r *FeedRecord) keptComponent(i uint16) []byte {
	row := Row{cells: r.cells, hdr: r.hdr}
	return row.keptComponent(i)
}

// Key are the partition key's components in binary form.
func (r *FeedRecord) Key() ([][]byte, error) {
	out, err := Key{enc: r.prefix[tokenBytes:]}.Components(r.t)
	if err != nil {
		return nil, err
	}
	for i, c := range r.t.PartitionKey {
		if cqltype.LossyKey(c.Type) {
			if v := r.keptComponent(keyPathPartition | uint16(i)); v != nil {
				out[i] = v
			}
		}
	}
	return out, nil
}

// Static reports a change to a partition's static row.
func (r *FeedRecord) Static() bool {
	return r.Kind == FeedRow && r.suffix[0] == suffixStatic
}

// Clustering are the clustering values of a row: empty in a table without
// clustering columns, nil for a static row and what is no row.
func (r *FeedRecord) Clustering() ([][]byte, error) {
	if r.Kind != FeedRow || r.Static() {
		return nil, nil
	}
	out, _, err := decodeSuffix([][]byte{}, nil, r.t, r.suffix)
	if err != nil {
		return nil, err
	}
	for i, c := range r.t.Clustering {
		if cqltype.LossyKey(c.Type) {
			if v := r.keptComponent(uint16(i)); v != nil {
				out[i] = v
			}
		}
	}
	return out, nil
}

// Slice is the slice of rows that a range deletion covers, in the table's clustering order.
func (r *FeedRecord) Slice() (Slice, error) {
	start, startEnds, err := decodeBound(r.t, r.suffix)
	if err != nil {
		return Slice{}, err
	}
	end, endEnds, err := decodeBound(r.t, r.value)
	if err != nil {
		return Slice{}, err
	}
	// See appendStart and appendEnd: a bound that ends behind what begins with
	// its prefix leaves that out at a start, and takes it in at an end.
	return Slice{
		Start: Bound{Prefix: start, Inclusive: len(start) == 0 || !startEnds},
		End:   Bound{Prefix: end, Inclusive: len(end) == 0 || endEnds},
	}, nil
}

// decodeBound reads a suffix that appendStart or appendEnd made.
func decodeBound(t *schema.Table, b []byte) (prefix [][]byte, ends bool, err error) {
	if len(b) == 1 && b[0] == suffixFirst {
		return nil, false, nil
	}
	for len(b) > 0 && !(len(b) == 1 && b[0] == suffixEnd) {
		if len(prefix) == len(t.Clustering) {
			return nil, false, fmt.Errorf("bound of a range deletion: %w", errKeyShape)
		}
		c := t.Clustering[len(prefix)]
		var v []byte
		if v, b, err = cqltype.DecodeKey(make([]byte, 0, 16), c.Type, b, c.Desc); err != nil {
			return nil, false, fmt.Errorf("bound of a range deletion: %w: %w", errKeyShape, err)
		}
		prefix = append(prefix, v)
	}
	return prefix, len(b) == 1, nil
}

// Deletion is the timestamp of the row's, partition's or range's deletion.
func (r *FeedRecord) Deletion() (ts int64, ok bool) {
	switch r.Kind {
	case FeedRange:
		return r.ts, true
	case FeedRow, FeedPartition:
		return r.hdr.delTS, r.hdr.flags&rowHasDeletion != 0
	}
	return 0, false
}

// Marker is the row marker that was written.
func (r *FeedRecord) Marker() (c Cell, ok bool) {
	if r.Kind != FeedRow || !r.hdr.hasMarker() {
		return Cell{}, false
	}
	return Cell{Timestamp: r.hdr.base, TTL: r.hdr.markerTTL, Expiry: r.hdr.markerExpiry}, true
}

// Timestamp is the greatest write timestamp in the record, microseconds.
func (r *FeedRecord) Timestamp() int64 {
	switch r.Kind {
	case FeedTruncate, FeedRange:
		return r.ts
	}
	row := Row{cells: r.cells, hdr: r.hdr}
	ts, _ := row.newest() // it is well-formed: decode has looked
	return ts
}

// FeedCellOp is what was done to a cell.
type FeedCellOp uint8

// What may be done to a cell.
const (
	FeedSet    FeedCellOp = iota // it has a value
	FeedDelete                   // a tombstone
	FeedClear                    // all elements of a multi-cell column up to the timestamp are deleted
)

// FeedCell is one cell of a record.
type FeedCell struct {
	Cell
	Column *schema.Column
	Op     FeedCellOp
}

// AppendCells appends the record's cells, but for those of dropped columns, to dst.
func (r *FeedRecord) AppendCells(dst []FeedCell) []FeedCell {
	if r.Kind != FeedRow {
		return dst
	}
	var c cell
	for rest := r.cells; len(rest) > 0; {
		var ok bool
		if rest, ok = nextCell(rest, r.hdr.base, &c); !ok {
			break // decode has looked
		}
		if c.col == keyColumn || int(c.col) >= len(r.t.ByID) || r.t.Gone(c.col, c.ts) {
			continue
		}
		out := FeedCell{Cell: c.export(), Column: r.t.ByID[c.col]}
		switch {
		case c.flags&cellClear != 0:
			out.Op = FeedClear
		case c.flags&cellTomb != 0:
			out.Op = FeedDelete
		}
		dst = append(dst, out)
	}
	return dst
}
