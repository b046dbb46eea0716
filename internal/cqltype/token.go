package cqltype

import (
	"encoding/binary"
	"math"
	"math/bits"
)

const (
	murmurC1 = 0x87c37b91114253d5
	murmurC2 = 0x4cf5ad432745937f
)

// Token is the Murmur3Partitioner's token of a serialized partition key:
// Cassandra's variant of murmur3 x64_128, which takes the bytes after the last
// whole block as signed. It is math.MinInt64 for the empty key only, which no
// partition can have.
func Token(key []byte) int64 {
	if len(key) == 0 {
		return math.MinInt64
	}
	var h1, h2 uint64
	rest := key
	for ; len(rest) >= 16; rest = rest[16:] {
		h1 ^= mixFirst(binary.LittleEndian.Uint64(rest))
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
		h2 ^= mixSecond(binary.LittleEndian.Uint64(rest[8:]))
		h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495ab5
	}
	if len(rest) > 8 {
		h2 ^= mixSecond(signedTail(rest[8:]))
	}
	if len(rest) > 0 {
		h1 ^= mixFirst(signedTail(rest[:min(8, len(rest))]))
	}
	h1 ^= uint64(len(key))
	h2 ^= uint64(len(key))
	h1 += h2
	h2 += h1
	token := int64(finalMix(h1) + finalMix(h2))
	if token == math.MinInt64 {
		return math.MaxInt64
	}
	return token
}

func signedTail(b []byte) uint64 {
	var k uint64
	for i, c := range b {
		k ^= uint64(int64(int8(c))) << (8 * i)
	}
	return k
}

func mixFirst(k uint64) uint64 { return bits.RotateLeft64(k*murmurC1, 31) * murmurC2 }

func mixSecond(k uint64) uint64 { return bits.RotateLeft64(k*murmurC2, 33) * murmurC1 }

func finalMix(k uint64) uint64 {
	k ^= k >> 33
	k *= 0xff51afd7ed558ccd
	k ^= k >> 33
	k *= 0xc4ceb9fe1a85ec53
	return k ^ k>>33
}
