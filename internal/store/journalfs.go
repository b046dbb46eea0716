package store

import (
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// journalFS ends the store as soon as a journal cannot be written, synced,
// begun or closed. The engine cannot go on then (it may have lost a write that
// it believes to be safe) and would panic in ways that nobody can catch.
// Files that cannot be made while the store is being opened are its error instead.
// Other directories, to which snapshots are written, may fail as they like.
type journalFS struct {
	vfs.FS
	s    *Store
	dirs []string // of the shard's data and journal files
}

func (f journalFS) check(err error) error {
	if err != nil && f.s.armed.Load() {
		f.s.fatal(err)
	}
	return err
}

// written is check for operations that the engine trusts, open or not.
func (f journalFS) written(err error) error {
	if err != nil {
		f.s.fatal(err)
	}
	return err
}

func (f journalFS) owns(dir string) bool { return slices.Contains(f.dirs, f.FS.PathJoin(dir)) }

func (f journalFS) isJournal(name string) bool {
	return strings.HasSuffix(name, ".log") && f.owns(f.FS.PathDir(name))
}

// before syncs the directory ahead of a change to one of the engine's marker
// files. They say which manifest counts: without it a power cut could keep a
// marker and lose its manifest, or lose the old marker and the new one.
func (f journalFS) before(name string) error {
	dir := f.FS.PathDir(name)
	if !strings.HasPrefix(f.FS.PathBase(name), "marker.") || !f.owns(dir) {
		return nil
	}
	return f.check(syncDir(f.FS, dir))
}

// Remove implements vfs.FS.
func (f journalFS) Remove(name string) error {
	if err := f.before(name); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

// Create implements vfs.FS.
func (f journalFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.before(name); err != nil {
		return nil, err
	}
	file, err := f.FS.Create(name, c)
	if !f.isJournal(name) {
		return file, err
	}
	if f.check(err) != nil {
		return nil, err
	}
	return journalFile{file, f}, nil
}

// ReuseForWrite implements vfs.FS.
func (f journalFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(oldname, newname, c)
	if !f.isJournal(newname) {
		return file, err
	}
	if f.check(err) != nil {
		return nil, err
	}
	return journalFile{file, f}, nil
}

// OpenDir implements vfs.FS: a directory whose sync fails may forget a journal's name.
func (f journalFS) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	if !f.owns(name) {
		return file, err
	}
	if f.check(err) != nil {
		return nil, err
	}
	return journalFile{file, f}, nil
}

// Unwrap implements vfs.FS.
func (f journalFS) Unwrap() vfs.FS { return f.FS }

type journalFile struct {
	vfs.File
	fs journalFS
}

// Write implements vfs.File.
func (f journalFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.fs.written(err)
}

// WriteAt implements vfs.File.
func (f journalFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	return n, f.fs.written(err)
}

// Sync implements vfs.File.
func (f journalFile) Sync() error { return f.fs.written(f.File.Sync()) }

// SyncData implements vfs.File.
func (f journalFile) SyncData() error { return f.fs.written(f.File.SyncData()) }

// SyncTo implements vfs.File.
func (f journalFile) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	return full, f.fs.written(err)
}

// Close implements vfs.File.
func (f journalFile) Close() error { return f.fs.written(f.File.Close()) }
