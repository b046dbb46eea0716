package shell

import (
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestSplit(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want []string
		rest string
	}{
		{"SELECT 1;", []string{"SELECT 1"}, ""},
		{"a; b;c", []string{"a", "b"}, "c"},
		{"INSERT (';') ; x", []string{"INSERT (';')"}, " x"},
		{"INSERT ('it''s;');", []string{"INSERT ('it''s;')"}, ""},
		{`SELECT "a;b";`, []string{`SELECT "a;b"`}, ""},
		{"$$ ; $$;", []string{"$$ ; $$"}, ""},
		{"a -- ;\n;", []string{"a -- ;"}, ""},
		{"a /* ; */;", []string{"a /* ; */"}, ""},
		{"BEGIN BATCH INSERT x; INSERT y; APPLY BATCH; z;", []string{"BEGIN BATCH INSERT x; INSERT y; APPLY BATCH", "z"}, ""},
		{"BEGIN BATCH INSERT x;", nil, "BEGIN BATCH INSERT x;"},
		{";;", nil, ""},
		{"-- c\n; // d\n/* e;\n */ f;", []string{"f"}, ""},
		{"a; -- done\n", []string{"a"}, ""},
		{"a; /* open\n", []string{"a"}, " /* open\n"},
		{"/**/ -- x", nil, " -- x"},
		{"'open ;", nil, "'open ;"},
	} {
		got, rest := split(tc.in)
		if d := cmp.Diff(tc.want, got); d != "" || rest != tc.rest {
			t.Errorf("%q: %s rest %q, want %q", tc.in, d, rest, tc.rest)
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("BEGIN BATCH a; 'x;' -- y\n APPLY BATCH; $$;$$")
	f.Fuzz(func(t *testing.T, text string) {
		_, rest := split(text)
		if len(rest) > len(text) {
			t.Fatal("more came out than went in")
		}
	})
}

// TestCompletions has the cursor where | is, at the end where there is none.
func TestCompletions(t *testing.T) {
	schema := map[string][]string{
		"": {"chat", "Mixed", "system"}, "chat": {"messages", "members"}, "Mixed": {"t"}, "chat.messages": {"channel_id", "body", "select"},
	}
	find := func(ks, table string) []string {
		if table != "" {
			ks += "." + table
		}
		return schema[ks]
	}
	for _, tc := range []struct{ text, word, want string }{
		{"SEL", "SEL", "SELECT"},
		{"sel", "sel", "select"},
		{"SELECT 1; upd", "upd", "update"},
		{"", "", strings.Join(firstWords, " ")},
		{"INSERT ", "", "INTO"},
		{"USE ", "", `"Mixed" chat system`},
		{"DESCRIBE KEYSPACE ch", "ch", "chat"},
		{"SELECT * FROM c", "c", "chat."},
		{"SELECT * FROM chat.me", "chat.me", "chat.members chat.messages"},
		{`SELECT * FROM "Mixed".`, `"Mixed".`, `"Mixed".t`},
		{"SELECT * FROM mess", "mess", "messages"},
		{"SELECT * FROM chat.messages WHERE b", "b", "batch body by"},
		{"INSERT INTO messages (ch", "ch", "channel_id"},
		{"UPDATE chat.messages SET ", "", strings.Join(append([]string{`"select"`}, laterWords...), " ") + " body channel_id"},
		{"SELECT * FROM chat.messages WHERE body = 'SEL", "", ""},
		{"CONSISTENCY LOCAL_Q", "LOCAL_Q", "LOCAL_QUORUM"},
		{"SELECT * FROM chat.nope WHERE chan", "chan", ""},
	} {
		word, choices := completions(tc.text, "chat", find)
		want := strings.Fields(tc.want)
		sort.Strings(want)
		if strings.HasPrefix(tc.text, "UPDATE") {
			sort.Strings(choices)
		}
		if d := cmp.Diff(want, choices, cmpopts.EquateEmpty()); d != "" || word != tc.word {
			t.Errorf("%q: word %q, %s", tc.text, word, d)
		}
	}
}

func FuzzCompletions(f *testing.F) {
	f.Add("SELECT * FROM a.b WHERE c", "k")
	f.Fuzz(func(t *testing.T, text, name string) {
		word, choices := completions(text, name, func(string, string) []string { return []string{name, "a"} })
		if !strings.HasSuffix(text, word) {
			t.Fatalf("%q does not end with %q", text, word)
		}
		if len(choices) > 0 {
			commonPrefix(choices)
		}
	})
}

func TestColumns(t *testing.T) {
	got := columns([][]string{{"k", "name"}, {"10", "żó"}, {"1", "null"}})
	want := "  k | name\n----+------\n 10 |   żó\n  1 | null\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
