package store

import (
	"context"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// A compaction that the store asks for must give back at least half of what it
// rewrites, so that each byte that lives is rewritten once for one that died.
// Removed rows, which partition and range deletions leave in one piece, may
// cost more.
const (
	worthShare        = 2
	worthRemovedShare = 16
	worthRemovedBytes = 1 << 20
	// worthBytes is the least that a compaction must give back.
	worthBytes = 64 << 10
	// maxGroups is how many stretches one look judges.
	maxGroups = 64
	// sliceBytes is about how much one compaction rewrites, so that the rate can be kept.
	sliceBytes = 64 << 20
)

// reclaimLoop purges spans that may go and returns the space of what is dead.
func (s *Store) reclaimLoop(ctx context.Context) {
	s.periodically(ctx, func() error { return s.reclaimTick(ctx, time.Now(), false) })
}

// reclaimTick is one round of reclaimLoop; all leaves nothing for later.
func (s *Store) reclaimTick(ctx context.Context, now time.Time, all bool) error {
	s.reclaimMu.Lock()
	defer s.reclaimMu.Unlock()
	for _, def := range s.definitions() {
		tbl := s.tableFor(def)
		for _, sh := range s.shards {
			if err := sh.purgeDue(ctx, tbl, s.gcBefore(tbl), now, all); err != nil {
				return err
			}
		}
	}
	for _, sh := range s.shards {
		if err := sh.recountAsked(ctx); err != nil {
			return err
		}
		if err := sh.reclaim(ctx, now, all); err != nil {
			return err
		}
	}
	return nil
}

// reclaim writes the memtable out where something waits for that, forgets
// purged spans, and compacts what is worth it.
func (sh *shard) reclaim(ctx context.Context, now time.Time, all bool) error {
	gone := sh.takeGone(now, all)
	var debts []debt
	if all || !now.Before(sh.nextReclaim) {
		debts = sh.debts.take(now, all)
	}
	if len(gone) == 0 && len(debts) == 0 {
		return nil
	}
	if err := sh.flush(ctx); err != nil {
		sh.debts.giveBack(debts)
		sh.giveGone(gone)
		return err
	}
	if err := sh.dropSpans(ctx, gone); err != nil {
		sh.debts.giveBack(debts)
		return err
	}
	return sh.payDebts(ctx, debts, now, all)
}

// payDebts compacts those of some debts that are worth it, at no more than the
// rate that is allowed.
func (sh *shard) payDebts(ctx context.Context, debts []debt, now time.Time, all bool) error {
	if len(debts) == 0 {
		return nil
	}
	sh.s.metrics.reclaimLooks.Add(1)
	groups, err := sh.groupDebts(debts)
	if err != nil {
		sh.debts.giveBack(debts)
		return err
	}
	for i, g := range groups {
		if ctx.Err() != nil || !all && (i >= maxGroups || now.Before(sh.nextReclaim)) {
			for _, rest := range groups[i:] {
				sh.debts.giveBack(rest)
			}
			return ctx.Err()
		}
		cost := int64(0)
		for len(g) > 0 && err == nil {
			var c int64
			c, g, err = sh.payGroup(ctx, g, now)
			if cost += c; !all {
				break
			}
		}
		sh.debts.giveBack(g)
		if err != nil {
			for _, rest := range groups[i+1:] {
				sh.debts.giveBack(rest)
			}
			return err
		}
		if cost > 0 {
			wait := time.Duration(float64(cost) / float64(sh.s.opts.ReclaimRate) * float64(time.Second))
			sh.nextReclaim = now.Add(wait)
		}
	}
	return nil
}

// groupDebts puts those together that lie in the same files of the deepest
// level, which a compaction would rewrite whole.
func (sh *shard) groupDebts(debts []debt) ([][]debt, error) {
	slices.SortFunc(debts, func(x, y debt) int { return strings.Compare(x.lo, y.lo) })
	hi := debts[0].hi
	for i := range debts {
		hi = max(hi, debts[i].hi)
	}
	levels, err := sh.db.SSTables(pebble.WithKeyRangeFilter([]byte(debts[0].lo), []byte(hi+"\x00")))
	if err != nil {
		return nil, err
	}
	var out [][]debt
	prevLevel, prevFile := -1, -1
	for _, d := range debts {
		level, from, to := deepest(levels, d.lo, d.hi)
		n := len(out) - 1
		apart := n < 0 || level != prevLevel || level > 0 && from > prevFile
		if !apart && level == 0 {
			between, _, _ := deepest(levels, out[n][len(out[n])-1].lo, d.lo)
			apart = between > 0
		}
		if apart {
			out = append(out, []debt{d})
		} else {
			out[n] = append(out[n], d)
		}
		prevLevel, prevFile = level, to
	}
	return out, nil
}

// deepest finds the files of the deepest level that overlap a range; level 0 is taken as one.
func deepest(levels [][]pebble.SSTableInfo, lo, hi string) (level, from, to int) {
	for level = len(levels) - 1; level > 0; level-- {
		files := levels[level]
		from = sort.Search(len(files), func(i int) bool { return string(files[i].Largest.UserKey) >= lo })
		to = sort.Search(len(files), func(i int) bool { return string(files[i].Smallest.UserKey) > hi }) - 1
		if from <= to {
			return level, from, to
		}
	}
	return 0, 0, 0
}

// yield is what a compaction of a range would do.
type yield struct {
	runs    int   // sorted runs that hold something there
	deletes int64 // of the engine's, and range deletions
	cost    int64 // bytes of files that it would rewrite
	bytes   int64 // of them in the range
	entries int64 // in the range
}

func (sh *shard) yieldOf(lo, hi string) (yield, error) {
	levels, err := sh.db.SSTables(
		pebble.WithKeyRangeFilter([]byte(lo), []byte(hi+"\x00")), pebble.WithProperties(), pebble.WithApproximateSpanBytes())
	var y yield
	if err != nil {
		return y, err
	}
	for level, files := range levels {
		if level > 0 && len(files) > 0 {
			y.runs++
		}
		for i := range files {
			f := &files[i]
			if level == 0 {
				y.runs++
			}
			share := min(1, float64(f.ApproximateSpanBytes)/float64(max(1, f.Size)))
			y.cost += int64(f.Size)
			y.bytes += int64(f.ApproximateSpanBytes)
			y.entries += int64(share * float64(f.Properties.NumEntries))
			y.deletes += int64(f.Properties.NumDeletions)
		}
	}
	return y, nil
}

// gain estimates how many bytes go when rows dead rows are merged or dropped.
func (y *yield) gain(rows int64) int64 {
	others := max(1, y.entries-rows) // most deletions are entries too
	return int64(min(1, float64(rows)/float64(others)) * float64(y.bytes))
}

// payGroup compacts a group's range, or the start of it, if that is worth it.
// cost is what was rewritten, left what is still to be done.
func (sh *shard) payGroup(ctx context.Context, g []debt, now time.Time) (cost int64, left []debt, err error) {
	lo, hi := g[0].lo, g[0].hi
	var sum debt
	for i := range g {
		hi = max(hi, g[i].hi)
		sum.rows += g[i].rows
		sum.removed, sum.forced, sum.agreed = sum.removed || g[i].removed, sum.forced || g[i].forced, sum.agreed || g[i].agreed
	}
	y, err := sh.yieldOf(lo, hi)
	if err != nil {
		return 0, g, err
	}
	if y.runs < 2 && y.deletes == 0 {
		return 0, nil, nil // it is merged already
	}
	forced := !sum.agreed && !y.worth(&sum)
	if forced {
		if !sum.forced || !sh.debts.mayForce(lo, hi, now) {
			for i := range g {
				g[i].judged, g[i].forced = g[i].rows, false
			}
			sh.debts.giveBack(g)
			sh.s.metrics.reclaimPostponed.Add(1)
			return 0, nil, nil
		}
		sh.s.metrics.reclaimForced.Add(1)
	}
	to, more, err := sh.slice(lo, hi)
	if err != nil {
		return 0, g, err
	}
	start := time.Now()
	cost, err = sh.compactPaying(ctx, lo, to)
	if forced {
		sh.debts.wasForced(lo, hi, now, time.Since(start))
	}
	if err != nil || !more {
		return cost, nil, err
	}
	return cost, restOf(g, to), nil
}

// worth says whether the debts that sum adds up are worth a compaction.
func (y *yield) worth(sum *debt) bool {
	gain := y.gain(sum.rows)
	if gain < worthBytes {
		return false
	}
	return gain*worthShare >= y.cost || sum.removed && (gain >= worthRemovedBytes || gain*worthRemovedShare >= y.cost)
}

// restOf is what is left of debts once all below key was compacted.
func restOf(g []debt, key string) []debt {
	var out []debt
	for _, d := range g {
		if d.hi < key {
			continue
		}
		if d.lo < key {
			d.rows = max(1, int64((1-fraction(d.lo, key, d.hi))*float64(d.rows)))
			d.lo = key
		}
		d.agreed = true
		out = append(out, d)
	}
	return out
}

// compactPaying compacts lo <= key < hi, and shows what that gave.
func (sh *shard) compactPaying(ctx context.Context, lo, hi string) (cost int64, err error) {
	m := &sh.s.metrics
	start := time.Now()
	before, err := sh.yieldOf(lo, hi)
	if err != nil {
		return 0, err
	}
	if err := sh.compact(ctx, []byte(lo), []byte(hi)); err != nil {
		return before.cost, err
	}
	m.reclaims.Add(1)
	m.reclaimCost.Add(before.cost)
	m.reclaimNanos.Add(int64(time.Since(start)))
	after, err := sh.db.EstimateDiskUsage([]byte(lo), []byte(hi+"\x00"))
	m.reclaimGain.Add(max(0, before.bytes-int64(after)))
	return before.cost, err
}

// slice says how far one compaction goes: to the end of a file of the deepest
// level after about sliceBytes, or past hi.
func (sh *shard) slice(lo, hi string) (to string, more bool, err error) {
	end := hi + "\x00"
	levels, err := sh.db.SSTables(pebble.WithKeyRangeFilter([]byte(lo), []byte(end)))
	if err != nil {
		return "", false, err
	}
	level, from, last := deepest(levels, lo, hi)
	if level == 0 {
		return end, false, nil
	}
	size := uint64(0)
	for i := from; i < last; i++ {
		f := &levels[level][i]
		if size += f.Size; size < sliceBytes {
			continue
		}
		if key := string(f.Largest.UserKey) + "\x00"; key > lo && key < hi {
			return key, true, nil
		}
	}
	return end, false, nil
}
