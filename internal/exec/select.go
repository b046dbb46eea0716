package exec

import (
	"varve/internal/cql"
	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/schema"
)

// selectPlan is a planned SELECT. It is immutable and shared.
type selectPlan struct {
	table   *schema.Table
	columns []cqlwire.ColumnSpec // the result's
	virtual *VirtualTable        // set where the server itself answers

	where     *where
	selectors []selector
	// plain are the columns, when the list is of single-cell columns alone:
	// rows are then encoded straight from the store's.
	plain []*schema.Column
	json  bool
	names []string // of JSON fields
	wild  bool

	distinct bool
	reversed bool // against the table's clustering order
	ordered  bool // ORDER BY was given
	// sorted: rows of several partitions (IN) are put in order after the read.
	sorted   bool
	sortCols []ordering

	// grouped: rows are gathered into groups, by groupKey and the first
	// groupPrefix clustering columns, or, without GROUP BY, into one.
	grouped     bool
	groupBy     bool
	groupPrefix int
	groupFunc   selector // the last GROUP BY element when it is a function
	slots       []selector
	aggs        []*aggSelector

	limit, perPartition term

	// readStatic: the static row is needed; staticRow: a partition without
	// rows is returned when it has one.
	readStatic, staticRow bool
	// keyFilters, staticFilters and rowFilters are what is checked per
	// partition and per row.
	keyFilters, staticFilters, rowFilters []*restriction

	// index and driver are, for reads through an index, what is looked up in it.
	index  *schema.Index
	driver *restriction
	// lookups are all that may drive the read; which does is chosen by what the indexes hold.
	lookups []indexChoice

	used []*schema.Column // columns selected, for the rebuilt text

	allowFiltering bool // ALLOW FILTERING was written
}

// ordering is one column of a sort after the read.
type ordering struct {
	c    *schema.Column
	desc bool
}

// planSelect plans a SELECT against the planner's snapshot.
func (p *planner) planSelect(st *cql.Select) (*selectPlan, error) {
	t, err := p.lookupTable(st.Table)
	if err != nil {
		return nil, err
	}
	sp := &selectPlan{table: t, json: st.JSON, distinct: st.Distinct, wild: len(st.Items) == 0, allowFiltering: st.AllowFiltering}
	if t.Virtual {
		if sp.virtual = virtualTable(t); sp.virtual == nil {
			return nil, invalidf("table %s.%s cannot be read", t.Keyspace, t.Name)
		}
	}
	list := &selectorPlanner{p: p, t: t}
	p.keyTypes = list.keyTypes()
	staticOnly, err := selectsStaticOnly(t, st)
	if err != nil {
		return nil, err
	}
	sp.where, err = p.whereOf(t, st.Where, whereOptions{
		kind: "SELECT", allowFiltering: st.AllowFiltering, staticOnly: staticOnly,
	})
	if err != nil {
		return nil, err
	}
	if err := checkOrderColumns(t, st); err != nil {
		return nil, err
	}
	if err := sp.planList(list, st); err != nil {
		return nil, err
	}
	if sp.distinct {
		if err := sp.checkDistinct(st); err != nil {
			return nil, err
		}
	}
	if err := sp.planGroups(list, st); err != nil {
		return nil, err
	}
	if err := sp.planOrder(st); err != nil {
		return nil, err
	}
	if !st.AllowFiltering && !t.Virtual && (sp.where.keyRange || sp.where.usesIndex) && sp.where.needsAllowFiltering() {
		return nil, invalidf("%s", needsFilteringText)
	}
	if err := sp.planLimits(p, st); err != nil {
		return nil, err
	}
	return sp, sp.finish()
}

// virtualTable finds who answers for a virtual table.
func virtualTable(t *schema.Table) *VirtualTable {
	for _, v := range virtualTables() {
		if v.Keyspace == t.Keyspace && v.Name == t.Name {
			return &v
		}
	}
	return nil
}

// selectsStaticOnly reports that the list names static columns, and beside
// them the partition key at most.
func selectsStaticOnly(t *schema.Table, st *cql.Select) (bool, error) {
	static, other := false, len(st.Items) == 0
	for _, it := range st.Items {
		var unknown error
		anyExpr(it.Expr, func(e cql.Expr) bool {
			n, ok := e.(*cql.Column)
			if !ok {
				return false
			}
			c := t.Columns[n.Name]
			switch {
			case c == nil:
				if unknown == nil {
					unknown = undefinedColumn(t, n.Name)
				}
			case c.Kind == schema.Static:
				static = true
			case c.Kind != schema.PartitionKey:
				other = true
			}
			return false
		})
		if unknown != nil {
			return false, unknown
		}
	}
	return static && !other, nil
}

// allColumns are a table's columns in the order of SELECT *.
func allColumns(t *schema.Table) []*schema.Column {
	cols := make([]*schema.Column, 0, len(t.Columns))
	cols = append(cols, t.PartitionKey...)
	cols = append(cols, t.Clustering...)
	cols = append(cols, t.Static...)
	return append(cols, t.Regular...)
}

func (sp *selectPlan) planList(list *selectorPlanner, st *cql.Select) error {
	if sp.wild {
		for _, c := range allColumns(sp.table) {
			list.use(c)
			sp.selectors = append(sp.selectors, &columnSelector{c: c})
			sp.columns = append(sp.columns, specOf(sp.table, c))
		}
	}
	for _, it := range st.Items {
		s, err := list.plan(it.Expr, nil)
		if err != nil {
			return err
		}
		sp.selectors = append(sp.selectors, s)
		sp.columns = append(sp.columns, resultSpec(sp.table, s, it.Alias))
	}
	sp.used, sp.aggs = list.used, list.aggs
	if sp.json {
		for _, c := range sp.columns {
			sp.names = append(sp.names, c.Name)
		}
		sp.columns = []cqlwire.ColumnSpec{{
			Keyspace: sp.table.Keyspace, Table: sp.table.Name, Name: "[json]", Type: cqltype.Text,
		}}
	}
	return nil
}

func (sp *selectPlan) checkDistinct(st *cql.Select) error {
	if st.PerPartitionLimit != nil {
		return invalidf("PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries")
	}
	onlyStatic := true
	for _, r := range sp.where.other {
		onlyStatic = onlyStatic && r.first().Kind == schema.Static
	}
	if len(sp.where.clustering) > 0 || !onlyStatic {
		return invalidf("SELECT DISTINCT with WHERE clause only supports restriction by partition key " +
			"and/or static columns.")
	}
	selected := map[*schema.Column]bool{}
	for _, c := range sp.used {
		if c.Kind != schema.PartitionKey && c.Kind != schema.Static {
			return invalidf("SELECT DISTINCT queries must only request partition key columns and/or static columns (not %s)",
				c.Name)
		}
		selected[c] = true
	}
	if !sp.where.keyRange {
		return nil
	}
	for _, c := range sp.table.PartitionKey {
		if !selected[c] {
			return invalidf("SELECT DISTINCT queries must request all the partition key columns (missing %s)", c.Name)
		}
	}
	return nil
}

func checkOrderColumns(t *schema.Table, st *cql.Select) error {
	for _, o := range st.OrderBy {
		if o.Ann != nil {
			return invalidf("ANN ordering by vector (vector search) is not supported")
		}
		if t.Columns[o.Column] == nil {
			return undefinedColumn(t, o.Column)
		}
	}
	return nil
}

// planOrder checks ORDER BY and finds whether rows are read in reverse.
func (sp *selectPlan) planOrder(st *cql.Select) error {
	if len(st.OrderBy) == 0 {
		return nil
	}
	w, t := sp.where, sp.table
	if w.usesIndex {
		return invalidf("ORDER BY with 2ndary indexes is not supported, except for ANN queries.")
	}
	if w.keyRange {
		return invalidf("ORDER BY is only supported when the partition key is restricted by an EQ or an IN.")
	}
	sp.ordered = true
	sp.sorted = w.keyIn()
	pos, first := 0, true
	for _, o := range dedupOrder(st.OrderBy) {
		c := t.Columns[o.Column]
		if c.Kind != schema.Clustering {
			return invalidf("Order by is currently only supported on the clustered columns of the PRIMARY KEY, got %s", c.Name)
		}
		for pos != c.Position {
			if pos > c.Position || !w.fixed(t.Clustering[pos]) {
				return invalidf("Order by currently only supports the ordering of columns following their " +
					"declared order in the PRIMARY KEY")
			}
			pos++
		}
		pos++
		reversed := o.Desc != c.Desc
		if first {
			sp.reversed, first = reversed, false
		} else if reversed != sp.reversed {
			return invalidf("Unsupported order by relation")
		}
		sp.sortCols = append(sp.sortCols, ordering{c: c, desc: o.Desc})
	}
	return nil
}

// dedupOrder keeps the last direction given for each column, at its first place.
func dedupOrder(os []cql.Ordering) []cql.Ordering {
	var out []cql.Ordering
next:
	for _, o := range os {
		for i := range out {
			if out[i].Column == o.Column {
				out[i] = o
				continue next
			}
		}
		out = append(out, o)
	}
	return out
}

// fixed: the column is restricted by an equality.
func (w *where) fixed(c *schema.Column) bool {
	if c.Kind == schema.PartitionKey {
		r := w.partition[c.Position]
		return r != nil && r.op == restrictEq
	}
	for _, r := range w.clustering {
		if r.op != restrictEq {
			continue
		}
		for _, d := range r.cols {
			if c == d {
				return true
			}
		}
	}
	return false
}

func (sp *selectPlan) planLimits(p *planner, st *cql.Select) (err error) {
	spec := cqlwire.ColumnSpec{Keyspace: sp.table.Keyspace, Table: sp.table.Name, Type: cqltype.Int}
	if st.Limit != nil {
		spec.Name = "[limit]"
		if sp.limit, err = p.term(st.Limit, spec); err != nil {
			return err
		}
	}
	if st.PerPartitionLimit != nil {
		spec.Name = "[per_partition_limit]"
		sp.perPartition, err = p.term(st.PerPartitionLimit, spec)
	}
	return err
}

// finish settles what the read needs.
func (sp *selectPlan) finish() error {
	w := sp.where
	for _, r := range w.filtered {
		switch r.first().Kind {
		case schema.PartitionKey:
			sp.keyFilters = append(sp.keyFilters, r)
		case schema.Static:
			sp.staticFilters = append(sp.staticFilters, r)
		default:
			if r.multi && r.op == restrictSlice {
				return invalidf("Multi-column slice restrictions cannot be used for filtering.")
			}
			if r.multi && r.op == restrictIn && len(r.cols) > 1 {
				return invalidf("Multicolumn IN filters are not supported")
			}
			sp.rowFilters = append(sp.rowFilters, r)
		}
	}
	if w.usesIndex {
		if sp.index, sp.driver = w.chooseIndex(); sp.index == nil {
			return invalidf("%s", needsFilteringText)
		}
		sp.lookups = w.lookups()
	}
	regular := false
	for _, r := range w.other {
		regular = regular || r.first().Kind == schema.Regular
	}
	statics := len(sp.table.Static) > 0
	sp.staticRow = statics && len(w.clustering) == 0 && !regular
	sp.readStatic = sp.staticRow || len(sp.staticFilters) > 0
	for _, c := range sp.used {
		sp.readStatic = sp.readStatic || c.Kind == schema.Static
	}
	if sp.json || sp.grouped {
		return nil
	}
	plain := make([]*schema.Column, 0, len(sp.selectors))
	for _, s := range sp.selectors {
		c, ok := s.(*columnSelector)
		if !ok || c.c.Type.IsMultiCell() {
			return nil
		}
		plain = append(plain, c.c)
	}
	sp.plain = plain
	return nil
}
