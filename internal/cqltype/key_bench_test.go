package cqltype

import "testing"

func BenchmarkKey(b *testing.B) {
	timeuuid := MinTimeuuid(1)
	for _, c := range []struct {
		typ   *Type
		value []byte
	}{
		{Int, EncodeInt(-5)},
		{Timestamp, EncodeBigint(1e12)},
		{Text, []byte("a channel of some length")},
		{Timeuuid, timeuuid[:]},
		{Decimal, DecimalValue{Unscaled: DecodeVarint(EncodeBigint(-1234567)), Scale: 2}.Encode()},
	} {
		b.Run("append/"+c.typ.String(), func(b *testing.B) {
			b.ReportAllocs()
			var key []byte
			for b.Loop() {
				key, _ = AppendKey(key[:0], c.typ, c.value, false)
			}
		})
		b.Run("decode/"+c.typ.String(), func(b *testing.B) {
			key, _ := AppendKey(nil, c.typ, c.value, false)
			b.ReportAllocs()
			var value []byte
			for b.Loop() {
				value, _, _ = DecodeKey(value[:0], c.typ, key, false)
			}
		})
		b.Run("compare/"+c.typ.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Compare(c.typ, c.value, c.value)
			}
		})
	}
	b.Run("token", func(b *testing.B) {
		for b.Loop() {
			Token([]byte("a channel of some length"))
		}
	})
}
