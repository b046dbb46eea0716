package cql

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"

	"varve/internal/cqltype"
)

// TestGolden parses each input line of testdata and compares the tree, or the
// error, with what is written there. Command "parse" prints the tree, "print"
// the statement as Format writes it, "type" a type.
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var b strings.Builder
			if d.Cmd == "text" {
				return golden(t, d.Input, true) + "\n"
			}
			for _, line := range strings.Split(d.Input, "\n") {
				if d.Cmd == "type" {
					ty, err := ParseType(line)
					if err != nil {
						fmt.Fprintln(&b, err)
						continue
					}
					fmt.Fprintln(&b, FormatType(ty), dump(reflect.ValueOf(ty)))
					continue
				}
				fmt.Fprintln(&b, golden(t, line, d.Cmd == "parse"))
			}
			return b.String()
		})
	})
}

func golden(t *testing.T, text string, tree bool) string {
	p, err := Parse(text)
	if err != nil {
		return err.Error()
	}
	checkRoundTrip(t, p)
	if !tree {
		return Format(p.Stmt)
	}
	s := dump(reflect.ValueOf(p.Stmt))
	if len(p.Markers) > 0 {
		s += fmt.Sprintf(" markers=%q", p.Markers)
	}
	return s
}

// checkRoundTrip fails unless printing and parsing again gives the same tree.
func checkRoundTrip(t *testing.T, p *Parsed) {
	t.Helper()
	if _, ok := p.Stmt.(*Unsupported); ok {
		return
	}
	if c, ok := p.Stmt.(*CreateTable); ok && c.HasPrimaryKey > 1 {
		return // the second definition is counted, not kept
	}
	text := Format(p.Stmt)
	again, err := Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if diff := cmp.Diff(p, again); diff != "" {
		t.Fatalf("%s: %s", text, diff)
	}
}

var literalKinds = [...]string{"string", "int", "float", "bool", "uuid", "hex", "duration", "null"}

// dump writes the set fields of a tree.
func dump(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return "nil"
		}
		return dump(v.Elem())
	case reflect.Slice:
		items := make([]string, v.Len())
		for i := range items {
			items[i] = dump(v.Index(i))
		}
		return "[" + strings.Join(items, " ") + "]"
	case reflect.Map:
		return fmt.Sprint(v.Interface())
	case reflect.String:
		return strconv.Quote(v.String())
	case reflect.Struct:
		return dumpStruct(v)
	}
	return fmt.Sprint(v.Interface())
}

func dumpStruct(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case Literal:
		return literalKinds[x.Kind] + "(" + x.Text + ")"
	case Column:
		return x.Name
	case Marker:
		return fmt.Sprintf("?%d", x.Index)
	case Name:
		if x.Keyspace == "" {
			return x.Name
		}
		return x.Keyspace + "." + x.Name
	case TypeRef:
		if x.Quoted {
			return "quoted " + FormatType(x)
		}
		return FormatType(x)
	}
	var fields []string
	for i := range v.NumField() {
		f := v.Field(i)
		if f.IsZero() && !(f.Kind() == reflect.Slice && !f.IsNil()) {
			continue
		}
		fields = append(fields, v.Type().Field(i).Name+"="+dump(f))
	}
	return v.Type().Name() + "{" + strings.Join(fields, " ") + "}"
}

func TestReservedAgreesWithQuoting(t *testing.T) {
	for _, w := range keywords {
		if got, want := IsReserved(w), cqltype.MaybeQuote(w) != w; got != want {
			t.Errorf("IsReserved(%q) = %v, but quoting is %v", w, got, want)
		}
	}
	for _, w := range []string{"", "a", "a1", "_a", "1a", "A", "a b", "é", "a_", "table", "columnfamilies"} {
		if got, want := IsReserved(w), cqltype.MaybeQuote(w) != w; got != want {
			t.Errorf("IsReserved(%q) = %v, but quoting is %v", w, got, want)
		}
	}
	// Constants in Cassandra's grammar, which its own list of words forgets.
	for _, w := range []string{"true", "false"} {
		if !IsReserved(w) {
			t.Errorf("IsReserved(%q) = false", w)
		}
	}
}

func TestUnreservedWordsAreNames(t *testing.T) {
	for _, w := range keywords {
		text := "SELECT a FROM t WHERE " + w + " = 1"
		_, err := Parse(text)
		if IsReserved(w) != (err != nil) {
			t.Errorf("%s: %v", text, err)
		}
		if _, err := Parse(`SELECT "` + w + `" FROM t WHERE "` + w + `" = 1`); err != nil {
			t.Errorf("quoted %s: %v", w, err)
		}
	}
}

func TestLimits(t *testing.T) {
	repeat := strings.Repeat
	for _, tc := range []struct{ name, text, want string }{
		{"depth of lists", "INSERT INTO t (a) VALUES (" + repeat("[", 1e6) + ")", "nested too deeply"},
		{"depth of parentheses", "SELECT " + repeat("(", 1e6) + " FROM t", "nested too deeply"},
		{"depth of relations", "SELECT * FROM t WHERE " + repeat("(", 1e6) + "a = 1", "nested too deeply"},
		{"depth of negation", "SELECT " + repeat("- ", 1e6) + "a FROM t", "nested too deeply"},
		{"depth of calls", "SELECT " + repeat("f(", 1e6) + " FROM t", "nested too deeply"},
		{"depth of casts", "SELECT " + repeat("cast(", 1e6) + " FROM t", "nested too deeply"},
		{"depth of hints", "SELECT " + repeat("(int)", 1e6) + "1 FROM t", "nested too deeply"},
		{"depth of types", "CREATE TABLE t (a " + repeat("list<", 1e6) + "int", "nested too deeply"},
		{"operators", "SELECT a" + repeat(" + a", 1e6) + " FROM t", "Too many operators"},
		{"fields", "SELECT a" + repeat(".a", 1e6) + " FROM t", "Too many operators"},
		{"relations", "SELECT * FROM t WHERE a = 1" + repeat(" AND a = 1", 1e6), "Too many conditions"},
		{"conditions", "UPDATE t SET a = 1 WHERE k = 1 IF a = 1" + repeat(" AND a = 1", 1e6), "Too many conditions"},
		{"markers", "INSERT INTO t (a) VALUES (?" + repeat(", ?", MaxMarkers) + ")", "Too many markers(?). 65536 markers exceed the allowed maximum of 65535"},
		{"tokens", "INSERT INTO t (a) VALUES ([1" + repeat(", 1", MaxTokens), "Statement is too long"},
		{"names", "SELECT a" + repeat(",a", MaxTokens) + " FROM t", "Statement is too long"},
		{"unsupported", "CREATE TRIGGER " + repeat("a ", MaxTokens), "Statement is too long"},
		{"properties", "CREATE KEYSPACE k WITH a0 = 1" + properties(1e4), "Too many properties"},
	} {
		_, err := Parse(tc.text)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %s", tc.name, err, tc.want)
		}
	}
	for _, text := range []string{
		"INSERT INTO t (a) VALUES (?" + repeat(", ?", MaxMarkers-1) + ")",
		"SELECT * FROM t WHERE a = 1" + repeat(" AND a = 1", MaxRelations-1),
		"SELECT * FROM t WHERE a IN (1" + repeat(", 1", 1e5) + ")",
		"SELECT " + repeat("(", MaxDepth) + "a" + repeat(")", MaxDepth) + " FROM t",
		"SELECT a" + repeat(" + a", MaxOperators) + " FROM t",
	} {
		if _, err := Parse(text); err != nil {
			t.Errorf("%.60s…: %v", text, err)
		}
	}
}

func properties(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, " AND a%d = 1", i+1)
	}
	return b.String()
}

// TestMessagesStayShort keeps a hostile text from coming back in its error.
func TestMessagesStayShort(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, text := range []string{"SELECT '" + long + "' x y", "SELECT " + long + " x", long, `"` + long, "SELECT a FROM t WHERE a = 1 '" + long + "'"} {
		_, err := Parse(text)
		if err == nil || len(err.Error()) > 4096 {
			t.Errorf("%.20s…: message of %d bytes", text, len(fmt.Sprint(err)))
		}
	}
}

func TestPosition(t *testing.T) {
	for text, want := range map[string][2]int{
		"SELECT *\n  FRM t":       {2, 2},
		"SELECT '😀é' FRM t":       {1, 13},
		"SELECT a\nFROM t\n#":     {3, 0},
		"SELECT 'a\nb' FROM t x":  {2, 10},
		"/* c\n */ SELECT x y":    {2, 13},
		"-- c\nSELECT * FROM t 5": {2, 16},
	} {
		_, err := Parse(text)
		se, ok := err.(*SyntaxError)
		if !ok || se.Line != want[0] || se.Col != want[1] {
			t.Errorf("%q: %+v, want line %d:%d", text, se, want[0], want[1])
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"SELECT a.b[1..2], (int)x, {a: 1}, 'x''y', $$z$$ FROM \"T\" WHERE token(a) > ? AND m[1] = 2 LIMIT :n",
		"UPDATE t SET a = a - 1, b[1] = {2: 3}, c = [1] + c WHERE k IN ? IF d CONTAINS 1",
		"BEGIN BATCH INSERT INTO t (a) VALUES (1h30m); DELETE a FROM t WHERE k = 0xca; APPLY BATCH",
		"CREATE TABLE t (a frozen<map<text, int>>, b vector<float, 2> STATIC, PRIMARY KEY ((a), b)) WITH x = {'a': 1}",
		"GRANT ALL ON FUNCTION f() TO 'r'", "ALTER ROLE r WITH OPTIONS = {'a': 'b'} AND LOGIN = true",
		"SELECT -a - - 5 FROM t -- c", "DESC ONLY KEYSPACE k WITH INTERNALS",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			if _, ok := err.(*SyntaxError); !ok || err.Error() == "" {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		checkRoundTrip(t, p)
	})
}

var benchTexts = map[string]string{
	"select": "SELECT message_id, sent_at, body FROM chat.messages_by_channel WHERE channel_id = 1 AND sent_at >= '2026-01-16T22:00:00Z' AND sent_at < '2026-01-17T02:00:00Z' ORDER BY sent_at ASC LIMIT 50",
	"insert": "INSERT INTO chat.messages_by_channel (channel_id, sent_at, message_id, sender, body) VALUES (1, '2026-01-16T22:00:00.000Z', 123456789, 'somebody', 'hello there, how are you today?')",
}

func BenchmarkParse(b *testing.B) {
	for name, text := range benchTexts {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
