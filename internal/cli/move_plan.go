package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"varve/internal/move"
)

func newMovePlan() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "Say what a move would find and do, and change nothing",
		RunE: func(cmd *cobra.Command, args []string) error {
			f, _, err := moveFile(args)
			if err != nil {
				return err
			}
			p, err := makeMovePlan(cmd.Context(), f)
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(os.Stdout)
				e.SetIndent("", "  ")
				err = e.Encode(p)
			} else {
				printMovePlan(os.Stdout, p)
			}
			if err == nil && p.Stops() {
				err = exitError{exitRefused}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the plan as JSON")
	return cmd
}

func makeMovePlan(ctx context.Context, f *move.File) (*move.Plan, error) {
	origin, target, err := openMoveSides(moveLog(true))(ctx, f)
	if err != nil {
		return nil, err
	}
	p, err := move.MakePlan(ctx, f, origin, target)
	return p, errors.Join(err, origin.Close(ctx), target.Close(ctx))
}

func printMovePlan(w io.Writer, p *move.Plan) {
	fmt.Fprintf(w, "move %s\n  from %s\n  to   %s\n", p.File.Name, p.Sides[move.Origin], p.Sides[move.Target])
	for i := range p.Rows {
		o, t := &p.Tables[move.Origin][i], &p.Tables[move.Target][i]
		fmt.Fprintf(w, "\n%s.%s -> %s.%s, about %d rows\n", o.Schema, o.Name, t.Schema, t.Name, p.Rows[i])
		for c := range o.Columns {
			key := ""
			for _, k := range o.Key {
				if k == c {
					key = " (key)"
				}
			}
			fmt.Fprintf(w, "  %s %s -> %s %s%s\n", o.Columns[c].Name, o.Columns[c].Type.Name, t.Columns[c].Name, t.Columns[c].Native, key)
		}
	}
	if len(p.Findings) > 0 {
		fmt.Fprintln(w, "\nFindings")
	}
	for _, f := range p.Findings {
		word := "note"
		if f.Stops {
			word = "STOP"
		}
		fmt.Fprintf(w, "  %s  %s: %s: %s\n", word, f.Side, f.Object, f.What)
		for _, sql := range f.Mend {
			fmt.Fprintf(w, "        %s\n", sql)
		}
	}
	if len(p.Steps) > 0 {
		fmt.Fprintln(w, "\nWhat the move will do")
	}
	for i, s := range p.Steps {
		fmt.Fprintf(w, "  %d. %s\n", i+1, s)
	}
	if p.Stops() {
		fmt.Fprintln(w, "\nThe move cannot start before what says STOP is mended.")
		return
	}
	fmt.Fprintln(w, "\nThe move can start.")
}

func newMoveStart() *cobra.Command {
	return &cobra.Command{
		Use:   "start FILE",
		Short: "Put a new move down, for `varve move run` to carry out",
		RunE: func(cmd *cobra.Command, args []string) error {
			f, text, err := moveFile(args)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			p, err := makeMovePlan(ctx, f)
			if err != nil {
				return err
			}
			if p.Stops() {
				printMovePlan(os.Stderr, p)
				return exitError{exitRefused}
			}
			store, err := openMoveState(ctx, f)
			if err != nil {
				return err
			}
			err = store.Install(ctx)
			if err == nil {
				err = store.Create(ctx, &move.Record{Move: f.Name, File: text})
			}
			if err := errors.Join(err, store.Close(ctx)); err != nil {
				return fmt.Errorf("start move %s: %w", f.Name, err)
			}
			fmt.Printf("move %s begins with `varve move run %s`\n", f.Name, args[0])
			return nil
		},
	}
}
