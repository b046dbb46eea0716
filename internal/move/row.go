package move

import (
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
