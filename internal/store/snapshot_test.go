package store_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// twoDisks is a memory file system whose directory "other" lies on a disk of its own.
type twoDisks struct {
	vfs.FS
	refused atomic.Int64
}

func (f *twoDisks) crosses(a, b string) bool {
	if strings.HasPrefix(a, "other/") != strings.HasPrefix(b, "other/") {
		f.refused.Add(1)
		return true
	}
	return false
}

func (f *twoDisks) Rename(a, b string) error {
	if f.crosses(a, b) {
		return syscall.EXDEV
	}
	return f.FS.Rename(a, b)
}

func (f *twoDisks) Link(a, b string) error {
	if f.crosses(a, b) {
		return syscall.EXDEV
	}
	return f.FS.Link(a, b)
}

// TestSnapshotToAnotherDisk takes snapshots on the same disk and on another
// one and opens them; nothing may be left beside the store's files.
func TestSnapshotToAnotherDisk(t *testing.T) {
	fs := &twoDisks{FS: vfs.NewMem()}
	o := memOptions(fs, 2)
	o.JournalDirs = []string{"journal0", "journal1"}
	st := mustOpen(t, o)
	tab := ledgerTable()
	write := func(n int) {
		t.Helper()
		if err := applyWait(st, ledgerBatch(t, st, tab, n), n%2 == 0); err != nil {
			t.Fatal(err)
		}
	}
	write(1)
	if err := st.Flush(tContext, nil); err != nil {
		t.Fatal(err)
	}
	write(2) // in the journal only
	for _, dir := range []string{"here/snap", "other/snap"} {
		if err := st.Snapshot(tContext, dir); err != nil {
			t.Fatal(err)
		}
	}
	if fs.refused.Load() != 2 {
		t.Errorf("%d renames or links to the other disk were tried, not one a shard", fs.refused.Load())
	}
	write(3) // in none
	cancelled, cancel := context.WithCancel(tContext)
	cancel()
	if err := st.Snapshot(cancelled, "other/late"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	for _, d := range o.DataDirs {
		names, err := fs.List(d)
		if err != nil || strings.Contains(strings.Join(names, " "), ".snapshot") {
			t.Errorf("%s holds %v, %v", d, names, err)
		}
	}
	for _, dir := range []string{"here/snap", "other/snap"} {
		so := memOptions(fs, 0)
		so.DataDirs = []string{dir + "/shard-0", dir + "/shard-1"}
		snap := mustOpen(t, so)
		if snap.HostID() != st.HostID() {
			t.Errorf("%s: of another store", dir)
		}
		found, err := readLedger(snap, tab)
		if err = errors.Join(err, snap.Close()); err != nil {
			t.Fatal(err)
		}
		if len(found) != 2 || found[1] != ledgerPartitions || found[2] != ledgerPartitions {
			t.Errorf("%s: batches found %v", dir, found)
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOpenRemovesInterruptedSnapshots finds a snapshot's links after a crash.
func TestOpenRemovesInterruptedSnapshots(t *testing.T) {
	fs := vfs.NewMem()
	st := mustOpen(t, memOptions(fs, 1))
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if err := fs.MkdirAll("data0/.snapshot-7", 0o700); err != nil {
		t.Fatal(err)
	}
	st = mustOpen(t, memOptions(fs, 1))
	if _, err := fs.Stat("data0/.snapshot-7"); err == nil {
		t.Error("it is still there")
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
}
