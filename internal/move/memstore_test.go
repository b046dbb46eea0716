package move

import (
	"context"
	"slices"
	"sync"
	"time"
)

// memState is the state rows of all movers and nodes of a test, beside origin's
// rows.
type memState struct {
	mu      sync.Mutex
	origin  *memDB
	recs    map[string]*Record
	history map[string][]Entry
	nodes   map[string]map[string]Node
	diffs   map[string][]Difference
	ranges  map[string][]VerifiedRange
	intents int64
	news    chan struct{}
}

func newMemState(origin *memDB) *memState {
	return &memState{
		origin: origin, recs: map[string]*Record{}, history: map[string][]Entry{}, nodes: map[string]map[string]Node{},
		diffs: map[string][]Difference{}, ranges: map[string][]VerifiedRange{}, news: make(chan struct{}),
	}
}

// memStore is one mover's, command's or node's connection to the state.
type memStore struct {
	*memState
	hook func(ctx context.Context, call string) error
}

var _ StateStore = (*memStore)(nil)

func (s *memStore) call(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.hook == nil {
		return nil
	}
	return s.hook(ctx, name)
}

func (s *memState) tellLocked() {
	close(s.news)
	s.news = make(chan struct{})
}

func (s *memStore) Install(context.Context) error { return nil }

func (s *memStore) Create(_ context.Context, r *Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.recs[r.Move]; old != nil && old.State != Finished && old.State != Aborted {
		return ErrMoveExists
	}
	c := *r
	c.State, c.Generation, c.Changed = Planned, 1, time.Now()
	s.recs[r.Move] = &c
	return nil
}

func (s *memStore) Load(ctx context.Context, move string) (*Record, error) {
	if err := s.call(ctx, "load"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.recs[move]
	if r == nil {
		return nil, ErrNoMove
	}
	c := *r
	c.Budgets = slices.Clone(r.Budgets)
	c.Loaded = time.Now()
	return &c, nil
}

func (s *memStore) List(context.Context) ([]*Record, error) { return nil, nil }

func (s *memStore) Wait(ctx context.Context, move string, generation int64, patience time.Duration) error {
	if err := s.call(ctx, "wait"); err != nil {
		return err
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	for {
		s.mu.Lock()
		news, r := s.news, s.recs[move]
		changed := r == nil || r.Generation != generation || r.Intent != nil
		s.mu.Unlock()
		if changed {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			return nil
		case <-news:
		}
	}
}

func (s *memStore) Ask(_ context.Context, move string, i Intent) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.recs[move]
	if r == nil {
		return 0, ErrNoMove
	}
	if r.Intent != nil {
		return 0, ErrIntentPending
	}
	s.intents++
	i.ID, i.At = s.intents, time.Now()
	r.Intent = &i
	s.tellLocked()
	return i.ID, nil
}

func (s *memStore) Acquire(_ context.Context, move, owner string, ttl time.Duration) (Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.recs[move]
	if r == nil {
		return Lease{}, ErrNoMove
	}
	if r.Owner != "" && time.Now().Before(r.LeaseUntil) {
		return Lease{}, ErrLeaseHeld
	}
	r.Owner, r.LeaseUntil = owner, time.Now().Add(ttl)
	r.Token++
	return Lease{Move: move, Owner: owner, Token: r.Token, TTL: ttl}, nil
}

func (s *memStore) heldLocked(l Lease) bool {
	r := s.recs[l.Move]
	return r != nil && r.Token == l.Token && r.Owner == l.Owner && time.Now().Before(r.LeaseUntil)
}

// with runs do if the lease is still good, with a moment before the answer.
func (s *memStore) with(ctx context.Context, name string, l Lease, do func() error) error {
	if err := s.call(ctx, name); err != nil {
		return err
	}
	err := func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.heldLocked(l) {
			return ErrLeaseLost
		}
		return do()
	}()
	if err != nil {
		return err
	}
	return s.call(ctx, name)
}

func (s *memStore) Renew(ctx context.Context, l Lease) error {
	return s.with(ctx, "renew", l, func() error {
		s.recs[l.Move].LeaseUntil = time.Now().Add(l.TTL)
		return nil
	})
}

func (s *memStore) Release(ctx context.Context, l Lease) error {
	if err := s.call(ctx, "release"); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heldLocked(l) {
		s.recs[l.Move].Owner = ""
	}
	return nil
}

func (s *memStore) Transition(ctx context.Context, l Lease, next *Record, e Entry) error {
	return s.with(ctx, "transition", l, func() error {
		r := s.recs[l.Move]
		if r.Generation != next.Generation {
			return ErrConflict
		}
		if r.Canonical != next.Canonical {
			s.origin.mu.Lock()
			defer s.origin.mu.Unlock()
			f := &s.origin.fence
			if next.Canonical == Target && (f.gen != next.Generation || !time.Now().Before(f.until)) {
				return ErrFenceDown
			}
			s.origin.canonical = next.Canonical
		}
		next.Generation++
		c := *next
		c.Budgets = slices.Clone(next.Budgets)
		if c.Intent = r.Intent; c.Result != nil && r.Intent != nil && c.Result.Intent == r.Intent.ID {
			c.Intent = nil
		}
		c.Owner, c.Token, c.LeaseUntil, c.Changed = r.Owner, r.Token, r.LeaseUntil, time.Now()
		s.recs[l.Move] = &c
		e.At, e.Generation = time.Now(), c.Generation
		s.history[l.Move] = append(s.history[l.Move], e)
		s.tellLocked()
		return nil
	})
}

func (s *memStore) Report(ctx context.Context, l Lease, live *Live) error {
	return s.with(ctx, "report", l, func() error { s.recs[l.Move].Live = *live; return nil })
}

func (s *memStore) History(_ context.Context, move string, limit int) ([]Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := slices.Clone(s.history[move])
	slices.Reverse(h)
	return h[:min(limit, len(h))], nil
}

func (s *memStore) ReportNode(_ context.Context, move string, n *Node) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes[move] == nil {
		s.nodes[move] = map[string]Node{}
	}
	c := *n
	c.Seen = time.Now()
	s.nodes[move][n.Name] = c
	return nil
}

func (s *memStore) Nodes(ctx context.Context, move string) ([]Node, error) {
	if err := s.call(ctx, "nodes"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Node
	for _, n := range s.nodes[move] {
		out = append(out, n)
	}
	return out, nil
}

func (s *memStore) AddSample(context.Context, string, *Sample) error { return nil }
func (s *memStore) Samples(context.Context, string, int) ([]Sample, error) {
	return nil, nil
}

func (s *memStore) PutDifferences(ctx context.Context, l Lease, ds []Difference) error {
	return s.with(ctx, "putdifferences", l, func() error {
		for _, d := range ds {
			s.clearLocked(l.Move, d.Table, [][]byte{d.Key})
			s.diffs[l.Move] = append(s.diffs[l.Move], d)
		}
		return nil
	})
}

func (s *memStore) clearLocked(move string, table int, keys [][]byte) {
	s.diffs[move] = slices.DeleteFunc(s.diffs[move], func(d Difference) bool {
		return d.Table == table && slices.ContainsFunc(keys, func(k []byte) bool { return string(k) == string(d.Key) })
	})
}

func (s *memStore) ClearDifferences(ctx context.Context, l Lease, table int, keys [][]byte) error {
	return s.with(ctx, "cleardifferences", l, func() error { s.clearLocked(l.Move, table, keys); return nil })
}

func (s *memStore) Differences(ctx context.Context, move string, limit int) ([]Difference, int64, error) {
	if err := s.call(ctx, "differences"); err != nil {
		return nil, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ds := slices.Clone(s.diffs[move])
	return ds[:min(limit, len(ds))], int64(len(ds)), nil
}

func (s *memStore) PutRanges(ctx context.Context, l Lease, rs []VerifiedRange) error {
	return s.with(ctx, "putranges", l, func() error {
		for _, r := range rs {
			s.ranges[l.Move] = slices.DeleteFunc(s.ranges[l.Move], func(o VerifiedRange) bool {
				return o.Table == r.Table && o.Side == r.Side && (o.From == nil) == (r.From == nil) && string(o.From) == string(r.From)
			})
			s.ranges[l.Move] = append(s.ranges[l.Move], r)
		}
		return nil
	})
}

func (s *memStore) ForgetRanges(ctx context.Context, l Lease, table int) error {
	return s.with(ctx, "forgetranges", l, func() error {
		s.ranges[l.Move] = slices.DeleteFunc(s.ranges[l.Move], func(o VerifiedRange) bool { return table < 0 || o.Table == table })
		return nil
	})
}

func (s *memStore) Ranges(ctx context.Context, move string, table int) ([]VerifiedRange, error) {
	if err := s.call(ctx, "ranges"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []VerifiedRange
	for _, r := range s.ranges[move] {
		if r.Table == table {
			out = append(out, r)
		}
	}
	return out, nil
}

func (s *memStore) Remove(context.Context) error { return nil }
func (s *memStore) Close(context.Context) error  { return nil }
