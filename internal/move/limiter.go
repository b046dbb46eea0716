package move

import (
	"context"
	"strings"
	"sync"
	"time"
)

// limiter sets the pace of everything that a move reads for itself: one for
// the whole move. It falls, to a half at most, when the app's latency passes
// its budget, grows while there is room, and never falls below its least rate, so that a copy
// ends whatever the budget says.
type limiter struct {
	mu     sync.Mutex
	least  float64 // rows a second
	most   float64 // 0 for no bound
	rate   float64
	tokens float64
	at     time.Time
	used   float64 // rows taken since the last judgement
	judged time.Time
	slowed time.Time
	held   map[string]string             // why nothing at all may be read, by its first word
	reason string                        // why the rate is not higher
	window [8]struct{ at, rows float64 } // copied rows, for the rate shown
	slot   int
	now    func() time.Time
}

func newLimiter(least, most float64) *limiter {
	start := max(least, 5000)
	if most > 0 {
		start = min(start, most)
	}
	return &limiter{least: least, most: most, rate: start, now: time.Now, held: map[string]string{}}
}

// chunkRows is how many rows to read at once: a tenth of a second's.
func (l *limiter) chunkRows() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(min(max(l.rate/10, 100), 4000))
}

// wait takes n rows and returns when they may be read.
func (l *limiter) wait(ctx context.Context, n int) error {
	l.mu.Lock()
	l.refill()
	l.tokens -= float64(n)
	l.used += float64(n)
	l.mu.Unlock()
	for {
		l.mu.Lock()
		l.refill()
		need := time.Duration(-l.tokens / l.rate * float64(time.Second))
		stopped := len(l.held) > 0
		l.mu.Unlock()
		if need <= 0 && !stopped {
			return ctx.Err()
		}
		if stopped {
			need = 50 * time.Millisecond
		}
		if !sleep(ctx, min(need, 50*time.Millisecond)) {
			return ctx.Err()
		}
	}
}

func (l *limiter) refill() {
	now := l.now()
	if !l.at.IsZero() && len(l.held) == 0 {
		l.tokens = min(l.tokens+now.Sub(l.at).Seconds()*l.rate, l.rate/10)
	}
	l.at = now
}

// judge takes a measurement made since the last change for the worse: how much
// of the budget is used, 1 being all of it.
func (l *limiter) judge(usage float64, by string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refill()
	now := l.now()
	passed := now.Sub(l.judged).Seconds()
	busy := l.judged.IsZero() || l.used > 0.6*passed*l.rate
	l.judged, l.used = now, 0
	switch {
	case usage > 1:
		l.rate = max(l.rate*min(max(0.9/usage, 0.5), 0.9), l.least)
		l.slowed = now
		l.reason = by
		l.tokens = min(l.tokens, 0)
	case usage < 0.85 && busy:
		l.rate *= 1.2
		l.reason = ""
		if l.most > 0 && l.rate >= l.most {
			l.rate = l.most
			l.reason = "the highest rate of the move file"
		}
	}
}

// since is the time from which measurements tell about the present rate.
func (l *limiter) since() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.slowed
}

// hold holds everything up for a reason, or no longer for this one.
func (l *limiter) hold(why string, on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refill()
	kind, _, _ := strings.Cut(why, " ")
	if on {
		l.held[kind] = why
	} else {
		delete(l.held, kind)
	}
}

// copied counts rows that arrived.
func (l *limiter) copied(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := float64(l.now().UnixNano()) / 1e9
	if last := &l.window[l.slot]; now-last.at > 1 {
		l.slot = (l.slot + 1) % len(l.window)
		l.window[l.slot] = struct{ at, rows float64 }{now, 0}
	}
	l.window[l.slot].rows += float64(n)
}

// figures returns the rate of the last seconds, the rate allowed, and why not
// more.
func (l *limiter) figures() (rate, limit float64, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := float64(l.now().UnixNano()) / 1e9
	var rows, oldest float64
	oldest = now
	for _, w := range l.window {
		if w.at > now-10 {
			rows += w.rows
			oldest = min(oldest, w.at)
		}
	}
	if now-oldest > 0.5 {
		rate = rows / (now - oldest)
	}
	reason = l.reason
	if len(l.held) > 0 {
		for _, why := range l.held {
			reason = why
		}
	}
	return rate, l.rate, reason
}
