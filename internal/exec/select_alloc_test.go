package exec

import (
	"context"
	"fmt"
	"testing"

	"varve/internal/cqlwire"
)

// chatEngine has one channel of messages, as a page read meets it.
func chatEngine(t testing.TB) *testEngine {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE msg (channel int, at timestamp, id bigint, body text, sender bigint, "+
		"PRIMARY KEY (channel, at, id)) WITH CLUSTERING ORDER BY (at DESC, id DESC)")
	for i := range 200 {
		te.exec(t, fmt.Sprintf("INSERT INTO msg (channel, at, id, body, sender) VALUES (1, %d, %d, 'a message of some words', 7)",
			1_700_000_000_000+i*1000, i))
	}
	return te
}

func (te *testEngine) prepared(t testing.TB, text string) *Prepared {
	ps, err := te.Prepare(context.Background(), te.session, text, "")
	if err != nil {
		t.Fatal(err)
	}
	return ps
}

func bigValue(v int64) cqlwire.Value { return cqlwire.Value{Bytes: bigintBytes(v)} }

func intValue(v int32) cqlwire.Value { return cqlwire.Value{Bytes: intBytes(v)} }

// read runs a prepared SELECT and gives its buffer back.
func (te *testEngine) read(t testing.TB, ps *Prepared, p *Params, want int) {
	res, err := te.Execute(context.Background(), te.session, ps, p)
	if err != nil {
		t.Fatal(err)
	}
	if res.Count != want {
		t.Fatalf("got %d rows, want %d", res.Count, want)
	}
	res.Release()
}

// TestReadAllocations keeps the two reads that chat stores live on from
// allocating per row or per cell.
func TestReadAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations are not counted under the race detector")
	}
	te := chatEngine(t)
	for _, c := range []struct {
		name, text string
		values     []cqlwire.Value
		rows       int
		most       float64
	}{
		{
			"point", "SELECT body, sender FROM msg WHERE channel = ? AND at = ? AND id = ?",
			[]cqlwire.Value{intValue(1), bigValue(1_700_000_000_000), bigValue(0)},
			1, 4,
		},
		{
			"page", "SELECT at, id, body, sender FROM msg WHERE channel = ? LIMIT 50",
			[]cqlwire.Value{intValue(1)},
			50, 4,
		},
		{
			"page before", "SELECT at, id, body, sender FROM msg WHERE channel = ? AND at < ? LIMIT 50",
			[]cqlwire.Value{intValue(1), bigValue(1_700_000_150_000)},
			50, 4,
		},
	} {
		ps := te.prepared(t, c.text)
		p := &Params{Consistency: cqlwire.LocalOne, Values: c.values, PageSize: 5000}
		if n := testing.AllocsPerRun(200, func() { te.read(t, ps, p, c.rows) }); n > c.most {
			t.Errorf("%s: %v allocations a read, want at most %v", c.name, n, c.most)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	te := chatEngine(b)
	for _, c := range []struct {
		name, text string
		values     []cqlwire.Value
		rows       int
	}{
		{
			"point", "SELECT body, sender FROM msg WHERE channel = ? AND at = ? AND id = ?",
			[]cqlwire.Value{intValue(1), bigValue(1_700_000_000_000), bigValue(0)},
			1,
		},
		{
			"page", "SELECT at, id, body, sender FROM msg WHERE channel = ? LIMIT 50",
			[]cqlwire.Value{intValue(1)},
			50,
		},
	} {
		b.Run(c.name, func(b *testing.B) {
			ps := te.prepared(b, c.text)
			p := &Params{Consistency: cqlwire.LocalOne, Values: c.values, PageSize: 5000}
			b.ReportAllocs()
			for b.Loop() {
				te.read(b, ps, p, c.rows)
			}
		})
	}
}
