package exec

import (
	"encoding/binary"

	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
)

// elementSelector is m[key] of a map, or s[elem] of a set.
type elementSelector struct {
	of   selector
	key  term
	text string
}

func (s *elementSelector) typ() *cqltype.Type {
	t := s.of.typ()
	return t.Elems[len(t.Elems)-1]
}
func (s *elementSelector) name() string { return s.text }

func (s *elementSelector) eval(r *rowContext) ([]byte, error) {
	key, err := boundKey(r, s.key, s.text)
	if err != nil || key == nil {
		return nil, err
	}
	t := s.of.typ()
	if c, ok := s.of.(*columnSelector); ok && t.IsMultiCell() && r.virt == nil {
		cell := findCell(r, c.c, key)
		switch {
		case cell == nil:
			return nil, nil
		case t.Kind == cqltype.KindSet:
			return cell.Path, nil
		}
		return cell.Value, nil
	}
	b, err := s.of.eval(r)
	if err != nil || b == nil {
		return nil, err
	}
	return frozenElement(t, b, key)
}

func boundKey(r *rowContext, key term, text string) ([]byte, error) {
	if key == nil {
		return nil, nil
	}
	v, err := key.eval(r.x)
	if err != nil {
		return nil, err
	}
	if v.Unset {
		return nil, invalidf("Invalid unset value for %s", text)
	}
	return v.Bytes, nil
}

func findCell(r *rowContext, c *schema.Column, key []byte) *store.Cell {
	row := r.of(c)
	if row == nil {
		return nil
	}
	r.cells = row.Elements(r.cells[:0], c)
	for i := range r.cells {
		if cqltype.Compare(c.Type.Elems[0], r.cells[i].Path, key) == 0 {
			return &r.cells[i]
		}
	}
	return nil
}

// frozenElement finds an element in a whole collection value.
func frozenElement(t *cqltype.Type, b, key []byte) ([]byte, error) {
	elems, err := cqltype.SplitCollection(t, b)
	if err != nil {
		return nil, invalidf("%s", err.Error())
	}
	step := 1
	if t.Kind == cqltype.KindMap {
		step = 2
	}
	for i := 0; i < len(elems); i += step {
		if cqltype.Compare(t.Elems[0], elems[i], key) == 0 {
			return elems[i+step-1], nil
		}
	}
	return nil, nil
}

// sliceSelector is m[from..to] of a map or set; a nil end is open.
type sliceSelector struct {
	of       selector
	from, to term
	text     string
}

func (s *sliceSelector) typ() *cqltype.Type { return s.of.typ() }
func (s *sliceSelector) name() string       { return s.text }

func (s *sliceSelector) eval(r *rowContext) ([]byte, error) {
	from, err := boundKey(r, s.from, s.text)
	if err != nil {
		return nil, err
	}
	to, err := boundKey(r, s.to, s.text)
	if err != nil {
		return nil, err
	}
	t := s.of.typ()
	if c, ok := s.of.(*columnSelector); ok && t.IsMultiCell() && r.virt == nil {
		return r.join(t, cellRange(r, c.c, from, to)), nil
	}
	b, err := s.of.eval(r)
	if err != nil || b == nil {
		return nil, err
	}
	elems, err := cqltype.SplitCollection(t, b)
	if err != nil {
		return nil, invalidf("%s", err.Error())
	}
	step := 1
	if t.Kind == cqltype.KindMap {
		step = 2
	}
	out := make([][]byte, 0, len(elems))
	for i := 0; i < len(elems); i += step {
		if within(t.Elems[0], elems[i], from, to) {
			out = append(out, elems[i:i+step]...)
		}
	}
	return cqltype.AppendCollection(nil, t, out), nil
}

func within(t *cqltype.Type, v, from, to []byte) bool {
	return (from == nil || cqltype.Compare(t, v, from) >= 0) && (to == nil || cqltype.Compare(t, v, to) <= 0)
}

// cellRange are a multi-cell column's cells with paths between two keys.
func cellRange(r *rowContext, c *schema.Column, from, to []byte) []store.Cell {
	row := r.of(c)
	if row == nil {
		return nil
	}
	r.cells = row.Elements(r.cells[:0], c)
	n := 0
	for i := range r.cells {
		if within(c.Type.Elems[0], r.cells[i].Path, from, to) {
			r.cells[n] = r.cells[i]
			n++
		}
	}
	return r.cells[:n]
}

// metaSelector is WRITETIME, MAXWRITETIME or TTL of a column or a part of it.
type metaSelector struct {
	kind     string // as in cql.Meta
	c        *schema.Column
	many     bool // a list, one entry a cell
	field    int  // of a user type; -1: none
	key      term // m[key]
	slice    bool // m[from..to]
	from, to term
	text     string
}

func (s *metaSelector) name() string { return s.text }

func (s *metaSelector) elemType() *cqltype.Type {
	if s.kind == "ttl" {
		return cqltype.Int
	}
	return cqltype.Bigint
}

func (s *metaSelector) typ() *cqltype.Type {
	if s.many && s.kind != "maxwritetime" {
		return cqltype.ListOf(s.elemType())
	}
	return s.elemType()
}

func (s *metaSelector) eval(r *rowContext) ([]byte, error) {
	if r.virt != nil {
		return nil, nil
	}
	cells, err := s.cells(r)
	if err != nil || len(cells) == 0 {
		return nil, err
	}
	if s.kind == "maxwritetime" {
		newest := cells[0].Timestamp
		for i := range cells {
			newest = max(newest, cells[i].Timestamp)
		}
		return binary.BigEndian.AppendUint64(nil, uint64(newest)), nil
	}
	if !s.many {
		return s.value(r, &cells[0]), nil
	}
	out := binary.BigEndian.AppendUint32(nil, uint32(len(cells)))
	for i := range cells {
		out = appendCell(out, s.value(r, &cells[i]))
	}
	return out, nil
}

func (s *metaSelector) value(r *rowContext, c *store.Cell) []byte {
	if s.kind != "ttl" {
		return binary.BigEndian.AppendUint64(nil, uint64(c.Timestamp))
	}
	if c.TTL == 0 {
		return nil
	}
	return binary.BigEndian.AppendUint32(nil, uint32(c.Expiry-r.x.nowSec))
}

// cells are the cells asked for; the slice is the run's.
func (s *metaSelector) cells(r *rowContext) ([]store.Cell, error) {
	row := r.of(s.c)
	if row == nil {
		return nil, nil
	}
	if !s.c.Type.IsMultiCell() {
		return s.frozenCells(r, row)
	}
	switch {
	case s.field >= 0:
		r.cells = row.Elements(r.cells[:0], s.c)
		for i := range r.cells {
			if fieldOf(r.cells[i].Path) == s.field {
				return r.cells[i : i+1], nil
			}
		}
		return nil, nil
	case s.key != nil:
		key, err := boundKey(r, s.key, s.text)
		if err != nil || key == nil {
			return nil, err
		}
		if c := findCell(r, s.c, key); c != nil {
			r.cells[0] = *c
			return r.cells[:1], nil
		}
		return nil, nil
	case s.slice:
		from, err := boundKey(r, s.from, s.text)
		if err != nil {
			return nil, err
		}
		to, err := boundKey(r, s.to, s.text)
		if err != nil {
			return nil, err
		}
		return cellRange(r, s.c, from, to), nil
	}
	r.cells = row.Elements(r.cells[:0], s.c)
	return r.cells, nil
}

// frozenCells is the one cell of a simple column, when what is asked of it is there.
func (s *metaSelector) frozenCells(r *rowContext, row *store.Row) ([]store.Cell, error) {
	cell, ok := row.Cell(s.c)
	if !ok {
		return nil, nil
	}
	if s.key != nil {
		key, err := boundKey(r, s.key, s.text)
		if err != nil || key == nil {
			return nil, err
		}
		b, err := frozenElement(s.c.Type, cell.Value, key)
		if err != nil || b == nil {
			return nil, err
		}
	}
	r.cells = append(r.cells[:0], cell)
	return r.cells, nil
}

// appendCell appends a value in the form of the wire: its length, or -1 for
// null, and its bytes.
func appendCell(dst, v []byte) []byte {
	if v == nil {
		return append(dst, 0xff, 0xff, 0xff, 0xff)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(v)))
	return append(dst, v...)
}
