package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// exitError ends the process with a code; its text was printed already.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", e.code) }

// Main runs one command and returns the process's exit code: 0 done, 1 failed,
// 2 wrong usage.
func Main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var exit exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.code
	}
	fmt.Fprintln(os.Stderr, "varve:", err)
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

// errUsage marks errors of wrong usage.
var errUsage = errors.New("see --help")

func usageError(format string, args ...any) error {
	return fmt.Errorf(format+" (%w)", append(args, errUsage)...)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "varve",
		Short:         "A history store for chat and event data that speaks CQL",
		Version:       fullVersion(),
		RunE:          commandOnly,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError("%w", err) })
	root.AddCommand(newServe(), newVersion(), newNodetool(), newImport(), newExport(), newBackup(), newShell(), newBench(), newWhy(), newMove())
	return root
}

// commandOnly is what a command does that has only subcommands: it refuses
// one that it lacks, so that a script does not believe that it ran.
func commandOnly(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError("unknown command %q for %q", args[0], cmd.CommandPath())
	}
	return cmd.Help()
}

// noArgs refuses positional arguments with usage's exit code.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError("unexpected argument %q", args[0])
	}
	return nil
}
