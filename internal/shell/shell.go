package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"varve/internal/cqlwire"
	"varve/internal/upstream"
)

// Terminal reads lines and takes output; *term.Terminal is one.
type Terminal interface {
	io.Writer
	ReadLine() (string, error)
	SetPrompt(prompt string)
}

// Shell runs statements from a terminal against one connection.
type Shell struct {
	Conn *upstream.Conn
	Term Terminal
	// Interactive asks before each further page.
	Interactive bool
	// Address is what SHOW HOST calls the server.
	Address string

	keyspace    string
	consistency cqlwire.Consistency
	serial      cqlwire.Consistency
	pageSize    int // 0: no paging
	tracing     bool
	expand      bool
	failed      bool
	pending     strings.Builder // the lines so far of a statement
	sources     int             // files being run, one inside the other
	answering   bool            // a question of the shell's own is being answered
}

// defaultPage is how many rows are shown at a time, as in cqlsh.
const defaultPage = 100

// New returns a shell with cqlsh's settings.
func New(c *upstream.Conn, t Terminal) *Shell {
	return &Shell{Conn: c, Term: t, consistency: cqlwire.One, serial: cqlwire.Serial, pageSize: defaultPage}
}

// Run reads and runs statements until the input ends or EXIT. It returns an
// error only where the terminal or the connection is lost; Failed tells
// whether a statement failed.
func (s *Shell) Run(ctx context.Context) error {
	for {
		s.Term.SetPrompt(s.prompt(s.pending.Len() > 0))
		line, err := s.Term.ReadLine()
		if errors.Is(err, io.EOF) {
			if strings.TrimSpace(s.pending.String()) != "" {
				s.fail("incomplete statement at end of input")
			}
			s.pending.Reset()
			return nil
		}
		if err != nil {
			return fmt.Errorf("read line: %w", err)
		}
		if done, err := s.line(ctx, line); done || err != nil {
			return err
		}
	}
}

// line takes in one line; what is whole is run.
func (s *Shell) line(ctx context.Context, line string) (done bool, err error) {
	s.pending.WriteString(line)
	s.pending.WriteByte('\n')
	statements, rest := split(s.pending.String())
	s.pending.Reset()
	if endsWithLine(rest) {
		// Nor does the last command of several on a line need its semicolon.
		statements, rest = append(statements, strings.TrimSpace(rest)), ""
	}
	for _, st := range statements {
		done, handled, err := s.command(ctx, st)
		if !handled && err == nil {
			err = s.statement(ctx, st)
		}
		if done || err != nil {
			return done, err
		}
	}
	if strings.TrimSpace(rest) != "" {
		s.pending.WriteString(rest)
	}
	return false, nil
}

// Failed reports whether any statement failed.
func (s *Shell) Failed() bool { return s.failed }

func (s *Shell) prompt(more bool) string {
	if !s.Interactive {
		return ""
	}
	p := "varve"
	if s.keyspace != "" {
		p += ":" + s.keyspace
	}
	if more {
		return strings.Repeat(" ", len(p)-3) + "...> "
	}
	return p + "> "
}

func (s *Shell) printf(format string, args ...any) { _, _ = fmt.Fprintf(s.Term, format, args...) }

func (s *Shell) fail(format string, args ...any) {
	s.failed = true
	s.printf(format+"\n", args...)
}

// statement runs one statement and all its pages.
func (s *Shell) statement(ctx context.Context, text string) error {
	p := upstream.Params{Consistency: s.consistency, SerialConsistency: s.serial, PageSize: s.pageSize, Trace: s.tracing}
	total := 0
	for {
		res, err := s.Conn.Query(ctx, text, p)
		if err != nil {
			return s.refused(err)
		}
		switch res.Kind {
		case cqlwire.ResultSetKeyspace:
			s.keyspace = res.Keyspace
		case cqlwire.ResultRows:
			if err := s.table(&res.Rows); err != nil {
				return err
			}
			total += res.Rows.Count
		}
		for _, w := range res.Warnings {
			s.printf("Warning: %s\n", w)
		}
		more := res.Kind == cqlwire.ResultRows && res.Rows.PagingState != nil
		if more && s.goOn() {
			p.PagingState = append([]byte(nil), res.Rows.PagingState...)
			continue
		}
		if res.Kind == cqlwire.ResultRows {
			s.printf("\n(%d rows)\n", total)
		}
		if res.TraceID != nil {
			return s.trace(ctx, *res.TraceID)
		}
		return nil
	}
}

func (s *Shell) refused(err error) error {
	var e *cqlwire.Error
	if !errors.As(err, &e) {
		return err
	}
	for _, w := range e.Warnings {
		s.printf("Warning: %s\n", w)
	}
	s.fail("Error 0x%04x: %s", uint32(e.Code), e.Message)
	return nil
}

func (s *Shell) goOn() bool {
	if !s.Interactive {
		return true
	}
	s.answering = true
	defer func() { s.answering = false }()
	s.Term.SetPrompt("-- more (Enter; q to stop) --")
	line, err := s.Term.ReadLine()
	return err == nil && !strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "q")
}
