package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"varve/internal/store"
)

// Restore turns a backup into a store that opens with the given directories,
// as many as it had. They must be empty or missing. Every file is checked on
// its way. Until everything is there and synced a store that is opened there
// says that the restore was interrupted; it can then be run again. An error or
// a cancelled context leaves the targets as they were.
func Restore(ctx context.Context, dir, name string, targetDataDirs, targetJournalDirs []string) error {
	return onDisk().restore(ctx, dir, name, targetDataDirs, targetJournalDirs, nil)
}

// RestoreProgress is Restore with a progress report.
func RestoreProgress(
	ctx context.Context, dir, name string, targetDataDirs, targetJournalDirs []string, progress Progress,
) error {
	return onDisk().restore(ctx, dir, name, targetDataDirs, targetJournalDirs, progress)
}

func (t tool) restore(ctx context.Context, dir, name string, data, journals []string, progress Progress) error {
	path, m, err := t.openBackup(dir, name)
	if err != nil {
		return err
	}
	shards, err := t.shardDirs(path)
	if err != nil {
		return fmt.Errorf("restore %s: %w", path, err)
	}
	if len(shards) != m.Shards || len(data) != m.Shards || len(journals) != 0 && len(journals) != m.Shards {
		return fmt.Errorf("restore %s: it is of %d shards, each wants a data directory; %d data and %d journal directories are given",
			path, m.Shards, len(data), len(journals))
	}
	targets := append(append([]string{}, data...), journals...)
	made, err := t.prepare(targets)
	if err == nil {
		err = t.fill(ctx, path, m, shards, data, journals, progress)
	}
	if err != nil {
		return fmt.Errorf("restore %s: %w", path, errors.Join(err, t.undo(made)))
	}
	return nil
}

// prepare makes the targets, checks that they are empty, and marks them as
// being restored. It returns those it made.
func (t tool) prepare(targets []string) (made map[string]bool, err error) {
	made = map[string]bool{}
	for i, d := range targets {
		if slices.Contains(targets[:i], d) {
			return made, fmt.Errorf("target %s is given twice", d)
		}
		if err := t.checkTarget(d); err != nil {
			return made, err
		}
	}
	for _, d := range targets {
		there, err := exists(t.fs, d)
		if err != nil {
			return made, err
		}
		if made[d] = !there; there {
			if err := t.empty(d); err != nil {
				return made, err
			}
		}
		if err := t.fs.MkdirAll(t.fs.PathJoin(d, store.StageDir), 0o700); err != nil {
			return made, err
		}
		if err := errors.Join(syncDir(t.fs, d), syncDir(t.fs, t.fs.PathDir(d))); err != nil {
			return made, err
		}
	}
	return made, nil
}

// ErrNotEmpty says that a restore's target holds something.
var ErrNotEmpty = errors.New("not empty")

// checkTarget accepts a directory that is missing, empty, or left by an
// interrupted restore, which marks it until all data is in place.
func (t tool) checkTarget(d string) error {
	names, err := t.fs.List(d)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if slices.Contains(names, store.StageDir) {
		return nil
	}
	for _, n := range names {
		if n != "lost+found" { // what a new disk holds
			return fmt.Errorf("target %s: %w: it holds %s", d, ErrNotEmpty, n)
		}
	}
	return nil
}

// empty removes what a restore, this one or an interrupted one, has put into a target.
func (t tool) empty(d string) error {
	names, err := t.fs.List(d)
	if err != nil {
		return err
	}
	// The mark goes last, so that this can be interrupted, too.
	slices.SortFunc(names, func(a, b string) int { return compareBool(a == store.StageDir, b == store.StageDir) })
	for _, n := range names {
		if n == "lost+found" {
			continue
		}
		if err := t.fs.RemoveAll(t.fs.PathJoin(d, n)); err != nil {
			return err
		}
	}
	return nil
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// undo empties the targets, which held nothing before, and removes those that were made.
func (t tool) undo(made map[string]bool) error {
	var errs []error
	for d, m := range made {
		if m {
			errs = append(errs, t.fs.RemoveAll(d))
		} else {
			errs = append(errs, t.empty(d))
		}
	}
	return errors.Join(errs...)
}

// fill copies all shards into their stages, then lets the store move them in.
func (t tool) fill(
	ctx context.Context, path string, m Manifest, shards, data, journals []string, progress Progress,
) error {
	mt := &meter{report: progress, total: m.Bytes}
	for i, shard := range shards {
		files, bytes := filesOf(m, shard)
		if err := requireSpace(t.fs, data[i], bytes); err != nil {
			return err
		}
		if err := t.copyShard(ctx, path, shard, files, t.fs.PathJoin(data[i], store.StageDir), mt); err != nil {
			return err
		}
	}
	return store.Install(t.fs, data, journals)
}

func filesOf(m Manifest, shard string) (files []File, bytes int64) {
	for _, f := range m.Files {
		if strings.HasPrefix(f.Path, shard+"/") {
			files = append(files, f)
			bytes += f.Size
		}
	}
	return files, bytes
}

func (t tool) copyShard(ctx context.Context, path, shard string, files []File, stage string, m *meter) error {
	for _, f := range files {
		to := t.fs.PathJoin(stage, strings.TrimPrefix(f.Path, shard+"/"))
		if err := t.fs.MkdirAll(t.fs.PathDir(to), 0o700); err != nil {
			return err
		}
		size, sum, err := copyFile(ctx, t.fs, t.fs.PathJoin(path, f.Path), to, m)
		if err != nil {
			return err
		}
		if size != f.Size || sum != f.SHA256 {
			return &DamageError{Dir: path, Findings: []string{f.Path + " is not what was backed up"}}
		}
	}
	return walk(t.fs, stage, "", func(string, vfs.FileInfo) error { return nil }, func(rel string) error {
		return syncDir(t.fs, t.fs.PathJoin(stage, rel))
	})
}
