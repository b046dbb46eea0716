package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"varve/internal/cqltype"
	"varve/internal/schema"
)

// The key layout, all of it in this file:
//
//	[physical id u32][family u8][token u64, sign flipped][partition key components][suffix]
//
// The suffix of a row is its clustering components, suffixStatic for the
// static row, or suffixSole in a table without clustering columns. Component
// encodings are prefix-free and begin with a byte between suffixSole and 0xff,
// so that a partition's rows lie in [prefix+0x00, prefix+0xff) and every bound
// is a plain byte string (see appendStart).
//
// Index entries are [index's physical id][familyIndex][value][token][partition
// key][suffix]; records of the store itself lie under physical id 0.
const (
	familyMeta  = 0 // the store's own records, under physical id 0
	familyHead  = 1 // partition and range deletions
	familySpan  = 2 // dead spans
	familyRow   = 3 // rows, static ones included
	familyIndex = 5 // index entries
	familyFeed  = 6 // change feeds, under physical id 0

	suffixStatic     = 0x04 // the static row, before all others
	suffixFirst      = 0x05 // start of a slice that is unbounded below: past the static row
	suffixSole       = 0x06 // the row of a table without clustering columns
	suffixEnd        = 0xff // end of everything that begins with what stands before it
	tablePrefixBytes = 5
	tokenBytes       = 8
)

// maxKeyBytes is Cassandra's limit of a serialized partition key.
const maxKeyBytes = 65535

// Key identifies a partition of a table.
type Key struct {
	Token int64
	enc   []byte   // partition key components in key form
	raw   [][]byte // the components as written, where enc does not give them back; else nil
}

var errKeyShape = errors.New("malformed key")

// KeyOf makes the Key of a partition from its components in binary form. The
// total serialized size is at most 65535 bytes.
func KeyOf(t *schema.Table, components [][]byte) (Key, error) {
	if len(components) != len(t.PartitionKey) {
		return Key{}, fmt.Errorf("partition key of %s.%s has %d components, not %d",
			t.Keyspace, t.Name, len(t.PartitionKey), len(components))
	}
	var stack [256]byte
	serialized := components[0]
	if len(components) > 1 {
		var err error
		if serialized, err = cqltype.JoinKey(stack[:0], components); err != nil {
			return Key{}, err
		}
	}
	if len(serialized) > maxKeyBytes {
		return Key{}, fmt.Errorf("Key length of %d is longer than maximum of %d", len(serialized), maxKeyBytes)
	}
	k := Key{Token: cqltype.Token(serialized)}
	enc := make([]byte, 0, len(serialized)+3*len(components)+8)
	for i, c := range t.PartitionKey {
		var err error
		if enc, err = cqltype.AppendKey(enc, c.Type, components[i], false); err != nil {
			return Key{}, fmt.Errorf("partition key column %s: %w", c.Name, err)
		}
	}
	k.enc = enc
	for i, c := range t.PartitionKey {
		if cqltype.LossyKey(c.Type) && keyLoses(c.Type, components[i]) {
			if k.raw == nil {
				k.raw = make([][]byte, len(components))
			}
			k.raw[i] = bytes.Clone(components[i])
		}
	}
	return k, nil
}

// keyLoses reports that decoding the key form of v gives something else.
func keyLoses(t *cqltype.Type, v []byte) bool {
	enc, err := cqltype.AppendKey(nil, t, v, false)
	if err != nil {
		return false
	}
	back, _, err := cqltype.DecodeKey(nil, t, enc, false)
	return err != nil || !bytes.Equal(back, v)
}

func lossyColumns(columns []*schema.Column) bool {
	for _, c := range columns {
		if cqltype.LossyKey(c.Type) {
			return true
		}
	}
	return false
}

// Components returns the partition key's components in binary form.
func (k Key) Components(t *schema.Table) ([][]byte, error) {
	out := make([][]byte, len(t.PartitionKey))
	rest := k.enc
	var err error
	for i, c := range t.PartitionKey {
		if out[i], rest, err = cqltype.DecodeKey(make([]byte, 0, 16), c.Type, rest, false); err != nil {
			return nil, fmt.Errorf("partition key column %s: %w", c.Name, err)
		}
		if i < len(k.raw) && k.raw[i] != nil {
			out[i] = k.raw[i]
		}
	}
	return out, nil
}

// Equal reports that two keys of one table are the same partition's.
func (k Key) Equal(o Key) bool { return k.Token == o.Token && string(k.enc) == string(o.enc) }

// Clone returns a key that shares no memory with k.
func (k Key) Clone() Key { return Key{Token: k.Token, enc: bytes.Clone(k.enc), raw: k.raw} }

// Bound is one end of a slice of clustering rows: a prefix of the clustering
// columns (binary form; empty prefix: unbounded). Inclusive bounds take in every
// row that begins with the prefix.
type Bound struct {
	Prefix    [][]byte
	Inclusive bool
}

// Slice is a range of rows in clustering order (the table's order, DESC
// columns included: Start comes first on disk).
type Slice struct{ Start, End Bound }

func appendTablePrefix(dst []byte, phys uint32, family byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, phys), family)
}

func appendToken(dst []byte, token int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(token)^(1<<63))
}

func tokenOf(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ (1 << 63)) }

// appendPartition appends the prefix of all of a partition's keys in a family.
func appendPartition(dst []byte, phys uint32, family byte, k Key) []byte {
	dst = appendTablePrefix(dst, phys, family)
	dst = appendToken(dst, k.Token)
	return append(dst, k.enc...)
}

// appendSuffix appends a row's suffix; clustering nil means the static row
// (unless the table has no clustering columns, and so no static row).
func appendSuffix(dst []byte, t *schema.Table, clustering [][]byte) ([]byte, error) {
	if len(t.Clustering) == 0 {
		return append(dst, suffixSole), nil
	}
	if clustering == nil {
		return append(dst, suffixStatic), nil
	}
	if len(clustering) != len(t.Clustering) {
		return dst, fmt.Errorf("row of %s.%s has %d clustering values, not %d",
			t.Keyspace, t.Name, len(t.Clustering), len(clustering))
	}
	return appendClustering(dst, t, clustering)
}

func appendClustering(dst []byte, t *schema.Table, prefix [][]byte) ([]byte, error) {
	if len(prefix) > len(t.Clustering) {
		return dst, fmt.Errorf("%s.%s has %d clustering columns, not %d",
			t.Keyspace, t.Name, len(t.Clustering), len(prefix))
	}
	for i, v := range prefix {
		c := t.Clustering[i]
		var err error
		if dst, err = cqltype.AppendKey(dst, c.Type, v, c.Desc); err != nil {
			return dst, fmt.Errorf("clustering column %s: %w", c.Name, err)
		}
	}
	return dst, nil
}

// appendStart appends the first suffix of a slice: rows s with start <= s are in it.
func appendStart(dst []byte, t *schema.Table, b Bound) ([]byte, error) {
	if len(b.Prefix) == 0 {
		return append(dst, suffixFirst), nil
	}
	dst, err := appendClustering(dst, t, b.Prefix)
	if !b.Inclusive {
		dst = append(dst, suffixEnd)
	}
	return dst, err
}

// appendEnd appends the suffix past a slice: rows s with s < end are in it.
func appendEnd(dst []byte, t *schema.Table, b Bound) ([]byte, error) {
	if len(b.Prefix) == 0 {
		return append(dst, suffixEnd), nil
	}
	dst, err := appendClustering(dst, t, b.Prefix)
	if b.Inclusive {
		dst = append(dst, suffixEnd)
	}
	return dst, err
}

// partitionLen is the length of the partition prefix of a key of family row or
// head: what all keys of the partition begin with. scratch is grown as needed.
func partitionLen(t *schema.Table, key, scratch []byte) (n int, grown []byte, err error) {
	if len(key) < tablePrefixBytes+tokenBytes {
		return 0, scratch, errKeyShape
	}
	rest := key[tablePrefixBytes+tokenBytes:]
	for _, c := range t.PartitionKey {
		if scratch, rest, err = cqltype.DecodeKey(scratch[:0], c.Type, rest, false); err != nil {
			return 0, scratch, fmt.Errorf("%w: %w", errKeyShape, err)
		}
	}
	return len(key) - len(rest), scratch, nil
}

// decodeSuffix appends a row's clustering values, decoded into arena, to dst.
// A static row's are nil.
func decodeSuffix(dst [][]byte, arena []byte, t *schema.Table, suffix []byte) ([][]byte, []byte, error) {
	if len(suffix) == 0 {
		return dst, arena, errKeyShape
	}
	if suffix[0] == suffixStatic {
		return nil, arena, nil
	}
	rest := suffix
	for _, c := range t.Clustering {
		start := len(arena)
		var v []byte
		var err error
		if v, rest, err = cqltype.DecodeKey(arena, c.Type, rest, c.Desc); err != nil {
			return dst, arena, fmt.Errorf("%w: %w", errKeyShape, err)
		}
		arena = v
		dst = append(dst, v[start:len(v):len(v)])
	}
	return dst, arena, nil
}

// successor is the smallest key greater than key.
func successor(key []byte) []byte {
	return append(append(make([]byte, 0, len(key)+1), key...), 0)
}
