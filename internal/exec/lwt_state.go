package exec

import (
	"bytes"
	"encoding/binary"

	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
)

// rowImage is a copy of one row as a conditional statement sees it; a nil
// image is a row that is not there.
type rowImage struct {
	clustering [][]byte // nil: the static row
	values     map[*schema.Column][]byte
}

func (r *rowImage) value(c *schema.Column) []byte {
	if r == nil {
		return nil
	}
	return r.values[c]
}

// read copies the rows that are asked about, out of one view.
func (r *casRequest) read(view *store.View) error {
	q := store.RowQuery{}
	if len(r.t.Clustering) > 0 {
		for _, row := range r.rows {
			b := store.Bound{Prefix: row.clustering, Inclusive: true}
			q.Slices = append(q.Slices, store.Slice{Start: b, End: b})
		}
	}
	rows := view.Partition(r.t, r.key, q)
	r.images = make([]*rowImage, len(r.rows))
	if rows.NextPartition() {
		r.static = r.image(rows.Static(), nil)
		for rows.Next() {
			img := r.image(rows.Row(), rows.Row().Clustering())
			if len(r.rows) == 0 {
				r.first = img
				break
			}
			for i, want := range r.rows {
				if compareClustering(r.t, want.clustering, img.clustering) == 0 {
					r.images[i] = img
				}
			}
		}
	}
	return rows.Close()
}

// image copies a row.
func (r *casRequest) image(row *store.Row, clustering [][]byte) *rowImage {
	if row == nil {
		return nil
	}
	img := &rowImage{values: map[*schema.Column][]byte{}}
	cols := r.t.Static
	if clustering != nil || len(r.t.Clustering) == 0 {
		cols = r.t.Regular
		img.clustering = make([][]byte, len(clustering))
		for i, v := range clustering {
			img.clustering[i] = bytes.Clone(v)
			img.values[r.t.Clustering[i]] = img.clustering[i]
		}
	}
	for _, c := range cols {
		if c.Type.IsMultiCell() {
			cells := row.Elements(nil, c)
			if len(cells) > 0 {
				img.values[c] = cellsValue(c.Type, cells)
			}
			continue
		}
		if cell, ok := row.Cell(c); ok {
			img.values[c] = append([]byte{}, cell.Value...)
		}
	}
	return img
}

// cellsValue puts the cells of a multi-cell column together to one value.
func cellsValue(t *cqltype.Type, cells []store.Cell) []byte {
	if t.Kind == cqltype.KindUDT {
		fields := make([][]byte, len(t.Elems))
		for _, c := range cells {
			if i := int(binary.BigEndian.Uint16(c.Path)); i < len(fields) {
				fields[i] = append([]byte{}, c.Value...)
			}
		}
		return cqltype.AppendTuple(nil, fields)
	}
	elems := make([][]byte, 0, 2*len(cells))
	for _, c := range cells {
		if t.Kind != cqltype.KindList {
			elems = append(elems, append([]byte{}, c.Path...))
		}
		if t.Kind != cqltype.KindSet {
			elems = append(elems, append([]byte{}, c.Value...))
		}
	}
	return cqltype.AppendCollection(nil, t, elems)
}

// holds checks every condition on the state read.
func (r *casRequest) holds() (bool, error) {
	ok := true
	check := func(row *casRow, img *rowImage) error {
		if (row.exists && img == nil) || (row.notExists && img != nil) {
			ok = false
		}
		for _, a := range row.asked {
			met, err := a.c.holds(a.x, img)
			if err != nil {
				return err
			}
			ok = ok && met
		}
		return nil
	}
	if r.statics != nil {
		if err := check(r.statics, r.static); err != nil {
			return false, err
		}
	}
	for i, row := range r.rows {
		if err := check(row, r.images[i]); err != nil {
			return false, err
		}
	}
	return ok, nil
}
