package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"varve/internal/console"
	"varve/internal/exec"
)

// guardrailRow is one line of getguardrailsconfig: a flag, or the thresholds
// of one guardrail, fail first.
type guardrailRow struct {
	name     string
	flag     bool
	settings []string
}

func guardrailRows() []guardrailRow {
	var out []guardrailRow
	for _, f := range exec.AllGuardFlags() {
		out = append(out, guardrailRow{name: f.Setting(), flag: true, settings: []string{f.Setting()}})
	}
	for _, g := range exec.AllGuardrails() {
		out = append(out, guardrailRow{
			name: g.Name() + "_threshold", settings: []string{g.Name() + "_fail_threshold", g.Name() + "_warn_threshold"},
		})
	}
	slices.SortFunc(out, func(a, b guardrailRow) int { return strings.Compare(a.name, b.name) })
	return out
}

func (r *guardrailRow) text(values map[string]string) string {
	if r.flag {
		return values[r.name]
	}
	return "[" + values[r.settings[0]] + ", " + values[r.settings[1]] + "]"
}

func settingValues(ctx context.Context, c *console.Client) ([]exec.Setting, map[string]string, error) {
	var list []exec.Setting
	if err := c.Call(ctx, "/v1/settings", nil, &list); err != nil {
		return nil, nil, err
	}
	values := map[string]string{}
	for _, s := range list {
		values[s.Name] = s.Value
	}
	return list, values, nil
}

// nodetoolGetGuardrails prints guardrails as Cassandra's nodetool does: all of
// a category in two columns, or the value of one.
func nodetoolGetGuardrails(category string, expand bool) nodetoolFunc {
	return func(ctx context.Context, c *console.Client, w io.Writer, args []string) error {
		switch {
		case category != "" && !slices.Contains([]string{"values", "thresholds", "flags", "others"}, category):
			return usageError("--category is values, thresholds, flags or others, not %q", category)
		case len(args) > 1:
			return usageError("Specify only one guardrail name to get the configuration of or no name to get the configuration of all of them.")
		case len(args) == 1 && category != "":
			return usageError("Do not specify additional arguments when --category/-c is set.")
		}
		_, values, err := settingValues(ctx, c)
		if err != nil {
			return err
		}
		rows := guardrailRows()
		if len(args) == 1 {
			for _, r := range rows {
				if r.name == args[0] {
					fmt.Fprintln(w, r.text(values))
					return nil
				}
				if !r.flag && slices.Contains(r.settings, args[0]) {
					fmt.Fprintln(w, values[args[0]])
					return nil
				}
			}
			return usageError("Guardrail %s not found.", args[0])
		}
		var names, texts []string
		for _, r := range rows {
			switch {
			case category == "values" || category == "others" || category == "flags" && !r.flag || category == "thresholds" && r.flag:
			case expand && !r.flag:
				names, texts = append(names, r.settings...), append(texts, values[r.settings[0]], values[r.settings[1]])
			default:
				names, texts = append(names, r.name), append(texts, r.text(values))
			}
		}
		writePairs(w, names, texts)
		return nil
	}
}

func writePairs(w io.Writer, names, values []string) {
	width := 0
	for _, n := range names {
		width = max(width, len(n))
	}
	for i, n := range names {
		fmt.Fprintf(w, "%-*s %s\n", width, n, values[i])
	}
}

// nodetoolSetGuardrails sets a flag, or a guardrail's thresholds: fail, then warn.
func nodetoolSetGuardrails(ctx context.Context, c *console.Client, _ io.Writer, args []string) error {
	if len(args) == 0 {
		return usageError("No arguments.")
	}
	for _, r := range guardrailRows() {
		if r.name != args[0] {
			continue
		}
		if len(args)-1 != len(r.settings) {
			return usageError("%s is expecting %d argument values. Getting %d instead.", args[0], len(r.settings), len(args)-1)
		}
		values := map[string]string{}
		for i, s := range r.settings {
			values[s] = args[i+1]
		}
		return c.Call(ctx, "/v1/settings", values, nil)
	}
	return usageError("Guardrail %s not found.", args[0])
}

// nodetoolSettings prints settings, or sets one that may change while the server runs.
func nodetoolSettings(ctx context.Context, c *console.Client, w io.Writer, args []string) error {
	if len(args) > 2 {
		return usageError("settings takes a name and a value at most")
	}
	if len(args) == 2 {
		return c.Call(ctx, "/v1/settings", map[string]string{args[0]: args[1]}, nil)
	}
	list, values, err := settingValues(ctx, c)
	if err != nil {
		return err
	}
	if len(args) == 1 {
		v, ok := values[args[0]]
		if !ok {
			return usageError("there is no setting %q", args[0])
		}
		fmt.Fprintln(w, v)
		return nil
	}
	var names, texts []string
	for _, s := range list {
		names, texts = append(names, s.Name), append(texts, s.Value)
	}
	writePairs(w, names, texts)
	return nil
}

// takeNegatives lets a command's arguments be negative numbers, which would
// else be taken for flags: -1 is how a guardrail is turned off.
func takeNegatives(cmd *cobra.Command, data *string) {
	cmd.DisableFlagParsing = true
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var rest []string
		for i := 0; i < len(args); i++ {
			value, given := strings.CutPrefix(args[i], "--data=")
			switch {
			case args[i] == "-h" || args[i] == "--help":
				return cmd.Help()
			case given:
				*data = value
			case args[i] == "--data" && i+1 < len(args):
				i++
				*data = args[i]
			case strings.HasPrefix(args[i], "--"):
				return usageError("unknown flag: %s", args[i])
			default:
				rest = append(rest, args[i])
			}
		}
		return run(cmd, rest)
	}
}
