package cql

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"varve/internal/move"
)

// readPage is how many rows one page of a scan has, and readAhead how many
// partitions are asked for at once.
const (
	readPage  = 2000
	readAhead = 64
)

// toPG converts values of the given columns.
func (t *table) toPG(columns []int, values []raw) (move.Row, error) {
	row := make(move.Row, len(values))
	for i, v := range values {
		if v == nil {
			continue
		}
		c := columns[i]
		pg, err := t.convert[c].toPG(v)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: a value of type %s cannot be given back as %s: %w",
				t.qualified(), t.Columns[c].Name, t.native[c], t.Columns[c].Type.Name, err)
		}
		row[i] = pg
	}
	return row, nil
}

// toCQL converts a value of column c; nil stays nil.
func (t *table) toCQL(c int, v []byte) (raw, error) {
	if v == nil {
		return nil, nil
	}
	out, err := t.convert[c].toCQL(v)
	if err != nil {
		return nil, fmt.Errorf("%s.%s: a value of type %s cannot be kept as %s: %w",
			t.qualified(), t.Columns[c].Name, t.Columns[c].Type.Name, t.native[c], err)
	}
	return out, nil
}

// bindKey converts the first values of a key.
func (t *table) bindKey(key move.Row) ([]any, error) {
	out := make([]any, len(key))
	for i, v := range key {
		c, err := t.toCQL(t.Key[i], v)
		if err != nil {
			return nil, err
		}
		out[i] = c
	}
	return out, nil
}

// query collects the rows of one SELECT of all columns.
func (s *Side) query(ctx context.Context, t *table, cql string, limit int, args ...any) ([]move.Row, error) {
	iter := s.session.Query(cql, args...).PageSize(min(max(limit, 1), readPage)).IterContext(ctx)
	columns := make([]int, len(t.Columns))
	for i := range columns {
		columns[i] = i
	}
	var out []move.Row
	for len(out) < limit {
		values := make([]raw, len(t.Columns))
		dest := make([]any, len(values))
		for i := range values {
			dest[i] = &values[i]
		}
		if !iter.Scan(dest...) {
			break
		}
		row, err := t.toPG(columns, values)
		if err != nil {
			_ = iter.Close()
			return nil, err
		}
		out = append(out, row)
	}
	if err := iter.Close(); err != nil {
		return nil, fmt.Errorf("read %s: %w", t.qualified(), err)
	}
	return out, nil
}

// ReadKeys implements move.Side.
func (s *Side) ReadKeys(ctx context.Context, ti int, keys []move.Row) ([]move.Row, error) {
	t := s.tables[ti]
	out := make([]move.Row, len(keys))
	err := each(ctx, len(keys), func(ctx context.Context, i int) error {
		args, err := t.bindKey(keys[i])
		if err != nil {
			return err
		}
		found, err := s.query(ctx, t, t.get, 1, args...)
		if err == nil && len(found) > 0 {
			out[i] = found[0]
		}
		return err
	})
	return out, err
}

// Read implements move.Side.
func (s *Side) Read(ctx context.Context, ti int, r move.Range, limit int) ([]move.Row, error) {
	var out []move.Row
	err := s.scan(ctx, ti, r, listAgeRead, limit, func(rows []move.Row) bool {
		out = append(out, rows...)
		return len(out) < limit
	})
	if len(out) > limit {
		out = out[:limit]
	}
	return out, err
}

// Digest implements move.Side.
func (s *Side) Digest(ctx context.Context, ti int, r move.Range) (move.Digest, error) {
	var d move.Digest
	err := s.scan(ctx, ti, r, listAge, 0, func(rows []move.Row) bool {
		for _, row := range rows {
			d.Add(row)
		}
		return true
	})
	return d, err
}

// scan hands the rows of a range to f in key order, partition after partition,
// until f has enough. A limit above 0 is the most rows of one partition that
// are wanted.
func (s *Side) scan(ctx context.Context, ti int, r move.Range, age time.Duration, limit int, f func([]move.Row) bool) error {
	t := s.tables[ti]
	p, err := s.list(ctx, ti, false, age)
	if err != nil {
		return err
	}
	wanted := t.within(p, r)
	for len(wanted) > 0 {
		n := min(len(wanted), readAhead)
		found := make([][]move.Row, n)
		err := each(ctx, n, func(ctx context.Context, i int) error {
			rows, err := s.partition(ctx, t, wanted[i], r, limit)
			found[i] = rows
			return err
		})
		if err != nil {
			return err
		}
		for _, rows := range found {
			if !f(rows) {
				return nil
			}
		}
		wanted = wanted[n:]
	}
	return nil
}

// partition reads the rows of one partition that lie in the range, in
// PostgreSQL's order of the clustering columns.
func (s *Side) partition(ctx context.Context, t *table, key move.Row, r move.Range, limit int) ([]move.Row, error) {
	n := len(t.partition)
	var where []string
	for _, c := range t.partition {
		where = append(where, quote(t.Columns[c].Name)+" = ?")
	}
	args, err := t.bindKey(key)
	if err != nil {
		return nil, err
	}
	var names, marks []string
	for _, c := range t.cluster {
		names, marks = append(names, quote(t.Columns[c].Name)), append(marks, "?")
	}
	bound := func(op string, at move.Row) error {
		if at == nil || len(t.cluster) == 0 || t.compareKeys(at[:n], key) != 0 {
			return nil
		}
		where = append(where, "("+strings.Join(names, ", ")+") "+op+" ("+strings.Join(marks, ", ")+")")
		for i, c := range t.cluster {
			v, err := t.toCQL(c, at[n+i])
			if err != nil {
				return err
			}
			args = append(args, v)
		}
		return nil
	}
	if err := bound(">", r.From); err != nil {
		return nil, err
	}
	if err := bound("<=", r.To); err != nil {
		return nil, err
	}
	statement := "SELECT " + t.all + " FROM " + t.qualified() + " WHERE " + strings.Join(where, " AND ")
	// A single clustering column is asked for in the order that is wanted, so
	// that a limit keeps the right rows; several may be stored in mixed order.
	if len(t.cluster) == 1 {
		statement += " ORDER BY " + names[0] + " ASC"
	} else if len(t.cluster) > 1 {
		limit = 0
	}
	if limit > 0 {
		statement += fmt.Sprintf(" LIMIT %d", limit)
	} else {
		limit = 1 << 31
	}
	rows, err := s.query(ctx, t, statement, limit, args...)
	if err != nil || len(t.cluster) < 2 {
		return rows, err
	}
	slices.SortFunc(rows, func(a, b move.Row) int { return t.compareKeys(t.KeyOf(a), t.KeyOf(b)) })
	return rows, nil
}

// ReadSpan implements move.Side.
func (s *Side) ReadSpan(ctx context.Context, ti int, span move.KeySpan, after move.Row, limit int) ([]move.Row, error) {
	t := s.tables[ti]
	n := len(t.partition)
	if len(span.Prefix) < n {
		return nil, fmt.Errorf("a span of %s has to name the partition key", t.qualified())
	}
	var out []move.Row
	for len(out) < limit {
		rows, err := s.partition(ctx, t, span.Prefix[:n], move.Range{From: after}, limit)
		if err != nil || len(rows) == 0 {
			return out, err
		}
		for _, row := range rows {
			after = t.KeyOf(row)
			if t.inSpan(after, &span) && len(out) < limit {
				out = append(out, row)
			}
		}
		if len(t.cluster) != 1 || len(rows) < limit {
			return out, nil
		}
	}
	return out, nil
}

// inSpan reports whether a key lies in a span of its partition.
func (t *table) inSpan(key move.Row, span *move.KeySpan) bool {
	n := len(span.Prefix)
	if t.compareKeys(key[:n], span.Prefix) != 0 {
		return false
	}
	if n == len(key) {
		return true
	}
	compare := orders[t.Columns[t.Key[n]].Type.OID]
	if span.FromValue {
		if c := compare(key[n], span.From); c < 0 || c == 0 && span.FromOpen {
			return false
		}
	}
	if span.ToValue {
		if c := compare(key[n], span.To); c > 0 || c == 0 && span.ToOpen {
			return false
		}
	}
	return true
}

// Rows implements move.Side.
func (s *Side) Rows(ctx context.Context, ti int) (int64, error) {
	p, err := s.list(ctx, ti, true, listAge)
	if err != nil {
		return 0, err
	}
	var n int64
	for _, rows := range p.rows {
		n += rows
	}
	return n, nil
}

// Split implements move.Side: ranges end with partitions.
func (s *Side) Split(ctx context.Context, ti, n int) ([]move.Range, error) {
	p, err := s.list(ctx, ti, true, listAgeRead)
	if err != nil {
		return nil, err
	}
	t := s.tables[ti]
	var out []move.Range
	var from move.Row
	var rows int64
	for i, key := range p.keys {
		if rows += p.rows[i]; rows < int64(n) || i == len(p.keys)-1 {
			continue
		}
		last, err := s.lastOf(ctx, t, key)
		if err != nil {
			return nil, err
		}
		if last == nil {
			continue
		}
		out = append(out, move.Range{From: from, To: last})
		from, rows = last, 0
	}
	return append(out, move.Range{From: from}), nil
}

// lastOf returns the greatest key of a partition, nil if it has no rows.
func (s *Side) lastOf(ctx context.Context, t *table, key move.Row) (move.Row, error) {
	if len(t.cluster) == 0 {
		return key, nil
	}
	if len(t.cluster) > 1 {
		rows, err := s.partition(ctx, t, key, move.Range{}, 0)
		if err != nil || len(rows) == 0 {
			return nil, err
		}
		return t.KeyOf(rows[len(rows)-1]), nil
	}
	args, err := t.bindKey(key)
	if err != nil {
		return nil, err
	}
	var where []string
	for _, c := range t.partition {
		where = append(where, quote(t.Columns[c].Name)+" = ?")
	}
	rows, err := s.query(ctx, t, "SELECT "+t.all+" FROM "+t.qualified()+" WHERE "+strings.Join(where, " AND ")+
		" ORDER BY "+quote(t.Columns[t.cluster[0]].Name)+" DESC LIMIT 1", 1, args...)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return t.KeyOf(rows[0]), nil
}
