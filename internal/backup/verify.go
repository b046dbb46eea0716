package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// DamageError lists what is wrong with a backup, one finding a line.
type DamageError struct {
	Dir      string
	Findings []string
}

// Error implements error.
func (e *DamageError) Error() string {
	return fmt.Sprintf("backup %s is damaged: %s", e.Dir, strings.Join(e.Findings, "; "))
}

// Verify reads every byte of a backup and compares sizes and checksums with
// the manifest. It goes on to the end and returns a *DamageError with all
// findings; files that the manifest does not know are among them.
func Verify(ctx context.Context, dir, name string) error {
	return onDisk().verify(ctx, dir, name, nil)
}

// VerifyProgress is Verify with a progress report.
func VerifyProgress(ctx context.Context, dir, name string, progress Progress) error {
	return onDisk().verify(ctx, dir, name, progress)
}

func (t tool) verify(ctx context.Context, dir, name string, progress Progress) error {
	path, m, err := t.openBackup(dir, name)
	if err != nil {
		return err
	}
	mt := &meter{report: progress, total: m.Bytes}
	damage := &DamageError{Dir: path}
	known := map[string]bool{}
	for _, f := range m.Files {
		known[f.Path] = true
		finding, err := t.verifyFile(ctx, path, f, mt)
		if err != nil {
			return fmt.Errorf("verify backup %s: %w", path, err)
		}
		if finding != "" {
			damage.Findings = append(damage.Findings, finding)
		}
	}
	err = walk(t.fs, path, shardsDir, func(rel string, _ vfs.FileInfo) error {
		if !known[rel] {
			damage.Findings = append(damage.Findings, rel+" is not in the manifest")
		}
		return nil
	}, func(string) error { return nil })
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("verify backup %s: %w", path, err)
	}
	if len(damage.Findings) > 0 {
		return damage
	}
	return nil
}

// verifyFile returns what is wrong with a file; errors are those of the caller's context.
func (t tool) verifyFile(ctx context.Context, dir string, f File, m *meter) (string, error) {
	size, sum, err := sumFile(ctx, t.fs, t.fs.PathJoin(dir, f.Path), m)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, os.ErrNotExist):
		return f.Path + " is missing", nil
	case err != nil:
		return fmt.Sprintf("%s cannot be read: %v", f.Path, err), nil
	case size != f.Size:
		return fmt.Sprintf("%s has %d bytes instead of %d", f.Path, size, f.Size), nil
	case sum != f.SHA256:
		return f.Path + " has a wrong checksum", nil
	}
	return "", nil
}

// openBackup finds a backup and reads its manifest.
func (t tool) openBackup(dir, name string) (string, Manifest, error) {
	if err := checkName(name); err != nil {
		return "", Manifest{}, fmt.Errorf("backup: %w", err)
	}
	path := t.fs.PathJoin(dir, name)
	there, err := exists(t.fs, path)
	if err != nil {
		return "", Manifest{}, fmt.Errorf("backup %s: %w", path, err)
	}
	if !there {
		return "", Manifest{}, fmt.Errorf("backup %s: %w", path, ErrNoBackup)
	}
	m, err := readManifest(t.fs, path)
	if err != nil {
		return "", Manifest{}, fmt.Errorf("backup %s: %w", path, err)
	}
	for _, f := range m.Files {
		if !localPath(f.Path) {
			return "", Manifest{}, fmt.Errorf("backup %s: the manifest names %q", path, f.Path)
		}
	}
	return path, m, nil
}

// localPath accepts paths below the shards' directory only, so that no
// manifest can make a restore write elsewhere.
func localPath(p string) bool {
	parts := strings.Split(p, "/")
	if len(parts) < 3 || parts[0] != shardsDir {
		return false
	}
	for _, s := range parts {
		if s == "" || s == "." || s == ".." || strings.ContainsAny(s, "\\\x00") {
			return false
		}
	}
	return true
}
