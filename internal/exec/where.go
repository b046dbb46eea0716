package exec

import (
	"sort"

	"varve/internal/cql"
	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/schema"
)

// where is a planned WHERE clause. For modifications it admits only what
// identifies rows.
type where struct {
	t              *schema.Table
	kind           string
	allowFiltering bool
	staticOnly     bool

	token      *restriction   // on token(partition key); nil when there is none
	partition  []*restriction // one a partition key column, by position; nil: unrestricted
	clustering []*restriction // in order of their first column
	other      []*restriction // static and regular columns, in column order

	// indexed says that at least one restriction is served by an index, and
	// usesIndex that the read goes through one.
	indexed, usesIndex bool
	// keyRange says that the read is over a range of partitions.
	keyRange bool
	// filtered are the restrictions that keys and slices do not carry out, so
	// that each row must be checked against them.
	filtered []*restriction
	// judged are those by which it is judged whether ALLOW FILTERING must be
	// asked for.
	judged []*restriction
}

// restrictOp is how a restriction compares.
type restrictOp uint8

const (
	restrictEq restrictOp = iota
	restrictIn
	restrictSlice
	restrictContains
)

// restriction is what WHERE says of one column, of several (a tuple), or of
// the partition key's token.
type restriction struct {
	op    restrictOp
	cols  []*schema.Column
	multi bool // written with the tuple notation
	onTok bool

	eq       *operand
	in       []*operand // IN (…)
	inMarker term       // IN ?: a list of values or tuples
	lo, hi   *sliceBound

	contains, containsKey []term
	entries               []entryTerm // m[key] = value
}

// sliceBound is one end of a range.
type sliceBound struct {
	v         *operand
	inclusive bool
}

type entryTerm struct{ key, value term }

// operand is the right side of a comparison: one term, or a tuple given
// element by element or whole.
type operand struct {
	elems []term
	whole term          // a marker (or other term) for a whole tuple
	typ   *cqltype.Type // of whole
}

func (r *restriction) first() *schema.Column { return r.cols[0] }
func (r *restriction) last() *schema.Column  { return r.cols[len(r.cols)-1] }

// whereOptions decide what a WHERE clause may hold.
type whereOptions struct {
	kind           string // SELECT, UPDATE or DELETE
	allowFiltering bool
	// staticOnly: the statement selects or changes static columns only, so
	// that clustering columns must not be restricted.
	staticOnly bool
}

// whereOf plans a WHERE clause on t for the kind of statement that o tells,
// which decides what is admitted and the wording of refusals.
func (p *planner) whereOf(t *schema.Table, rels []cql.Relation, o whereOptions) (*where, error) {
	w := &where{
		t: t, kind: o.kind, allowFiltering: o.allowFiltering, staticOnly: o.staticOnly,
		partition: make([]*restriction, len(t.PartitionKey)),
	}
	for i := range rels {
		if err := p.addRelation(w, &rels[i]); err != nil {
			return nil, err
		}
	}
	if err := w.check(); err != nil {
		return nil, err
	}
	return w, nil
}

func (p *planner) addRelation(w *where, rel *cql.Relation) error {
	modifies := w.kind != "SELECT"
	switch rel.Op {
	case cql.Contains, cql.ContainsKey:
		if modifies {
			return invalidf("Cannot use %s with %s", w.kind, opText(rel.Op))
		}
	case cql.NotContains, cql.NotContainsKey, cql.NotIn:
		return invalidf("Unsupported \"%s\" relation: %s", opText(rel.Op), relationText(rel))
	case cql.IsNotNull:
		return invalidf("Unsupported restriction: %s", relationText(rel))
	case cql.Ann:
		return invalidf("ANN ordering by vector (vector search) is not supported")
	}
	r, err := p.restriction(w.t, rel)
	if err != nil {
		return err
	}
	if rel.Op == cql.Like {
		return invalidf("LIKE restriction is only supported on properly indexed columns. %s is not valid.",
			relationText(rel))
	}
	return w.add(r)
}

// add merges a restriction with those before it.
func (w *where) add(r *restriction) error {
	if r.onTok {
		if w.token == nil {
			w.token = r
			return nil
		}
		return w.token.merge(r)
	}
	switch c := r.first(); c.Kind {
	case schema.PartitionKey:
		if old := w.partition[c.Position]; old != nil {
			return old.merge(r)
		}
		w.partition[c.Position] = r
		return nil
	case schema.Clustering:
		return w.addClustering(r)
	default:
		for _, old := range w.other {
			if old.first() == c {
				return old.merge(r)
			}
		}
		w.other = append(w.other, r)
		sort.SliceStable(w.other, func(i, j int) bool { return w.other[i].first().Name < w.other[j].first().Name })
		return nil
	}
}

func (w *where) addClustering(r *restriction) error {
	last := (*restriction)(nil)
	if n := len(w.clustering); n > 0 {
		last = w.clustering[n-1]
	}
	merged := false
	for i, old := range w.clustering {
		if !overlap(old, r) {
			continue
		}
		if err := old.merge(r); err != nil {
			return err
		}
		// A tuple may overlap several restrictions on single columns; the
		// first takes it in and the check of positions below refuses the rest.
		w.clustering[i] = old
		merged = true
		break
	}
	if !merged {
		w.clustering = append(w.clustering, r)
		sort.SliceStable(w.clustering, func(i, j int) bool {
			return w.clustering[i].first().Position < w.clustering[j].first().Position
		})
	}
	if last == nil || w.allowFiltering {
		return nil
	}
	start := r.first().Position
	lastStart := last.first()
	if last.op == restrictSlice && start > lastStart.Position {
		return invalidf("Clustering column \"%s\" cannot be restricted (preceding column \"%s\" is restricted by a non-EQ relation)",
			r.first().Name, lastStart.Name)
	}
	if start < lastStart.Position && r.op == restrictSlice {
		return invalidf("PRIMARY KEY column \"%s\" cannot be restricted (preceding column \"%s\" is restricted by a non-EQ relation)",
			w.nextRestricted(start).Name, r.first().Name)
	}
	return nil
}

// nextRestricted is the first restricted clustering column past a position.
func (w *where) nextRestricted(pos int) *schema.Column {
	for _, r := range w.clustering {
		for _, c := range r.cols {
			if c.Position > pos {
				return c
			}
		}
	}
	return w.t.Clustering[pos]
}

func overlap(a, b *restriction) bool {
	for _, c := range a.cols {
		for _, d := range b.cols {
			if c == d {
				return true
			}
		}
	}
	return false
}

// merge takes another restriction on (some of) the same columns in.
func (r *restriction) merge(o *restriction) error {
	common := commonColumns(r, o)
	switch r.op {
	case restrictEq:
		return invalidf("%s cannot be restricted by more than one relation if it includes an Equal", common)
	case restrictIn:
		return invalidf("%s cannot be restricted by more than one relation if it includes a IN", common)
	case restrictContains:
		if o.op != restrictContains {
			return invalidf("Collection column %s can only be restricted by CONTAINS, CONTAINS KEY, or map-entry equality",
				common)
		}
		r.contains = append(r.contains, o.contains...)
		r.containsKey = append(r.containsKey, o.containsKey...)
		r.entries = append(r.entries, o.entries...)
		return nil
	}
	return r.mergeSlice(o, common)
}

func (r *restriction) mergeSlice(o *restriction, common string) error {
	if o.op != restrictSlice {
		if r.onTok {
			return invalidf("Columns \"%s\" cannot be restricted by both an equality and an inequality relation", common)
		}
		return invalidf("Column \"%s\" cannot be restricted by both an equality and an inequality relation", common)
	}
	if r.first() != o.first() {
		c := r.first()
		if o.first().Position > c.Position {
			c = o.first()
		}
		return invalidf("Column \"%s\" cannot be restricted by two inequalities not starting with the same column", c.Name)
	}
	if o.lo != nil {
		if r.lo != nil {
			return invalidf("More than one restriction was found for the start bound on %s", common)
		}
		r.lo = o.lo
	}
	if o.hi != nil {
		if r.hi != nil {
			return invalidf("More than one restriction was found for the end bound on %s", common)
		}
		r.hi = o.hi
	}
	if len(o.cols) > len(r.cols) {
		r.cols = o.cols
	}
	r.multi = r.multi || o.multi
	return nil
}

func commonColumns(a, b *restriction) string {
	sep := " ,"
	if a.onTok {
		sep = ", "
	}
	s := ""
	for _, c := range a.cols {
		for _, d := range b.cols {
			if c != d {
				continue
			}
			if s != "" {
				s += sep
			}
			s += c.Name
		}
	}
	return s
}

// specOf describes a column as a bind variable or result column.
func specOf(t *schema.Table, c *schema.Column) cqlwire.ColumnSpec {
	return cqlwire.ColumnSpec{Keyspace: t.Keyspace, Table: t.Name, Name: c.Name, Type: c.Type}
}
