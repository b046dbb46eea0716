package schema

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"varve/internal/cql"
	"varve/internal/cqltype"
)

const (
	saiName  = "StorageAttachedIndex"
	saiClass = "org.apache.cassandra.index.sai.StorageAttachedIndex"
)

func (d *draft) createIndex(st *cql.CreateIndex) (*Result, error) {
	written := st.Table.Keyspace
	if written == "" {
		written = st.Name.Keyspace
	}
	ks, err := d.keyspaceName(written)
	if err != nil {
		return nil, err
	}
	if st.Name.Keyspace != "" && st.Name.Keyspace != ks {
		return nil, invalid("Keyspace name '%s' doesn't match index name '%s.%s'", ks, st.Name.Keyspace, st.Name.Name)
	}
	if err := d.changeable(ks, "ALTER", shownTable(ks, st.Table.Name)); err != nil {
		return nil, err
	}
	index, err := newIndex(st)
	if err != nil {
		return nil, err
	}
	k := d.snap.Keyspaces[ks]
	if k == nil {
		return nil, noKeyspace(ks)
	}
	t := k.Tables[st.Table.Name]
	if t == nil {
		return nil, invalid("Table '%s' doesn't exist", st.Table.Name)
	}
	if st.Name.Name != "" {
		if _, x := k.FindIndex(st.Name.Name); x != nil {
			if st.IfNotExists {
				return &Result{}, nil
			}
			return nil, invalid("Index '%s' already exists", st.Name.Name)
		}
	}
	if t.Counter {
		return nil, invalid("Secondary indexes on counter tables aren't supported")
	}
	if err := index.setTarget(t, st); err != nil {
		return nil, err
	}
	if index.Name == "" {
		index.Name = k.freeIndexName(t.Name, index.Column.Name)
	}
	if !validName(index.Name) {
		return nil, misconfigured("Illegal index name %s", index.Name)
	}
	for _, x := range t.Indexes {
		if x.Kind == index.Kind && maps.Equal(x.Options, index.Options) {
			if st.IfNotExists {
				return &Result{}, nil
			}
			return nil, invalid("Index %s is a duplicate of existing index %s", index.Name, x.Name)
		}
	}
	if index.IsSAI() {
		if err := index.checkSAI(t); err != nil {
			return nil, err
		}
	}
	if index.PhysID, err = d.phys(); err != nil {
		return nil, err
	}
	index.Building = true
	n := t.clone()
	n.Indexes = append(n.Indexes, index)
	slices.SortFunc(n.Indexes, func(a, b *Index) int { return strings.Compare(a.Name, b.Name) })
	d.putTable(n)
	return &Result{
		Event: &Event{Change: "UPDATED", Target: "TABLE", Keyspace: ks, Name: t.Name},
		Built: []*Index{index}, BuiltTable: n,
	}, nil
}

// newIndex checks what does not depend on the table.
func newIndex(st *cql.CreateIndex) (*Index, error) {
	x := &Index{Name: st.Name.Name, Kind: IndexComposites, Options: map[string]string{}}
	using := st.Using
	switch {
	case st.Custom && using == "":
		// Cassandra's default implementation stands in, and is not a class.
		return nil, unknownIndexClass("legacy_local_table")
	case strings.EqualFold(using, "legacy_local_table"):
		using = ""
	case !st.Custom && using != "":
		if !isSAI(using) {
			return nil, unknownIndexClass(using)
		}
	}
	options := maps.Clone(st.Options)
	for _, p := range st.With {
		if p.Name != "options" {
			return nil, syntax("Unknown property '%s'", p.Name)
		}
		if p.Map == nil && p.Value != nil {
			return nil, syntax("Invalid value for property 'options'. It should be a map.")
		}
		options = maps.Clone(p.Map)
	}
	if using == "" {
		if len(options) > 0 {
			return nil, invalid("Cannot specify options for a non-CUSTOM index")
		}
		return x, nil
	}
	if strings.HasSuffix(using, "SASIIndex") {
		return nil, unsupported("SASI indexes")
	}
	if !isSAI(using) {
		return nil, unknownIndexClass(using)
	}
	for _, reserved := range []string{"class_name", "target"} {
		if _, ok := options[reserved]; ok {
			return nil, invalid("Cannot specify %s as a CUSTOM option", reserved)
		}
	}
	x.Kind, x.Class = IndexCustom, saiName
	maps.Copy(x.Options, options)
	x.Options["class_name"] = using
	return x, nil
}

func isSAI(class string) bool {
	return strings.EqualFold(class, "sai") || strings.EqualFold(class, saiName) || class == saiClass
}

func unknownIndexClass(class string) error {
	return misconfigured("Unable to find custom indexer class '%s'", class)
}

// setTarget resolves and checks the column the index is on.
func (x *Index) setTarget(t *Table, st *cql.CreateIndex) error {
	if len(st.Targets) == 0 {
		if x.IsSAI() {
			return invalid("Failed to retrieve target column for: ")
		}
		return invalid("Only CUSTOM indexes can be created without specifying a target column")
	}
	if len(st.Targets) > 1 {
		if !x.IsSAI() {
			return invalid("Only CUSTOM indexes support multiple columns")
		}
		var names []string
		for _, target := range st.Targets {
			if slices.Contains(names, target.Column) {
				return invalid("Duplicate column '%s' in index target list", target.Column)
			}
			names = append(names, target.Column)
		}
		return invalid("A storage-attached index cannot be created over multiple columns: %s", strings.Join(names, ", "))
	}
	target := st.Targets[0]
	c := t.Columns[target.Column]
	if c == nil {
		return invalid("Undefined column name %s in table %s.%s", cqltype.MaybeQuote(target.Column), t.Keyspace, t.Name)
	}
	kind := target.Kind
	if kind == "" && c.Type.IsCollection() && c.Type.IsMultiCell() {
		kind = "values"
	}
	if err := checkTarget(t, c, kind); err != nil {
		return err
	}
	x.Column, x.Target = c, kind
	x.Options["target"] = cqltype.MaybeQuote(c.Name)
	if kind != "" {
		x.Options["target"] = kind + "(" + cqltype.MaybeQuote(c.Name) + ")"
	}
	return nil
}

func checkTarget(t *Table, c *Column, kind string) error {
	name := cqltype.MaybeQuote(c.Name)
	typ := c.Type
	if usesDuration(typ) {
		switch {
		case typ.IsCollection():
			return invalid("Secondary indexes are not supported on collections containing durations")
		case typ.Kind == cqltype.KindTuple:
			return invalid("Secondary indexes are not supported on tuples containing durations")
		case typ.Kind == cqltype.KindUDT:
			return invalid("Secondary indexes are not supported on UDTs containing durations")
		}
		return invalid("Secondary indexes are not supported on duration columns")
	}
	if c.Kind == PartitionKey && len(t.PartitionKey) == 1 {
		return invalid("Cannot create secondary index on the only partition key column %s", name)
	}
	frozen := typ.IsCollection() && typ.Frozen
	map2 := typ.Kind == cqltype.KindMap && !typ.Frozen
	switch {
	case frozen && kind != "full":
		shown := kind
		if shown == "" {
			shown = "values"
		}
		return invalid("Cannot create %s() index on frozen column %s. Frozen collections are immutable and must be "+
			"fully indexed by using the 'full(%s)' modifier", shown, name, name)
	case !frozen && kind == "full":
		return invalid("full() indexes can only be created on frozen collections")
	case !typ.IsCollection() && kind != "":
		return invalid("Cannot create %s() index on %s. Non-collection columns only support simple indexes", kind, name)
	case !map2 && (kind == "keys" || kind == "entries"):
		return invalid("Cannot create index on %s of column %s with non-map type", kind, name)
	case typ.Kind == cqltype.KindUDT && typ.IsMultiCell():
		return invalid("Cannot create index on non-frozen UDT column %s", name)
	}
	return nil
}

// saiOptions are the options of storage-attached indexes; those of analyzers
// and of vectors name features that Varve does not have.
var saiOptions = map[string]string{
	"case_sensitive": "analyzer", "normalize": "analyzer", "ascii": "analyzer",
	"maximum_node_connections": "vector", "construction_beam_width": "vector",
	"similarity_function": "vector", "optimize_for": "vector",
}

func (x *Index) checkSAI(t *Table) error {
	if x.Column.Type.Kind == cqltype.KindVector {
		return unsupported("ANN indexes on vectors")
	}
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(x.Options)) {
		if key == "class_name" || key == "target" {
			continue
		}
		switch saiOptions[key] {
		case "":
			unknown = append(unknown, key)
		case "vector":
			return invalid("CQL type %s cannot have vector options", x.Column.Type)
		case "analyzer":
			if x.Column.Kind != Regular && x.Column.Kind != Static {
				return invalid("Analysis options are not supported on primary key columns, but found {'%s': '%s'}",
					key, x.Options[key])
			}
			if !analyzable(x.Column.Type) {
				return invalid("CQL type %s cannot be analyzed.", x.Column.Type)
			}
			if v := x.Options[key]; !strings.EqualFold(v, "true") && !strings.EqualFold(v, "false") {
				return invalid("Illegal value for boolean option '%s': %s", key, v)
			}
			if !plainAnalyzer(key, x.Options[key]) {
				return unsupported("index analyzers (option " + key + ")")
			}
		}
	}
	if len(unknown) > 0 {
		return misconfigured("Properties specified [%s] are not understood by StorageAttachedIndex", strings.Join(unknown, ", "))
	}
	for _, o := range t.Indexes {
		if o.IsSAI() && o.Column == x.Column && o.Target == x.Target {
			return invalid("Cannot create more than one storage-attached index on the same column: %s",
				cqltype.MaybeQuote(x.Column.Name))
		}
	}
	return nil
}

func analyzable(t *cqltype.Type) bool {
	if t.IsCollection() {
		return slices.ContainsFunc(t.Elems, analyzable)
	}
	return t.Kind == cqltype.KindText || t.Kind == cqltype.KindAscii
}

// plainAnalyzer reports an analyzer option at its default, which changes nothing.
func plainAnalyzer(key, value string) bool {
	return strings.EqualFold(value, "true") == (key == "case_sensitive")
}

// check refuses an index whose target does not suit its column.
func (x *Index) check() error {
	t := x.Column.Type
	ok := false
	switch x.Target {
	case "":
		ok = true
	case "full":
		ok = t.IsCollection() && t.Frozen
	case "values":
		ok = t.IsCollection()
	case "keys", "entries":
		ok = t.Kind == cqltype.KindMap
	}
	if !ok {
		return fmt.Errorf("index %q cannot be on %s of a column of type %s", x.Name, x.Target, t)
	}
	return nil
}

// FindIndex finds an index by name; index names are unique in a keyspace.
func (k *Keyspace) FindIndex(name string) (*Table, *Index) {
	for _, t := range k.Tables {
		for _, x := range t.Indexes {
			if x.Name == name {
				return t, x
			}
		}
	}
	return nil, nil
}

// freeIndexName makes a name for an index that was given none.
func (k *Keyspace) freeIndexName(table, column string) string {
	clean := strings.Map(func(r rune) rune {
		if r < 128 && validName(string(r)) {
			return r
		}
		return -1
	}, column)
	base := table + "_" + clean + "_idx"
	name := base
	for i := 1; ; i++ {
		if _, x := k.FindIndex(name); x == nil {
			return name
		}
		name = fmt.Sprintf("%s_%d", base, i)
	}
}

func (d *draft) dropIndex(st *cql.DropIndex) (*Result, error) {
	ks, err := d.keyspaceName(st.Name.Keyspace)
	if err != nil {
		return nil, err
	}
	if k := d.snap.Keyspaces[ks]; k != nil && k.System {
		return nil, invalid("System keyspace '%s' is not user-modifiable", ks)
	}
	var t *Table
	var x *Index
	if k := d.snap.Keyspaces[ks]; k != nil {
		t, x = k.FindIndex(st.Name.Name)
	}
	if x == nil {
		if st.IfExists {
			return &Result{}, nil
		}
		return nil, invalid("Index '%s.%s' doesn't exist'", ks, st.Name.Name)
	}
	n := t.clone()
	n.Indexes = slices.DeleteFunc(n.Indexes, func(o *Index) bool { return o == x })
	d.putTable(n)
	return &Result{
		Event:          &Event{Change: "UPDATED", Target: "TABLE", Keyspace: ks, Name: t.Name},
		DroppedIndexes: []*Index{x},
	}, nil
}
