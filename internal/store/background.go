package store

import (
	"context"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// task asks the background to look for dead rows in lo <= key <= hi.
type task struct {
	sh     *shard
	tbl    *table
	lo, hi []byte
	prefix int  // length of the partition's prefix; 0: the range is over partitions
	sweep  bool // rows covered by a head deletion are to be removed
	walked bool // a read walked there
	spread bool // over deletions that are spread over partitions
	dead   int64
	tries  int
}

// maxTasks bounds the queue. What does not fit is found again by the next read,
// or, where it is a range or partition deletion, by a sweep that is asked for.
const maxTasks = 8192

// workQueue hands tasks to the background, those of one place joined. Writers
// add to it under their stripes, so that this must cost the same however much is queued.
type workQueue struct {
	mu     sync.Mutex
	tasks  []*task // in order
	parts  map[taskPlace]*task
	ranges []*task // those over partitions, of which there are few
	wake   chan struct{}
	closed bool
}

// taskPlace is what tasks are joined by: a partition and what is to be done there.
type taskPlace struct {
	tbl    *table
	sweep  bool
	prefix string // of the partition
}

// maxRangeTasks bounds the tasks over partitions, which only reads ask for.
const maxRangeTasks = 64

func (t *task) place() taskPlace { return taskPlace{t.tbl, t.sweep, string(t.lo[:t.prefix])} }

func (q *workQueue) add(t *task) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	if o := q.find(t); o != nil {
		o.lo, o.hi = minBytes(o.lo, t.lo), maxBytes(o.hi, t.hi)
		o.dead += t.dead
		o.walked = o.walked || t.walked
		return true
	}
	if len(q.tasks) >= maxTasks || t.prefix == 0 && len(q.ranges) >= maxRangeTasks {
		return false
	}
	if t.prefix > 0 {
		if q.parts == nil {
			q.parts = map[taskPlace]*task{}
		}
		q.parts[t.place()] = t
	} else {
		q.ranges = append(q.ranges, t)
	}
	q.tasks = append(q.tasks, t)
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return true
}

// find returns the task that t may be joined to.
func (q *workQueue) find(t *task) *task {
	if t.prefix > 0 {
		return q.parts[t.place()]
	}
	for _, o := range q.ranges {
		if o.sh == t.sh && o.tbl == t.tbl && overlap(o, t) {
			return o
		}
	}
	return nil
}

func overlap(a, b *task) bool {
	return string(a.lo) <= string(b.hi) && string(b.lo) <= string(a.hi)
}

func (q *workQueue) take() *task {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.tasks) == 0 {
		return nil
	}
	t := q.tasks[0]
	q.tasks[0] = nil
	q.tasks = q.tasks[1:]
	if t.prefix > 0 {
		delete(q.parts, t.place())
	} else {
		q.ranges = slices.DeleteFunc(q.ranges, func(o *task) bool { return o == t })
	}
	return t
}

func (q *workQueue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.tasks)
}

func (q *workQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.tasks, q.parts, q.ranges = nil, nil, nil
}

// storeCounters are the store's own metrics.
type storeCounters struct {
	spansPublished, spanRows, scanned, scans   atomic.Int64
	rowsRemoved, rowsPurged, folded, tasksLost atomic.Int64
	intervalsPurged, spansPurged, spansEvicted atomic.Int64
	passErrors                                 atomic.Int64
	feedRecords, fenceRefusals                 atomic.Int64

	reclaimLooks, reclaims, reclaimForced, reclaimPostponed atomic.Int64
	reclaimCost, reclaimGain, reclaimNanos                  atomic.Int64
	excised, recounted, sweeps, entriesRemoved              atomic.Int64
	lastPassError                                           atomic.Pointer[string]
}

// startBackground starts the goroutines that Close waits for.
func (s *Store) startBackground() {
	s.work.wake = make(chan struct{}, 1)
	if s.opts.ReadOnly {
		return
	}
	if s.opts.Durability == Periodic {
		s.goes("journal sync", s.syncLoop)
	}
	if s.opts.ManualBackground {
		return
	}
	s.goes("coalescer", s.coalesceLoop)
	s.goes("sweeper", s.sweepLoop)
	s.goes("reclaimer", s.reclaimLoop)
}

func (s *Store) goes(name string, f func(context.Context)) {
	s.bg.Go(func() {
		pprof.Do(s.ctx, pprof.Labels("varve", name), f)
	})
}

func (s *Store) syncLoop(ctx context.Context) {
	t := time.NewTicker(s.opts.SyncPeriod)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if s.failed() == nil {
				_ = s.syncAll() // a failure has ended the store already
			}
		}
	}
}

// periodically makes a pass each purgePeriod until the store ends or fails.
func (s *Store) periodically(ctx context.Context, pass func() error) {
	t := time.NewTicker(purgePeriod)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if s.failed() != nil {
			return
		}
		if err := pass(); err != nil && ctx.Err() == nil {
			s.passFailed(err)
		}
	}
}

// tick is how often the background looks at deletes that were too few to ask for it.
const tick = 200 * time.Millisecond

func (s *Store) coalesceLoop(ctx context.Context) {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.work.wake:
		case <-t.C:
			for _, sh := range s.shards {
				sh.pending.flush(sh, false)
				sh.fold()
				sh.flushHeads()
			}
		}
		s.drain(ctx)
	}
}

// drain carries out the tasks there are.
func (s *Store) drain(ctx context.Context) {
	for ctx.Err() == nil && s.failed() == nil {
		t := s.work.take()
		if t == nil {
			return
		}
		if err := s.runTask(ctx, t); err != nil && ctx.Err() == nil {
			s.passFailed(err)
		}
	}
}

// passFailed keeps a background error for metrics; the next pass tries again.
func (s *Store) passFailed(err error) {
	s.metrics.passErrors.Add(1)
	msg := err.Error()
	s.metrics.lastPassError.Store(&msg)
	s.opts.Logger.Warn("background pass over dead rows", "err", err)
}

// RunBackground does at once what the background would do in time: it
// coalesces what was deleted, folds hot rows, returns the space of spans that
// may go, and returns when nothing is left.
func (s *Store) RunBackground(ctx context.Context) error {
	for _, sh := range s.shards {
		sh.pending.flush(sh, true)
		sh.fold()
	}
	s.drain(ctx)
	if err := s.reclaimTick(ctx, time.Now(), true); err != nil {
		return err
	}
	return s.failed()
}

// headChanges is after how many range deletions the memtable is flushed: a
// chunk that is written again and again has all its versions there, and a read
// may have to step over them.
const headChanges = 4096

func (sh *shard) flushHeads() {
	if sh.rangeOps.Load() < headChanges || sh.s.failed() != nil {
		return
	}
	sh.rangeOps.Store(0)
	if _, err := sh.db.AsyncFlush(); err != nil {
		sh.s.passFailed(err)
	}
}

// walked is told of dead rows that a read stepped over.
// prefix is the length of the partition's prefix if all of them are of one.
func (s *Store) walked(sh *shard, tbl *table, lo, hi []byte, prefix int, rows int64) {
	if s.opts.ReadOnly {
		return
	}
	sh.pending.walked(sh, tbl, lo, hi, prefix, rows)
}

// hotKeys are rows whose reads, or compactions, merged many operands.
type hotKeys struct {
	sh   *shard
	mu   sync.Mutex
	keys map[string]struct{}
}

const maxHotKeys = 256

// note is called by the merge operator, on any goroutine.
func (h *hotKeys) note(key []byte) {
	if h.sh.s.opts.ReadOnly || len(key) < tablePrefixBytes+tokenBytes {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.keys == nil {
		h.keys = map[string]struct{}{}
	}
	if len(h.keys) < maxHotKeys {
		if _, ok := h.keys[alias(key)]; !ok {
			h.keys[string(key)] = struct{}{}
		}
	}
}

// fold replaces hot rows, each by the merger of its operands.
func (sh *shard) fold() {
	sh.hot.mu.Lock()
	keys := sh.hot.keys
	sh.hot.keys = nil
	sh.hot.mu.Unlock()
	for k := range keys {
		if sh.s.ctx.Err() != nil || sh.s.failed() != nil {
			return
		}
		if err := sh.foldRow([]byte(k)); err != nil {
			sh.s.passFailed(err)
		}
	}
}

// foldRow sets a row to what its operands merge to, under its exclusive stripe.
func (sh *shard) foldRow(key []byte) error {
	stripe := &sh.stripes[stripeOf(tokenOf(key[tablePrefixBytes:]))]
	stripe.Lock()
	defer stripe.Unlock()
	v, err := sh.get(key)
	if err != nil || v == nil {
		return err
	}
	sh.s.metrics.folded.Add(1)
	return sh.db.Set(key, v, pebble.NoSync)
}
