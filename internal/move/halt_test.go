package move

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestRefusedFinishLeavesFlows asks to finish while origin is still read. That
// halts both flows and is refused; they go on afterwards, and nothing is troubled.
func TestRefusedFinishLeavesFlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 11)
		defer w.end()
		w.wg.Go(func() { w.app(0, 1) })
		w.wg.Go(func() { _ = w.mover(w.ctx, "m", fate{}, false) })
		w.untilState(Verified)
		w.mustDo(VerbCutover, map[string]string{"skip-shadow": "true"})
		w.wg.Go(func() {
			for sleep(w.ctx, 10*time.Millisecond) {
				w.dbs[Origin].mu.Lock()
				w.dbs[Origin].scans++
				w.dbs[Origin].mu.Unlock()
			}
		})
		for range 8 {
			if r := w.ask(VerbFinish, nil); r == nil || r.OK {
				t.Fatalf("finishing while origin is read: %+v", r)
			}
			sleep(w.ctx, 3*time.Second)
			w.until("untroubled", func(r *Record) bool {
				if r.Trouble != "" {
					t.Fatalf("after a refused finish: %s", r.Trouble)
				}
				return true
			})
		}
		w.settle(5 * time.Second)
		w.compare()
	})
}
