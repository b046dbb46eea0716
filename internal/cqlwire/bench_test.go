package cqlwire

import (
	"testing"

	"varve/internal/cqltype"
)

func executeBody(v Version) []byte {
	m := Execute{
		ID: []byte("0123456789abcdef"), ResultMetadataID: []byte("fedcba9876543210"),
		Params: QueryParams{
			Consistency: LocalOne, SkipMetadata: true, PageSize: 5000, HasTimestamp: true, Timestamp: 1,
			Values: []Value{
				{Bytes: make([]byte, 8)},
				{Bytes: make([]byte, 8)},
				{Bytes: make([]byte, 16)},
				{Bytes: make([]byte, 4)},
				{Bytes: make([]byte, 60)},
			},
		},
	}
	return m.Append(nil, v)
}

func chatColumns() []ColumnSpec {
	names := []string{"channel_id", "sent_at", "message_id", "sender", "body"}
	types := []*cqltype.Type{cqltype.Bigint, cqltype.Timestamp, cqltype.Timeuuid, cqltype.Int, cqltype.Text}
	columns := make([]ColumnSpec, len(names))
	for i := range columns {
		columns[i] = ColumnSpec{Keyspace: "chat", Table: "messages_by_channel", Name: names[i], Type: types[i]}
	}
	return columns
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	body := executeBody(V5)
	var m Execute
	if err := m.Decode(V5, body); err != nil {
		t.Fatal(err)
	}
	header := RowsHeader{Columns: chatColumns(), PagingState: []byte("state"), Count: 50}
	dst := make([]byte, 0, 1<<20)
	payload := make([]byte, 5000)
	err := &Error{Code: ErrInvalid, Message: "no"}
	for name, f := range map[string]func(){
		"execute decode":    func() { _ = m.Decode(V5, body) },
		"rows header":       func() { dst = AppendRowsHeader(dst[:0], V5, &header) },
		"segment":           func() { dst = AppendSegment(dst[:0], payload, true, false) },
		"error":             func() { dst = err.Append(dst[:0], V5) },
		"void response":     func() { dst = AppendVoid(BeginResponse(dst[:0], V5, 0, 1, OpResult)); EndFrame(dst, 0) },
		"frame header":      func() { h := DecodeHeader(requestSample); _ = h.CheckRequest() },
		"segments of small": func() { dst = AppendSegments(dst[:0], frameSample, false) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

var requestSample = BeginRequest(nil, V5, 0, 1, OpExecute)

var frameSample = frameOf(make([]byte, 200))

func BenchmarkExecuteDecode(b *testing.B) {
	body := executeBody(V5)
	var m Execute
	b.ReportAllocs()
	for b.Loop() {
		if err := m.Decode(V5, body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRowsHeader(b *testing.B) {
	header := RowsHeader{Columns: chatColumns(), PagingState: []byte("state"), Count: 50}
	dst := make([]byte, 0, 1<<12)
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendRowsHeader(dst[:0], V5, &header)
	}
}

func BenchmarkSegment(b *testing.B) {
	payload := make([]byte, 5385)
	dst := make([]byte, 0, 1<<17)
	b.Run("plain", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dst = AppendSegment(dst[:0], payload, true, false)
		}
	})
	b.Run("lz4", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dst = AppendSegment(dst[:0], payload, true, true)
		}
	})
}
