package cql

import (
	"fmt"
	"math"
	"strings"
	"sync"
)

// Parsed is a statement with what the planner needs to know of its text.
type Parsed struct {
	Stmt    Statement
	Markers []string // one a bind marker in order: its name, or "" for ?
}

// Limits of what one statement may hold; beyond them Parse returns a SyntaxError.
const (
	MaxMarkers   = 65535
	MaxDepth     = 256   // nested expressions, relations and types
	MaxOperators = 4096  // arithmetic operators and selectors of fields and elements
	MaxRelations = 10000 // of WHERE and IF
	// MaxTokens bounds the size of the tree. Names and constants count once, however long.
	MaxTokens = 2_000_000
)

// Parse reads exactly one statement; a final ; is allowed. The tree's names and
// constants may alias text.
func Parse(text string) (*Parsed, error) {
	p := newParser(text)
	defer p.free()
	stmt := p.statement()
	p.end()
	if err := p.failure(); err != nil {
		return nil, err
	}
	if p.unsupported != "" {
		stmt = &Unsupported{Feature: p.unsupported}
	}
	return &Parsed{Stmt: stmt, Markers: p.markers}, nil
}

// ParseType reads a CQL type, as in system tables and DESCRIBE.
func ParseType(text string) (TypeRef, error) {
	p := newParser(text)
	defer p.free()
	t := p.typeRef()
	p.end()
	if err := p.failure(); err != nil {
		return TypeRef{}, err
	}
	return t, nil
}

// IsReserved reports whether name must be quoted to serve as an identifier:
// it is a reserved word, or not of the form [a-z][a-z0-9_]*.
func IsReserved(name string) bool {
	h := uint32(0)
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z':
		case i > 0 && (c == '_' || c >= '0' && c <= '9'):
		default:
			return true
		}
		h = h*wordHashMul + uint32(c|0x20)
	}
	if name == "" {
		return true
	}
	k := lookupWord(name, h)
	return k != tIdent && !k.isName()
}

// maxAhead is how many tokens beyond the current one the grammar looks at.
const maxAhead = 4

// parser is a recursive-descent parser with a few tokens of lookahead. After
// the first error it behaves as at the end of the text, so that callers need
// not check: every loop and every wish then ends, and the first error stands.
type parser struct {
	lex   lexer
	tok   token
	ahead [maxAhead]token // ring of tokens already read
	head  int
	n     int

	err         *parseError
	markers     []string
	unsupported string // a feature met inside a statement of another kind
	depth       int
	operators   int
	relations   int
	tokens      int

	nodes nodes
}

// parseError is where a statement went wrong; its text is made once parsing is over.
type parseError struct {
	msg     string // complete as it is, if not empty
	invalid bool   // see SyntaxError
	want    string // what was expected; "" for "no viable alternative"
	from    token  // where the choice was made
	token   token  // what did not fit
}

// parsers keeps used parsers, whose size would otherwise be a quarter of what
// parsing a short statement allocates.
var parsers = sync.Pool{New: func() any { return new(parser) }}

// free gives the parser back; it keeps nothing of the statement.
func (p *parser) free() {
	*p = parser{}
	parsers.Put(p)
}

func newParser(text string) *parser {
	p := parsers.Get().(*parser)
	p.lex.src = text
	if len(text) > math.MaxInt32-1 {
		p.fail("Statement is too long: %d bytes", len(text))
		return p
	}
	p.tok = p.lex.next()
	return p
}

func (p *parser) next() {
	if p.tokens++; p.tokens > MaxTokens {
		p.fail("Statement is too long: the limit is %d words and signs", MaxTokens)
		return
	}
	if p.n > 0 {
		p.tok = p.ahead[p.head]
		p.head = (p.head + 1) % maxAhead
		p.n--
		return
	}
	p.tok = p.lex.next()
}

// peek returns the i-th token after the current one, i from 1 to maxAhead.
func (p *parser) peek(i int) token {
	for p.n < i {
		p.ahead[(p.head+p.n)%maxAhead] = p.lex.next()
		p.n++
	}
	return p.ahead[(p.head+i-1)%maxAhead]
}

func (p *parser) is(k kind) bool { return p.tok.kind == k }

func (p *parser) accept(k kind) bool {
	if p.tok.kind != k {
		return false
	}
	p.next()
	return true
}

// expect consumes a token of kind k, or fails.
func (p *parser) expect(k kind) token {
	t := p.tok
	if t.kind == k {
		p.next()
	} else {
		p.stop(&parseError{want: k.String(), from: t, token: t})
	}
	return t
}

// expectAll consumes tokens of the kinds in turn.
func (p *parser) expectAll(kinds ...kind) {
	for _, k := range kinds {
		p.expect(k)
	}
}

// text returns a token's own text.
func (p *parser) text(t token) string { return textOf(p.lex.src, t) }

// stop records the first error and ends the input.
func (p *parser) stop(e *parseError) {
	if p.err == nil && p.lex.bad == nil {
		p.err = e
	}
	p.lex.pos = len(p.lex.src)
	p.n = 0
	p.tok = token{kind: tEOF, start: int32(p.lex.pos), end: int32(p.lex.pos)}
}

// fail records an error with a text of its own, without a position.
func (p *parser) fail(format string, args ...any) {
	p.stop(&parseError{msg: fmt.Sprintf(format, args...)})
}

// failHere says that the current token fits nowhere.
func (p *parser) failHere() { p.failFrom(p.tok, p.tok) }

// failFrom says that t does not fit a choice that began at from.
func (p *parser) failFrom(from, t token) { p.stop(&parseError{from: from, token: t}) }

// enter guards recursion; each true must be paired with leave.
func (p *parser) enter() bool {
	if p.depth++; p.depth > MaxDepth {
		p.fail("Statement is nested too deeply: the limit is %d levels", MaxDepth)
		p.depth--
		return false
	}
	return true
}

func (p *parser) leave() { p.depth-- }

// operator counts what deepens the tree without recursion in the parser.
func (p *parser) operator() bool {
	if p.operators++; p.operators > MaxOperators {
		p.fail("Too many operators in statement: the limit is %d", MaxOperators)
		return false
	}
	return true
}

func (p *parser) countRelation() bool {
	if p.relations++; p.relations > MaxRelations {
		p.fail("Too many conditions in statement: the limit is %d", MaxRelations)
		return false
	}
	return true
}

// end wants the end of the text after any number of semicolons.
func (p *parser) end() {
	for p.accept(tSemi) {
	}
	p.expect(tEOF)
}

// name reads an identifier: a name, a quoted name or an unreserved keyword.
func (p *parser) name() string {
	t := p.tok
	if !t.kind.isName() {
		p.failHere()
		return ""
	}
	p.next()
	return p.nameOf(t)
}

// nameOf returns a name token's meaning: unquoted ones in lower case.
func (p *parser) nameOf(t token) string {
	if t.kind == tQuoted {
		return p.text(t)
	}
	s := p.lex.src[t.start:t.end]
	for i := 0; i < len(s); i++ {
		if s[i] >= 'A' && s[i] <= 'Z' {
			return strings.ToLower(s)
		}
	}
	return s
}

// column reads a column's name, which may be the empty "" of old tables.
func (p *parser) column() string {
	if p.accept(tEmptyQuoted) {
		return ""
	}
	return p.name()
}

// object reads [keyspace.]name; what tells messages of its kind.
func (p *parser) object(what string) Name {
	start := p.tok
	if p.is(tQMark) {
		p.fail("Bind variables cannot be used for %s names", what)
		return Name{}
	}
	n := Name{Name: p.name()}
	if p.is(tDot) {
		p.next()
		n.Keyspace = n.Name
		if p.is(tQMark) {
			p.fail("Bind variables cannot be used for %s names", what)
			return Name{}
		}
		n.Name = p.name()
		return n
	}
	if !followsName[p.tok.kind] {
		p.failFrom(start, p.tok)
	}
	return n
}

func (p *parser) table() Name { return p.object("table") }

// keyspace reads a keyspace's name.
func (p *parser) keyspace() string {
	if p.is(tQMark) {
		p.fail("Bind variables cannot be used for keyspace names")
		return ""
	}
	return p.name()
}

// stringLit reads a string and returns its text.
func (p *parser) stringLit() string { return p.text(p.expect(tString)) }

// ifNotExists reads IF NOT EXISTS if it is there.
func (p *parser) ifNotExists() bool {
	if !p.accept(kIf) {
		return false
	}
	p.expectAll(kNot, kExists)
	return true
}

// ifExists reads IF EXISTS if it is there.
func (p *parser) ifExists() bool {
	if !p.accept(kIf) {
		return false
	}
	p.expect(kExists)
	return true
}

// marker counts a bind marker, whose tokens are read by the caller.
func (p *parser) addMarker(name string) *Marker {
	if len(p.markers) >= MaxMarkers {
		p.stop(&parseError{invalid: true, msg: fmt.Sprintf(
			"Too many markers(?). %d markers exceed the allowed maximum of %d", len(p.markers)+1, MaxMarkers)})
		return &Marker{}
	}
	m := p.nodes.marker()
	m.Index, m.Name = len(p.markers), name
	p.markers = append(p.markers, name)
	return m
}

// marker reads ? or :name; the caller has seen that one is there.
func (p *parser) marker() *Marker {
	if p.accept(tQMark) {
		return p.addMarker("")
	}
	p.expect(tColon)
	return p.addMarker(p.name())
}

func (p *parser) isMarker() bool { return p.is(tQMark) || p.is(tColon) }

// set builds a table of token kinds.
func set(kinds ...kind) *[numKinds]bool {
	var t [numKinds]bool
	for _, k := range kinds {
		t[k] = true
	}
	return &t
}

// followsName are the tokens that some statement has after a table's name. Any
// other makes ANTLR refuse the name itself, and so the message's position.
var followsName = set(tEOF, tSemi, tLParen, kWhere, kGroup, kOrder, kPer, kLimit, kAllow, kUsing, kSet,
	kJSON, kAs, kWith, kAlter, kAdd, kDrop, kRename, kTo, kFrom, kOf, kNoRecursive, kPrimary)
