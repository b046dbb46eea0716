package store

import (
	"bytes"
	"context"
	"errors"

	"varve/internal/schema"
)

// Loss is a row that lives in one state of a table and has lost something in a
// later one.
type Loss struct {
	Row   bool  // all of the row is gone
	Cells int64 // values and elements gone from a row that is still there
	// Name tells which row it is, as ((1), 2026-…, 7). It is made when it is called.
	Name func() string
}

// Losses calls f for each row of a table that has lost something between two
// views, in token order. The views may be of different stores with as many
// shards: a backup's and that of the store it was made of. What is not there
// any more was deleted, has expired, or was purged since; nothing else takes
// data away.
func Losses(ctx context.Context, then, now *View, told, tnow *schema.Table, f func(Loss) error) error {
	old, cur := newRowStream(then, told), newRowStream(now, tnow)
	err := losses(ctx, old, cur, f)
	return errors.Join(err, old.rows.Close(), cur.rows.Close())
}

func losses(ctx context.Context, old, cur *rowStream, f func(Loss) error) error {
	if err := errors.Join(old.next(), cur.next()); err != nil {
		return err
	}
	for n := 0; old.row != nil; n++ {
		if n&255 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		c := -1
		if cur.row != nil {
			c = old.compare(cur)
		}
		if c > 0 {
			if err := cur.next(); err != nil {
				return err
			}
			continue
		}
		loss := Loss{Row: c < 0, Name: old.name}
		if c == 0 {
			loss.Cells = old.cellsGone(cur)
		}
		if loss.Row || loss.Cells > 0 {
			if err := f(loss); err != nil {
				return err
			}
		}
		if err := old.next(); err != nil {
			return err
		}
	}
	return nil
}

// rowStream gives a table's rows one after another, static rows first in
// their partitions.
type rowStream struct {
	t        *schema.Table
	rows     *Rows
	row      *Row // nil at the end
	inside   bool // a partition was entered
	old, cur []Cell
}

func newRowStream(v *View, t *schema.Table) *rowStream {
	return &rowStream{t: t, rows: v.Range(t, TokenRange{StartUnbounded: true, EndUnbounded: true}, RowQuery{}, nil)}
}

func (s *rowStream) next() error {
	for {
		if s.inside {
			if s.rows.Next() {
				s.row = s.rows.Row()
				return nil
			}
			s.inside = false
			if err := s.rows.Err(); err != nil {
				return err
			}
		}
		if !s.rows.NextPartition() {
			s.row = nil
			return s.rows.Err()
		}
		s.inside = true
		if st := s.rows.Static(); st != nil {
			s.row = st
			return nil
		}
	}
}

// compare orders two rows as they are stored; their tables' physical ids may differ.
func (s *rowStream) compare(o *rowStream) int {
	if c := bytes.Compare(s.rows.prefix[tablePrefixBytes:], o.rows.prefix[tablePrefixBytes:]); c != 0 {
		return c
	}
	return bytes.Compare(s.row.suffix, o.row.suffix)
}

func (s *rowStream) name() string {
	return describeRow(s.t, s.rows.k, s.row.Clustering())
}

// cellsGone counts the values and elements of a row that the same row has not any more.
func (s *rowStream) cellsGone(o *rowStream) (n int64) {
	columns := s.t.Regular
	if s.row == s.rows.Static() {
		columns = s.t.Static
	}
	for _, c := range columns {
		same := o.t.Columns[c.Name]
		if same == nil || same.ID != c.ID {
			continue // the column was dropped: the row's values went with it
		}
		if !c.Type.IsMultiCell() {
			if _, had := s.row.Cell(c); had {
				if _, has := o.row.Cell(same); !has {
					n++
				}
			}
			continue
		}
		s.old, s.cur = s.row.Elements(s.old[:0], c), o.row.Elements(s.cur[:0], same)
		i := 0
		for _, e := range s.old { // both are in order of their paths as they are stored
			for i < len(s.cur) && bytes.Compare(s.cur[i].Path, e.Path) < 0 {
				i++
			}
			if i == len(s.cur) || !bytes.Equal(s.cur[i].Path, e.Path) {
				n++
			}
		}
	}
	return n
}
