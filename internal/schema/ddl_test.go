package schema

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"varve/internal/cql"
)

// TestStatements runs the files under testdata. A directive ddl is one
// statement; its output is ok, or Cassandra 5.0.9's refusal or warnings, as
// a real one gave them. A directive altered shows the options of a table that
// are not the defaults. Where Varve differs on purpose the directive is varve.
func TestStatements(t *testing.T) {
	for _, name := range []string{"keyspace", "table", "options", "alter", "usertype", "index", "refused"} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			c, err := Open(ctx, NewMemoryStorage())
			if err != nil {
				t.Fatal(err)
			}
			c.now = func() time.Time { return time.UnixMicro(1_700_000_000_000_000) }
			datadriven.RunTest(t, "testdata/"+name, func(t *testing.T, d *datadriven.TestData) string {
				switch d.Cmd {
				case "altered":
					ks, table, _ := strings.Cut(d.Input, ".")
					return alteredOptions(c.Snapshot().Table(ks, table)) + "\n"
				}
				return runStatement(ctx, c, d.Input) + "\n"
			})
			checkReopens(t, c)
		})
	}
}

func runStatement(ctx context.Context, c *Catalog, text string) string {
	if rest, ok := strings.CutPrefix(text, "DESCRIBE "); ok {
		return describeForTest(c.Snapshot(), rest)
	}
	parsed, err := cql.Parse(text)
	if err != nil {
		return "syntax: " + err.Error()
	}
	res, err := c.Apply(ctx, "", parsed.Stmt)
	var refused *Error
	switch {
	case errors.As(err, &refused):
		if refused.Kind == AlreadyExists {
			return fmt.Sprintf("exists: ks=%s table=%s", refused.Keyspace, refused.Table)
		}
		kind := map[ErrorKind]string{
			Invalid: "invalid", ConfigError: "config", Unauthorized: "unauthorized", Syntax: "syntax",
		}[refused.Kind]
		return kind + ": " + refused.Msg
	case err != nil:
		return "unexpected error: " + err.Error()
	case len(res.Warnings) > 0:
		return "warning: " + strings.Join(res.Warnings, "\nwarning: ")
	}
	return "ok"
}

func describeForTest(s *Snapshot, what string) string {
	kind, name, _ := strings.Cut(what, " ")
	ks, object, _ := strings.Cut(strings.ReplaceAll(name, `"`, ""), ".")
	k := s.Keyspaces[ks]
	if k == nil {
		return "invalid: '" + ks + "' not found in keyspaces"
	}
	switch kind {
	case "KEYSPACE":
		return DescribeKeyspace(k)
	case "TYPE":
		if t := k.Types[object]; t != nil {
			return DescribeType(t)
		}
		return fmt.Sprintf("invalid: User defined type '%s' not found in '%s'", object, ks)
	case "INDEX":
		if t, x := k.FindIndex(object); x != nil {
			return DescribeIndex(t, x)
		}
		return fmt.Sprintf("invalid: Table for existing index '%s' not found in '%s'", object, ks)
	}
	object, internals := strings.CutSuffix(object, " WITH INTERNALS")
	t := k.Tables[object]
	if t == nil {
		return fmt.Sprintf("invalid: Table '%s' not found in keyspace '%s'", object, ks)
	}
	out := []string{DescribeTable(t, internals)}
	for _, x := range t.Indexes {
		out = append(out, DescribeIndex(t, x))
	}
	return strings.Join(out, "\n")
}

func optionLines(t *Table) []string {
	_, options, _ := strings.Cut(DescribeTable(t, false), "\n) WITH ")
	lines := strings.Split(strings.TrimSuffix(options, ";"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, "    AND ")
	}
	return lines
}

func alteredOptions(t *Table) string {
	plain := *t
	plain.Options = defaultOptions()
	defaults := optionLines(&plain)
	lines := slices.DeleteFunc(optionLines(t), func(l string) bool { return slices.Contains(defaults, l) })
	if len(lines) == 0 {
		return "defaults"
	}
	return strings.Join(lines, "\n")
}
