package exec

import (
	"strings"
	"sync"
	"time"

	"varve/internal/store"
)

// Reads that walk as many tombstones are noted; of as many partitions at most.
const (
	walkNoted  = 100
	walksKept  = 1000
	walkKeyMax = 512
)

// walk is what reads met in one partition.
type walk struct {
	last             time.Time
	count            int64
	mostWalk, jumped int64
}

type walkPlace struct{ keyspace, table, key string }

// walks keeps the partitions in which reads walked many tombstones lately. A
// full table forgets the one that was walked longest ago.
type walks struct {
	mu sync.Mutex
	m  map[walkPlace]walk
}

func (w *walks) note(p walkPlace, st *store.ReadStats, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.m == nil {
		w.m = map[walkPlace]walk{}
	}
	x, ok := w.m[p]
	if !ok && len(w.m) >= walksKept {
		var oldest walkPlace
		var at time.Time
		for k, v := range w.m {
			if at.IsZero() || v.last.Before(at) {
				oldest, at = k, v.last
			}
		}
		delete(w.m, oldest)
	}
	x.last = now
	x.count++
	x.mostWalk, x.jumped = max(x.mostWalk, st.Walked), max(x.jumped, st.Jumped)
	w.m[p] = x
}

// of are the partitions of a table by their keys.
func (w *walks) of(keyspace, table string) map[string]walk {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]walk{}
	for p, x := range w.m {
		if p.keyspace == keyspace && p.table == table {
			out[p.key] = x
		}
	}
	return out
}

// noteWalk notes a read of one partition that walked many tombstones, and
// checks partition_tombstones, of which such a read tells a part.
func (r *selectRun) noteWalk() {
	w := r.plan.where
	if r.plan.virtual != nil || w.keyRange || w.usesIndex || r.at >= len(r.sc.keys) {
		return
	}
	x, t := r.x, r.plan.table
	rails := &x.e.opts.Limits.Guardrails
	threshold, failed, warned := rails.over(GuardPartitionTombstones, r.stats.Walked+r.stats.JumpTombs)
	if r.stats.Walked < walkNoted && !failed && !warned {
		return
	}
	comps, err := r.sc.keys[r.at].Components(t)
	if err != nil {
		return
	}
	key := cutText(literalsText(t.PartitionKey, comps), walkKeyMax)
	if r.stats.Walked >= walkNoted {
		x.e.walks.note(walkPlace{t.Keyspace, t.Name, key}, &r.stats, x.e.opts.Clock())
	}
	if failed || warned {
		what := strings.Join([]string{t.Keyspace, ".", t.Name, ":", key}, "")
		x.e.logGuardrail(GuardPartitionTombstones, what, r.stats.Walked+r.stats.JumpTombs, threshold, failed)
	}
}

// logGuardrail logs a violation that no statement can be blamed for.
func (e *Engine) logGuardrail(g Guardrail, what string, value, threshold int64, failed bool) {
	// The number grows; what is logged once in a while is that the place is over.
	if !e.opts.Limits.Guardrails.mayLog(g.Name()+" "+what, e.opts.Clock()) {
		return
	}
	message := g.message(what, value, threshold, failed)
	if failed {
		e.opts.Logger.Error(message)
		return
	}
	e.opts.Logger.Warn(message)
}
