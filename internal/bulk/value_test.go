package bulk

import (
	"bytes"
	"testing"

	"varve/internal/cqltype"
)

func TestFieldsSurvive(t *testing.T) {
	for _, tc := range []struct {
		typ   *cqltype.Type
		field string
	}{
		{cqltype.Int, "-7"},
		{cqltype.Text, `a "b", c`},
		{cqltype.Boolean, "true"},
		{cqltype.Decimal, "-1.50"},
		{cqltype.Varint, "123456789012345678901234567890"},
		{cqltype.Blob, "0x00ff"},
		{cqltype.Timestamp, "2026-09-01 22:00:00.123Z"},
		{cqltype.Date, "1969-12-31"},
		{cqltype.Time, "23:59:59.999999999"},
		{cqltype.Duration, "1mo2d3s"},
		{cqltype.Inet, "127.0.0.1"},
		{cqltype.UUID, "0f14d0ab-9605-4a62-a9e4-5ed26688389b"},
		{cqltype.ListOf(cqltype.Int), "[3, 1]"},
		{cqltype.MapOf(cqltype.Text, cqltype.Int), `{"a": 1}`},
		{cqltype.TupleOf(cqltype.Int, cqltype.Text), `[7, null]`},
		{cqltype.VectorOf(cqltype.Float, 2), `[1.0, 2.5]`},
	} {
		v, err := parseField(tc.typ, tc.field)
		if err != nil {
			t.Errorf("%s %q: %v", tc.typ, tc.field, err)
			continue
		}
		out, err := appendField(nil, tc.typ, v)
		if err != nil || string(out) != tc.field {
			t.Errorf("%s %q comes back as %q, %v", tc.typ, tc.field, out, err)
		}
		again, err := parseField(tc.typ, string(out))
		if err != nil || !bytes.Equal(again, v) {
			t.Errorf("%s %q: %x, then %x, %v", tc.typ, tc.field, v, again, err)
		}
	}
}

func TestEmptyFieldIsNull(t *testing.T) {
	for _, typ := range []*cqltype.Type{cqltype.Text, cqltype.Int, cqltype.ListOf(cqltype.Int)} {
		if v, err := parseField(typ, ""); v != nil || err != nil {
			t.Errorf("%s: %x, %v", typ, v, err)
		}
	}
}

func TestBadFieldsAreRefused(t *testing.T) {
	for _, tc := range []struct {
		typ   *cqltype.Type
		field string
	}{
		{cqltype.Int, "x"},
		{cqltype.Int, "99999999999"},
		{cqltype.Ascii, "é"},
		{cqltype.Text, "\xff"},
		{cqltype.UUID, "nope"},
		{cqltype.ListOf(cqltype.Int), "3, 1"},
	} {
		if v, err := parseField(tc.typ, tc.field); err == nil {
			t.Errorf("%s %q gives %x", tc.typ, tc.field, v)
		}
	}
}
