package exec

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"varve/internal/cqlwire"
)

// tombstoneEngine has tables of nothing but deleted rows, a warning threshold of
// 10 and, when fail is not 0, a failure threshold.
func tombstoneEngine(t *testing.T, fail int64) (*testEngine, *bytes.Buffer) {
	te := newTestEngine(t)
	log := &bytes.Buffer{}
	te.opts.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	te.opts.Limits.TombstoneWarn.Store(10)
	te.opts.Limits.TombstoneFail.Store(fail)
	te.exec(t, `CREATE TABLE t (k int, k2 text, c int, d text, "E" int, v int, w text, s int static, m map<text, int>, `+
		`PRIMARY KEY ((k, k2), c, d, "E")) WITH CLUSTERING ORDER BY (c DESC, d ASC, "E" ASC)`)
	te.exec(t, "CREATE TABLE u (k int, c int, v int, w text, PRIMARY KEY (k, c))")
	for i := range 12 {
		te.exec(t, fmt.Sprintf(`DELETE FROM t WHERE k = 1 AND k2 = 'a''b' AND c = %d AND d = 'x' AND "E" = 1`, i))
		for k := 1; k < 3; k++ {
			te.exec(t, fmt.Sprintf("DELETE FROM u WHERE k = %d AND c = %d", k, i))
		}
	}
	return te, log
}

// TestTombstoneWarning checks the text that Cassandra 5.0.9 gave for the same
// reads of the same rows (1,200 of each in place of 12).
func TestTombstoneWarning(t *testing.T) {
	te, log := tombstoneEngine(t, 0)
	const k1, k2, tk = "-4069959284402364209", "-3248873570005575792", "-6170805397468878944"
	in := make([]string, 110)
	for i := range in {
		in[i] = fmt.Sprint(i)
	}
	long := "SELECT v FROM ks.u WHERE k = 1 AND c IN (" + strings.Join(in, ", ") + ", 110, 111, 112, 113"
	for _, c := range []struct {
		text string
		page int
		want []string // counts, the rebuilt text, the token
	}{
		{"SELECT * FROM u WHERE k = 1", 5000, []string{"12|SELECT * FROM ks.u WHERE k = 1 LIMIT 5000|" + k1}},
		{"SELECT v FROM u WHERE k = 1", 5000, []string{"12|SELECT v FROM ks.u WHERE k = 1 LIMIT 5000|" + k1}},
		{"SELECT k, c FROM u WHERE k = 1", 5000, []string{"12|SELECT * FROM ks.u WHERE k = 1 LIMIT 5000|" + k1}},
		{"SELECT v, c FROM u WHERE k = 1 LIMIT 7", 5000, []string{"12|SELECT v FROM ks.u WHERE k = 1 LIMIT 7|" + k1}},
		{"SELECT * FROM u WHERE k = 1", 0, []string{"12|SELECT * FROM ks.u WHERE k = 1|" + k1}},
		{"SELECT * FROM u WHERE k = 1 LIMIT 20000", 100, []string{"12|SELECT * FROM ks.u WHERE k = 1 LIMIT 100|" + k1}},
		{
			"SELECT * FROM u WHERE k = 1 ORDER BY c DESC", 5000,
			[]string{"12|SELECT * FROM ks.u WHERE k = 1 ORDER BY c DESC LIMIT 5000|" + k1},
		},
		{"SELECT * FROM u WHERE k = 1 AND c > 0", 5000, []string{"11|SELECT * FROM ks.u WHERE k = 1 AND c > 0 LIMIT 5000|" + k1}},
		{
			"SELECT * FROM u WHERE k = 1 AND c >= 1 AND c < 15", 5000,
			[]string{"11|SELECT * FROM ks.u WHERE k = 1 AND c >= 1 AND c < 15 LIMIT 5000|" + k1},
		},
		{"SELECT * FROM u WHERE k = 1 AND c IN (1, 2)", 5000, nil},
		{"SELECT * FROM u WHERE k IN (1, 2)", 5000, []string{
			"12|SELECT * FROM ks.u WHERE k = 1 LIMIT 5000|" + k1, "12|SELECT * FROM ks.u WHERE k = 2 LIMIT 5000|" + k2,
		}},
		{"SELECT * FROM u", 5000, []string{"24|SELECT * FROM ks.u LIMIT 5000|" + k2}},
		{"SELECT v FROM u WHERE v = 3 ALLOW FILTERING", 5000, []string{"24|SELECT v FROM ks.u WHERE v = 3 LIMIT 5000|" + k2}},
		{
			"SELECT v FROM u WHERE k = 1 AND v = 3 AND w = 'a''b' ALLOW FILTERING", 5000,
			[]string{"12|SELECT v, w FROM ks.u WHERE k = 1 AND v = 3 AND w = 'a''b' LIMIT 5000|" + k1},
		},
		{
			"SELECT v FROM u WHERE k = 1 AND c > 0 AND v IN (1, 2) ALLOW FILTERING", 5000,
			[]string{"11|SELECT v FROM ks.u WHERE k = 1 AND c > 0 AND v IN [1, 2] LIMIT 5000|" + k1},
		},
		{"SELECT count(*) FROM u WHERE k = 1", 5000, []string{"12|SELECT * FROM ks.u WHERE k = 1 LIMIT 5000|" + k1}},
		{"SELECT DISTINCT k FROM u", 5000, []string{"24|SELECT * FROM ks.u LIMIT 5000 PER PARTITION LIMIT 1|" + k2}},
		{"SELECT * FROM u PER PARTITION LIMIT 3", 5000, []string{"24|SELECT * FROM ks.u LIMIT 5000 PER PARTITION LIMIT 3|" + k2}},
		{
			"SELECT * FROM u WHERE k = 1 PER PARTITION LIMIT 3 LIMIT 5", 5000,
			[]string{"12|SELECT * FROM ks.u WHERE k = 1 LIMIT 5 PER PARTITION LIMIT 3|" + k1},
		},
		{"SELECT * FROM t", 5000, []string{"12|SELECT * FROM ks.t LIMIT 5000|" + tk}},
		{"SELECT * FROM t WHERE k = 1 AND k2 = 'a''b'", 5000, []string{"12|SELECT * FROM ks.t WHERE k = 1 AND k2 = 'a''b' LIMIT 5000|" + tk}},
		{
			`SELECT v, m, s, "E" FROM t WHERE k = 1 AND k2 = 'a''b' AND c < 99 AND c > 0`, 5000,
			[]string{"11|SELECT s, m, v FROM ks.t WHERE k = 1 AND k2 = 'a''b' AND c < 99 AND c > 0 LIMIT 5000|" + tk},
		},
		{
			"SELECT v FROM t WHERE k = 1 AND k2 = 'a''b' AND (c, d) > (0, 'q') AND c <= 1100 ORDER BY c ASC", 5000,
			[]string{"12|SELECT v FROM ks.t WHERE k = 1 AND k2 = 'a''b' AND c <= 1100 AND c > 0 AND d > 'q' ORDER BY c ASC, d DESC, \"E\" DESC LIMIT 5000|" + tk},
		},
		{
			"SELECT v FROM t WHERE m CONTAINS 3 AND m CONTAINS KEY 'a' AND m['a'] = 2 ALLOW FILTERING", 5000,
			[]string{"12|SELECT m, v FROM ks.t WHERE m CONTAINS 3 AND m CONTAINS KEY 'a' AND m['a'] = 2 LIMIT 5000|" + tk},
		},
		{"SELECT v FROM t WHERE k = 1 ALLOW FILTERING", 5000, []string{"12|SELECT v FROM ks.t WHERE k = 1 LIMIT 5000|" + tk}},
		{
			"SELECT v FROM u WHERE k = 1 AND c IN (" + strings.Join(in, ", ") + ", 110, 111, 112, 113, 114, 115, 116, 117, 118)", 5000,
			[]string{"12|" + long + "…|" + k1},
		},
	} {
		log.Reset()
		res, err := te.query(c.text, &Params{Consistency: cqlwire.One, PageSize: c.page})
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		var want []string
		for _, w := range c.want {
			p := strings.Split(w, "|")
			text := p[1] + " ALLOW FILTERING"
			if cut, ok := strings.CutSuffix(p[1], "…"); ok {
				text = (cut + ", 114, 115, 116, 117")[:512]
			}
			want = append(want, fmt.Sprintf("Read 0 live rows and %s tombstone cells for query %s; token %s (see tombstone_warn_threshold)", p[0], text, p[2]))
		}
		var got []string
		for _, w := range res.Warnings {
			if w != "Aggregation query used without partition key" {
				got = append(got, w)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", c.text, d)
		}
		if n := strings.Count(log.String(), "level=WARN"); n != len(want) {
			t.Errorf("%s: %d warnings in the log, want %d:\n%s", c.text, n, len(want), log)
		}
	}
}

func TestTombstoneFailure(t *testing.T) {
	te, log := tombstoneEngine(t, 11)
	_, err := te.query("SELECT v FROM t WHERE k = 1 AND k2 = 'a''b' ORDER BY c ASC LIMIT 50", &Params{Consistency: cqlwire.LocalOne, PageSize: 100})
	var we *cqlwire.Error
	if !errors.As(err, &we) {
		t.Fatalf("got %v, want a read failure", err)
	}
	query := "SELECT v FROM ks.t WHERE k = 1 AND k2 = 'a''b' ORDER BY c ASC, d DESC, \"E\" DESC LIMIT 50 ALLOW FILTERING"
	want := &cqlwire.Error{
		Code:        cqlwire.ErrReadFailure,
		Message:     "Operation failed - received 0 responses and 1 failures: READ_TOO_MANY_TOMBSTONES from /127.0.0.1:7000",
		Warnings:    []string{"Read 0 live rows and 12 tombstone cells for query " + query + "; token -6170805397468878944 (see tombstone_warn_threshold)"},
		Consistency: cqlwire.LocalOne,
		Required:    1,
		Failures:    []cqlwire.Failure{{Addr: te.opts.Node.Address.Addr(), Code: 1}},
	}
	if d := cmp.Diff(want, we, cmp.Comparer(func(a, b cqlwire.Failure) bool { return a == b })); d != "" {
		t.Error(d)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[1], "level=ERROR") {
		t.Fatalf("log:\n%s", log)
	}
	text := "Scanned over 12 tombstones during query '" + query + "' (last scanned row token was -6170805397468878944 and " +
		"partion key was ((1, a'b), 11, x, 1)); query aborted"
	if !strings.Contains(lines[1], strings.ReplaceAll(text, `"`, `\"`)) {
		t.Errorf("log has %s, want %s", lines[1], text)
	}
	// Each of several partitions is counted by itself, and other reads are not disturbed.
	te.opts.Limits.TombstoneFail.Store(12)
	if _, err := te.query("SELECT * FROM u WHERE k IN (1, 2)", &Params{Consistency: cqlwire.One}); err != nil {
		t.Error(err)
	}
}

// TestReadFigures: what a read met is in its table's figures, though it was reported before.
func TestReadFigures(t *testing.T) {
	te, _ := tombstoneEngine(t, 0)
	te.exec(t, "INSERT INTO u (k, c) VALUES (1, 100)")
	for _, text := range []string{"SELECT * FROM u WHERE k IN (1, 2)", "SELECT * FROM u"} {
		if _, err := te.query(text, one()); err != nil {
			t.Fatal(err)
		}
	}
	st, err := te.opts.Store.TableStats(te.opts.Catalog.Snapshot().Table("ks", "u"))
	if err != nil {
		t.Fatal(err)
	}
	if st.Reads != 2 || st.MaxTombstones != 24 || st.MeanTombstones != 24 || st.MeanLive != 1 {
		t.Errorf("%+v", st)
	}
}
