package exec

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/schema"
	"varve/internal/store"
)

// pageState is from where a read goes on. It is told to clients as an opaque
// string of bytes: see encode.
type pageState struct {
	key        [][]byte // partition key; nil: from the start (index reads may have no row yet)
	clustering [][]byte // of the last row returned; nil: none, or a static row
	// done: nothing is left to return of that partition.
	done bool
	// untouched: nothing of that partition was returned yet, though rows of it
	// were passed. Its static row may have to be returned by itself.
	untouched bool
	// remaining are the rows (or groups) that LIMIT still allows; -1: no limit.
	remaining int64
	// perPartition are the rows (or groups) that PER PARTITION LIMIT still
	// allows in that partition; -1: no limit.
	perPartition int64
	// indexValue is the indexed value of the entry last read, for index reads.
	indexValue []byte
	hasIndex   bool
	index      uint32 // the index's physical id
	static     bool   // the entry was of a static row
	// valueOrder: the pages before came in order of indexed values, not of
	// tokens, so that no other way to read goes on from here.
	valueOrder bool
}

const (
	pageVersion = 1

	pageHasKey        = 1 << 0
	pageHasClustering = 1 << 1
	pageDone          = 1 << 2
	pageHasIndex      = 1 << 3
	pageStatic        = 1 << 4
	pageValueOrder    = 1 << 5
	pageUntouched     = 1 << 6
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// encode writes a state: version, flags, table, limits, the key's and the
// clustering's components, the index value, and a checksum over all.
func (s *pageState) encode(t *schema.Table) []byte {
	flags := byte(0)
	for _, f := range [...]struct {
		set bool
		bit byte
	}{
		{s.key != nil, pageHasKey},
		{s.clustering != nil, pageHasClustering},
		{s.done, pageDone},
		{s.hasIndex, pageHasIndex},
		{s.static, pageStatic},
		{s.valueOrder, pageValueOrder},
		{s.untouched, pageUntouched},
	} {
		if f.set {
			flags |= f.bit
		}
	}
	b := make([]byte, 0, 128)
	b = append(b, pageVersion, flags)
	b = binary.BigEndian.AppendUint32(b, t.PhysID)
	b = binary.AppendVarint(b, s.remaining)
	b = binary.AppendVarint(b, s.perPartition)
	for _, c := range s.key {
		b = appendBytes(b, c)
	}
	for _, c := range s.clustering {
		b = appendBytes(b, c)
	}
	if s.hasIndex {
		b = binary.AppendUvarint(b, uint64(s.index))
		b = appendBytes(b, s.indexValue)
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, crcTable))
}

func appendBytes(dst, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

var errPagingState = &cqlwire.Error{Code: cqlwire.ErrProtocol, Message: "Invalid value for the paging state"}

// decodePage reads a state that a client sent back; nil for none. Anything
// that encode did not write for this table is refused.
func decodePage(t *schema.Table, b []byte) (*pageState, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if len(b) < 12 || b[0] != pageVersion {
		return nil, errPagingState
	}
	body, sum := b[:len(b)-4], binary.BigEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, crcTable) != sum || binary.BigEndian.Uint32(body[2:]) != t.PhysID {
		return nil, errPagingState
	}
	flags := body[1]
	d := pageDecoder{b: body[6:]}
	s := &pageState{
		done: flags&pageDone != 0, hasIndex: flags&pageHasIndex != 0, static: flags&pageStatic != 0,
		valueOrder: flags&pageValueOrder != 0, untouched: flags&pageUntouched != 0,
		remaining: d.varint(), perPartition: d.varint(),
	}
	if flags&pageHasKey != 0 {
		s.key = d.components(len(t.PartitionKey))
	}
	if flags&pageHasClustering != 0 {
		s.clustering = d.components(len(t.Clustering))
	}
	if s.hasIndex {
		s.index = uint32(d.uvarint())
		s.indexValue = d.bytes()
	}
	if d.bad || len(d.b) != 0 || s.remaining < -1 || s.perPartition < -1 {
		return nil, errPagingState
	}
	return s, nil
}

// fits reports that a state's values are of their columns' types: a client can
// make up a state, checksum and all.
func (s *pageState) fits(t *schema.Table) bool {
	if s == nil {
		return true
	}
	for i, v := range s.key {
		if cqltype.Validate(t.PartitionKey[i].Type, v) != nil {
			return false
		}
	}
	for i, v := range s.clustering {
		if cqltype.Validate(t.Clustering[i].Type, v) != nil {
			return false
		}
	}
	return true
}

type pageDecoder struct {
	b   []byte
	bad bool
}

func (d *pageDecoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *pageDecoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *pageDecoder) bytes() []byte {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > uint64(len(d.b)-n) {
		d.bad = true
		return nil
	}
	b := d.b[n : n+int(v) : n+int(v)]
	d.b = d.b[n+int(v):]
	return b
}

func (d *pageDecoder) components(n int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		out[i] = d.bytes()
	}
	return out
}

// slicesAfter is what is left of slices past a row, in the direction of the
// read; nil slices stand for all rows. A row is left out even when it has
// been deleted since.
func slicesAfter(t *schema.Table, slices []store.Slice, last [][]byte, reverse bool) []store.Slice {
	if slices == nil {
		all := store.Bound{Inclusive: true}
		slices = []store.Slice{{Start: all, End: all}}
	}
	past := store.Bound{Prefix: last}
	var out []store.Slice
	for _, s := range slices {
		near, far := &s.Start, s.End
		sign := 1
		if reverse {
			near, far = &s.End, s.Start
			sign = -1
		}
		if n := sign * comparePrefix(t.Clustering, far.Prefix, last); n < 0 ||
			(n == 0 && (!far.Inclusive || len(far.Prefix) == len(t.Clustering))) {
			continue
		}
		if n := sign * comparePrefix(t.Clustering, near.Prefix, last); n < 0 ||
			(n == 0 && (near.Inclusive || len(near.Prefix) == len(t.Clustering))) {
			*near = past
		}
		out = append(out, s)
	}
	if out == nil {
		out = []store.Slice{}
	}
	return out
}

func sameComponents(a, b [][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}
