package move

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestVerifyFindsPlantedErrors makes the copy or the applier wrong on purpose:
// the move must stop before it calls itself verified, and say which rows.
func TestVerifyFindsPlantedErrors(t *testing.T) {
	for name, p := range map[string]plant{
		"no low mark": plantLateLow, "lost deletes": plantLoseDeletes,
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20) {
				trouble := ""
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, seed)
					defer w.end()
					w.plant, w.lateFor = p, 30*time.Millisecond
					for i := range 4 {
						w.wg.Go(func() { w.app(i, 4) })
					}
					w.wg.Go(func() { _ = w.mover(w.ctx, "m", fate{}, false) })
					rec := w.until("verified or stopped", func(r *Record) bool { return r.State == Verified || r.Trouble != "" })
					trouble = rec.Trouble
					if trouble == "" {
						w.settle(2 * time.Second)
						if d := w.differences(w.dbs[Target]); len(d) > 0 {
							t.Errorf("verified, but %s", d[0])
						}
						return
					}
					if n := len(w.state.diffs["chat"]); n == 0 {
						t.Errorf("stopped by %q without a difference", trouble)
					}
				})
				if trouble != "" {
					if !strings.Contains(trouble, errDifferences.Error()) {
						t.Errorf("stopped for another reason: %s", trouble)
					}
					t.Logf("seed %d: %s", seed, trouble)
					return
				}
			}
			t.Error("the planted error never showed itself")
		})
	}
}

// TestModelFindsPlantedErrors makes sure that TestModel would notice a fence
// that lets writers through.
func TestModelFindsPlantedErrors(t *testing.T) {
	for name, plant := range map[string]func(w *world){
		"leaky fence": func(w *world) { w.dbs[Origin].leaky, w.dbs[Target].leaky = true, true },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(60) {
				found := ""
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, seed)
					defer w.end()
					w.planted = true
					plant(w)
					defer func() {
						if r := recover(); r != nil {
							found = fmt.Sprint(r)
							if _, ok := r.(foundOut); !ok {
								panic(r)
							}
						}
					}()
					w.live(20*time.Second, 2)
					w.compare()
				})
				if found != "" {
					t.Logf("seed %d: %s", seed, found)
					return
				}
			}
			t.Error("the planted error never showed itself")
		})
	}
}

// TestRepairMends takes rows off the target, adds some and changes some behind
// the move's back.
func TestRepairMends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.end()
		w.wg.Go(func() { w.app(0, 1) })
		w.wg.Go(func() { _ = w.mover(w.ctx, "m", fate{}, false) })
		w.untilState(Verified)
		db := w.dbs[Target]
		db.mu.Lock()
		n := 0
		for k, r := range db.tables[0] {
			switch n++; {
			case n <= 10:
				delete(db.tables[0], k)
			case n <= 20:
				r[1] = int8Of(-1)
			}
		}
		for id := range int64(10) {
			extra := Row{int8Of(1_000_000 + id), int8Of(1), []byte("extra")}
			db.tables[0][memKey(extra)] = extra
		}
		db.mu.Unlock()
		w.mustDo(VerbVerify, nil)
		rec := w.until("stopped", func(r *Record) bool { return r.Trouble != "" })
		if !strings.Contains(rec.Trouble, "differ") {
			t.Error(rec.Trouble)
		}
		kinds := map[DifferenceKind]int{}
		for _, d := range w.state.diffs["chat"] {
			kinds[d.Kind]++
		}
		t.Log(rec.Trouble, kinds)
		if kinds[Missing] == 0 || kinds[Extra] != 10 || kinds[Different] == 0 {
			t.Errorf("found %v", kinds)
		}
		w.mustDo(VerbRepair, nil)
		w.untilState(Verified)
		w.settle(2 * time.Second)
		w.compare()
	})
}

// TestMirrorFailure lets origin refuse rows after the cutover: the app goes on,
// the way back is closed until the rows are filled, and then open.
func TestMirrorFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4)
		defer w.end()
		w.wg.Go(func() { w.app(0, 1) })
		w.wg.Go(func() { _ = w.mover(w.ctx, "m", fate{}, false) })
		w.untilState(Verified)
		w.mustDo(VerbCutover, map[string]string{"skip-shadow": "true"})
		db := w.dbs[Origin]
		db.mu.Lock()
		db.refuses = func(_ int, r Row) error {
			if intOf(r[0])%5 == 0 {
				return fmt.Errorf("id %d breaks a constraint", intOf(r[0]))
			}
			return nil
		}
		db.mu.Unlock()
		sleep(w.ctx, 10*time.Second)
		if res := w.ask(VerbRollback, nil); res.OK || !strings.Contains(res.Text, "not filled") {
			t.Errorf("rollback with refused rows: %+v, %+v", res, w.state.recs["chat"].Live)
		}
		db.mu.Lock()
		db.refuses = nil
		db.mu.Unlock()
		w.mustDo(VerbRollback, nil)
		sleep(w.ctx, time.Second)
		w.settle(2 * time.Second)
		w.compare()
		if w.writes < 500 {
			t.Errorf("only %d writes: the app was held up", w.writes)
		}
	})
}

// TestRules stops a move whose rows break a rule on both sides alike.
func TestRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 5)
		defer w.end()
		w.dbs[Origin].tables[0][memKey(Row{int8Of(14)})] = Row{int8Of(14), nil, []byte("without a number")}
		w.wg.Go(func() { _ = w.mover(w.ctx, "m", fate{}, false) })
		rec := w.until("stopped", func(r *Record) bool { return r.Trouble != "" })
		if !strings.Contains(rec.Trouble, "numbered") || !strings.Contains(rec.Trouble, "id=14") {
			t.Error(rec.Trouble)
		}
		if err := w.dbs[Origin].write(Event{Op: Update, New: Row{int8Of(14), int8Of(1), []byte("x")}}); err != nil {
			t.Fatal(err)
		}
		w.mustDo(VerbVerify, nil)
		w.untilState(Verified)
	})
}

// TestAbort takes everything away again.
func TestAbort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 6)
		defer w.end()
		w.wg.Go(func() { _ = w.mover(w.ctx, "m", fate{}, false) })
		w.untilState(Verified)
		w.mustDo(VerbAbort, map[string]string{"drop-target": "true"})
		for part, db := range w.dbs {
			if len(db.streams)+len(db.writers) > 0 || db.fence.installed {
				t.Errorf("%s: streams %v, writers %v, fence %+v", Part(part), db.streams, db.writers, db.fence)
			}
		}
		if n := len(w.dbs[Target].tables[0]); n > 0 {
			t.Errorf("%d rows are left on the target", n)
		}
		if err := w.dbs[Origin].write(Event{Op: Insert, New: Row{int8Of(1), nil, nil}}); err != nil {
			t.Errorf("origin after the abort: %v", err)
		}
	})
}
