package cqlwire

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// crc24Bits is the definition, bit by bit.
func crc24Bits(b []byte) uint32 {
	c := uint32(crc24Init)
	for _, x := range b {
		c ^= uint32(x) << 16
		for range 8 {
			c <<= 1
			if c&0x1000000 != 0 {
				c ^= 0x1000000 | crc24Poly
			}
		}
	}
	return c
}

func TestCRC24(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "b")
		if got, want := crc24(b), crc24Bits(b); got != want {
			t.Fatalf("crc24(%x) = %06x, want %06x", b, got, want)
		}
	})
}

// unsegment reads a run of segments back into frames.
func unsegment(t *testing.T, b []byte, lz4 bool) (frames []byte, segments int) {
	t.Helper()
	size := SegmentHeaderSize
	if lz4 {
		size = SegmentHeaderSizeLZ4
	}
	for len(b) > 0 {
		h, err := DecodeSegmentHeader(b[:size], lz4)
		if err != nil {
			t.Fatal(err)
		}
		payload, trailer := b[size:size+h.Payload], b[size+h.Payload:size+h.Payload+SegmentTrailerSize]
		if err := CheckSegmentPayload(payload, trailer); err != nil {
			t.Fatal(err)
		}
		if h.Plain > 0 {
			frames, err = DecompressSegment(frames, payload, h)
			if err != nil {
				t.Fatal(err)
			}
		} else {
			frames = append(frames, payload...)
		}
		b = b[size+h.Payload+SegmentTrailerSize:]
		segments++
	}
	return frames, segments
}

func frameOf(body []byte) []byte {
	b := BeginResponse(nil, V5, 0, 1, OpResult)
	b = append(b, body...)
	EndFrame(b, 0)
	return b
}

func TestSegments(t *testing.T) {
	random := make([]byte, 3*MaxSegmentPayload)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(random)
	for _, c := range []struct {
		name   string
		bodies [][]byte
		want   int
	}{
		{"one", [][]byte{[]byte("x")}, 1},
		{"several share one", [][]byte{[]byte("x"), bytes.Repeat([]byte("y"), 1000), nil, random[:2000]}, 1},
		{"full to the byte", [][]byte{random[:MaxSegmentPayload-HeaderSize]}, 1},
		{"one byte too many", [][]byte{random[:MaxSegmentPayload-HeaderSize+1]}, 2},
		{"large between small", [][]byte{nil, random, nil, nil}, 1 + 4 + 1},
		{"zeros", [][]byte{make([]byte, 100_000)}, 1},
		{"two that do not fit together", [][]byte{make([]byte, 100_000), make([]byte, 100_000)}, 2},
	} {
		for _, lz4 := range []bool{false, true} {
			var frames []byte
			for _, body := range c.bodies {
				frames = append(frames, frameOf(body)...)
			}
			got, n := unsegment(t, AppendSegments(nil, frames, lz4), lz4)
			if !bytes.Equal(got, frames) {
				t.Errorf("%s (lz4 %v): frames differ", c.name, lz4)
			}
			if n != c.want {
				t.Errorf("%s (lz4 %v): %d segments, want %d", c.name, lz4, n, c.want)
			}
		}
	}
}

func TestSegmentCorruption(t *testing.T) {
	for _, lz4 := range []bool{false, true} {
		size := SegmentHeaderSize
		if lz4 {
			size = SegmentHeaderSizeLZ4
		}
		seg := AppendSegment(nil, bytes.Repeat([]byte("abc"), 200), true, lz4)
		for bit := range len(seg) * 8 {
			bad := bytes.Clone(seg)
			bad[bit/8] ^= 1 << (bit % 8)
			_, err := DecodeSegmentHeader(bad, lz4)
			if bit < size*8 {
				if err == nil {
					t.Fatalf("flipped header bit %d not seen", bit)
				}
				continue
			}
			n := len(bad) - SegmentTrailerSize
			if CheckSegmentPayload(bad[size:n], bad[n:]) == nil {
				t.Fatalf("flipped bit %d not seen", bit)
			}
		}
	}
}

func TestCompressBody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := bytes.Repeat(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "body"), rapid.IntRange(1, 20).Draw(t, "times"))
		c := rapid.SampledFrom([]Compression{CompressionNone, CompressionLZ4, CompressionSnappy}).Draw(t, "algorithm")
		packed := body
		if c != CompressionNone {
			packed = CompressBody([]byte("pre"), body, c)[3:]
		}
		got, err := DecompressBody([]byte("pre"), packed, c, 1<<20)
		if err != nil || !bytes.Equal(got[3:], body) {
			t.Fatalf("%s: %v", c, err)
		}
	})
}

// TestBombs declares far more than is sent.
func TestBombs(t *testing.T) {
	if _, err := DecompressBody(nil, []byte{0x7F, 0, 0, 0, 1, 2, 3}, CompressionLZ4, 16<<20); err == nil {
		t.Error("lz4 body beyond the limit accepted")
	}
	if got, err := DecompressBody(nil, []byte{0, 0xF0, 0, 0, 1, 2, 3}, CompressionLZ4, 16<<20); err == nil || cap(got) > 1<<12 {
		t.Errorf("lz4 body of impossible ratio: %d bytes allocated, %v", cap(got), err)
	}
	if got, err := DecompressBody(nil, []byte{0x80, 0x80, 0x80, 0x04, 1}, CompressionSnappy, 16<<20); err == nil || cap(got) > 1<<12 {
		t.Errorf("snappy body of impossible ratio: %d bytes allocated, %v", cap(got), err)
	}
}

func TestLiteralBlock(t *testing.T) {
	for _, n := range []int{1, 14, 15, 16, 269, 270, 271, 5000} {
		src := make([]byte, n)
		rng := rand.NewChaCha8([32]byte{2})
		_, _ = rng.Read(src)
		dst := make([]byte, n+n/255+16)
		got, err := decompressLZ4(nil, dst[:lz4Literals(dst, src)], n)
		if err != nil || !bytes.Equal(got, src) {
			t.Errorf("%d literals: %v", n, err)
		}
	}
}
