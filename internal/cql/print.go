package cql

import (
	"strings"

	"varve/internal/cqltype"
)

// Format writes a statement as CQL that parses to an equal tree, for logs and
// tests. Constants keep their text; passwords are not hidden.
func Format(s Statement) string {
	var w printer
	w.statement(s)
	return w.String()
}

// FormatExpr writes an expression as CQL.
func FormatExpr(e Expr) string {
	var w printer
	w.expr(e)
	return w.String()
}

// FormatType writes a type as CQL.
func FormatType(t TypeRef) string {
	var w printer
	w.typeRef(t)
	return w.String()
}

type printer struct{ strings.Builder }

// put writes the strings.
func (w *printer) put(s ...string) {
	for _, x := range s {
		w.WriteString(x)
	}
}

// when writes s if on.
func (w *printer) when(on bool, s string) {
	if on {
		w.WriteString(s)
	}
}

// comma writes a separator before all items but the first.
func (w *printer) comma(i int) { w.when(i > 0, ", ") }

func (w *printer) name(s string) {
	if IsReserved(s) {
		w.put(`"`, strings.ReplaceAll(s, `"`, `""`), `"`)
		return
	}
	w.put(s)
}

func (w *printer) names(list []string) {
	for i, s := range list {
		w.comma(i)
		w.name(s)
	}
}

func (w *printer) object(n Name) {
	if n.Keyspace != "" {
		w.name(n.Keyspace)
		w.put(".")
	}
	w.name(n.Name)
}

func (w *printer) str(s string) { w.put("'", strings.ReplaceAll(s, "'", "''"), "'") }

func (w *printer) typeRef(t TypeRef) {
	if t.ClassName != "" || (t.Name == Name{}) {
		w.str(t.ClassName)
		return
	}
	if len(t.Args) == 0 {
		if t.Quoted && !IsReserved(t.Name.Name) {
			if t.Name.Keyspace != "" {
				w.name(t.Name.Keyspace)
				w.put(".")
			}
			w.put(`"`, t.Name.Name, `"`)
			return
		}
		w.object(t.Name)
		return
	}
	w.put(t.Name.Name, "<")
	for i, a := range t.Args {
		w.comma(i)
		w.typeRef(a)
	}
	if t.Name.Name == "vector" {
		w.put(", ", itoa(t.Dim))
	}
	w.put(">")
}

func (w *printer) exprs(open string, list []Expr, closing string) {
	w.put(open)
	for i, e := range list {
		w.comma(i)
		w.expr(e)
	}
	w.put(closing)
}

func (w *printer) expr(e Expr) {
	switch e := e.(type) {
	case *Literal:
		w.literal(e)
	case *Marker:
		w.marker(e)
	case *Column:
		w.name(e.Name)
	case *ListLit:
		w.exprs("[", e.Elems, "]")
	case *SetLit:
		w.exprs("{", e.Elems, "}")
	case *TupleLit:
		w.exprs("(", e.Elems, ")")
	case *MapLit:
		w.put("{")
		for i := range e.Keys {
			w.comma(i)
			w.expr(e.Keys[i])
			w.put(": ")
			w.expr(e.Values[i])
		}
		w.put("}")
	case *UDTLit:
		w.put("{")
		for i := range e.Fields {
			w.comma(i)
			w.name(e.Fields[i])
			w.put(": ")
			w.expr(e.Values[i])
		}
		w.put("}")
	case *Call:
		w.call(e)
	case *TypeHint:
		w.put("(")
		w.typeRef(e.Type)
		w.put(")")
		w.expr(e.Expr)
	case *CastExpr:
		w.put("CAST(")
		w.expr(e.Expr)
		w.put(" AS ")
		w.typeRef(e.Type)
		w.put(")")
	case *Meta:
		w.put(e.Kind, "(")
		w.expr(e.Expr)
		w.put(")")
	default:
		w.operator(e)
	}
}

func (w *printer) literal(l *Literal) {
	if l.Kind == cqltype.LitString {
		w.str(l.Text)
		return
	}
	w.put(l.Text)
}

func (w *printer) marker(m *Marker) {
	if m.Name == "" {
		w.put("?")
		return
	}
	w.put(":")
	w.name(m.Name)
}

func (w *printer) call(c *Call) {
	if c.Func.Keyspace != "" {
		w.name(c.Func.Keyspace)
		w.put(".")
	}
	// token and count are reserved as names of columns, not of functions; the
	// words that only start special forms are the other way round.
	switch c.Func.Name {
	case "token", "count":
		w.put(c.Func.Name)
	case "ttl", "writetime", "maxwritetime", "cast", "key", "json", "distinct":
		w.put(`"`, c.Func.Name, `"`)
	default:
		w.name(c.Func.Name)
	}
	if c.Star {
		// Only the bare name takes a star; any constant means the same.
		w.put([...]string{"(*)", "(1)"}[b2i(c.Func.Keyspace != "")])
		return
	}
	w.exprs("(", c.Args, ")")
}

// operator writes arithmetic and selections of parts.
func (w *printer) operator(e Expr) {
	switch e := e.(type) {
	case *Binary:
		w.operand(e.L, precedence(e.Op))
		w.put(" ", string(e.Op), " ")
		w.operand(e.R, precedence(e.Op)+1)
	case *Neg:
		w.put("- ")
		if _, ok := e.Expr.(*Binary); ok {
			w.operand(e.Expr, atom)
			return
		}
		w.expr(e.Expr)
	case *Field:
		w.operand(e.Expr, atom)
		w.put(".")
		w.name(e.Name)
	case *Element:
		w.operand(e.Expr, atom)
		w.put("[")
		w.expr(e.Key)
		w.put("]")
	case *SliceExpr:
		w.operand(e.Expr, atom)
		w.put("[")
		if e.From != nil {
			w.expr(e.From)
		}
		w.put(" .. ")
		if e.To != nil {
			w.expr(e.To)
		}
		w.put("]")
	}
}

const atom = 3 // binds tighter than any operator

func precedence(op byte) int {
	if op == '+' || op == '-' {
		return 1
	}
	return 2
}

// operand puts an expression in parentheses where it binds less than min.
func (w *printer) operand(e Expr, min int) {
	if b, ok := e.(*Binary); ok && precedence(b.Op) < min {
		w.exprs("(", []Expr{e}, ")")
		return
	}
	w.expr(e)
}
