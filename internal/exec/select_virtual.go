package exec

import (
	"bytes"
	"context"
	"sort"

	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
)

// virtualRow is a row of a virtual table with its place in token order.
type virtualRow struct {
	token int64
	vals  [][]byte
}

// readVirtual reads a table that the server itself answers for: its rows are
// put in the order that stored ones would have, and all restrictions are
// checked on each.
func (r *selectRun) readVirtual(ctx context.Context) error {
	if r.plan.virtual.Scan != nil {
		return r.scanVirtual(ctx)
	}
	w := r.plan.where
	var restrictions []*restriction
	for _, rs := range [...][]*restriction{w.partition, w.clustering, w.other} {
		for _, f := range rs {
			if f != nil {
				restrictions = append(restrictions, f)
			}
		}
	}
	filters, err := bindVirtual(r.x, restrictions)
	if err != nil {
		return err
	}
	tr, empty, err := r.tokenBounds()
	if err != nil || empty {
		if err == nil {
			err = r.closeGroups()
		}
		return err
	}
	u := virtualRead{r: r, tr: tr, filters: filters}
	if r.plan.virtual.Parts != nil {
		err = r.eachPart(ctx, &tr, u.take)
	} else {
		err = u.takeAll(ctx)
	}
	switch err {
	case nil:
		return r.closeGroups()
	case errFull:
		return nil
	}
	return err
}

// virtualRead takes a virtual table's rows in, in the order of the read.
type virtualRead struct {
	r       *selectRun
	tr      store.TokenRange
	filters []boundFilter
	prev    [][]byte // the partition of the row before
}

func (u *virtualRead) takeAll(ctx context.Context) error {
	all, err := u.r.plan.virtual.Rows(ctx, u.r.x.e, u.r.x.s)
	if err != nil {
		return err
	}
	rows, err := u.r.sortVirtual(all)
	if err != nil {
		return err
	}
	return u.take(rows)
}

// take takes rows in; errFull says that the read has enough.
func (u *virtualRead) take(rows []virtualRow) error {
	r, c := u.r, &u.r.ctx
	npk := len(r.plan.table.PartitionKey)
	for i := range rows {
		c.virt = rows[i].vals
		c.key = c.virt[:npk:npk]
		if !inRange(&u.tr, rows[i].token) || r.beforePage(&rows[i]) || !passes(c, u.filters) {
			continue
		}
		if fresh := !sameComponents(u.prev, c.key); fresh {
			r.perLeft = r.perLimit
			if s := r.resume; s != nil && s.perPartition >= 0 && sameComponents(c.key, s.key) {
				r.perLeft = min(r.perLimit, s.perPartition)
			}
		} else if r.plan.distinct {
			continue
		}
		u.prev = c.key
		if r.perLeft <= 0 && !r.group.open {
			continue
		}
		if err := r.take(); err != nil {
			return err
		}
	}
	return nil
}

// bindVirtual is bindFilters with the messages that key columns have.
func bindVirtual(x *execution, rs []*restriction) ([]boundFilter, error) {
	for _, r := range rs {
		c := r.first()
		if r.multi || (c.Kind != schema.PartitionKey && c.Kind != schema.Clustering) || r.op != restrictEq {
			continue
		}
		if _, err := r.eqValue(x); err != nil {
			return nil, err
		}
	}
	return bindFilters(x, rs)
}

func (r *selectRun) sortVirtual(all [][][]byte) ([]virtualRow, error) {
	t := r.plan.table
	npk := len(t.PartitionKey)
	width := npk + len(t.Clustering) + len(t.Static) + len(t.Regular)
	rows := make([]virtualRow, 0, len(all))
	var buf []byte
	for _, v := range all {
		if len(v) != width {
			continue
		}
		token, err := virtualToken(&buf, t, v[:npk])
		if err != nil {
			return nil, err
		}
		rows = append(rows, virtualRow{token: token, vals: v})
	}
	sort.SliceStable(rows, func(i, j int) bool {
		n := compareVirtual(t, &rows[i], &rows[j])
		if n == 0 && r.plan.reversed {
			return false
		}
		return n < 0
	})
	if r.plan.reversed {
		reversePartitions(t, rows)
	}
	return rows, nil
}

// virtualToken is a partition's place in the ring. Tables of virtual keyspaces
// have none: Cassandra keeps their partitions in the order of their keys.
func virtualToken(buf *[]byte, t *schema.Table, comps [][]byte) (int64, error) {
	if t.ClientVirtual() {
		return 0, nil
	}
	if len(comps) == 1 {
		return cqltype.Token(comps[0]), nil
	}
	b, err := cqltype.JoinKey((*buf)[:0], comps)
	if err != nil {
		return 0, err
	}
	*buf = b
	return cqltype.Token(b), nil
}

// compareVirtual orders rows by token, partition key, clustering.
func compareVirtual(t *schema.Table, a, b *virtualRow) int {
	if a.token != b.token {
		if a.token < b.token {
			return -1
		}
		return 1
	}
	npk := len(t.PartitionKey)
	for i := range npk {
		if n := compareVirtualKey(t, i, a.vals[i], b.vals[i]); n != 0 {
			return n
		}
	}
	return comparePrefix(t.Clustering, a.vals[npk:npk+len(t.Clustering)], b.vals[npk:npk+len(t.Clustering)])
}

// compareVirtualKey orders a component of the partition key among keys of one token.
func compareVirtualKey(t *schema.Table, i int, a, b []byte) int {
	if t.ClientVirtual() {
		return cqltype.Compare(t.PartitionKey[i].Type, a, b)
	}
	return bytes.Compare(a, b)
}

// reversePartitions turns the rows of each partition round.
func reversePartitions(t *schema.Table, rows []virtualRow) {
	npk := len(t.PartitionKey)
	for i := 0; i < len(rows); {
		j := i + 1
		for j < len(rows) && sameComponents(rows[i].vals[:npk], rows[j].vals[:npk]) {
			j++
		}
		for a, b := i, j-1; a < b; a, b = a+1, b-1 {
			rows[a], rows[b] = rows[b], rows[a]
		}
		i = j
	}
}

// beforePage: the row was returned by an earlier page.
func (r *selectRun) beforePage(row *virtualRow) bool {
	s := r.resume
	if s == nil || s.key == nil {
		return false
	}
	t := r.plan.table
	var buf []byte
	token, err := virtualToken(&buf, t, s.key)
	if err != nil {
		return false
	}
	if row.token != token {
		return row.token < token
	}
	npk := len(t.PartitionKey)
	for i := range npk {
		if n := compareVirtualKey(t, i, row.vals[i], s.key[i]); n != 0 {
			return n < 0
		}
	}
	if s.done {
		return true
	}
	n := comparePrefix(t.Clustering, row.vals[npk:npk+len(t.Clustering)], s.clustering)
	if r.plan.reversed {
		n = -n
	}
	return n <= 0
}
