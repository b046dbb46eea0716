package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"varve/internal/move"
)

// moveStatus is all that status shows.
type moveStatus struct {
	*move.Record
	File        string
	Owned       bool
	Nodes       []move.Node
	History     []move.Entry
	Differences []move.Difference
	Samples     []move.Sample
	// DifferenceCount counts all, of which Differences are the first.
	DifferenceCount int64
}

func newMoveStatus() *cobra.Command {
	var asJSON, watch bool
	var lines int
	cmd := &cobra.Command{
		Use:   "status FILE",
		Short: "Show how far a move is, why it stands, and what was measured",
		RunE: func(cmd *cobra.Command, args []string) error {
			f, _, err := moveFile(args)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			store, err := openMoveState(ctx, f)
			if err != nil {
				return err
			}
			defer func() { _ = store.Close(context.WithoutCancel(ctx)) }()
			for {
				s, err := loadMoveStatus(ctx, store, f.Name, lines)
				if err != nil {
					return err
				}
				if asJSON {
					err = s.json(os.Stdout)
				} else {
					s.print(os.Stdout, watch && term.IsTerminal(int(os.Stdout.Fd())))
				}
				if err != nil || !watch {
					return err
				}
				if err := store.Wait(ctx, f.Name, s.Generation, time.Second); err != nil {
					return nil // told to stop
				}
			}
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one line each time")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it again as it changes")
	cmd.Flags().IntVarP(&lines, "lines", "n", 10, "lines of history, differences and samples, the newest first")
	return cmd
}

func loadMoveStatus(ctx context.Context, store move.StateStore, name string, lines int) (*moveStatus, error) {
	r, err := store.Load(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("move %s: %w", name, err)
	}
	s := &moveStatus{Record: r, File: string(r.File), Owned: r.Owned()}
	if s.Nodes, err = store.Nodes(ctx, name); err != nil {
		return nil, err
	}
	if s.History, err = store.History(ctx, name, lines); err != nil {
		return nil, err
	}
	if s.Differences, s.DifferenceCount, err = store.Differences(ctx, name, lines); err != nil {
		return nil, err
	}
	s.Samples, err = store.Samples(ctx, name, lines)
	return s, err
}

func (s *moveStatus) json(w io.Writer) error { return json.NewEncoder(w).Encode(s) }

func (s *moveStatus) print(w io.Writer, clearScreen bool) {
	var b strings.Builder
	if clearScreen {
		b.WriteString("\x1b[H\x1b[2J")
	}
	s.head(&b)
	s.live(&b)
	for i := range s.Budgets {
		bu := &s.Budgets[i]
		measured := "not measured yet"
		if bu.Measured != nil {
			word := "kept"
			if !bu.Met() {
				word = "MISSED"
			}
			measured = fmt.Sprintf("%.4g %s, %s", *bu.Measured, bu.Unit, word)
		}
		bound := "at most"
		if bu.Least {
			bound = "at least"
		}
		fmt.Fprintf(&b, "  mark      %s: %s %.4g %s (%s): %s\n", bu.Name, bound, bu.Limit, bu.Unit, bu.Rule, measured)
	}
	for _, n := range s.Nodes {
		fmt.Fprintf(&b, "  node      %s: generation %d, seen %s ago, writes p95 %.2f ms, reads p95 %.2f and %.2f ms, compared %d, different %d, dropped %d\n",
			n.Name, n.Generation, s.Loaded.Sub(n.Seen).Round(time.Second), n.WriteP95, n.OriginReadP95, n.TargetReadP95, n.Compared, n.Different, n.Drop)
	}
	for _, d := range s.Differences {
		fmt.Fprintf(&b, "  %-9s %s\n", d.Kind, d.Shown)
	}
	for _, sa := range s.Samples {
		fmt.Fprintf(&b, "  sample    %s %s: origin %s, target %s\n", sa.Node, sa.Query, sa.Origin, sa.Target)
	}
	for _, e := range s.History {
		fmt.Fprintf(&b, "  %s %s -> %s by %s: %s\n", e.At.Format("15:04:05.000"), e.From, e.To, e.By, e.Why)
		for _, m := range e.Measured {
			fmt.Fprintf(&b, "               %s\n", m)
		}
	}
	_, _ = io.WriteString(w, b.String())
}

func (s *moveStatus) head(b *strings.Builder) {
	fmt.Fprintf(b, "%s: %s, generation %d; %s is right, %d%% of the reads go to the target\n",
		s.Move, s.State, s.Generation, s.Canonical, s.ReadPercent)
	if s.Owned {
		fmt.Fprintf(b, "  mover     %s\n", s.Owner)
	} else {
		b.WriteString("  mover     none runs: start `varve move run`\n")
	}
	if s.Paused {
		b.WriteString("  paused\n")
	}
	if s.Trouble != "" {
		fmt.Fprintf(b, "  STOPPED   %s\n", s.Trouble)
	}
	if s.Intent != nil {
		fmt.Fprintf(b, "  command   %s by %s is being carried out\n", s.Intent.Verb, s.Intent.By)
	}
}

func (s *moveStatus) live(b *strings.Builder) {
	l := &s.Live
	if l.At.IsZero() {
		return
	}
	for _, t := range l.Tables {
		fmt.Fprintf(b, "  table     %s: %d of about %d rows copied, %d verified\n", t.Table, t.Copied, t.Rows, t.Verified)
	}
	if s.State == move.Copying {
		left := "unknown"
		if l.Remaining > 0 {
			left = time.Duration(l.Remaining * float64(time.Second)).Round(time.Second).String()
		}
		fmt.Fprintf(b, "  copy      %.0f rows/s, %.0f allowed, %s left", l.Rate, l.Limit, left)
		if l.Reason != "" {
			fmt.Fprintf(b, " (%s)", l.Reason)
		}
		b.WriteString("\n")
	}
	for _, f := range l.Flows {
		lag := "lag unknown"
		if f.Lag >= 0 {
			lag = fmt.Sprintf("lag %.1f ms", f.Lag)
		}
		fmt.Fprintf(b, "  stream    %s: %s, at %s, %d changes, %d bytes of log held", f.Stream, lag, f.Position, f.Changes, f.Held)
		if f.Refill > 0 {
			fmt.Fprintf(b, ", %d rows to fill", f.Refill)
		}
		if f.Trouble != "" {
			fmt.Fprintf(b, "; %s", f.Trouble)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(b, "  compare   %d rows touched since, %d differences\n", l.Touched, s.DifferenceCount)
}
