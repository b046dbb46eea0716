package backup

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"varve/internal/cql"
	"varve/internal/schema"
	"varve/internal/store"
)

// ledger is a store with a catalogue on a memory disk.
type ledger struct {
	t   *testing.T
	fs  vfs.FS
	st  *store.Store
	cat *schema.Catalog
}

func newLedger(t *testing.T, fs vfs.FS, dir string) *ledger {
	st, err := store.Open(t.Context(), store.Options{FS: fs, DataDirs: []string{dir + "/0", dir + "/1"}, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	cat, err := schema.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	return &ledger{t, fs, st, cat}
}

func (l *ledger) ddl(text string) {
	l.t.Helper()
	s, err := cql.Parse(text)
	if err == nil {
		_, err = l.cat.Apply(l.t.Context(), "ks", s.Stmt)
	}
	if err != nil {
		l.t.Fatalf("%s: %v", text, err)
	}
}

func (l *ledger) table(name string) *schema.Table { return l.cat.Snapshot().Table("ks", name) }

func be32(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

func (l *ledger) write(f func(b *store.Batch)) {
	l.t.Helper()
	b := l.st.NewBatch(100)
	f(b)
	c, err := l.st.Apply(l.t.Context(), b, false)
	if err == nil {
		err = c.Wait()
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *ledger) key(t *schema.Table, p int) store.Key {
	k, err := store.KeyOf(t, [][]byte{be32(p)})
	if err != nil {
		l.t.Fatal(err)
	}
	return k
}

// TestWouldUndo backs a store up, deletes in every way, and asks what a restore
// would bring back, before and after everything that can be purged is.
func TestWouldUndo(t *testing.T) {
	mem := vfs.NewMem()
	l := newLedger(t, mem, "live")
	defer func() {
		if err := l.st.Close(); err != nil {
			t.Error(err)
		}
	}()
	l.ddl("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	for _, name := range []string{"rows", "ranges", "parts", "cells", "truncated", "dropped", "again", "same"} {
		l.ddl("CREATE TABLE " + name + " (p int, c int, s int static, v int, m map<int, int>, PRIMARY KEY (p, c)) WITH gc_grace_seconds = 0")
		tab := l.table(name)
		for p := range 2 {
			l.write(func(b *store.Batch) {
				b.Row(tab, l.key(tab, p), nil).Set(tab.Columns["s"], 1, 0, be32(7))
				for c := range 3 {
					r := b.Row(tab, l.key(tab, p), [][]byte{be32(c)})
					r.Marker(1, 0)
					r.Set(tab.Columns["v"], 1, 0, be32(c))
					r.SetElement(tab.Columns["m"], be32(1), 1, 0, be32(1))
					r.SetElement(tab.Columns["m"], be32(2), 1, 0, be32(2))
				}
			})
		}
	}
	tl := tool{mem, time.Now}
	if _, err := tl.create(t.Context(), l.st, "b", "x", nil); err != nil {
		t.Fatal(err)
	}
	files, err := tl.list("b")
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	check := func(when string, want []UndoneTable) {
		t.Helper()
		u, err := tl.wouldUndo(t.Context(), "b", "x", l.st, l.cat.Snapshot(), 200)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		slices.SortFunc(u.Tables, func(a, b UndoneTable) int { return cmpText(a.Table, b.Table) })
		if d := cmp.Diff(want, u.Tables); d != "" {
			t.Errorf("%s (-want +got):\n%s", when, d)
		}
	}
	check("nothing is deleted", nil)
	k := func(name string, p int) (*schema.Table, store.Key) { return l.table(name), l.key(l.table(name), p) }
	l.write(func(b *store.Batch) {
		tab, key := k("rows", 0)
		b.Row(tab, key, [][]byte{be32(1)}).Delete(2)
		tab, key = k("ranges", 1)
		b.DeleteRange(tab, key, store.Slice{Start: store.Bound{Prefix: [][]byte{be32(1)}, Inclusive: true}}, 2)
		tab, key = k("parts", 1)
		b.DeletePartition(tab, key, 2)
		tab, key = k("cells", 0)
		r := b.Row(tab, key, [][]byte{be32(2)})
		r.Unset(tab.Columns["v"], 2)
		r.UnsetElement(tab.Columns["m"], be32(2), 2)
		// What was only changed or added is not undone by this count.
		tab, key = k("same", 0)
		b.Row(tab, key, [][]byte{be32(1)}).Set(tab.Columns["v"], 2, 0, be32(9))
		b.Row(tab, key, [][]byte{be32(9)}).Marker(2, 0)
	})
	if err := l.st.Truncate(t.Context(), l.table("truncated")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dropped", "again"} {
		id := l.table(name).PhysID
		l.ddl("DROP TABLE " + name)
		if err := l.st.DropPhys(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	l.ddl("CREATE TABLE again (p int, c int, s int static, v int, m map<int, int>, PRIMARY KEY (p, c))")
	// Partition 1 comes before partition 0 in token order.
	all := []string{"((1))", "((1), 0)", "((1), 1)", "((1), 2)", "((0))"}
	want := []UndoneTable{
		{Keyspace: "ks", Table: "again", Dropped: true, Rows: 8, Examples: all},
		{Keyspace: "ks", Table: "cells", Cells: 2, Examples: []string{"((0), 2)"}},
		{Keyspace: "ks", Table: "dropped", Dropped: true, Rows: 8, Examples: all},
		{Keyspace: "ks", Table: "parts", Rows: 4, Examples: []string{"((1))", "((1), 0)", "((1), 1)", "((1), 2)"}},
		{Keyspace: "ks", Table: "ranges", Rows: 2, Examples: []string{"((1), 1)", "((1), 2)"}},
		{Keyspace: "ks", Table: "rows", Rows: 1, Examples: []string{"((0), 1)"}},
		{Keyspace: "ks", Table: "truncated", Rows: 8, Examples: all},
	}
	check("deleted", want)
	if err := l.st.Compact(t.Context(), nil); err != nil { // gc_grace is over: the deletions go, too
		t.Fatal(err)
	}
	check("purged", want)
	if err := tl.verify(t.Context(), "b", "x", nil); err != nil {
		t.Errorf("the check has changed the backup: %v", err)
	}
	other := newLedger(t, mem, "other")
	defer func() {
		if err := other.st.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := tl.wouldUndo(t.Context(), "b", "x", other.st, other.cat.Snapshot(), 200); !errors.Is(err, ErrOtherStore) {
		t.Errorf("against another store: %v", err)
	}
}

func cmpText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
