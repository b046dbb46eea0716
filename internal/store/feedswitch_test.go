package store

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"varve/internal/schema"
)

// TestFeedSwitchedOnUnderWriters: what is not in the feed was in the table when
// the feed's switching on had been answered, so that a copy begun then and the
// feed miss nothing between them.
func TestFeedSwitchedOnUnderWriters(t *testing.T) {
	for range 8 {
		e := openEnv(t, Options{DataDirs: []string{"d0", "d1"}})
		ctx := context.Background()
		var wg sync.WaitGroup
		began := make(chan struct{}, 4)
		for w := range 4 {
			wg.Go(func() {
				for i := range 60 {
					if err := e.writeSomehow(ctx, w*100_000+i); err != nil {
						t.Error(err)
						return
					}
					if i == 10 {
						began <- struct{}{}
					}
				}
			})
		}
		<-began
		if err := e.s.SetFeed(ctx, e.tab, true); err != nil {
			t.Fatal(err)
		}
		copied := e.allRows(t)
		wg.Wait()
		told := map[int]int{}
		for shard := range 2 {
			err := e.s.ReadFeed(ctx, FeedQuery{Table: e.tab, Shard: shard, After: -1, Upto: 1 << 60}, func(r *FeedRecord) (bool, error) {
				ck, err := r.Clustering()
				if err == nil {
					told[number(ck[0])]++
				}
				return true, err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for n, times := range e.allRows(t) {
			// A batch over two shards may be copied in one and told in the other.
			if copied[n]+told[n] < times {
				t.Errorf("row %d is there %d times; %d of it were copied and %d told", n, times, copied[n], told[n])
			}
		}
	}
}

func number(b []byte) (n int) {
	for _, x := range b {
		n = n<<8 | int(x)
	}
	return n
}

// TestLoggedBatchIsToldWhenItIsAppliedAgain: a batch that a crash left in the
// batch log is told as replayed, with its origin, and passes a fence that was
// closed after it had been admitted.
func TestLoggedBatchIsToldWhenItIsAppliedAgain(t *testing.T) {
	for _, origin := range []string{"", "mover"} {
		o := Options{ManualBackground: true, FS: vfs.NewMem(), DataDirs: []string{"d0", "d1", "d2"}}
		e := openEnv(t, o)
		ctx := context.Background()
		if err := e.s.SetFeed(ctx, e.tab, true); err != nil {
			t.Fatal(err)
		}
		b := e.s.NewBatch(e.now)
		b.SetOrigin(origin)
		for p := range 9 {
			b.Row(e.tab, e.key(p), [][]byte{be8(p)}).Marker(1, 0)
		}
		b.finishRow()
		if _, err := e.s.logBatch(b); err != nil {
			t.Fatal(err)
		}
		b.Discard()
		closed := true
		if err := e.s.SetFence(ctx, e.tab, FenceChange{Generation: 1, Replace: true, Closed: &closed}); err != nil {
			t.Fatal(err)
		}
		if err := e.s.Close(); err != nil {
			t.Fatal(err)
		}
		var err error
		if e.s, err = Open(ctx, o); err != nil {
			t.Fatal(err)
		}
		told := map[int]int{}
		for shard := range 3 {
			err := e.s.ReadFeed(ctx, FeedQuery{Table: e.tab, Shard: shard, Upto: 1 << 60}, func(r *FeedRecord) (bool, error) {
				ck, err := r.Clustering()
				if err == nil {
					told[number(ck[0])]++
				}
				if !r.Replayed || string(r.Origin) != origin {
					t.Errorf("replayed %v, origin %q", r.Replayed, r.Origin)
				}
				return true, err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		want := map[int]int{}
		for p := range 9 {
			want[p] = 1
		}
		if d := cmp.Diff(want, told); d != "" {
			t.Errorf("-want +told:\n%s", d)
		}
		if d := cmp.Diff(want, e.allRows(t)); d != "" {
			t.Errorf("-want +there:\n%s", d)
		}
	}
}

// TestConfirmedRecordsGo: what all consumers have confirmed is removed, not more.
func TestConfirmedRecordsGo(t *testing.T) {
	e := openEnv(t, Options{ManualBackground: true, FeedBytes: 1 << 20})
	ctx := context.Background()
	if err := e.s.SetFeed(ctx, e.tab, true); err != nil {
		t.Fatal(err)
	}
	confirm := func(name string, position int64) {
		t.Helper()
		if err := e.s.SetFeedConsumer(e.tab, FeedPosition{Name: name, Position: position}); err != nil {
			t.Fatal(err)
		}
	}
	confirm("fast", 0)
	confirm("slow", 0)
	body := make([]byte, 10_000)
	for i := range 50 {
		e.insert(1, i, 1, string(body))
	}
	confirm("fast", 50)
	if info := e.feedInfo(t); info.Begins != 0 {
		t.Errorf("records went that a consumer has not confirmed: %+v", info)
	}
	confirm("slow", 30)
	if info := e.feedInfo(t); info.Begins != 30 || info.Bytes < 20*10_000 || info.Bytes > 21*10_000 {
		t.Errorf("after both confirmed 30: %+v", info)
	}
	if n := len(e.feedLines(t, 30)); n != 20 {
		t.Errorf("%d records are left, not 20", n)
	}
	if found, err := e.s.DropFeedConsumer(e.tab, 0, "slow"); !found || err != nil {
		t.Fatal(found, err)
	}
	if info := e.feedInfo(t); info.Begins != 50 || info.Bytes != 0 {
		t.Errorf("after the slow one was forgotten: %+v", info)
	}
	var gap *FeedGapError
	if err := e.s.SetFeedConsumer(e.tab, FeedPosition{Name: "late", Position: 49}); !errors.As(err, &gap) {
		t.Errorf("a consumer of what is gone: %v", err)
	}
}

// TestFeedsAgreeWithDefinitions: whatever a crash left between the store and the
// catalogue, a start puts it right.
func TestFeedsAgreeWithDefinitions(t *testing.T) {
	e := openEnv(t, Options{ManualBackground: true})
	ctx := context.Background()
	for _, want := range []bool{true, false, true} {
		e.tab.Options.CDC = want
		for range 2 {
			if err := e.s.SyncFeeds(ctx, []*schema.Table{e.tab}); err != nil {
				t.Fatal(err)
			}
			infos, err := e.s.FeedInfo(e.tab)
			if err != nil || len(infos) == 1 != want {
				t.Errorf("cdc = %v: %+v, %v", want, infos, err)
			}
		}
	}
}
