package exec

import (
	"context"
	"slices"
	"sort"

	"varve/internal/schema"
	"varve/internal/store"
)

// virtualParts makes a virtual table's rows keyspace by keyspace or table by
// table, so that a read that names one, or a page, does not make those of all.
// The table's key begins with keyspace_name, then table_name where perTable is set.
type virtualParts struct {
	// perTable: rows is called for each table kept, else once a keyspace with t nil.
	perTable bool
	keep     func(k *schema.Keyspace, t *schema.Table) bool
	// rows adds the rows of one part to v.
	rows func(ctx context.Context, e *Engine, v *virtualRows, k *schema.Keyspace, t *schema.Table) error
	// rowsFor takes the place of rows where they depend on who asks.
	rowsFor func(x *execution, v *virtualRows, t *schema.Table) error
}

func clientReal(k *schema.Keyspace, _ *schema.Table) bool    { return !k.Virtual }
func clientVirtual(k *schema.Keyspace, _ *schema.Table) bool { return k.Virtual }
func anyKeyspace(*schema.Keyspace, *schema.Table) bool       { return true }
func storedTable(_ *schema.Keyspace, t *schema.Table) bool   { return !t.Virtual }

// virtualPart is one keyspace or table, with the start of its rows' keys.
type virtualPart struct {
	k   *schema.Keyspace
	t   *schema.Table
	key virtualRow // as far as it is known
	n   int        // columns known
}

// eachPart calls f with the rows of each part that the read may need, in the
// order of the read, until it fails.
func (r *selectRun) eachPart(ctx context.Context, tr *store.TokenRange, f func([]virtualRow) error) error {
	sp := r.plan
	parts, err := r.virtualParts()
	if err != nil {
		return err
	}
	v := newVirtualRows(r.x.e.opts.Catalog.Snapshot(), sp.table.Keyspace, sp.table.Name)
	for i := range parts {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !inRange(tr, parts[i].key.token) {
			continue
		}
		v.rows = v.rows[:0]
		if f := sp.virtual.Parts.rowsFor; f != nil {
			err = f(r.x, v, parts[i].t)
		} else {
			err = sp.virtual.Parts.rows(ctx, r.x.e, v, parts[i].k, parts[i].t)
		}
		if err != nil {
			return err
		}
		rows, err := r.sortVirtual(v.rows)
		if err != nil {
			return err
		}
		if err := f(rows); err != nil {
			return err
		}
	}
	return nil
}

// virtualParts lists the parts that the restrictions and the paging state leave, in the order of the read.
func (r *selectRun) virtualParts() ([]virtualPart, error) {
	sp := r.plan
	keyspaces, err := r.namesOf("keyspace_name")
	if err != nil {
		return nil, err
	}
	var tables []string
	if sp.virtual.Parts.perTable {
		if tables, err = r.namesOf("table_name"); err != nil {
			return nil, err
		}
	}
	var parts []virtualPart
	var buf []byte
	add := func(k *schema.Keyspace, t *schema.Table) error {
		if t == nil && sp.virtual.Parts.perTable || !sp.virtual.Parts.keep(k, t) {
			return nil
		}
		p := virtualPart{k: k, t: t, n: 1}
		p.key.vals = append(p.key.vals, []byte(k.Name))
		if t != nil {
			p.key.vals, p.n = append(p.key.vals, []byte(t.Name)), 2
		}
		var err error
		p.key.token, err = virtualToken(&buf, sp.table, p.key.vals[:len(sp.table.PartitionKey)])
		if err == nil && !r.partPassed(&p) {
			parts = append(parts, p)
		}
		return err
	}
	snap := r.x.e.opts.Catalog.Snapshot()
	for name := range names(snap.Keyspaces, keyspaces) {
		k := snap.Keyspaces[name]
		if !sp.virtual.Parts.perTable {
			if err := add(k, nil); err != nil {
				return nil, err
			}
			continue
		}
		for name := range names(k.Tables, tables) {
			if err := add(k, k.Tables[name]); err != nil {
				return nil, err
			}
		}
	}
	sort.Slice(parts, func(i, j int) bool { return r.comparePart(&parts[i], parts[j].key.token, parts[j].key.vals) < 0 })
	return parts, nil
}

// names yields the keys of m, or those of only that m has.
func names[V any](m map[string]V, only []string) func(func(string) bool) {
	return func(yield func(string) bool) {
		if only == nil {
			for name := range m {
				if !yield(name) {
					return
				}
			}
			return
		}
		slices.Sort(only)
		for _, name := range slices.Compact(only) {
			if _, ok := m[name]; ok && !yield(name) {
				return
			}
		}
	}
}

// namesOf are the values that an equality or IN leaves of a key column; nil: it is free.
func (r *selectRun) namesOf(column string) ([]string, error) {
	w := r.plan.where
	for _, list := range [...][]*restriction{w.partition, w.clustering} {
		for _, f := range list {
			if f == nil || f.multi || f.first().Name != column || f.op != restrictEq && f.op != restrictIn {
				continue
			}
			values, err := f.inValues(r.x)
			if err != nil {
				return nil, err
			}
			out := make([]string, len(values))
			for i, v := range values {
				out[i] = string(v)
			}
			return out, nil
		}
	}
	return nil, nil
}

// comparePart orders a part against a place of the read: partitions by token
// and key, the parts of one partition as its rows lie.
func (r *selectRun) comparePart(p *virtualPart, token int64, vals [][]byte) int {
	t := r.plan.table
	if p.key.token != token {
		if p.key.token < token {
			return -1
		}
		return 1
	}
	npk := len(t.PartitionKey)
	for i := range npk {
		if n := compareVirtualKey(t, i, p.key.vals[i], vals[i]); n != 0 {
			return n
		}
	}
	n := comparePrefix(t.Clustering, p.key.vals[npk:p.n], vals[npk:])
	if r.plan.reversed {
		n = -n
	}
	return n
}

// partPassed: an earlier page returned all of the part's rows.
func (r *selectRun) partPassed(p *virtualPart) bool {
	s := r.resume
	if s == nil || s.key == nil {
		return false
	}
	var buf []byte
	token, err := virtualToken(&buf, r.plan.table, s.key)
	if err != nil {
		return false
	}
	n := r.comparePart(p, token, append(slices.Clone(s.key), s.clustering...))
	return n < 0 || n == 0 && s.done
}
