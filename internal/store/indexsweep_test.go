package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"varve/internal/schema"
)

// openIndexed is a store whose table has an index on body.
func openIndexed(t *testing.T) (*diskEnv, *schema.Index) {
	d := openDisk(t)
	x := &schema.Index{Name: "i", PhysID: 8, Kind: schema.IndexComposites, Column: d.tab.Columns["body"]}
	d.tab.Indexes = []*schema.Index{x}
	d.s.opts.EntryStale = func(v *View, tab *schema.Table, x *schema.Index, e IndexEntry) bool {
		b := Bound{Prefix: e.Clustering, Inclusive: true}
		rows := v.Partition(tab, e.Key, RowQuery{Slices: []Slice{{b, b}}, NoStatic: true})
		stale := !rows.NextPartition() || !rows.Next() || string(rows.Row().Value(x.Column)) != string(e.Value)
		return rows.Close() == nil && stale
	}
	return d, x
}

// put writes a row and its index entry.
func (d *diskEnv) put(x *schema.Index, c int, ts int64, ttl int32, body string) {
	b := d.s.NewBatch(d.now)
	r := b.Row(d.tab, d.key(1), [][]byte{be8(c)})
	r.Marker(ts, ttl)
	r.Set(d.tab.Columns["body"], ts, ttl, []byte(body))
	r.Index(x, []byte(body))
	d.apply(b)
}

// entries counts the entries that the engine holds, and the steps it takes to read them.
func (d *diskEnv) entries(x *schema.Index) (n, steps int) {
	d.t.Helper()
	lo := appendTablePrefix(nil, x.PhysID, familyIndex)
	it, err := d.s.shards[0].db.NewIter(&pebble.IterOptions{LowerBound: lo, UpperBound: prefixEnd(lo)})
	if err != nil {
		d.t.Fatal(err)
	}
	for it.First(); it.Valid(); it.Next() {
		n++
	}
	st := it.Stats()
	if err := it.Close(); err != nil {
		d.t.Fatal(err)
	}
	return n, st.ForwardStepCount[pebble.InternalIterCall]
}

// TestIndexEntriesOfDeadRowsGo lets rows die, and change their values, without
// any read that meets their entries.
func TestIndexEntriesOfDeadRowsGo(t *testing.T) {
	d, x := openIndexed(t)
	const n = 1500
	for c := range n {
		d.put(x, c, 10, 0, fmt.Sprintf("v%d", c%7))
	}
	for c := range n {
		switch c % 3 {
		case 0:
			d.deleteRow(1, c, 11)
		case 1:
			d.put(x, c, 11, 0, "other")
		}
	}
	d.put(x, n, 10, 60, "expiring")
	if got, _ := d.entries(x); got != n+n/3+1 {
		t.Fatalf("%d entries", got)
	}
	d.now += 100
	d.sweepTick()
	if got, _ := d.entries(x); got != n/3*2+1 {
		t.Errorf("%d entries after a sweep, want %d: of the live rows, and of one that expired a moment ago", got, n/3*2+1)
	}
	swept := d.s.Metrics()["index_entries_swept_total"]
	d.now += expirySlack
	d.sweepTick()
	if got := d.s.Metrics()["index_entries_swept_total"]; got != swept {
		t.Errorf("%.0f entries were swept though nothing was written", got-swept)
	}
	d.deleteRow(1, 2, 12)
	d.now += 100
	d.sweepTick()
	if got, _ := d.entries(x); got != n/3*2-1 {
		t.Errorf("%d entries after another sweep, want %d", got, n/3*2-1)
	}
	got, _ := d.show(1, RowQuery{Slices: []Slice{{from(0), from(5)}}})
	d.want(got, "1|1:other 4:other 5:v5")
}

// TestQueueByIndex takes the first row that an index finds and changes its
// state, over and over: what a read steps over stays the same.
func TestQueueByIndex(t *testing.T) {
	d, x := openIndexed(t)
	const n = 6000
	for c := range n {
		d.put(x, c, 10, 0, "a")
	}
	most := 0
	for c := range n {
		var st ReadStats
		v := d.s.View(ReadOptions{NowSec: d.now, Stats: &st})
		it := v.Index(d.tab, x, IndexQuery{Lo: []byte("a"), Hi: []byte("a"), LoInclusive: true, HiInclusive: true})
		var stale []IndexEntry
		for it.Next() {
			if !d.s.opts.EntryStale(v, d.tab, x, it.Entry()) {
				break
			}
			stale = append(stale, it.Entry().clone())
		}
		stats := it.sources[0].it.Stats()
		most = max(most, stats.ForwardStepCount[pebble.InternalIterCall])
		if err := it.Close(); err != nil {
			t.Fatal(err)
		}
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
		for _, e := range stale {
			if err := d.s.removeStale(d.tab, x, e); err != nil {
				t.Fatal(err)
			}
		}
		d.put(x, c, 11, 0, "b")
		if c%500 == 499 {
			// Time for a slow machine's compactions too, which keep others away for a while.
			d.at = d.at.Add(time.Minute)
			d.ticks(3)
		}
	}
	if most > 3*indexSkips {
		t.Errorf("a read took up to %d steps over entries that were removed", most)
	}
	if got, steps := d.entries(x); got > n+2 || steps > got+3*indexSkips {
		t.Errorf("%d entries left, %d steps over them", got, steps)
	}
	if got := d.s.Metrics()["reclaim_forced_total"]; got == 0 {
		t.Error("no place was compacted for its reads")
	}
}

// TestStaleEntriesThatReadsMeet bring the next sweep of their index forward.
func TestStaleEntriesThatReadsMeet(t *testing.T) {
	d, x := openIndexed(t)
	for c := range 400 {
		d.put(x, c, 10, 0, "a")
	}
	d.sweepTick()
	for c := range 400 {
		d.put(x, c, 11, 0, "b")
	}
	d.now += 2
	d.sweepTick()
	if got, _ := d.entries(x); got != 800 {
		t.Fatalf("%d entries: a sweep came early for no reason", got)
	}
	v := d.s.View(ReadOptions{NowSec: d.now, Stats: &ReadStats{}})
	it := v.Index(d.tab, x, IndexQuery{})
	var met []IndexEntry
	for len(met) < manyStale && it.Next() {
		met = append(met, it.Entry().clone())
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	for _, e := range met {
		if err := d.s.removeStale(d.tab, x, e); err != nil {
			t.Fatal(err)
		}
	}
	d.now += int64(2 * time.Second / time.Second)
	d.sweepTick()
	if got, _ := d.entries(x); got != 400 {
		t.Errorf("%d entries after a read met many stale ones, want 400", got)
	}
}
