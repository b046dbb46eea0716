package cqltype

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// EncodeInt returns v as an int, date-free 4-byte value.
func EncodeInt(v int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(v)) }

// DecodeInt reads an int; empty and malformed values read as 0.
func DecodeInt(b []byte) int32 {
	if len(b) != 4 {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b))
}

// EncodeBigint returns v as a bigint, counter, time or timestamp value.
func EncodeBigint(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

// DecodeBigint reads any 8-byte integer value (bigint, counter, time,
// timestamp); empty and malformed values read as 0.
func DecodeBigint(b []byte) int64 {
	if len(b) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

// EncodeSmallint returns v as a smallint value.
func EncodeSmallint(v int16) []byte { return binary.BigEndian.AppendUint16(nil, uint16(v)) }

// DecodeSmallint reads a smallint; malformed values read as 0.
func DecodeSmallint(b []byte) int16 {
	if len(b) != 2 {
		return 0
	}
	return int16(binary.BigEndian.Uint16(b))
}

// EncodeTinyint returns v as a tinyint value.
func EncodeTinyint(v int8) []byte { return []byte{byte(v)} }

// DecodeTinyint reads a tinyint; malformed values read as 0.
func DecodeTinyint(b []byte) int8 {
	if len(b) != 1 {
		return 0
	}
	return int8(b[0])
}

// EncodeBool returns v as a boolean value.
func EncodeBool(v bool) []byte {
	if v {
		return []byte{1}
	}
	return []byte{0}
}

// DecodeBool reads a boolean: any byte but 0 is true, empty is false.
func DecodeBool(b []byte) bool { return len(b) > 0 && b[0] != 0 }

// EncodeDouble returns v as a double value.
func EncodeDouble(v float64) []byte {
	return binary.BigEndian.AppendUint64(nil, math.Float64bits(v))
}

// DecodeDouble reads a double; empty and malformed values read as 0.
func DecodeDouble(b []byte) float64 { return math.Float64frombits(uint64(DecodeBigint(b))) }

// EncodeFloat returns v as a float value.
func EncodeFloat(v float32) []byte {
	return binary.BigEndian.AppendUint32(nil, math.Float32bits(v))
}

// DecodeFloat reads a float; empty and malformed values read as 0.
func DecodeFloat(b []byte) float32 { return math.Float32frombits(uint32(DecodeInt(b))) }

// appendUvint appends an unsigned vint of protocol v5 section 3: the count of
// leading one bits of the first byte is the number of bytes that follow.
func appendUvint(dst []byte, v uint64) []byte {
	extra := (bits.Len64(v|1) - 1) / 7
	if extra >= 8 {
		return binary.BigEndian.AppendUint64(append(dst, 0xFF), v)
	}
	first := ^byte(0xFF >> extra)
	dst = append(dst, first|byte(v>>(8*extra)))
	for i := extra - 1; i >= 0; i-- {
		dst = append(dst, byte(v>>(8*i)))
	}
	return dst
}

// readUvint reads an unsigned vint; n is 0 where b ends too early.
func readUvint(b []byte) (v uint64, n int) {
	if len(b) == 0 {
		return 0, 0
	}
	extra := bits.LeadingZeros8(^b[0])
	if len(b) <= extra {
		return 0, 0
	}
	v = uint64(b[0] & (0xFF >> extra))
	for _, c := range b[1 : 1+extra] {
		v = v<<8 | uint64(c)
	}
	return v, 1 + extra
}

// appendVint appends a signed (zigzag) vint.
func appendVint(dst []byte, v int64) []byte { return appendUvint(dst, uint64(v<<1^v>>63)) }

// readVint reads a signed (zigzag) vint; n is 0 where b ends too early.
func readVint(b []byte) (v int64, n int) {
	u, n := readUvint(b)
	return int64(u>>1) ^ -int64(u&1), n
}
