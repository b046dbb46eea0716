package store

import (
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// goldenRecords are records as version 1 writes them; they must be readable for ever.
var goldenRecords = []struct{ name, value, want string }{
	{
		"row",
		"010100050000000004000000640000000000000001ca9a3b000000000000000000000000e8030000000000006d6f7665720d1647849998" +
			"2ae4e0cf1080000001108000000000000002270a000000000000003ca40804030b000000000000000178",
		"100/100+4 kind=1 ts=11 key=[00000001] ck=[0000000000000002] body:0=78",
	},
	{
		"row deletion",
		"010100050100000004000000c80000000000000001ca9a3b000000000000000000000000e8030000000000006d6f7665720d1647849998" +
			"2ae4e0cf1080000001108000000000000003280c00000000000000e807",
		"100/99+4 kind=1 ts=12 key=[00000001] ck=[0000000000000003]",
	},
	{
		"range",
		"0103000502000000040000002c0100000000000001ca9a3b000000000d00000000000000e8030000000000006d6f7665720d1747849998" +
			"2ae4e0cf1080000001108000000000000003ff108000000000000009ff",
		"100/98+4 kind=3 ts=13 key=[00000001] ck=[] from [0000000000000003] false to [0000000000000009] true",
	},
	{
		"partition",
		"010200050300000004000000900100000000000001ca9a3b000000000e00000000000000e8030000000000006d6f7665720d0d47849998" +
			"2ae4e0cf1080000001280e00000000000000e807",
		"100/97+4 kind=2 ts=14 key=[00000001] ck=[]",
	},
	{
		"truncation",
		"01040100000000000100000000000000000000000500000000000000070000000000000006000000000000000000",
		"100/100+1 kind=4 ts=7",
	},
}

// recordsToPin are records of every kind and their places.
func recordsToPin(t testing.TB) (names []string, values [][]byte) {
	e := openEnv(t, Options{ManualBackground: true})
	b := e.s.NewBatch(1000)
	b.SetOrigin("mover")
	r := b.Row(e.tab, e.key(1), [][]byte{be8(2)})
	r.Marker(10, 60)
	r.Set(e.tab.Columns["body"], 11, 0, []byte("x"))
	r = b.Row(e.tab, e.key(1), [][]byte{be8(3)})
	r.Delete(12)
	b.DeleteRange(e.tab, e.key(1), Slice{Start: past(3), End: from(9)}, 13)
	b.DeletePartition(e.tab, e.key(1), 14)
	b.finishRow()
	h := feedHeader{size: uint32(len(b.ops)), written: 1_000_000_001, now: 1000, origin: b.origin}
	for i := range b.ops {
		h.place, h.total = uint32(i), int64(100*(i+1))
		names = append(names, []string{"row", "row deletion", "range", "partition"}[i])
		values = append(values, b.appendRecord(nil, &h, &b.ops[i]))
	}
	b.Discard()
	h = feedHeader{size: 1, written: 5, now: 6, flags: feedReplayed}
	return append(names, "truncation"), append(values, append(h.append(nil, FeedTruncate, 7), 0, 0))
}

// TestFeedRecordFormat pins the bytes of a record.
func TestFeedRecordFormat(t *testing.T) {
	e := openEnv(t, Options{ManualBackground: true})
	names, values := recordsToPin(t)
	for i, g := range goldenRecords {
		if i >= len(names) || names[i] != g.name {
			t.Fatalf("golden record %d is %s", i, g.name)
		}
		if got := hex.EncodeToString(values[i]); got != g.value {
			t.Errorf("%s is written as\n%s, not\n%s", g.name, got, g.value)
		}
		v, err := hex.DecodeString(g.value)
		if err != nil {
			t.Fatal(err)
		}
		var r FeedRecord
		if err := r.decode(e.tab, 100, v); err != nil {
			t.Fatalf("%s: %v", g.name, err)
		}
		got, err := feedLine(&r)
		if err != nil {
			t.Fatalf("%s: %v", g.name, err)
		}
		if d := cmp.Diff(g.want, got); d != "" {
			t.Errorf("%s: %s", g.name, d)
		}
	}
	if len(goldenRecords) != len(names) {
		t.Errorf("%d golden records for %d", len(goldenRecords), len(names))
	}
}

// FuzzFeedRecord: bytes that are no record are refused, and what is accepted can be looked at.
func FuzzFeedRecord(f *testing.F) {
	for _, g := range goldenRecords {
		v, err := hex.DecodeString(g.value)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(v)
	}
	tab := testTable(7, true)
	f.Fuzz(func(_ *testing.T, v []byte) {
		var r FeedRecord
		if r.decode(tab, 1, v) == nil {
			_, _ = feedLine(&r)
			r.Marker()
			r.Deletion()
		}
	})
}
