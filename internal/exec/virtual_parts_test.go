package exec

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"

	"varve/internal/schema"
)

// wideSchema has a few keyspaces of a few tables, each with many columns.
func wideSchema(t *testing.T) *testEngine {
	te := newTestEngine(t)
	for k := range 4 {
		te.exec(t, fmt.Sprintf("CREATE KEYSPACE w%d WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", k))
		for i := range 5 {
			text := fmt.Sprintf("CREATE TABLE w%d.t%d (k int PRIMARY KEY", k, i)
			for c := range 40 {
				text += fmt.Sprintf(", c%d int", c)
			}
			te.exec(t, text+")")
		}
	}
	return te
}

// countParts counts the parts that reads of a virtual table make.
func countParts(t *testing.T, keyspace, name string) *int {
	t.Helper()
	n := new(int)
	for i := range allVirtualTables {
		v := &allVirtualTables[i]
		if v.Keyspace != keyspace || v.Name != name {
			continue
		}
		was := v.Parts
		counted := *was
		counted.rows = func(ctx context.Context, e *Engine, v *virtualRows, k *schema.Keyspace, tab *schema.Table) error {
			*n++
			return was.rows(ctx, e, v, k, tab)
		}
		v.Parts = &counted
		t.Cleanup(func() { v.Parts = was })
		return n
	}
	t.Fatalf("no virtual table %s.%s", keyspace, name)
	return nil
}

// TestVirtualParts: a read makes only the parts it needs, and pages of every
// size give the rows that one read gives.
func TestVirtualParts(t *testing.T) {
	te := wideSchema(t)
	n := countParts(t, "system_schema", "columns")
	for _, tc := range []struct {
		where string
		rows  int
		parts int
	}{
		{"WHERE keyspace_name = 'w1'", 5 * 41, 5},
		{"WHERE keyspace_name = 'w1' AND table_name = 't3'", 41, 1},
		{"WHERE keyspace_name IN ('w1', 'w3', 'nothing', 'w1')", 2 * 5 * 41, 10},
		{"WHERE keyspace_name = 'w1' AND table_name IN ('t1', 't2')", 2 * 41, 2},
		{"WHERE keyspace_name = 'w1' AND table_name > 't2'", 2 * 41, 5},
		{"WHERE keyspace_name = 'w1' LIMIT 3", 3, 1},
		{"WHERE keyspace_name = 'w1' AND table_name = 't3' ORDER BY table_name DESC", 41, 1},
		{"WHERE keyspace_name = 'nothing'", 0, 0},
		{"WHERE token(keyspace_name) = token('w2')", 5 * 41, 5},
	} {
		*n = 0
		res := te.exec(t, "SELECT * FROM system_schema.columns "+tc.where)
		if res.Count != tc.rows || *n != tc.parts {
			t.Errorf("%s: %d rows of %d parts, want %d of %d", tc.where, res.Count, *n, tc.rows, tc.parts)
		}
	}
	for _, text := range []string{
		"SELECT * FROM system_schema.columns", "SELECT DISTINCT keyspace_name FROM system_schema.columns",
		"SELECT * FROM system_schema.columns PER PARTITION LIMIT 45",
		"SELECT * FROM system_schema.columns WHERE keyspace_name = 'w2' ORDER BY table_name DESC, column_name DESC",
		"SELECT keyspace_name, count(*) FROM system_schema.columns GROUP BY keyspace_name",
		"SELECT keyspace_name, table_name, count(*) FROM system_schema.columns GROUP BY keyspace_name, table_name",
	} {
		whole := te.exec(t, text)
		want := slices.Clone(whole.Data)
		for _, size := range []int{7, 41, 100} {
			var got []byte
			*n = 0
			p := one()
			p.PageSize = size
			pages := 0
			for {
				res, err := te.query(text, p)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, res.Data...)
				pages++
				if p.PagingState = res.PagingState; len(p.PagingState) == 0 {
					break
				}
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s: pages of %d give other rows than one read", text, size)
			}
			if size == 41 && text == "SELECT * FROM system_schema.columns" && *n > 3*pages+100 {
				t.Errorf("%d pages made %d parts", pages, *n)
			}
		}
	}
}

// TestVirtualTablesAreOrdered: whoever makes a table's rows, a page at a time gives all of them once.
func TestVirtualTablesAreOrdered(t *testing.T) {
	te := wideSchema(t)
	te.exec(t, "CREATE TABLE ks.big (k int, c int, PRIMARY KEY (k, c))")
	te.exec(t, "CREATE TYPE ks.u (a int)")
	te.exec(t, "CREATE INDEX ON ks.big (c)")
	for _, v := range virtualTables() {
		if v.Scan != nil || v.Name == "feeds" {
			continue
		}
		text := fmt.Sprintf("SELECT * FROM %s.%q", v.Keyspace, v.Name)
		whole, err := te.query(text, one())
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		count, p := 0, one()
		for p.PageSize = 29; ; {
			res, err := te.query(text, p)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			count += res.Count
			if p.PagingState = res.PagingState; len(p.PagingState) == 0 {
				break
			}
		}
		if count != whole.Count {
			t.Errorf("%s: %d rows by pages, %d at once", text, count, whole.Count)
		}
	}
}
