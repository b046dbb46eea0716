package exec

import (
	"bytes"
	"strings"

	"varve/internal/cql"
	"varve/internal/cqltype"
	"varve/internal/schema"
)

// planGroups plans GROUP BY, and aggregates without it.
func (sp *selectPlan) planGroups(list *selectorPlanner, st *cql.Select) error {
	if len(st.GroupBy) > 0 {
		sp.groupBy = true
		if err := sp.planGroupBy(list, st.GroupBy); err != nil {
			return err
		}
	}
	sp.grouped = sp.groupBy || len(sp.aggs) > 0
	if !sp.grouped {
		return nil
	}
	if !sp.groupBy && st.PerPartitionLimit != nil {
		return invalidf("PER PARTITION LIMIT is not allowed with aggregate queries.")
	}
	for i, s := range sp.selectors {
		sp.selectors[i] = sp.overGroups(s)
	}
	return nil
}

// overGroups is a selector evaluated once a group: parts without aggregates
// keep the value they had in the group's first row.
func (sp *selectPlan) overGroups(s selector) selector {
	if !aggregates(s) {
		slot := &slotSelector{of: s, slot: len(sp.slots)}
		sp.slots = append(sp.slots, s)
		return slot
	}
	switch s := s.(type) {
	case *funcSelector:
		c := *s
		c.args = make([]selector, len(s.args))
		for i, a := range s.args {
			c.args[i] = sp.overGroups(a)
		}
		return &c
	case *buildSelector:
		c := *s
		c.parts = make([]selector, len(s.parts))
		for i, a := range s.parts {
			c.parts[i] = sp.overGroups(a)
		}
		return &c
	case *fieldSelector:
		c := *s
		c.of = sp.overGroups(s.of)
		return &c
	case *elementSelector:
		c := *s
		c.of = sp.overGroups(s.of)
		return &c
	case *sliceSelector:
		c := *s
		c.of = sp.overGroups(s.of)
		return &c
	case *hintSelector:
		c := *s
		c.selector = sp.overGroups(s.selector)
		return &c
	}
	return s
}

// aggregates reports an aggregate in a selector.
func aggregates(s selector) bool {
	some := func(ss []selector) bool {
		for _, s := range ss {
			if aggregates(s) {
				return true
			}
		}
		return false
	}
	switch s := s.(type) {
	case *aggSelector:
		return true
	case *funcSelector:
		return some(s.args)
	case *buildSelector:
		return some(s.parts)
	case *fieldSelector:
		return aggregates(s.of)
	case *elementSelector:
		return aggregates(s.of)
	case *sliceSelector:
		return aggregates(s.of)
	case *hintSelector:
		return aggregates(s.selector)
	}
	return false
}

const groupOrderText = "Group by currently only support groups of columns following their declared order in the PRIMARY KEY"

func (sp *selectPlan) planGroupBy(list *selectorPlanner, groups []cql.Expr) error {
	t := sp.table
	keys := append(append([]*schema.Column(nil), t.PartitionKey...), t.Clustering...)
	next := 0
	for _, g := range groups {
		c, err := sp.groupColumn(list, g)
		if err != nil {
			return err
		}
		for {
			if next == len(keys) {
				return invalidf(groupOrderText)
			}
			k := keys[next]
			next++
			if k.Kind == schema.Clustering {
				sp.groupPrefix++
			}
			if k == c {
				break
			}
			if !sp.where.fixed(k) {
				return invalidf(groupOrderText)
			}
		}
	}
	if next < len(keys) && keys[next].Kind == schema.PartitionKey {
		return invalidf("Group by is not supported on only a part of the partition key")
	}
	if sp.distinct && sp.groupPrefix > 0 {
		return invalidf("Grouping on clustering columns is not allowed for SELECT DISTINCT queries")
	}
	return nil
}

// groupColumn is the primary key column behind one element of GROUP BY.
func (sp *selectPlan) groupColumn(list *selectorPlanner, g cql.Expr) (*schema.Column, error) {
	if col, ok := g.(*cql.Column); ok {
		c := sp.table.Columns[col.Name]
		if c == nil {
			return nil, undefinedColumn(sp.table, col.Name)
		}
		if c.Kind != schema.PartitionKey && c.Kind != schema.Clustering {
			return nil, invalidf("Group by is currently only supported on the columns of the PRIMARY KEY, got %s", c.Name)
		}
		if sp.groupFunc != nil {
			return nil, invalidf("Functions are only supported on the last element of the GROUP BY clause")
		}
		return c, nil
	}
	sub := &selectorPlanner{p: list.p, t: sp.table}
	s, err := sub.plan(g, nil)
	if err != nil {
		return nil, err
	}
	if len(sub.aggs) > 0 {
		return nil, invalidf("Aggregate functions are not supported within the GROUP BY clause, got: %s",
			sub.aggs[0].agg.Name)
	}
	switch len(sub.used) {
	case 0:
		return nil, invalidf("GROUP BY functions must have one clustering column name as parameter")
	case 1:
	default:
		names := make([]string, len(sub.used))
		for i, c := range sub.used {
			names[i] = c.Name
		}
		return nil, invalidf("GROUP BY functions accept only one clustering column as parameter, got: %s",
			strings.Join(names, ","))
	}
	c := sub.used[0]
	if c.Kind != schema.Clustering {
		return nil, invalidf("Group by functions are only supported on clustering columns, got %s", c.Name)
	}
	if sp.groupFunc != nil {
		return nil, invalidf("Functions are only supported on the last element of the GROUP BY clause")
	}
	sp.groupFunc = s
	return c, nil
}

// groupState is the group being gathered.
type groupState struct {
	open   bool
	key    [][]byte // partition key
	prefix [][]byte // clustering prefix, the function's value last
	static bool     // of a partition's static row alone
	// sortKeys are the values that its first row is sorted by, where groups are.
	sortKeys [][]byte
}

// sameGroup reports whether the row at hand goes on with the open group.
func (sp *selectPlan) sameGroup(g *groupState, r *rowContext) (bool, error) {
	if !sp.groupBy {
		return true, nil
	}
	for i, k := range r.key {
		if !bytes.Equal(k, g.key[i]) {
			return false, nil
		}
	}
	if sp.groupPrefix == 0 {
		return true, nil
	}
	if g.static || len(g.prefix) == 0 {
		return false, nil
	}
	for i := range sp.groupPrefix {
		c := sp.table.Clustering[i]
		t, v := c.Type, r.column(c)
		if sp.groupFunc != nil && i == sp.groupPrefix-1 {
			var err error
			if v, err = sp.groupFunc.eval(r); err != nil {
				return false, err
			}
			t = sp.groupFunc.typ()
		}
		if !sameValue(t, v, g.prefix[i]) {
			return false, nil
		}
	}
	return true, nil
}

func sameValue(t *cqltype.Type, a, b []byte) bool {
	if a == nil || b == nil {
		return (a == nil) == (b == nil)
	}
	return cqltype.Compare(t, a, b) == 0
}

// startGroup opens a group with the row at hand.
func (sp *selectPlan) startGroup(g *groupState, r *rowContext) error {
	g.open = true
	if sp.groupBy {
		g.key = copyAll(g.key, r.key)
		g.static = r.row == nil && r.virt == nil
		g.prefix = g.prefix[:0]
		for i := 0; i < sp.groupPrefix && !g.static; i++ {
			v := r.column(sp.table.Clustering[i])
			if sp.groupFunc != nil && i == sp.groupPrefix-1 {
				var err error
				if v, err = sp.groupFunc.eval(r); err != nil {
					return err
				}
			}
			g.prefix = append(g.prefix, bytes.Clone(v))
		}
	}
	for i, s := range sp.slots {
		v, err := s.eval(r)
		if err != nil {
			return err
		}
		r.slots[i] = bytes.Clone(v)
	}
	for _, a := range r.aggs {
		a.Reset()
	}
	return nil
}

// addRow takes the row at hand into the group's aggregates.
func (sp *selectPlan) addRow(r *rowContext) error {
	for _, a := range sp.aggs {
		if err := a.add(r); err != nil {
			return err
		}
	}
	return nil
}

func copyAll(dst, src [][]byte) [][]byte {
	dst = dst[:0]
	for _, b := range src {
		dst = append(dst, append([]byte{}, b...))
	}
	return dst
}
