package exec

import (
	"strings"

	"varve/internal/cql"
	"varve/internal/schema"
)

// guardSchema checks the guardrails on a statement that changes the schema or
// empties a table, before it is looked at otherwise, as Cassandra does.
func (x *execution) guardSchema(st cql.Statement) error {
	if !x.guards() {
		return nil
	}
	snap := x.e.opts.Catalog.Snapshot()
	switch st := st.(type) {
	case *cql.CreateKeyspace:
		if err := x.guardStrategy(st.With); err != nil {
			return err
		}
		return x.guard(GuardKeyspaces, userKeyspaces(snap)+1, st.Name)
	case *cql.AlterKeyspace:
		return x.guardStrategy(st.With)
	case *cql.DropKeyspace:
		return x.ensure(FlagDropKeyspace, "")
	case *cql.CreateTable:
		return x.guardCreateTable(snap, st)
	case *cql.AlterTable:
		return x.guardAlterTable(snap, st)
	case *cql.DropTable, *cql.Truncate:
		return x.ensure(FlagDropTruncateTable, "")
	case *cql.CreateType:
		if err := x.guard(GuardFieldsPerUDT, int64(len(st.Fields)), st.Type.Name); err != nil {
			return err
		}
		return x.guardVectors(st.Fields, st.Types)
	case *cql.AlterType:
		t := x.typeNamed(snap, st.Type)
		if st.AddField == "" {
			return nil
		}
		return x.guard(GuardFieldsPerUDT, int64(t+1), st.Type.Name)
	case *cql.CreateIndex:
		return x.guardIndex(snap, st)
	}
	return nil
}

func (x *execution) keyspaceOf(n cql.Name) string {
	if n.Keyspace != "" {
		return n.Keyspace
	}
	if x.p.Keyspace != "" {
		return x.p.Keyspace
	}
	return x.s.Keyspace
}

func (x *execution) typeNamed(snap *schema.Snapshot, n cql.Name) (fields int) {
	if k := snap.Keyspaces[x.keyspaceOf(n)]; k != nil && k.Types[n.Name] != nil {
		return len(k.Types[n.Name].Elems)
	}
	return 0
}

func userKeyspace(k *schema.Keyspace) bool {
	return !k.Virtual && k.Name != "varve" && k.Name != "system" && !strings.HasPrefix(k.Name, "system_")
}

func userKeyspaces(snap *schema.Snapshot) (n int64) {
	for _, k := range snap.Keyspaces {
		if userKeyspace(k) {
			n++
		}
	}
	return n
}

func userTables(snap *schema.Snapshot) (n int64) {
	for _, k := range snap.Keyspaces {
		if userKeyspace(k) {
			n += int64(len(k.Tables))
		}
	}
	return n
}

func (x *execution) guardStrategy(with []cql.Property) error {
	for _, p := range with {
		if p.Name == "replication" && strings.HasSuffix(p.Map["class"], "SimpleStrategy") {
			return x.ensure(FlagSimpleStrategy, "")
		}
	}
	return nil
}

func (x *execution) guardCreateTable(snap *schema.Snapshot, st *cql.CreateTable) error {
	for _, p := range st.With {
		enabled, given := p.Map["enabled"]
		class := p.Map["class"] + p.Map["sstable_compression"]
		if p.Name == "compression" && (given && strings.EqualFold(enabled, "false") || !given && class == "") {
			if err := x.ensure(FlagUncompressedTables, ""); err != nil {
				return err
			}
		}
	}
	if err := x.guard(GuardColumnsPerTable, int64(len(st.Columns)), st.Table.Name); err != nil {
		return err
	}
	if err := x.guard(GuardTables, userTables(snap)+1, st.Table.Name); err != nil {
		return err
	}
	return x.guardColumns(st.Columns)
}

func (x *execution) guardAlterTable(snap *schema.Snapshot, st *cql.AlterTable) error {
	if len(st.Add)+len(st.Drop)+len(st.RenameFrom) > 0 {
		if err := x.ensure(FlagAlterTable, ""); err != nil {
			return err
		}
	}
	if t := snap.Table(x.keyspaceOf(st.Table), st.Table.Name); t != nil && len(st.Add) > 0 {
		if err := x.guard(GuardColumnsPerTable, int64(len(t.Columns)+len(st.Add)), st.Table.Name); err != nil {
			return err
		}
	}
	return x.guardColumns(st.Add)
}

func (x *execution) guardColumns(columns []cql.ColumnDef) error {
	var names []string
	var types []cql.TypeRef
	for _, c := range columns {
		names, types = append(names, c.Name), append(types, c.Type)
	}
	return x.guardVectors(names, types)
}

// guardVectors checks the vectors among some columns' types, nested ones too.
func (x *execution) guardVectors(names []string, types []cql.TypeRef) error {
	for i, t := range types {
		if err := x.guardVector(names[i], t); err != nil {
			return err
		}
	}
	return nil
}

func (x *execution) guardVector(column string, t cql.TypeRef) error {
	if t.Name.Name == "vector" && t.Name.Keyspace == "" && !t.Quoted {
		if err := x.ensure(FlagVectorType, column); err != nil {
			return err
		}
		if err := x.guard(GuardVectorDimensions, int64(t.Dim), column); err != nil {
			return err
		}
	}
	for _, e := range t.Args {
		if err := x.guardVector(column, e); err != nil {
			return err
		}
	}
	return nil
}

func (x *execution) guardIndex(snap *schema.Snapshot, st *cql.CreateIndex) error {
	if err := x.ensure(FlagSecondaryIndexes, ""); err != nil {
		return err
	}
	t := snap.Table(x.keyspaceOf(st.Table), st.Table.Name)
	if t == nil {
		return nil
	}
	what := "on table " + t.Name
	if st.Name.Name != "" {
		what = st.Name.Name + " " + what
	}
	return x.guard(GuardSecondaryIndexesPerTable, int64(len(t.Indexes)+1), what)
}
