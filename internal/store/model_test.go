package store_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"varve/internal/vtest"
)

var seconds = flag.Float64("seconds", 0, "how long each random test runs; VARVE_SECONDS does the same")

// soak is how long a random test goes on: its own default, or what the flag or VARVE_SECONDS says.
func soak(t testing.TB, def time.Duration) time.Duration {
	s := *seconds
	if v := os.Getenv("VARVE_SECONDS"); s == 0 && v != "" {
		f, err := strconv.ParseFloat(v, 64)
		if err != nil {
			t.Fatalf("VARVE_SECONDS: %v", err)
		}
		s = f
	}
	if s == 0 {
		return def
	}
	return time.Duration(s * float64(time.Second))
}

// seeds calls f with one seed after the other for the given time, or once with VARVE_SEED.
func seeds(t *testing.T, def time.Duration, f func(seed uint64)) {
	if v := os.Getenv("VARVE_SEED"); v != "" {
		seed, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatalf("VARVE_SEED: %v", err)
		}
		f(seed)
		return
	}
	d := soak(t, def)
	start, n := time.Now(), 0
	for seed := uint64(start.UnixNano()) % 1e12; time.Since(start) < d && !t.Failed(); seed++ {
		f(seed)
		n++
	}
	t.Logf("%d rounds", n)
}

// TestModel runs random operations against the store and the model.
func TestModel(t *testing.T) {
	for _, shards := range []int{1, 3} {
		t.Run(fmt.Sprintf("shards=%d", shards), func(t *testing.T) {
			seeds(t, 2*time.Second, func(seed uint64) {
				steps := randomSteps(rand.New(rand.NewPCG(seed, 1)), 250)
				playAndReport(t, seed, worldOptions{shards: shards, separateJournals: seed%2 == 0}, steps)
			})
		})
	}
}

// TestModelPurge lets deletions grow older than gc_grace, so that sweeps and
// compactions may drop them. Timestamps follow the clock within two seconds,
// since a write older than a dropped deletion would rightly come alive.
func TestModelPurge(t *testing.T) {
	seeds(t, 2*time.Second, func(seed uint64) {
		r := rand.New(rand.NewPCG(seed, 2))
		playAndReport(t, seed, worldOptions{shards: 1, gcGrace: 60}, purgeSteps(r, 250))
	})
}

func playAndReport(t *testing.T, seed uint64, o worldOptions, steps []step) {
	t.Helper()
	o.seed = seed
	err := play(o, steps)
	if err == nil {
		return
	}
	fails := func(steps []step) error { return play(o, steps) }
	if split := splitBatches(steps); fails(split) != nil {
		steps = split
	}
	steps, err = shrink(steps, err, fails)
	var b strings.Builder
	for i, s := range steps {
		fmt.Fprintf(&b, "%d: %s\n", i, s)
	}
	t.Errorf("VARVE_SEED=%d (%+v)\n%s%v", seed, o, b.String(), err)
}

// shrink drops steps as long as the rest still fails.
func shrink[T any](steps []T, err error, fails func([]T) error) ([]T, error) {
	deadline := time.Now().Add(20 * time.Second)
	for size := max(1, len(steps)/2); ; size = max(1, size/2) {
		shrunk := false
		for at := 0; at+size <= len(steps) && time.Now().Before(deadline); {
			rest := append(append([]T{}, steps[:at]...), steps[at+size:]...)
			if e := fails(rest); e != nil {
				steps, err, shrunk = rest, e, true
			} else {
				at += size
			}
		}
		if time.Now().After(deadline) || size == 1 && !shrunk {
			return steps, err
		}
	}
}

// splitBatches makes a step of each change.
func splitBatches(steps []step) []step {
	var split []step
	for _, s := range steps {
		if s.do != doWrite {
			split = append(split, s)
			continue
		}
		for _, m := range s.batch.Mutations {
			for _, c := range m.Changes {
				one := s
				one.batch.Mutations = []vtest.Mutation{{Table: m.Table, Key: m.Key, Changes: []vtest.Change{c}}}
				split = append(split, one)
			}
		}
	}
	return split
}

// action is what a step does.
type action uint8

const (
	doWrite action = iota
	doCheck
	doFlush
	doCompact
	doCoalesce
	doReopen
	doCrash
	doSnapshot
	doTruncate
)

var actionNames = [...]string{"write", "check", "flush", "compact", "coalesce", "reopen", "crash", "snapshot", "truncate"}

// step is one thing done to the store. Steps do not depend on each other, so
// that any part of a list can be played alone.
type step struct {
	do     action
	now    int64  // the clock
	seed   uint64 // for what the step itself draws
	batch  vtest.Batch
	logged bool
	wait   bool // acknowledge at once
}

func (s step) String() string {
	if s.do == doWrite {
		return fmt.Sprintf("write logged=%v wait=%v\n%s", s.logged, s.wait, s.batch)
	}
	return fmt.Sprintf("%s now=%d seed=%d", actionNames[s.do], s.now, s.seed)
}

func randomSteps(r *rand.Rand, n int) []step {
	g := vtest.NewGen(r)
	tables := vtest.Tables()
	if r.IntN(2) == 0 { // fewer tables, more collisions
		tables = tables[:1+r.IntN(len(tables))]
	}
	var steps []step
	for range n {
		s := step{now: g.Now, seed: r.Uint64()}
		switch d := r.IntN(1000); {
		case d < 700:
			s.batch, s.logged, s.wait = g.Batch(tables), r.IntN(3) == 0, r.IntN(5) > 0
		case d < 880:
			s.do = doCheck
		case d < 900:
			s.do = doFlush
		case d < 910:
			s.do = doCompact
		case d < 925:
			s.do = doCoalesce
		case d < 935:
			s.do = doReopen
		case d < 950:
			s.do = doCrash
		case d < 953:
			s.do = doSnapshot
		case d < 955:
			s.do = doTruncate
		default:
			g.Now += int64(r.IntN(9)) - 3
			s.do = doCheck
		}
		steps = append(steps, s)
	}
	return append(steps, step{do: doCheck, now: g.Now, seed: r.Uint64()})
}

func purgeSteps(r *rand.Rand, n int) []step {
	g := vtest.NewGen(r)
	g.Timestamp = func() int64 { return g.Now*1e6 + int64(r.IntN(4)-2)*1e6 + int64(r.IntN(3)) }
	tables := vtest.Tables()
	var steps []step
	for range n {
		s := step{now: g.Now, seed: r.Uint64()}
		switch d := r.IntN(100); {
		case d < 72:
			s.batch, s.wait = g.Batch(tables), true
		case d < 84:
			s.do = doCheck
		case d < 87:
			s.do = doFlush
		case d < 90:
			s.do = doCompact
		case d < 92:
			s.do = doCoalesce
		case d < 93:
			s.do = doReopen
		default:
			g.Now += int64(r.IntN(30))
			s.do = doCheck
		}
		steps = append(steps, s)
	}
	return append(steps, step{do: doCheck, now: g.Now, seed: r.Uint64()})
}
