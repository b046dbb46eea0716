package move

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

func TestEncodeRow(t *testing.T) {
	value := rapid.Custom(func(t *rapid.T) []byte {
		if rapid.Bool().Draw(t, "null") {
			return nil
		}
		return append([]byte{}, rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes")...)
	})
	rapid.Check(t, func(t *rapid.T) {
		r := Row(rapid.SliceOfN(value, 0, 5).Draw(t, "row"))
		rest := rapid.SliceOf(rapid.Byte()).Draw(t, "rest")
		b := EncodeRow(nil, r)
		got, left, err := DecodeRow(append(bytes.Clone(b), rest...), len(r))
		if err != nil || !got.Equal(r) || !bytes.Equal(left, rest) {
			t.Fatalf("%q became %q, %q, %v", r, got, left, err)
		}
		if len(b) > 0 {
			if _, _, err := DecodeRow(b[:len(b)-1], len(r)); err == nil {
				t.Fatal("a row that is cut off was read")
			}
		}
		if !r.Clone().Equal(r) {
			t.Fatal("a clone differs")
		}
	})
}

func FuzzDecodeRow(f *testing.F) {
	f.Add([]byte{0, 3, 'a', 'b', 1}, 3)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		if n < 0 || n > 100 {
			return
		}
		r, rest, err := DecodeRow(b, n)
		if err != nil {
			return
		}
		again, _, err := DecodeRow(EncodeRow(nil, r), n)
		if err != nil || !again.Equal(r) || len(rest) > len(b) {
			t.Fatalf("%q became %q, %v", r, again, err)
		}
	})
}

func TestPosition(t *testing.T) {
	for _, p := range []Position{nil, {5}, {1, 0, 1 << 63}} {
		got, err := ParsePosition(p.String())
		if err != nil || !got.Covers(p) || !p.Covers(got) {
			t.Errorf("%v became %v, %v", p, got, err)
		}
	}
	if _, err := ParsePosition("1,x"); err == nil {
		t.Error("read a position that is none")
	}
	if (Position{1, 5}).Covers(Position{2}) || !(Position{2, 5}).Covers(Position{2}) || (Position{2}).Covers(Position{2, 1}) {
		t.Error("Covers")
	}
}

func TestShowValue(t *testing.T) {
	for _, tt := range []struct {
		oid  uint32
		v    []byte
		want string
	}{
		{oidInt8, int8Of(-5), "-5"},
		{oidInt4, []byte{0xff, 0xff, 0xff, 0xfe}, "-2"},
		{oidBool, []byte{1}, "true"},
		{oidText, []byte("a\"b"), `"a\"b"`},
		{oidText, []byte{0xff}, "ff"},
		{oidUUID, []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, "00010203-0405-0607-0809-0a0b0c0d0e0f"},
		{oidTimestamptz, int8Of(1_500_000), "2000-01-01T00:00:01.5Z"},
		{oidTimestamptz, int8Of(-1), "1999-12-31T23:59:59.999999Z"},
		{oidDate, []byte{0, 0, 0, 1}, "2000-01-02"},
		{oidInt8, []byte{1}, "01"},
		{oidBytea, nil, "NULL"},
	} {
		if got := ShowValue(&Type{OID: tt.oid}, tt.v); got != tt.want {
			t.Errorf("%d %x: %s, want %s", tt.oid, tt.v, got, tt.want)
		}
	}
}
