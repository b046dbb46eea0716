package shell

import (
	"testing"

	"github.com/google/go-cmp/cmp"
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

func TestColumns(t *testing.T) {
	got := columns([][]string{{"k", "name"}, {"10", "żó"}, {"1", "null"}})
	want := "  k | name\n----+------\n 10 |   żó\n  1 | null\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
