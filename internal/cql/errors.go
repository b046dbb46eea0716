package cql

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// SyntaxError is a refusal by the parser, in the form Cassandra's users know:
// "line 1:9 no viable alternative at input 'FRM' (…)".
type SyntaxError struct {
	// Line counts from 1 and Col, in UTF-16 units, from 0, as Cassandra counts
	// them. Both are 0 for errors that Cassandra reports without a position.
	Line, Col int
	Msg       string
	// Invalid: Cassandra's parser takes such a statement, and it is refused
	// later as an invalid query.
	Invalid bool
}

// Error implements error.
func (e *SyntaxError) Error() string { return e.Msg }

const (
	snippetBefore   = 10      // tokens of a snippet before the offending one, blanks included
	snippetAfter    = 2       // tokens after it
	snippetMaxBytes = 1 << 10 // longer snippets are left out
	snippetMaxText  = 1 << 20 // longer statements get no snippet
	shownMaxBytes   = 256     // of an offending token
)

// failure makes the error to return, if there was one.
func (p *parser) failure() error {
	src := p.lex.src
	if bad := p.lex.bad; bad != nil {
		line, col := position(src, bad.pos)
		at := "<EOF>"
		if bad.pos < len(src) {
			at = runeAt(src, bad.pos)
		}
		msg := "line " + itoa(line) + ":" + itoa(col)
		if bad.expect == "" {
			msg += " no viable alternative at character '" + at + "'"
		} else {
			msg += " mismatched character '" + at + "' expecting '" + bad.expect + "'"
		}
		return &SyntaxError{Line: line, Col: col, Msg: msg}
	}
	e := p.err
	if e == nil {
		return nil
	}
	if e.msg != "" {
		return &SyntaxError{Msg: e.msg, Invalid: e.invalid}
	}
	line, col := position(src, int(e.token.start))
	head := "line " + itoa(line) + ":" + itoa(col)
	if e.token.kind == tEOF {
		head = "line 0:-1"
	}
	msg := head + " no viable alternative at input '" + shown(src, e.token) + "'"
	if e.want != "" {
		msg = head + " mismatched input '" + shown(src, e.token) + "' expecting " + e.want
	}
	return &SyntaxError{Line: line, Col: col, Msg: msg + snippet(src, e.from, e.token)}
}

// shown is a token as messages have it.
func shown(src string, t token) string {
	if t.kind == tEOF {
		return "<EOF>"
	}
	s := textOf(src, t)
	if len(s) > shownMaxBytes {
		s = strings.ToValidUTF8(s[:shownMaxBytes], "") + "..."
	}
	return strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s)
}

// position returns the line and column of the byte at pos.
func position(src string, pos int) (line, col int) {
	before := src[:pos]
	start := strings.LastIndexByte(before, '\n') + 1
	return strings.Count(before, "\n") + 1, utf16Len(before[start:])
}

func utf16Len(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// snippet shows the text around an error, with the token at which the parser
// stood (from) in brackets. Tokens are counted as Cassandra does: runs of white
// space and comments are tokens too, and nothing beyond what it had read when
// it gave up is shown.
func snippet(src string, from, bad token) string {
	if len(src) > snippetMaxText || from.kind == tEOF {
		return ""
	}
	var before [snippetBefore + 1]int32 // starts of the last tokens up to from, a ring
	l := lexer{src: src}
	n, after, end := 0, 0, int(from.start)+len(textOf(src, from))
	for pos := 0; pos <= int(bad.start) && pos < len(src); {
		start, stop, next := l.piece(pos)
		pos = next
		if start <= int(from.start) {
			before[n%len(before)] = int32(start)
			n++
		} else if after < snippetAfter {
			after++
			end = stop
		}
	}
	if bad.kind == tEOF && after < snippetAfter {
		return ""
	}
	first := 0
	if n > len(before) {
		first = int(before[n%len(before)])
	} else if n > 0 {
		first = int(before[0])
	}
	return bracketed(src, first, end, from)
}

// piece returns the token at pos and where the next one is; a run of blanks and
// a comment are one too.
func (l *lexer) piece(pos int) (start, end, next int) {
	l.pos = pos
	l.skip()
	if l.pos > pos {
		end = blankEnd(l.src, pos, l.pos)
		return pos, end, end
	}
	t := l.next()
	// Cassandra takes a token's text for its length, which strings are longer than.
	return int(t.start), int(t.start) + len(textOf(l.src, t)), int(t.end)
}

// blankEnd ends a run of white space at the comment that may follow it.
func blankEnd(src string, pos, end int) int {
	i := pos
	for i < end && classes[src[i]]&cSpace != 0 {
		i++
	}
	if i > pos {
		return i
	}
	if src[i] == '/' && src[i+1] == '*' {
		return i + 2 + strings.Index(src[i+2:], "*/") + 2
	}
	if j := strings.IndexAny(src[i:end], "\n\r"); j >= 0 {
		return i + j + 1
	}
	return end
}

// bracketed prints src[first:end] with the token in brackets. Strings get the
// brackets where Cassandra puts them: it forgets that their quotes take room.
func bracketed(src string, first, end int, t token) string {
	length := len(textOf(src, t))
	open, closing := int(t.start), int(t.start)+length
	for closing < len(src) && !utf8.RuneStart(src[closing]) {
		closing++
	}
	if end < closing {
		end = closing
	}
	if end-first > snippetMaxBytes {
		return ""
	}
	var b strings.Builder
	b.WriteString(" (")
	if first > 0 {
		b.WriteString("...")
	}
	b.WriteString(src[first:open] + "[" + src[open:closing] + "]" + src[closing:end])
	if end < len(src) {
		b.WriteString("...")
	}
	b.WriteByte(')')
	return strings.ReplaceAll(b.String(), "\n", "")
}
