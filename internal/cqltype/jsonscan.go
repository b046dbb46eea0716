package cqltype

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// maxJSONDepth and maxJSONNumber are the limits of the Jackson library
	// that Cassandra reads JSON with.
	maxJSONDepth  = 1000
	maxJSONNumber = 1000
)

// JSONError says that a text is no JSON, which callers report in another way
// than a JSON value of the wrong type.
type JSONError struct{ Reason string }

func (e *JSONError) Error() string { return e.Reason }

type jsonKind uint8

const (
	jsonNull jsonKind = iota
	jsonBoolean
	jsonInteger
	jsonDouble
	jsonString
	jsonArray
	jsonObject
)

// jsonNode is a JSON value. text is a string's contents, or how Java would
// print the boolean or number; raw is the text it was read from.
type jsonNode struct {
	kind   jsonKind
	text   string
	raw    string
	elems  []jsonNode
	fields []jsonMember
}

type jsonMember struct {
	name  string
	value jsonNode
}

// jsonScanner reads a JSON text into nodes.
type jsonScanner struct {
	s     string
	at    int
	depth int
}

// parseJSON reads the value at the start of s. What follows it is ignored,
// but must not run into a number or word.
func parseJSON(s string) (jsonNode, error) {
	sc := jsonScanner{s: s}
	n, err := sc.value()
	if err != nil {
		return n, err
	}
	scalar := n.kind != jsonString && n.kind != jsonArray && n.kind != jsonObject
	if scalar && sc.at < len(s) && strings.IndexByte(" \t\r\n", s[sc.at]) < 0 {
		return n, sc.unexpected("Expected space separating root-level values")
	}
	return n, nil
}

func (sc *jsonScanner) fail(format string, args ...any) error {
	before := sc.s[:min(sc.at, len(sc.s))]
	line := 1 + strings.Count(before, "\n")
	column := len(before) - strings.LastIndexByte(before, '\n')
	return &JSONError{fmt.Sprintf(format, args...) + fmt.Sprintf(" at line %d, column %d", line, column)}
}

func (sc *jsonScanner) unexpected(why string) error {
	if sc.at >= len(sc.s) {
		return sc.fail("Unexpected end-of-input: %s", why)
	}
	r, _ := utf8.DecodeRuneInString(sc.s[sc.at:])
	return sc.fail("Unexpected character ('%c' (code %d)): %s", r, r, why)
}

func (sc *jsonScanner) blanks() {
	for sc.at < len(sc.s) && strings.IndexByte(" \t\r\n", sc.s[sc.at]) >= 0 {
		sc.at++
	}
}

func (sc *jsonScanner) peek() byte {
	if sc.at < len(sc.s) {
		return sc.s[sc.at]
	}
	return 0
}

func (sc *jsonScanner) value() (n jsonNode, err error) {
	sc.blanks()
	start := sc.at
	switch c := sc.peek(); {
	case c == '"':
		n.kind = jsonString
		n.text, err = sc.stringText()
	case c == '{':
		n, err = sc.object()
	case c == '[':
		n, err = sc.array()
	case c == '-' || c >= '0' && c <= '9':
		n, err = sc.number()
	default:
		n, err = sc.word()
	}
	n.raw = sc.s[start:sc.at]
	return n, err
}

func (sc *jsonScanner) word() (jsonNode, error) {
	for _, w := range []string{"null", "true", "false"} {
		if strings.HasPrefix(sc.s[sc.at:], w) {
			sc.at += len(w)
			if w == "null" {
				return jsonNode{kind: jsonNull, text: w}, nil
			}
			return jsonNode{kind: jsonBoolean, text: w}, nil
		}
	}
	if sc.at >= len(sc.s) && sc.depth == 0 {
		return jsonNode{}, sc.fail("No content to map due to end-of-input")
	}
	rest := sc.s[sc.at:]
	end := strings.IndexFunc(rest, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	switch {
	case end < 0:
		end = len(rest)
	case end == 0:
		return jsonNode{}, sc.unexpected("expected a valid value (" + jsonExpected + ")")
	}
	return jsonNode{}, sc.fail("Unrecognized token '%s': was expecting (%s)", rest[:min(end, 256)], jsonExpected)
}

const jsonExpected = "JSON String, Number, Array, Object or token 'null', 'true' or 'false'"

func (sc *jsonScanner) enter() error {
	sc.at++
	sc.depth++
	if sc.depth > maxJSONDepth {
		return sc.fail("Document nesting depth (%d) exceeds the maximum allowed (%d)", sc.depth, maxJSONDepth)
	}
	return nil
}

// more consumes what stands between elements: first tells that none was read
// yet; it returns false after the closing character.
func (sc *jsonScanner) more(closing byte, first bool) (bool, error) {
	sc.blanks()
	switch c := sc.peek(); {
	case sc.at >= len(sc.s):
		return false, sc.unexpected("expected ',' or a closing bracket")
	case c == closing:
		sc.at++
		sc.depth--
		return false, nil
	case first:
		return true, nil
	case c != ',':
		return false, sc.unexpected("expected ',' or a closing bracket")
	}
	sc.at++
	return true, nil
}

func (sc *jsonScanner) array() (jsonNode, error) {
	n := jsonNode{kind: jsonArray}
	if err := sc.enter(); err != nil {
		return n, err
	}
	for {
		more, err := sc.more(']', len(n.elems) == 0)
		if err != nil || !more {
			return n, err
		}
		e, err := sc.value()
		if err != nil {
			return n, err
		}
		n.elems = append(n.elems, e)
	}
}

func (sc *jsonScanner) object() (jsonNode, error) {
	n := jsonNode{kind: jsonObject}
	if err := sc.enter(); err != nil {
		return n, err
	}
	index := map[string]int{}
	for first := true; ; first = false {
		more, err := sc.more('}', first)
		if err != nil || !more {
			return n, err
		}
		sc.blanks()
		if sc.peek() != '"' {
			return n, sc.unexpected("was expecting double-quote to start field name")
		}
		name, err := sc.stringText()
		if err != nil {
			return n, err
		}
		sc.blanks()
		if sc.peek() != ':' {
			return n, sc.unexpected("was expecting a colon to separate field name and value")
		}
		sc.at++
		v, err := sc.value()
		if err != nil {
			return n, err
		}
		if i, ok := index[name]; ok {
			n.fields[i].value = v
			continue
		}
		index[name] = len(n.fields)
		n.fields = append(n.fields, jsonMember{name, v})
	}
}

func (sc *jsonScanner) digits() int {
	n := countDigits(sc.s[sc.at:])
	sc.at += n
	return n
}

func (sc *jsonScanner) number() (jsonNode, error) {
	start := sc.at
	if sc.peek() == '-' {
		sc.at++
	}
	zero := sc.peek() == '0'
	n := sc.digits()
	if n == 0 {
		return jsonNode{}, sc.unexpected("expected digit (0-9) to follow minus sign, for valid numeric value")
	}
	if zero && n > 1 {
		return jsonNode{}, sc.fail("Invalid numeric value: Leading zeroes not allowed")
	}
	kind := jsonInteger
	if sc.peek() == '.' {
		kind = jsonDouble
		sc.at++
		if sc.digits() == 0 {
			return jsonNode{}, sc.unexpected("Decimal point not followed by a digit")
		}
	}
	if c := sc.peek(); c == 'e' || c == 'E' {
		kind = jsonDouble
		sc.at++
		if c := sc.peek(); c == '+' || c == '-' {
			sc.at++
		}
		if sc.digits() == 0 {
			return jsonNode{}, sc.unexpected("Exponent indicator not followed by a digit")
		}
	}
	text := sc.s[start:sc.at]
	if len(text) > maxJSONNumber {
		return jsonNode{}, sc.fail("Number value length (%d) exceeds the maximum allowed (%d)", len(text), maxJSONNumber)
	}
	switch {
	case kind == jsonDouble:
		v, _ := strconv.ParseFloat(text, 64)
		text = string(appendJavaFloat(nil, v, 64))
	case text == "-0":
		text = "0"
	}
	return jsonNode{kind: kind, text: text}, nil
}

// stringText reads a string with its quotes and returns its contents.
func (sc *jsonScanner) stringText() (string, error) {
	sc.at++
	start := sc.at
	for sc.at < len(sc.s) && sc.s[sc.at] != '"' && sc.s[sc.at] != '\\' && sc.s[sc.at] >= 0x20 {
		sc.at++
	}
	if sc.peek() == '"' && sc.at < len(sc.s) {
		sc.at++
		return sc.s[start : sc.at-1], nil
	}
	out := []byte(sc.s[start:sc.at])
	for sc.at < len(sc.s) {
		c := sc.s[sc.at]
		switch {
		case c == '"':
			sc.at++
			return string(out), nil
		case c < 0x20:
			return "", sc.fail("Illegal unquoted character ((CTRL-CHAR, code %d)): has to be escaped", c)
		case c == '\\':
			var err error
			if out, err = sc.escape(out); err != nil {
				return "", err
			}
		default:
			out = append(out, c)
			sc.at++
		}
	}
	return "", sc.unexpected("was expecting closing quote for a string value")
}

const (
	jsonEscapes = `"\/bfnrt`
	jsonEscaped = "\"\\/\b\f\n\r\t"
)

func (sc *jsonScanner) escape(out []byte) ([]byte, error) {
	sc.at++
	if sc.at >= len(sc.s) {
		return out, sc.unexpected("in a character escape")
	}
	c := sc.s[sc.at]
	if i := strings.IndexByte(jsonEscapes, c); i >= 0 {
		sc.at++
		return append(out, jsonEscaped[i]), nil
	}
	if c != 'u' {
		return out, sc.fail("Unrecognized character escape %q", rune(c))
	}
	unit, err := sc.hexUnit()
	if err != nil {
		return out, err
	}
	if !utf16.IsSurrogate(unit) {
		return utf8.AppendRune(out, unit), nil
	}
	if strings.HasPrefix(sc.s[sc.at:], `\u`) {
		saved := sc.at
		sc.at++
		low, err := sc.hexUnit()
		if err != nil {
			return out, err
		}
		if r := utf16.DecodeRune(unit, low); r != utf8.RuneError {
			return utf8.AppendRune(out, r), nil
		}
		sc.at = saved
	}
	// Java writes half a pair as a question mark.
	return append(out, '?'), nil
}

// hexUnit reads four hexadecimal digits after the u.
func (sc *jsonScanner) hexUnit() (rune, error) {
	sc.at++
	if len(sc.s)-sc.at < 4 {
		return 0, sc.fail("Unexpected end-of-input in a character escape")
	}
	v, err := strconv.ParseUint(sc.s[sc.at:sc.at+4], 16, 16)
	if err != nil {
		return 0, sc.fail("expected a hex-digit for character escape sequence")
	}
	sc.at += 4
	return rune(v), nil
}
