package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"time"
)

// Snapshot describes one snapshot: a checkpoint of the whole store under
// <data>/snapshots/<name>. Tables lists what the request asked for.
type Snapshot struct {
	Name    string
	Created time.Time
	Tables  []string // keyspace.table
	// TableBytes are the live bytes of each of Tables when it was taken.
	TableBytes []int64
	DiskBytes  int64 // of the whole directory; files may be shared with the store
}

// SnapshotRequest asks for a snapshot; an empty name means the time in milliseconds.
type SnapshotRequest struct {
	Name string
	TablesRequest
}

// ClearRequest asks to remove one snapshot, or all of them.
type ClearRequest struct {
	Name string
	All  bool
}

var snapshotName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$`)

const snapshotFile = "snapshot.json"

func (a *Admin) snapshotRoot() string {
	return filepath.Join(a.Config.DataDirectories[0], "snapshots")
}

func (a *Admin) snapshot(ctx context.Context, r SnapshotRequest) (Snapshot, error) {
	if r.Name == "" {
		r.Name = fmt.Sprint(time.Now().UnixMilli())
	}
	if !snapshotName.MatchString(r.Name) {
		return Snapshot{}, badRequest("snapshot name %q: use letters, digits, _ . and -", r.Name)
	}
	tables, err := a.stored(r.TablesRequest)
	if err != nil {
		return Snapshot{}, err
	}
	a.snapshotMu.Lock()
	defer a.snapshotMu.Unlock()
	dir := filepath.Join(a.snapshotRoot(), r.Name)
	if _, err := os.Stat(dir); err == nil {
		return Snapshot{}, badRequest("Snapshot %s already exists.", r.Name)
	}
	s := Snapshot{Name: r.Name, Created: time.Now().UTC()}
	// Made under another name and renamed, so that a half-made snapshot is never listed.
	tmp := dir + ".tmp"
	if err := os.RemoveAll(tmp); err != nil {
		return Snapshot{}, fmt.Errorf("clear unfinished snapshot: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return Snapshot{}, fmt.Errorf("make snapshot directory: %w", err)
	}
	// Flushed first, as in Cassandra, so that the tables' sizes are those of what is in it.
	if err := a.Store.Flush(ctx, nil); err != nil {
		return Snapshot{}, fmt.Errorf("flush before snapshot: %w", err)
	}
	if err := a.Store.Snapshot(ctx, tmp); err != nil {
		return Snapshot{}, errors.Join(fmt.Errorf("snapshot: %w", err), os.RemoveAll(tmp))
	}
	for _, t := range tables {
		st, err := a.Store.TableStats(t)
		if err != nil {
			return Snapshot{}, errors.Join(fmt.Errorf("size of %s.%s: %w", t.Keyspace, t.Name, err), os.RemoveAll(tmp))
		}
		s.Tables, s.TableBytes = append(s.Tables, t.Keyspace+"."+t.Name), append(s.TableBytes, st.LiveBytes)
	}
	if err := publish(tmp, dir, s); err != nil {
		return Snapshot{}, errors.Join(err, os.RemoveAll(tmp))
	}
	return s, nil
}

// publish describes the snapshot in tmp and gives it its name, both for good.
func publish(tmp, dir string, s Snapshot) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(tmp, snapshotFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("describe snapshot: %w", err)
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close(), syncDir(tmp)); err != nil {
		return fmt.Errorf("describe snapshot: %w", err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		return fmt.Errorf("publish snapshot: %w", err)
	}
	// The directory of snapshots may be new itself.
	root := filepath.Dir(dir)
	if err := errors.Join(syncDir(root), syncDir(filepath.Dir(root))); err != nil {
		return fmt.Errorf("publish snapshot: %w", err)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (a *Admin) snapshots() ([]Snapshot, error) {
	entries, err := os.ReadDir(a.snapshotRoot())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	var out []Snapshot
	for _, e := range entries {
		dir := filepath.Join(a.snapshotRoot(), e.Name())
		text, err := os.ReadFile(filepath.Join(dir, snapshotFile))
		if err != nil {
			continue // unfinished, or not ours
		}
		var s Snapshot
		if err := json.Unmarshal(text, &s); err != nil {
			return nil, fmt.Errorf("read %s of snapshot %s: %w", snapshotFile, e.Name(), err)
		}
		if s.DiskBytes, err = treeBytes(dir); err != nil {
			return nil, fmt.Errorf("size of snapshot %s: %w", e.Name(), err)
		}
		out = append(out, s)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

func (a *Admin) clearSnapshot(r ClearRequest) error {
	if r.All {
		a.snapshotMu.Lock()
		defer a.snapshotMu.Unlock()
		return os.RemoveAll(a.snapshotRoot())
	}
	if !snapshotName.MatchString(r.Name) {
		return badRequest("snapshot name %q: use letters, digits, _ . and -", r.Name)
	}
	a.snapshotMu.Lock()
	defer a.snapshotMu.Unlock()
	dir := filepath.Join(a.snapshotRoot(), r.Name)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return badRequest("There is no snapshot %s.", r.Name)
	}
	return os.RemoveAll(dir)
}

func treeBytes(dir string) (int64, error) {
	var n int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		n += info.Size()
		return nil
	})
	return n, err
}
