package exec

import (
	"fmt"
	"strings"
	"testing"
)

// TestIndexChoice: of several indexes the one with the fewest entries drives
// the read, whichever column is written first, and pages give every row once.
func TestIndexChoice(t *testing.T) {
	for _, using := range []string{"", " USING 'sai'"} {
		te := newTestEngine(t)
		te.exec(t, "CREATE TABLE t (k int, c int, a int, b int, s set<int>, st int static, PRIMARY KEY (k, c))")
		for _, on := range []string{"a", "b", "values(s)", "st"} {
			name := "i_" + strings.Trim(strings.TrimPrefix(on, "values"), "()")
			te.exec(t, fmt.Sprintf("CREATE INDEX %s ON t (%s)%s", name, on, using))
		}
		for i := range 900 {
			te.exec(t, fmt.Sprintf("INSERT INTO t (k, c, a, b, s) VALUES (%d, %d, 1, %d, {%d, 1000})", i%30, i, i%45, i%100))
		}
		te.exec(t, "INSERT INTO t (k, st) VALUES (7, 5)")
		for _, tc := range []struct {
			where, index string
			rows         int
		}{
			{"a = 1 AND b = 7", "i_b", 20},
			{"b = 7 AND a = 1", "i_b", 20},
			{"a = 1 AND s CONTAINS 3", "i_s", 9},
			{"s CONTAINS 1000 AND b = 7 AND a = 1", "i_b", 20},
			{"st = 5 AND a = 1", "i_st", 30},
			{"a = 1 AND b = 700", "i_b", 0},
			{"k = 7 AND a = 1 AND b = 7", "i_b", 10},
			{"a = 1 AND s CONTAINS 1000", "", 900},
		} {
			text := "SELECT k, c FROM t WHERE " + tc.where + " ALLOW FILTERING"
			p := one()
			p.Tracing = true
			res, err := te.query(text, p)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			te.tracer.flush()
			events := string(te.exec(t, "SELECT activity FROM system_traces.events WHERE session_id = "+formatUUID(*res.TraceID)).Data)
			if res.Count != tc.rows || tc.index != "" && !strings.Contains(events, "using index "+tc.index) {
				t.Errorf("%s%s: %d rows, want %d; %q", text, using, res.Count, tc.rows, events)
			}
			seen := map[string]bool{}
			for p := (*p); ; {
				p.PageSize, p.Tracing = 7, false
				page, err := te.query(text, &p)
				if err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				for _, row := range cells(t, page) {
					if seen[row] {
						t.Fatalf("%s: row %s came twice", text, row)
					}
					seen[row] = true
				}
				if p.PagingState = page.PagingState; len(p.PagingState) == 0 {
					break
				}
			}
			if len(seen) != tc.rows {
				t.Errorf("%s%s: %d rows by pages, want %d", text, using, len(seen), tc.rows)
			}
		}
	}
}
