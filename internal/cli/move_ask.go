package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"varve/internal/move"
)

// moveVerb is a command that whoever owns the move carries out.
type moveVerb struct {
	verb, short string
	flags       func(cmd *cobra.Command, args map[string]*bool)
	percent     bool
}

func moveVerbs() []*cobra.Command {
	dry := func(cmd *cobra.Command, args map[string]*bool) {
		args["dry-run"] = cmd.Flags().Bool("dry-run", false, "check everything, change nothing")
	}
	verbs := []moveVerb{
		{verb: move.VerbPause, short: "Let copy and comparisons rest; changes are still followed"},
		{
			verb: move.VerbResume, short: "Go on after a pause, or after what stopped the move was mended",
			flags: func(cmd *cobra.Command, args map[string]*bool) {
				args["reopen"] = cmd.Flags().Bool("reopen", false, "begin a lost stream anew and compare every row again")
			},
		},
		{verb: move.VerbVerify, short: "Compare every row again"},
		{verb: move.VerbRepair, short: "Make rows that differ as the leading side has them, and fill what the mirror could not write"},
		{
			verb: move.VerbShadow, short: "Let app nodes send reads to both sides and compare the answers",
			flags: func(cmd *cobra.Command, args map[string]*bool) {
				args["off"] = cmd.Flags().Bool("off", false, "stop it")
			},
		},
		{verb: move.VerbSwitchReads, short: "Send a share of the reads to the target", percent: true, flags: dry},
		{
			verb: move.VerbCutover, short: "Make the target the one that is written",
			flags: func(cmd *cobra.Command, args map[string]*bool) {
				dry(cmd, args)
				args["skip-shadow"] = cmd.Flags().Bool("skip-shadow", false, "cut over though reads were not switched before")
			},
		},
		{verb: move.VerbRollback, short: "Make origin the one that is written again, or read again", flags: dry},
		{
			verb: move.VerbFinish, short: "End the move after the cutover: no way back from here",
			flags: func(cmd *cobra.Command, args map[string]*bool) {
				dry(cmd, args)
				args["ignore-reads"] = cmd.Flags().Bool("ignore-reads", false, "finish though origin is still read")
			},
		},
		{
			verb: move.VerbAbort, short: "Give the move up before its cutover and take away all that it made",
			flags: func(cmd *cobra.Command, args map[string]*bool) {
				args["drop-target"] = cmd.Flags().Bool("drop-target", false, "drop the target's tables too")
			},
		},
	}
	out := make([]*cobra.Command, len(verbs))
	for i := range verbs {
		out[i] = newMoveVerb(&verbs[i])
	}
	return out
}

func newMoveVerb(v *moveVerb) *cobra.Command {
	flags := map[string]*bool{}
	use := v.verb + " FILE"
	if v.percent {
		use += " PERCENT"
	}
	cmd := &cobra.Command{
		Use: use, Short: v.short,
		RunE: func(cmd *cobra.Command, args []string) error {
			asked := map[string]string{}
			if v.percent {
				if len(args) != 2 {
					return usageError("takes the move file and a percentage")
				}
				if n, err := strconv.Atoi(args[1]); err != nil || n < 0 || n > 100 {
					return usageError("%q is not a percentage", args[1])
				}
				asked["percent"] = args[1]
				args = args[:1]
			}
			f, _, err := moveFile(args)
			if err != nil {
				return err
			}
			for name, on := range flags {
				if *on {
					asked[name] = "true"
				}
			}
			return askMove(cmd.Context(), f, v.verb, asked)
		},
	}
	if v.flags != nil {
		v.flags(cmd, flags)
	}
	return cmd
}

// askMove puts a command down and waits until it is carried out, by the mover
// that runs or, where none does, by this process.
func askMove(ctx context.Context, f *move.File, verb string, args map[string]string) error {
	store, err := openMoveState(ctx, f)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close(context.WithoutCancel(ctx)) }()
	id, err := store.Ask(ctx, f.Name, move.Intent{Verb: verb, Args: args, By: moveOwner()})
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, f.Name, err)
	}
	said := false
	for {
		r, err := store.Load(ctx, f.Name)
		if err != nil {
			return err
		}
		if r.Result != nil && r.Result.Intent == id {
			return printMoveResult(verb, r.Result)
		}
		if r.Result != nil && r.Result.Intent > id {
			return fmt.Errorf("%s: carried out, but a later command's result has replaced its own; see `varve move status -n 50`", verb)
		}
		if r.Owned() {
			if err := store.Wait(ctx, f.Name, r.Generation, time.Second); err != nil {
				return err
			}
			continue
		}
		if !said {
			fmt.Fprintln(os.Stderr, "no mover runs: this command carries the move on itself until it rests")
			said = true
		}
		log := moveLog(false)
		o := move.Options{Store: store, Open: openMoveSides(log), Owner: moveOwner(), Logger: log, Once: true}
		if err := move.Run(ctx, f.Name, o); err != nil && !errors.Is(err, move.ErrLeaseHeld) && !errors.Is(err, move.ErrLeaseLost) {
			return err
		}
	}
}

func printMoveResult(verb string, r *move.Result) error {
	if !r.OK {
		fmt.Fprintf(os.Stderr, "%s refused: %s\n", verb, r.Text)
		return exitError{exitRefused}
	}
	fmt.Println(r.Text)
	for _, name := range slices.Sorted(maps.Keys(r.Details)) {
		fmt.Printf("  %-24s %s\n", name, r.Details[name])
	}
	return nil
}
