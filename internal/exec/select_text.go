package exec

import (
	"slices"
	"strconv"
	"strings"

	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
)

// queryText rebuilds the read's text from its plan and values, as Cassandra's
// ReadCommand does for warnings and the log.
func (r *selectRun) queryText() string {
	sp := r.plan
	var b strings.Builder
	b.WriteString("SELECT " + sp.columnsText())
	b.WriteString(" FROM " + cqltype.MaybeQuote(sp.table.Keyspace) + "." + cqltype.MaybeQuote(sp.table.Name))
	if conds := r.conditions(); len(conds) > 0 {
		b.WriteString(" WHERE " + strings.Join(conds, " AND "))
	}
	if sp.reversed {
		b.WriteString(" ORDER BY ")
		for i, c := range sp.table.Clustering {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(cqltype.MaybeQuote(c.Name))
			if c.Desc {
				b.WriteString(" ASC")
			} else {
				b.WriteString(" DESC")
			}
		}
	}
	if n := r.rowLimit(); n != noLimit {
		b.WriteString(" LIMIT " + strconv.FormatInt(n, 10))
	}
	switch {
	case sp.distinct:
		b.WriteString(" PER PARTITION LIMIT 1")
	case r.perLimit != noLimit:
		b.WriteString(" PER PARTITION LIMIT " + strconv.FormatInt(r.perLimit, 10))
	}
	b.WriteString(" ALLOW FILTERING")
	return b.String()
}

// rowLimit is the number of rows that the read was to return: the page's or
// the statement's, whichever is less.
func (r *selectRun) rowLimit() int64 {
	n, err := evalLimit(r.x, r.plan.limit)
	if err != nil {
		n = noLimit
	}
	if p := int64(r.x.p.PageSize); p > 0 {
		n = min(n, p)
	}
	return n
}

// columnsText lists the columns read that are not in the primary key, those
// restricted taken in; * when all, or only key columns, are.
func (sp *selectPlan) columnsText() string {
	if sp.wild {
		return "*"
	}
	var names []string
	for _, cols := range [...][]*schema.Column{sp.table.Static, sp.table.Regular} {
		for _, c := range cols {
			if slices.Contains(sp.used, c) || sp.restricts(c) {
				names = append(names, cqltype.MaybeQuote(c.Name))
			}
		}
	}
	if names == nil {
		return "*"
	}
	return strings.Join(names, ", ")
}

func (sp *selectPlan) restricts(c *schema.Column) bool {
	for _, r := range sp.where.other {
		if r.first() == c {
			return true
		}
	}
	return false
}

// conditions are the terms of the rebuilt WHERE.
func (r *selectRun) conditions() []string {
	w := r.plan.where
	var out []string
	if !w.keyRange && !w.usesIndex && len(r.sc.keys) > 0 {
		k := r.sc.keys[max(0, min(r.at, len(r.sc.keys)-1))]
		if comps, err := k.Components(r.plan.table); err == nil {
			for i, c := range w.t.PartitionKey {
				out = append(out, conditionText(c, "=", comps[i]))
			}
		}
	}
	out = append(out, r.tokenConditions()...)
	out = append(out, r.sliceConditions()...)
	for _, fs := range [...][]boundFilter{r.keyFilters, r.staticFilters, r.rowFilters} {
		for i := range fs {
			out = append(out, fs[i].conditions()...)
		}
	}
	return out
}

func conditionText(c *schema.Column, op string, v []byte) string {
	return cqltype.MaybeQuote(c.Name) + " " + op + " " + string(cqltype.FormatLiteral(nil, c.Type, v))
}

func (r *selectRun) tokenConditions() []string {
	w := r.plan.where
	if w.token == nil || !w.keyRange {
		return nil
	}
	tr, _, err := r.tokenBounds()
	if err != nil {
		return nil
	}
	names := make([]string, len(w.t.PartitionKey))
	for i, c := range w.t.PartitionKey {
		names[i] = cqltype.MaybeQuote(c.Name)
	}
	left := "token(" + strings.Join(names, ", ") + ") "
	op := func(inclusive bool, op string) string {
		if inclusive {
			return op + "= "
		}
		return op + " "
	}
	var out []string
	if !tr.StartUnbounded {
		out = append(out, left+op(tr.StartInclusive, ">")+strconv.FormatInt(tr.StartToken, 10))
	}
	if !tr.EndUnbounded {
		out = append(out, left+op(tr.EndInclusive, "<")+strconv.FormatInt(tr.EndToken, 10))
	}
	return out
}

// sliceConditions write what slices carry out of the clustering restrictions:
// whole keys as a tuple, else column by column, of a range the end that comes
// first in the table's order first.
func (r *selectRun) sliceConditions() []string {
	w, cols := r.plan.where, r.plan.table.Clustering
	sl := r.sc.slices
	if len(w.clustering) == 0 || len(sl) == 0 {
		return nil
	}
	if len(cols) > 1 && pointSlices(sl, len(cols)) {
		return []string{pointText(cols, sl)}
	}
	var out []string
	pos := 0
	for _, f := range w.clustering {
		if f.op == restrictContains || f.first().Position != pos {
			break
		}
		if f.op == restrictSlice {
			return append(out, r.rangeConditions(f)...)
		}
		vs, err := w.values(r.x, f)
		if err != nil {
			return out
		}
		out = append(out, valueConditions(f.cols, vs)...)
		pos = f.last().Position + 1
	}
	return out
}

// pointSlices: each slice is one row.
func pointSlices(sl []store.Slice, n int) bool {
	for _, s := range sl {
		if len(s.Start.Prefix) != n || !sameComponents(s.Start.Prefix, s.End.Prefix) {
			return false
		}
	}
	return true
}

func pointText(cols []*schema.Column, sl []store.Slice) string {
	rows := make([]string, len(sl))
	for i, s := range sl {
		rows[i] = tupleText(cols, s.Start.Prefix)
	}
	if len(rows) == 1 {
		return columnTuple(cols) + " = " + rows[0]
	}
	return columnTuple(cols) + " IN (" + strings.Join(rows, ", ") + ")"
}

func columnTuple(cols []*schema.Column) string {
	names := make([]string, len(cols))
	for i, c := range cols {
		names[i] = cqltype.MaybeQuote(c.Name)
	}
	if len(names) == 1 {
		return names[0]
	}
	return "(" + strings.Join(names, ", ") + ")"
}

func tupleText(cols []*schema.Column, vs [][]byte) string {
	text := make([]string, len(vs))
	for i, v := range vs {
		text[i] = string(cqltype.FormatLiteral(nil, cols[i].Type, v))
	}
	if len(text) == 1 {
		return text[0]
	}
	return "(" + strings.Join(text, ", ") + ")"
}

// valueConditions write an equality column by column, or an IN.
func valueConditions(cols []*schema.Column, vs [][][]byte) []string {
	if len(vs) != 1 {
		rows := make([]string, len(vs))
		for i, v := range vs {
			rows[i] = tupleText(cols, v)
		}
		return []string{columnTuple(cols) + " IN (" + strings.Join(rows, ", ") + ")"}
	}
	out := make([]string, len(cols))
	for i, c := range cols {
		out[i] = conditionText(c, "=", vs[0][i])
	}
	return out
}

func (r *selectRun) rangeConditions(f *restriction) []string {
	w := r.plan.where
	lo, err := w.tupleEnd(r.x, f, f.lo)
	if err != nil {
		return nil
	}
	hi, err := w.tupleEnd(r.x, f, f.hi)
	if err != nil {
		return nil
	}
	var out []string
	side := func(e tupleEnd, below bool, i int) {
		if i < len(e.values) {
			out = append(out, conditionText(f.cols[i], endOp(below, e.inclusive), e.values[i]))
		}
	}
	for i := range max(len(lo.values), len(hi.values)) {
		if f.first().Desc {
			side(hi, true, i)
			side(lo, false, i)
		} else {
			side(lo, false, i)
			side(hi, true, i)
		}
	}
	return out
}

func endOp(below, inclusive bool) string {
	op := ">"
	if below {
		op = "<"
	}
	if inclusive {
		op += "="
	}
	return op
}

// conditions writes a filter.
func (f *boundFilter) conditions() []string {
	c := f.r.first()
	name := cqltype.MaybeQuote(c.Name)
	switch f.r.op {
	case restrictEq:
		out := make([]string, len(f.r.cols))
		for i, c := range f.r.cols {
			out[i] = conditionText(c, "=", f.eq[i])
		}
		return out
	case restrictIn:
		vals := make([]string, len(f.in))
		for i, v := range f.in {
			vals[i] = string(cqltype.FormatLiteral(nil, c.Type, v))
		}
		return []string{name + " IN [" + strings.Join(vals, ", ") + "]"}
	case restrictSlice:
		var out []string
		if f.lo != nil {
			out = append(out, conditionText(c, endOp(false, f.r.lo.inclusive), f.lo))
		}
		if f.hi != nil {
			out = append(out, conditionText(c, endOp(true, f.r.hi.inclusive), f.hi))
		}
		return out
	}
	var out []string
	kt, vt := c.Type.Elems[0], c.Type.Elems[len(c.Type.Elems)-1]
	lit := func(t *cqltype.Type, v []byte) string { return string(cqltype.FormatLiteral(nil, t, v)) }
	for _, v := range f.contains {
		out = append(out, name+" CONTAINS "+lit(vt, v))
	}
	for _, v := range f.keys {
		out = append(out, name+" CONTAINS KEY "+lit(kt, v))
	}
	for _, e := range f.entries {
		out = append(out, name+"["+lit(kt, e[0])+"] = "+lit(vt, e[1]))
	}
	return out
}
