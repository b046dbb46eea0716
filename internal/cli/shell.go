package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"varve/internal/cqltype"
	"varve/internal/shell"
)

func newShell() *cobra.Command {
	var (
		conn                       connection
		statements, file, keyspace string
	)
	cmd := &cobra.Command{
		Use:   "shell",
		Short: "Type CQL at a prompt, or run it from a file or standard input",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if statements != "" && file != "" {
				return usageError("--execute and --file exclude each other")
			}
			in, err := shellInput(statements, file)
			if err != nil {
				return err
			}
			c, err := conn.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { _ = c.Close() }()
			s := shell.New(c, writerOnly{cmd.OutOrStdout()})
			s.Address = conn.address
			if keyspace != "" {
				err = s.RunText(cmd.Context(), strings.NewReader("USE "+cqltype.MaybeQuote(keyspace)+";"))
			}
			switch {
			case err != nil:
				return err
			case s.Failed():
			case in == nil:
				return typed(cmd, s, conn.address)
			default:
				defer endWith(cmd.Context(), func() {})()
				if err := s.RunText(cmd.Context(), in); err != nil {
					return err
				}
			}
			if s.Failed() {
				return exitError{1}
			}
			return nil
		},
	}
	conn.flags(cmd)
	f := cmd.Flags()
	f.StringVarP(&statements, "execute", "e", "", "run these statements and end")
	f.StringVarP(&file, "file", "f", "", "run the statements of a file and end")
	f.StringVarP(&keyspace, "keyspace", "k", "", "the keyspace to begin in")
	return cmd
}

// endWith ends the process when ctx does: reading from a terminal or a pipe
// cannot be interrupted otherwise. The result undoes it.
func endWith(ctx context.Context, before func()) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		before()
		os.Exit(1)
	})
}

// shellInput is the text to run, nil where someone types.
func shellInput(statements, file string) (io.Reader, error) {
	switch {
	case statements != "":
		return strings.NewReader(statements + "\n;"), nil // the last may lack its semicolon
	case file != "":
		text, err := os.ReadFile(file)
		return bytes.NewReader(text), err
	case term.IsTerminal(int(os.Stdin.Fd())):
		return nil, nil
	}
	return os.Stdin, nil
}

// typed runs the shell for someone at a terminal.
func typed(cmd *cobra.Command, s *shell.Shell, address string) error {
	in := int(os.Stdin.Fd())
	old, err := term.MakeRaw(in)
	if err != nil {
		return fmt.Errorf("prepare terminal: %w", err)
	}
	defer func() { _ = term.Restore(in, old) }()
	defer endWith(cmd.Context(), func() { _ = term.Restore(in, old) })()
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{os.Stdin, os.Stdout}, "")
	t.AutoCompleteCallback, t.History = s.Complete, s.History()
	if width, height, err := term.GetSize(in); err == nil {
		_ = t.SetSize(width, height)
	}
	s.Term, s.Interactive = t, true
	fmt.Fprintf(t, "Connected to %s. HELP for help, EXIT to leave.\n", address)
	return s.Run(cmd.Context())
}

// writerOnly is a shell's terminal before there is input.
type writerOnly struct{ io.Writer }

// ReadLine implements shell.Terminal.
func (writerOnly) ReadLine() (string, error) { return "", io.EOF }

// SetPrompt implements shell.Terminal.
func (writerOnly) SetPrompt(string) {}
