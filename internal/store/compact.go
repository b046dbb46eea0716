package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"varve/internal/schema"
)

// PauseCompactions keeps the engine from compacting on its own, or lets it
// again, until the store is closed. Compact still works, and where level 0 has
// grown ten deep it is compacted all the same. What was held back begins with the next flush.
func (s *Store) PauseCompactions(paused bool) { s.paused.Store(paused) }

// CompactionsPaused reports the last PauseCompactions.
func (s *Store) CompactionsPaused() bool { return s.paused.Load() }

// Compact rewrites a table's key range (nil: everything), purging what may be purged.
func (s *Store) Compact(ctx context.Context, t *schema.Table) error {
	if s.opts.ReadOnly {
		return ErrReadOnly
	}
	tables := []*schema.Table{t}
	if t == nil {
		tables = s.definitions()
	}
	for _, def := range tables {
		if _, err := s.sweepTable(ctx, s.tableFor(def), false); err != nil {
			return fmt.Errorf("compact %s.%s: %w", def.Keyspace, def.Name, err)
		}
		if err := s.sweepAllEntries(ctx, def); err != nil {
			return fmt.Errorf("compact %s.%s: %w", def.Keyspace, def.Name, err)
		}
	}
	start := time.Now()
	for _, sh := range s.shards {
		lo, hi := []byte{0, 0, 0, 0}, []byte{0xff, 0xff, 0xff, 0xff, 0xff}
		if t != nil {
			lo, _ = physBounds(t.PhysID)
			hi = append(slices.Clone(lo), 0xff, 0xff)
		}
		if err := sh.compactRange(ctx, lo, hi); err != nil {
			return fmt.Errorf("compact shard %d: %w", sh.idx, err)
		}
		sh.debts.forget(string(lo), string(hi), start)
	}
	return s.failed()
}

// compactRange rewrites all files that overlap a range. Pebble leaves files
// alone that lie in the last level already; deletions of two keys that do not
// exist, at the range's ends, make it take in all between them.
func (sh *shard) compactRange(ctx context.Context, lo, hi []byte) error {
	pb := sh.db.NewBatch()
	if err := errors.Join(pb.Delete(lo, nil), pb.Delete(hi, nil)); err != nil {
		return errors.Join(err, pb.Close())
	}
	if err := errors.Join(sh.write(pb, pebble.NoSync), pb.Close()); err != nil {
		return err
	}
	return sh.compact(ctx, lo, hi)
}
