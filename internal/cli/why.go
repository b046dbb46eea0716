package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"varve/internal/console"
	"varve/internal/exec"
	"varve/internal/store"
)

func newWhy() *cobra.Command {
	var (
		data   string
		asJSON bool
		req    exec.WhyRequest
	)
	cmd := &cobra.Command{
		Use:   "why KEYSPACE.TABLE KEY [RANGE]",
		Short: "Say what a partition holds, what reading it costs, and when its space returns",
		Long: "Walk one partition on the running server and say what is alive, what is dead and why, what a page\n" +
			"costs from either end, when the space of what is dead comes back, and what to change.\n\n" +
			"KEY is the partition key as CQL literals: 5, 'a', or (1, 'x') for several columns. RANGE is what\n" +
			"stands after WHERE on clustering columns: \"sent_at >= '2026-09-01' AND sent_at < '2026-09-02'\".",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 || len(args) > 3 {
				return usageError("why takes KEYSPACE.TABLE KEY [RANGE], got %d arguments; quote KEY and RANGE for the shell", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Table, req.Key = args[0], args[1]
			if len(args) == 3 {
				req.Range = args[2]
			}
			var a exec.WhyAnswer
			err := console.NewClient(socketOf(data)).Call(cmd.Context(), "/v1/why", req, &a)
			if errors.Is(err, console.ErrBadRequest) {
				return errors.New(strings.TrimPrefix(err.Error(), console.ErrBadRequest.Error()+": "))
			}
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(&a)
			}
			writeWhy(cmd.OutOrStdout(), &a)
			return nil
		},
	}
	addDataFlag(cmd, &data)
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.Int64Var(&req.MaxRows, "rows", 1_000_000, "look at this many rows at most")
	f.DurationVar(&req.MaxTime, "time", 10*time.Second, "look for this long at most")
	return cmd
}

// writeWhy prints an answer on one screen.
func writeWhy(w io.Writer, a *exec.WhyAnswer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-18s %s\n", name, fmt.Sprintf(format, args...))
	}
	what := fmt.Sprintf("%s, partition %s", a.Table, a.Key)
	if a.Range != "" {
		what += ", " + a.Range
	}
	fmt.Fprintf(w, "%s\n\n", what)
	line("Live rows", "%d, %s", a.LiveRows, bytesText(a.LiveBytes))
	line("Dead rows", "%d, %s%s", a.DeadRows, bytesText(a.DeadBytes), causesText(&a.Causes))
	line("Dead cells", "%d in live rows", a.DeadCells)
	if text := staticText(a.Static); text != "" {
		line("Static row", "%s", text)
	}
	line("Dead spans", "%s", spansText(&a.Spans))
	deletions := fmt.Sprintf("%d range deletions kept", a.RangeDeletions)
	if a.PartitionDeleted > 0 {
		deletions += ", partition deleted at " + whyTime(a.PartitionDeleted)
	}
	line("Deletions", "%s", deletions)
	if a.OldestDeletion > 0 {
		line("Deleted", "oldest %s, newest %s; gc_grace_seconds %d", whyTime(a.OldestDeletion), whyTime(a.NewestDeletion), a.GCGraceSeconds)
	}
	if a.NextExpiry > 0 {
		line("Next expiry", "%s", whyTime(a.NextExpiry))
	}
	line("On disk", "about %s, without what is in memory", bytesText(a.DiskBytes))
	line("Page, first rows", "%s", pageText(&a.Forward))
	line("Page, last rows", "%s", pageText(&a.Backward))
	if a.Stopped {
		text := fmt.Sprintf("stopped at a bound: the counts above are of what was seen, with %d more dead rows in spans", a.SpanRowsLeft)
		if a.GoOn != "" {
			text += fmt.Sprintf("; go on with RANGE %q, or raise --rows and --time", a.GoOn)
		} else {
			text += "; narrow RANGE, or raise --rows and --time"
		}
		line("Not all", "%s", text)
	}
	list := func(title string, items []string) {
		if len(items) > 0 {
			fmt.Fprintf(w, "\n%s\n", title)
		}
		for _, s := range items {
			fmt.Fprintf(w, "  - %s\n", s)
		}
	}
	list("Space returns", a.Returns)
	list("What to change", a.Advice)
}

func whyTime(sec int64) string { return time.Unix(sec, 0).UTC().Format("2006-01-02 15:04:05Z") }

func causesText(c *store.DeadCauses) string {
	var parts []string
	for _, p := range []struct {
		n    int64
		name string
	}{
		{c.RowDeletion, "row deletion"},
		{c.RangeDeletion, "range deletion"},
		{c.PartitionDeletion, "partition deletion"},
		{c.RowTTL, "row TTL"},
		{c.CellTTL, "cell TTL"},
		{c.ColumnTombstones, "column tombstones"},
		{c.DroppedColumns, "dropped columns"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", p.name, p.n))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

func staticText(s store.StaticState) string {
	switch s {
	case store.StaticLive:
		return "live"
	case store.StaticDead:
		return "dead"
	case store.StaticLeftover:
		return "live, in a partition without live rows"
	}
	return ""
}

func spansText(s *store.SpanTotals) string {
	if s.Count == 0 {
		return "none"
	}
	text := fmt.Sprintf("%d over %d rows", s.Count, s.Rows)
	if s.Estimated {
		text += " (estimated)"
	}
	if s.GoneSoon > 0 {
		text += fmt.Sprintf(", %d of them going now", s.GoneSoon)
	}
	return text
}

func pageText(p *store.PageCost) string {
	text := fmt.Sprintf("%d live, %d tombstones walked, %d rows jumped in %d spans, %d range deletions met, %s",
		p.Rows, p.Walked, p.Jumped, p.Spans, p.RangeDeletions, p.Took.Round(10*time.Microsecond))
	if p.TimedOut {
		text += " (gave up)"
	}
	return text
}

func bytesText(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 10<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 10<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
