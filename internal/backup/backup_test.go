package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"varve/internal/schema"
	"varve/internal/store"
	"varve/internal/vtest"
)

// rig is a store with random data and the model of it.
type rig struct {
	t        testing.TB
	fs       vfs.FS
	root     string
	shards   int
	journals bool
	st       *store.Store
	gen      *vtest.Gen
	model    *vtest.Model
	tables   []*schema.Table
}

func newRig(t testing.TB, fs vfs.FS, root string, shards int, journals bool) *rig {
	g := vtest.NewGen(rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1)))
	r := &rig{
		t: t, fs: fs, root: root, shards: shards, journals: journals,
		gen: g, model: vtest.NewModel(), tables: vtest.Tables(),
	}
	r.st = r.open(r.dirs("store"))
	return r
}

func (r *rig) dirs(name string) (data, journals []string) {
	for i := range r.shards {
		data = append(data, r.fs.PathJoin(r.root, name, fmt.Sprintf("d%d", i)))
		if r.journals {
			journals = append(journals, r.fs.PathJoin(r.root, name, fmt.Sprintf("j%d", i)))
		}
	}
	return data, journals
}

func (r *rig) openErr(data, journals []string) (*store.Store, error) {
	return store.Open(r.t.Context(), store.Options{
		FS: r.fs, DataDirs: data, JournalDirs: journals, CacheBytes: 1 << 20, MemtableBytes: 256 << 10,
		Clock: func() time.Time { return time.Unix(r.gen.Now, 0) },
	})
}

func (r *rig) open(data, journals []string) *store.Store {
	r.t.Helper()
	st, err := r.openErr(data, journals)
	if err != nil {
		r.t.Fatal(err)
	}
	return st
}

func (r *rig) write(batches int, known bool) {
	r.t.Helper()
	for i := range batches {
		b := r.gen.Batch(r.tables)
		sb, err := b.Build(r.st)
		if err != nil {
			r.t.Fatal(err)
		}
		c, err := r.st.Apply(r.t.Context(), sb, true)
		if err == nil {
			err = c.Wait()
		}
		if err == nil && i == batches/2 {
			err = r.st.Flush(r.t.Context(), nil)
		}
		if err != nil {
			r.t.Fatal(err)
		}
		if known {
			r.model.Apply(b)
		}
	}
}

// compare reads all of a store and closes it.
func (r *rig) compare(st *store.Store) {
	r.t.Helper()
	all := store.TokenRange{StartUnbounded: true, EndUnbounded: true}
	for _, tab := range r.tables {
		v := st.View(store.ReadOptions{NowSec: r.gen.Now, Stats: &store.ReadStats{}})
		got, err := vtest.Collect(tab, v.Range(tab, all, store.RowQuery{}, nil))
		if err = errors.Join(err, v.Close()); err != nil {
			r.t.Fatal(err)
		}
		if d := vtest.Diff(r.model.Range(tab, all, store.RowQuery{}, nil, r.gen.Now), got); d != "" {
			r.t.Errorf("table %s: %s", tab.Name, d)
		}
	}
	if err := st.Close(); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) close() {
	r.t.Helper()
	if err := r.st.Close(); err != nil {
		r.t.Error(err)
	}
}

// TestBackupRoundTrip backs up a store in use, restores it with and without
// journal directories, and compares what it holds.
func TestBackupRoundTrip(t *testing.T) {
	for _, from := range []bool{false, true} {
		for _, to := range []bool{false, true} {
			t.Run(fmt.Sprintf("journals=%v to journals=%v", from, to), func(t *testing.T) {
				roundTrip(t, from, to)
			})
		}
	}
}

func roundTrip(t *testing.T, from, to bool) {
	ctx := t.Context()
	r := newRig(t, vfs.Default, t.TempDir(), 2, from)
	dir := r.fs.PathJoin(r.root, "backups")
	r.write(60, true)
	begin := time.Now()
	var last, total int64
	m, err := Create(ctx, r.st, dir, "monday", func(done, of int64) { last, total = done, of })
	if err != nil {
		t.Fatal(err)
	}
	if last != total || total != m.Bytes || m.Bytes == 0 {
		t.Errorf("progress ended at %d of %d; the backup has %d bytes", last, total, m.Bytes)
	}
	if m.Begun.Before(begin.Add(-time.Second)) || m.Taken.Before(m.Begun) || m.Finished.Before(m.Taken) {
		t.Errorf("times %v %v %v", m.Begun, m.Taken, m.Finished)
	}
	r.write(20, false) // not in the backup
	id := r.st.HostID()
	r.close()
	list, err := List(dir)
	if err != nil || len(list) != 1 || list[0].Name != "monday" || list[0].Damage != "" || list[0].Bytes != m.Bytes {
		t.Errorf("list: %+v, %v", list, err)
	}
	if err := Verify(ctx, dir, "monday"); err != nil {
		t.Error(err)
	}
	r.journals = to
	data, journals := r.dirs("restored")
	if err := Restore(ctx, dir, "monday", data, journals); err != nil {
		t.Fatal(err)
	}
	st := r.open(data, journals)
	if st.HostID() != id {
		t.Errorf("the restored store is %x, it was %x", st.HostID(), id)
	}
	r.compare(st)
	if err := Verify(ctx, dir, "monday"); err != nil {
		t.Errorf("after a restore: %v", err)
	}
}

// TestVerifyFindsDamage spoils each file of a backup in several ways.
func TestVerifyFindsDamage(t *testing.T) {
	mem := vfs.NewMem()
	r := newRig(t, mem, "", 2, false)
	r.write(30, true)
	tl := tool{mem, time.Now}
	m, err := tl.create(t.Context(), r.st, "b", "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.close()
	for _, f := range m.Files {
		path := mem.PathJoin("b/x", f.Path)
		whole := readAll(t, mem, path)
		spoiled := map[string][]byte{"longer": append(slices.Clone(whole), 0), "missing": nil}
		if len(whole) > 0 {
			flipped := slices.Clone(whole)
			flipped[len(flipped)/2] ^= 1
			spoiled["one bit"], spoiled["shorter"] = flipped, whole[:len(whole)-1]
		}
		for how, content := range spoiled {
			if how == "missing" {
				remove(t, mem, path)
			} else {
				write(t, mem, path, content)
			}
			var damage *DamageError
			err := tl.verify(t.Context(), "b", "x", nil)
			if !errors.As(err, &damage) || len(damage.Findings) != 1 || !strings.HasPrefix(damage.Findings[0], f.Path) {
				t.Errorf("%s %s: %v", f.Path, how, err)
			}
			data, journals := r.dirs("target-" + how)
			if err := tl.restore(t.Context(), "b", "x", data, journals, nil); err == nil {
				t.Errorf("%s %s: restored", f.Path, how)
			}
			if names, err := mem.List(data[0]); err == nil {
				t.Errorf("%s %s: a failed restore has left %v", f.Path, how, names)
			}
		}
		write(t, mem, path, whole)
	}
	write(t, mem, "b/x/shards/more", []byte("x"))
	if err := tl.verify(t.Context(), "b", "x", nil); err == nil || !strings.Contains(err.Error(), "shards/more") {
		t.Errorf("a file too many: %v", err)
	}
	remove(t, mem, "b/x/shards/more")
	if err := tl.verify(t.Context(), "b", "x", nil); err != nil {
		t.Errorf("whole again: %v", err)
	}
}

// TestTornManifest cuts and changes the manifest at every length and byte.
func TestTornManifest(t *testing.T) {
	mem := vfs.NewMem()
	r := newRig(t, mem, "", 1, false)
	r.write(3, true)
	tl := tool{mem, time.Now}
	if _, err := tl.create(t.Context(), r.st, "b", "x", nil); err != nil {
		t.Fatal(err)
	}
	r.close()
	whole := readAll(t, mem, "b/x/manifest.json")
	refused := func(what string) {
		t.Helper()
		list, err := tl.list("b")
		if err != nil || len(list) != 1 || list[0].Damage == "" || list[0].Name != "x" {
			t.Errorf("%s: listed as %+v, %v", what, list, err)
		}
		if err := tl.verify(t.Context(), "b", "x", nil); err == nil {
			t.Errorf("%s: verified", what)
		}
		if err := tl.restore(t.Context(), "b", "x", []string{"target"}, nil, nil); err == nil {
			t.Fatalf("%s: restored", what)
		}
	}
	for n := 0; n < len(whole)-2; n += 7 {
		write(t, mem, "b/x/manifest.json", whole[:n])
		refused(fmt.Sprintf("cut at %d", n))
	}
	at := strings.Index(string(whole), `"bytes":`) + len(`"bytes":`)
	changed := slices.Clone(whole)
	changed[at]++
	write(t, mem, "b/x/manifest.json", changed)
	refused("one digit changed")
	remove(t, mem, "b/x/manifest.json")
	refused("without a manifest")
}

// TestManifestCannotLeadAstray gives a well-sealed manifest that names files elsewhere.
func TestManifestCannotLeadAstray(t *testing.T) {
	mem := vfs.NewMem()
	tl := tool{mem, time.Now}
	for _, path := range []string{"../x", "shards/0/../../../x", "/etc/passwd", "shards/0", "shards//x", "other/0/x", "shards/0/a\\b"} {
		if err := mem.MkdirAll("b/x", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := writeManifest(mem, "b/x", Manifest{Format: manifestFormat, Shards: 1, Files: []File{{Path: path}}}); err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{
			"verify":  tl.verify(t.Context(), "b", "x", nil),
			"restore": tl.restore(t.Context(), "b", "x", []string{"t"}, nil, nil),
		} {
			if err == nil || !strings.Contains(err.Error(), "names") {
				t.Errorf("%s with %q: %v", what, path, err)
			}
		}
	}
}

// TestRefusals are the mistakes of a user.
func TestRefusals(t *testing.T) {
	mem := vfs.NewMem()
	r := newRig(t, mem, "", 2, false)
	r.write(3, true)
	tl := tool{mem, time.Now}
	ctx := t.Context()
	if _, err := tl.create(ctx, r.st, "b", "x", nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", ".", "..", "a/b", "../a", ".hidden", "a b", strings.Repeat("a", 200)} {
		if _, err := tl.create(ctx, r.st, "b", name, nil); err == nil {
			t.Errorf("a backup named %q was made", name)
		}
	}
	if _, err := tl.create(ctx, r.st, "b", "x", nil); !errors.Is(err, ErrExists) {
		t.Errorf("the same name again: %v", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := tl.create(cancelled, r.st, "b", "y", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if list, err := tl.list("b"); err != nil || len(list) != 1 {
		t.Errorf("list: %+v %v", list, err)
	}
	if list, err := tl.list("nowhere"); !errors.Is(err, fs.ErrNotExist) || list != nil {
		t.Errorf("list of a missing directory: %v %v", list, err)
	}
	if err := tl.verify(ctx, "b", "y", nil); !errors.Is(err, ErrNoBackup) {
		t.Errorf("verify of a missing backup: %v", err)
	}
	r.close()
	data, _ := r.dirs("store")
	if err := tl.restore(ctx, "b", "x", data, nil, nil); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("onto the store itself: %v", err)
	}
	r.compare(r.open(data, nil))
	if err := tl.restore(ctx, "b", "x", []string{"one"}, nil, nil); err == nil {
		t.Error("two shards restored into one directory")
	}
	if err := tl.restore(ctx, "b", "x", []string{"same", "same"}, nil, nil); err == nil {
		t.Error("two shards restored into the same directory")
	}
	if err := tl.restore(cancelled, "b", "x", []string{"t0", "t1"}, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled restore: %v", err)
	}
	for _, d := range []string{"one", "same", "t0", "t1"} {
		if names, err := mem.List(d); err == nil {
			t.Errorf("a refused restore has left %s with %v", d, names)
		}
	}
}

func readAll(t testing.TB, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t testing.TB, fs vfs.FS, path string, content []byte) {
	t.Helper()
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(slices.Clone(content)) // a vfs.File may change what it is given
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, fs vfs.FS, path string) {
	t.Helper()
	if err := fs.Remove(path); err != nil {
		t.Fatal(err)
	}
}
