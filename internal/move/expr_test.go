package move

import (
	"strings"
	"testing"
)

func exprTable() *Table {
	return &Table{Name: "m", Columns: []Column{
		{Name: "n", Type: Type{OID: oidInt8}},
		{Name: "body", Type: Type{OID: oidText}},
		{Name: "read", Type: Type{OID: oidBool}},
		{Name: "at", Type: Type{OID: oidTimestamptz}},
		{Name: "raw", Type: Type{OID: oidBytea}},
	}}
}

func TestExpr(t *testing.T) {
	table := exprTable()
	row := Row{int8Of(5), []byte("it's"), {1}, int8Of(0), {7}}
	null := make(Row, len(row))
	for _, tt := range []struct {
		text       string
		row, nulls bool // false for these rows
		sql        string
	}{
		{"n > 3", false, false, `("n" > 3)`},
		{"n > 5", true, false, `("n" > 5)`},
		{"n is not null", false, true, `(NOT ("n" IS NULL))`},
		{"raw IS NULL", true, false, `("raw" IS NULL)`},
		{"not read", true, false, `(NOT "read")`},
		{"read = true and n <= 5.5", false, false, `(("read" = TRUE) AND ("n" <= 5.5))`},
		{"not read or at >= '1999-12-31'", false, false, `((NOT "read") OR ("at" >= '1999-12-31'))`},
		{"body = 'it''s'", false, false, `("body" = 'it''s')`},
		{"(n = 1 or n = 2) and body <> ''", true, false, `((("n" = 1) OR ("n" = 2)) AND ("body" <> ''))`},
		{"n != -5", false, false, `("n" <> -5)`},
		{`"n" = n`, false, false, `("n" = "n")`},
		{"null = 1", false, false, `(NULL = 1)`},
	} {
		e, err := ParseExpr(tt.text, table)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		if sql := e.SQL(func(c int) string { return `"` + table.Columns[c].Name + `"` }); sql != tt.sql {
			t.Errorf("%s: %s, want %s", tt.text, sql, tt.sql)
		}
		for _, r := range []struct {
			row  Row
			want bool
		}{{row, tt.row}, {null, tt.nulls}} {
			if got, err := e.False(table, r.row); err != nil || got != r.want {
				t.Errorf("%s for %q: false is %v, %v", tt.text, r.row, got, err)
			}
		}
	}
}

func TestExprRefuses(t *testing.T) {
	table := exprTable()
	for _, tt := range []struct{ text, want string }{
		{"", "ends too early"},
		{"n >", "ends too early"},
		{"m = 1", `no moved column "m"`},
		{"n = 1; drop table m", "cannot stand"},
		{"n = 1 n", "left over"},
		{"(n = 1", "no closing )"},
		{"body = 'x", "no closing '"},
		{"n is 5", "IS needs NULL"},
		{"n = 5x", "not a number"},
		{strings.Repeat("(", 1000) + "n", "too many levels"},
		{strings.Repeat("not ", 1000) + "n", "too many levels"},
	} {
		if e, err := ParseExpr(tt.text, table); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.40q: %+v, %v, want %q", tt.text, e, err, tt.want)
		}
	}
	for _, text := range []string{"n = 'a'", "n", "raw = raw"} {
		e, err := ParseExpr(text, table)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.False(table, Row{int8Of(1), nil, nil, nil, {1}}); err == nil {
			t.Errorf("%s is checked without an error", text)
		}
	}
}

func FuzzParseExpr(f *testing.F) {
	f.Add("n > 3 and (body = 'it''s' or read is not null)")
	f.Add(`not "n" <> -5.5`)
	table := exprTable()
	row := Row{int8Of(5), []byte("x"), {1}, int8Of(0), {7}}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ParseExpr(text, table)
		if err != nil {
			return
		}
		_, _ = e.False(table, row)
		sql := e.SQL(func(c int) string { return `"` + table.Columns[c].Name + `"` })
		again, err := ParseExpr(sql, table)
		if err != nil {
			t.Fatalf("%q became %q: %v", text, sql, err)
		}
		if more := again.SQL(func(c int) string { return `"` + table.Columns[c].Name + `"` }); more != sql {
			t.Fatalf("%q became %q, then %q", text, sql, more)
		}
	})
}
