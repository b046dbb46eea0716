package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
	"varve/internal/vtest"
)

func indexedTable() (*schema.Table, *schema.Index) {
	tab := vtest.NewTable(7, "t", vtest.PK("p", cqltype.Int), vtest.CKDesc("c", cqltype.Int),
		vtest.Col("v", cqltype.Text), vtest.StaticCol("s", cqltype.Text))
	x := &schema.Index{Name: "i", PhysID: 8, Kind: schema.IndexComposites, Column: tab.Columns["v"]}
	tab.Indexes = []*schema.Index{x}
	return tab, x
}

// entryText writes an entry as value/partition/clustering.
func entryText(t testing.TB, tab *schema.Table, e store.IndexEntry) string {
	comps, err := e.Key.Components(tab)
	if err != nil {
		t.Fatal(err)
	}
	if e.Clustering == nil {
		return fmt.Sprintf("%s/%x/static", e.Value, comps)
	}
	return fmt.Sprintf("%s/%x/%x", e.Value, comps, e.Clustering)
}

func indexEntries(t testing.TB, st *store.Store, tab *schema.Table, x *schema.Index, q store.IndexQuery) []string {
	t.Helper()
	v := st.View(store.ReadOptions{NowSec: 1, Stats: &store.ReadStats{}})
	it := v.Index(tab, x, q)
	var out []string
	for it.Next() {
		out = append(out, entryText(t, tab, it.Entry()))
	}
	if err := errors.Join(it.Close(), v.Close()); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestIndexEntries writes entries blindly and reads ranges of them: in order
// of value, token, key, clustering; pages; within one partition; over shards.
func TestIndexEntries(t *testing.T) {
	for _, shards := range []int{1, 3} {
		t.Run(fmt.Sprintf("shards=%d", shards), func(t *testing.T) {
			tab, x := indexedTable()
			st := mustOpen(t, memOptions(vfs.NewMem(), shards))
			defer func() {
				if err := st.Close(); err != nil {
					t.Error(err)
				}
			}()
			want := writeEntries(t, st, tab, x)
			if d := cmp.Diff(want("", "\xff"), indexEntries(t, st, tab, x, store.IndexQuery{})); d != "" {
				t.Errorf("all entries: %s", d)
			}
			q := store.IndexQuery{Lo: []byte("b"), Hi: []byte("b"), LoInclusive: true, HiInclusive: true}
			if d := cmp.Diff(want("b", "b\x00"), indexEntries(t, st, tab, x, q)); d != "" {
				t.Errorf("one value: %s", d)
			}
			q = store.IndexQuery{Lo: []byte("a"), Hi: []byte("c")}
			if d := cmp.Diff(want("a\x00", "c"), indexEntries(t, st, tab, x, q)); d != "" {
				t.Errorf("an open range: %s", d)
			}
			checkIndexPages(t, st, tab, x, want("", "\xff"))
			checkIndexPartition(t, st, tab, x, want("", "\xff"))
		})
	}
}

// writeEntries indexes values of a few rows and of a static row, and returns
// the entries with values in [lo, hi) in the order they must come in.
func writeEntries(t *testing.T, st *store.Store, tab *schema.Table, x *schema.Index) func(lo, hi string) []string {
	type entry struct {
		value string
		p, c  int // c -1: static
	}
	var all []entry
	for p := range 4 {
		for c := range 3 {
			all = append(all, entry{string(rune('a' + (p+c)%3)), p, c})
		}
	}
	all = append(all, entry{"b", 2, -1}, entry{"a\x00", 1, 1})
	b := st.NewBatch(1)
	for _, e := range all {
		var ck [][]byte
		if e.c >= 0 {
			ck = [][]byte{be32(e.c)}
		}
		row := b.Row(tab, mustKey(t, tab, be32(e.p)), ck)
		if e.c >= 0 {
			row.Set(tab.Columns["v"], 1, 0, []byte(e.value))
		} else {
			row.Set(tab.Columns["s"], 1, 0, []byte(e.value))
		}
		row.Index(x, []byte(e.value))
	}
	if err := applyWait(st, b, false); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b entry) int {
		if a.value != b.value {
			return slices.Compare([]byte(a.value), []byte(b.value))
		}
		if a.p != b.p {
			ta, tb := mustKey(t, tab, be32(a.p)).Token, mustKey(t, tab, be32(b.p)).Token
			if ta < tb {
				return -1
			}
			return 1
		}
		switch {
		case a.c < 0: // the static row comes first
			return -1
		case b.c < 0:
			return 1
		}
		return b.c - a.c // clustering is descending
	})
	return func(lo, hi string) []string {
		var out []string
		for _, e := range all {
			if e.value < lo || e.value >= hi {
				continue
			}
			en := store.IndexEntry{Value: []byte(e.value), Key: mustKey(t, tab, be32(e.p))}
			if e.c >= 0 {
				en.Clustering = [][]byte{be32(e.c)}
			}
			out = append(out, entryText(t, tab, en))
		}
		return out
	}
}

// checkIndexPages reads one entry at a time, each from past the one before.
func checkIndexPages(t *testing.T, st *store.Store, tab *schema.Table, x *schema.Index, want []string) {
	t.Helper()
	var got []string
	var after *store.IndexEntry
	for range len(want) + 1 {
		v := st.View(store.ReadOptions{NowSec: 1, Stats: &store.ReadStats{}})
		it := v.Index(tab, x, store.IndexQuery{After: after})
		more := it.Next()
		if more {
			e := it.Entry()
			got = append(got, entryText(t, tab, e))
			after = copyEntry(t, tab, e)
		}
		if err := errors.Join(it.Close(), v.Close()); err != nil {
			t.Fatal(err)
		}
		if !more {
			break
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("entry by entry: %s", d)
	}
}

func copyEntry(t *testing.T, tab *schema.Table, e store.IndexEntry) *store.IndexEntry {
	comps, err := e.Key.Components(tab)
	if err != nil {
		t.Fatal(err)
	}
	c := &store.IndexEntry{Value: slices.Clone(e.Value), Key: mustKey(t, tab, slices.Clone(comps[0]))}
	for _, v := range e.Clustering {
		c.Clustering = append(c.Clustering, slices.Clone(v))
	}
	return c
}

func checkIndexPartition(t *testing.T, st *store.Store, tab *schema.Table, x *schema.Index, all []string) {
	t.Helper()
	for p := range 4 {
		k := mustKey(t, tab, be32(p))
		var want []string
		for _, s := range all {
			if partOf(s) == fmt.Sprintf("%x", [][]byte{be32(p)}) {
				want = append(want, s)
			}
		}
		if d := cmp.Diff(want, indexEntries(t, st, tab, x, store.IndexQuery{Partition: &k})); d != "" {
			t.Errorf("entries of partition %d: %s", p, d)
		}
	}
}

// partOf is the partition in an entry's text; no test value holds a slash.
func partOf(entry string) string {
	return strings.Split(entry, "/")[1]
}

// TestRemoveStaleEntry removes an entry only while the check, made under the
// partition's lock on a fresh view, still calls it stale.
func TestRemoveStaleEntry(t *testing.T) {
	tab, x := indexedTable()
	st := mustOpen(t, memOptions(vfs.NewMem(), 1))
	k := mustKey(t, tab, be32(1))
	b := st.NewBatch(1)
	row := b.Row(tab, k, [][]byte{be32(1)})
	row.Set(tab.Columns["v"], 1, 0, []byte("new"))
	row.Index(x, []byte("new"))
	row.Index(x, []byte("old"))
	if err := applyWait(st, b, false); err != nil {
		t.Fatal(err)
	}
	entry := func(v string) store.IndexEntry {
		return store.IndexEntry{Value: []byte(v), Key: k, Clustering: [][]byte{be32(1)}}
	}
	stale := func(value string) func(*store.View) bool {
		return func(v *store.View) bool {
			parts, err := vtest.Collect(tab, v.Partition(tab, k, store.RowQuery{}))
			if err != nil || len(parts) != 1 {
				t.Errorf("the check's view shows %v, %v", parts, err)
				return false
			}
			return string(parts[0].Rows[0].Cells["v"].Value) != value
		}
	}
	for _, v := range []string{"new", "old"} {
		if err := st.RemoveStaleEntry(tab, x, entry(v), stale(v)); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{entryText(t, tab, entry("new"))}
	if d := cmp.Diff(want, indexEntries(t, st, tab, x, store.IndexQuery{})); d != "" {
		t.Error(d)
	}
	if err := st.Flush(tContext, nil); err != nil {
		t.Fatal(err)
	}
	b = st.NewBatch(1)
	b.Row(tab, k, [][]byte{be32(1)}).Index(x, []byte("old")) // written again after its removal
	if err := applyWait(st, b, false); err != nil {
		t.Fatal(err)
	}
	want = append(want, entryText(t, tab, entry("old")))
	if d := cmp.Diff(want, indexEntries(t, st, tab, x, store.IndexQuery{})); d != "" {
		t.Error(d)
	}
	if err := st.DropPhys(tContext, x.PhysID); err != nil {
		t.Fatal(err)
	}
	if got := indexEntries(t, st, tab, x, store.IndexQuery{}); len(got) > 0 {
		t.Errorf("a dropped index holds %v", got)
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}
