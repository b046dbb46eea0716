package cqlfunc

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"varve/internal/cqltype"
)

func literal(k cqltype.LiteralKind) Arg { return Arg{Literal: true, Kind: k} }

func typed(t *cqltype.Type) Arg { return Arg{Type: t} }

// numbers is a list literal of n numbers.
func numbers(n int) Arg {
	a := Arg{}
	for range n {
		a.Elements = append(a.Elements, literal(cqltype.LitFloat))
	}
	return a
}

func TestResolution(t *testing.T) {
	marker := Arg{}
	for _, tc := range []struct {
		call     string
		args     []Arg
		receiver *cqltype.Type
		want     string // Return, or part of the error
	}{
		{"abs", []Arg{typed(cqltype.Int)}, nil, "int"},
		{"abs", []Arg{marker}, nil, "Ambiguous call to function abs"},
		{"abs", []Arg{marker}, cqltype.Bigint, "bigint"},
		{"abs", []Arg{literal(cqltype.LitInteger)}, nil, "int"},
		{"abs", []Arg{literal(cqltype.LitInteger)}, cqltype.Decimal, "decimal"},
		{"abs", []Arg{literal(cqltype.LitString)}, nil, "none of its type signatures match"},
		{"system.abs", []Arg{typed(cqltype.Counter)}, nil, "counter"},
		{"now", nil, nil, "timeuuid"},
		{"now", []Arg{marker}, nil, "Invalid number of arguments in call to function system.now: 0 required but 1 provided"},
		{"max", []Arg{marker}, cqltype.Text, "text"},
		{"max", []Arg{marker}, nil, "Cannot infer type of argument ? in call to function system.max(any)"},
		{"min", []Arg{typed(cqltype.ListOf(cqltype.Int))}, nil, "list<int>"},
		{"from_json", []Arg{marker}, cqltype.Int, "int"},
		{"fromjson", []Arg{typed(cqltype.Int)}, cqltype.Int, "requires an argument of type text"},
		{"to_timestamp", []Arg{typed(cqltype.Timeuuid)}, nil, "timestamp"},
		{"to_timestamp", []Arg{marker}, nil, "Ambiguous call"},
		{"blob_as_int", []Arg{typed(cqltype.Text)}, nil, "int"}, // anything can be read as a blob
		{"token", []Arg{typed(cqltype.Int)}, nil, "bigint"},
		{"token", []Arg{typed(cqltype.Text)}, nil, "Type error: text cannot be passed as argument 0 of function system.token of type int"},
		{"mask_default", []Arg{typed(cqltype.Int)}, nil, "Dynamic data masking is not supported"},
		{"nope", nil, nil, "Unknown function nope called"},
		{"unixtimestampof", []Arg{marker}, nil, "Unknown function unixtimestampof called"},
		{"floor", []Arg{typed(cqltype.Timestamp), literal(cqltype.LitDuration)}, nil, "timestamp"},
		{"similarity_cosine", []Arg{numbers(2), numbers(2)}, nil, "float"},
		{"similarity_cosine", []Arg{numbers(2), numbers(3)}, nil, "same vector dimensions"},
		{"similarity_cosine", []Arg{numbers(1), {Elements: []Arg{literal(cqltype.LitString)}, Text: "['a']"}}, nil, "Type error: ['a'] cannot be passed"},
		{"similarity_cosine", []Arg{numbers(2), {Natural: cqltype.SetOf(cqltype.Double)}}, nil, "requires a float vector argument"},
		{"similarity_cosine", []Arg{marker, typed(cqltype.VectorOf(cqltype.Float, 3))}, nil, "float"},
	} {
		fn, agg, err := Resolve(tc.call, tc.args, tc.receiver, []*cqltype.Type{cqltype.Int})
		got := ""
		switch {
		case err != nil:
			if fn != nil || agg != nil {
				t.Errorf("%s: a function and an error", tc.call)
			}
			got = err.Error()
			if !strings.Contains(got, tc.want) {
				t.Errorf("%s(%v): %s, want %s", tc.call, tc.args, got, tc.want)
			}
			continue
		case fn != nil:
			got = fn.Return.String()
		case agg != nil:
			got = agg.Return.String()
		}
		if got != tc.want {
			t.Errorf("%s(%v): %s, want %s", tc.call, tc.args, got, tc.want)
		}
	}
}

func TestErrorKinds(t *testing.T) {
	_, _, err := Resolve("nope", nil, nil, nil)
	if u := (*UnknownError)(nil); !errors.As(err, &u) || u.Name != "nope" {
		t.Errorf("%v", err)
	}
	_, _, err = Resolve("mask_hash", []Arg{typed(cqltype.Int)}, nil, nil)
	if u := (*UnsupportedError)(nil); !errors.As(err, &u) {
		t.Errorf("%v", err)
	}
	fn, err := Arithmetic('/', typed(cqltype.Int), typed(cqltype.Int), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = fn.Eval(&testContext, [][]byte{cqltype.EncodeInt(1), cqltype.EncodeInt(0)})
	f := (*FailureError)(nil)
	if !errors.As(err, &f) || f.Keyspace != "system" || f.Function != "_divide" || len(f.ArgTypes) != 2 {
		t.Errorf("%#v", err)
	}
}

func TestArithmeticResolution(t *testing.T) {
	for _, tc := range []struct {
		l, r     Arg
		receiver *cqltype.Type
		want     string
	}{
		{typed(cqltype.Int), typed(cqltype.Bigint), nil, "bigint"},
		{typed(cqltype.Tinyint), typed(cqltype.Float), nil, "float"},
		{typed(cqltype.Smallint), typed(cqltype.Decimal), nil, "decimal"},
		{typed(cqltype.Counter), typed(cqltype.Double), nil, "double"},
		{typed(cqltype.Varint), typed(cqltype.Double), nil, "decimal"},
		{typed(cqltype.Timestamp), literal(cqltype.LitDuration), nil, "timestamp"},
		{typed(cqltype.Int), Arg{}, nil, "Ambiguous '+' operation with args int and ?"},
		{typed(cqltype.Int), Arg{}, cqltype.Int, "Ambiguous"},
		{literal(cqltype.LitInteger), literal(cqltype.LitInteger), cqltype.Bigint, "bigint"},
		{typed(cqltype.Int), typed(cqltype.Text), nil, "the '+' operation is not supported between int and text"},
		{typed(cqltype.Ascii), typed(cqltype.Text), nil, "text"},
	} {
		fn, err := Arithmetic('+', tc.l, tc.r, tc.receiver)
		if err != nil {
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v + %v: %v, want %s", tc.l, tc.r, err, tc.want)
			}
			continue
		}
		if fn.Return.String() != tc.want {
			t.Errorf("%v + %v: %s, want %s", tc.l, tc.r, fn.Return, tc.want)
		}
	}
}

func TestClockFunctions(t *testing.T) {
	ctx := &Context{NowMicros: 1_600_000_000_123_456}
	call := func(name string) []byte {
		fn, _, err := Resolve(name, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if fn.Pure {
			t.Errorf("%s is not pure", name)
		}
		v, err := fn.Eval(ctx, nil)
		if err != nil || cqltype.Validate(fn.Return, v) != nil {
			t.Fatalf("%s: %x %v", name, v, err)
		}
		return v
	}
	if ms := cqltype.DecodeBigint(call("current_timestamp")); ms != 1_600_000_000_123 {
		t.Errorf("current_timestamp: %d", ms)
	}
	if d := cqltype.DateToDays(call("currentdate")); d != 18518 {
		t.Errorf("current_date: %d", d)
	}
	if n := cqltype.DecodeBigint(call("current_time")); n != (1_600_000_000_123_456%86_400_000_000)*1000 {
		t.Errorf("current_time: %d", n)
	}
	for _, name := range []string{"uuid", "now", "current_timeuuid", "currenttimeuuid"} {
		seen := map[string]bool{}
		for range 1000 {
			seen[string(call(name))] = true
		}
		if len(seen) != 1000 {
			t.Errorf("%s repeats itself", name)
		}
	}
}

func TestTokenOfCompositeKey(t *testing.T) {
	keys := []*cqltype.Type{cqltype.Int, cqltype.Text}
	fn, _, err := Resolve("token", []Arg{typed(cqltype.Int), {}}, nil, keys)
	if err != nil {
		t.Fatal(err)
	}
	parts := [][]byte{cqltype.EncodeInt(5), []byte("x")}
	got, err := fn.Eval(&testContext, parts)
	if err != nil {
		t.Fatal(err)
	}
	key, err := cqltype.JoinKey(nil, parts)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, cqltype.EncodeBigint(cqltype.Token(key))) {
		t.Errorf("token %x", got)
	}
	if v, err := fn.Eval(&testContext, [][]byte{nil, []byte("x")}); v != nil || err != nil {
		t.Errorf("token of null: %x %v", v, err)
	}
	if _, _, err := Resolve("token", []Arg{{}}, nil, nil); err == nil {
		t.Error("token without a table")
	}
}

// TestAllOnNulls calls every function with null and empty arguments.
func TestAllOnNulls(t *testing.T) {
	for name, list := range functions.fixed {
		for _, s := range list {
			if s.fn == nil {
				continue
			}
			for _, v := range [][]byte{nil, {}} {
				args := make([][]byte, len(s.args))
				for i := range args {
					args[i] = v
				}
				r, err := s.fn.Eval(&testContext, args)
				if err != nil && v == nil {
					t.Errorf("%s: %v", s, err)
				}
				if r != nil && len(args) > 0 && v == nil {
					t.Errorf("%s of null: %x", s, r)
				}
			}
		}
		if !Exists(name) || !Exists("system."+name) {
			t.Errorf("%s does not exist", name)
		}
	}
	for name := range functions.factories {
		if !Exists(name) {
			t.Errorf("%s does not exist", name)
		}
	}
	if Exists("nope") || !Exists("token") || !Exists("mask_inner") {
		t.Error("Exists")
	}
}
