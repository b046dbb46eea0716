package cqlwire

import (
	"encoding/binary"
	"errors"

	"github.com/golang/snappy"
	"github.com/pierrec/lz4/v4"
)

// Compression is a compression algorithm agreed on in STARTUP.
type Compression uint8

// The algorithms. Version 5 has LZ4 alone, on segments.
const (
	CompressionNone Compression = iota
	CompressionLZ4
	CompressionSnappy
)

// String returns the name used in STARTUP.
func (c Compression) String() string {
	switch c {
	case CompressionLZ4:
		return "lz4"
	case CompressionSnappy:
		return "snappy"
	}
	return "none"
}

// lz4MaxRatio bounds how much an LZ4 block can expand: one byte of a match's
// length stands for at most 255.
const lz4MaxRatio = 255

// snappyMaxRatio likewise: the shortest copy of 64 bytes takes two.
const snappyMaxRatio = 64

var errCompressed = errors.New("malformed compressed data")

// CompressBody appends a frame body (versions 3 and 4) compressed with c.
func CompressBody(dst, body []byte, c Compression) []byte {
	if c == CompressionSnappy {
		start := len(dst)
		n := snappy.MaxEncodedLen(len(body))
		dst = grow(dst, n)
		return dst[:start+len(snappy.Encode(dst[start:start+n], body))]
	}
	dst = AppendInt(dst, int32(len(body)))
	return appendLZ4(dst, body)
}

// DecompressBody appends the plain form of a frame body to dst. A body that
// says it is longer than max bytes is refused before anything is allocated.
func DecompressBody(dst, body []byte, c Compression, max int) ([]byte, error) {
	switch c {
	case CompressionLZ4:
		if len(body) < 4 {
			return dst, errCompressed
		}
		n := binary.BigEndian.Uint32(body)
		if n == 0 {
			return dst, nil
		}
		if uint64(n) > uint64(max) {
			return dst, errCompressed
		}
		return decompressLZ4(dst, body[4:], int(n))
	case CompressionSnappy:
		n, err := snappy.DecodedLen(body)
		if err != nil || n > max || n > len(body)*snappyMaxRatio {
			return dst, errCompressed
		}
		start := len(dst)
		dst = grow(dst, n)[:start+n]
		if _, err := snappy.Decode(dst[start:], body); err != nil {
			return dst[:start], errCompressed
		}
		return dst, nil
	}
	return append(dst, body...), nil
}

func appendLZ4(dst, src []byte) []byte {
	if len(src) == 0 {
		return append(dst, 0) // an LZ4 block of no bytes: one empty token
	}
	start := len(dst)
	bound := lz4.CompressBlockBound(len(src))
	dst = grow(dst, bound)
	n, err := lz4.CompressBlock(src, dst[start:start+bound], nil)
	if err != nil || n == 0 {
		// With a destination of the bound's size only literals remain to be
		// written, which this form always can.
		n = lz4Literals(dst[start:start+bound], src)
	}
	return dst[:start+n]
}

// lz4Literals writes src as an LZ4 block of one literal run and returns its length.
func lz4Literals(dst, src []byte) int {
	i := 1
	if len(src) < 15 {
		dst[0] = byte(len(src) << 4)
	} else {
		dst[0] = 0xF0
		n := len(src) - 15
		for ; n >= 255; n -= 255 {
			dst[i] = 255
			i++
		}
		dst[i] = byte(n)
		i++
	}
	return i + copy(dst[i:], src)
}

func decompressLZ4(dst, src []byte, n int) ([]byte, error) {
	if n > len(src)*lz4MaxRatio {
		return dst, errCompressed
	}
	start := len(dst)
	dst = grow(dst, n)[:start+n]
	m, err := lz4.UncompressBlock(src, dst[start:])
	if err != nil || m != n {
		return dst[:start], errCompressed
	}
	return dst, nil
}

// grow returns dst with room for n more bytes; its length is unchanged.
func grow(dst []byte, n int) []byte {
	if cap(dst)-len(dst) >= n {
		return dst
	}
	g := make([]byte, len(dst), max(len(dst)+n, 2*cap(dst)))
	copy(g, dst)
	return g
}
