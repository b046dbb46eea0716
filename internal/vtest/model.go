package vtest

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
)

// Model is the reference: every change ever made to every partition.
type Model struct {
	parts map[string]*partition
}

type partition struct {
	table   *schema.Table
	key     [][]byte
	joined  []byte
	token   int64
	changes []timed
}

// timed is a change with the clock at which it was made, from which expiry counts.
type timed struct {
	Change
	now int64
}

// NewModel is an empty model.
func NewModel() *Model { return &Model{parts: map[string]*partition{}} }

func partID(t *schema.Table, joined []byte) string { return fmt.Sprintf("%d/%s", t.PhysID, joined) }

// Apply remembers a batch.
func (m *Model) Apply(b Batch) {
	for _, mu := range b.Mutations {
		m.ApplyMutation(b.Now, mu)
	}
}

// ApplyMutation remembers one mutation of a batch.
func (m *Model) ApplyMutation(now int64, mu Mutation) {
	joined, err := cqltype.JoinKey(nil, mu.Key)
	if err != nil {
		panic(err)
	}
	id := partID(mu.Table, joined)
	p := m.parts[id]
	if p == nil {
		p = &partition{table: mu.Table, key: mu.Key, joined: joined, token: cqltype.Token(joined)}
		m.parts[id] = p
	}
	for _, c := range mu.Changes {
		p.changes = append(p.changes, timed{c, now})
	}
}

// Clone copies the model.
func (m *Model) Clone() *Model {
	c := NewModel()
	for id, p := range m.parts {
		q := *p
		q.changes = slices.Clone(p.changes)
		c.parts[id] = &q
	}
	return c
}

// Truncate forgets a table.
func (m *Model) Truncate(t *schema.Table) {
	for id, p := range m.parts {
		if p.table.PhysID == t.PhysID {
			delete(m.parts, id)
		}
	}
}

// Changes counts what is remembered, so that a test can begin anew before reads grow slow.
func (m *Model) Changes() int {
	n := 0
	for _, p := range m.parts {
		n += len(p.changes)
	}
	return n
}

// RowState is one live row.
type RowState struct {
	Clustering [][]byte // nil: static
	Marker     *store.Cell
	Cells      map[string]store.Cell   // simple columns by name
	Elements   map[string][]store.Cell // multi-cell columns by name, in order of path
}

// PartState is a partition as a query returns it.
type PartState struct {
	Key    [][]byte
	Static *RowState
	Rows   []RowState
}

// Partition answers a query of one partition; ok is false when it returns nothing.
func (m *Model) Partition(t *schema.Table, key [][]byte, q store.RowQuery, now int64) (PartState, bool) {
	joined, err := cqltype.JoinKey(nil, key)
	if err != nil {
		panic(err)
	}
	p := m.parts[partID(t, joined)]
	if p == nil {
		return PartState{}, false
	}
	return p.read(q, now)
}

// Token ranges: a partition lies in r when its token does and it does not
// come before From or up to After.
func (p *partition) in(r store.TokenRange) bool {
	if !r.StartUnbounded && (p.token < r.StartToken || p.token == r.StartToken && !r.StartInclusive) {
		return false
	}
	if !r.EndUnbounded && (p.token > r.EndToken || p.token == r.EndToken && !r.EndInclusive) {
		return false
	}
	if r.From != nil && p.compareTo(*r.From) < 0 {
		return false
	}
	return r.After == nil || p.compareTo(*r.After) > 0
}

func (p *partition) compareTo(k store.Key) int {
	if c := cmp.Compare(p.token, k.Token); c != 0 {
		return c
	}
	comps, err := k.Components(p.table)
	if err != nil {
		panic(err)
	}
	return compareKeys(p.table, p.key, comps)
}

func compareKeys(t *schema.Table, a, b [][]byte) int {
	for i, c := range t.PartitionKey {
		if d := cqltype.Compare(c.Type, a[i], b[i]); d != 0 {
			return d
		}
	}
	return 0
}

// Range answers a query over partitions. first, when not nil, replaces the
// slices in the partition r.From.
func (m *Model) Range(t *schema.Table, r store.TokenRange, q store.RowQuery, first []store.Slice, now int64) []PartState {
	var found []*partition
	for _, p := range m.parts {
		if p.table.PhysID == t.PhysID && p.in(r) {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b *partition) int {
		return cmp.Or(cmp.Compare(a.token, b.token), compareKeys(t, a.key, b.key))
	})
	var out []PartState
	for _, p := range found {
		pq := q
		if first != nil && r.From != nil && p.compareTo(*r.From) == 0 {
			pq.Slices = first
		}
		if s, ok := p.read(pq, now); ok {
			out = append(out, s)
		}
	}
	return out
}

func (p *partition) read(q store.RowQuery, now int64) (PartState, bool) {
	out := PartState{Key: p.key}
	if !q.NoStatic {
		out.Static = p.row(nil, now)
	}
	for _, ck := range p.clusterings() {
		if !inSlices(p.table, ck, q.Slices) {
			continue
		}
		if r := p.row(ck, now); r != nil {
			out.Rows = append(out.Rows, *r)
		}
	}
	if q.Reverse {
		slices.Reverse(out.Rows)
	}
	ok := out.Static != nil || len(out.Rows) > 0
	if q.StaticOnly {
		out.Rows = nil
	}
	return out, ok
}

// clusterings are those of all rows ever written, in the table's order.
func (p *partition) clusterings() [][][]byte {
	var all [][][]byte
	for _, c := range p.changes {
		if c.Clustering != nil {
			all = append(all, c.Clustering)
		}
	}
	slices.SortFunc(all, func(a, b [][]byte) int { return compareClustering(p.table, a, b) })
	return slices.CompactFunc(all, func(a, b [][]byte) bool { return compareClustering(p.table, a, b) == 0 })
}

// compareClustering compares as many components as both have.
func compareClustering(t *schema.Table, a, b [][]byte) int {
	for i := range min(len(a), len(b)) {
		d := cqltype.Compare(t.Clustering[i].Type, a[i], b[i])
		if t.Clustering[i].Desc {
			d = -d
		}
		if d != 0 {
			return d
		}
	}
	return 0
}

func inSlices(t *schema.Table, ck [][]byte, ss []store.Slice) bool {
	if ss == nil {
		return true
	}
	return slices.ContainsFunc(ss, func(s store.Slice) bool { return inSlice(t, ck, s) })
}

// inSlice: a row that begins with a bound's prefix is inside where the bound
// is inclusive; an empty prefix does not bound.
func inSlice(t *schema.Table, ck [][]byte, s store.Slice) bool {
	if len(s.Start.Prefix) > 0 {
		d := compareClustering(t, ck, s.Start.Prefix)
		if d < 0 || d == 0 && !s.Start.Inclusive {
			return false
		}
	}
	if len(s.End.Prefix) > 0 {
		d := compareClustering(t, ck, s.End.Prefix)
		if d > 0 || d == 0 && !s.End.Inclusive {
			return false
		}
	}
	return true
}

// row reconciles one row (nil: the static one); nil when nothing of it is live.
func (p *partition) row(ck [][]byte, now int64) *RowState {
	h := p.historyOf(ck)
	del := h.newest(Delete, DeleteRange, DeletePartition)
	out := &RowState{Clustering: ck, Cells: map[string]store.Cell{}, Elements: map[string][]store.Cell{}}
	if mk, ok := reconcile(h.versions(Marker, Marker, nil, del)); ok && mk.live(now) {
		c := mk.cell()
		out.Marker = &c
	}
	columns := p.table.Regular
	if ck == nil {
		columns = p.table.Static
	}
	live := out.Marker != nil
	for _, col := range columns {
		hc := h.of(col)
		if !col.Type.IsMultiCell() {
			if v, ok := reconcile(hc.versions(Set, Unset, nil, del)); ok && v.live(now) {
				out.Cells[col.Name] = v.cell()
				live = true
			}
			continue
		}
		colDel := max(del, hc.newest(Clear))
		for _, path := range hc.paths() {
			same := func(other []byte) bool { return cqltype.Compare(pathType(col), other, path) == 0 }
			if v, ok := reconcile(hc.versions(SetElement, UnsetElement, same, colDel)); ok && v.live(now) {
				out.Elements[col.Name] = append(out.Elements[col.Name], v.cell())
				live = true
			}
		}
	}
	if !live {
		return nil
	}
	return out
}

// history is a list of changes, in no meaningful order.
type history []timed

// historyOf lists every change that concerns a row: those made to it, and the
// deletions that cover it (ranges never cover the static row).
func (p *partition) historyOf(ck [][]byte) history {
	var out history
	for _, c := range p.changes {
		concerns := false
		switch c.Kind {
		case DeletePartition:
			concerns = true
		case DeleteRange:
			concerns = ck != nil && inSlice(p.table, ck, c.Slice)
		default:
			concerns = (ck == nil) == (c.Clustering == nil) && compareClustering(p.table, c.Clustering, ck) == 0
		}
		if concerns {
			out = append(out, c)
		}
	}
	return out
}

// of keeps what was done to one column.
func (h history) of(col *schema.Column) history {
	var out history
	for _, c := range h {
		if c.Column == col {
			out = append(out, c)
		}
	}
	return out
}

const never = -1 << 63

// newest is the highest timestamp among changes of some kinds.
func (h history) newest(kinds ...Kind) int64 {
	ts := int64(never)
	for _, c := range h {
		if slices.Contains(kinds, c.Kind) {
			ts = max(ts, c.TS)
		}
	}
	return ts
}

// versions are the values (set) and tombstones (unset) ever written that no
// deletion covers: those newer than del. path, when not nil, picks elements.
func (h history) versions(set, unset Kind, path func([]byte) bool, del int64) []version {
	var out []version
	for _, c := range h {
		if c.Kind != set && c.Kind != unset || c.TS <= del || path != nil && !path(c.Path) {
			continue
		}
		v := version{ts: c.TS, ttl: c.TTL, value: c.Value, path: c.Path}
		switch {
		case set != unset && c.Kind == unset:
			v.tombstone, v.until = true, c.now
		case c.TTL != 0:
			v.until = c.now + int64(c.TTL)
		}
		out = append(out, v)
	}
	return out
}

// paths are all element paths ever written in one multi-cell column, in order.
func (h history) paths() [][]byte {
	var all [][]byte
	for _, c := range h {
		if c.Kind == SetElement || c.Kind == UnsetElement {
			all = append(all, c.Path)
		}
	}
	if len(all) == 0 {
		return nil
	}
	t := pathType(h[0].Column)
	slices.SortFunc(all, func(a, b []byte) int { return cqltype.Compare(t, a, b) })
	return slices.CompactFunc(all, func(a, b []byte) bool { return cqltype.Compare(t, a, b) == 0 })
}

func pathType(col *schema.Column) *cqltype.Type {
	switch col.Type.Kind {
	case cqltype.KindList:
		return cqltype.Timeuuid
	case cqltype.KindUDT:
		return cqltype.Smallint
	default:
		return col.Type.Elems[0]
	}
}

// version is one value or tombstone of a marker, cell or element.
type version struct {
	ts        int64
	tombstone bool
	ttl       int32
	until     int64 // seconds: expiry, or when the tombstone was written; 0 for a plain value
	value     []byte
	path      []byte
}

func (v version) live(now int64) bool { return !v.tombstone && (v.ttl == 0 || now < v.until) }

func (v version) cell() store.Cell {
	c := store.Cell{Path: v.path, Value: v.value, Timestamp: v.ts, TTL: v.ttl}
	if v.ttl != 0 {
		c.Expiry = v.until
	}
	return c
}

// reconcile picks the version that wins over all others. The rules are those
// of Cassandra's db/rows/Cells.java (resolveRegular) and LivenessInfo.supersedes.
func reconcile(vs []version) (version, bool) {
	if len(vs) == 0 {
		return version{}, false
	}
	return slices.MaxFunc(vs, compareVersions), true
}

func compareVersions(a, b version) int {
	return cmp.Or(
		cmp.Compare(a.ts, b.ts),
		// What dies, now or later, beats what does not, whatever the clock says.
		compareBool(a.tombstone || a.ttl != 0, b.tombstone || b.ttl != 0),
		compareBool(a.tombstone, b.tombstone),
		cmp.Compare(a.until, b.until),
		// The same expiry with a smaller TTL was written later.
		cmp.Compare(b.ttl, a.ttl),
		bytes.Compare(a.value, b.value),
	)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
