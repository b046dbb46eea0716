package store

import (
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// journalFS ends the store as soon as a journal cannot be written, synced,
// begun or closed. The engine cannot go on then (it may have lost a write that
// it believes to be safe) and would panic in ways that nobody can catch.
// Errors while the store is being opened are returned as they are.
type journalFS struct {
	vfs.FS
	s *Store
}

func (f journalFS) check(err error) error {
	if err != nil && f.s.armed.Load() {
		f.s.fatal(err)
	}
	return err
}

func isJournal(name string) bool { return strings.HasSuffix(name, ".log") }

// Create implements vfs.FS.
func (f journalFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	if !isJournal(name) {
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
	if !isJournal(newname) {
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
	return n, f.fs.check(err)
}

// WriteAt implements vfs.File.
func (f journalFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	return n, f.fs.check(err)
}

// Sync implements vfs.File.
func (f journalFile) Sync() error { return f.fs.check(f.File.Sync()) }

// SyncData implements vfs.File.
func (f journalFile) SyncData() error { return f.fs.check(f.File.SyncData()) }

// SyncTo implements vfs.File.
func (f journalFile) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	return full, f.fs.check(err)
}

// Close implements vfs.File.
func (f journalFile) Close() error { return f.fs.check(f.File.Close()) }
