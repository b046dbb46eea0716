package pg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"varve/internal/move"
	"varve/internal/move/pg/pgtest"
)

func openStates(t *testing.T) (*States, string) {
	t.Helper()
	cluster := pgtest.Shared(t)
	url := cluster.URL(cluster.Database(t))
	s, err := OpenStates(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	for range 2 {
		if err := s.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return s, url
}

// openMove opens a store with a move whose lease is held.
func openMove(t *testing.T) (*States, move.Lease) {
	t.Helper()
	s, _ := openStates(t)
	if err := s.Create(t.Context(), &move.Record{Move: "chat"}); err != nil {
		t.Fatal(err)
	}
	l, err := s.Acquire(t.Context(), "chat", "a", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return s, l
}

func TestStateOfMoves(t *testing.T) {
	ctx := t.Context()
	s, _ := openStates(t)
	if _, err := s.Load(ctx, "chat"); !errors.Is(err, move.ErrNoMove) {
		t.Fatal(err)
	}
	if err := s.Create(ctx, &move.Record{Move: "chat", File: []byte("name: chat\n")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(ctx, &move.Record{Move: "chat"}); !errors.Is(err, move.ErrMoveExists) {
		t.Fatal(err)
	}
	l, err := s.Acquire(ctx, "chat", "a", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(ctx, "chat", "b", time.Minute); !errors.Is(err, move.ErrLeaseHeld) {
		t.Fatal(err)
	}
	r, err := s.Load(ctx, "chat")
	if err != nil || !r.Owned() || r.Generation != 1 {
		t.Fatalf("%+v %v", r, err)
	}
	stale := *r
	measured := 2.5
	r.State, r.Shadow, r.ShadowSince, r.StampFloor, r.Trouble = move.Copying, true, 7, 1<<60, "disk"
	r.Budgets = []move.Budget{{Step: move.Copying, Name: "p95", Limit: 3, Unit: "ms", Measured: &measured, Set: r.Created}}
	if err := s.Transition(ctx, l, r, move.Entry{By: "a", From: move.Planned, To: move.Copying, Why: "begin", Measured: []string{"1 ms"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Transition(ctx, l, &stale, move.Entry{}); !errors.Is(err, move.ErrConflict) {
		t.Fatal(err)
	}
	live := move.Live{Rate: 100, Tables: []move.TableLive{{Table: "t", Copied: 5}}}
	if err := s.Report(ctx, l, &live); err != nil {
		t.Fatal(err)
	}
	got, err := s.Load(ctx, "chat")
	if err != nil {
		t.Fatal(err)
	}
	r.Live = live
	if d := cmp.Diff(r, got, cmpopts.IgnoreFields(move.Record{}, "Changed", "Loaded", "Owner", "Token", "LeaseUntil")); d != "" {
		t.Fatal(d)
	}
	h, err := s.History(ctx, "chat", 10)
	if err != nil || len(h) != 1 || h[0].Generation != 2 || h[0].Why != "begin" || h[0].Measured[0] != "1 ms" {
		t.Fatalf("%+v %v", h, err)
	}
	if all, err := s.List(ctx); err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
}

// A lease that ran out or was taken over is good for nothing.
func TestLostLeases(t *testing.T) {
	ctx := t.Context()
	s, _ := openStates(t)
	if err := s.Create(ctx, &move.Record{Move: "chat"}); err != nil {
		t.Fatal(err)
	}
	old, err := s.Acquire(ctx, "chat", "a", time.Microsecond)
	if err != nil {
		t.Fatal(err)
	}
	now, err := s.Acquire(ctx, "chat", "a", time.Minute)
	if err != nil || now.Token <= old.Token {
		t.Fatal(now, err)
	}
	r, err := s.Load(ctx, "chat")
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"renew": s.Renew(ctx, old), "transition": s.Transition(ctx, old, r, move.Entry{}), "report": s.Report(ctx, old, &move.Live{}),
		"differences": s.PutDifferences(ctx, old, nil), "clear": s.ClearDifferences(ctx, old, 0, nil),
		"ranges": s.PutRanges(ctx, old, nil), "forget": s.ForgetRanges(ctx, old, -1),
	} {
		if !errors.Is(err, move.ErrLeaseLost) {
			t.Errorf("%s with a lost lease: %v", what, err)
		}
	}
	if err := errors.Join(s.Release(ctx, old), s.Renew(ctx, now), s.Release(ctx, now)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(ctx, "chat", "b", time.Minute); err != nil {
		t.Fatal(err)
	}
}

func TestIntentsWaitForTheirResult(t *testing.T) {
	ctx := t.Context()
	s, l := openMove(t)
	r, err := s.Load(ctx, "chat")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		if err := s.Wait(ctx, "chat", 1, time.Minute); err != nil {
			t.Error(err)
		}
	})
	id, err := s.Ask(ctx, "chat", move.Intent{Verb: "pause", Args: map[string]string{"x": "y"}, By: "me"})
	if err != nil {
		t.Fatal(err)
	}
	group.Wait()
	if _, err := s.Ask(ctx, "chat", move.Intent{Verb: "resume"}); !errors.Is(err, move.ErrIntentPending) {
		t.Fatal(err)
	}
	// A transition of something else leaves it there.
	if err := s.Transition(ctx, l, r, move.Entry{}); err != nil {
		t.Fatal(err)
	}
	if r, err = s.Load(ctx, "chat"); err != nil || r.Intent == nil || r.Intent.ID != id || r.Intent.Args["x"] != "y" {
		t.Fatalf("%+v %v", r.Intent, err)
	}
	r.Result = &move.Result{Intent: id, OK: true, Text: "rests", Details: map[string]string{"a": "1 ms"}}
	if err := s.Transition(ctx, l, r, move.Entry{}); err != nil {
		t.Fatal(err)
	}
	if r, err = s.Load(ctx, "chat"); err != nil || r.Intent != nil || r.Result.Text != "rests" {
		t.Fatalf("%+v %v", r, err)
	}
	if err := s.Wait(ctx, "chat", r.Generation, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(ctx, "chat", r.Generation-1, time.Minute); err != nil {
		t.Fatal(err)
	}
}

// The canonical side changes to the target only behind a fence that is up.
func TestCanonicalChangesBehindTheFence(t *testing.T) {
	ctx := t.Context()
	s, url := openStates(t)
	side, err := Open(ctx, Options{URL: url, Move: "chat"})
	if err != nil {
		t.Fatal(err)
	}
	defer side.Close(ctx)
	if err := side.exec(ctx, `CREATE TABLE public.messages (id int PRIMARY KEY, body text)`); err != nil {
		t.Fatal(err)
	}
	if _, _, err := side.Bind(ctx, move.Origin, []move.TableMap{{From: "public.messages", To: "public.messages"}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Create(ctx, &move.Record{Move: "chat"}), side.InstallFence(ctx)); err != nil {
		t.Fatal(err)
	}
	l, err := s.Acquire(ctx, "chat", "a", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Load(ctx, "chat")
	if err != nil {
		t.Fatal(err)
	}
	next := *r
	next.State, next.Canonical = move.CutOver, move.Target
	if err := s.Transition(ctx, l, &next, move.Entry{}); !errors.Is(err, move.ErrFenceDown) {
		t.Fatalf("cut over without a fence: %v", err)
	}
	if err := side.RaiseFence(ctx, r.Generation, time.Second, time.Minute); err != nil {
		t.Fatal(err)
	}
	next.Generation = r.Generation
	if err := s.Transition(ctx, l, &next, move.Entry{}); err != nil {
		t.Fatal(err)
	}
	if err := side.LiftFence(ctx, next.Generation); err != nil {
		t.Fatal(err)
	}
	write := func() error {
		_, err := side.pool.Exec(ctx, `INSERT INTO public.messages VALUES (1, 'x') ON CONFLICT DO NOTHING`)
		return err
	}
	if err := write(); state(err) != FencedState {
		t.Fatalf("origin takes a write after the cutover: %v", err)
	}
	next.State, next.Canonical = move.RolledBack, move.Origin
	if err := s.Transition(ctx, l, &next, move.Entry{}); err != nil {
		t.Fatal(err)
	}
	if err := write(); err != nil {
		t.Fatal(err)
	}
}

func TestReportsComeBack(t *testing.T) {
	ctx := t.Context()
	s, l := openMove(t)
	node := move.Node{Name: "n1", WriteP95: 1.5, Compared: 3}
	for range 2 {
		if err := s.ReportNode(ctx, "chat", &node); err != nil {
			t.Fatal(err)
		}
	}
	nodes, err := s.Nodes(ctx, "chat")
	if d := cmp.Diff([]move.Node{node}, nodes, cmpopts.IgnoreFields(move.Node{}, "Seen")); err != nil || d != "" || nodes[0].Seen.IsZero() {
		t.Fatal(err, d)
	}
	for i := range samplesKept + 5 {
		if i > 3 && i < samplesKept {
			continue
		}
		if err := s.AddSample(ctx, "chat", &move.Sample{Node: "n1", Query: fmt.Sprint(i), Origin: "a\x00b"}); err != nil {
			t.Fatal(err)
		}
	}
	if samples, err := s.Samples(ctx, "chat", 2); err != nil || len(samples) != 2 || samples[0].Query != fmt.Sprint(samplesKept+4) || samples[0].Origin != "a�b" {
		t.Fatal(samples, err)
	}
	at := time.Now().UTC().Truncate(time.Millisecond)
	ds := []move.Difference{
		{Table: 0, Key: []byte("a"), Kind: move.Missing, Shown: "a", Found: at},
		{Table: 0, Key: []byte("r"), Kind: move.Broken, Shown: "rule", Found: at},
		{Table: 1, Key: []byte("b"), Kind: move.Extra, Found: at},
	}
	for range 2 {
		if err := s.PutDifferences(ctx, l, ds); err != nil {
			t.Fatal(err)
		}
	}
	got, n, err := s.Differences(ctx, "chat", 2)
	if d := cmp.Diff(ds[:2], got); err != nil || n != 3 || d != "" {
		t.Fatal(err, n, d)
	}
	if err := s.ClearDifferences(ctx, l, 0, [][]byte{[]byte("a"), []byte("r")}); err != nil {
		t.Fatal(err)
	}
	if _, n, err := s.Differences(ctx, "chat", 2); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	rs := []move.VerifiedRange{{Table: 0, To: []byte("m"), Done: true, Rows: 5, Sum: "s", Position: "9", At: at}, {Table: 0, From: []byte("m"), At: at}}
	for range 2 {
		if err := s.PutRanges(ctx, l, rs); err != nil {
			t.Fatal(err)
		}
	}
	ranges, err := s.Ranges(ctx, "chat", 0)
	if d := cmp.Diff(rs, ranges); err != nil || d != "" {
		t.Fatal(err, d)
	}
	if err := s.ForgetRanges(ctx, l, -1); err != nil {
		t.Fatal(err)
	}
	if ranges, err := s.Ranges(ctx, "chat", 0); err != nil || len(ranges) > 0 {
		t.Fatal(ranges, err)
	}
}

func TestSchemaGoesWithTheLastMove(t *testing.T) {
	ctx := t.Context()
	s, _ := openStates(t)
	if err := s.Create(ctx, &move.Record{Move: "chat"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	l, err := s.Acquire(ctx, "chat", "a", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Load(ctx, "chat")
	if err != nil {
		t.Fatal(err)
	}
	r.State = move.Aborted
	if err := s.Transition(ctx, l, r, move.Entry{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(ctx, &move.Record{Move: "chat"}); err != nil {
		t.Fatal("an aborted move's name cannot be used again:", err)
	}
	if l, err = s.Acquire(ctx, "chat", "b", time.Minute); err != nil {
		t.Fatal(err)
	}
	r.Generation, r.State = 3, move.Aborted
	if err := errors.Join(s.Transition(ctx, l, r, move.Entry{}), s.Remove(ctx), s.Remove(ctx)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(ctx, "chat"); !errors.Is(err, move.ErrNoMove) {
		t.Fatal(err)
	}
	if all, err := s.List(ctx); err != nil || len(all) > 0 {
		t.Fatal(all, err)
	}
}
