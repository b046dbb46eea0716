package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"varve/internal/schema"
)

// Fence is a table's fence: while it is closed only who has the pass may write
// to the table. See docs/design/change-feed.md.
type Fence struct {
	Keyspace   string `json:"keyspace"`
	Table      string `json:"table"`
	Generation int64  `json:"generation"`
	Closed     bool   `json:"closed"`
	Pass       string `json:"pass,omitempty"` // "": nobody passes
	Hint       string `json:"hint,omitempty"` // what the refusal tells clients to do
	// Deadline is when the fence lifts itself, microseconds since 1970; 0: never.
	Deadline int64 `json:"deadline,omitempty"`
	ClosedAt int64 `json:"closed_at,omitempty"` // microseconds since 1970
	// Lapsed: the deadline has passed. Writes may have come in.
	Lapsed bool `json:"lapsed,omitempty"`

	Refused int64 `json:"-"` // writes refused since the fence was changed last, or the start
}

// Open reports that everybody may write.
func (f *Fence) Open() bool { return !f.Closed || f.Lapsed }

const (
	maxFenceHint = 512 // bytes
	maxFencePass = MaxOriginBytes
)

// fence is a Fence in force.
type fence struct {
	Fence
	until   time.Time // with a monotonic reading where the clock has one; zero: for good
	lapsed  atomic.Bool
	refused atomic.Int64
}

// FencedError refuses a write to a table whose fence is closed.
type FencedError struct{ Fence }

func (e *FencedError) Error() string {
	until := "for good"
	if e.Deadline != 0 {
		until = "until " + time.UnixMicro(e.Deadline).UTC().Format("2006-01-02T15:04:05.000Z")
	}
	hint := e.Hint
	if hint == "" {
		hint = "the table is being moved; try again later"
	}
	return fmt.Sprintf("varve fence: %s.%s is closed to writes (generation %d, %s): %s", e.Keyspace, e.Table, e.Generation, until, hint)
}

// FenceError refuses a change of a fence.
type FenceError struct{ Msg string }

func (e *FenceError) Error() string { return e.Msg }

func fenceErrorf(format string, args ...any) error {
	return &FenceError{"varve fence: " + fmt.Sprintf(format, args...)}
}

// lapse reports that a closed fence's deadline has passed, for good once it was seen.
func (f *fence) lapse(now time.Time) bool {
	if f.lapsed.Load() {
		return true
	}
	if f.until.IsZero() || now.Before(f.until) {
		return false
	}
	f.lapsed.Store(true)
	return true
}

// check refuses a write of an origin where the fence is closed.
func (f *fence) check(origin string, clock func() time.Time) error {
	if !f.Closed || f.Pass != "" && f.Pass == origin || f.lapse(clock()) {
		return nil
	}
	f.refused.Add(1)
	return &FencedError{f.state()}
}

func (f *fence) state() Fence {
	out := f.Fence
	out.Lapsed, out.Refused = f.lapsed.Load(), f.refused.Load()
	return out
}

// admit refuses a batch that a fence or a full feed keeps out; shard is the one
// whose stripes are held, -1 stands for all.
func (s *Store) admit(b *Batch, shard int) error {
	for i := range b.ops {
		o := &b.ops[i]
		if shard >= 0 && int(o.shard) != shard || o.kind == opIndex {
			continue
		}
		if f := o.tbl.fence.Load(); f != nil {
			if err := f.check(b.origin, s.opts.Clock); err != nil {
				s.metrics.fenceRefusals.Add(1)
				return err
			}
		}
		part := &o.tbl.parts[o.shard].feed
		if part.on.Load() && part.held.Load() >= s.feedLimit() {
			if err := s.shards[o.shard].makeFeedRoom(o.tbl, part); err != nil {
				return err
			}
		}
	}
	return nil
}

// updateWatched notes whether any table has a feed or a closed fence, which is
// all that writers look at otherwise.
func (s *Store) updateWatched() {
	s.watchMu.Lock()
	defer s.watchMu.Unlock()
	watched := false
	for _, tbl := range *s.tables.Load() {
		if f := tbl.fence.Load(); f != nil && f.Closed {
			watched = true
		}
		for i := range tbl.parts {
			watched = watched || tbl.parts[i].feed.on.Load()
		}
	}
	s.watched.Store(watched)
}

// drainWriters returns once every writer that held a stripe when it was called
// is finished, its batch visible.
func (s *Store) drainWriters() {
	for _, sh := range s.shards {
		for i := range sh.stripes {
			sh.stripes[i].Lock()
			//lint:ignore SA2001 whoever held it is finished
			sh.stripes[i].Unlock()
		}
	}
}

// AdmitDDL refuses a change of the definitions of fenced tables by origin.
// Until done is called no fence closes.
func (s *Store) AdmitDDL(tables []*schema.Table, origin string) (done func(), err error) {
	s.fenceMu.RLock()
	for _, t := range tables {
		if f := s.tableByID(t.PhysID).fence.Load(); f != nil {
			if err := f.check(origin, s.opts.Clock); err != nil {
				s.fenceMu.RUnlock()
				s.metrics.fenceRefusals.Add(1)
				return nil, err
			}
		}
	}
	return s.fenceMu.RUnlock, nil
}

// CheckFence tells early what Apply would: that origin may not write to t now.
func (s *Store) CheckFence(t *schema.Table, origin string) error {
	if !s.watched.Load() {
		return nil
	}
	if f := s.tableFor(t).fence.Load(); f != nil {
		if err := f.check(origin, s.opts.Clock); err != nil {
			s.metrics.fenceRefusals.Add(1)
			return err
		}
	}
	return nil
}

// FenceOf is a table's fence; ok is false when it never had one.
func (s *Store) FenceOf(t *schema.Table) (f Fence, ok bool) {
	p := s.tableFor(t).fence.Load()
	if p == nil {
		return Fence{}, false
	}
	if p.Closed {
		p.lapse(s.opts.Clock())
	}
	return p.state(), true
}

// FenceChange is a change of a table's fence. What is nil stays as it was, or,
// with Replace, gets its zero value.
type FenceChange struct {
	Generation int64
	Replace    bool // a new fence of this generation, in place of any of a lower one
	Closed     *bool
	Pass, Hint *string
	// Deadline: until when, zero for good.
	Deadline *time.Time
}

// SetFence closes, changes or lifts a table's fence. When it returns after
// closing, no write by anybody without the pass becomes visible any more, and
// what is visible is durable. A fence that has lapsed is not prolonged.
func (s *Store) SetFence(ctx context.Context, t *schema.Table, c FenceChange) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.opts.ReadOnly {
		return ErrReadOnly
	}
	s.fenceAdmin.Lock()
	defer s.fenceAdmin.Unlock()
	tbl := s.tableFor(t)
	old := tbl.fence.Load()
	now := s.opts.Clock()
	next, err := c.next(t, old, now)
	if err != nil {
		return err
	}
	if !next.Closed {
		// Saved first: a crash must not close again what was reported as open.
		if err := s.saveFence(tbl, next); err != nil {
			return err
		}
		tbl.fence.Store(next)
		s.updateWatched()
		return nil
	}
	s.fenceMu.Lock()
	tbl.fence.Store(next)
	s.updateWatched()
	s.fenceMu.Unlock()
	s.drainWriters()
	if goesOn(old, next) && old.lapsed.Load() {
		tbl.fence.Store(old)
		return old.hasLapsed()
	}
	if err := s.saveFence(tbl, next); err != nil {
		return err
	}
	return s.syncAll()
}

// goesOn reports that next is old with other particulars: no write may have come in between.
func goesOn(old, next *fence) bool {
	return old != nil && old.Closed && old.Generation == next.Generation
}

func (f *fence) hasLapsed() error {
	return fenceErrorf("the fence of %s.%s (generation %d) has lapsed: writes may have come in. Close it anew with a higher generation",
		f.Keyspace, f.Table, f.Generation)
}

// next is the fence after a change.
func (c *FenceChange) next(t *schema.Table, old *fence, now time.Time) (*fence, error) {
	n := &fence{Fence: Fence{Generation: c.Generation}}
	switch {
	case old == nil && !c.Replace:
		return nil, fenceErrorf("%s.%s has no fence: INSERT one", t.Keyspace, t.Name)
	case old != nil && c.Generation < old.Generation:
		return nil, fenceErrorf("the fence of %s.%s is of generation %d, and %d is lower", t.Keyspace, t.Name, old.Generation, c.Generation)
	case old != nil && !c.Replace && c.Generation != old.Generation:
		return nil, fenceErrorf("the fence of %s.%s is of generation %d, not %d: INSERT a new one to replace it",
			t.Keyspace, t.Name, old.Generation, c.Generation)
	case old != nil && (!c.Replace || c.Generation == old.Generation):
		if !c.Replace {
			n.Fence, n.until = old.Fence, old.until
		}
		n.ClosedAt = old.ClosedAt
	}
	n.Keyspace, n.Table, n.Refused, n.Lapsed = t.Keyspace, t.Name, 0, false
	if c.Closed != nil {
		n.Closed = *c.Closed
	}
	if c.Pass != nil {
		n.Pass = *c.Pass
	}
	if c.Hint != nil {
		n.Hint = *c.Hint
	}
	if len(n.Pass) > maxFencePass || len(n.Hint) > maxFenceHint {
		return nil, fenceErrorf("a fence's pass has at most %d bytes, its hint %d", maxFencePass, maxFenceHint)
	}
	if c.Deadline != nil {
		n.until, n.Deadline = *c.Deadline, 0
		if !n.until.IsZero() {
			n.Deadline = n.until.UnixMicro()
		}
	}
	return n, n.settle(old, now)
}

// settle checks a fence that is to be closed against what was there.
func (f *fence) settle(old *fence, now time.Time) error {
	if !f.Closed {
		f.Deadline, f.until = 0, time.Time{}
		return nil
	}
	if !f.until.IsZero() && !now.Before(f.until) {
		return fenceErrorf("the deadline of the fence of %s.%s has passed already", f.Keyspace, f.Table)
	}
	if old != nil && old.Generation == f.Generation {
		if !old.Closed {
			return fenceErrorf("the fence of %s.%s was lifted in generation %d: close it anew with a higher one",
				f.Keyspace, f.Table, f.Generation)
		}
		if old.lapse(now) {
			return old.hasLapsed()
		}
		return nil
	}
	f.ClosedAt = now.UnixMicro()
	return nil
}

// DropFence forgets a fence, its generation too: an open one, or by who has its pass.
func (s *Store) DropFence(ctx context.Context, t *schema.Table, origin string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.fenceAdmin.Lock()
	defer s.fenceAdmin.Unlock()
	tbl := s.tableFor(t)
	f := tbl.fence.Load()
	if f == nil {
		return nil
	}
	if f.Closed && (f.Pass == "" || f.Pass != origin) && !f.lapse(s.opts.Clock()) {
		return fenceErrorf("the fence of %s.%s is closed: lift it first (UPDATE … SET generation = %d, state = 'open')",
			t.Keyspace, t.Name, f.Generation)
	}
	pb := s.shards[0].db.NewBatch()
	if err := pb.Delete(feedStateKey(metaFence, tbl.phys), nil); err != nil {
		return errors.Join(err, pb.Close())
	}
	if err := s.shards[0].commitSynced(pb); err != nil {
		return err
	}
	tbl.fence.Store(nil)
	s.updateWatched()
	return nil
}

func (s *Store) saveFence(tbl *table, f *fence) error {
	v, err := json.Marshal(&f.Fence)
	if err != nil {
		return fmt.Errorf("save fence: %w", err)
	}
	pb := s.shards[0].db.NewBatch()
	if err := pb.Set(feedStateKey(metaFence, tbl.phys), v, nil); err != nil {
		return errors.Join(err, pb.Close())
	}
	return s.shards[0].commitSynced(pb)
}

// loadFences reads the fences of a store that is being opened.
func (s *Store) loadFences() error {
	now := s.opts.Clock()
	return s.shards[0].eachMeta(metaFence, func(phys uint32, v []byte) error {
		f := &fence{}
		if err := json.Unmarshal(v, &f.Fence); err != nil {
			return fmt.Errorf("fence of table %d: %w", phys, err)
		}
		if f.Deadline != 0 {
			f.until = now.Add(time.UnixMicro(f.Deadline).Sub(now))
		}
		f.lapsed.Store(f.Lapsed)
		s.tableByID(phys).fence.Store(f)
		return nil
	})
}
