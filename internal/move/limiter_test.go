package move

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLimiter lets an app's latency depend on the rate and looks at what the
// limiter makes of it.
func TestLimiter(t *testing.T) {
	for _, tt := range []struct {
		name            string
		least, most     float64
		bears           float64 // rows a second at which the budget is used up
		lowest, highest float64 // rates that are right in the end
	}{
		{"room without end", 500, 50_000, 1e9, 49_000, 50_000},
		{"an app that bears some", 500, 0, 20_000, 9_000, 26_000},
		{"an app that bears nothing", 500, 0, 1, 499, 501},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				l := newLimiter(tt.least, tt.most)
				rows, late := 0, 0
				go func() {
					for ctx.Err() == nil {
						n := l.chunkRows()
						if l.wait(ctx, n) != nil {
							return
						}
						rows += n
						if ctx.Err() == nil && time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) > 30*time.Second {
							late += n
						}
					}
				}()
				for sleep(ctx, watchEvery) {
					_, rate, _ := l.figures()
					l.judge(rate/tt.bears, "the app")
				}
				synctest.Wait()
				if rate := float64(late) / 30; rate < tt.lowest*0.95 || rate > tt.highest*1.05 {
					t.Errorf("%.0f rows/s in the second half, want %.0f to %.0f", rate, tt.lowest, tt.highest)
				}
			})
		})
	}
}

func TestLimiterHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(500, 0)
		l.hold("paused", true)
		l.hold("origin may keep only 5 bytes of log more", true)
		done := make(chan error, 1)
		go func() { done <- l.wait(t.Context(), 1000) }()
		sleep(t.Context(), time.Hour)
		if _, _, reason := l.figures(); reason != "paused" && !strings.HasPrefix(reason, "origin") {
			t.Errorf("reason %q", reason)
		}
		l.hold("paused", false)
		sleep(t.Context(), time.Second)
		select {
		case <-done:
			t.Fatal("rows were read though one reason stands")
		default:
		}
		l.hold("origin may keep only 7 bytes of log more", false)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := l.wait(ctx, 1); err == nil {
			t.Error("no error of a context that ended")
		}
	})
}
