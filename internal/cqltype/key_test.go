package cqltype

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}

// TestKeyOrder checks that the bytes of keys order as Compare does, or the
// reverse, whatever follows, and that equal values are equal keys.
func TestKeyOrder(t *testing.T) {
	for _, kt := range natives {
		t.Run(kt.String(), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { checkKeyOrder(rt, kt) })
		})
	}
	t.Run("nested", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) { checkKeyOrder(rt, genType(rt, 3)) })
	})
}

func checkKeyOrder(rt *rapid.T, kt *Type) {
	a, b := genValue(rt, kt), genValue(rt, kt)
	if err := Validate(kt, a); err != nil {
		rt.Fatalf("generated value of %s: %v", kt, err)
	}
	desc := rapid.Bool().Draw(rt, "desc")
	next := rapid.SampledFrom([]*Type{Int, Text, Blob}).Draw(rt, "next")
	nextDesc := rapid.Bool().Draw(rt, "nextDesc")
	nextA, nextB := genValue(rt, next), genValue(rt, next)
	order := Compare(kt, a, b)
	if back := Compare(kt, b, a); sign(back) != -sign(order) {
		rt.Fatalf("%s: compare is not symmetric: %d and %d", kt, order, back)
	}
	if desc {
		order = -order
	}
	if order == 0 {
		order = Compare(next, nextA, nextB)
		if nextDesc {
			order = -order
		}
	}
	key := func(v, follows []byte) []byte {
		k, err := AppendKey([]byte("p"), kt, v, desc)
		if err != nil {
			rt.Fatalf("key of %x as %s: %v", v, kt, err)
		}
		k, err = AppendKey(k, next, follows, nextDesc)
		if err != nil {
			rt.Fatal(err)
		}
		return k
	}
	keyA, keyB := key(a, nextA), key(b, nextB)
	if got := bytes.Compare(keyA, keyB); sign(got) != sign(order) {
		rt.Fatalf("%s desc=%v: %x and %x compare as %d, their keys %x and %x as %d",
			kt, desc, a, b, order, keyA, keyB, got)
	}
	checkRoundTrip(rt, kt, a, keyA[1:], desc, next, nextA, nextDesc)
}

func checkRoundTrip(rt *rapid.T, kt *Type, v, key []byte, desc bool, next *Type, follows []byte, nextDesc bool) {
	got, rest, err := DecodeKey([]byte("x"), kt, key, desc)
	if err != nil || got[0] != 'x' {
		rt.Fatalf("decode %x as %s: %x, %v", key, kt, got, err)
	}
	if skipped, err := SkipKey(kt, key, desc); err != nil || !bytes.Equal(skipped, rest) {
		rt.Fatalf("%s: %x is left of %x when skipped, %v; %x when decoded", kt, skipped, key, err, rest)
	}
	got = got[1:]
	if err := Validate(kt, got); err != nil {
		rt.Fatalf("%s: decoded %x from the key of %x: %v", kt, got, v, err)
	}
	if Compare(kt, got, v) != 0 {
		rt.Fatalf("%s: decoded %x from the key of %x", kt, got, v)
	}
	exact := !LossyKey(kt) && !hasFields(kt)
	if exact && !bytes.Equal(got, v) {
		rt.Fatalf("%s: decoded other bytes %x from the key of %x", kt, got, v)
	}
	again, _ := AppendKey(nil, kt, got, desc)
	if !bytes.Equal(again, key[:len(key)-len(rest)]) {
		rt.Fatalf("%s: key of the decoded value is %x, was %x", kt, again, key)
	}
	got, rest, err = DecodeKey(nil, next, rest, nextDesc)
	if err != nil || len(rest) != 0 || !bytes.Equal(got, follows) {
		rt.Fatalf("following component: %x, rest %x, %v; want %x", got, rest, err, follows)
	}
}

// hasFields reports a tuple or UDT inside, whose missing fields decode as null.
func hasFields(t *Type) bool {
	if t.Kind == KindTuple || t.Kind == KindUDT {
		return true
	}
	for _, e := range t.Elems {
		if hasFields(e) {
			return true
		}
	}
	return false
}

// TestKeyPrefixFree checks that no key is the beginning of another one.
func TestKeyPrefixFree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		kt := genType(rt, 2)
		desc := rapid.Bool().Draw(rt, "desc")
		a, err := AppendKey(nil, kt, genValue(rt, kt), desc)
		if err != nil {
			rt.Fatal(err)
		}
		b, err := AppendKey(nil, kt, genValue(rt, kt), desc)
		if err != nil {
			rt.Fatal(err)
		}
		if len(a) != len(b) && (bytes.HasPrefix(a, b) || bytes.HasPrefix(b, a)) {
			rt.Fatalf("%s: %x and %x", kt, a, b)
		}
		if c := a[0]; c == 0x00 || c == 0x01 || c == 0xFF || c == 0xFE {
			rt.Fatalf("%s: key starts with %x, which is for bounds", kt, c)
		}
	})
}

// TestKeyAllocs guards the types of hot paths.
func TestKeyAllocs(t *testing.T) {
	uuid, timeuuid := NewRandomUUID(), MinTimeuuid(1)
	for _, c := range []struct {
		typ   *Type
		value []byte
	}{
		{Int, EncodeInt(-5)},
		{Bigint, EncodeBigint(7)},
		{Timestamp, EncodeBigint(1e12)},
		{Text, []byte("some\x00text")},
		{UUID, uuid[:]},
		{Timeuuid, timeuuid[:]},
		{Date, EncodeInt(1)},
		{Double, EncodeDouble(1.5)},
		{Varint, EncodeVarint(DecodeVarint(EncodeBigint(-1234567)))},
		{TupleOf(Int, Text), AppendTuple(nil, [][]byte{EncodeInt(1), []byte("x")})},
	} {
		key, out := make([]byte, 0, 128), make([]byte, 0, 128)
		for _, desc := range []bool{false, true} {
			allocs := testing.AllocsPerRun(100, func() {
				var err error
				key, err = AppendKey(key[:0], c.typ, c.value, desc)
				if err != nil {
					t.Fatal(err)
				}
			})
			if allocs != 0 {
				t.Errorf("%s: AppendKey allocates %v times", c.typ, allocs)
			}
			allocs = testing.AllocsPerRun(100, func() {
				var err error
				out, _, err = DecodeKey(out[:0], c.typ, key, desc)
				if err != nil {
					t.Fatal(err)
				}
			})
			if allocs != 0 {
				t.Errorf("%s: DecodeKey allocates %v times", c.typ, allocs)
			}
		}
	}
}

// TestKeyCanonical checks values that have several binary forms: they are one
// key, which gives back the canonical form.
func TestKeyCanonical(t *testing.T) {
	tuple := TupleOf(Int, Int)
	for _, c := range []struct {
		typ             *Type
		form, canonical []byte
	}{
		{Boolean, []byte{2}, []byte{1}},
		{Varint, []byte{0, 0, 5}, []byte{5}},
		{Varint, []byte{0xFF, 0xFF, 0x80}, []byte{0x80}},
		{Double, []byte{0xFF, 0xF8, 0, 0, 0, 0, 0, 1}, EncodeBigint(canonicalNaN64)},
		{Double, []byte{0x7F, 0xF0, 0, 0, 0, 0, 0, 1}, EncodeBigint(canonicalNaN64)},
		{Float, []byte{0xFF, 0x80, 0, 1}, EncodeInt(canonicalNaN32)},
		{tuple, AppendTuple(nil, [][]byte{EncodeInt(1)}), AppendTuple(nil, [][]byte{EncodeInt(1), nil})},
		{Decimal, []byte{0, 0, 0, 2, 100}, []byte{0, 0, 0, 0, 1}},
		{Decimal, []byte{0, 0, 0, 9}, []byte{0, 0, 0, 0, 0}},
		{Decimal, []byte{0x80, 0, 0, 0, 10}, []byte{0x80, 0, 0, 0, 10}},
	} {
		if Compare(c.typ, c.form, c.canonical) != 0 {
			t.Errorf("%s: %x and %x differ", c.typ, c.form, c.canonical)
		}
		for _, desc := range []bool{false, true} {
			key, err := AppendKey(nil, c.typ, c.form, desc)
			if err != nil {
				t.Errorf("%s: %x: %v", c.typ, c.form, err)
				continue
			}
			other, _ := AppendKey(nil, c.typ, c.canonical, desc)
			got, _, err := DecodeKey(nil, c.typ, key, desc)
			if err != nil || !bytes.Equal(got, c.canonical) || !bytes.Equal(key, other) {
				t.Errorf("%s: %x has key %x and comes back as %x, %v; %x has key %x",
					c.typ, c.form, key, got, err, c.canonical, other)
			}
		}
	}
}

func TestKeyRefusals(t *testing.T) {
	for _, c := range []struct {
		name  string
		typ   *Type
		value []byte
	}{
		{"null", Int, nil},
		{"short int", Int, []byte{1}},
		{"decimal without a scale", Decimal, []byte{0, 0}},
		{"list with a null", ListOf(Int).AsFrozen(), []byte{0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF}},
		{"list too long", ListOf(Int).AsFrozen(), []byte{0x7F, 0, 0, 0}},
		{"tuple with a field too many", TupleOf(Int), AppendTuple(nil, [][]byte{nil, nil})},
	} {
		dst := []byte("before")
		got, err := AppendKey(dst, c.typ, c.value, false)
		if err == nil {
			t.Errorf("%s: key %x, want an error", c.name, got)
		}
		if string(got) != "before" {
			t.Errorf("%s: destination is left as %q", c.name, got)
		}
	}
}

func FuzzDecodeKey(f *testing.F) {
	types := append([]*Type{
		ListOf(Text).AsFrozen(), MapOf(Int, Decimal).AsFrozen(), TupleOf(Int, Text, Varint),
		VectorOf(Text, 2), VectorOf(Float, 3), SetOf(TupleOf(UUID)).AsFrozen(),
	}, natives...)
	for i := range types {
		f.Add(byte(i), []byte{0x10, 0x80, 0, 0, 0}, false)
		f.Add(byte(i), []byte{0xEF, 0x7F, 0xFF}, true)
	}
	f.Fuzz(func(t *testing.T, which byte, key []byte, desc bool) {
		kt := types[int(which)%len(types)]
		v, rest, err := DecodeKey(nil, kt, key, desc)
		skipped, skipErr := SkipKey(kt, key, desc)
		if err != nil {
			return
		}
		if skipErr != nil || !bytes.Equal(skipped, rest) {
			t.Fatalf("%s: %x is left of %x when skipped, %v; %x when decoded", kt, skipped, key, skipErr, rest)
		}
		if len(rest) > len(key) || !bytes.HasSuffix(key, rest) {
			t.Fatalf("rest %x of %x", rest, key)
		}
		if Validate(kt, v) != nil {
			return // a well-formed key of a value that cannot have been one
		}
		if _, err := AppendKey(nil, kt, v, desc); err != nil {
			t.Fatalf("%s: %x decodes to %x, which has no key: %v", kt, key, v, err)
		}
	})
}
