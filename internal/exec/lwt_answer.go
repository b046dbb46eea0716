package exec

import (
	"cmp"
	"slices"

	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/schema"
)

var (
	appliedTrue  = []byte{0, 0, 0, 1, 1}
	appliedFalse = []byte{0, 0, 0, 1, 0}
)

func (r *casRequest) appliedSpec() cqlwire.ColumnSpec {
	return cqlwire.ColumnSpec{Keyspace: r.t.Keyspace, Table: r.t.Name, Name: "[applied]", Type: cqltype.Boolean}
}

// collectColumns decides which columns a refusal returns: all of them for
// [NOT] EXISTS, else those asked about, with the key before them in batches.
func (r *casRequest) collectColumns() {
	slices.SortStableFunc(r.rows, func(a, b *casRow) int { return compareClustering(r.t, a.clustering, b.clustering) })
	if r.all {
		r.columns = allColumns(r.t)
		return
	}
	if r.batch {
		r.columns = append(append(r.columns, r.t.PartitionKey...), r.t.Clustering...)
	}
	for _, s := range r.stmts {
		if s.m.cond == nil {
			continue
		}
		for _, cs := range [...][]ifCondition{s.m.cond.regulars, s.m.cond.statics} {
			for i := range cs {
				if !slices.Contains(r.columns, cs[i].col) {
					r.columns = append(r.columns, cs[i].col)
				}
			}
		}
	}
}

func compareClustering(t *schema.Table, a, b [][]byte) int {
	for i := range min(len(a), len(b)) {
		if n := compareColumn(t.Clustering[i], a[i], b[i]); n != 0 {
			return n
		}
	}
	return cmp.Compare(len(a), len(b))
}

// refusal is the answer [applied] = false with what the rows hold.
func (r *casRequest) refusal() *Result {
	res := &Result{Kind: cqlwire.ResultRows, Columns: []cqlwire.ColumnSpec{r.appliedSpec()}}
	var found []*rowImage
	for _, img := range r.images {
		if img != nil {
			found = append(found, img)
		}
	}
	if r.first != nil {
		found = append(found, r.first)
	}
	if len(found) == 0 && r.static != nil && r.returnsStatic() {
		found = append(found, nil)
	}
	if len(found) == 0 {
		res.Count, res.Data = 1, appliedFalse
		return res
	}
	for _, c := range r.columns {
		res.Columns = append(res.Columns, specOf(r.t, c))
	}
	for _, img := range found {
		res.Data = append(res.Data, appliedFalse...)
		for _, c := range r.columns {
			res.Data = appendCell(res.Data, r.cell(c, img))
		}
		res.Count++
	}
	return res
}

// returnsStatic reports that the static row holds something that is returned.
func (r *casRequest) returnsStatic() bool {
	for _, c := range r.columns {
		if c.Kind == schema.Static && r.cell(c, nil) != nil {
			return true
		}
	}
	return false
}

// cell is what a refusal tells of a column of a row.
func (r *casRequest) cell(c *schema.Column, img *rowImage) []byte {
	switch c.Kind {
	case schema.PartitionKey:
		return r.comps[c.Position]
	case schema.Static:
		if r.all && !r.touchesStatics {
			return nil
		}
		return r.static.value(c)
	case schema.Regular:
		if r.all && !r.touchesRows {
			return nil
		}
	}
	return img.value(c)
}
