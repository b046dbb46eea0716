package store

import (
	"context"

	"varve/internal/schema"
)

// Compact rewrites a table's key range (nil: everything), purging what may be purged.
func (s *Store) Compact(ctx context.Context, t *schema.Table) error {
	for _, sh := range s.shards {
		lo, hi := physBounds(0)
		if t != nil {
			lo, hi = physBounds(t.PhysID)
		} else {
			hi = []byte{0xff, 0xff, 0xff, 0xff, 0xff}
		}
		if err := sh.compactRange(ctx, lo, hi); err != nil {
			return err
		}
	}
	return s.failed()
}

// compactRange rewrites all files that overlap a range. Pebble leaves files
// alone that lie in the last level already; two deletions around the range,
// of keys that do not exist, make it take them in.
func (sh *shard) compactRange(ctx context.Context, lo, hi []byte) error {
	return sh.db.Compact(ctx, lo, hi, true)
}
