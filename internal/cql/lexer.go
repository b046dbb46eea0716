package cql

import (
	"strings"
	"unicode/utf8"
)

// token is a piece of the text. Its text is taken from the source when asked
// for, so that a token costs no allocation.
type token struct {
	kind       kind
	escaped    bool // a string or quoted name with doubled quotes in it
	dollar     bool // a $$ string
	start, end int32
}

// lexer cuts a text into tokens on demand.
type lexer struct {
	src string
	pos int
	bad *lexError
}

// lexError is what the lexer could not read: pos is where the offending
// character is, expect the character wanted there, or 0 for "nothing fits".
type lexError struct {
	pos    int
	expect string
}

const (
	cSpace  = 1 << iota // white space
	cLetter             // A-Z a-z
	cDigit              // 0-9
	cHex                // 0-9 a-f A-F
	cWord               // letters, digits, underscore
)

var classes = buildClasses()

func buildClasses() *[256]uint8 {
	t := new([256]uint8)
	for _, c := range " \t\n\r" {
		t[c] = cSpace
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c] |= cLetter | cWord
		t[c-'a'+'A'] |= cLetter | cWord
	}
	for c := '0'; c <= '9'; c++ {
		t[c] |= cDigit | cHex | cWord
	}
	for _, c := range "abcdefABCDEF" {
		t[c] |= cHex
	}
	t['_'] |= cWord
	return t
}

var singles = [128]kind{
	'(': tLParen, ')': tRParen, '[': tLSquare, ']': tRSquare, '{': tLCurly, '}': tRCurly,
	',': tComma, ':': tColon, ';': tSemi, '*': tStar, '%': tPercent, '=': tEq, '?': tQMark,
}

// next returns the next token. After an error (l.bad) it returns tEOF for good.
func (l *lexer) next() token {
	l.skip()
	src, i := l.src, l.pos
	if i >= len(src) {
		return token{kind: tEOF, start: int32(len(src)), end: int32(len(src))}
	}
	c := src[i]
	switch class := classes[c]; {
	case class&cLetter != 0:
		return l.word()
	case class&cDigit != 0:
		return l.number(i)
	}
	if c < 128 && singles[c] != 0 {
		return l.emit(singles[c], i+1)
	}
	return l.special(c)
}

func (l *lexer) emit(k kind, end int) token {
	t := token{kind: k, start: int32(l.pos), end: int32(end)}
	l.pos = end
	return t
}

// fail records an error at pos and ends the text.
func (l *lexer) fail(pos int, expect string) token {
	if l.bad == nil {
		l.bad = &lexError{pos, expect}
	}
	l.pos = len(l.src)
	return token{kind: tEOF, start: int32(len(l.src)), end: int32(len(l.src))}
}

func (l *lexer) at(i int) byte {
	if i < len(l.src) {
		return l.src[i]
	}
	return 0
}

// special reads tokens that begin with neither a word character nor plain punctuation.
func (l *lexer) special(c byte) token {
	i := l.pos
	n := l.at(i + 1)
	switch c {
	case '\'':
		return l.quoted('\'', tString)
	case '"':
		if n == '"' && l.at(i+2) != '"' {
			return l.emit(tEmptyQuoted, i+2)
		}
		return l.quoted('"', tQuoted)
	case '$':
		return l.dollars()
	case '-':
		return l.minus()
	case '.':
		return l.either(n == '.', tRange, tDot)
	case '+':
		return l.either(n == '=', tPlusEq, tPlus)
	case '<':
		return l.either(n == '=', tLe, tLt)
	case '>':
		return l.either(n == '=', tGe, tGt)
	case '!':
		if n == '=' {
			return l.emit(tNe, i+2)
		}
		return l.fail(i+1, "=")
	case '/':
		return l.emit(tSlash, i+1)
	}
	return l.fail(i, "")
}

func (l *lexer) either(two bool, long, short kind) token {
	if two {
		return l.emit(long, l.pos+2)
	}
	return l.emit(short, l.pos+1)
}

// skip passes over white space and comments. A line comment may end with the
// text, which Cassandra refuses for no use to anyone.
func (l *lexer) skip() {
	src, i := l.src, l.pos
	for i < len(src) {
		c := src[i]
		if classes[c]&cSpace != 0 {
			i++
			continue
		}
		if (c != '-' && c != '/') || i+1 >= len(src) {
			break
		}
		n := src[i+1]
		if c == n {
			if j := strings.IndexAny(src[i:], "\n\r"); j >= 0 {
				i += j + 1
			} else {
				i = len(src)
			}
			continue
		}
		if c == '/' && n == '*' {
			j := strings.Index(src[i+2:], "*/")
			if j < 0 {
				l.fail(len(src), "*")
				return
			}
			i += 2 + j + 2
			continue
		}
		break
	}
	l.pos = i
}

// word reads a keyword, a name, or a UUID or duration that begins with a letter.
func (l *lexer) word() token {
	src, i := l.src, l.pos
	h := uint32(0)
	for i < len(src) && classes[src[i]]&cWord != 0 {
		h = h*wordHashMul + uint32(src[i]|0x20)
		i++
	}
	if i-l.pos == 8 && i < len(src) && src[i] == '-' && isUUID(src[l.pos:]) {
		return l.emit(tUUID, l.pos+36)
	}
	if src[l.pos] == 'P' {
		if n := isoDuration(src[l.pos:]); n > 0 && n >= i-l.pos {
			return l.emit(tDuration, l.pos+n)
		}
	}
	return l.emit(lookupWord(src[l.pos:i], h), i)
}

// minus reads what begins with a minus sign.
func (l *lexer) minus() token {
	i := l.pos
	n := l.at(i + 1)
	switch {
	case n == '=':
		return l.emit(tMinusEq, i+2)
	case classes[n]&cDigit != 0:
		return l.number(i + 1)
	case n == 'P':
		if d := isoDuration(l.src[i+1:]); d > 0 {
			return l.emit(tDuration, i+1+d)
		}
	case n == 'n' || n == 'N':
		if l.hasWord(i+1, "nan") {
			return l.emit(tNegNaN, i+4)
		}
	case n == 'i' || n == 'I':
		if l.hasWord(i+1, "infinity") {
			return l.emit(tNegInfinity, i+9)
		}
	}
	return l.emit(tMinus, i+1)
}

func (l *lexer) hasWord(i int, lower string) bool {
	end := i + len(lower)
	return end <= len(l.src) && equalFold(l.src[i:end], lower) && classes[l.at(end)]&cWord == 0
}

// number reads a constant whose first digit is at i (l.pos may be at a minus).
func (l *lexer) number(i int) token {
	src := l.src
	if i == l.pos {
		if src[i] == '0' && (l.at(i+1) == 'x' || l.at(i+1) == 'X') {
			for i += 2; classes[l.at(i)]&cHex != 0 && i < len(src); {
				i++
			}
			return l.emit(tHex, i)
		}
		if l.at(i+8) == '-' && isUUID(src[i:]) {
			return l.emit(tUUID, i+36)
		}
	}
	digits := i
	i = l.digits(i)
	k := tInteger
	switch c := l.at(i); {
	case c == '.':
	case classes[c]&cLetter == 0 && c < utf8.RuneSelf:
		return l.emit(k, i)
	default:
		if n := shortDuration(src[digits:]); n > 0 {
			return l.emit(tDuration, digits+n)
		}
	}
	if l.at(i) == '.' && !(l.at(i+1) == '.' && l.at(i+2) != '.') {
		k = tFloat
		i = l.digits(i + 1)
	}
	if c := l.at(i); c == 'e' || c == 'E' {
		j := i + 1
		if s := l.at(j); s == '+' || s == '-' {
			j++
		}
		if classes[l.at(j)]&cDigit != 0 {
			k, i = tFloat, l.digits(j)
		}
	}
	return l.emit(k, i)
}

func (l *lexer) digits(i int) int {
	for i < len(l.src) && classes[l.src[i]]&cDigit != 0 {
		i++
	}
	return i
}

// quoted reads '…' or "…" in which the quote is doubled to stand for itself.
func (l *lexer) quoted(q byte, k kind) token {
	src, i, escaped := l.src, l.pos+1, false
	for {
		j := strings.IndexByte(src[i:], q)
		if j < 0 {
			return l.fail(len(src), string(q))
		}
		i += j + 1
		if i >= len(src) || src[i] != q {
			t := l.emit(k, i)
			t.escaped = escaped
			return t
		}
		escaped = true
		i++
	}
}

// dollars reads a $$…$$ string, which knows no escapes.
func (l *lexer) dollars() token {
	i := l.pos
	if l.at(i+1) != '$' {
		return l.fail(i+1, "$")
	}
	j := strings.Index(l.src[i+2:], "$$")
	if j < 0 {
		return l.fail(len(l.src), "$")
	}
	t := l.emit(tString, i+2+j+2)
	t.dollar = true
	return t
}

// textOf returns a token's text as ANTLR shows it: strings and quoted names
// without their quotes.
func textOf(src string, t token) string {
	s := src[t.start:t.end]
	switch {
	case t.dollar:
		return s[2 : len(s)-2]
	case t.kind == tString && t.escaped:
		return strings.ReplaceAll(s[1:len(s)-1], "''", "'")
	case t.kind == tQuoted && t.escaped:
		return strings.ReplaceAll(s[1:len(s)-1], `""`, `"`)
	case t.kind == tString || t.kind == tQuoted:
		return s[1 : len(s)-1]
	}
	return s
}

// isUUID reports that s begins with 8-4-4-4-12 hex digits.
func isUUID(s string) bool {
	if len(s) < 36 {
		return false
	}
	for i := 0; i < 36; i++ {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if s[i] != '-' {
				return false
			}
		} else if classes[s[i]]&cHex == 0 {
			return false
		}
	}
	return true
}

// shortDuration returns the length of the duration (1h30m) s begins with, or 0.
func shortDuration(s string) int {
	end := 0
	for i := 0; i < len(s); {
		start := i
		for i < len(s) && classes[s[i]]&cDigit != 0 {
			i++
		}
		u := durationUnit(s[i:])
		if i == start || u == 0 {
			break
		}
		i += u
		end = i
	}
	return end
}

// durationUnit returns the length of the unit s begins with, or 0.
func durationUnit(s string) int {
	if s == "" {
		return 0
	}
	second := byte(0)
	if len(s) > 1 {
		second = s[1] | 0x20
	}
	switch s[0] | 0x20 {
	case 'y', 'w', 'd', 'h', 's':
		return 1
	case 'm':
		if second == 'o' || second == 's' {
			return 2
		}
		return 1
	case 'u', 'n':
		if second == 's' {
			return 2
		}
	}
	if strings.HasPrefix(s, "µs") || strings.HasPrefix(s, "µS") {
		return len("µs")
	}
	return 0
}

// isoDuration returns the length of the ISO 8601 duration s begins with, or 0:
// P1Y2M3DT4H5M6S, P3W, or P0001-02-03T04:05:06.
func isoDuration(s string) int {
	if isoAlternative(s) {
		return len(isoPattern)
	}
	i := 1
	units := "YMD"
	end := 0
	for {
		j := i
		for j < len(s) && classes[s[j]]&cDigit != 0 {
			j++
		}
		if j >= len(s) {
			return end
		}
		if j == i {
			if s[j] != 'T' || units == "HMS" || units == "W" {
				return end
			}
			units = "HMS"
			i++
			continue
		}
		if s[j] == 'W' && i == 1 {
			return j + 1
		}
		u := strings.IndexByte(units, s[j])
		if u < 0 {
			return end
		}
		hms := units == "HMS" || (len(units) > 0 && units[len(units)-1] == 'S')
		units = units[u+1:]
		i = j + 1
		end = i
		if units == "" {
			if hms {
				return end
			}
			units = "-"
		}
	}
}

const isoPattern = "Pdddd-dd-ddTdd:dd:dd"

func isoAlternative(s string) bool {
	if len(s) < len(isoPattern) {
		return false
	}
	for i := 0; i < len(isoPattern); i++ {
		if isoPattern[i] == 'd' {
			if classes[s[i]]&cDigit == 0 {
				return false
			}
		} else if s[i] != isoPattern[i] {
			return false
		}
	}
	return true
}

// runeAt returns the character at i for a message.
func runeAt(s string, i int) string {
	r, n := utf8.DecodeRuneInString(s[i:])
	if r == utf8.RuneError && n <= 1 {
		return string(utf8.RuneError)
	}
	return s[i : i+n]
}
