package cqlwire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// MaxSegmentPayload is the longest payload of a version 5 segment in bytes.
const MaxSegmentPayload = 1<<17 - 1

// Sizes of a segment's parts in bytes, CRCs included.
const (
	SegmentHeaderSize    = 6 // plain
	SegmentHeaderSizeLZ4 = 8 // where LZ4 was agreed on
	SegmentTrailerSize   = 4
)

// Segment errors. A broken header loses the boundary of what follows, so the
// connection cannot go on; neither can it with a broken payload here.
var (
	ErrSegmentHeader  = errors.New("invalid segment header CRC")
	ErrSegmentPayload = errors.New("invalid segment payload CRC")
)

// SegmentHeader is a decoded segment header.
type SegmentHeader struct {
	Payload       int  // length on the wire, without the trailer
	Plain         int  // length when decompressed; 0: not compressed (or no LZ4 agreed on)
	SelfContained bool // holds whole frames; otherwise one part of a large frame
}

// DecodeSegmentHeader reads a header of SegmentHeaderSize (or, with lz4,
// SegmentHeaderSizeLZ4) bytes, which must be there.
func DecodeSegmentHeader(b []byte, lz4 bool) (SegmentHeader, error) {
	if !lz4 {
		h := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
		if crc24(b[:3]) != uint32(b[3])|uint32(b[4])<<8|uint32(b[5])<<16 {
			return SegmentHeader{}, ErrSegmentHeader
		}
		return SegmentHeader{Payload: int(h & MaxSegmentPayload), SelfContained: h&(1<<17) != 0}, nil
	}
	h := binary.LittleEndian.Uint64(b)
	if crc24(b[:5]) != uint32(h>>40) {
		return SegmentHeader{}, ErrSegmentHeader
	}
	return SegmentHeader{
		Payload:       int(h & MaxSegmentPayload),
		Plain:         int(h >> 17 & MaxSegmentPayload),
		SelfContained: h&(1<<34) != 0,
	}, nil
}

// CheckSegmentPayload verifies a payload against the trailer that follows it.
func CheckSegmentPayload(payload, trailer []byte) error {
	if payloadCRC(payload) != binary.LittleEndian.Uint32(trailer) {
		return ErrSegmentPayload
	}
	return nil
}

// DecompressSegment appends the plain form of an LZ4 segment's payload.
func DecompressSegment(dst, payload []byte, h SegmentHeader) ([]byte, error) {
	dst, err := decompressLZ4(dst, payload, h.Plain)
	if err != nil {
		return dst, fmt.Errorf("decompress segment: %w", err)
	}
	return dst, nil
}

// AppendSegment writes one segment. The payload is at most MaxSegmentPayload
// bytes. With lz4, one that does not shrink is sent as it is, with 0 for its
// plain length, as Cassandra and the drivers do (the specification's text has
// the two lengths the other way round).
func AppendSegment(dst, payload []byte, selfContained, lz4 bool) []byte {
	if len(payload) > MaxSegmentPayload {
		panic("BUG: segment payload too long")
	}
	start := len(dst)
	if !lz4 {
		h := uint32(len(payload))
		if selfContained {
			h |= 1 << 17
		}
		dst = append(dst, byte(h), byte(h>>8), byte(h>>16))
		c := crc24(dst[start:])
		dst = append(dst, byte(c), byte(c>>8), byte(c>>16))
		dst = append(dst, payload...)
		return binary.LittleEndian.AppendUint32(dst, payloadCRC(payload))
	}
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	body := len(dst)
	h := uint64(len(payload)) << 17
	if len(payload) >= minCompress {
		dst = appendLZ4(dst, payload)
	}
	if n := len(dst) - body; n == 0 || n >= len(payload) {
		dst = append(dst[:body], payload...)
		h = 0
	}
	h |= uint64(len(dst) - body)
	if selfContained {
		h |= 1 << 34
	}
	var hdr [8]byte
	binary.LittleEndian.PutUint64(hdr[:], h)
	binary.LittleEndian.PutUint64(dst[start:], h|uint64(crc24(hdr[:5]))<<40)
	return binary.LittleEndian.AppendUint32(dst, payloadCRC(dst[body:]))
}

// minCompress is the size in bytes below which compressing is not worth its CPU time.
const minCompress = 128

// AppendSegments writes a run of whole frames as segments: as many small
// frames as fit share one, a frame too large for one is spread over several.
func AppendSegments(dst, frames []byte, lz4 bool) []byte {
	for len(frames) > 0 {
		n := segmentRun(frames)
		if n > 0 {
			dst = AppendSegment(dst, frames[:n], true, lz4)
			frames = frames[n:]
			continue
		}
		rest := HeaderSize + int(binary.BigEndian.Uint32(frames[5:]))
		for rest > 0 {
			n = min(rest, MaxSegmentPayload)
			dst = AppendSegment(dst, frames[:n], false, lz4)
			frames, rest = frames[n:], rest-n
		}
	}
	return dst
}

// segmentRun returns the length of the leading whole frames that fit into one segment.
func segmentRun(frames []byte) int {
	n := 0
	for n < len(frames) {
		f := HeaderSize + int(binary.BigEndian.Uint32(frames[n+5:]))
		if n+f > MaxSegmentPayload {
			break
		}
		n += f
	}
	return n
}
