package cqltype

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// fuzzTypes are what the fuzzers try bytes as.
var fuzzTypes = append([]*Type{
	Counter, Empty,
	ListOf(Text), SetOf(Varint), MapOf(Int, Decimal), MapOf(ListOf(Double).AsFrozen(), Boolean),
	TupleOf(Int, Text, TupleOf(Inet, Duration)), VectorOf(Float, 3), VectorOf(Text, 2), VectorOf(VectorOf(Int, 2), 2),
	{Kind: KindUDT, Keyspace: "k", Name: "u", FieldNames: []string{"a", "B"}, Elems: []*Type{Text, ListOf(Int).AsFrozen()}},
	{Kind: KindCustom, ClassName: marshalPackage + "LexicalUUIDType"},
}, natives...)

func addFuzzValues(f *testing.F) {
	for i, t := range fuzzTypes {
		f.Add(byte(i), []byte{}, []byte{0})
		f.Add(byte(i), []byte{0, 0, 0, 1, 0, 0, 0, 1, 'a'}, []byte{0, 0, 0, 0})
		f.Add(byte(i), bytes.Repeat([]byte{0xFF}, 16), make([]byte, 12))
		if v, err := FromText(t, "2015-01-01"); err == nil {
			f.Add(byte(i), v, v)
		}
	}
}

// FuzzValue checks that nothing fails on bytes that Validate accepts.
func FuzzValue(f *testing.F) {
	addFuzzValues(f)
	f.Fuzz(func(t *testing.T, which byte, a, b []byte) {
		typ := fuzzTypes[int(which)%len(fuzzTypes)]
		if Validate(typ, a) != nil {
			return
		}
		if Compare(typ, a, a) != 0 {
			t.Fatalf("%s: %x differs from itself", typ, a)
		}
		FormatLiteral(nil, typ, a)
		json := AppendJSON(nil, typ, a)
		if !utf8.Valid(json) {
			t.Fatalf("%s: %x is written as JSON %q", typ, a, json)
		}
		if _, err := parseJSON(string(json)); err != nil {
			t.Fatalf("%s: %x is written as JSON %q: %v", typ, a, json, err)
		}
		if typ.Kind == KindEmpty {
			return
		}
		keyA, err := AppendKey(nil, typ, a, false)
		if err != nil && len(a) > 0 {
			t.Fatalf("%s: %x has no key: %v", typ, a, err)
		}
		if Validate(typ, b) != nil || a == nil || b == nil {
			return
		}
		keyB, err := AppendKey(nil, typ, b, false)
		if err != nil {
			t.Fatalf("%s: %x has no key: %v", typ, b, err)
		}
		if sign(bytes.Compare(keyA, keyB)) != sign(Compare(typ, a, b)) {
			t.Fatalf("%s: %x and %x compare as %d, keys %x and %x", typ, a, b, Compare(typ, a, b), keyA, keyB)
		}
	})
}

// FuzzSplit checks that taking bytes apart never fails otherwise than by an
// error, and that what comes apart can be put together again.
func FuzzSplit(f *testing.F) {
	addFuzzValues(f)
	f.Fuzz(func(t *testing.T, which byte, a, _ []byte) {
		typ := fuzzTypes[int(which)%len(fuzzTypes)]
		switch typ.Kind {
		case KindList, KindSet, KindMap:
			elems, err := SplitCollection(typ, a)
			if err != nil {
				return
			}
			again, err := SplitCollection(typ, AppendCollection(nil, typ, elems))
			if err != nil || len(again) != len(elems) || len(elems) > len(a)/4 {
				t.Fatalf("%s: %x has %d elements, then %d, %v", typ, a, len(elems), len(again), err)
			}
			if Validate(typ, a) == nil {
				sorted, err := NormalizeCollection(typ, a)
				if err != nil || Validate(typ, sorted) != nil {
					t.Fatalf("%s: %x is normalized to %x, %v", typ, a, sorted, err)
				}
			}
		case KindTuple, KindUDT:
			if elems, err := SplitTuple(typ, a); err == nil {
				if _, err := SplitTuple(typ, AppendTuple(nil, elems)); err != nil {
					t.Fatal(err)
				}
			}
		case KindVector:
			if elems, err := SplitVector(typ, a); err == nil {
				if _, err := SplitVector(typ, AppendVector(nil, typ, elems)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if parts, err := SplitKey(a, 3); err == nil {
			joined, err := JoinKey(nil, parts)
			if err == nil && !bytes.Equal(joined, a) {
				t.Fatalf("key %x is joined as %x", a, joined)
			}
		}
	})
}

// emptyOfText reports that Validate refuses an empty smallint, tinyint or
// duration, which Cassandra yet makes of an empty text.
func emptyOfText(err error) bool { return strings.HasSuffix(err.Error(), "(0)") }

// FuzzText checks that every text is refused or gives a valid value, which
// reads the same when written.
func FuzzText(f *testing.F) {
	for i := range fuzzTypes {
		for _, s := range []string{"", "1", "-1.5e10", "2015-01-01 10:00 UTC", "1y2mo", "P1Y", "::1", "12:00:00.1", "true"} {
			f.Add(byte(i), s)
		}
	}
	f.Fuzz(func(t *testing.T, which byte, s string) {
		typ := fuzzTypes[int(which)%len(fuzzTypes)]
		b, err := FromText(typ, s)
		if err != nil || !utf8.ValidString(s) {
			return
		}
		if typ.IsCollection() || typ.Kind == KindVector || typ.Kind == KindTuple || typ.Kind == KindUDT {
			return // hexadecimal and tuple texts are checked by the caller
		}
		if err := Validate(typ, b); err != nil && !emptyOfText(err) {
			t.Fatalf("%s: %q gives %x: %v", typ, s, b, err)
		}
		if typ.Kind == KindDuration || len(b) == 0 || typ.Kind == KindTimestamp && len(s) > 20 || typ.Kind == KindCustom {
			return // the zero duration and years beyond the calendar have no text
		}
		text := string(AppendText(nil, typ, b))
		again, err := FromText(typ, text)
		if err != nil || Compare(typ, b, again) != 0 {
			t.Fatalf("%s: %q gives %x, written %q, then %x, %v", typ, s, b, text, again, err)
		}
	})
}

// FuzzJSON checks that every JSON text is refused or gives a valid value.
func FuzzJSON(f *testing.F) {
	for i := range fuzzTypes {
		for _, s := range []string{"null", `"1"`, "1", "[1, 2]", `{"a": [null]}`, `"[1]"`, `"\ud83d\ude00"`, "1.5e3", "[[[["} {
			f.Add(byte(i), s)
		}
	}
	f.Fuzz(func(t *testing.T, which byte, s string) {
		typ := fuzzTypes[int(which)%len(fuzzTypes)]
		_, _ = JSONFields(s)
		b, err := FromJSON(typ, []byte(s))
		if err != nil || !utf8.ValidString(s) {
			return
		}
		if err := Validate(typ, b); err != nil && !emptyOfText(err) {
			t.Fatalf("%s: %q gives %x: %v", typ, s, b, err)
		}
	})
}

// FuzzParseClassName checks that class names are refused or can be written
// and read again.
func FuzzParseClassName(f *testing.F) {
	for _, t := range fuzzTypes {
		f.Add(ClassNameOf(t))
	}
	f.Add("ReversedType(MapType(Int32Type,FrozenType(ListType(UTF8Type))))")
	f.Add("DynamicCompositeType(a=>BytesType)")
	f.Fuzz(func(t *testing.T, s string) {
		typ, _, err := ParseClassName(s)
		if err != nil {
			return
		}
		name := ClassNameOf(typ)
		again, _, err := ParseClassName(name)
		if err != nil || !typ.Equal(again) {
			t.Fatalf("%q is %s, written %q, then %v, %v", s, typ, name, again, err)
		}
	})
}
