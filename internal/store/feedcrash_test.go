package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"varve/internal/cqltype"
	"varve/internal/schema"
)

// reopenAfterCut cuts the power: nothing that was not synced is left.
func (e *env) reopenAfterCut(t *testing.T, fs *vfs.MemFS, r *rand.Rand, o Options) *vfs.MemFS {
	t.Helper()
	after := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 0, 50}[r.IntN(3)], RNG: r})
	if err := e.s.Close(); err != nil {
		t.Fatal(err)
	}
	o.FS = after
	s, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	e.s = s
	return after
}

// TestWhatAFeedToldSurvivesAPowerCut: with writes acknowledged before they are
// durable, what a consumer was told is there after a power cut, whatever else is
// lost, and its positions are not used again.
func TestWhatAFeedToldSurvivesAPowerCut(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	fs := vfs.NewCrashableMem()
	o := Options{ManualBackground: true, Durability: Periodic, SyncPeriod: time.Hour, DataDirs: []string{"data"}}
	withFS := o
	withFS.FS = fs
	e := openEnv(t, withFS)
	o.Clock, o.Tables = func() time.Time { return time.Unix(e.now, 0) }, func() []*schema.Table { return []*schema.Table{e.tab} }
	ctx := context.Background()
	if err := e.s.SetFeed(ctx, e.tab, true); err != nil {
		t.Fatal(err)
	}
	var told []string
	next, lost := 0, 0
	for range 60 {
		for range r.IntN(5) {
			next++
			e.insert(1, next, int64(next), "x")
		}
		switch r.IntN(4) {
		case 0:
			told = e.feedLines(t, 0)
		case 1: // somebody who counts on what the feed says that it is complete to
			infos, err := e.s.FeedInfo(e.tab)
			if err != nil {
				t.Fatal(err)
			}
			told = e.feedLinesUpto(t, infos[0].Complete)
		case 2:
			fs = e.reopenAfterCut(t, fs, r, o)
			got := e.feedLines(t, 0)
			if len(got) < len(told) {
				t.Fatalf("%d records were told, %d are left", len(told), len(got))
			}
			if d := cmp.Diff(told, got[:len(told)]); d != "" {
				t.Fatalf("after a power cut: -told +there:\n%s", d)
			}
			if rows := e.countRows(t); rows != len(got) {
				t.Fatalf("%d rows, %d records", rows, len(got))
			}
			lost += next - len(got)
			next, told = len(got), got
		}
	}
	if lost == 0 {
		t.Log("nothing was lost in any power cut")
	}
}

func (e *env) feedLinesUpto(t testing.TB, upto int64) []string {
	t.Helper()
	var out []string
	err := e.s.ReadFeed(context.Background(), FeedQuery{Table: e.tab, After: -1, Upto: upto}, func(r *FeedRecord) (bool, error) {
		line, err := feedLine(r)
		out = append(out, line)
		return true, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (e *env) countRows(t testing.TB) (n int) {
	t.Helper()
	v := e.s.View(ReadOptions{NowSec: e.now, Stats: &ReadStats{}})
	rows := v.Partition(e.tab, e.key(1), RowQuery{})
	for rows.NextPartition() {
		for rows.Next() {
			n++
		}
	}
	if err := errors.Join(rows.Close(), v.Close()); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestFeedOfACopyBeginsAnew: a store made of a snapshot goes on at positions
// that the original has not given out, so that a consumer of one meets a gap in the other.
func TestFeedOfACopyBeginsAnew(t *testing.T) {
	fs := vfs.NewMem()
	e := openEnv(t, Options{ManualBackground: true, FS: fs, DataDirs: []string{"data"}})
	ctx := context.Background()
	if err := e.s.SetFeed(ctx, e.tab, true); err != nil {
		t.Fatal(err)
	}
	e.insert(1, 1, 1, "before")
	if err := e.s.SetFeedConsumer(e.tab, FeedPosition{Name: "c", Position: 1}); err != nil {
		t.Fatal(err)
	}
	if err := e.s.Snapshot(ctx, "snapshot"); err != nil {
		t.Fatal(err)
	}
	e.insert(1, 2, 1, "in the original alone")
	original := e.s
	o := Options{ManualBackground: true, FS: fs, DataDirs: []string{"snapshot/shard-0"}}
	for reopen := range 2 {
		var err error
		if e.s, err = Open(ctx, o); err != nil {
			t.Fatal(err)
		}
		if reopen == 0 {
			e.insert(1, 3, 1, "in the copy alone")
		}
		var gap *FeedGapError
		for _, after := range []int64{1, 2} {
			err = e.s.ReadFeed(ctx, FeedQuery{Table: e.tab, After: after, Upto: 1 << 60}, func(*FeedRecord) (bool, error) { return true, nil })
			if !errors.As(err, &gap) {
				t.Errorf("reading a copy past %d: %v", after, err)
			}
		}
		info := e.feedInfo(t)
		if !info.Consumers[0].Lost || info.Last != feedJump+2 || len(e.feedLines(t, info.Begins)) != 1 {
			t.Errorf("opened %d times: %+v", reopen+1, info)
		}
		if err := e.s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	e.s = original
	err := e.s.ReadFeed(ctx, FeedQuery{Table: e.tab, After: feedJump + 2, Upto: 1 << 60}, func(*FeedRecord) (bool, error) { return true, nil })
	if err == nil {
		t.Error("the original takes a position of its copy")
	}
}

// TestFeedAtItsLimit refuses writes or drops the oldest, and never loses count.
func TestFeedAtItsLimit(t *testing.T) {
	for _, drop := range []bool{false, true} {
		t.Run(fmt.Sprintf("drop=%v", drop), func(t *testing.T) {
			e := openEnv(t, Options{ManualBackground: true, FeedBytes: 4096, FeedDrop: drop})
			if err := e.s.SetFeed(context.Background(), e.tab, true); err != nil {
				t.Fatal(err)
			}
			for i := range 100 { // nobody reads: the oldest go
				e.insert(1, i, 1, "body")
			}
			info := e.feedInfo(t)
			if info.Begins == 0 || info.Bytes > 4096+200 || info.Dropped != 0 || info.Last != 100 {
				t.Fatalf("without consumers: %+v", info)
			}
			var gap *FeedGapError
			err := e.s.SetFeedConsumer(e.tab, FeedPosition{Name: "slow", Position: 0})
			if !errors.As(err, &gap) || gap.Begins != info.Begins {
				t.Fatalf("a consumer of what is gone: %v", err)
			}
			if err := e.s.SetFeedConsumer(e.tab, FeedPosition{Name: "slow", Position: info.Begins}); err != nil {
				t.Fatal(err)
			}
			refused := e.writeUntilRefused(t, 200)
			if drop {
				e.checkDropped(t, refused, info.Begins)
				return
			}
			var full *FeedFullError
			if !errors.As(refused, &full) || full.Consumer != "slow" || full.Position != info.Begins {
				t.Fatalf("a full feed: %v", refused)
			}
			last := e.feedInfo(t).Last
			if got := len(e.feedLines(t, info.Begins)); got != int(last-info.Begins) {
				t.Errorf("%d records past %d, not %d", got, info.Begins, last-info.Begins)
			}
			if err := e.s.SetFeedConsumer(e.tab, FeedPosition{Name: "slow", Position: last - 1, Known: true}); err != nil {
				t.Fatal(err)
			}
			e.insert(1, 1000, 1, "there is room")
			if got := len(e.feedLines(t, last-1)); got != 2 {
				t.Errorf("%d records past %d, not 2", got, last-1)
			}
		})
	}
}

func (e *env) checkDropped(t *testing.T, refused error, from int64) {
	t.Helper()
	if refused != nil {
		t.Fatalf("a full feed whose oldest may go: %v", refused)
	}
	info := e.feedInfo(t)
	if !info.Consumers[0].Lost || info.Dropped == 0 {
		t.Fatalf("after dropping: %+v", info)
	}
	var gap *FeedGapError
	err := e.s.ReadFeed(context.Background(), FeedQuery{Table: e.tab, After: from, Upto: info.Last}, func(*FeedRecord) (bool, error) {
		return true, nil
	})
	if !errors.As(err, &gap) || gap.Begins != info.Begins {
		t.Fatalf("reading what was dropped: %v", err)
	}
	if got := len(e.feedLines(t, info.Begins)); got != int(info.Last-info.Begins) {
		t.Errorf("%d records, not %d", got, info.Last-info.Begins)
	}
}

func (e *env) feedInfo(t testing.TB) FeedInfo {
	t.Helper()
	infos, err := e.s.FeedInfo(e.tab)
	if err != nil || len(infos) != 1 {
		t.Fatal(infos, err)
	}
	return infos[0]
}

func (e *env) writeUntilRefused(t testing.TB, n int) error {
	t.Helper()
	for i := range n {
		b := e.s.NewBatch(e.now)
		b.Row(e.tab, e.key(1), [][]byte{be8(i)}).Set(e.tab.Columns["body"], 2, 0, []byte("body"))
		c, err := e.s.Apply(context.Background(), b, false)
		if err != nil {
			return err
		}
		if err := c.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	return nil
}

// TestFeedStateSurvivesRestart: positions go on, consumers and what is gone are remembered.
func TestFeedStateSurvivesRestart(t *testing.T) {
	fs := vfs.NewMem()
	o := Options{ManualBackground: true, FS: fs, DataDirs: []string{"data"}, FeedBytes: 4096}
	e := openEnv(t, o)
	if err := e.s.SetFeed(context.Background(), e.tab, true); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		e.insert(1, i, 1, "body")
	}
	if err := e.s.SetFeedConsumer(e.tab, FeedPosition{Name: "c", Position: 100}); err != nil {
		t.Fatal(err)
	}
	closed := true
	if err := e.s.SetFence(context.Background(), e.tab, FenceChange{Generation: 3, Replace: true, Closed: &closed}); err != nil {
		t.Fatal(err)
	}
	before, lines := e.feedInfo(t), e.feedLines(t, -1)
	if err := e.s.Close(); err != nil {
		t.Fatal(err)
	}
	o.Clock = func() time.Time { return time.Unix(e.now, 0) }
	var err error
	if e.s, err = Open(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, e.feedInfo(t)); d != "" {
		t.Errorf("after a restart: -before +after:\n%s", d)
	}
	if d := cmp.Diff(lines, e.feedLines(t, -1)); d != "" {
		t.Errorf("after a restart: -before +after:\n%s", d)
	}
	var fenced *FencedError
	if err := e.writeUntilRefused(t, 1); !errors.As(err, &fenced) || fenced.Generation != 3 {
		t.Errorf("a write to a table that was fenced before the restart: %v", err)
	}
	// Only what is gone by the definitions goes.
	e.tab.Options.CDC = true
	if err := e.s.SyncFeeds(context.Background(), []*schema.Table{e.tab}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(lines, e.feedLines(t, -1)); d != "" {
		t.Errorf("after agreeing with the definitions: -before +after:\n%s", d)
	}
	if err := e.s.SyncFeeds(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if position, _, err := e.s.shards[0].lastRecord(e.tab.PhysID); position != 0 || err != nil {
		t.Errorf("record %d is left of a dropped table: %v", position, err)
	}
}

// TestConcurrentWritersAndTails: readers that tail the feed while writers, on
// several shards and in batches of several tables, are at work see each position
// once, in order, and miss none.
func TestConcurrentWritersAndTails(t *testing.T) {
	e := openEnv(t, Options{DataDirs: []string{"d0", "d1"}})
	other := testTable(8, true)
	ctx := context.Background()
	for _, tab := range []*schema.Table{e.tab, other} {
		if err := e.s.SetFeed(ctx, tab, true); err != nil {
			t.Fatal(err)
		}
	}
	const writers, writes = 6, 100
	var wg, tails sync.WaitGroup
	stop := make(chan struct{})
	seen := make([]map[int64]string, 4) // by table and shard
	for i := range seen {
		seen[i] = map[int64]string{}
		tails.Go(func() { e.tail(t, []*schema.Table{e.tab, other}[i/2], i%2, seen[i], stop) })
	}
	for w := range writers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 5))
			for i := range writes {
				b := e.s.NewBatch(e.now)
				for range 1 + r.IntN(3) {
					tab := []*schema.Table{e.tab, other}[r.IntN(2)]
					k, err := KeyOf(tab, [][]byte{be4(r.IntN(8))})
					if err != nil {
						t.Error(err)
						return
					}
					if r.IntN(6) == 0 {
						b.DeleteRange(tab, k, Slice{Start: from(0), End: from(2)}, int64(i))
						continue
					}
					b.Row(tab, k, [][]byte{be8(w*writes + i)}).Marker(int64(i), 0)
				}
				c, err := e.s.Apply(ctx, b, r.IntN(2) == 0)
				if err == nil {
					err = c.Wait()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	tails.Wait()
	for i, got := range seen {
		want := map[int64]string{}
		tab := []*schema.Table{e.tab, other}[i/2]
		err := e.s.ReadFeed(ctx, FeedQuery{Table: tab, Shard: i % 2, Upto: 1 << 60}, func(r *FeedRecord) (bool, error) {
			line, err := feedLine(r)
			want[r.Position] = line
			return true, err
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(want) == 0 {
			t.Errorf("table %d shard %d: nothing was written", i/2, i%2)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("table %d shard %d: -there +seen by the tail:\n%s", i/2, i%2, d)
		}
	}
}

// tail reads from where it stopped until nothing more comes after stop.
func (e *env) tail(t *testing.T, tab *schema.Table, shard int, seen map[int64]string, stop chan struct{}) {
	last := int64(0)
	for done := false; ; {
		select {
		case <-stop:
			done = true
		default:
		}
		err := e.s.ReadFeed(context.Background(), FeedQuery{Table: tab, Shard: shard, After: last, Upto: 1 << 60}, func(r *FeedRecord) (bool, error) {
			if r.Position <= last {
				return false, fmt.Errorf("position %d after %d", r.Position, last)
			}
			last = r.Position
			line, err := feedLine(r)
			seen[last] = line
			return true, err
		})
		if err != nil {
			t.Error(err)
			return
		}
		if done {
			return
		}
	}
}

// TestFenceAgainstWriters: once the closing of a fence has been answered, what
// is in the table does not change any more, whoever was under way, and every
// write that was answered before is there.
func TestFenceAgainstWriters(t *testing.T) {
	for _, dirs := range [][]string{{"data"}, {"d0", "d1", "d2"}} {
		t.Run(fmt.Sprintf("shards=%d", len(dirs)), func(t *testing.T) {
			e := openEnv(t, Options{DataDirs: dirs})
			for round := range 8 {
				e.fenceRound(t, round)
			}
		})
	}
}

func (e *env) fenceRound(t *testing.T, round int) {
	t.Helper()
	ctx := context.Background()
	var wg sync.WaitGroup
	var mu sync.Mutex
	acked := map[int]bool{}
	started := make(chan struct{}, 1000)
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				n := round*1_000_000 + w*100_000 + i
				err := e.writeSomehow(ctx, n)
				var fenced *FencedError
				if errors.As(err, &fenced) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				acked[n] = true
				mu.Unlock()
				select {
				case started <- struct{}{}:
				default:
				}
			}
		})
	}
	for range 20 {
		<-started
	}
	closed, open := true, false
	if err := e.s.SetFence(ctx, e.tab, FenceChange{Generation: int64(round + 1), Replace: true, Closed: &closed}); err != nil {
		t.Fatal(err)
	}
	atFence := e.allRows(t)
	wg.Wait()
	after := e.allRows(t)
	if d := cmp.Diff(atFence, after); d != "" {
		t.Errorf("the table changed behind its fence:\n%s", d)
	}
	for n := range acked {
		if atFence[n] != 3 {
			t.Errorf("write %d, answered before the fence, is there %d times, not 3", n, atFence[n])
		}
	}
	for n, times := range atFence {
		if times != 3 {
			t.Errorf("write %d is there %d times, not 3: the fence cut it in pieces", n, times)
		}
	}
	if err := e.s.SetFence(ctx, e.tab, FenceChange{Generation: int64(round + 1), Closed: &open}); err != nil {
		t.Fatal(err)
	}
}

// writeSomehow writes row n in three partitions at once: blind, under a lock, or logged.
func (e *env) writeSomehow(ctx context.Context, n int) error {
	keys := []Key{e.key(1), e.key(2), e.key(3)}
	b := e.s.NewBatch(e.now)
	for _, k := range keys {
		b.Row(e.tab, k, [][]byte{be8(n)}).Marker(1, 0)
	}
	var c Commit
	var err error
	if n%3 == 0 {
		l, lerr := e.s.Lock(ctx, e.tab, keys...)
		if lerr != nil {
			return lerr
		}
		defer l.Unlock()
		c, err = l.Apply(ctx, b)
	} else {
		c, err = e.s.Apply(ctx, b, n%3 == 1)
	}
	if err != nil {
		return err
	}
	return c.Wait()
}

// allRows counts in how many partitions each row is.
func (e *env) allRows(t testing.TB) map[int]int {
	t.Helper()
	out := map[int]int{}
	v := e.s.View(ReadOptions{NowSec: e.now, Stats: &ReadStats{}})
	rows := v.Range(e.tab, TokenRange{StartUnbounded: true, EndUnbounded: true}, RowQuery{}, nil)
	for rows.NextPartition() {
		for rows.Next() {
			c := rows.Row().Clustering()[0]
			n := 0
			for _, x := range c {
				n = n<<8 | int(x)
			}
			out[n]++
		}
	}
	if err := errors.Join(rows.Close(), v.Close()); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestFeedGivesKeysAsTheyWereWritten: 1.00 is not 1.0, though they are one key.
func TestFeedGivesKeysAsTheyWereWritten(t *testing.T) {
	e := openEnv(t, Options{ManualBackground: true})
	tab := &schema.Table{PhysID: 9, Keyspace: "ks", Name: "d", Columns: map[string]*schema.Column{}}
	for i, kind := range []schema.ColumnKind{schema.PartitionKey, schema.Clustering} {
		c := &schema.Column{ID: uint16(i), Name: fmt.Sprint(i), Kind: kind, Type: cqltype.Decimal}
		tab.ByID = append(tab.ByID, c)
		tab.Columns[c.Name] = c
	}
	tab.PartitionKey, tab.Clustering = tab.ByID[:1], tab.ByID[1:]
	if err := e.s.SetFeed(context.Background(), tab, true); err != nil {
		t.Fatal(err)
	}
	p, c := []byte{0, 0, 0, 2, 100}, []byte{0, 0, 0, 1, 20} // 1.00 and 2.0
	k, err := KeyOf(tab, [][]byte{p})
	if err != nil {
		t.Fatal(err)
	}
	b := e.s.NewBatch(1)
	b.Row(tab, k, [][]byte{c}).Marker(5, 0)
	e.apply(b)
	e.tab = tab
	want := []string{fmt.Sprintf("1/1+1 kind=1 ts=5 key=[%x] ck=[%x]", p, c)}
	if d := cmp.Diff(want, e.feedLines(t, 0)); d != "" {
		t.Error(d)
	}
}
