package cqlwire

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

func TestScanner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 50), rapid.IntRange(0, 300_000)), 1, 6).Draw(t, "sizes")
		segmented := rapid.Bool().Draw(t, "segmented")
		lz4 := segmented && rapid.Bool().Draw(t, "lz4")
		var stream []byte
		for i, n := range sizes {
			stream = append(stream, frameOf(bytes.Repeat([]byte{byte(i)}, n))...)
		}
		if segmented {
			stream = AppendSegments(nil, stream, lz4)
		}
		var r io.Reader = bytes.NewReader(stream)
		if rapid.Bool().Draw(t, "halves") {
			r = iotest.HalfReader(r)
		}
		s := NewScanner(r, 1<<20)
		if segmented {
			s.SetSegmented(lz4)
		}
		for i, n := range sizes {
			h, body, err := s.Next()
			if err != nil || h.Opcode != OpResult || !bytes.Equal(body, bytes.Repeat([]byte{byte(i)}, n)) {
				t.Fatalf("frame %d of %d bytes: %+v, %d bytes, %v", i, n, h, len(body), err)
			}
		}
		if _, _, err := s.Next(); !errors.Is(err, io.EOF) {
			t.Fatalf("at the end: %v", err)
		}
	})
}

func TestScannerRefuses(t *testing.T) {
	whole := frameOf(make([]byte, 100))
	if _, _, err := NewScanner(bytes.NewReader(whole), 99).Next(); err == nil {
		t.Error("frame over the limit accepted")
	}
	if _, _, err := NewScanner(bytes.NewReader(whole[:50]), 100).Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut frame: %v", err)
	}
	for name, stream := range map[string][]byte{
		"interrupted large frame": append(AppendSegment(nil, whole[:20], false, false), AppendSegment(nil, whole, true, false)...),
		"broken payload":          append(AppendSegment(nil, whole, true, false)[:50], make([]byte, 100)...),
		"cut segment":             AppendSegment(nil, whole, true, false)[:60],
	} {
		s := NewScanner(bytes.NewReader(stream), 1000)
		s.SetSegmented(false)
		if _, _, err := s.Next(); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzScanner(f *testing.F) {
	f.Add(frameOf(make([]byte, 10)), false, false)
	f.Add(AppendSegments(nil, frameOf(make([]byte, 1000)), true), true, true)
	f.Fuzz(func(_ *testing.T, b []byte, segmented, lz4 bool) {
		s := NewScanner(bytes.NewReader(b), 1<<16)
		if segmented {
			s.SetSegmented(lz4)
		}
		for range 100 {
			if _, _, err := s.Next(); err != nil {
				return
			}
		}
	})
}
