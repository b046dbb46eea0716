package move

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Row is one row of a moved table: a value for each of its mapped columns, in
// the order of Table.Columns. A value is in PostgreSQL's binary format of the
// column's type at origin, and nil stands for NULL: a row of any store
// compares with a row of any other byte by byte.
type Row [][]byte

// Type is a column's type as PostgreSQL names it.
type Type struct {
	OID  uint32
	Name string // as format_type gives it, "timestamp(3) with time zone"
}

// Column is a mapped column of a moved table, by the name it has on one side.
type Column struct {
	Name      string
	Type      Type // at origin; on either side the type that Row's values have
	Native    string
	NotNull   bool
	Generated bool
}

// Table is a moved table as one side has it. The tables of both sides have
// their columns in the same order, so that one Row fits both.
type Table struct {
	Schema, Name string // PostgreSQL's schema or Varve's keyspace
	Columns      []Column
	// Key are the positions in Columns of the target's key, which both sides
	// hold unique: rows are copied, compared and repaired by it.
	Key []int
}

// KeyOf returns r's key values in key order.
func (t *Table) KeyOf(r Row) Row {
	key := make(Row, len(t.Key))
	for i, c := range t.Key {
		key[i] = r[c]
	}
	return key
}

// Range is a half-open range of keys (from, to] in the order that the side
// which made it keeps; nil means without a bound.
type Range struct {
	From, To Row
}

// Position is a place in a side's stream of changes: one number for each of
// its logs (PostgreSQL has one, Varve one a shard).
type Position []uint64

// Covers reports whether all changes up to q lie at or before p.
func (p Position) Covers(q Position) bool {
	for i, n := range q {
		if n > 0 && (i >= len(p) || p[i] < n) {
			return false
		}
	}
	return true
}

// String is the form kept in state rows: numbers joined by commas.
func (p Position) String() string {
	parts := make([]string, len(p))
	for i, n := range p {
		parts[i] = strconv.FormatUint(n, 10)
	}
	return strings.Join(parts, ",")
}

// ParsePosition reads what String gave.
func ParsePosition(s string) (Position, error) {
	if s == "" {
		return nil, nil
	}
	var p Position
	for part := range strings.SplitSeq(s, ",") {
		n, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read position %q: %w", s, err)
		}
		p = append(p, n)
	}
	return p, nil
}

// EncodeRow appends r to dst in a form that DecodeRow reads: for each value a
// varint of its length plus one (0 for NULL) and its bytes.
func EncodeRow(dst []byte, r Row) []byte {
	for _, v := range r {
		if v == nil {
			dst = append(dst, 0)
			continue
		}
		dst = binary.AppendUvarint(dst, uint64(len(v))+1)
		dst = append(dst, v...)
	}
	return dst
}

// DecodeRow reads a row of n values and returns what follows it. Its values
// point into b.
func DecodeRow(b []byte, n int) (Row, []byte, error) {
	r := make(Row, n)
	for i := range r {
		size, used := binary.Uvarint(b)
		if used <= 0 || size > uint64(len(b)-used)+1 {
			return nil, nil, errors.New("a stored row is cut off")
		}
		b = b[used:]
		if size == 0 {
			continue
		}
		r[i], b = b[:size-1:size-1], b[size-1:]
	}
	return r, b, nil
}

// Equal reports whether both rows have the same values.
func (r Row) Equal(o Row) bool {
	if len(r) != len(o) {
		return false
	}
	for i := range r {
		if (r[i] == nil) != (o[i] == nil) || !bytes.Equal(r[i], o[i]) {
			return false
		}
	}
	return true
}

// Clone copies r and its values.
func (r Row) Clone() Row {
	if r == nil {
		return nil
	}
	out := make(Row, len(r))
	for i, v := range r {
		out[i] = bytes.Clone(v)
	}
	return out
}

// Clone copies e and everything that it points to.
func (e *Event) Clone() *Event {
	out := *e
	out.Old, out.New = e.Old.Clone(), e.New.Clone()
	out.Unchanged = append([]int(nil), e.Unchanged...)
	if e.Span != nil {
		s := *e.Span
		s.Prefix, s.From, s.To = s.Prefix.Clone(), bytes.Clone(s.From), bytes.Clone(s.To)
		out.Span = &s
	}
	return &out
}

// ForwardStream names the stream of a move's changes from origin to target.
func ForwardStream(move string) string { return move + "_fwd" }
