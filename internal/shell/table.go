package shell

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/upstream"
)

// table prints rows in columns.
func (s *Shell) table(rows *cqlwire.Rows) error {
	if last := len(rows.Columns) - 1; last >= 0 && rows.Columns[last].Name == "create_statement" {
		return s.statements(rows)
	}
	if s.expand {
		return s.expanded(rows)
	}
	lines := make([][]string, 0, rows.Count+1)
	head := make([]string, len(rows.Columns))
	for i, c := range rows.Columns {
		head[i] = c.Name
	}
	lines = append(lines, head)
	var cells [][]byte
	data := rows.Data
	for range rows.Count {
		var err error
		if cells, data, err = rows.Row(cells[:0], data); err != nil {
			return fmt.Errorf("decode row: %w", err)
		}
		line := make([]string, len(cells))
		for i, v := range cells {
			line[i] = show(rows.Columns[i].Type, v)
		}
		lines = append(lines, line)
	}
	s.printf("\n%s", columns(lines))
	return nil
}

// expanded prints each row's columns one below the other.
func (s *Shell) expanded(rows *cqlwire.Rows) error {
	width := 0
	for _, c := range rows.Columns {
		width = max(width, utf8.RuneCountInString(c.Name))
	}
	var cells [][]byte
	data := rows.Data
	for n := range rows.Count {
		var err error
		if cells, data, err = rows.Row(cells[:0], data); err != nil {
			return fmt.Errorf("decode row: %w", err)
		}
		s.printf("\n@ Row %d\n%s+%s\n", n+1, strings.Repeat("-", width+2), strings.Repeat("-", 20))
		for i, v := range cells {
			c := rows.Columns[i]
			s.printf(" %s%s | %s\n", c.Name, strings.Repeat(" ", width-utf8.RuneCountInString(c.Name)), show(c.Type, v))
		}
	}
	return nil
}

func show(t *cqltype.Type, v []byte) string {
	switch {
	case v == nil:
		return "null"
	case t.Kind == cqltype.KindText || t.Kind == cqltype.KindAscii:
		// Control characters would move the cursor.
		return strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return '\uFFFD'
			}
			return r
		}, string(v))
	}
	return strings.Trim(string(cqltype.FormatLiteral(nil, t, v)), "'")
}

// columns lays out lines, the first as a head with a rule under it.
func columns(lines [][]string) string {
	width := make([]int, len(lines[0]))
	for _, l := range lines {
		for i, c := range l {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	var b strings.Builder
	for n, l := range lines {
		for i, c := range l {
			if i > 0 {
				b.WriteString(" |")
			}
			b.WriteByte(' ')
			b.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(c)))
			b.WriteString(c)
		}
		b.WriteByte('\n')
		if n == 0 {
			for i, w := range width {
				if i > 0 {
					b.WriteByte('+')
				}
				b.WriteString(strings.Repeat("-", w+2))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// trace prints a request's events, once the server has written its session.
func (s *Shell) trace(ctx context.Context, id [16]byte) error {
	p := upstream.Params{Consistency: cqlwire.One, Values: []cqlwire.Value{{Bytes: id[:]}}}
	for range 50 {
		res, err := s.Conn.Query(ctx, "SELECT duration FROM system_traces.sessions WHERE session_id = ?", p)
		if err != nil {
			return s.refused(err)
		}
		if res.Rows.Count > 0 {
			break
		}
	}
	res, err := s.Conn.Query(ctx,
		"SELECT source_elapsed, thread, activity FROM system_traces.events WHERE session_id = ?", p)
	if err != nil {
		return s.refused(err)
	}
	return s.table(&res.Rows)
}

// statements prints what DESCRIBE answers: the statements themselves, as text to use again.
func (s *Shell) statements(rows *cqlwire.Rows) error {
	var cells [][]byte
	data := rows.Data
	for range rows.Count {
		var err error
		if cells, data, err = rows.Row(cells[:0], data); err != nil {
			return fmt.Errorf("decode row: %w", err)
		}
		s.printf("\n%s\n", strings.Map(printable, string(cells[len(cells)-1])))
	}
	return nil
}

// printable keeps line ends and replaces what would move the cursor.
func printable(r rune) rune {
	if r == '\n' || r >= ' ' && r != 0x7f {
		return r
	}
	return '\uFFFD'
}
