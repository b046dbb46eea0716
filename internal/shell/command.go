package shell

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/upstream"
)

const help = `Statements end with ; and may take several lines. Beside CQL:
  CONSISTENCY [level], SERIAL CONSISTENCY [level]   show or set the consistency level
  DESCRIBE ...              show schemas
  EXPAND [ON|OFF]           show a row's columns one below the other
  PAGING [ON|OFF|n]         show or set the rows shown at a time
  SHOW VERSION | HOST | SESSION id
  SOURCE 'file'             run a file's statements
  TRACING [ON|OFF]          show or set tracing
  HELP, EXIT, QUIT
Tab completes keywords and the names of keyspaces, tables and columns.
`

// lineCommands need no semicolon, as in cqlsh.
var lineCommands = []string{
	"CONSISTENCY", "DESC", "DESCRIBE", "EXIT", "EXPAND", "HELP", "PAGING", "QUIT", "SERIAL", "SHOW", "SOURCE", "TRACING",
}

// endsWithLine reports a line that is whole although no semicolon ends it.
func endsWithLine(line string) bool {
	words := strings.Fields(line)
	if len(words) == 0 || strings.Contains(line, ";") {
		return false
	}
	for _, c := range lineCommands {
		if strings.EqualFold(words[0], c) {
			return true
		}
	}
	return false
}

// command runs what is no CQL.
func (s *Shell) command(ctx context.Context, text string) (done, handled bool, err error) {
	words := strings.Fields(text)
	verb, arg := strings.ToUpper(words[0]), ""
	if len(words) > 1 {
		arg = strings.ToUpper(words[1])
	}
	switch {
	case verb == "SOURCE":
		return false, true, s.source(ctx, strings.TrimSpace(text[len(words[0]):]))
	case verb == "SHOW":
		return false, true, s.show(ctx, words[1:])
	case verb == "SERIAL" && arg == "CONSISTENCY" && len(words) <= 3:
		s.setConsistency(&s.serial, "serial consistency", strings.ToUpper(strings.Join(words[2:], "")))
	case len(words) > 2:
		return false, false, nil
	case verb == "EXIT" || verb == "QUIT":
		return true, true, nil
	case verb == "HELP":
		s.printf("%s", help)
	case verb == "CONSISTENCY":
		s.setConsistency(&s.consistency, "consistency", arg)
	case verb == "PAGING":
		s.setPaging(arg)
	case verb == "TRACING":
		s.setSwitch(&s.tracing, verb, arg)
	case verb == "EXPAND":
		s.setSwitch(&s.expand, verb, arg)
	default:
		return false, false, nil
	}
	return false, true, nil
}

func (s *Shell) setSwitch(on *bool, verb, arg string) {
	switch arg {
	case "ON", "OFF":
		*on = arg == "ON"
	case "":
	default:
		s.fail("%s takes ON or OFF", verb)
		return
	}
	s.printf("%s is %s\n", strings.ToLower(verb), onOff(*on))
}

func (s *Shell) setConsistency(level *cqlwire.Consistency, what, arg string) {
	if arg != "" {
		c, ok := cqlwire.ParseConsistency(arg)
		if !ok || (level == &s.serial && !c.IsSerial()) {
			s.fail("%s is no %s level", arg, what)
			return
		}
		*level = c
	}
	s.printf("%s level is %v\n", what, *level)
}

func (s *Shell) setPaging(arg string) {
	switch n, err := strconv.Atoi(arg); {
	case arg == "":
	case arg == "ON":
		s.pageSize = defaultPage
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

// show answers SHOW VERSION, HOST and SESSION.
func (s *Shell) show(ctx context.Context, words []string) error {
	what := strings.ToUpper(strings.Join(words[:min(1, len(words))], ""))
	switch {
	case what == "SESSION" && len(words) == 2:
		id, err := cqltype.ParseUUID(words[1])
		if err != nil {
			s.fail("%s is no session's id", words[1])
			return nil
		}
		return s.trace(ctx, id)
	case (what == "VERSION" || what == "HOST") && len(words) == 1:
	default:
		s.fail("SHOW takes VERSION, HOST or SESSION with an id")
		return nil
	}
	res, err := s.Conn.Query(ctx, "SELECT cluster_name, release_version, cql_version, native_protocol_version FROM system.local",
		upstream.Params{Consistency: cqlwire.One})
	if err != nil {
		return s.refused(err)
	}
	if res.Rows.Count != 1 {
		return errors.New("the server does not say who it is: system.local is empty")
	}
	cells, _, err := res.Rows.Row(nil, res.Rows.Data)
	if err != nil {
		return fmt.Errorf("decode system.local: %w", err)
	}
	if what == "HOST" {
		s.printf("Connected to %s at %s\n", cells[0], s.Address)
	} else {
		s.printf("[Cassandra %s | CQL spec %s | Native protocol v%s]\n", cells[1], cells[2], cells[3])
	}
	return nil
}

// maxSources bounds files that run one another.
const maxSources = 16

// source runs a file, named in single quotes.
func (s *Shell) source(ctx context.Context, name string) error {
	if n := len(name); n < 3 || name[0] != '\'' || name[n-1] != '\'' {
		s.fail("SOURCE takes a file's name in single quotes")
		return nil
	}
	f, err := os.Open(strings.ReplaceAll(name[1:len(name)-1], "''", "'"))
	if err != nil {
		s.fail("%v", err)
		return nil
	}
	defer func() { _ = f.Close() }()
	if s.sources == maxSources {
		s.fail("files run one another, %d deep", maxSources)
		return nil
	}
	s.sources++
	defer func() { s.sources-- }()
	return s.RunText(ctx, f)
}

// RunText runs the statements of a text that nobody types, as SOURCE does.
// EXIT in it ends the text, not the shell.
func (s *Shell) RunText(ctx context.Context, r io.Reader) error {
	term, interactive := s.Term, s.Interactive
	s.Term, s.Interactive = &script{bufio.NewReader(r), term}, false
	defer func() { s.Term, s.Interactive = term, interactive }()
	return s.Run(ctx)
}

// script is a Terminal whose lines are not typed.
type script struct {
	r *bufio.Reader
	io.Writer
}

// ReadLine implements Terminal.
func (t *script) ReadLine() (string, error) {
	line, err := t.r.ReadString('\n')
	if errors.Is(err, io.EOF) && line != "" {
		err = nil
	}
	return strings.TrimSuffix(line, "\n"), err
}

// SetPrompt implements Terminal.
func (t *script) SetPrompt(string) {}
