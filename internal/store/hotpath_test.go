package store

import (
	"context"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"varve/internal/schema"
)

// hotEnv holds n rows in partition 1, flushed, in a store on memory that does not sync.
func hotEnv(tb testing.TB, n int) *env {
	e := openEnv(tb, Options{ManualBackground: true, FS: vfs.NewMem(), Durability: Periodic})
	body := make([]byte, 100)
	for c := 0; c < n; {
		b := e.s.NewBatch(e.now)
		for end := min(n, c+1000); c < end; c++ {
			r := b.Row(e.tab, e.key(1), [][]byte{be8(c)})
			r.Marker(10, 0)
			r.Set(e.tab.Columns["body"], 10, 0, body)
			r.Set(e.tab.Columns["author"], 10, 0, body[:8])
		}
		e.apply(b)
	}
	if err := e.s.Flush(context.Background(), nil); err != nil {
		tb.Fatal(err)
	}
	return e
}

type hotReader struct {
	e            *env
	st           ReadStats
	body, author *schema.Column
	k            Key
}

func (e *env) reader() *hotReader {
	return &hotReader{e: e, body: e.tab.Columns["body"], author: e.tab.Columns["author"], k: e.key(1)}
}

// read goes over up to limit rows.
func (h *hotReader) read(q RowQuery, limit int) (rows int) {
	v := h.e.s.View(ReadOptions{NowSec: h.e.now, Stats: &h.st})
	r := v.Partition(h.e.tab, h.k, q)
	for r.NextPartition() {
		for rows < limit && r.Next() {
			row := r.Row()
			if len(row.Clustering()[0]) == 8 && len(row.Value(h.body)) == 100 && len(row.Value(h.author)) == 8 {
				rows++
			}
		}
	}
	if err := r.Close(); err != nil {
		h.e.t.Fatal(err)
	}
	if err := v.Close(); err != nil {
		h.e.t.Fatal(err)
	}
	return rows
}

// TestHotPathsDoNotAllocate guards inserts, point reads and pages.
func TestHotPathsDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools drop things")
	}
	e := hotEnv(t, 5000)
	h := e.reader()
	point := RowQuery{Slices: []Slice{{from(777), from(777)}}, NoStatic: true}
	page := RowQuery{Reverse: true}
	body := make([]byte, 100)
	clustering := [][]byte{be8(1)}
	ctx := context.Background()
	insert := func() {
		b := e.s.NewBatch(e.now)
		r := b.Row(e.tab, h.k, clustering)
		r.Marker(20, 0)
		r.Set(h.body, 20, 0, body)
		r.Set(h.author, 20, 0, body[:8])
		cm, err := e.s.Apply(ctx, b, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := cm.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	// Everything comes from pools; one allocation is left to chance (a collection empties them).
	for _, c := range []struct {
		name string
		max  float64
		f    func()
	}{
		{"point read", 1, func() {
			if h.read(point, 10) != 1 {
				t.Fatal("no row")
			}
		}},
		{"page of 50", 1, func() {
			if h.read(page, 50) != 50 {
				t.Fatal("no page")
			}
		}},
		{"insert", 1, insert},
		{"insert into a table with a change feed", 1, func() {
			if !e.s.watched.Load() {
				if err := e.s.SetFeed(ctx, e.tab, true); err != nil {
					t.Fatal(err)
				}
			}
			insert()
		}},
	} {
		if got := testing.AllocsPerRun(500, c.f); got > c.max {
			t.Errorf("%s: %.1f allocations, want at most %.0f", c.name, got, c.max)
		} else {
			t.Logf("%s: %.1f allocations", c.name, got)
		}
	}
}

func BenchmarkInsert(b *testing.B) {
	e := hotEnv(b, 1)
	h := e.reader()
	body := make([]byte, 100)
	clustering := [][]byte{be8(0)}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		clustering[0] = append(clustering[0][:0], be8(i)...)
		ba := e.s.NewBatch(e.now)
		r := ba.Row(e.tab, h.k, clustering)
		r.Marker(20, 0)
		r.Set(h.body, 20, 0, body)
		r.Set(h.author, 20, 0, body[:8])
		e.apply(ba)
	}
}

func BenchmarkGet(b *testing.B) {
	e := hotEnv(b, 100000)
	h := e.reader()
	b.ReportAllocs()
	for b.Loop() {
		if h.read(RowQuery{Slices: []Slice{{from(777), from(777)}}, NoStatic: true}, 10) != 1 {
			b.Fatal("no row")
		}
	}
}

func BenchmarkPage(b *testing.B) {
	for _, dead := range []int{0, 1000000} {
		b.Run(fmt.Sprintf("dead=%d", dead), func(b *testing.B) {
			e := hotEnv(b, dead+50)
			for c := 50; c < dead+50; {
				ba := e.s.NewBatch(e.now)
				for end := c + 1000; c < end; c++ {
					ba.Row(e.tab, e.key(1), [][]byte{be8(c)}).Delete(11)
				}
				e.apply(ba)
			}
			e.background()
			h := e.reader()
			b.ReportAllocs()
			for b.Loop() {
				if h.read(RowQuery{Reverse: true}, 50) != 50 {
					b.Fatal("no page")
				}
			}
			b.ReportMetric(float64(h.st.Walked)/float64(b.N), "walked/op")
		})
	}
}
