package store

import (
	"context"
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

// covered is how many removed rows of a partition the engine steps over, one by one, before a read can see a span.
func (d *diskEnv) covered(p int) int64 {
	d.t.Helper()
	lo := appendPartition(nil, d.tab.PhysID, familyRow, d.key(p))
	it, err := d.s.shards[0].db.NewIter(&pebble.IterOptions{LowerBound: lo, UpperBound: prefixEnd(lo)})
	if err != nil {
		d.t.Fatal(err)
	}
	for it.First(); it.Valid(); it.Next() {
	}
	st := it.Stats()
	if err := it.Close(); err != nil {
		d.t.Fatal(err)
	}
	return int64(st.InternalStats.PointsCoveredByRangeTombstones)
}

// TestPurgedRowsAreNotSteppedOver purges rows that were only just written, in
// every way in which rows come to be purged: at no time may a read step over them one by one.
func TestPurgedRowsAreNotSteppedOver(t *testing.T) {
	const n, live = 3000, 50
	for name, kill := range map[string]func(d *diskEnv){
		"ranges": func(d *diskEnv) {
			b := d.s.NewBatch(d.now)
			for c := 0; c < n; c += 100 {
				b.DeleteRange(d.tab, d.key(1), Slice{from(c), from(c + 99)}, 20)
			}
			d.apply(b)
		},
		"one range": func(d *diskEnv) {
			b := d.s.NewBatch(d.now)
			b.DeleteRange(d.tab, d.key(1), Slice{from(0), from(n - 1)}, 20)
			d.apply(b)
		},
		"rows past gc_grace": func(d *diskEnv) {
			for c := range n {
				d.deleteRow(1, c, 20)
			}
			d.tab.Options.GCGraceSeconds = 0
			d.now += 10
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := openDisk(t)
			d.fill(1, 0, n, 50, 0)
			d.fill(1, n, n+live, 50, 0)
			kill(d)
			ctx, begin := context.Background(), d.at
			tbl, sh := d.s.tableFor(d.tab), d.s.shards[0]
			for sh.pending.flush(sh, true); d.s.metrics.spansPurged.Load() == 0; d.at = d.at.Add(goneQuiet / 2) {
				d.s.drain(ctx)
				if d.at.Sub(begin) > goneBusy {
					t.Fatal("nothing is purged")
				}
				// Without the rest of a tick, which may write the memtable out for its own reasons.
				d.s.reclaimMu.Lock()
				err := sh.purgeDue(ctx, tbl, d.s.gcBefore(tbl), d.at, false)
				d.s.reclaimMu.Unlock()
				if err != nil {
					t.Fatal(err)
				}
				if c := d.covered(1); c > live {
					t.Fatalf("%d removed rows are stepped over", c)
				}
				if c := d.count(1); c != live {
					t.Fatalf("%d rows live, not %d", c, live)
				}
			}
			if err := d.s.Compact(ctx, d.tab); err != nil {
				t.Fatal(err)
			}
			if c := d.count(1); c != live {
				t.Fatalf("%d rows live, not %d", c, live)
			}
		})
	}
}
