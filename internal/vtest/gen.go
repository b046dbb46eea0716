package vtest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
)

// Gen makes random changes and queries from a source of randomness. Values,
// keys and timestamps come from small sets, so that collisions and ties are
// the rule.
type Gen struct {
	R *rand.Rand
	// Now is the clock in seconds, moved by the caller.
	Now int64
	// Timestamp gives the next write's timestamp.
	Timestamp func() int64
	// MaxTTL bounds TTLs in seconds; 0 makes none.
	MaxTTL int32
	// Partitions is how many partition keys of a table are used.
	Partitions int
	// Clusterings is how many values each clustering column takes.
	Clusterings int
}

// NewGen starts a generator with random, out of order, often equal timestamps.
func NewGen(r *rand.Rand) *Gen {
	g := &Gen{R: r, Now: 1_700_000_000, MaxTTL: 12, Partitions: 3, Clusterings: 5}
	g.Timestamp = g.tiedTimestamp
	return g
}

// tiedTimestamp draws from a window of 40 microseconds, with a rare extreme.
func (g *Gen) tiedTimestamp() int64 {
	switch g.R.IntN(60) {
	case 0:
		return math.MaxInt64 - int64(g.R.IntN(2))
	case 1:
		return int64(g.R.IntN(5)) - 2
	case 2:
		return math.MinInt64 + 2 + int64(g.R.IntN(2))
	}
	return 1_700_000_000_000_000 + int64(g.R.IntN(40))
}

// Key is a partition key of a table.
func (g *Gen) Key(t *schema.Table) [][]byte {
	n := g.R.IntN(g.Partitions)
	var key [][]byte
	for i, c := range t.PartitionKey {
		key = append(key, Value(c.Type, n*(i+1)+1))
	}
	return key
}

// Clustering is a full clustering of a table: empty but not nil where it has none.
func (g *Gen) Clustering(t *schema.Table) [][]byte { return g.prefix(t, len(t.Clustering)) }

func (g *Gen) prefix(t *schema.Table, n int) [][]byte {
	ck := [][]byte{}
	for _, c := range t.Clustering[:n] {
		ck = append(ck, Value(c.Type, g.R.IntN(g.Clusterings)))
	}
	return ck
}

var texts = []string{"a", "", "b", "a\x00", "\x00", "ab", "a\x00\x01", "\xf4\x8f\xbf\xbf", "abc", "z"}

// Value is the n-th of a type's test values, in no order; different n give different values.
func Value(t *cqltype.Type, n int) []byte {
	switch t.Kind {
	case cqltype.KindInt:
		return binary.BigEndian.AppendUint32(nil, uint32(int32(spread(n))))
	case cqltype.KindBigint:
		return binary.BigEndian.AppendUint64(nil, uint64(int64(spread(n))<<33))
	case cqltype.KindText, cqltype.KindBlob:
		if n < len(texts) {
			return []byte(texts[n])
		}
		return fmt.Appendf(nil, "t%06d", n)
	case cqltype.KindTimeuuid:
		return Timeuuid(n)
	}
	panic(fmt.Sprintf("no test values of type %s", t))
}

// spread maps 0, 1, 2 … to 0, -1, 1, -2 …, so that signs matter to order.
func spread(n int) int {
	if n%2 == 1 {
		return -(n + 1) / 2
	}
	return n / 2
}

// Timeuuid is a version 1 UUID whose time grows with n, and whose low bytes
// have signs that matter to order where times are equal (n and n+1 for even n).
func Timeuuid(n int) []byte {
	t := uint64(n/2)*0x1_0000_0001 + 0x1ee_0000_0000_0000
	b := make([]byte, 16)
	binary.BigEndian.PutUint32(b[0:], uint32(t))
	binary.BigEndian.PutUint16(b[4:], uint16(t>>32))
	binary.BigEndian.PutUint16(b[6:], uint16(t>>48)&0x0fff|0x1000)
	b[8], b[15] = 0x80, byte(n%2)*0x90
	return b
}

// Batch is a random batch over some of the tables.
func (g *Gen) Batch(tables []*schema.Table) Batch {
	b := Batch{Now: g.Now}
	n := 1
	if g.R.IntN(4) == 0 {
		n = 2 + g.R.IntN(3)
	}
	for range n {
		t := tables[g.R.IntN(len(tables))]
		m := Mutation{Table: t, Key: g.Key(t)}
		for range 1 + g.R.IntN(3) {
			m.Changes = append(m.Changes, g.changes(t)...)
		}
		b.Mutations = append(b.Mutations, m)
	}
	return b
}

func (g *Gen) ttl() int32 {
	if g.MaxTTL == 0 || g.R.IntN(3) > 0 {
		return 0
	}
	if g.R.IntN(2) == 0 && g.MaxTTL > 4 {
		// Expiry at a multiple of four, so that different TTLs expire together.
		return 4 - int32(g.Now%4) + 4*g.R.Int32N(2)
	}
	return 1 + g.R.Int32N(g.MaxTTL)
}

// changes is one statement's worth: an insert, an update, a deletion of some kind.
func (g *Gen) changes(t *schema.Table) []Change {
	ts := g.Timestamp()
	switch n := g.R.IntN(100); {
	case n < 35:
		ck, ttl := g.Clustering(t), g.ttl()
		out := []Change{{Kind: Marker, Clustering: ck, TS: ts, TTL: ttl}}
		return append(out, g.cells(t.Regular, ck, ts, ttl)...)
	case n < 55:
		return g.cells(t.Regular, g.Clustering(t), ts, g.ttl())
	case n < 63:
		return g.cells(t.Static, nil, ts, g.ttl())
	case n < 83:
		return []Change{{Kind: Delete, Clustering: g.Clustering(t), TS: ts}}
	case n < 85 && len(t.Static) > 0:
		return []Change{{Kind: Delete, TS: ts}}
	case n < 97 && len(t.Clustering) > 0:
		return []Change{{Kind: DeleteRange, Slice: g.Slice(t), TS: ts}}
	case n < 99:
		return []Change{{Kind: DeletePartition, TS: ts}}
	}
	return g.cells(t.Regular, g.Clustering(t), ts, g.ttl())
}

// cells changes a random choice of columns of one row.
func (g *Gen) cells(columns []*schema.Column, ck [][]byte, ts int64, ttl int32) []Change {
	var out []Change
	for _, c := range columns {
		if g.R.IntN(3) == 0 {
			continue
		}
		at := Change{Clustering: ck, Column: c, TS: ts}
		switch {
		case c.Type.IsMultiCell():
			out = append(out, g.elements(at, ttl)...)
		case g.R.IntN(4) == 0:
			at.Kind = Unset
			out = append(out, at)
		default:
			at.Kind, at.TTL, at.Value = Set, ttl, Value(c.Type, g.R.IntN(6))
			out = append(out, at)
		}
	}
	return out
}

// elements overwrites a multi-cell column, clears it, or changes single elements.
func (g *Gen) elements(at Change, ttl int32) []Change {
	var out []Change
	how := g.R.IntN(6)
	if how < 2 {
		clearing := at
		clearing.Kind = Clear
		if how == 1 && at.TS > math.MinInt64+2 {
			clearing.TS--
		}
		out = append(out, clearing)
		if how == 0 {
			return out
		}
	}
	for range 1 + g.R.IntN(3) {
		e := at
		e.Path, e.Value = g.element(at.Column)
		if how == 5 {
			e.Kind, e.Value = UnsetElement, nil
		} else {
			e.Kind, e.TTL = SetElement, ttl
		}
		out = append(out, e)
	}
	return out
}

func (g *Gen) element(c *schema.Column) (path, value []byte) {
	n, v := g.R.IntN(4), g.R.IntN(5)
	switch c.Type.Kind {
	case cqltype.KindList:
		return Timeuuid(n), Value(c.Type.Elems[0], v)
	case cqltype.KindSet:
		return Value(c.Type.Elems[0], n), []byte{}
	case cqltype.KindMap:
		return Value(c.Type.Elems[0], n), Value(c.Type.Elems[1], v)
	default: // UDT
		field := n % len(c.Type.Elems)
		return binary.BigEndian.AppendUint16(nil, uint16(field)), Value(c.Type.Elems[field], v)
	}
}

// Slice is a random interval of clusterings with bounds of every kind: full,
// prefix, none; inclusive or not; in order more often than not.
func (g *Gen) Slice(t *schema.Table) store.Slice {
	bound := func() store.Bound {
		return store.Bound{Prefix: g.prefix(t, g.R.IntN(len(t.Clustering)+1)), Inclusive: g.R.IntN(2) == 0}
	}
	if g.R.IntN(5) == 0 { // all rows of one prefix, or one row
		p := g.prefix(t, 1+g.R.IntN(len(t.Clustering)))
		return store.Slice{Start: store.Bound{Prefix: p, Inclusive: true}, End: store.Bound{Prefix: p, Inclusive: true}}
	}
	s := store.Slice{Start: bound(), End: bound()}
	if compareClustering(t, s.Start.Prefix, s.End.Prefix) > 0 {
		s.Start, s.End = s.End, s.Start
	}
	return s
}

// Query is a random row query: everything, one slice, one row, or many slices.
func (g *Gen) Query(t *schema.Table) store.RowQuery {
	q := store.RowQuery{Reverse: g.R.IntN(2) == 0, NoStatic: g.R.IntN(6) == 0}
	if len(t.Clustering) == 0 {
		return q
	}
	switch g.R.IntN(5) {
	case 0, 1:
		q.Slices = []store.Slice{g.Slice(t)}
	case 2:
		q.Slices = g.points(t)
	case 3:
		q.Slices = g.disjoint(t)
	}
	return q
}

// points are single rows, as IN asks for them.
func (g *Gen) points(t *schema.Table) []store.Slice {
	var cks [][][]byte
	for range 1 + g.R.IntN(3) {
		cks = append(cks, g.Clustering(t))
	}
	slices.SortFunc(cks, func(a, b [][]byte) int { return compareClustering(t, a, b) })
	cks = slices.CompactFunc(cks, func(a, b [][]byte) bool { return compareClustering(t, a, b) == 0 })
	var out []store.Slice
	for _, ck := range cks {
		b := store.Bound{Prefix: ck, Inclusive: true}
		out = append(out, store.Slice{Start: b, End: b})
	}
	return out
}

// disjoint cuts the clusterings of the first column into slices with gaps.
func (g *Gen) disjoint(t *schema.Table) []store.Slice {
	var cuts [][][]byte
	for i := range g.Clusterings {
		cuts = append(cuts, [][]byte{Value(t.Clustering[0].Type, i)})
	}
	slices.SortFunc(cuts, func(a, b [][]byte) int { return compareClustering(t, a, b) })
	var out []store.Slice
	for i := 0; i+1 < len(cuts); i += 2 {
		s := store.Slice{
			Start: store.Bound{Prefix: cuts[i], Inclusive: g.R.IntN(2) == 0},
			End:   store.Bound{Prefix: cuts[i+1], Inclusive: g.R.IntN(2) == 0},
		}
		if i == 0 && g.R.IntN(2) == 0 {
			s.Start = store.Bound{}
		}
		out = append(out, s)
	}
	return out
}
