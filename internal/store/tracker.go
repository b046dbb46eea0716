package store

import (
	"sync"
	"time"
)

// deleteTracker gathers deletions by partition until they are worth a task.
type deleteTracker struct {
	mu    sync.Mutex
	parts map[string]*tracked // row deletions
	heads map[string]*tracked // range and partition deletions
	wide  map[*table]*tracked // those spread over partitions, few in each
	next  map[string]*backoff // reads that walked, by where they began
}

type tracked struct {
	tbl         *table
	lo, hi      []byte
	n           int64
	threshold   int64
	first, last time.Time
	until       time.Time // of wide: no task before that
}

type backoff struct {
	until time.Time
	wait  time.Duration
}

const (
	// firstThreshold is after how many row deletions a partition is coalesced
	// at once; it doubles while the deletions come shuffled.
	firstThreshold = 256
	maxThreshold   = 64 << 10
	// maxHeads is the same for range deletions, of which the first is looked at at once.
	maxHeads   = 4096
	maxTracked = 8192
	// quietTime is how long a partition must be left alone before few deletions
	// are coalesced, and headPatience how long range deletions wait at most.
	quietTime    = 150 * time.Millisecond
	headPatience = time.Second
	// firstWide is after how many deletions spread over partitions a table is
	// scanned between them, leastWide after how many when no more come. A scan
	// takes at most one part in wideShare of the time.
	firstWide = 4096
	leastWide = 256
	maxWide   = 1 << 20
	wideQuiet = 400 * time.Millisecond
	wideShare = 20
)

// take extends what is tracked by lo <= key <= hi and counts n deletions.
func (t *tracked) take(lo, hi []byte, n int64, now time.Time) {
	if t.n == 0 {
		t.lo, t.hi = append(t.lo[:0], lo...), append(t.hi[:0], hi...)
		t.first = now
	} else {
		if string(lo) < string(t.lo) {
			t.lo = append(t.lo[:0], lo...)
		}
		if string(hi) > string(t.hi) {
			t.hi = append(t.hi[:0], hi...)
		}
	}
	t.n += n
	t.last = now
}

// task makes a task of what was gathered, and begins anew.
func (t *tracked) task(sh *shard, prefix int) *task {
	x := &task{
		sh: sh, tbl: t.tbl, lo: append([]byte(nil), t.lo...), hi: append([]byte(nil), t.hi...), prefix: prefix, dead: t.n,
	}
	t.n = 0
	return x
}

// note counts a deletion that was committed.
func (d *deleteTracker) note(sh *shard, b *Batch, o *op) {
	key := b.buf[o.key:o.keyEnd]
	if o.kind != opRow {
		d.noteHead(sh, b, o)
		return
	}
	n := o.preEnd - o.key
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.parts[alias(key[:n])]
	if t == nil {
		if d.parts == nil {
			d.parts = map[string]*tracked{}
		}
		if len(d.parts) >= maxTracked {
			sh.debts.sample(key)
			d.noteWide(o.tbl, key, key, 1, now)
			return
		}
		t = &tracked{tbl: o.tbl, threshold: firstThreshold}
		d.parts[string(key[:n])] = t
	}
	t.take(key, key, 1, now)
	if t.n >= t.threshold {
		d.hand(sh, t, n)
	}
}

// noteHead asks for the rows that a range or partition deletion covers: for
// the first one at once, for many in a row together.
func (d *deleteTracker) noteHead(sh *shard, b *Batch, o *op) {
	lo := append([]byte(nil), b.buf[o.key:o.keyEnd]...)
	lo[tablePrefixBytes-1] = familyRow
	n := o.preEnd - o.key
	var hi []byte
	if o.kind == opRange {
		hi = append(append([]byte(nil), lo[:n]...), b.buf[o.val:o.valEnd]...)
	} else {
		hi = append(append([]byte(nil), lo...), suffixEnd)
		lo = append(lo, suffixStatic)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.heads[alias(lo[:n])]
	if t == nil {
		t = &tracked{tbl: o.tbl, threshold: 1}
		if len(d.heads) < maxTracked {
			if d.heads == nil {
				d.heads = map[string]*tracked{}
			}
			d.heads[string(lo[:n])] = t
		}
	}
	t.take(lo, hi, 1, time.Now())
	if t.n >= t.threshold {
		d.handHead(sh, t, n)
	}
}

// noteWide counts deletions spread over partitions; d.mu is held.
func (d *deleteTracker) noteWide(tbl *table, lo, hi []byte, n int64, now time.Time) {
	t := d.wide[tbl]
	if t == nil {
		if d.wide == nil {
			d.wide = map[*table]*tracked{}
		}
		t = &tracked{tbl: tbl, threshold: firstWide}
		d.wide[tbl] = t
	}
	t.take(lo, hi, n, now)
}

// hand turns what was gathered into a task; d.mu is held.
func (d *deleteTracker) hand(sh *shard, t *tracked, prefix int) {
	sh.debts.add(debt{lo: string(t.lo), hi: string(t.hi), rows: t.n})
	x := t.task(sh, prefix)
	t.threshold = min(t.threshold*2, maxThreshold)
	if !sh.s.work.add(x) {
		sh.s.metrics.tasksLost.Add(1)
	}
}

func (d *deleteTracker) handHead(sh *shard, t *tracked, prefix int) {
	x := t.task(sh, prefix)
	x.sweep = true
	t.threshold = min(t.threshold*2, maxHeads)
	if !sh.s.work.add(x) {
		sh.s.metrics.tasksLost.Add(1)
		t.tbl.sweepSoon.Store(true)
	}
}

// flush hands over the partitions that were left alone for a while (or all),
// and forgets those without deletions.
func (d *deleteTracker) flush(sh *shard, all bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for p, t := range d.parts {
		switch {
		case t.n == 0:
			if all || now.Sub(t.last) > 10*quietTime {
				delete(d.parts, p)
			}
		case all || now.Sub(t.last) >= quietTime:
			if t.n >= sh.s.opts.spanRows/2 {
				d.hand(sh, t, len(p))
			} else {
				sh.debts.add(debt{lo: string(t.lo), hi: string(t.hi), rows: t.n})
				d.noteWide(t.tbl, t.lo, t.hi, t.n, t.last)
			}
			delete(d.parts, p)
		}
	}
	for p, t := range d.heads {
		switch {
		case t.n > 0 && (all || now.Sub(t.last) >= quietTime || now.Sub(t.first) >= headPatience):
			d.handHead(sh, t, len(p))
		case t.n == 0 && (all || now.Sub(t.last) > 10*quietTime):
			delete(d.heads, p)
		}
	}
	for tbl, t := range d.wide {
		d.flushWide(sh, tbl, t, now, all)
	}
	for k, b := range d.next {
		if now.Sub(b.until) > time.Minute {
			delete(d.next, k)
		}
	}
}

// flushWide asks for a scan between deletions that are spread over partitions,
// once there are many.
func (d *deleteTracker) flushWide(sh *shard, tbl *table, t *tracked, now time.Time, all bool) {
	if all {
		if t.n >= sh.s.opts.spanRows/2 {
			d.handWide(sh, t)
		}
		delete(d.wide, tbl)
		return
	}
	quiet := now.Sub(t.last)
	switch {
	case now.Before(t.until):
	case t.n >= t.threshold || t.n >= leastWide && quiet >= wideQuiet:
		d.handWide(sh, t)
	case quiet > time.Minute:
		delete(d.wide, tbl)
	}
}

func (d *deleteTracker) handWide(sh *shard, t *tracked) {
	x := t.task(sh, 0)
	x.spread = true
	t.threshold = min(2*t.threshold, maxWide)
	if !sh.s.work.add(x) {
		sh.s.metrics.tasksLost.Add(1)
	}
}

// rest keeps a table from being scanned between spread deletions for a while.
func (d *deleteTracker) rest(tbl *table, took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.wide[tbl]; t != nil {
		t.until = time.Now().Add(wideShare * took)
	}
}

// walked turns a read's walk over dead rows into a task, unless one over the
// same place was tried lately.
func (d *deleteTracker) walked(sh *shard, tbl *table, lo, hi []byte, prefix int, rows int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	b := d.next[alias(lo)]
	if b == nil {
		if len(d.next) >= maxTracked {
			return
		}
		b = &backoff{wait: 50 * time.Millisecond}
		if d.next == nil {
			d.next = map[string]*backoff{}
		}
		d.next[string(lo)] = b
	} else if now.Before(b.until) {
		return
	}
	b.until = now.Add(b.wait)
	b.wait = min(2*b.wait, time.Minute)
	x := &task{sh: sh, tbl: tbl, lo: append([]byte(nil), lo...), hi: successor(hi), prefix: prefix, dead: rows, walked: true}
	if !sh.s.work.add(x) {
		sh.s.metrics.tasksLost.Add(1)
	}
}
