package exec

import (
	"strconv"
	"strings"

	"varve/internal/cql"
	"varve/internal/cqltype"
)

// opText is an operator as Cassandra prints it.
func opText(op cql.Op) string {
	switch op {
	case cql.Eq:
		return "="
	case cql.Ne:
		return "!="
	case cql.Lt:
		return "<"
	case cql.Le:
		return "<="
	case cql.Gt:
		return ">"
	case cql.Ge:
		return ">="
	case cql.In:
		return "IN"
	case cql.NotIn:
		return "NOT IN"
	case cql.Contains:
		return "CONTAINS"
	case cql.ContainsKey:
		return "CONTAINS KEY"
	case cql.NotContains:
		return "NOT CONTAINS"
	case cql.NotContainsKey:
		return "NOT CONTAINS KEY"
	case cql.Like:
		return "LIKE"
	case cql.IsNotNull:
		return "IS NOT"
	}
	return "ANN"
}

// relationText is a relation as Cassandra quotes it in refusals.
func relationText(rel *cql.Relation) string {
	var b strings.Builder
	switch {
	case rel.Token:
		b.WriteString("token(" + strings.Join(rel.Columns, ", ") + ")")
	case rel.Tuple:
		b.WriteString("(" + strings.Join(rel.Columns, ", ") + ")")
	default:
		b.WriteString(cqltype.MaybeQuote(rel.Columns[0]))
		if rel.Key != nil {
			b.WriteString("[" + exprText(rel.Key) + "]")
		}
	}
	b.WriteString(" " + opText(rel.Op) + " ")
	switch {
	case rel.Op == cql.IsNotNull:
		b.WriteString("NULL")
	case rel.Value != nil:
		b.WriteString(exprText(rel.Value))
	default:
		b.WriteString("(" + exprTexts(rel.Values) + ")")
	}
	return b.String()
}

func exprTexts(es []cql.Expr) string {
	s := make([]string, len(es))
	for i, e := range es {
		s[i] = exprText(e)
	}
	return strings.Join(s, ", ")
}

// exprText writes an expression as Cassandra prints it: in refusals, and as
// the name of a result column without an alias.
func exprText(e cql.Expr) string {
	switch e := e.(type) {
	case *cql.Literal:
		if e.Kind == cqltype.LitString {
			return "'" + e.Text + "'"
		}
		if e.Kind == cqltype.LitNull {
			return "null"
		}
		return e.Text
	case *cql.Marker:
		if e.Name != "" {
			return ":" + e.Name
		}
		return "?"
	case *cql.Column:
		return e.Name
	case *cql.ListLit:
		return "[" + exprTexts(e.Elems) + "]"
	case *cql.SetLit:
		return "{" + exprTexts(e.Elems) + "}"
	case *cql.TupleLit:
		return "(" + exprTexts(e.Elems) + ")"
	case *cql.MapLit:
		return "{" + pairTexts(len(e.Keys), func(i int) (string, cql.Expr) { return exprText(e.Keys[i]), e.Values[i] }) + "}"
	case *cql.UDTLit:
		return "{" + pairTexts(len(e.Fields), func(i int) (string, cql.Expr) { return e.Fields[i], e.Values[i] }) + "}"
	case *cql.Call:
		return callText(e)
	case *cql.TypeHint:
		return "(" + typeText(e.Type) + ")" + exprText(e.Expr)
	case *cql.CastExpr:
		return "cast(" + exprText(e.Expr) + " as " + typeText(e.Type) + ")"
	case *cql.Binary:
		return exprText(e.L) + " " + string(e.Op) + " " + exprText(e.R)
	case *cql.Neg:
		return "-" + exprText(e.Expr)
	case *cql.Field:
		return exprText(e.Expr) + "." + e.Name
	case *cql.Element:
		return exprText(e.Expr) + "[" + exprText(e.Key) + "]"
	case *cql.SliceExpr:
		return exprText(e.Expr) + "[" + optionalText(e.From) + ".." + optionalText(e.To) + "]"
	case *cql.Meta:
		return e.Kind + "(" + exprText(e.Expr) + ")"
	}
	return ""
}

func optionalText(e cql.Expr) string {
	if e == nil {
		return ""
	}
	return exprText(e)
}

func pairTexts(n int, at func(int) (string, cql.Expr)) string {
	s := make([]string, n)
	for i := range s {
		k, v := at(i)
		s[i] = k + ": " + exprText(v)
	}
	return strings.Join(s, ", ")
}

func callText(e *cql.Call) string {
	name := e.Func.Name
	if e.Func.Keyspace != "" {
		name = e.Func.Keyspace + "." + name
	}
	if e.Star {
		return name + "(*)"
	}
	return name + "(" + exprTexts(e.Args) + ")"
}

// typeText writes a type as it was written in the statement.
func typeText(t cql.TypeRef) string {
	if t.ClassName != "" {
		return "'" + t.ClassName + "'"
	}
	s := t.Name.Name
	if t.Name.Keyspace != "" {
		s = t.Name.Keyspace + "." + s
	}
	if len(t.Args) == 0 {
		return s
	}
	args := make([]string, len(t.Args))
	for i, a := range t.Args {
		args[i] = typeText(a)
	}
	s += "<" + strings.Join(args, ", ")
	if t.Dim > 0 {
		s += ", " + strconv.Itoa(t.Dim)
	}
	return s + ">"
}
