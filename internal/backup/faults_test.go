package backup

import (
	"errors"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"varve/internal/store"
)

// backedUp is a memory disk with a closed store of two shards and a backup of it.
func backedUp(t *testing.T) (*rig, *vfs.MemFS) {
	mem := vfs.NewCrashableMem()
	r := newRig(t, mem, "", 2, true)
	r.write(20, true)
	if _, err := (tool{mem, time.Now}).create(t.Context(), r.st, "b", "x", nil); err != nil {
		t.Fatal(err)
	}
	r.close()
	return r, mem
}

// TestRestoreSurvivesFaults fails and, in the next run, cuts the power at a
// sample of a restore's disk operations. Either way the targets open as the
// whole store or are refused or empty, and a second restore succeeds.
func TestRestoreSurvivesFaults(t *testing.T) {
	r, mem := backedUp(t)
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 2))
	data, journals := r.dirs("target")
	for n := int64(1); ; n += 1 + rng.Int64N(8) {
		disk := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
		var after *vfs.MemFS
		var count atomic.Int64
		cut := rng.IntN(2) == 0
		fs := errorfs.Wrap(disk, errorfs.InjectorFunc(func(errorfs.Op) error {
			if count.Add(1) != n {
				return nil
			}
			if cut {
				after = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 100}[rng.IntN(3)], RNG: rng})
				return nil
			}
			return errorfs.ErrInjected
		}))
		err := (tool{fs, time.Now}).restore(t.Context(), "b", "x", data, journals, nil)
		if count.Load() < n {
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d operations", count.Load())
			return
		}
		if after == nil {
			after = disk
		}
		judgeRestore(t, r, after, n, err == nil && !cut)
		if t.Failed() {
			t.Fatalf("operation %d, power cut %v, error %v", n, cut, err)
		}
	}
}

func judgeRestore(t *testing.T, r *rig, disk *vfs.MemFS, n int64, done bool) {
	at := *r
	at.fs = disk
	data, journals := at.dirs("target")
	if !done {
		at.neverHalf(data, journals)
		err := (tool{disk, time.Now}).restore(t.Context(), "b", "x", data, journals, nil)
		if errors.Is(err, ErrNotEmpty) { // it had gone further: to the end, or to where Open refuses
			st, err := at.openErr(data, journals)
			if err != nil {
				return
			}
			at.compare(st)
			return
		}
		if err != nil {
			t.Errorf("a second restore: %v", err)
			return
		}
	}
	at.compare(at.open(data, journals))
}

// neverHalf opens the targets of an interrupted restore, where any bears its
// mark: the store must refuse them.
func (r *rig) neverHalf(data, journals []string) {
	for _, d := range append(append([]string{}, data...), journals...) {
		if _, err := r.fs.Stat(r.fs.PathJoin(d, store.StageDir)); err != nil {
			continue
		}
		if st, err := r.openErr(data, journals); err == nil {
			r.t.Errorf("%s bears the mark of a restore, and yet the store opens: %v", d, st.Close())
		}
		return
	}
}

// TestCreateSurvivesFaults fails each of a sample of a backup's disk
// operations: a backup that is listed as whole is whole.
func TestCreateSurvivesFaults(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 3))
	mem := vfs.NewMem()
	var count, failAt atomic.Int64
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if at := failAt.Load(); at > 0 && len(op.Path) > 1 && op.Path[:2] == "b/" && count.Add(1) == at {
			return errorfs.ErrInjected
		}
		return nil
	}))
	r := newRig(t, fs, "", 2, false)
	r.write(20, true)
	tl := tool{fs, time.Now}
	for n := int64(1); ; n += 1 + rng.Int64N(6) {
		count.Store(0)
		failAt.Store(n)
		_, err := tl.create(t.Context(), r.st, "b", "x", nil)
		failAt.Store(0)
		list, lerr := tl.list("b")
		if err != nil && errors.Is(lerr, os.ErrNotExist) {
			lerr = nil // not even the directory was made
		}
		if lerr != nil || err != nil && len(list) > 1 {
			t.Fatalf("operation %d: %v %v", n, list, lerr)
		} else if len(list) == 1 {
			if verr := tl.verify(t.Context(), "b", "x", nil); verr != nil {
				t.Fatalf("operation %d, error %v: %v", n, err, verr)
			}
			if rerr := mem.RemoveAll("b/x"); rerr != nil {
				t.Fatal(rerr)
			}
		} else if err == nil {
			t.Fatalf("operation %d: no error and no backup", n)
		}
		if count.Load() < n {
			break
		}
	}
	r.close()
}
