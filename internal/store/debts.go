package store

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// debt is a stretch of keys, both ends included, in which rows died or were
// removed since it was compacted: what a compaction there would give back.
type debt struct {
	lo, hi  string
	rows    int64 // deleted, or removed
	judged  int64 // rows when a compaction was last found not to be worth it
	removed bool  // rows were removed: nothing of them need be kept
	forced  bool  // reads merge its rows again and again
	agreed  bool  // the rest of what was found to be worth it
	first   time.Time
	last    time.Time
}

const (
	// maxDebts bounds a shard's debts; when there are more, neighbours are joined.
	maxDebts = 1024
	// maxDebtKey is how much of a key is kept; what is cut off makes a place wider.
	maxDebtKey = 256
	// freshDebts is how many are gathered before they are sorted in.
	freshDebts = 512
	// sampleDeletes is how many deletions one stands for where they are too
	// scattered to be told apart.
	sampleDeletes = 32
	// fewDebtRows is how few dead rows are no reason to write the memtable out,
	// unless they wait for longer than debtPatience.
	fewDebtRows  = 512
	debtPatience = 10 * time.Minute
	// debtQuiet is how long a place must be left alone, debtBusy how long a debt
	// waits for that, and removedWait how long a few removed rows wait.
	debtQuiet   = 2 * time.Second
	debtBusy    = 20 * time.Second
	forcedWait  = time.Second
	removedWait = 20 * time.Second
)

// debtBook is what a shard owes to its disk.
type debtBook struct {
	mu      sync.Mutex
	fresh   []debt
	places  []debt // sorted, disjoint
	sampled uint32
	forced  []forcedPlace
}

// forcedPlace is where a compaction was forced lately: rows that are written
// again and again there must not force one each time.
type forcedPlace struct {
	lo, hi string
	until  time.Time
}

const (
	maxForced = 128
	// A forced compaction keeps others away for at least so long, and for
	// forcedRest times as long as it took.
	leastForced = 2 * time.Second
	forcedRest  = 30
)

// add notes dead rows in lo <= key <= hi.
func (b *debtBook) add(d debt) {
	d.first = time.Now()
	d.last = d.first
	d.lo = d.lo[:min(len(d.lo), maxDebtKey)]
	if len(d.hi) > maxDebtKey {
		d.hi = string(prefixEnd([]byte(d.hi[:maxDebtKey])))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fresh = append(b.fresh, d)
	if len(b.fresh) >= freshDebts {
		b.settle()
	}
}

// sample notes one of many scattered deletions; most calls only count.
func (b *debtBook) sample(key []byte) {
	b.mu.Lock()
	b.sampled++
	take := b.sampled%sampleDeletes == 0
	b.mu.Unlock()
	if take {
		b.add(debt{lo: string(key), hi: string(key), rows: sampleDeletes})
	}
}

// settle sorts fresh debts in; b.mu is held.
func (b *debtBook) settle() {
	if len(b.fresh) == 0 {
		return
	}
	all := append(b.places, b.fresh...)
	b.fresh = b.fresh[:0]
	slices.SortStableFunc(all, func(x, y debt) int { return strings.Compare(x.lo, y.lo) })
	out := all[:0]
	for _, d := range all {
		if n := len(out) - 1; n >= 0 && d.lo <= out[n].hi {
			out[n].join(&d)
		} else {
			out = append(out, d)
		}
	}
	for len(out) > maxDebts {
		half := out[:0]
		for i := 0; i < len(out); i += 2 {
			d := out[i]
			if i+1 < len(out) {
				forced := d.forced && out[i+1].forced
				d.join(&out[i+1])
				d.forced = forced
			}
			half = append(half, d)
		}
		out = half
	}
	clear(all[len(out):])
	b.places = out
}

// join takes in a debt that begins at d or behind it.
func (d *debt) join(o *debt) {
	d.hi = max(d.hi, o.hi)
	d.rows += o.rows
	d.judged += o.judged
	d.removed = d.removed || o.removed
	d.forced, d.agreed = d.forced || o.forced, d.agreed && o.agreed
	if o.first.Before(d.first) {
		d.first = o.first
	}
	if o.last.After(d.last) {
		d.last = o.last
	}
}

// grown says that there is more than when it was judged last.
func (d *debt) grown() bool { return d.rows > d.judged+d.judged/4 }

// due says that it is time to look whether a compaction is worth it.
func (d *debt) due(now time.Time) bool {
	age, quiet := now.Sub(d.first), now.Sub(d.last)
	switch {
	case d.agreed:
		return true
	case d.forced:
		return age >= forcedWait
	case quiet < debtQuiet && age < debtBusy:
		return false
	case !d.grown():
		return false
	case d.rows >= fewDebtRows:
		return true
	case d.removed:
		return age >= removedWait
	}
	return age >= debtPatience
}

// take removes the debts to be looked at: when one is due, all of those that are
// left alone, since the memtable is written out for one as for many. all is for
// those too that are not.
func (b *debtBook) take(now time.Time, all bool) []debt {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settle()
	if !all && !b.anyDue(now) {
		return nil
	}
	var out []debt
	b.places = slices.DeleteFunc(b.places, func(d debt) bool {
		if !all && !d.due(now) && !d.ripe(now) {
			return false
		}
		out = append(out, d)
		return true
	})
	return out
}

// anyDue says whether it is time to look: for one debt, or for all that are left
// alone together.
func (b *debtBook) anyDue(now time.Time) bool {
	rows := int64(0)
	for i := range b.places {
		d := &b.places[i]
		if d.ripe(now) {
			rows += d.rows
		}
		if rows >= fewDebtRows || d.due(now) {
			return true
		}
	}
	return false
}

// ripe says that a debt is left alone and was not judged as it is.
func (d *debt) ripe(now time.Time) bool { return now.Sub(d.last) >= debtQuiet && d.grown() }

// giveBack returns debts that were taken and not paid.
func (b *debtBook) giveBack(debts []debt) {
	if len(debts) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fresh = append(b.fresh, debts...)
	if len(b.fresh) >= freshDebts {
		b.settle()
	}
}

// mayForce says whether a compaction of a place may be forced. It may not
// shortly after another one there.
func (b *debtBook) mayForce(lo, hi string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forced = slices.DeleteFunc(b.forced, func(f forcedPlace) bool { return !now.Before(f.until) })
	return len(b.forced) < maxForced &&
		!slices.ContainsFunc(b.forced, func(f forcedPlace) bool { return f.lo <= hi && lo <= f.hi })
}

// wasForced keeps others away from a place whose compaction took that long.
func (b *debtBook) wasForced(lo, hi string, now time.Time, took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forced = append(b.forced, forcedPlace{lo, hi, now.Add(max(leastForced, forcedRest*took))})
}

// show returns how many places and dead rows there are.
func (b *debtBook) show() (places int, rows int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settle()
	for i := range b.places {
		rows += b.places[i].rows
	}
	return len(b.places), rows
}

// forget drops debts that lie in a range that was compacted whole, but for
// those that grew since.
func (b *debtBook) forget(lo, hi string, since time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settle()
	b.places = slices.DeleteFunc(b.places, func(d debt) bool { return lo <= d.lo && d.hi < hi && d.last.Before(since) })
}
