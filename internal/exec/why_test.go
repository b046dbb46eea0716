package exec

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// whyEngine has a table of one clustering column each way, and one of composite keys.
func whyEngine(t *testing.T) *testEngine {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE up (k text, c int, v text, PRIMARY KEY (k, c)) WITH gc_grace_seconds = 864000")
	te.exec(t, "CREATE TABLE down (k text, c int, v text, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)")
	te.exec(t, `CREATE TABLE wide (a int, b text, "C" int, d int, s int static, v int, PRIMARY KEY ((a, b), "C", d))`)
	te.exec(t, "CREATE TABLE lone (k int PRIMARY KEY, v int)")
	return te
}

func (te *testEngine) why(t *testing.T, r WhyRequest) *WhyAnswer {
	t.Helper()
	a, err := te.Why(context.Background(), r)
	if err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	return a
}

func TestWhyGoesOn(t *testing.T) {
	te := whyEngine(t)
	for _, table := range []string{"up", "down"} {
		for c := range 40 {
			te.exec(t, fmt.Sprintf("INSERT INTO %s (k, c, v) VALUES ('a', %d, 'x')", table, c))
		}
	}
	for i := range 40 {
		te.exec(t, fmt.Sprintf(`INSERT INTO wide (a, b, "C", d, v) VALUES (1, 'x', %d, %d, 0)`, i/8, i%8))
	}
	for _, tc := range []struct {
		table, key, first string
		want              int64
	}{
		{"ks.up", "'a'", "", 40},
		{"ks.up", "'a'", "c >= 5 AND c < 30", 25},
		{"ks.up", "'a'", "c > 5 AND c <= 30", 25},
		{"ks.down", "'a'", "", 40},
		{"ks.down", "'a'", "c >= 5 AND c < 30", 25},
		{"ks.wide", "(1, 'x')", "", 40},
		{"ks.wide", "(1, 'x')", `"C" > 1 AND "C" < 4`, 16},
		{"ks.wide", "(1, 'x')", `"C" = 1 AND d >= 2 AND d <= 6`, 5},
		{"ks.wide", "(1, 'x')", `("C", d) > (1, 3) AND ("C") <= (2)`, 12},
	} {
		sum, pages := int64(0), 0
		for r := (WhyRequest{Table: tc.table, Key: tc.key, Range: tc.first, MaxRows: 7}); ; pages++ {
			a := te.why(t, r)
			sum += a.LiveRows
			if !a.Stopped {
				break
			}
			if a.GoOn == "" || pages > 20 {
				t.Fatalf("%+v: stopped without a way on: %+v", tc, a.Explanation)
			}
			r.Range = a.GoOn
		}
		if sum != tc.want {
			t.Errorf("%s %q: %d rows in parts, want %d", tc.table, tc.first, sum, tc.want)
		}
	}
}

func TestWhyRefuses(t *testing.T) {
	te := whyEngine(t)
	for _, tc := range []struct{ table, key, rng, want string }{
		{"up", "'a'", "", "needs its keyspace"},
		{"no.up", "'a'", "", "keyspace no does not exist"},
		{"ks.no", "'a'", "", "table no does not exist"},
		{"ks.up WHERE k = 'b' AND", "'a'", "", "no viable alternative"},
		{"system.local", "'a'", "", "is not stored"},
		{"ks.up", "a'", "", "is not the partition key of ks.up, which is written as k text"},
		{"ks.up", "'a' AND c = 1", "", "is not the partition key"},
		{"ks.up", "'a' LIMIT 3", "", "KEY takes conditions alone"},
		{"ks.up", "?", "", "not bind markers"},
		{"ks.up", "", "", "is not the partition key"},
		{"ks.up", "5", "", "Invalid INTEGER constant (5) for"},
		{"ks.up", "null", "", "Invalid null value"},
		{"ks.wide", "1", "", "written as (a int, b text)"},
		{"ks.wide", "(1)", "", "written as (a int, b text)"},
		{"ks.up", "'a'", "v = 'x'", "RANGE is on the clustering columns (c) of ks.up, not on v"},
		{"ks.up", "'a'", "x = 1", "Undefined column name x"},
		{"ks.up", "'a'", "token(k) > 1", "RANGE is on the clustering columns"},
		{"ks.up", "'a'", "c > 1 ALLOW FILTERING", "RANGE takes conditions alone"},
		{"ks.up", "'a'", "c > 1; DROP TABLE ks.up", "RANGE:"},
		{"ks.up", "'a'", "c > 5 AND c < 5", "holds no row"},
		{"ks.wide", "(1, 'x')", "d = 1", "cannot be restricted"},
		{"ks.lone", "1", "c = 1", "Undefined column name c"},
		{"ks.up", "'" + strings.Repeat("x", 70_000) + "'", "", "longer than 65536 bytes"},
	} {
		_, err := te.Why(context.Background(), WhyRequest{Table: tc.table, Key: tc.key, Range: tc.rng})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s %.40s %q: %v, want %q", tc.table, tc.key, tc.rng, err, tc.want)
		}
	}
	if _, err := te.Why(context.Background(), WhyRequest{Table: "ks.lone", Key: "1", MaxRows: -1}); err == nil {
		t.Error("a negative bound was taken")
	}
}

func TestWhyAdvice(t *testing.T) {
	te := whyEngine(t)
	for c := range 3000 {
		te.exec(t, fmt.Sprintf("INSERT INTO up (k, c, v) VALUES ('a', %d, null)", c))
		if c%3 > 0 {
			te.exec(t, fmt.Sprintf("DELETE FROM up WHERE k = 'a' AND c = %d", c))
		}
	}
	te.exec(t, "DELETE FROM up WHERE k = 'a' AND c >= 2990")
	te.exec(t, "UPDATE up USING TTL 10 SET v = 'x' WHERE k = 'a' AND c = 5000")
	te.clock.advance(time.Minute)
	a := te.why(t, WhyRequest{Table: "ks.up", Key: "'a'"})
	// What only the range deletion killed may be gone already.
	if a.Causes.RowDeletion != 1993 || a.Causes.RangeDeletion > 11 || a.Causes.CellTTL != 1 || a.RangeDeletions != 1 {
		t.Errorf("causes: %+v", a.Causes)
	}
	all := strings.Join(append(a.Returns, a.Advice...), "\n")
	for _, want := range []string{
		"cell by cell", "from 2026-01-12 03:04:05Z", "lie between live ones", "writing null deletes",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in:\n%s", want, all)
		}
	}
	te.clock.advance(11 * 24 * time.Hour)
	if a = te.why(t, WhyRequest{Table: "ks.up", Key: "'a'"}); !strings.Contains(strings.Join(a.Returns, "\n"), "go now") {
		t.Errorf("after gc_grace: %q", a.Returns)
	}
	lone := te.why(t, WhyRequest{Table: "ks.lone", Key: "1"})
	if len(lone.Returns) != 0 || lone.Advice[0] != "nothing: a page costs what its live rows cost" {
		t.Errorf("empty: %+v", lone)
	}
}
