package cql

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/big"
	"net/netip"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"pgregory.net/rapid"
)

// encode gives PostgreSQL's binary form of a value, by pgx.
func encode(t interface{ Fatal(...any) }, oid uint32, v any) []byte {
	b, err := pgtype.NewMap().Encode(oid, pgtype.BinaryFormatCode, v, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestValuesComeBackAsTheyWere(t *testing.T) {
	at := time.Date(2026, 12, 1, 13, 14, 15, 678_000_000, time.UTC)
	for _, c := range []struct {
		oid    uint32
		native string
		value  any
		cql    []byte // the serialized form by the native protocol, section 6
	}{
		{oidBool, "boolean", true, []byte{1}},
		{oidInt2, "smallint", int16(-2), []byte{0xff, 0xfe}},
		{oidInt2, "bigint", int16(-2), bytes.Repeat([]byte{0xff}, 7)},
		{oidInt4, "int", int32(7), []byte{0, 0, 0, 7}},
		{oidInt8, "bigint", int64(1) << 40, []byte{0, 0, 1, 0, 0, 0, 0, 0}},
		{oidText, "text", "é", []byte("é")},
		{oidJSONB, "text", []byte(`{"a": 1}`), []byte(`{"a": 1}`)},
		{oidBytea, "blob", []byte{0, 255}, []byte{0, 255}},
		{oidFloat4, "double", float32(1.5), []byte{0x3f, 0xf8, 0, 0, 0, 0, 0, 0}},
		{oidDate, "date", time.Date(1970, 1, 2, 0, 0, 0, 0, time.UTC), []byte{0x80, 0, 0, 1}},
		{oidTime, "time", pgtype.Time{Microseconds: 1, Valid: true}, []byte{0, 0, 0, 0, 0, 0, 3, 232}},
		{oidTimestamptz, "timestamp", at, binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli()))},
		{oidTimestamptz, "bigint", at, binary.BigEndian.AppendUint64(nil, uint64(at.UnixMicro()))},
		{oidInet, "inet", netip.MustParseAddr("10.0.0.1"), []byte{10, 0, 0, 1}},
		{oidInet, "inet", netip.MustParseAddr("::1"), append(make([]byte, 15), 1)},
		{oidNumeric, "decimal", pgtype.Numeric{Int: big.NewInt(-12345), Exp: -2, Valid: true}, []byte{0, 0, 0, 2, 0xcf, 0xc7}},
	} {
		if c.oid == oidInt2 && c.native == "bigint" {
			c.cql = append(c.cql, 0xfe)
		}
		pg := encode(t, c.oid, c.value)
		convert := conversions[c.oid][c.native]
		cql, err := convert.toCQL(pg)
		if err != nil || !bytes.Equal(cql, c.cql) {
			t.Errorf("%v as %s: %x, %v; want %x", c.value, c.native, cql, err, c.cql)
			continue
		}
		back, err := convert.toPG(cql)
		if err != nil || !bytes.Equal(back, pg) {
			t.Errorf("%v back from %s: %x, %v; want %x", c.value, c.native, back, err, pg)
		}
	}
}

func TestLossyValuesAreRefused(t *testing.T) {
	refusedToCQL := map[string]struct {
		oid    uint32
		native string
		value  []byte
	}{
		"microseconds":      {oidTimestamptz, "timestamp", big8(1)},
		"infinite time":     {oidTimestamptz, "timestamp", big8(math.MaxInt64)},
		"infinite micros":   {oidTimestamptz, "bigint", big8(math.MinInt64)},
		"infinite date":     {oidDate, "date", []byte{0x7f, 0xff, 0xff, 0xff}},
		"midnight as 24:00": {oidTime, "time", big8(dayMicros)},
		"NaN":               {oidNumeric, "decimal", []byte{0, 0, 0, 0, 0xc0, 0, 0, 0}},
		"a network":         {oidInet, "inet", []byte{2, 24, 0, 4, 10, 0, 0, 0}},
	}
	for name, c := range refusedToCQL {
		if got, err := conversions[c.oid][c.native].toCQL(c.value); err == nil {
			t.Errorf("%s was taken as %x", name, got)
		}
	}
	for name, c := range map[string]struct {
		oid    uint32
		native string
		value  []byte
	}{
		"bigint for int2":       {oidInt2, "bigint", big8(1 << 20)},
		"double for float4":     {oidFloat4, "double", binary.BigEndian.AppendUint64(nil, math.Float64bits(0.1))},
		"nanoseconds":           {oidTime, "time", big8(1)},
		"far timestamp":         {oidTimestamptz, "timestamp", big8(math.MaxInt64)},
		"empty integer":         {oidInt8, "bigint", nil},
		"decimal of huge scale": {oidNumeric, "decimal", []byte{0x7f, 0xff, 0xff, 0xff, 1}},
	} {
		if got, err := conversions[c.oid][c.native].toPG(c.value); err == nil {
			t.Errorf("%s was taken as %x", name, got)
		}
	}
}

func TestDecimalsAgreeWithPgx(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := new(big.Int).SetBytes(rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "magnitude"))
		if rapid.Bool().Draw(t, "negative") {
			n.Neg(n)
		}
		scale := rapid.IntRange(0, 40).Draw(t, "scale")
		pg := encode(t, oidNumeric, pgtype.Numeric{Int: n, Exp: int32(-scale), Valid: true})
		cql, err := numericToDecimal(pg)
		if err != nil {
			t.Fatal(err)
		}
		if got := fromTwosComplement(cql[4:]); got.Cmp(n) != 0 || int(binary.BigEndian.Uint32(cql)) != scale {
			t.Fatalf("%s with scale %d came as %s with scale %x", n, scale, got, cql[:4])
		}
		back, err := decimalToNumeric(cql)
		if err != nil {
			t.Fatal(err)
		}
		var num pgtype.Numeric
		if err := pgtype.NewMap().Scan(oidNumeric, pgtype.BinaryFormatCode, back, &num); err != nil {
			t.Fatal(err)
		}
		left := new(big.Rat).SetFrac(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil))
		right := new(big.Rat).SetInt(num.Int)
		power := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(num.Exp, -num.Exp))), nil))
		if num.Exp < 0 {
			right.Quo(right, power)
		} else {
			right.Mul(right, power)
		}
		if left.Cmp(right) != 0 || int(binary.BigEndian.Uint16(back[6:])) != scale {
			t.Fatalf("%s with scale %d went back as %x", n, scale, back)
		}
	})
}

// Conversions of arbitrary bytes end, with a value or an error.
func FuzzConversions(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 0, 0, 0, 2, 0, 5})
	f.Add(big8(0))
	f.Fuzz(func(_ *testing.T, v []byte) {
		for _, natives := range conversions {
			for _, c := range natives {
				_, _ = c.toCQL(v)
				_, _ = c.toPG(v)
			}
		}
	})
}
