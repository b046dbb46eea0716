package app

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"varve/internal/move"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// states is a state store that holds one record.
type states struct {
	move.StateStore
	mu      sync.Mutex
	record  move.Record
	missing bool
	broken  error
	woken   chan struct{}
	samples []move.Sample
}

func (s *states) Load(context.Context, string) (*move.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.missing {
		return nil, move.ErrNoMove
	}
	r := s.record
	return &r, s.broken
}

func (s *states) Wait(ctx context.Context, _ string, generation int64, patience time.Duration) error {
	s.mu.Lock()
	woken, now, broken := s.woken, s.record.Generation, s.broken
	s.mu.Unlock()
	if broken != nil {
		return broken
	}
	if now != generation {
		return nil
	}
	select {
	case <-woken:
	case <-time.After(patience):
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (s *states) ReportNode(context.Context, string, *move.Node) error { return nil }

func (s *states) AddSample(_ context.Context, _ string, sample *move.Sample) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.samples = append(s.samples, *sample)
	return nil
}

func (s *states) change(f func(r *move.Record)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.record)
	s.record.Generation++
	close(s.woken)
	s.woken = make(chan struct{})
}

// places are the positions of both sides.
type places struct{ now, applied atomic.Uint64 }

func (p *places) Now(context.Context) (move.Position, error) {
	return move.Position{p.now.Load()}, nil
}

func (p *places) Applied(context.Context, string) (move.Position, error) {
	return move.Position{p.applied.Load()}, nil
}

func startNode(t *testing.T, cfg Config, rec move.Record) (*Node, *states, *places) {
	t.Helper()
	st := &states{record: rec, woken: make(chan struct{})}
	st.record.Generation++
	at := &places{}
	cfg.Move = "chat"
	n, err := start(t.Context(), cfg, st, at, at, "forward")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return n, st, at
}

var errFence = &pgconn.PgError{Code: FencedState, Message: "messages is being moved"}

func TestWriteGoesOnAtTheOtherSide(t *testing.T) {
	n, st, _ := startNode(t, Config{}, move.Record{})
	refused := make(chan struct{})
	var once sync.Once
	var sides []Side
	go func() {
		<-refused
		st.change(func(r *move.Record) { r.Canonical, r.StampFloor = Target, 1<<60 })
	}()
	err := n.Write(t.Context(), nil, func(_ context.Context, side Side) error {
		if len(sides) == 0 || sides[len(sides)-1] != side {
			sides = append(sides, side)
		}
		if side == Origin {
			once.Do(func() { close(refused) })
			return errFence
		}
		return nil
	})
	if err != nil || len(sides) != 2 || sides[1] != Target {
		t.Fatal(sides, err)
	}
	first := n.Timestamp()
	if second := n.Timestamp(); first <= 1<<60 || second <= first {
		t.Fatalf("timestamps %d, %d are not above the move's", first, second)
	}
}

func TestFenceThatIsLiftedLetsWritesGoOn(t *testing.T) {
	n, _, _ := startNode(t, Config{}, move.Record{})
	tries := 0
	err := n.Write(t.Context(), nil, func(context.Context, Side) error {
		if tries++; tries < 3 {
			return errFence
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Fatal(tries, err)
	}
}

func TestWriteGivesUp(t *testing.T) {
	n, _, _ := startNode(t, Config{WriteWait: 20 * time.Millisecond}, move.Record{})
	err := n.Write(t.Context(), nil, func(context.Context, Side) error { return errFence })
	if !Fenced(err) {
		t.Fatalf("%v", err)
	}
	other := errors.New("disk full")
	if err := n.Write(t.Context(), nil, func(context.Context, Side) error { return other }); !errors.Is(err, other) {
		t.Fatalf("%v", err)
	}
	if !Fenced(errors.New("varve fence: chat.messages is closed to writes")) || Fenced(nil) || Fenced(other) {
		t.Fatal("refusals of Varve's fence are not known as such")
	}
}

func sideQuery(run func(side Side) int) Query[int] {
	return Query[int]{Name: "q", Run: func(_ context.Context, side Side) (int, error) { return run(side), nil }}
}

func TestSessionSeesItsOwnWrites(t *testing.T) {
	n, _, at := startNode(t, Config{ReadWait: 10 * time.Millisecond}, move.Record{ReadPercent: 100})
	mine, others := n.NewSession(), n.NewSession()
	at.now.Store(7)
	if err := n.Write(t.Context(), mine, func(context.Context, Side) error { return nil }); err != nil {
		t.Fatal(err)
	}
	read := func(s *Session) Side {
		side, err := Read(t.Context(), n, s, sideQuery(func(side Side) int { return int(side) }))
		if err != nil {
			t.Fatal(err)
		}
		return Side(side)
	}
	if read(mine) != Origin || read(others) != Target || read(nil) != Target {
		t.Fatal("a session with a write that has not arrived must read origin, and only it")
	}
	at.applied.Store(7)
	if read(mine) != Target {
		t.Fatal("the write has arrived and the session still reads origin")
	}
}

// TestSessionSeesWritesFromBeforeTheSwitch writes while origin answers all
// reads and reads when the target does.
func TestSessionSeesWritesFromBeforeTheSwitch(t *testing.T) {
	n, st, at := startNode(t, Config{ReadWait: 10 * time.Millisecond}, move.Record{})
	s := n.NewSession()
	if err := n.Write(t.Context(), s, func(context.Context, Side) error { return nil }); err != nil {
		t.Fatal(err)
	}
	at.now.Store(7)
	before := n.route.Load()
	st.change(func(r *move.Record) { r.ReadPercent = 100 })
	<-before.changed
	for _, c := range []struct {
		applied uint64
		want    Side
	}{{6, Origin}, {7, Target}} {
		at.applied.Store(c.applied)
		side, err := Read(t.Context(), n, s, sideQuery(func(side Side) int { return int(side) }))
		if err != nil || Side(side) != c.want {
			t.Errorf("applied up to %d: read from %s, want %s: %v", c.applied, Side(side), c.want, err)
		}
	}
}

func TestReadFallsBackToTheCanonicalSide(t *testing.T) {
	n, _, _ := startNode(t, Config{}, move.Record{ReadPercent: 100})
	v, err := Read(t.Context(), n, nil, Query[string]{Run: func(_ context.Context, side Side) (string, error) {
		if side == Target {
			return "", errors.New("down")
		}
		return "origin", nil
	}})
	if err != nil || v != "origin" {
		t.Fatal(v, err)
	}
}

// counts waits until so many comparisons have ended.
func counts(t *testing.T, n *Node, ended int64) move.Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		c := n.stats.node("n", 1)
		if c.Compared+c.Error >= ended {
			return c
		}
		pause(ctx, time.Millisecond)
		if ctx.Err() != nil {
			t.Fatalf("%+v", c)
		}
	}
}

func TestShadowReadsCompare(t *testing.T) {
	n, st, _ := startNode(t, Config{}, move.Record{Shadow: true})
	if v, err := Read(t.Context(), n, nil, sideQuery(func(Side) int { return 1 })); err != nil || v != 1 {
		t.Fatal(v, err)
	}
	// A row that changes between the two reads is no difference.
	var reads atomic.Int64
	if _, err := Read(t.Context(), n, nil, sideQuery(func(side Side) int {
		if side == Target && reads.Add(1) == 1 {
			return 2
		}
		return 3
	})); err != nil {
		t.Fatal(err)
	}
	if c := counts(t, n, 2); c.Compared != 2 || c.Different != 0 {
		t.Fatalf("%+v", c)
	}
	if v, err := Read(t.Context(), n, nil, sideQuery(func(side Side) int { return 10 + int(side) })); err != nil || v != 10 {
		t.Fatal(v, err)
	}
	if c := counts(t, n, 3); c.Different != 1 || c.OriginReads == 0 {
		t.Fatalf("%+v", c)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.samples) != 1 || st.samples[0].Origin != "10" || st.samples[0].Target != "11" || st.samples[0].Query != "q" {
		t.Fatalf("%+v", st.samples)
	}
}

// The answer never waits for a comparison: what does not fit the queue is
// dropped and counted.
func TestShadowReadsAreDropped(t *testing.T) {
	n, _, _ := startNode(t, Config{ShadowQueue: 2}, move.Record{Shadow: true})
	held := make(chan struct{})
	for range 10 {
		if _, err := Read(t.Context(), n, nil, sideQuery(func(side Side) int {
			if side == Target {
				<-held
			}
			return 0
		})); err != nil {
			t.Fatal(err)
		}
	}
	if c := n.stats.node("n", 1); c.Drop < 7 || c.Drop > 8 {
		t.Fatalf("%+v", c)
	}
	close(held)
	counts(t, n, 2)
}

func TestNodeGoesOnWithoutTheState(t *testing.T) {
	n, st, _ := startNode(t, Config{}, move.Record{Canonical: Target})
	st.mu.Lock()
	st.broken = errors.New("origin is down")
	st.mu.Unlock()
	if err := n.refresh(t.Context()); err == nil {
		t.Fatal("no error")
	}
	if n.Canonical() != Target {
		t.Fatal("the node forgot the canonical side")
	}
}

func TestWithoutAMoveAllGoesToOrigin(t *testing.T) {
	st := &states{missing: true, woken: make(chan struct{})}
	n, err := start(t.Context(), Config{Move: "none"}, st, &places{}, &places{}, "forward")
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close(t.Context())
	if n.Canonical() != Origin {
		t.Fatal("no move, and yet not origin")
	}
}
