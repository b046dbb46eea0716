package cql

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"varve/internal/move"
)

// orders are PostgreSQL's orders of the types that a key can have here. Text
// is compared by bytes, as with COLLATE "C".
var orders = map[uint32]func(a, b []byte) int{
	oidInt2: compareIntegers, oidInt4: compareIntegers, oidInt8: compareIntegers,
	oidDate: compareIntegers, oidTimestamp: compareIntegers, oidTimestamptz: compareIntegers,
	oidUUID: bytes.Compare, oidBytea: bytes.Compare, oidText: bytes.Compare, oidVarchar: bytes.Compare,
	oidBool: bytes.Compare,
}

func compareIntegers(a, b []byte) int {
	x, _ := integer(a)
	y, _ := integer(b)
	return cmp.Compare(x, y)
}

// compareKeys orders keys, or their prefixes, column by column; a prefix comes
// before what it is a prefix of.
func (t *table) compareKeys(a, b move.Row) int {
	for i := range min(len(a), len(b)) {
		if c := orders[t.Columns[t.Key[i]].Type.OID](a[i], b[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// Order implements move.Side: rows are given out in PostgreSQL's order of the
// key although the store keeps partitions by token, so that both kinds of side
// cover the same rows with the same range. Only text keeps its own, by bytes.
func (s *Side) Order(table int) string {
	var names []string
	t := s.tables[table]
	for _, k := range t.Key {
		c := t.Columns[k].Type
		name := c.Name
		if c.OID == oidText || c.OID == oidVarchar {
			name += " by bytes"
		}
		names = append(names, name)
	}
	return "postgresql " + strings.Join(names, ", ")
}

// partitions are the keys of a table's partitions in PostgreSQL's order, which
// only a list can give since the store has them by token.
type partitions struct {
	keys  []move.Row
	rows  []int64 // in each, when counted
	taken time.Time
	cost  time.Duration
}

// A list is used until it is so old, or for twenty times as long as it took.
// Partitions that appear later were written by the move, which compares what it
// wrote by key.
const (
	listAge     = 30 * time.Second
	listAgeRead = time.Second
	listAgeCost = 20
)

// list returns the partitions, from a list not older than age.
func (s *Side) list(ctx context.Context, ti int, counted bool, age time.Duration) (*partitions, error) {
	s.mu.Lock()
	p := s.parts[ti]
	s.mu.Unlock()
	if p != nil && (!counted || p.rows != nil) && time.Since(p.taken) < max(age, listAgeCost*p.cost) {
		return p, nil
	}
	t := s.tables[ti]
	start := time.Now()
	p = &partitions{taken: start}
	names := make([]string, len(t.partition))
	for i, c := range t.partition {
		names[i] = quote(t.Columns[c].Name)
	}
	cols := strings.Join(names, ", ")
	statement := "SELECT DISTINCT " + cols + " FROM " + t.qualified()
	if counted {
		statement = "SELECT " + cols + ", count(*) FROM " + t.qualified() + " GROUP BY " + cols
	}
	iter := s.session.Query(statement).PageSize(5000).IterContext(ctx)
	type counts struct {
		key  move.Row
		rows int64
	}
	var found []counts
	for {
		values := make([]raw, len(t.partition))
		var n int64
		dest := make([]any, 0, len(values)+1)
		for i := range values {
			dest = append(dest, &values[i])
		}
		if counted {
			dest = append(dest, &n)
		}
		if !iter.Scan(dest...) {
			break
		}
		key, err := t.toPG(t.partition, values)
		if err != nil {
			_ = iter.Close()
			return nil, err
		}
		found = append(found, counts{key, n})
	}
	if err := iter.Close(); err != nil {
		return nil, fmt.Errorf("list the partitions of %s: %w", t.qualified(), err)
	}
	slices.SortFunc(found, func(a, b counts) int { return t.compareKeys(a.key, b.key) })
	for _, f := range found {
		p.keys = append(p.keys, f.key)
		if counted {
			p.rows = append(p.rows, f.rows)
		}
	}
	if counted && p.rows == nil {
		p.rows = []int64{}
	}
	p.cost = time.Since(start)
	s.mu.Lock()
	s.parts[ti] = p
	s.mu.Unlock()
	return p, nil
}

// within returns the partitions that may hold rows of the range: from the
// first that is not before From, by prefix, to the last that is not after To.
func (t *table) within(p *partitions, r move.Range) []move.Row {
	n := len(t.partition)
	low, high := 0, len(p.keys)
	if r.From != nil {
		from := r.From[:n]
		low, _ = slices.BinarySearchFunc(p.keys, from, t.compareKeys)
		// Without clustering columns From itself is left out.
		if len(t.cluster) == 0 && low < high && t.compareKeys(p.keys[low], from) == 0 {
			low++
		}
	}
	if r.To != nil {
		at, found := slices.BinarySearchFunc(p.keys, r.To[:n], t.compareKeys)
		high = at
		if found {
			high++
		}
	}
	if low > high {
		return nil
	}
	return p.keys[low:high]
}

// relist makes the next list a new one.
func (s *Side) relist(table int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.parts, table)
}
