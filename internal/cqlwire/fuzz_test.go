package cqlwire

import "testing"

// addSeeds gives a fuzz target every sample message of every version.
func addSeeds(f *testing.F) {
	for _, v := range versions {
		for _, m := range sampleMessages(v) {
			f.Add(byte(v), m.encode(v))
		}
	}
}

// fuzzMessage checks that what can be decoded encodes to something that decodes again.
func fuzzMessage(f *testing.F, check func(t *testing.T, v Version, body []byte)) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, version byte, body []byte) {
		check(t, MinVersion+Version(version%3), body)
	})
}

func again(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("what was decoded and encoded is refused: %v", err)
	}
}

func FuzzQuery(f *testing.F) {
	fuzzMessage(f, func(t *testing.T, v Version, body []byte) {
		var m, n Query
		if m.Decode(v, body) == nil {
			again(t, n.Decode(v, m.Append(nil, v)))
		}
	})
}

func FuzzExecute(f *testing.F) {
	fuzzMessage(f, func(t *testing.T, v Version, body []byte) {
		var m, n Execute
		if m.Decode(v, body) == nil {
			again(t, n.Decode(v, m.Append(nil, v)))
		}
	})
}

func FuzzBatch(f *testing.F) {
	fuzzMessage(f, func(t *testing.T, v Version, body []byte) {
		var m, n Batch
		if m.Decode(v, body) == nil {
			again(t, n.Decode(v, m.Append(nil, v)))
		}
	})
}

func FuzzPrepare(f *testing.F) {
	fuzzMessage(f, func(t *testing.T, v Version, body []byte) {
		var m, n Prepare
		if m.Decode(v, body) == nil {
			again(t, n.Decode(v, m.Append(nil, v)))
		}
	})
}

func FuzzResult(f *testing.F) {
	fuzzMessage(f, func(t *testing.T, v Version, body []byte) {
		var m Result
		if m.Decode(v, body) != nil {
			return
		}
		data := m.Rows.Data
		var cells [][]byte
		for range min(m.Rows.Count, len(data)) {
			var err error
			if cells, data, err = m.Rows.Row(cells[:0], data); err != nil {
				return
			}
		}
	})
}

func FuzzError(f *testing.F) {
	fuzzMessage(f, func(t *testing.T, v Version, body []byte) {
		var m, n Error
		if m.Decode(v, body) == nil {
			again(t, n.Decode(v, m.Append(nil, v)))
		}
	})
}

func FuzzSmallMessages(f *testing.F) {
	fuzzMessage(f, func(_ *testing.T, _ Version, body []byte) {
		_ = (&Startup{}).Decode(body)
		_ = (&Supported{}).Decode(body)
		_ = (&Authenticate{}).Decode(body)
		_ = (&AuthToken{}).Decode(body)
		_ = (&Register{}).Decode(body)
		_ = (&Event{}).Decode(body)
		_, _, _ = DecodePlain(body)
		_, _, _ = CutPayload(body, "k")
		for flags := range Flags(16) {
			_, _ = (&Extras{}).Decode(flags, body)
		}
		if h, _, _, ok := SplitFrame(body); ok {
			_ = h.CheckRequest()
		}
	})
}

func FuzzSegment(f *testing.F) {
	f.Add(AppendSegment(nil, []byte("hello"), true, false), false)
	f.Add(AppendSegment(nil, make([]byte, 1000), true, true), true)
	f.Fuzz(func(_ *testing.T, b []byte, lz4 bool) {
		if len(b) < SegmentHeaderSizeLZ4 {
			return
		}
		h, err := DecodeSegmentHeader(b, lz4)
		if err == nil && h.Plain > 0 {
			_, _ = DecompressSegment(nil, b[SegmentHeaderSizeLZ4:], h)
		}
	})
}

func FuzzDecompressBody(f *testing.F) {
	f.Add(CompressBody(nil, make([]byte, 1000), CompressionLZ4), true)
	f.Add(CompressBody(nil, make([]byte, 1000), CompressionSnappy), false)
	f.Fuzz(func(t *testing.T, b []byte, lz4 bool) {
		c := CompressionSnappy
		if lz4 {
			c = CompressionLZ4
		}
		if got, err := DecompressBody(nil, b, c, 1<<16); err == nil && len(got) > 1<<16 {
			t.Fatal("longer than allowed")
		}
	})
}
