package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"varve/internal/schema"
	"varve/internal/store"
)

// TestOpenRefusesWrongDirectories opens a store of two shards with its
// directories changed; each time the error must name the one that is wrong.
func TestOpenRefusesWrongDirectories(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(t *testing.T, fs vfs.FS, o *store.Options)
		named string
	}{
		{"data directory emptied", func(t *testing.T, fs vfs.FS, o *store.Options) { empty(t, fs, "a/d1") }, "a/d1"},
		{"data directory missing", func(t *testing.T, fs vfs.FS, o *store.Options) { remove(t, fs, "a/d1") }, "a/d1"},
		{"first data directory missing", func(t *testing.T, fs vfs.FS, o *store.Options) { remove(t, fs, "a/d0") }, "a/d0"},
		{"engine's files missing", func(t *testing.T, fs vfs.FS, o *store.Options) { remove(t, fs, "a/d1/pebble") }, "a/d1"},
		{"engine's files emptied", func(t *testing.T, fs vfs.FS, o *store.Options) { empty(t, fs, "a/d0/pebble") }, "a/d0"},
		{"engine's manifest lost", func(t *testing.T, fs vfs.FS, o *store.Options) { removeMarkers(t, fs, "a/d1/pebble") }, "a/d1"},
		{"journal's files missing", func(t *testing.T, fs vfs.FS, o *store.Options) { remove(t, fs, "j/j0/journal") }, "j/j0"},
		{"journal directory missing", func(t *testing.T, fs vfs.FS, o *store.Options) { remove(t, fs, "j/j1") }, "j/j1"},
		{"journal directory emptied", func(t *testing.T, fs vfs.FS, o *store.Options) { empty(t, fs, "j/j1") }, "j/j1"},
		{"data directories swapped", func(t *testing.T, fs vfs.FS, o *store.Options) {
			o.DataDirs[0], o.DataDirs[1] = o.DataDirs[1], o.DataDirs[0]
		}, "a/d1"},
		{"journal directories swapped", func(t *testing.T, fs vfs.FS, o *store.Options) {
			o.JournalDirs[0], o.JournalDirs[1] = o.JournalDirs[1], o.JournalDirs[0]
		}, "j/j1"},
		{"a directory too few", func(t *testing.T, fs vfs.FS, o *store.Options) {
			o.DataDirs, o.JournalDirs = o.DataDirs[:1], o.JournalDirs[:1]
		}, "2"},
		{"a directory too many", func(t *testing.T, fs vfs.FS, o *store.Options) {
			o.DataDirs, o.JournalDirs = append(o.DataDirs, "a/d2"), append(o.JournalDirs, "j/j2")
		}, "a/d2"},
		{"the same directory twice", func(t *testing.T, fs vfs.FS, o *store.Options) { o.DataDirs[1] = "a/d0" }, "a/d0"},
		{"data directory of another store", func(t *testing.T, fs vfs.FS, o *store.Options) { o.DataDirs[1] = "other/d1" }, "other/d1"},
		{"journal directory of another store", func(t *testing.T, fs vfs.FS, o *store.Options) { o.JournalDirs[1] = "other/j1" }, "other/j1"},
		{"journal directories forgotten", func(t *testing.T, fs vfs.FS, o *store.Options) { o.JournalDirs = nil }, "a/d0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fs := vfs.NewMem()
			twoShards(t, fs, "other/d", "other/j")
			o := twoShards(t, fs, "a/d", "j/j")
			tt.spoil(t, fs, &o)
			st, err := store.Open(tContext, o)
			if err == nil {
				_ = st.Close()
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), tt.named) {
				t.Errorf("the error does not name %s: %v", tt.named, err)
			}
			if tt.name == "data directories swapped" || tt.name == "a directory too few" {
				requireWhole(t, fs)
			}
		})
	}
}

// twoShards makes a store with a batch in it and closes it.
func twoShards(t *testing.T, fs vfs.FS, data, journal string) store.Options {
	o := memOptions(fs, 0)
	o.DataDirs = []string{data + "0", data + "1"}
	o.JournalDirs = []string{journal + "0", journal + "1"}
	st := mustOpen(t, o)
	if err := applyWait(st, ledgerBatch(t, st, ledgerTable(), 1), true); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	return o
}

// requireWhole opens the store with its right directories: a refusal must not have changed it.
func requireWhole(t *testing.T, fs vfs.FS) {
	t.Helper()
	o := memOptions(fs, 0)
	o.DataDirs, o.JournalDirs = []string{"a/d0", "a/d1"}, []string{"j/j0", "j/j1"}
	st := mustOpen(t, o)
	found, err := readLedger(st, ledgerTable())
	if err = errors.Join(err, st.Close()); err != nil {
		t.Fatal(err)
	}
	if found[1] != ledgerPartitions {
		t.Errorf("after a refused opening the batch is found in %d partitions", found[1])
	}
}

func remove(t *testing.T, fs vfs.FS, dir string) {
	t.Helper()
	if err := fs.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}

// removeMarkers removes what names the engine's current manifest.
func removeMarkers(t *testing.T, fs vfs.FS, dir string) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasPrefix(n, "marker.manifest") {
			remove(t, fs, fs.PathJoin(dir, n))
		}
	}
}

func empty(t *testing.T, fs vfs.FS, dir string) {
	t.Helper()
	remove(t, fs, dir)
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestOpenTwiceIsRefused opens a store that is open.
func TestOpenTwiceIsRefused(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"memory": vfs.NewMem(), "disk": vfs.Default} {
		t.Run(name, func(t *testing.T) {
			o := memOptions(fs, 1)
			o.DataDirs = []string{fs.PathJoin(t.TempDir(), "d")}
			st := mustOpen(t, o)
			if second, err := store.Open(tContext, o); err == nil {
				_ = second.Close()
				t.Error("opened twice")
			} else if !strings.Contains(err.Error(), o.DataDirs[0]) {
				t.Errorf("the error does not name the directory: %v", err)
			}
			if err := st.Close(); err != nil {
				t.Fatal(err)
			}
			st = mustOpen(t, o)
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestHostIDStays checks that a store keeps its identity and two do not share one.
func TestHostIDStays(t *testing.T) {
	fs := vfs.NewMem()
	st := mustOpen(t, memOptions(fs, 2))
	id := st.HostID()
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	st = mustOpen(t, memOptions(fs, 2))
	if st.HostID() != id {
		t.Errorf("host id %x became %x", id, st.HostID())
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	other := mustOpen(t, memOptions(vfs.NewMem(), 1))
	if other.HostID() == id || id == [16]byte{} {
		t.Errorf("host ids %x and %x", id, other.HostID())
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDropPhysTouchesNoNeighbour drops the ids around those of two tables, then one of them.
func TestDropPhysTouchesNoNeighbour(t *testing.T) {
	st := mustOpen(t, memOptions(vfs.NewMem(), 2))
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	a, b := ledgerTable(), ledgerTable()
	b.PhysID = a.PhysID + 1
	for _, tab := range []*schema.Table{a, b} {
		if err := applyWait(st, ledgerBatch(t, st, tab, 1), false); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(wantA, wantB int) {
		t.Helper()
		fa, errA := readLedger(st, a)
		fb, errB := readLedger(st, b)
		if err := errors.Join(errA, errB); err != nil {
			t.Fatal(err)
		}
		if fa[1] != wantA || fb[1] != wantB {
			t.Errorf("found %d and %d rows, want %d and %d", fa[1], fb[1], wantA, wantB)
		}
	}
	for _, id := range []uint32{a.PhysID - 1, b.PhysID + 1} {
		if err := st.DropPhys(tContext, id); err != nil {
			t.Fatal(err)
		}
	}
	expect(ledgerPartitions, ledgerPartitions)
	if err := st.Flush(tContext, nil); err != nil {
		t.Fatal(err)
	}
	if err := st.DropPhys(tContext, a.PhysID); err != nil {
		t.Fatal(err)
	}
	expect(0, ledgerPartitions)
	if err := st.Truncate(tContext, b); err != nil {
		t.Fatal(err)
	}
	expect(0, 0)
	if err := applyWait(st, ledgerBatch(t, st, b, 2), false); err != nil {
		t.Fatal(err)
	}
	if f, err := readLedger(st, b); err != nil || f[2] != ledgerPartitions || len(f) != 1 {
		t.Errorf("after a truncation, a new batch: %v %v", f, err)
	}
}
