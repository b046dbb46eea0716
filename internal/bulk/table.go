package bulk

import (
	"context"
	"fmt"
	"strings"

	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/upstream"
)

// Table names a table and, where not all are meant, its columns.
type Table struct {
	Keyspace, Name string
	Columns        []string
}

// ParseTable reads keyspace.table.
func ParseTable(s string, columns []string) (Table, error) {
	ks, name, ok := strings.Cut(s, ".")
	if !ok || ks == "" || name == "" {
		return Table{}, fmt.Errorf("%q is not of the form keyspace.table", s)
	}
	return Table{Keyspace: ks, Name: name, Columns: columns}, nil
}

func (t *Table) quoted() string {
	return cqltype.MaybeQuote(t.Keyspace) + "." + cqltype.MaybeQuote(t.Name)
}

func (t *Table) columnList() string {
	if len(t.Columns) == 0 {
		return "*"
	}
	var q []string
	for _, c := range t.Columns {
		q = append(q, cqltype.MaybeQuote(c))
	}
	return strings.Join(q, ", ")
}

// resolve finds the columns and their types by preparing a SELECT of them.
func (t *Table) resolve(ctx context.Context, c *upstream.Conn) (*upstream.Statement, error) {
	st, err := c.Prepare(ctx, "SELECT "+t.columnList()+" FROM "+t.quoted())
	if err != nil {
		return nil, err
	}
	t.Columns = t.Columns[:0:0]
	for _, col := range st.Columns {
		t.Columns = append(t.Columns, col.Name)
	}
	return st, nil
}

func (t *Table) insert() string {
	return "INSERT INTO " + t.quoted() + " (" + t.columnList() + ") VALUES (" +
		strings.TrimSuffix(strings.Repeat("?, ", len(t.Columns)), ", ") + ")"
}

func typesOf(columns []cqlwire.ColumnSpec) []*cqltype.Type {
	out := make([]*cqltype.Type, len(columns))
	for i := range columns {
		out[i] = columns[i].Type
	}
	return out
}
