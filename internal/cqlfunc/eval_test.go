package cqlfunc

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"varve/internal/cql"
	"varve/internal/cqltype"
)

// TestExpressions evaluates the expressions of testdata/eval as a SELECT would
// and prints the result as JSON. The recorded answers are those of Cassandra
// 5.0.9 but for the order of signatures in messages and the wording of unknown
// functions; the lines of the file "own" are ours alone, since the planner comes
// first there, or Cassandra fails for another reason.
func TestExpressions(t *testing.T) {
	datadriven.Walk(t, "testdata/eval", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var b strings.Builder
			for _, line := range strings.Split(d.Input, "\n") {
				fmt.Fprintln(&b, evalLine(line))
			}
			return b.String()
		})
	})
}

var testContext = Context{NowMicros: 1_700_000_000_123_456, ProtocolVersion: 5}

func evalLine(line string) string {
	p, err := cql.Parse("SELECT " + line + " FROM t")
	if err != nil {
		return err.Error()
	}
	v, typ, err := evalExpr(p.Stmt.(*cql.Select).Items[0].Expr, nil)
	if err != nil {
		kind := "Invalid: "
		if f := (*FailureError)(nil); errors.As(err, &f) {
			kind = "Failure: "
		}
		return kind + err.Error()
	}
	if len(v) == 0 && !hasEmpty(typ) {
		v = nil
	}
	return string(cqltype.AppendJSON(nil, typ, v))
}

// evalExpr evaluates constants, hints, casts, calls and arithmetic.
func evalExpr(e cql.Expr, want *cqltype.Type) ([]byte, *cqltype.Type, error) {
	switch e := e.(type) {
	case *cql.Literal:
		if e.Kind == cqltype.LitNull {
			return nil, want, nil
		}
		if want == nil {
			want = cqltype.LiteralType(e.Kind, e.Text)
		}
		v, err := cqltype.ParseLiteral(want, e.Kind, e.Text)
		return v, want, err
	case *cql.TypeHint:
		t := testType(e.Type)
		return evalHinted(e.Expr, t)
	case *cql.TupleLit:
		return evalExpr(e.Elems[0], want)
	case *cql.CastExpr:
		from := argOf(e.Expr)
		fn, err := CastArg(from, testType(e.Type))
		return apply(fn, err, []cql.Expr{e.Expr})
	case *cql.Neg:
		fn, err := Negate(argOf(e.Expr).natural())
		return apply(fn, err, []cql.Expr{e.Expr})
	case *cql.Binary:
		fn, err := Arithmetic(e.Op, argOf(e.L), argOf(e.R), want)
		return apply(fn, err, []cql.Expr{e.L, e.R})
	case *cql.Call:
		args := make([]Arg, len(e.Args))
		for i, a := range e.Args {
			args[i] = argOf(a)
		}
		fn, agg, err := Resolve(e.Func.Name, args, want, []*cqltype.Type{cqltype.Int})
		if agg != nil {
			return nil, nil, errors.New("aggregate")
		}
		return apply(fn, err, e.Args)
	}
	return nil, nil, fmt.Errorf("%T", e)
}

// evalHinted evaluates an expression whose type is given.
func evalHinted(e cql.Expr, t *cqltype.Type) ([]byte, *cqltype.Type, error) {
	if t.Kind == cqltype.KindList || t.Kind == cqltype.KindSet || t.Kind == cqltype.KindVector || t.Kind == cqltype.KindMap {
		var parts []cql.Expr
		switch e := e.(type) {
		case *cql.ListLit:
			parts = e.Elems
		case *cql.SetLit:
			parts = e.Elems
		case *cql.MapLit:
			for i := range e.Keys {
				parts = append(parts, e.Keys[i], e.Values[i])
			}
		}
		elems := make([][]byte, len(parts))
		for i, x := range parts {
			v, _, err := evalExpr(x, t.Elems[i%len(t.Elems)])
			if err != nil {
				return nil, nil, err
			}
			elems[i] = v
		}
		if t.Kind == cqltype.KindVector {
			return cqltype.AppendVector(nil, t, elems), t, nil
		}
		return cqltype.AppendCollection(nil, t, elems), t, nil
	}
	v, _, err := evalExpr(e, t)
	return v, t, err
}

func apply(fn *Function, err error, args []cql.Expr) ([]byte, *cqltype.Type, error) {
	if err != nil {
		return nil, nil, err
	}
	values := make([][]byte, len(args))
	for i, a := range args {
		if l, ok := a.(*cql.ListLit); ok {
			values[i], _, err = evalHinted(l, fn.Args[i])
		} else {
			values[i], _, err = evalExpr(a, fn.Args[i])
		}
		if err != nil {
			return nil, nil, err
		}
	}
	v, err := fn.Eval(&testContext, values)
	if err == nil && v != nil {
		err = cqltype.Validate(fn.Return, v)
	}
	return v, fn.Return, err
}

func argOf(e cql.Expr) Arg {
	text := cql.FormatExpr(e)
	switch e := e.(type) {
	case *cql.Literal:
		if e.Kind == cqltype.LitNull {
			return Arg{Text: "NULL"}
		}
		return Arg{Literal: true, Kind: e.Kind, Type: cqltype.LiteralType(e.Kind, e.Text), Text: text}
	case *cql.Marker:
		return Arg{Text: text}
	case *cql.ListLit:
		a := Arg{Text: text}
		for _, el := range e.Elems {
			a.Elements = append(a.Elements, argOf(el))
		}
		return a
	}
	_, t, err := evalExpr(e, nil)
	if err != nil && t == nil {
		// The type is known even where the value fails.
		if h, ok := e.(*cql.TypeHint); ok {
			t = testType(h.Type)
		}
	}
	return Arg{Type: t, Text: text}
}

func testType(r cql.TypeRef) *cqltype.Type {
	arg := func(i int) *cqltype.Type { return testType(r.Args[i]) }
	switch r.Name.Name {
	case "list":
		return cqltype.ListOf(arg(0)).AsFrozen()
	case "set":
		return cqltype.SetOf(arg(0)).AsFrozen()
	case "map":
		return cqltype.MapOf(arg(0), arg(1)).AsFrozen()
	case "vector":
		return cqltype.VectorOf(arg(0), r.Dim)
	}
	for _, b := range blobTypes {
		if b.name == r.Name.Name {
			return b.t
		}
	}
	return cqltype.Blob
}
