package exec

import (
	"context"
	"fmt"
	"testing"

	"varve/internal/cqlwire"
	"varve/internal/store"
)

// expireRows fills partition k of a table (k int, c int) with n rows that are expired at once.
func expireRows(t *testing.T, te *testEngine, table string, k, n int32) {
	t.Helper()
	tab := te.opts.Catalog.Snapshot().Table("ks", table)
	key, err := store.KeyOf(tab, [][]byte{intBytes(k)})
	if err != nil {
		t.Fatal(err)
	}
	b := te.opts.Store.NewBatch(1)
	for c := range n {
		b.Row(tab, key, [][]byte{intBytes(c)}).Marker(1, 1)
	}
	c, err := te.opts.Store.Apply(context.Background(), b, false)
	if err == nil {
		err = c.Wait()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// allPages reads all pages, of up to 100 rows, and counts rows and pages.
func allPages(t *testing.T, te *testEngine, text string) (rows, pages int) {
	t.Helper()
	p := &Params{Consistency: cqlwire.One, PageSize: 100}
	for {
		res, err := te.query(text, p)
		if err != nil {
			t.Fatalf("%s, page %d: %v", text, pages, err)
		}
		rows += res.Count
		pages++
		if p.PagingState = res.PagingState; p.PagingState == nil {
			return rows, pages
		}
	}
}

// TestDeadlineHidesNothing reads over so many dead rows that pages end at their
// deadline: limits and static rows are those of the whole partition.
func TestDeadlineHidesNothing(t *testing.T) {
	for _, c := range []struct {
		text string
		dead int32
		want int
	}{
		{"SELECT * FROM a PER PARTITION LIMIT 3", 60_000, 6},
		{"SELECT * FROM a PER PARTITION LIMIT 3", 12_000, 6},
		{"SELECT * FROM a PER PARTITION LIMIT 3", 8_000, 6},
		{"SELECT * FROM a WHERE k IN (1, 2) PER PARTITION LIMIT 3", 60_000, 6},
		{"SELECT * FROM b", 60_000, 1},
		{"SELECT * FROM b WHERE k = 2", 60_000, 1},
	} {
		te := newTestEngine(t)
		te.exec(t, "CREATE TABLE a (k int, c int, PRIMARY KEY (k, c))")
		te.exec(t, "CREATE TABLE b (k int, c int, s int static, PRIMARY KEY (k, c))")
		te.exec(t, "INSERT INTO b (k, s) VALUES (2, 7)")
		for k := 1; k <= 2; k++ {
			for i := range 4 {
				te.exec(t, fmt.Sprintf("INSERT INTO a (k, c) VALUES (%d, %d)", k, c.dead+int32(i)))
			}
		}
		expireRows(t, te, "a", 2, c.dead)
		expireRows(t, te, "b", 2, c.dead)
		te.opts.Limits.ReadTimeoutMillis.Store(1)
		te.opts.Limits.RangeTimeoutMillis.Store(1)
		rows, pages := allPages(t, te, c.text)
		if pages < 2 && c.dead >= 60_000 {
			t.Errorf("%s: read %d dead rows within a millisecond", c.text, c.dead)
		}
		if rows != c.want {
			t.Errorf("%s: %d rows, want %d", c.text, rows, c.want)
		}
	}
}
