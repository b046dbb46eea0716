package store

import (
	"context"
	"testing"
	"time"
)

// With compactions paused level 0 grows and stays; once they go on, the next flush brings them about.
func TestPausedCompactionsLeaveLevelZeroAlone(t *testing.T) {
	e := openEnv(t, Options{ManualBackground: true})
	ctx := context.Background()
	files := func() int64 { return e.s.shards[0].db.Metrics().Levels[0].TablesCount }
	round := func(ts int64) {
		for c := range 100 {
			e.insert(1, c, ts, "x")
		}
		if err := e.s.Flush(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	e.s.PauseCompactions(true)
	for i := range 6 {
		round(int64(10 + i))
	}
	if n := files(); n != 6 {
		t.Fatalf("%d files in level 0 after 6 flushes without compactions", n)
	}
	if err := e.s.Compact(ctx, e.tab); err != nil {
		t.Fatal(err)
	}
	if n := files(); n != 0 {
		t.Fatalf("%d files in level 0 after a compaction that was asked for", n)
	}
	e.s.PauseCompactions(false)
	if e.s.CompactionsPaused() {
		t.Fatal("still paused")
	}
	deadline := time.Now().Add(10 * time.Second)
	for i := 0; e.s.shards[0].counters.compactions.Load() < 3; i++ {
		if time.Now().After(deadline) {
			t.Fatalf("nothing is compacted; %d files in level 0", files())
		}
		round(int64(100 + i))
	}
}
