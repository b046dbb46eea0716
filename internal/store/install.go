package store

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// StageDir is the directory, in each directory of a store to be, in which a
// restore builds it. Open makes no new store where one lies.
const StageDir = ".restoring"

// Install makes a store of the directories of a snapshot (see Snapshot), one a
// shard and in order, which the caller has put, synced, into StageDir of each
// data directory. The store keeps the snapshot's id. Its journals go into the
// journal directories where there are any. Until the last step, which writes
// the identity of the first data directory, Open refuses the directories by
// name; no StageDir is left then.
func Install(fs vfs.FS, dataDirs, journalDirs []string) error {
	ids := make([]identity, len(dataDirs))
	for i, dir := range dataDirs {
		stage := fs.PathJoin(dir, StageDir)
		id, err := readIdentity(fs, stage)
		if err != nil {
			return fmt.Errorf("install: %w", err)
		}
		if id == nil {
			return fmt.Errorf("install: directory %s has no %s", stage, identityFile)
		}
		ids[i] = *id
		want := identity{Format: identityFormat, Store: ids[0].Store, Shards: len(dataDirs), Role: roleData, Index: i}
		want.Snapshot = ids[0].Snapshot
		if ids[i] != want {
			return fmt.Errorf("install: directory %s is not shard %d of a snapshot of %d shards", stage, i, len(dataDirs))
		}
		ids[i].Journals = len(journalDirs) > 0
	}
	for i, dir := range dataDirs {
		from := fs.PathJoin(dir, StageDir, dataSubdir)
		if len(journalDirs) > 0 {
			if err := installJournal(fs, ids[i], from, journalDirs[i]); err != nil {
				return fmt.Errorf("install journal of shard %d: %w", i, err)
			}
		}
		if err := errors.Join(fs.Rename(from, fs.PathJoin(dir, dataSubdir)), syncDir(fs, dir)); err != nil {
			return fmt.Errorf("install shard %d: %w", i, err)
		}
	}
	for i := len(dataDirs) - 1; i > 0; i-- {
		if err := writeIdentity(fs, dataDirs[i], &ids[i]); err != nil {
			return fmt.Errorf("install: %w", err)
		}
	}
	for _, dir := range append(append([]string{}, dataDirs...), journalDirs...) {
		if err := errors.Join(fs.RemoveAll(fs.PathJoin(dir, StageDir)), syncDir(fs, dir)); err != nil {
			return fmt.Errorf("install: %w", err)
		}
	}
	return writeIdentity(fs, dataDirs[0], &ids[0])
}

func installJournal(fs vfs.FS, id identity, from, journal string) error {
	if err := moveJournals(fs, from, fs.PathJoin(journal, journalSubdir)); err != nil {
		return err
	}
	id.Role = roleJournal
	return writeIdentity(fs, journal, &id)
}

// moveJournals copies the journal's files, which may go to another disk, and removes the originals.
func moveJournals(fs vfs.FS, from, to string) error {
	if err := makeDir(fs, to); err != nil {
		return err
	}
	names, err := fs.List(from)
	if err != nil {
		return err
	}
	var moved []string
	for _, n := range names {
		if !strings.HasSuffix(n, ".log") {
			continue
		}
		if err := copySynced(fs, fs.PathJoin(from, n), fs.PathJoin(to, n)); err != nil {
			return err
		}
		moved = append(moved, n)
	}
	if err := syncDir(fs, to); err != nil {
		return err
	}
	for _, n := range moved {
		if err := fs.Remove(fs.PathJoin(from, n)); err != nil {
			return err
		}
	}
	return syncDir(fs, from)
}

func copySynced(fs vfs.FS, from, to string) error {
	src, err := fs.Open(from)
	if err != nil {
		return err
	}
	dst, err := fs.Create(to, vfs.WriteCategoryUnspecified)
	if err != nil {
		return errors.Join(err, src.Close())
	}
	_, err = io.Copy(dst, src)
	if err == nil {
		err = dst.Sync()
	}
	return errors.Join(err, dst.Close(), src.Close())
}
