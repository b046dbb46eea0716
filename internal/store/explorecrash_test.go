package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"varve/internal/store"
	"varve/internal/vtest"
)

// crashImage is what a power cut leaves at some step, and what may be there then.
type crashImage struct {
	fs      *vfs.MemFS
	step    int
	kept    int // percent of the unsynced data
	acked   int // so many of the commits must be back
	commits int // at most so many may be
}

// crashes runs a scenario in one order and cuts the power after every step.
func (s scenario) crashes(schedule []int, broken store.Rule) (images int, err error) {
	mem := vfs.NewCrashableMem()
	e := &store.Explorer{Broken: broken, Follow: schedule}
	x := &exploration{e: e, s: s, fs: mem}
	var taken []crashImage
	var model *vtest.Model
	step, before := 0, ""
	e.BetweenSteps = func() {
		step++
		a := x.at
		if model == nil {
			model = a.model.Clone()
		}
		// Nothing but commits and syncs changes the disk.
		now := fmt.Sprint(e.Writes, a.acked)
		if now == before {
			return
		}
		before = now
		for _, kept := range []int{0, 50, 100} {
			if kept == 100 { // the engine writes its journal in its own time
				if err := x.st.SyncJournals(); err != nil {
					panic(err)
				}
			}
			taken = append(taken, crashImage{
				fs:   mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: newRand(uint64(step))}),
				step: step, kept: kept, acked: a.mustBeBack(), commits: len(a.order),
			})
		}
	}
	if err := e.Explore(x.run); err != nil {
		return 0, errors.Join(err, x.close())
	}
	a := x.at
	a.model = model
	if err := x.close(); err != nil {
		return 0, err
	}
	for _, im := range taken {
		if err := s.judge(a, im); err != nil {
			return 0, fmt.Errorf("power cut after step %d of %v, %d%% of unsynced data kept: %w", im.step, schedule, im.kept, err)
		}
	}
	return len(taken), nil
}

// mustBeBack is how many of the commits, in their order, a crash may not take.
func (a *arena) mustBeBack() (n int) {
	for i, id := range a.order {
		if a.acked[id] {
			n = i + 1
		}
	}
	return n
}

// judge opens an image: what is read is the state after some of the commits,
// all acknowledged ones among them, the spans are true of it, and it goes on
// from there as it would have without a crash.
func (s scenario) judge(a *arena, im crashImage) (err error) {
	o := exploreOptions(im.fs, func() int64 { return a.now })
	store.UseExplorer(&o, nil, 2)
	st, err := store.Open(context.Background(), o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	back := *a
	back.st, back.order, back.all = st, nil, nil
	// Several numbers of commits may read the same.
	var may []*vtest.Model
	for n := im.acked; n <= im.commits; n++ {
		may = append(may, a.committed(n))
	}
	if may, err = back.agreeing(may); err != nil {
		return err
	}
	back.model = may[0]
	if err := errors.Join(coalesces(-1, true)(&back, nil), purges(&back, nil)); err != nil {
		return err
	}
	if may, err = back.agreeing(may); err != nil {
		return fmt.Errorf("after a pass of the background: %w", err)
	}
	if s.finish == nil {
		return nil
	}
	for i, m := range may {
		back.model = m
		back.quiet = i > 0 // written once, whatever the number of models
		if err := s.finish(&back); err != nil {
			return err
		}
	}
	_, err = back.agreeing(may)
	return err
}

// agreeing are those of some models that the store agrees with: one at least.
func (a *arena) agreeing(may []*vtest.Model) (out []*vtest.Model, err error) {
	for _, m := range may {
		a.model = m
		if err = a.check(); err == nil {
			out = append(out, m)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the state is none that was ever committed: %w", err)
	}
	return out, nil
}

// TestCrashTestFindsUnrecordedCuts writes the records of cut spans in batches of
// their own: some power cut must show that.
func TestCrashTestFindsUnrecordedCuts(t *testing.T) {
	s := scenarioNamed("insert into a span, read both ways")
	e, err := s.explore(store.RuleCutRecorded)
	for _, order := range e.disks {
		if err == nil {
			_, err = s.crashes(order, store.RuleCutRecorded)
		}
	}
	if err == nil {
		t.Error("nothing was found")
	}
	t.Log(err)
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 9)) }
