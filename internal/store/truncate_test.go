package store_test

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"varve/internal/schema"
	"varve/internal/store"
	"varve/internal/vtest"
)

// writeIndexed writes a row with an index entry.
func writeIndexed(t *testing.T, st *store.Store, tab *schema.Table, p int) {
	t.Helper()
	b := st.NewBatch(1)
	row := b.Row(tab, mustKey(t, tab, be32(p)), [][]byte{be32(1)})
	row.Set(tab.Columns["v"], 1, 0, []byte("a"))
	row.Index(tab.Indexes[0], []byte("a"))
	if err := applyWait(st, b, false); err != nil {
		t.Fatal(err)
	}
}

func hasRows(t *testing.T, st *store.Store, tab *schema.Table, p int) bool {
	t.Helper()
	v := st.View(store.ReadOptions{NowSec: 1, Stats: &store.ReadStats{}})
	parts, err := vtest.Collect(tab, v.Partition(tab, mustKey(t, tab, be32(p)), store.RowQuery{}))
	if err := errors.Join(err, v.Close()); err != nil {
		t.Fatal(err)
	}
	return len(parts) > 0
}

// TestWritesDuringTruncate writes a row as soon as a truncation has taken an
// older one: the new row stays, and so does its index entry.
func TestWritesDuringTruncate(t *testing.T) {
	tab, x := indexedTable()
	st := mustOpen(t, memOptions(vfs.NewMem(), 1))
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	for range 20 {
		writeIndexed(t, st, tab, 1)
		done := make(chan error, 1)
		go func() { done <- st.Truncate(tContext, tab) }()
		for hasRows(t, st, tab, 1) {
			continue
		}
		writeIndexed(t, st, tab, 2)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if !hasRows(t, st, tab, 2) {
			t.Fatal("the truncation took a row that was written after it")
		}
		entries := indexEntries(t, st, tab, x, store.IndexQuery{})
		if d := cmp.Diff([]string{"a/[00000002]/[00000001]"}, entries); d != "" {
			t.Fatalf("index entries: %s", d)
		}
	}
}
