package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"varve/internal/schema"
)

// readAll lists a feed's records past a position in one line each.
func (e *env) feedLines(t testing.TB, after int64) []string {
	t.Helper()
	var out []string
	err := e.s.ReadFeed(context.Background(), FeedQuery{Table: e.tab, After: after, Upto: math.MaxInt64},
		func(r *FeedRecord) (bool, error) {
			line, err := feedLine(r)
			out = append(out, line)
			return true, err
		})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func feedLine(r *FeedRecord) (string, error) {
	line := fmt.Sprintf("%d/%d+%d kind=%d ts=%d", r.Position, r.BatchFirst, r.BatchSize, r.Kind, r.Timestamp())
	if r.Kind == FeedTruncate {
		return line, nil
	}
	key, err := r.Key()
	if err != nil {
		return "", err
	}
	ck, err := r.Clustering()
	if err != nil {
		return "", err
	}
	line += fmt.Sprintf(" key=%x ck=%x", key, ck)
	if r.Kind == FeedRange {
		sl, err := r.Slice()
		if err != nil {
			return "", err
		}
		line += fmt.Sprintf(" from %x %v to %x %v", sl.Start.Prefix, sl.Start.Inclusive, sl.End.Prefix, sl.End.Inclusive)
	}
	for _, c := range r.AppendCells(nil) {
		line += fmt.Sprintf(" %s:%d=%x", c.Column.Name, c.Op, c.Value)
	}
	return line, nil
}

// TestFeedTellsEveryKindOfChange writes one of each.
func TestFeedTellsEveryKindOfChange(t *testing.T) {
	e := openEnv(t, Options{ManualBackground: true})
	ctx := context.Background()
	e.insert(1, 1, 5, "early") // before there is a feed
	if err := e.s.SetFeed(ctx, e.tab, true); err != nil {
		t.Fatal(err)
	}
	body := e.tab.Columns["body"]
	b := e.s.NewBatch(e.now)
	r := b.Row(e.tab, e.key(1), [][]byte{be8(1)})
	r.Marker(10, 0)
	r.Set(body, 10, 0, []byte("x"))
	r = b.Row(e.tab, e.key(1), [][]byte{be8(2)})
	r.Unset(body, 11)
	b.DeleteRange(e.tab, e.key(1), Slice{Start: from(3), End: Bound{Prefix: [][]byte{be8(9)}}}, 12)
	e.apply(b)
	b = e.s.NewBatch(e.now)
	b.DeletePartition(e.tab, e.key(1), 13)
	e.apply(b)
	b = e.s.NewBatch(e.now)
	b.Row(e.tab, e.key(1), [][]byte{be8(7)}).Delete(14)
	e.apply(b)
	if err := e.s.Truncate(ctx, e.tab); err != nil {
		t.Fatal(err)
	}
	got := e.feedLines(t, 0)
	k, ck := e.key(1), func(n int) string { return fmt.Sprintf("%x", [][]byte{be8(n)}) }
	comps, err := k.Components(e.tab)
	if err != nil {
		t.Fatal(err)
	}
	key := fmt.Sprintf("key=%x", comps)
	last := got[len(got)-1]
	want := []string{
		"1/1+3 kind=1 ts=10 " + key + " ck=" + ck(1) + " body:0=78",
		"2/1+3 kind=1 ts=11 " + key + " ck=" + ck(2) + " body:1=",
		"3/1+3 kind=3 ts=12 " + key + " ck=[] from " + ck(3) + " true to " + ck(9) + " false",
		"4/4+1 kind=2 ts=13 " + key + " ck=[]",
		"5/5+1 kind=1 ts=14 " + key + " ck=" + ck(7),
		last,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got, want := last[:12], "6/6+1 kind=4"; got != want {
		t.Errorf("truncation: %q", last)
	}
	if diff := cmp.Diff(want[4:], e.feedLines(t, 4)); diff != "" {
		t.Errorf("past 4: -want +got:\n%s", diff)
	}
}

// TestFenceKeepsOthersOut closes, passes, lapses and lifts.
func TestFenceKeepsOthersOut(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	e := openEnv(t, Options{ManualBackground: true, Clock: func() time.Time { return now }})
	ctx := context.Background()
	write := func(origin string) error {
		b := e.s.NewBatch(e.now)
		b.SetOrigin(origin)
		b.Row(e.tab, e.key(1), [][]byte{be8(1)}).Marker(10, 0)
		c, err := e.s.Apply(ctx, b, false)
		if err == nil {
			err = c.Wait()
		}
		return err
	}
	var fenced *FencedError
	closed, open, pass := true, false, "mover"
	deadline := now.Add(time.Second)
	shut := FenceChange{Generation: 7, Replace: true, Closed: &closed, Pass: &pass, Deadline: &deadline}
	if err := e.s.SetFence(ctx, e.tab, shut); err != nil {
		t.Fatal(err)
	}
	if err := write(""); !errors.As(err, &fenced) || fenced.Generation != 7 {
		t.Errorf("a write: %v", err)
	}
	if err := e.s.Truncate(ctx, e.tab); !errors.As(err, &fenced) {
		t.Errorf("truncate: %v", err)
	}
	if _, err := e.s.AdmitDDL([]*schema.Table{e.tab}, ""); !errors.As(err, &fenced) {
		t.Errorf("alter: %v", err)
	}
	if err := write("mover"); err != nil {
		t.Errorf("a write with the pass: %v", err)
	}
	var refused *FenceError
	if err := e.s.SetFence(ctx, e.tab, FenceChange{Generation: 6, Closed: &open}); !errors.As(err, &refused) {
		t.Errorf("lifting with an older generation: %v", err)
	}
	now = now.Add(time.Second)
	if err := write(""); err != nil {
		t.Errorf("a write after the deadline: %v", err)
	}
	forGood := time.Time{}
	if err := e.s.SetFence(ctx, e.tab, FenceChange{Generation: 7, Deadline: &forGood}); !errors.As(err, &refused) {
		t.Errorf("a lapsed fence made permanent: %v", err)
	}
	now = now.Add(-time.Minute) // the clock steps back
	if err := write(""); err != nil {
		t.Errorf("a write after the deadline, by a clock that stepped back: %v", err)
	}
	shut.Generation = 8
	if err := e.s.SetFence(ctx, e.tab, shut); err != nil {
		t.Fatal(err)
	}
	if err := e.s.SetFence(ctx, e.tab, FenceChange{Generation: 8, Deadline: &forGood}); err != nil {
		t.Errorf("making a fence permanent: %v", err)
	}
	now = now.Add(time.Hour)
	if err := write(""); !errors.As(err, &fenced) {
		t.Errorf("a write at a permanent fence: %v", err)
	}
	if err := e.s.SetFence(ctx, e.tab, FenceChange{Generation: 8, Closed: &open}); err != nil {
		t.Error(err)
	}
	if err := write(""); err != nil {
		t.Errorf("a write after the fence was lifted: %v", err)
	}
	if err := e.s.SetFence(ctx, e.tab, shut); !errors.As(err, &refused) {
		t.Errorf("closing again with the generation that was lifted: %v", err)
	}
}
