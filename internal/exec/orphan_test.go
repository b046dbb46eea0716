package exec

import (
	"slices"
	"testing"

	"varve/internal/schema"
	"varve/internal/store"
)

// TestDroppedDataIsCollected leaves data under ids that no table has, as a
// crash between a DROP and the removal of its data does: the next start removes
// them, and nothing else.
func TestDroppedDataIsCollected(t *testing.T) {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE t (k int PRIMARY KEY, v int)")
	te.exec(t, "CREATE INDEX x ON t (v)")
	te.exec(t, "INSERT INTO t (k, v) VALUES (1, 7)")
	before, err := te.opts.Store.PhysIDs()
	if err != nil {
		t.Fatal(err)
	}
	gone := *te.opts.Catalog.Snapshot().Table("ks", "t")
	gone.PhysID += 1000
	key, err := store.KeyOf(&gone, [][]byte{intBytes(1)})
	if err != nil {
		t.Fatal(err)
	}
	b := te.opts.Store.NewBatch(1)
	b.Row(&gone, key, [][]byte{}).Marker(1, 0)
	b.DeletePartition(&gone, key, 1)
	c, err := te.opts.Store.Apply(t.Context(), b, false)
	if err == nil {
		err = c.Wait()
	}
	if err != nil {
		t.Fatal(err)
	}
	orphans, err := te.orphans()
	if err != nil || !slices.Equal(orphans, []uint32{gone.PhysID}) || gone.PhysID < schema.FirstUserPhysID {
		t.Fatalf("orphans %v, %v; want %d", orphans, err, gone.PhysID)
	}
	te.dropOrphans(t.Context(), orphans)
	if after, err := te.opts.Store.PhysIDs(); err != nil || !slices.Equal(after, before) {
		t.Errorf("ids %v, then %v, %v", before, after, err)
	}
	if rows := te.exec(t, "SELECT * FROM t WHERE v = 7").Count; rows != 1 {
		t.Errorf("%d rows are left", rows)
	}
}
