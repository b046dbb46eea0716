package exec

import (
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
	b.WriteString(" ALLOW FILTERING")
	return b.String()
}

// rowLimit is the number of rows that the read was to return: the page's or
// the statement's, whichever is less.
func (r *selectRun) rowLimit() int64 {
	n, err := evalLimit(r.x, r.plan.limit, "LIMIT")
	if err != nil {
		n = noLimit
	}
	if p := int64(r.x.p.PageSize); p > 0 {
		n = min(n, p)
	}
	return n
}

// columnsText lists the columns that are not in the primary key; * when all,
// or only key columns, were asked for.
func (sp *selectPlan) columnsText() string {
	if sp.wild {
		return "*"
	}
	var names []string
	for _, cols := range [...][]*schema.Column{sp.table.Static, sp.table.Regular} {
		for _, c := range cols {
			for _, u := range sp.used {
				if c == u {
					names = append(names, cqltype.MaybeQuote(c.Name))
				}
			}
		}
	}
	if names == nil {
		return "*"
	}
	return strings.Join(names, ", ")
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

// sliceConditions write the clustering slices: equal values of a column as =,
// ends as comparisons, the one that comes first in the table's order first.
func (r *selectRun) sliceConditions() []string {
	slices := r.sc.slices
	switch {
	case len(slices) == 0 || len(r.plan.where.clustering) == 0:
		return nil
	case len(slices) > 1:
		return []string{r.manySlices(slices)}
	}
	cols := r.plan.table.Clustering
	s := slices[0]
	var out []string
	i := 0
	for i < len(s.Start.Prefix) && i < len(s.End.Prefix) && compareColumn(cols[i], s.Start.Prefix[i], s.End.Prefix[i]) == 0 {
		out = append(out, conditionText(cols[i], "=", s.Start.Prefix[i]))
		i++
	}
	if i < len(s.Start.Prefix) {
		out = append(out, conditionText(cols[i], endOp(cols[i].Desc, s.Start.Inclusive), s.Start.Prefix[i]))
	}
	if i < len(s.End.Prefix) {
		out = append(out, conditionText(cols[i], endOp(!cols[i].Desc, s.End.Inclusive), s.End.Prefix[i]))
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

// manySlices writes several rows as IN; other sets of slices have no short form.
func (r *selectRun) manySlices(slices []store.Slice) string {
	cols := r.plan.table.Clustering
	n := len(slices[0].Start.Prefix)
	names := make([]string, n)
	for i := range names {
		names[i] = cqltype.MaybeQuote(cols[i].Name)
	}
	rows := make([]string, 0, len(slices))
	for _, s := range slices {
		if len(s.Start.Prefix) != n || len(s.End.Prefix) != n {
			return "(slices)"
		}
		vals := make([]string, n)
		for i, v := range s.Start.Prefix {
			vals[i] = string(cqltype.FormatLiteral(nil, cols[i].Type, v))
		}
		text := strings.Join(vals, ", ")
		if n > 1 {
			text = "(" + text + ")"
		}
		rows = append(rows, text)
	}
	left := strings.Join(names, ", ")
	if n > 1 {
		left = "(" + left + ")"
	}
	return left + " IN (" + strings.Join(rows, ", ") + ")"
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
		return []string{name + " IN (" + strings.Join(vals, ", ") + ")"}
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
