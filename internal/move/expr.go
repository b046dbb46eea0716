package move

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// Expr is a condition on one row, in the part of SQL that every side can
// check: column names, numbers, 'text', true, false, =, <>, <, <=, >, >=, IS
// NULL, IS NOT NULL, AND, OR, NOT, parentheses. As in SQL a comparison with NULL
// is unknown, and a condition holds unless it is false.
type Expr struct {
	op     string // "and", "or", "not", "null", "=", ... or "" for a value
	args   []*Expr
	column int // of a value, -1 for a literal
	text   string
	isText bool
}

const maxExprDepth = 100

// ParseExpr reads a condition; columns are names of the table's columns.
func ParseExpr(text string, t *Table) (*Expr, error) {
	p := &exprParser{table: t}
	if err := p.lex(text); err != nil {
		return nil, err
	}
	e, err := p.or(0)
	if err != nil {
		return nil, err
	}
	if p.at < len(p.tokens) {
		return nil, fmt.Errorf("%q is left over", p.tokens[p.at])
	}
	return e, nil
}

// SQL writes the condition with the names that a side has for the columns,
// given quoted as they should appear.
func (e *Expr) SQL(name func(column int) string) string {
	switch e.op {
	case "":
		switch {
		case e.column >= 0:
			return name(e.column)
		case e.isText:
			return "'" + strings.ReplaceAll(e.text, "'", "''") + "'"
		}
		return e.text
	case "not":
		return "(NOT " + e.args[0].SQL(name) + ")"
	case "null":
		return "(" + e.args[0].SQL(name) + " IS NULL)"
	}
	return "(" + e.args[0].SQL(name) + " " + strings.ToUpper(e.op) + " " + e.args[1].SQL(name) + ")"
}

// False reports whether the condition is false (neither true nor unknown) for
// a row of the table. Values that cannot be compared are an error.
func (e *Expr) False(t *Table, r Row) (bool, error) {
	v, err := e.truth(t, r)
	return v == no, err
}

// truth is SQL's three-valued logic.
type truth int8

const (
	no truth = iota
	unknown
	yes
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

func (e *Expr) truth(t *Table, r Row) (truth, error) {
	switch e.op {
	case "and", "or":
		a, err := e.args[0].truth(t, r)
		if err != nil {
			return no, err
		}
		b, err := e.args[1].truth(t, r)
		if e.op == "and" {
			return min(a, b), err
		}
		return max(a, b), err
	case "not":
		a, err := e.args[0].truth(t, r)
		return yes - a, err
	case "null":
		v, err := e.args[0].value(t, r)
		return truthOf(v.kind == nullValue), err
	case "":
		v, err := e.value(t, r)
		switch {
		case err != nil:
			return no, err
		case v.kind == nullValue:
			return unknown, nil
		case v.kind == boolValue:
			return truthOf(v.number != 0), nil
		}
		return no, fmt.Errorf("%s is not a condition", e.SQL(func(c int) string { return t.Columns[c].Name }))
	}
	a, err := e.args[0].value(t, r)
	if err != nil {
		return no, err
	}
	b, err := e.args[1].value(t, r)
	if err != nil {
		return no, err
	}
	if a.kind == nullValue || b.kind == nullValue {
		return unknown, nil
	}
	c, err := a.compare(b)
	if err != nil {
		return no, fmt.Errorf("%s: %w", e.SQL(func(c int) string { return t.Columns[c].Name }), err)
	}
	return truthOf(compared(e.op, c)), nil
}

func compared(op string, c int) bool {
	switch op {
	case "=":
		return c == 0
	case "<>":
		return c != 0
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	default:
		return c >= 0
	}
}

type valueKind uint8

const (
	nullValue valueKind = iota
	boolValue
	numberValue
	textValue
	otherValue // of types that can be tested for NULL only
)

type exprValue struct {
	kind   valueKind
	number float64
	whole  int64
	exact  bool // whole is the number
	text   []byte
}

func (a exprValue) compare(b exprValue) (int, error) {
	switch {
	case a.kind == otherValue || b.kind == otherValue:
		return 0, errors.New("values of a type that can be tested for NULL only")
	case a.kind != b.kind:
		return 0, errors.New("values of different kinds")
	case a.kind == textValue:
		return bytes.Compare(a.text, b.text), nil
	case a.exact && b.exact:
		return compareOrdered(a.whole, b.whole), nil
	}
	return compareOrdered(a.number, b.number), nil
}

func compareOrdered[T int64 | float64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (e *Expr) value(t *Table, r Row) (exprValue, error) {
	if e.op != "" {
		v, err := e.truth(t, r)
		if err != nil || v == unknown {
			return exprValue{}, err
		}
		return exprValue{kind: boolValue, number: float64(v) / float64(yes)}, nil
	}
	if e.column < 0 {
		return literal(e.text, e.isText)
	}
	v := r[e.column]
	if v == nil {
		return exprValue{}, nil
	}
	c := &t.Columns[e.column]
	switch c.Type.OID {
	case oidBool:
		if len(v) == 1 {
			return exprValue{kind: boolValue, number: float64(v[0])}, nil
		}
	case oidInt2, oidInt4, oidInt8:
		n := intOf(v)
		return exprValue{kind: numberValue, number: float64(n), whole: n, exact: true}, nil
	case oidFloat4:
		if len(v) == 4 {
			return exprValue{kind: numberValue, number: float64(math.Float32frombits(uint32(intOf(v))))}, nil
		}
	case oidFloat8:
		if len(v) == 8 {
			return exprValue{kind: numberValue, number: math.Float64frombits(uint64(intOf(v)))}, nil
		}
	case oidText, oidVarchar:
		return exprValue{kind: textValue, text: v}, nil
	case oidUUID, oidTimestamp, oidTimestamptz, oidDate:
		return exprValue{kind: textValue, text: []byte(ShowValue(&c.Type, v))}, nil
	}
	return exprValue{kind: otherValue}, nil
}

func literal(text string, isText bool) (exprValue, error) {
	if isText {
		return exprValue{kind: textValue, text: []byte(text)}, nil
	}
	switch text {
	case "TRUE":
		return exprValue{kind: boolValue, number: 1}, nil
	case "FALSE":
		return exprValue{kind: boolValue}, nil
	case "NULL":
		return exprValue{}, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return exprValue{kind: numberValue, number: float64(n), whole: n, exact: true}, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	return exprValue{kind: numberValue, number: f}, err
}

// exprParser reads the tokens of one condition.
type exprParser struct {
	table  *Table
	tokens []string // words as they are, 'text with its first quote only
	at     int
}

func (p *exprParser) lex(s string) error {
	for len(s) > 0 {
		r := rune(s[0])
		n := 1
		switch {
		case unicode.IsSpace(r):
			s = s[1:]
			continue
		case r == '\'' || r == '"':
			text := ""
			for {
				end := strings.IndexByte(s[n:], s[0])
				if end < 0 {
					return fmt.Errorf("no closing %c", r)
				}
				text += s[n : n+end]
				n += end + 1
				if n >= len(s) || s[n] != s[0] {
					break
				}
				text += s[:1]
				n++
			}
			p.tokens = append(p.tokens, s[:1]+text)
			s = s[n:]
			continue
		case strings.HasPrefix(s, "<>"), strings.HasPrefix(s, "<="), strings.HasPrefix(s, ">="), strings.HasPrefix(s, "!="):
			n = 2
		case strings.ContainsRune("=<>()", r):
		case r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-.", r)):
			for n < len(s) && s[n] < 0x80 && (unicode.IsLetter(rune(s[n])) || unicode.IsDigit(rune(s[n])) || s[n] == '_' || s[n] == '.') {
				n++
			}
		default:
			return fmt.Errorf("%q cannot stand in a condition", r)
		}
		p.tokens = append(p.tokens, s[:n])
		s = s[n:]
	}
	return nil
}

// word takes the next token if it is the keyword.
func (p *exprParser) word(w string) bool {
	if p.at < len(p.tokens) && strings.EqualFold(p.tokens[p.at], w) {
		p.at++
		return true
	}
	return false
}

func (p *exprParser) or(depth int) (*Expr, error) {
	return p.chain("or", depth, func() (*Expr, error) {
		return p.chain("and", depth, func() (*Expr, error) { return p.not(depth) })
	})
}

func (p *exprParser) chain(op string, depth int, next func() (*Expr, error)) (*Expr, error) {
	if depth > maxExprDepth {
		return nil, errors.New("too many levels")
	}
	e, err := next()
	for err == nil && p.word(op) {
		var right *Expr
		right, err = next()
		e = &Expr{op: op, args: []*Expr{e, right}}
	}
	return e, err
}

func (p *exprParser) not(depth int) (*Expr, error) {
	if depth > maxExprDepth {
		return nil, errors.New("too many levels")
	}
	if p.word("not") {
		e, err := p.not(depth + 1)
		return &Expr{op: "not", args: []*Expr{e}}, err
	}
	left, err := p.operand(depth)
	if err != nil {
		return nil, err
	}
	if p.word("is") {
		not := p.word("not")
		if !p.word("null") {
			return nil, errors.New("IS needs NULL or NOT NULL")
		}
		e := &Expr{op: "null", args: []*Expr{left}}
		if not {
			e = &Expr{op: "not", args: []*Expr{e}}
		}
		return e, nil
	}
	for _, op := range []string{"=", "<>", "!=", "<=", ">=", "<", ">"} {
		if !p.word(op) {
			continue
		}
		right, err := p.operand(depth)
		if op == "!=" {
			op = "<>"
		}
		return &Expr{op: op, args: []*Expr{left, right}}, err
	}
	return left, nil
}

func (p *exprParser) operand(depth int) (*Expr, error) {
	if p.at >= len(p.tokens) {
		return nil, errors.New("the condition ends too early")
	}
	if p.word("(") {
		e, err := p.or(depth + 1)
		if err == nil && !p.word(")") {
			err = errors.New("no closing )")
		}
		return e, err
	}
	token := p.tokens[p.at]
	p.at++
	switch {
	case token[0] == '\'':
		return &Expr{column: -1, text: token[1:], isText: true}, nil
	case unicode.IsDigit(rune(token[0])) || token[0] == '-' || token[0] == '.':
		if _, err := strconv.ParseFloat(token, 64); err != nil {
			return nil, fmt.Errorf("%q is not a number", token)
		}
		return &Expr{column: -1, text: token}, nil
	}
	for _, w := range []string{"TRUE", "FALSE", "NULL"} {
		if strings.EqualFold(token, w) {
			return &Expr{column: -1, text: w}, nil
		}
	}
	name := token
	if token[0] == '"' {
		name = token[1:]
	}
	for i, c := range p.table.Columns {
		if c.Name == name || token[0] != '"' && strings.EqualFold(c.Name, name) {
			return &Expr{column: i}, nil
		}
	}
	return nil, fmt.Errorf("%s has no moved column %q", p.table.Name, name)
}
