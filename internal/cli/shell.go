package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"varve/internal/shell"
)

func newShell() *cobra.Command {
	var conn connection
	cmd := &cobra.Command{
		Use:   "shell",
		Short: "Type CQL at a prompt, or run it from standard input",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := conn.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { _ = c.Close() }()
			in := int(os.Stdin.Fd())
			s := &shell.Shell{Conn: c}
			if !term.IsTerminal(in) {
				s.Term = &plainTerminal{r: bufio.NewReader(os.Stdin), Writer: cmd.OutOrStdout()}
				if err := s.Run(cmd.Context()); err != nil {
					return err
				}
				if s.Failed() {
					return exitError{1}
				}
				return nil
			}
			old, err := term.MakeRaw(in)
			if err != nil {
				return fmt.Errorf("prepare terminal: %w", err)
			}
			defer func() { _ = term.Restore(in, old) }()
			s.Interactive = true
			s.Term = term.NewTerminal(struct {
				io.Reader
				io.Writer
			}{os.Stdin, os.Stdout}, "")
			fmt.Fprintf(s.Term, "Connected to %s. HELP for help, EXIT to leave.\n", conn.address)
			return s.Run(cmd.Context())
		},
	}
	conn.flags(cmd)
	return cmd
}

// plainTerminal reads lines that are not typed.
type plainTerminal struct {
	r *bufio.Reader
	io.Writer
}

func (p *plainTerminal) ReadLine() (string, error) {
	line, err := p.r.ReadString('\n')
	if errors.Is(err, io.EOF) && line != "" {
		err = nil
	}
	return line, err
}

func (p *plainTerminal) SetPrompt(string) {}
