package exec

import (
	"fmt"
	"testing"

	"varve/internal/cqlwire"
)

// TestStaticIndexPages reads partitions through an index on a static column, by
// value and by range, in pages of every size: no row is lost or comes twice,
// wherever a page ends.
func TestStaticIndexPages(t *testing.T) {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE t (k int, c int, s int static, PRIMARY KEY (k, c))")
	te.exec(t, "CREATE CUSTOM INDEX x ON t (s) USING 'StorageAttachedIndex'")
	for k := range 4 {
		te.exec(t, fmt.Sprintf("INSERT INTO t (k, s) VALUES (%d, %d)", k, 1+k%2))
		for c := range 5 {
			te.exec(t, fmt.Sprintf("INSERT INTO t (k, c) VALUES (%d, %d)", k, c))
		}
	}
	for _, q := range []struct {
		text string
		want int
	}{
		{"SELECT k, c, s FROM t WHERE s = 1", 10},
		{"SELECT k, c, s FROM t WHERE s > 0", 20},
		{"SELECT k, c, s FROM t WHERE s = 1 PER PARTITION LIMIT 3", 6},
		{"SELECT k, c, s FROM t WHERE s > 0 PER PARTITION LIMIT 3", 12},
		{"SELECT k, c, s FROM t WHERE s > 0 PER PARTITION LIMIT 4 LIMIT 15", 15},
	} {
		for size := 1; size <= 7; size++ {
			p := &Params{Consistency: cqlwire.One, PageSize: size}
			rows, seen := 0, map[string]bool{}
			for pages := 0; ; pages++ {
				res, err := te.query(q.text, p)
				if err != nil || pages > 100 {
					t.Fatalf("%s in pages of %d, page %d: %v", q.text, size, pages, err)
				}
				const row = 3 * (4 + 4) // bytes: three ints with their lengths
				for d := res.Data; len(d) >= row; d = d[row:] {
					if key := fmt.Sprintf("%x", d[:row]); seen[key] {
						t.Errorf("%s in pages of %d: row %s comes twice", q.text, size, key)
					} else {
						seen[key] = true
					}
				}
				rows += res.Count
				if p.PagingState = res.PagingState; p.PagingState == nil {
					break
				}
			}
			if rows != q.want {
				t.Errorf("%s in pages of %d: %d rows, want %d", q.text, size, rows, q.want)
			}
		}
	}
}
