package store

import (
	"context"
	"fmt"
	"testing"
)

// mixedEnv holds n rows in partition 1 of which all but every nth are deleted, one by one.
func mixedEnv(tb testing.TB, n, nth int) *env {
	e := hotEnv(tb, n)
	if err := e.s.Compact(context.Background(), e.tab); err != nil {
		tb.Fatal(err)
	}
	e.killBut(n, nth)
	return e
}

// killBut deletes all rows but every nth of the first n.
func (e *env) killBut(n, nth int) {
	for c := 0; c < n; {
		ba := e.s.NewBatch(e.now)
		for end := min(n, c+1000); c < end; c++ {
			if c%nth != 0 {
				ba.Row(e.tab, e.key(1), [][]byte{be8(c)}).Delete(11)
			}
		}
		e.apply(ba)
	}
}

// BenchmarkMixed is a page of 50 over finely mixed live and dead rows, walked
// as it is right after the deletes, flushed, and merged. ns/dead-row is what a
// dead row adds to a page without any.
func BenchmarkMixed(b *testing.B) {
	const n = 200_000
	for _, nth := range []int{1, 10, 25, 33, 50, 100} {
		for _, state := range []string{"memtable", "flushed", "compacted", "spans"} {
			b.Run(fmt.Sprintf("every=%d/%s", nth, state), func(b *testing.B) {
				e := mixedEnv(b, n, nth)
				ctx := context.Background()
				var err error
				switch state {
				case "flushed":
					err = e.s.Flush(ctx, nil)
				case "compacted":
					err = e.s.shards[0].compactRange(ctx, []byte{0}, []byte{0xff})
				case "spans":
					err = e.s.shards[0].compactRange(ctx, []byte{0}, []byte{0xff})
					e.background()
				}
				if err != nil {
					b.Fatal(err)
				}
				h := e.reader()
				at := 0
				for b.Loop() {
					at = (at + 7919) % (n - 50*nth)
					if h.read(RowQuery{Slices: []Slice{{from(at), from(n)}}}, 50) != 50 {
						b.Fatal("no page")
					}
				}
				b.ReportMetric(float64(h.st.Walked)/float64(b.N), "walked/op")
				b.ReportMetric(float64(h.st.Jumped)/float64(b.N), "jumped/op")
			})
		}
	}
}
