package cqltype

import (
	"bytes"
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestTextRoundTrip checks that a native value's text is read as the value.
func TestTextRoundTrip(t *testing.T) {
	for _, typ := range natives {
		t.Run(typ.String(), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				v := genValue(rt, typ)
				text := string(AppendText(nil, typ, v))
				// Years before 1 are written as years of their era, and those above
				// 9999 with a sign that the reader of times refuses, as in Cassandra.
				ordinary := typ.Kind != KindTimestamp || len(text) == len("2015-01-01T10:00:00.000Z")
				if len(v) == 0 || !ordinary || text == "" {
					return
				}
				if typ.Kind == KindTimestamp && DecodeBigint(v) < -62135596800000 {
					return
				}
				if typ.Kind == KindDecimal && DecodeDecimal(v).Scale == math.MinInt32 {
					return // its exponent is written as one that no decimal has
				}
				got, err := FromText(typ, text)
				if err != nil || Compare(typ, got, v) != 0 {
					rt.Fatalf("%x is written %q and read %x, %v", v, text, got, err)
				}
			})
		})
	}
}

// TestJSONRoundTrip checks that what AppendJSON writes FromJSON reads, but
// for floating point numbers that JSON has not.
func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		typ := genType(rt, 2)
		v := genValue(rt, typ)
		json := AppendJSON(nil, typ, v)
		got, err := FromJSON(typ, json)
		if err != nil {
			// Timestamps outside years 1 to 9999, empty booleans and elements of
			// vectors, and numbers beyond the limit of JSON have no way back.
			return
		}
		again := AppendJSON(nil, typ, got)
		// Two keys may be written as one: a tuple left out and one of nulls, an
		// empty timestamp and a decimal's double.
		folds := hasFields(typ) && (typeHas(typ, KindSet) || typeHas(typ, KindMap)) ||
			typeHas(typ, KindTimestamp) || typeHas(typ, KindDecimal)
		if !bytes.Equal(json, again) && !folds {
			rt.Fatalf("%s: %x is written %s, read %x, written %s", typ, v, json, got, again)
		}
	})
}

func typeHas(t *Type, kind Kind) bool {
	if t.Kind == kind {
		return true
	}
	for _, e := range t.Elems {
		if typeHas(e, kind) {
			return true
		}
	}
	return false
}

func TestVarint(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v := genBig(rt)
		b := EncodeVarint(v)
		if got := DecodeVarint(b); got.Cmp(v) != 0 {
			rt.Fatalf("%s is encoded %x and decoded %s", v, b, got)
		}
		if !bytes.Equal(trimVarint(b), b) {
			rt.Fatalf("%s is encoded %x, which is not the shortest", v, b)
		}
		padded := append([]byte{0}, b...)
		if v.Sign() < 0 {
			padded[0] = 0xFF
		}
		if Compare(Varint, padded, b) != 0 || DecodeVarint(padded).Cmp(v) != 0 {
			rt.Fatalf("%x and %x differ", padded, b)
		}
	})
}

func TestDecimalCompare(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b := genBig(rt), genBig(rt)
		scaleA, scaleB := rapid.Int32Range(-30, 30).Draw(rt, "scaleA"), rapid.Int32Range(-30, 30).Draw(rt, "scaleB")
		want := toScale(a, 60-scaleA).Cmp(toScale(b, 60-scaleB))
		x := DecimalValue{a, scaleA}.Encode()
		y := DecimalValue{b, scaleB}.Encode()
		if got := Compare(Decimal, x, y); got != want {
			rt.Fatalf("%sE%d and %sE%d compare as %d", a, -scaleA, b, -scaleB, got)
		}
	})
}

func toScale(v *big.Int, exponent int32) *big.Int {
	return new(big.Int).Mul(v, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(exponent)), nil))
}

// TestHugeExponents checks that exponents of billions cost nothing.
func TestHugeExponents(t *testing.T) {
	start := time.Now()
	for _, s := range []string{"1E+2147483647", "1E-2147483647", "9E-2147483647", "-1E+2147483647"} {
		d, err := ParseDecimal(s)
		if err != nil {
			t.Fatal(err)
		}
		v := d.Encode()
		if got := string(FormatLiteral(nil, Decimal, v)); got != s {
			t.Errorf("%s is written %s", s, got)
		}
		Compare(Decimal, v, DecimalValue{big.NewInt(7), 0}.Encode())
		if _, err := AppendKey(nil, Decimal, v, false); err != nil {
			t.Error(err)
		}
	}
	if spent := time.Since(start); spent > 5*time.Second {
		t.Errorf("took %v", spent)
	}
}

func TestNumberLimits(t *testing.T) {
	if err := Validate(Varint, make([]byte, MaxNumberBytes+1)); err == nil {
		t.Error("a varint beyond the limit passes")
	}
	longest := bytes.Repeat([]byte{0x7F}, MaxNumberBytes)
	if err := Validate(Varint, longest); err != nil {
		t.Error(err)
	}
	text := AppendText(nil, Varint, longest)
	if got, err := FromText(Varint, string(text)); err != nil || !bytes.Equal(got, longest) {
		t.Errorf("the longest varint, %d digits, is not read back", len(text))
	}
	if _, err := FromText(Varint, strings.Repeat("9", maxNumberDigits+1)); err == nil {
		t.Error("a longer number is read")
	}
}

func TestDecimalCompareAllocs(t *testing.T) {
	a := DecimalValue{big.NewInt(-123456), 3}.Encode()
	b := DecimalValue{big.NewInt(-1234567), 4}.Encode()
	if n := testing.AllocsPerRun(100, func() { Compare(Decimal, a, b) }); n != 0 {
		t.Errorf("Compare allocates %v times", n)
	}
}

func TestPrimitives(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		i := rapid.Int64().Draw(rt, "i")
		u := rapid.Uint64().Draw(rt, "u")
		f := rapid.Float64().Draw(rt, "f")
		d := genDuration(rt)
		gotDuration, err := DecodeDuration(d.Encode())
		if err != nil {
			rt.Fatal(err)
		}
		gotSigned, n := readVint(appendVint(nil, i))
		gotUnsigned, m := readUvint(appendUvint(nil, u))
		if n == 0 || m == 0 {
			rt.Fatal("vint is not read back")
		}
		for _, c := range []struct{ got, want any }{
			{DecodeInt(EncodeInt(int32(i))), int32(i)},
			{DecodeBigint(EncodeBigint(i)), i},
			{DecodeSmallint(EncodeSmallint(int16(i))), int16(i)},
			{DecodeTinyint(EncodeTinyint(int8(i))), int8(i)},
			{DecodeBool(EncodeBool(i > 0)), i > 0},
			{DecodeDouble(EncodeDouble(f)), f},
			{DecodeFloat(EncodeFloat(float32(f))), float32(f)},
			{DateToDays(DaysToDate(int64(int32(i)))), int64(int32(i))},
			{gotDuration, d},
			{gotSigned, i},
			{gotUnsigned, u},
		} {
			if c.got != c.want {
				rt.Fatalf("got %v, want %v", c.got, c.want)
			}
		}
	})
}

// TestCalendar compares the calendar with the standard library's.
func TestCalendar(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		days := rapid.OneOf(rapid.Int64Range(-800_000, 800_000), rapid.Int64Range(-1<<31, 1<<31-1)).Draw(rt, "days")
		c := civilOf(days)
		want := time.Unix(days*86400, 0).UTC()
		if c.year != int64(want.Year()) || c.month != int(want.Month()) || c.day != want.Day() {
			rt.Fatalf("day %d is %v, want %v", days, c, want)
		}
		if c.days() != days || c.day > c.daysInMonth() {
			rt.Fatalf("%v is day %d, want %d", c, c.days(), days)
		}
	})
}

func TestTimestampNow(t *testing.T) {
	before := time.Now().UnixMilli()
	v, err := FromText(Timestamp, "NOW")
	if got := DecodeBigint(v); err != nil || got < before || got > time.Now().UnixMilli() {
		t.Errorf("now is %d, %v", got, err)
	}
}

func TestJSONFields(t *testing.T) {
	for _, c := range []struct {
		json string
		want []JSONField
	}{
		{`{}`, []JSONField{}},
		{`{"a": 1, "b": [1, {"x" : 2}], "c":"\u0041"}`, []JSONField{
			{"a", []byte("1")}, {"b", []byte(`[1, {"x" : 2}]`)}, {"c", []byte(`"\u0041"`)},
		}},
		{`{"A": 1, "\"B\"": 2}`, []JSONField{{"a", []byte("1")}, {"B", []byte("2")}}},
		{`{"a": 1, "a": 2}`, []JSONField{{"a", []byte("2")}}},
		{`{"A": 1, "a": 2}`, []JSONField{{"a", []byte("1")}}},
		{`{"a": 2, "A": null} trailing`, []JSONField{{"a", []byte("null")}}},
	} {
		got, err := JSONFields(c.json)
		if err != nil {
			t.Errorf("%s: %v", c.json, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.json, diff)
		}
	}
	if _, err := JSONFields("null"); !errors.Is(err, ErrJSONNull) {
		t.Errorf("null: %v", err)
	}
	for _, s := range []string{"", "[]", "1", `"a"`, `{"a":1`, strings.Repeat(`{"a":`, 2000)} {
		var syntax *JSONError
		if _, err := JSONFields(s); !errors.As(err, &syntax) {
			t.Errorf("%.20q: %v, want a JSONError", s, err)
		}
	}
}

func TestNormalizeCollection(t *testing.T) {
	elems := func(s ...string) (out [][]byte) {
		for _, e := range s {
			out = append(out, []byte(e))
		}
		return out
	}
	set, list := SetOf(Text), ListOf(Text)
	m := MapOf(Text, Text)
	for _, c := range []struct {
		typ      *Type
		in, want [][]byte
	}{
		{set, elems("b", "a", "b"), elems("a", "b")},
		{set, elems("a", "b"), elems("a", "b")},
		{set, nil, nil},
		{list, elems("b", "a", "b"), elems("b", "a", "b")},
		{m, elems("b", "1", "a", "2", "b", "3"), elems("a", "2", "b", "3")},
	} {
		in := AppendCollection(nil, c.typ, c.in)
		got, err := NormalizeCollection(c.typ, in)
		if want := AppendCollection(nil, c.typ, c.want); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %s becomes %s, %v", c.typ, FormatLiteral(nil, c.typ, in), FormatLiteral(nil, c.typ, got), err)
		}
	}
}

// TestSplitLimits checks that counts and lengths that cannot be true are
// refused before anything is allocated for them.
func TestSplitLimits(t *testing.T) {
	huge := []byte{0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0}
	if n := testing.AllocsPerRun(10, func() {
		if _, err := SplitCollection(ListOf(Int), huge); err == nil {
			t.Fatal("a count of 2^31-1 in eight bytes passes")
		}
		if _, err := SplitVector(VectorOf(Text, 1<<16), huge); err == nil {
			t.Fatal("65536 elements in eight bytes pass")
		}
	}); n > 20 {
		t.Errorf("%v allocations", n)
	}
	if _, err := SplitTuple(TupleOf(Text), huge); err == nil {
		t.Error("a field of 2^31-1 bytes passes")
	}
	deep := strings.Repeat("ListType(", 100) + "Int32Type" + strings.Repeat(")", 100)
	if _, _, err := ParseClassName(deep); err == nil || !strings.Contains(err.Error(), "nested deeper than 64") {
		t.Errorf("100 types within each other: %v", err)
	}
}

func TestMaybeQuote(t *testing.T) {
	for in, want := range map[string]string{
		"a": "a", "a_1": "a_1", "A": `"A"`, "1a": `"1a"`, "_a": `"_a"`, "": `""`, "a b": `"a b"`, `a"b`: `"a""b"`,
		"select": `"select"`, "key": "key", "type": "type", "token": `"token"`, "infinity": `"infinity"`, "é": `"é"`,
	} {
		if got := MaybeQuote(in); got != want {
			t.Errorf("%q is written %s, want %s", in, got, want)
		}
	}
	if !IsReservedWord("SELECT") || IsReservedWord("ttl") {
		t.Error("reserved words are wrong")
	}
}

func TestLiteralFits(t *testing.T) {
	all := append([]*Type{Counter, Empty, ListOf(Int), TupleOf(Int), VectorOf(Float, 2)}, natives...)
	want := map[LiteralKind]string{
		LitString:   "frozen<tuple<int>> ascii date inet text time timestamp",
		LitInteger:  "counter frozen<tuple<int>> bigint date decimal double duration float int smallint time timestamp tinyint varint",
		LitFloat:    "frozen<tuple<int>> decimal double float",
		LitBoolean:  "frozen<tuple<int>> boolean",
		LitUUID:     "frozen<tuple<int>> timeuuid uuid",
		LitHex:      "frozen<tuple<int>> blob tinyint",
		LitDuration: "frozen<tuple<int>> duration",
	}
	for kind, names := range want {
		var fits []string
		for _, typ := range all {
			if ok, _ := LiteralFits(typ, kind); ok {
				fits = append(fits, typ.String())
			}
		}
		if got := strings.Join(fits, " "); got != names {
			t.Errorf("%s fits %s, want %s", kind, got, names)
		}
	}
	if ok, _ := LiteralFits(Counter, LitNull); ok {
		t.Error("null fits a counter")
	}
}
