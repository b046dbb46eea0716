package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"varve/internal/schema"
	"varve/internal/store"
)

const (
	shardsDir = "shards"
	// partial is put before the name of what is not finished; no valid name begins so.
	partial = ".partial-"
)

// tool is the package's functions on one file system.
type tool struct {
	fs  vfs.FS
	now func() time.Time
}

func onDisk() tool { return tool{vfs.Default, time.Now} }

// Create makes the backup <dir>/<name> of a store while it runs. What is in
// it is one state of each shard, taken at the beginning; the copying goes on
// beside writes. The name must be free. After an error or a cancelled context
// nothing is left that List would show.
func Create(ctx context.Context, st *store.Store, dir, name string, progress Progress) (Manifest, error) {
	return onDisk().create(ctx, st, dir, name, progress)
}

func (t tool) create(ctx context.Context, st *store.Store, dir, name string, progress Progress) (Manifest, error) {
	if err := checkName(name); err != nil {
		return Manifest{}, fmt.Errorf("backup: %w", err)
	}
	final, tmp := t.fs.PathJoin(dir, name), t.fs.PathJoin(dir, partial+name)
	if there, err := exists(t.fs, final); err != nil {
		return Manifest{}, fmt.Errorf("backup %s: %w", name, err)
	} else if there {
		return Manifest{}, fmt.Errorf("backup %s: %w", final, ErrExists)
	}
	m, err := t.stage(ctx, st, tmp, name, progress)
	if err == nil {
		err = t.fs.Rename(tmp, final)
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("backup %s: %w", name, errors.Join(err, t.fs.RemoveAll(tmp)))
	}
	if err := syncDir(t.fs, dir); err != nil {
		return Manifest{}, fmt.Errorf("backup %s: %w", name, err)
	}
	return m, nil
}

// stage builds everything in tmp.
func (t tool) stage(ctx context.Context, st *store.Store, tmp, name string, progress Progress) (Manifest, error) {
	if err := t.fs.RemoveAll(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return Manifest{}, err
	}
	if err := t.fs.MkdirAll(tmp, 0o700); err != nil {
		return Manifest{}, err
	}
	host := st.HostID()
	m := Manifest{Format: manifestFormat, Name: name, HostID: hex.EncodeToString(host[:])}
	var err error
	if m.SchemaVersion, err = schemaVersion(ctx, st); err != nil {
		return m, err
	}
	m.Begun = t.now().UTC()
	if err := st.Snapshot(ctx, t.fs.PathJoin(tmp, shardsDir)); err != nil {
		return m, err
	}
	m.Taken = t.now().UTC()
	shards, err := t.shardDirs(tmp)
	if err != nil {
		return m, err
	}
	m.Shards = len(shards)
	if err := t.collect(ctx, tmp, &m, progress); err != nil {
		return m, err
	}
	m.Finished = t.now().UTC()
	return m, writeManifest(t.fs, tmp, m)
}

// schemaVersion is a digest of the catalogue as it is stored.
func schemaVersion(ctx context.Context, st *store.Store) (string, error) {
	records, err := st.LoadRecords(ctx)
	if err != nil {
		return "", err
	}
	slices.SortFunc(records, func(a, b schema.Record) int { return slices.Compare([]byte(a.Key), []byte(b.Key)) })
	h := sha256.New()
	for _, r := range records {
		fmt.Fprintf(h, "%d %s %d ", len(r.Key), r.Key, len(r.Value))
		h.Write(r.Value)
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// shardDirs lists a checkpoint's directories in order of shard, whose numbers end their names.
func (t tool) shardDirs(dir string) ([]string, error) {
	names, err := t.fs.List(t.fs.PathJoin(dir, shardsDir))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(names, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return slices.Compare([]byte(a), []byte(b))
	})
	for i, n := range names {
		names[i] = shardsDir + "/" + n
	}
	return names, nil
}

// collect lists every file of the checkpoint, makes each the backup's own and sums it.
func (t tool) collect(ctx context.Context, tmp string, m *Manifest, progress Progress) error {
	infos := map[string]vfs.FileInfo{}
	err := walk(t.fs, tmp, shardsDir, func(rel string, info vfs.FileInfo) error {
		infos[rel] = info
		m.Bytes += info.Size()
		m.Files = append(m.Files, File{Path: rel, Size: info.Size()})
		return nil
	}, func(string) error { return nil })
	if err != nil {
		return err
	}
	if err := requireSpace(t.fs, tmp, m.Bytes); err != nil {
		return err
	}
	mt := &meter{report: progress, total: m.Bytes}
	for i := range m.Files {
		f := &m.Files[i]
		var err error
		if f.Size, f.SHA256, err = t.own(ctx, t.fs.PathJoin(tmp, f.Path), infos[f.Path], mt); err != nil {
			return err
		}
	}
	return walk(t.fs, tmp, shardsDir, func(string, vfs.FileInfo) error { return nil }, func(rel string) error {
		return syncDir(t.fs, t.fs.PathJoin(tmp, rel))
	})
}

// own makes a file the backup's alone, synced, and sums it.
func (t tool) own(ctx context.Context, path string, info vfs.FileInfo, m *meter) (int64, string, error) {
	if !shared(info) {
		size, sum, err := sumFile(ctx, t.fs, path, m)
		if err != nil {
			return 0, "", err
		}
		return size, sum, t.syncFile(path)
	}
	size, sum, err := copyFile(ctx, t.fs, path, path+".copy", m)
	if err != nil {
		return 0, "", err
	}
	return size, sum, t.fs.Rename(path+".copy", path)
}

func (t tool) syncFile(path string) error {
	f, err := t.fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	return finish(f, nil)
}

// List shows the backups in a directory, by name. Directories that are not
// whole are shown with Damage set. A missing directory is os.ErrNotExist.
func List(dir string) ([]Manifest, error) { return onDisk().list(dir) }

func (t tool) list(dir string) ([]Manifest, error) {
	names, err := t.fs.List(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list backups: there is no directory %s: %w", dir, os.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("list backups: %w", err)
	}
	slices.Sort(names)
	var out []Manifest
	for _, n := range names {
		path := t.fs.PathJoin(dir, n)
		info, err := t.fs.Stat(path)
		if err != nil || !info.IsDir() || checkName(n) != nil {
			continue
		}
		m, err := readManifest(t.fs, path)
		if err != nil {
			m = Manifest{Damage: err.Error()}
		}
		m.Name = n // the directory may have been renamed
		out = append(out, m)
	}
	return out, nil
}
