package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"varve/internal/schema"
	"varve/internal/store"
)

// Undone is what a restore would bring back, table by table: rows and values
// that live in the backup and no more in the store that it was made of.
type Undone struct {
	Tables []UndoneTable
}

// Any reports that a restore would undo deletions.
func (u *Undone) Any() bool { return len(u.Tables) > 0 }

// UndoneTable is a table of which something would come back.
type UndoneTable struct {
	Keyspace, Table string
	// Dropped: the store has the table no more; all its rows would be back.
	Dropped  bool
	Rows     int64    // would be back whole
	Cells    int64    // values and elements that would be back in rows that are still there
	Examples []string // of such rows, as ((1), 2026-…, 7)
}

const maxExamples = 5

// ErrOtherStore says that a backup was made of another store than it is compared with.
var ErrOtherStore = errors.New("the backup is of another store")

// WouldUndo tells which deletions a restore of a backup would undo: it reads
// the backup and the store it was made of, row by row, at the time now (seconds
// since 1970, for what expires). The store may be in use; what is deleted
// while it is read may be missed.
func WouldUndo(ctx context.Context, dir, name string, st *store.Store, snap *schema.Snapshot, now int64) (*Undone, error) {
	return onDisk().wouldUndo(ctx, dir, name, st, snap, now)
}

func (t tool) wouldUndo(
	ctx context.Context, dir, name string, st *store.Store, snap *schema.Snapshot, now int64,
) (_ *Undone, err error) {
	path, m, err := t.openBackup(dir, name)
	if err != nil {
		return nil, err
	}
	if host := st.HostID(); fmt.Sprintf("%x", host[:]) != m.HostID {
		return nil, fmt.Errorf("check %s: %w: it is of %s, this is %x", path, ErrOtherStore, m.HostID, host[:])
	}
	shards, err := t.shardDirs(path)
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", path, err)
	}
	for i := range shards {
		shards[i] = t.fs.PathJoin(path, shards[i])
	}
	then, err := store.Open(ctx, store.Options{DataDirs: shards, FS: untouched{t.fs}, ReadOnly: true, CacheBytes: 32 << 20})
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, then.Close()) }()
	cat, err := schema.Open(ctx, then)
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", path, err)
	}
	u, err := compareStates(ctx, then, st, cat.Snapshot(), snap, now)
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", path, err)
	}
	return u, nil
}

// untouched is a file system on which opening a store leaves no lock file.
type untouched struct{ vfs.FS }

// Lock implements vfs.FS.
func (untouched) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

func compareStates(ctx context.Context, then, st *store.Store, old, cur *schema.Snapshot, now int64) (*Undone, error) {
	u := &Undone{}
	for _, ks := range slices.Sorted(maps.Keys(old.Keyspaces)) {
		tables := old.Keyspaces[ks].Tables
		for _, name := range slices.Sorted(maps.Keys(tables)) {
			t := tables[name]
			if t.Virtual || t.System {
				continue
			}
			x, err := compareTable(ctx, then, st, t, cur.Table(ks, name), now)
			if err != nil {
				return nil, fmt.Errorf("table %s.%s: %w", ks, name, err)
			}
			if x.Rows+x.Cells > 0 || x.Dropped {
				u.Tables = append(u.Tables, *x)
			}
		}
	}
	return u, nil
}

func compareTable(ctx context.Context, then, st *store.Store, t, cur *schema.Table, now int64) (*UndoneTable, error) {
	x := &UndoneTable{Keyspace: t.Keyspace, Table: t.Name}
	if cur == nil || cur.ID != t.ID {
		// A table of the name that was made since holds nothing of this one.
		x.Dropped = true
		cur = t
	}
	var stats [2]store.ReadStats
	old := then.View(store.ReadOptions{NowSec: now, Stats: &stats[0]})
	new := st.View(store.ReadOptions{NowSec: now, Stats: &stats[1]})
	err := store.Losses(ctx, old, new, t, cur, func(l store.Loss) error {
		if l.Row {
			x.Rows++
		}
		x.Cells += l.Cells
		if len(x.Examples) < maxExamples {
			x.Examples = append(x.Examples, l.Name())
		}
		return nil
	})
	return x, errors.Join(err, old.Close(), new.Close())
}
