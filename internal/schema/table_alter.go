package schema

import (
	"slices"
	"strconv"
	"strings"

	"varve/internal/cql"
	"varve/internal/cqltype"
)

func (d *draft) alterTable(st *cql.AlterTable) (*Result, error) {
	ks, err := d.keyspaceName(st.Table.Keyspace)
	if err != nil {
		return nil, err
	}
	if err := d.changeable(ks, "ALTER", shownTable(ks, st.Table.Name)); err != nil {
		return nil, err
	}
	if st.Mask {
		return nil, unsupported("dynamic data masking")
	}
	old := d.snap.Table(ks, st.Table.Name)
	if old == nil {
		if st.IfExists {
			return &Result{}, nil
		}
		return nil, invalid("Table '%s.%s' doesn't exist", ks, st.Table.Name)
	}
	t := old.clone()
	changed := true
	switch {
	case st.AlterColumn != "":
		return nil, invalid("Altering column types is no longer supported")
	case st.DropCompact:
		return nil, invalid("Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE")
	case len(st.Add) > 0:
		changed, err = d.addColumns(t, st)
	case len(st.Drop) > 0:
		changed, err = d.dropColumns(t, st)
	case len(st.RenameFrom) > 0:
		changed, err = renameColumns(t, st)
	default:
		err = alterOptions(t, st)
	}
	if err != nil {
		return nil, err
	}
	if !changed {
		return &Result{}, nil
	}
	t.mustArrange()
	d.putTable(t)
	return &Result{Event: &Event{Change: "UPDATED", Target: "TABLE", Keyspace: ks, Name: t.Name}}, nil
}

func (d *draft) addColumns(t *Table, st *cql.AlterTable) (changed bool, err error) {
	added := map[string]bool{}
	for _, def := range st.Add {
		if def.Mask {
			return false, unsupported("dynamic data masking")
		}
		typ, err := d.snap.ResolveType(t.Keyspace, def.Type)
		if err != nil {
			return false, err
		}
		if t.Columns[def.Name] != nil || added[def.Name] {
			if st.AddIfNotExists {
				continue
			}
			return false, invalid("Column with name '%s' already exists", def.Name)
		}
		kind := Regular
		if def.Static {
			kind = Static
			if len(t.Clustering) == 0 {
				return false, invalid("Static columns are only useful (and thus allowed) if the table has at least one clustering column")
			}
		}
		if err := t.mayAdd(def.Name, kind, typ); err != nil {
			return false, err
		}
		if err := t.addAgain(Column{Name: def.Name, Kind: kind, Type: typ}); err != nil {
			return false, err
		}
		added[def.Name], changed = true, true
	}
	return changed, nil
}

// addAgain adds a column. One that was dropped gets its old id back, since cells
// newer than the drop belong to it again.
func (t *Table) addAgain(c Column) error {
	i := slices.IndexFunc(t.Dropped, func(d DroppedColumn) bool { return d.Name == c.Name })
	if i < 0 {
		return t.addColumn(c)
	}
	c.ID, c.DroppedAt = t.Dropped[i].ID, t.Dropped[i].DroppedAt
	t.ByID[c.ID] = &c
	return nil
}

// mayAdd refuses columns that do not suit the table or what a dropped column
// of that name was, whose newer cells would be read as the new column's.
func (t *Table) mayAdd(name string, kind ColumnKind, typ *cqltype.Type) error {
	if nestsMultiCell(typ) {
		return invalid("Non-frozen UDTs with nested non-frozen collections are not supported for column %s", name)
	}
	i := slices.IndexFunc(t.Dropped, func(c DroppedColumn) bool { return c.Name == name })
	if i >= 0 {
		was := t.Dropped[i]
		if !was.Type.Equal(expandUserTypes(typ)) {
			return invalid("Cannot add a column '%s' of type %s, incompatible with previously dropped column '%s' of type %s",
				name, qualified(typ), name, was.Type)
		}
		if was.Kind != kind {
			return invalid("Cannot re-add previously dropped column '%s' of kind %s, incompatible with previous kind %s",
				name, strings.ToUpper(kind.String()), strings.ToUpper(was.Kind.String()))
		}
		if typ.Kind == cqltype.KindCounter {
			return invalid("Cannot re-add previously dropped counter column %s", name)
		}
	}
	isCounter := typ.Kind == cqltype.KindCounter
	switch {
	case t.Counter && !isCounter:
		return misconfigured("%s.%s: Cannot have a non counter column (\"%s\") in a counter table", t.Keyspace, t.Name, name)
	case !t.Counter && isCounter:
		return misconfigured("%s.%s: Cannot have a counter column (\"%s\") in a non counter table", t.Keyspace, t.Name, name)
	}
	return nil
}

func (d *draft) dropColumns(t *Table, st *cql.AlterTable) (changed bool, err error) {
	droppedAt := d.now.UnixMicro()
	if l, ok := st.DropTimestamp.(*cql.Literal); ok {
		if droppedAt, err = strconv.ParseInt(l.Text, 10, 64); err != nil {
			return false, invalid("Invalid timestamp %s", l.Text)
		}
	}
	for i, name := range st.Drop {
		c := t.Columns[name]
		if c == nil || slices.Contains(st.Drop[:i], name) {
			if st.DropIfExists {
				continue
			}
			return false, invalid("Column %s was not found in table '%s.%s'", cqltype.MaybeQuote(name), t.Keyspace, t.Name)
		}
		if c.Kind == PartitionKey || c.Kind == Clustering {
			return false, invalid("Cannot drop PRIMARY KEY column %s", cqltype.MaybeQuote(name))
		}
		if c.Type.Kind == cqltype.KindUDT && c.Type.IsMultiCell() {
			return false, invalid("Cannot drop non-frozen column %s of user type %s", cqltype.MaybeQuote(name), c.Type)
		}
		if names := t.indexesOn(c); len(names) > 0 {
			return false, invalid("Cannot drop column %s because it has dependent secondary indexes (%s)",
				cqltype.MaybeQuote(name), strings.Join(names, ", "))
		}
		t.ByID[c.ID] = nil
		t.noteDropped(DroppedColumn{ID: c.ID, Name: name, Kind: c.Kind, Type: expandUserTypes(c.Type), DroppedAt: droppedAt})
		changed = true
	}
	return changed, nil
}

func (t *Table) noteDropped(c DroppedColumn) {
	t.Dropped = slices.DeleteFunc(t.Dropped, func(o DroppedColumn) bool { return o.Name == c.Name })
	t.Dropped = append(t.Dropped, c)
	slices.SortFunc(t.Dropped, func(a, b DroppedColumn) int { return strings.Compare(a.Name, b.Name) })
}

func (t *Table) indexesOn(c *Column) []string {
	var names []string
	for _, x := range t.Indexes {
		if x.Column == c {
			names = append(names, x.Name)
		}
	}
	return names
}

func renameColumns(t *Table, st *cql.AlterTable) (changed bool, err error) {
	names := map[string]uint16{}
	for name, c := range t.Columns {
		names[name] = c.ID
	}
	for i, from := range st.RenameFrom {
		to := st.RenameTo[i]
		id, found := names[from]
		if !found {
			return false, invalid("Undefined column name %s in table %s.%s", cqltype.MaybeQuote(from), t.Keyspace, t.Name)
		}
		c := t.ByID[id]
		if c.Kind != PartitionKey && c.Kind != Clustering {
			return false, invalid("Cannot rename non PRIMARY KEY column %s", cqltype.MaybeQuote(from))
		}
		if _, taken := names[to]; taken {
			return false, invalid("Cannot rename column %s to %s in table '%s.%s'; another column with that name already exists",
				cqltype.MaybeQuote(from), cqltype.MaybeQuote(to), t.Keyspace, t.Name)
		}
		if dependent := t.indexesOn(t.Columns[c.Name]); len(dependent) > 0 {
			return false, invalid("Can't rename column %s because it has dependent secondary indexes (%s)",
				cqltype.MaybeQuote(from), strings.Join(dependent, ", "))
		}
		n := *c
		n.Name = to
		t.ByID[id] = &n
		delete(names, from)
		names[to] = id
		changed = true
	}
	return changed, nil
}

func alterOptions(t *Table, st *cql.AlterTable) error {
	ps, err := collect(st.With, tableProperties)
	if err != nil {
		return err
	}
	if ps.has("id") {
		return misconfigured("Cannot alter table id.")
	}
	if err := t.Options.set(ps); err != nil {
		return err
	}
	if t.Counter && t.Options.DefaultTTL > 0 {
		return invalid("Cannot set default_time_to_live on a table with counters")
	}
	if t.Counter && t.Options.CDC && ps.has("cdc") {
		return invalid("Cannot set cdc on a table with counters")
	}
	return nil
}

// String is the kind's name in system_schema.columns.
func (k ColumnKind) String() string {
	switch k {
	case PartitionKey:
		return "partition_key"
	case Clustering:
		return "clustering"
	case Static:
		return "static"
	}
	return "regular"
}
