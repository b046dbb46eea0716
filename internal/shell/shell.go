package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
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

	keyspace    string
	consistency cqlwire.Consistency
	pageSize    int // 0: no paging
	tracing     bool
	failed      bool
}

const help = `Statements end with ; and may take several lines. Beside CQL:
  CONSISTENCY [level]   show or set the consistency level
  PAGING [ON|OFF|n]     show or set the rows shown at a time
  TRACING [ON|OFF]      show or set tracing
  HELP, EXIT, QUIT
`

// Run reads and runs statements until the input ends or EXIT. It returns an
// error only where the terminal or the connection is lost; Failed tells
// whether a statement failed.
func (s *Shell) Run(ctx context.Context) error {
	s.consistency, s.pageSize = cqlwire.One, 100
	var pending strings.Builder
	for {
		s.Term.SetPrompt(s.prompt(pending.Len() > 0))
		line, err := s.Term.ReadLine()
		if errors.Is(err, io.EOF) {
			if strings.TrimSpace(pending.String()) != "" {
				s.fail("incomplete statement at end of input")
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("read line: %w", err)
		}
		if pending.Len() == 0 {
			if done, handled := s.command(line); done {
				return nil
			} else if handled {
				continue
			}
		}
		pending.WriteString(line)
		pending.WriteByte('\n')
		statements, rest := split(pending.String())
		pending.Reset()
		if strings.TrimSpace(rest) != "" {
			pending.WriteString(rest)
		}
		for _, st := range statements {
			if err := s.statement(ctx, st); err != nil {
				return err
			}
		}
	}
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

// command handles a line that is no CQL.
func (s *Shell) command(line string) (done, handled bool) {
	words := strings.Fields(strings.TrimSuffix(strings.TrimSpace(line), ";"))
	if len(words) == 0 {
		return false, true
	}
	arg := ""
	if len(words) > 1 {
		arg = strings.ToUpper(words[1])
	}
	switch verb := strings.ToUpper(words[0]); {
	case len(words) > 2:
		return false, false
	case verb == "EXIT" || verb == "QUIT":
		return true, true
	case verb == "HELP":
		s.printf("%s", help)
	case verb == "CONSISTENCY":
		s.setConsistency(arg)
	case verb == "PAGING":
		s.setPaging(arg)
	case verb == "TRACING":
		if arg == "ON" || arg == "OFF" {
			s.tracing = arg == "ON"
		} else if arg != "" {
			s.fail("TRACING takes ON or OFF")
			break
		}
		s.printf("tracing is %s\n", onOff(s.tracing))
	default:
		return false, false
	}
	return false, true
}

func (s *Shell) setConsistency(arg string) {
	if arg != "" {
		c, ok := cqlwire.ParseConsistency(arg)
		if !ok {
			s.fail("%s is no consistency level", arg)
			return
		}
		s.consistency = c
	}
	s.printf("consistency level is %v\n", s.consistency)
}

func (s *Shell) setPaging(arg string) {
	switch n, err := strconv.Atoi(arg); {
	case arg == "":
	case arg == "ON":
		s.pageSize = 100
	case arg == "OFF":
		s.pageSize = 0
	case err == nil && n > 0 && n <= 100_000:
		s.pageSize = n
	default:
		s.fail("PAGING takes ON, OFF or a number of rows")
		return
	}
	if s.pageSize == 0 {
		s.printf("paging is off\n")
	} else {
		s.printf("paging is on, %d rows a page\n", s.pageSize)
	}
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

// statement runs one statement and all its pages.
func (s *Shell) statement(ctx context.Context, text string) error {
	p := upstream.Params{Consistency: s.consistency, PageSize: s.pageSize, Trace: s.tracing}
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
	s.Term.SetPrompt("-- more (Enter; q to stop) --")
	line, err := s.Term.ReadLine()
	return err == nil && !strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "q")
}
