package move

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// dropStream takes a stream away behind the move's back, as by a slot dropped
// or left behind by a failover, and wakes those who read it.
func (db *memDB) dropStream(name string) {
	db.mu.Lock()
	defer db.mu.Unlock()
	delete(db.streams, name)
	close(db.news)
	db.news = make(chan struct{})
}

// TestStreamLost drops each direction's stream: the move stops instead of
// skipping what it did not see, and goes on once every row was compared again.
func TestStreamLost(t *testing.T) {
	for _, cutOver := range []bool{false, true} {
		t.Run(map[bool]string{false: "before the cutover", true: "after it"}[cutOver], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 7)
				defer w.end()
				w.wg.Go(func() { w.app(0, 1) })
				w.wg.Go(func() { _ = w.mover(w.ctx, "m", fate{}, false) })
				w.untilState(Verified)
				db, stream := w.dbs[Origin], "chat_fwd"
				if cutOver {
					w.mustDo(VerbCutover, map[string]string{"skip-shadow": "true"})
					db, stream = w.dbs[Target], "chat_rev"
				}
				db.dropStream(stream)
				rec := w.until("stopped", func(r *Record) bool { return r.Trouble != "" })
				if !strings.Contains(rec.Trouble, ErrStreamLost.Error()) {
					t.Error(rec.Trouble)
				}
				sleep(w.ctx, 5*time.Second) // changes that nobody follows
				if res := w.ask(VerbResume, nil); res.OK || !strings.Contains(res.Text, "--reopen") {
					t.Errorf("resumed a lost stream: %+v", res)
				}
				w.mustDo(VerbResume, map[string]string{"reopen": "true"})
				if cutOver {
					if res := w.ask(VerbRollback, nil); res.OK {
						t.Error("rolled back before the gap was mended")
					}
				}
				sleep(w.ctx, 20*time.Second)
				if n := len(w.state.diffs["chat"]); n == 0 {
					t.Error("what was skipped was not found")
				}
				w.mustDo(VerbRepair, nil)
				if cutOver {
					w.mustDo(VerbRollback, nil)
				} else {
					w.untilState(Verified)
				}
				w.settle(5 * time.Second)
				w.compare()
			})
		})
	}
}

// TestOnce carries the whole move on by commands alone, no mover running
// beside them.
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 8)
		defer w.end()
		w.wg.Go(func() { w.app(0, 1) })
		once := func(verb string, args map[string]string) *Result {
			t.Helper()
			store := &memStore{memState: w.state}
			if verb != "" {
				if _, err := store.Ask(w.ctx, "chat", Intent{Verb: verb, Args: args}); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.mover(w.ctx, "once", fate{}, true); err != nil {
				t.Fatal(err)
			}
			rec, err := store.Load(w.ctx, "chat")
			if err != nil {
				t.Fatal(err)
			}
			if verb != "" && rec.Result == nil {
				t.Fatalf("no result of %s", verb)
			}
			return rec.Result
		}
		// A refused command and a dry run do nothing else.
		for _, args := range []map[string]string{nil, {"dry-run": "true"}} {
			if res := once(VerbCutover, args); res.OK {
				t.Errorf("a move that has not begun cuts over: %s", res.Text)
			}
			if rec, err := (&memStore{memState: w.state}).Load(w.ctx, "chat"); err != nil || rec.State != Planned {
				t.Errorf("a refused command brought the move to %s (%v)", rec.State, err)
			}
		}
		once("", nil)
		for _, verb := range []string{VerbVerify, VerbRepair, VerbCutover, VerbRollback, VerbCutover} {
			if res := once(verb, map[string]string{"skip-shadow": "true"}); !res.OK {
				t.Errorf("%s: %s", verb, res.Text)
			}
			sleep(w.ctx, time.Second)
		}
		w.settle(time.Second)
		once(VerbRepair, nil)
		if res := once(VerbRollback, nil); !res.OK { // drains the mirror
			t.Error(res.Text)
		}
		w.compare()
	})
}

// TestSwitchReads needs shadow reads that agree, and takes reads back when the
// target is slow.
func TestSwitchReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 9)
		defer w.end()
		w.wg.Go(func() { _ = w.mover(w.ctx, "m", fate{}, false) })
		store := &memStore{memState: w.state}
		node := Node{Name: "shadow", OriginReadP95: 2, TargetReadP95: 3}
		report := func() {
			t.Helper()
			rec, err := store.Load(w.ctx, "chat")
			if err != nil {
				t.Fatal(err)
			}
			node.Epoch = rec.ShadowSince
			if err := store.ReportNode(w.ctx, "chat", &node); err != nil {
				t.Fatal(err)
			}
		}
		w.untilState(Verified)
		refused := func(word string) {
			t.Helper()
			report()
			if res := w.ask(VerbSwitchReads, map[string]string{"percent": "50"}); res.OK || !strings.Contains(res.Text, word) {
				t.Errorf("%+v, want a refusal with %q", res, word)
			}
		}
		refused("verified")
		w.mustDo(VerbShadow, nil)
		refused("0 shadow reads were compared, the mark is 1000")
		node.Compared, node.Different = 2000, 1
		refused("1 of 2000 shadow reads differed")
		w.mustDo(VerbShadow, nil)
		node.Compared, node.Different, node.TargetReadP95 = 2000, 0, 5
		refused("the mark is 2 times the 2.00 ms of origin")
		node.TargetReadP95 = 3
		report()
		w.mustDo(VerbSwitchReads, map[string]string{"percent": "50"})
		rec := w.untilState(ReadsSwitched)
		if rec.ReadPercent != 50 {
			t.Errorf("%d%%", rec.ReadPercent)
		}
		node.TargetReadP95 = 4.5
		report()
		rec = w.untilState(Shadowing)
		if rec.ReadPercent != 0 {
			t.Errorf("%d%% of the reads stay at a slow target", rec.ReadPercent)
		}
		node.TargetReadP95 = 3
		report()
		w.mustDo(VerbSwitchReads, map[string]string{"percent": "100"})
		w.mustDo(VerbCutover, nil)
	})
}

// TestBusyFence leaves everything as before when writers do not end.
func TestBusyFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 10)
		defer w.end()
		w.wg.Go(func() { _ = w.mover(w.ctx, "m", fate{}, false) })
		w.untilState(Verified)
		db := w.dbs[Origin]
		db.mu.Lock()
		db.open = 1
		db.mu.Unlock()
		res := w.ask(VerbCutover, map[string]string{"skip-shadow": "true"})
		if res.OK || !strings.Contains(res.Text, ErrFenceBusy.Error()) {
			t.Errorf("%+v", res)
		}
		w.untilState(Verified)
		if err := db.write(Event{Op: Insert, New: Row{int8Of(1), nil, nil}}); err != nil {
			t.Errorf("a writer after the attempt: %v", err)
		}
		db.mu.Lock()
		db.open = 0
		db.mu.Unlock()
		w.mustDo(VerbCutover, map[string]string{"skip-shadow": "true"})
	})
}

// TestFenceDeadline makes the store slow inside the fence: at the deadline
// writers go on at origin and nothing has changed.
func TestFenceDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 11)
		defer w.end()
		slow := false
		hook := func(ctx context.Context, call string) error {
			w.mu.Lock()
			d := time.Millisecond
			if slow && (call == "transition" || call == "mark") {
				d = 1900 * time.Millisecond
			}
			w.mu.Unlock()
			if !sleep(ctx, d) {
				return ctx.Err()
			}
			return nil
		}
		w.wg.Go(func() {
			o := w.options("m", false, hook)
			if err := Run(w.ctx, "chat", o); err != nil && w.ctx.Err() == nil && !errors.Is(err, ErrLeaseLost) {
				t.Error(err)
			}
		})
		w.wg.Go(func() { w.app(0, 1) })
		w.untilState(Verified)
		sleep(w.ctx, 2*time.Second)
		w.mu.Lock()
		slow = true
		w.mu.Unlock()
		res := w.ask(VerbCutover, map[string]string{"skip-shadow": "true"})
		if res.OK {
			t.Errorf("cut over past the deadline: %+v", res)
		}
		w.mu.Lock()
		slow = false
		w.mu.Unlock()
		if rec := w.untilState(Verified); rec.Canonical != Origin {
			t.Error("the target is canonical")
		}
		w.mustDo(VerbCutover, map[string]string{"skip-shadow": "true"})
		sleep(w.ctx, time.Second)
		w.settle(3 * time.Second)
		w.compare()
	})
}
