package move

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestStreamReopenedPastChange leaves a change in the stream that the target
// cannot keep, mends nothing but the row at origin, and begins the stream anew:
// resuming alone meets the same change again.
func TestStreamReopenedPastChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 9)
		defer w.end()
		w.wg.Go(func() { w.app(0, 1) })
		w.wg.Go(func() { _ = w.mover(w.ctx, "m", fate{}, false) })
		w.untilState(Verified)
		db := w.dbs[Target]
		first := true
		var bad string
		db.mu.Lock()
		db.refuses = func(_ int, r Row) error {
			told := string(r[0]) + "/" + string(r[len(r)-1])
			if first {
				first, bad = false, told
			}
			if told == bad {
				return errors.New("the value has no place here")
			}
			return nil
		}
		db.mu.Unlock()
		stopped := func(r *Record) bool { return r.Trouble != "" }
		w.until("stopped", stopped)
		w.mustDo(VerbResume, nil)
		w.until("stopped again", stopped)
		sleep(w.ctx, 20*time.Second) // the app writes the row again
		w.mustDo(VerbResume, map[string]string{"reopen": "true"})
		sleep(w.ctx, 20*time.Second)
		db.mu.Lock()
		db.refuses = nil
		db.mu.Unlock()
		w.mustDo(VerbRepair, nil)
		w.untilState(Verified)
		w.settle(5 * time.Second)
		w.compare()
	})
}
