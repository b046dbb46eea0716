package schema

import (
	"slices"
	"strings"

	"varve/internal/cql"
	"varve/internal/cqltype"
)

// maxTableNameLength is Cassandra 5.0's: a table's directory name, its id
// included, must fit a file name.
const maxTableNameLength = 222

func (d *draft) createTable(st *cql.CreateTable) (*Result, error) {
	ks, err := d.keyspaceName(st.Table.Keyspace)
	if err != nil {
		return nil, err
	}
	name := st.Table.Name
	if err := checkDeclared(ks, st); err != nil {
		return nil, err
	}
	if err := d.changeable(ks, "CREATE", shownTables(ks)); err != nil {
		return nil, err
	}
	k := d.snap.Keyspaces[ks]
	if k == nil {
		return nil, noKeyspace(ks)
	}
	if k.Tables[name] != nil {
		if st.IfNotExists {
			return &Result{}, nil
		}
		return nil, tableExists(ks, name)
	}
	t, err := d.buildTable(ks, st)
	if err != nil {
		return nil, err
	}
	if !validName(name) {
		return nil, misconfigured("%s.%s: Table name must not be empty or not contain non-alphanumeric-underscore "+
			"characters (got \"%s\")", ks, name, name)
	}
	if len(name) > maxTableNameLength {
		return nil, misconfigured("%s.%s: Table name must not be more than %d characters long (got %d characters for \"%s\")",
			ks, name, maxTableNameLength, len(name), name)
	}
	if t.PhysID, err = d.phys(); err != nil {
		return nil, err
	}
	d.putTable(t)
	return &Result{Event: &Event{Change: "CREATED", Target: "TABLE", Keyspace: ks, Name: name}}, nil
}

// checkDeclared makes the checks that Cassandra makes before it looks at the schema.
func checkDeclared(ks string, st *cql.CreateTable) error {
	name := ks + "." + st.Table.Name
	if st.CompactStorage {
		return unsupported("COMPACT STORAGE")
	}
	seen := map[string]bool{}
	for _, c := range st.Columns {
		if seen[c.Name] {
			return invalid("Duplicate column '%s' declaration for table '%s'", c.Name, name)
		}
		seen[c.Name] = true
		if c.Mask {
			return unsupported("dynamic data masking")
		}
	}
	switch {
	case st.HasPrimaryKey == 0:
		return invalid("No PRIMARY KEY specifed for table '%s' (exactly one required)", name)
	case st.HasPrimaryKey > 1:
		return invalid("Multiple PRIMARY KEY specified for table '%s' (exactly one required)", name)
	}
	ordered := map[string]bool{}
	for _, o := range st.Order {
		if ordered[o.Column] {
			return invalid("Duplicate column '%s' in CLUSTERING ORDER BY clause for table '%s'", o.Column, name)
		}
		ordered[o.Column] = true
	}
	return nil
}

// buildTable makes the table of a CREATE TABLE, but for its physical id.
func (d *draft) buildTable(ks string, st *cql.CreateTable) (*Table, error) {
	t := &Table{Keyspace: ks, Name: st.Table.Name, Options: defaultOptions()}
	ps, err := collect(st.With, tableProperties)
	if err != nil {
		return nil, err
	}
	if err := t.Options.setNew(ps); err != nil {
		return nil, err
	}
	if t.ID, err = tableID(ps); err != nil {
		return nil, err
	}
	types, err := d.declaredTypes(ks, st.Columns)
	if err != nil {
		return nil, err
	}
	if err := checkPrimaryKey(st, types); err != nil {
		return nil, err
	}
	desc, err := clusteringOrder(st)
	if err != nil {
		return nil, err
	}
	if err := t.addDeclared(st, types, desc); err != nil {
		return nil, err
	}
	if err := t.checkCounters(); err != nil {
		return nil, err
	}
	if err := t.arrange(); err != nil {
		return nil, invalid("%s", err)
	}
	return t, nil
}

func tableID(ps properties) (UUID, error) {
	if !ps.has("id") {
		return randomUUID(), nil
	}
	text, err := ps.text("id")
	if err != nil {
		return UUID{}, err
	}
	id, err := ParseUUID(text)
	if err != nil {
		return UUID{}, misconfigured("Invalid table id")
	}
	return id, nil
}

func (d *draft) declaredTypes(ks string, defs []cql.ColumnDef) (map[string]*cqltype.Type, error) {
	types := make(map[string]*cqltype.Type, len(defs))
	sorted := slices.SortedFunc(slices.Values(defs), func(a, b cql.ColumnDef) int { return strings.Compare(a.Name, b.Name) })
	for _, c := range sorted {
		t, err := d.snap.ResolveType(ks, c.Type)
		if err != nil {
			return nil, err
		}
		types[c.Name] = t
	}
	for _, c := range sorted {
		if nestsMultiCell(types[c.Name]) {
			return nil, invalid("Non-frozen UDTs with nested non-frozen collections are not supported")
		}
	}
	return types, nil
}

// nestsMultiCell reports a non-frozen user type with a field that is not frozen either.
func nestsMultiCell(t *cqltype.Type) bool {
	return t.Kind == cqltype.KindUDT && t.IsMultiCell() && slices.ContainsFunc(t.Elems, (*cqltype.Type).IsMultiCell)
}

func checkPrimaryKey(st *cql.CreateTable, types map[string]*cqltype.Type) error {
	seen := map[string]bool{}
	for _, name := range slices.Concat(st.PartitionKey, st.Clustering) {
		t := types[name]
		switch {
		case t == nil:
			return invalid("Unknown column '%s' referenced in PRIMARY KEY for table '%s'", name, st.Table.Name)
		case seen[name]:
			return invalid("Duplicate column '%s' in PRIMARY KEY clause for table '%s'", name, st.Table.Name)
		case t.IsMultiCell() && t.IsCollection():
			return invalid("Invalid non-frozen collection type %s for PRIMARY KEY column '%s'", t, name)
		case t.IsMultiCell():
			return invalid("Invalid non-frozen user-defined type \"%s\" for PRIMARY KEY column '%s'", qualified(t), name)
		case t.Kind == cqltype.KindCounter:
			return invalid("counter type is not supported for PRIMARY KEY column '%s'", name)
		case usesDuration(t):
			return invalid("duration type is not supported for PRIMARY KEY column '%s'", name)
		}
		seen[name] = true
	}
	for _, c := range st.Columns {
		if c.Static && seen[c.Name] {
			return invalid("Static column '%s' cannot be part of the PRIMARY KEY", c.Name)
		}
	}
	return nil
}

// qualified writes a type as some messages do: user types with their keyspace, unquoted.
func qualified(t *cqltype.Type) string {
	if t.Kind == cqltype.KindUDT {
		if t.Frozen {
			return "frozen<" + t.Keyspace + "." + t.Name + ">"
		}
		return t.Keyspace + "." + t.Name
	}
	if len(t.Elems) == 0 || t.Kind == cqltype.KindVector {
		return t.String()
	}
	elems := make([]string, len(t.Elems))
	for i, e := range t.Elems {
		elems[i] = qualified(e)
	}
	shape := *t
	shape.Elems = nil
	name, close := shape.String(), ""
	if inner, frozen := strings.CutPrefix(name, "frozen<"); frozen {
		name, close = "frozen<"+strings.TrimSuffix(inner, ">"), ">"
	}
	return name + "<" + strings.Join(elems, ", ") + ">" + close
}

// clusteringOrder returns for each clustering column whether it descends.
func clusteringOrder(st *cql.CreateTable) (map[string]bool, error) {
	desc := map[string]bool{}
	var foreign []string
	for _, o := range st.Order {
		desc[o.Column] = o.Desc
		if !slices.Contains(st.Clustering, o.Column) {
			foreign = append(foreign, o.Column)
		}
	}
	if len(foreign) > 0 {
		return nil, invalid("Only clustering key columns can be defined in CLUSTERING ORDER directive: "+
			"[%s] are not clustering columns", strings.Join(foreign, ", "))
	}
	for i, o := range st.Order {
		want := st.Clustering[i]
		if want == o.Column {
			continue
		}
		if _, named := desc[want]; named {
			return nil, invalid("The order of columns in the CLUSTERING ORDER directive must match that of "+
				"the clustering columns (%s must appear before %s)", want, o.Column)
		}
		return nil, invalid("Missing CLUSTERING ORDER for column %s", want)
	}
	return desc, nil
}

// addDeclared adds the columns, keys first, in the order of DESCRIBE.
func (t *Table) addDeclared(st *cql.CreateTable, types map[string]*cqltype.Type, desc map[string]bool) error {
	key := map[string]bool{}
	add := func(c Column) error { return t.addColumn(c) }
	for i, name := range st.PartitionKey {
		key[name] = true
		if err := add(Column{Name: name, Kind: PartitionKey, Position: i, Type: types[name]}); err != nil {
			return err
		}
	}
	for i, name := range st.Clustering {
		key[name] = true
		if err := add(Column{Name: name, Kind: Clustering, Position: i, Desc: desc[name], Type: types[name]}); err != nil {
			return err
		}
	}
	for _, c := range st.Columns {
		if key[c.Name] {
			continue
		}
		kind := Regular
		if c.Static {
			kind = Static
			if len(st.Clustering) == 0 {
				return invalid("Static columns are only useful (and thus allowed) if the table has at least one clustering column")
			}
		}
		if err := add(Column{Name: c.Name, Kind: kind, Type: types[c.Name]}); err != nil {
			return err
		}
	}
	return nil
}

// checkCounters decides whether this is a counter table and refuses mixtures.
func (t *Table) checkCounters() error {
	counters, others := 0, 0
	for _, c := range t.ByID {
		switch {
		case c.Kind == PartitionKey || c.Kind == Clustering:
		case c.Type.Kind == cqltype.KindCounter:
			counters++
		default:
			others++
		}
	}
	t.Counter = counters > 0
	switch {
	case t.Counter && others > 0:
		return invalid("Cannot mix counter and non counter columns in the same table")
	case t.Counter && t.Options.DefaultTTL > 0:
		return invalid("Cannot set default_time_to_live on a table with counters")
	case t.Counter && t.Options.CDC:
		return invalid("Cannot set cdc on a table with counters")
	}
	return nil
}

func (d *draft) dropTable(st *cql.DropTable) (*Result, error) {
	ks, err := d.keyspaceName(st.Table.Keyspace)
	if err != nil {
		return nil, err
	}
	if err := d.changeable(ks, "DROP", shownTable(ks, st.Table.Name)); err != nil {
		return nil, err
	}
	t := d.snap.Table(ks, st.Table.Name)
	if t == nil {
		if st.IfExists {
			return &Result{}, nil
		}
		return nil, invalid("Table '%s.%s' doesn't exist", ks, st.Table.Name)
	}
	delete(d.keyspace(ks).Tables, t.Name)
	d.dirty[tableKey(ks, t.Name)] = true
	d.revokeAll(tableResource(ks, t.Name))
	return &Result{
		Event:   &Event{Change: "DROPPED", Target: "TABLE", Keyspace: ks, Name: t.Name},
		Dropped: []*Table{t}, DroppedIndexes: t.Indexes,
	}, nil
}
