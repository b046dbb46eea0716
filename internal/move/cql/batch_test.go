package cql

import (
	"strings"
	"testing"
)

// TestBatchBytes keeps transactions of wide rows under the size at which
// servers refuse a batch, and sends a row that is larger by itself.
func TestBatchBytes(t *testing.T) {
	for _, wide := range []int{1, 3000, 20 << 10, 1 << 20} {
		for _, arg := range []any{strings.Repeat("x", wide), raw(strings.Repeat("x", wide))} {
			w, rows := &writer{}, 0
			for range 200 {
				w.add(0, "", []any{arg})
			}
			w.endTransaction()
			for _, g := range w.groups {
				rows += len(g)
				if len(g) > 1 && len(g)*wide > batchBytes || len(g) > batchRows {
					t.Errorf("%d rows of %d bytes in one batch", len(g), wide)
				}
			}
			if rows != 200 {
				t.Errorf("%d rows of 200 in batches", rows)
			}
		}
	}
}
