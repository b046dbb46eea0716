package vtest

import (
	"fmt"

	"varve/internal/cqltype"
	"varve/internal/schema"
)

// ColumnSpec describes one column of a test table.
type ColumnSpec struct {
	Name string
	Kind schema.ColumnKind
	Desc bool
	Type *cqltype.Type
}

// PK is a partition key column.
func PK(name string, t *cqltype.Type) ColumnSpec {
	return ColumnSpec{Name: name, Kind: schema.PartitionKey, Type: t}
}

// CK is an ascending clustering column.
func CK(name string, t *cqltype.Type) ColumnSpec {
	return ColumnSpec{Name: name, Kind: schema.Clustering, Type: t}
}

// CKDesc is a descending clustering column.
func CKDesc(name string, t *cqltype.Type) ColumnSpec {
	return ColumnSpec{Name: name, Kind: schema.Clustering, Desc: true, Type: t}
}

// Col is a regular column.
func Col(name string, t *cqltype.Type) ColumnSpec {
	return ColumnSpec{Name: name, Kind: schema.Regular, Type: t}
}

// StaticCol is a static column.
func StaticCol(name string, t *cqltype.Type) ColumnSpec {
	return ColumnSpec{Name: name, Kind: schema.Static, Type: t}
}

// NewTable builds a table definition in the order the columns are given;
// regular and static columns must be given in order of name.
func NewTable(physID uint32, name string, specs ...ColumnSpec) *schema.Table {
	t := &schema.Table{
		PhysID: physID, Keyspace: "ks", Name: name, Columns: map[string]*schema.Column{},
		Options: schema.TableOptions{GCGraceSeconds: 864000},
	}
	t.ID[15] = byte(physID)
	for i, s := range specs {
		c := &schema.Column{ID: uint16(i), Name: s.Name, Kind: s.Kind, Desc: s.Desc, Type: s.Type}
		switch s.Kind {
		case schema.PartitionKey:
			c.Position = len(t.PartitionKey)
			t.PartitionKey = append(t.PartitionKey, c)
		case schema.Clustering:
			c.Position = len(t.Clustering)
			t.Clustering = append(t.Clustering, c)
		case schema.Static:
			t.Static = append(t.Static, c)
		case schema.Regular:
			t.Regular = append(t.Regular, c)
		}
		if t.Columns[s.Name] != nil {
			panic(fmt.Sprintf("column %s twice", s.Name))
		}
		t.Columns[s.Name] = c
		t.ByID = append(t.ByID, c)
		if s.Type.Kind == cqltype.KindCounter {
			t.Counter = true
		}
	}
	return t
}

// Tables are the shapes that the random tests run on: every column kind, no
// clustering, one and two clustering columns, both orders and mixtures.
func Tables() []*schema.Table {
	udt := &cqltype.Type{
		Kind: cqltype.KindUDT, Keyspace: "ks", Name: "pair",
		Elems: []*cqltype.Type{cqltype.Int, cqltype.Text}, FieldNames: []string{"x", "y"},
	}
	return []*schema.Table{
		NewTable(101, "asc1", PK("p", cqltype.Int), CK("c", cqltype.Int),
			Col("a", cqltype.Int), Col("b", cqltype.Text),
			Col("l", cqltype.ListOf(cqltype.Int)), Col("m", cqltype.MapOf(cqltype.Text, cqltype.Int)),
			Col("s", cqltype.SetOf(cqltype.Int)), Col("u", udt),
			StaticCol("sa", cqltype.Int), StaticCol("sm", cqltype.MapOf(cqltype.Int, cqltype.Text))),
		NewTable(102, "desc1", PK("p", cqltype.Int), CKDesc("c", cqltype.Bigint), Col("a", cqltype.Text)),
		NewTable(103, "mixed2", PK("p", cqltype.Int), PK("q", cqltype.Text),
			CKDesc("c", cqltype.Int), CK("d", cqltype.Text),
			Col("a", cqltype.Blob), Col("m", cqltype.MapOf(cqltype.Int, cqltype.Int)), StaticCol("sa", cqltype.Text)),
		NewTable(104, "desc2", PK("p", cqltype.Text), CKDesc("c", cqltype.Text), CKDesc("d", cqltype.Timeuuid),
			Col("a", cqltype.Int), Col("b", cqltype.Int)),
		NewTable(105, "asc2", PK("p", cqltype.Int), CK("c", cqltype.Text), CK("d", cqltype.Int),
			Col("a", cqltype.Int), StaticCol("ss", cqltype.SetOf(cqltype.Text))),
		NewTable(106, "single", PK("p", cqltype.Int), Col("a", cqltype.Int), Col("s", cqltype.SetOf(cqltype.Text))),
	}
}
