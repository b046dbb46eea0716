package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"varve/internal/schema"
)

// Truncate removes all rows and index entries of a table written so far.
func (s *Store) Truncate(ctx context.Context, t *schema.Table) error {
	ids := []uint32{t.PhysID}
	for _, x := range t.Indexes {
		ids = append(ids, x.PhysID)
	}
	for _, id := range ids {
		if err := s.dropPhys(ctx, id); err != nil {
			return fmt.Errorf("truncate %s.%s: %w", t.Keyspace, t.Name, err)
		}
	}
	return nil
}

// DropPhys removes everything under a physical id (a dropped table or index).
func (s *Store) DropPhys(ctx context.Context, id uint32) error {
	if err := s.dropPhys(ctx, id); err != nil {
		return fmt.Errorf("drop physical id %d: %w", id, err)
	}
	return nil
}

// dropPhys keeps writers out of each shard while it removes everything there;
// the range deletion is what makes it durable, the excise what returns the space.
func (s *Store) dropPhys(ctx context.Context, id uint32) error {
	if s.opts.ReadOnly {
		return ErrReadOnly
	}
	if id == 0 {
		return errors.New("physical id 0 is the store's own")
	}
	s.passMu.Lock()
	defer s.passMu.Unlock()
	lo, hi := physBounds(id)
	tbl := s.tableByID(id)
	for _, sh := range s.shards {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := sh.dropRange(tbl, lo, hi); err != nil {
			return err
		}
	}
	for _, sh := range s.shards {
		if err := sh.db.Excise(ctx, pebble.KeyRange{Start: lo, End: hi}); err != nil {
			s.opts.Logger.Warn("space of a dropped table is not returned yet", "phys", id, "err", err)
		}
	}
	return s.failed()
}

func (sh *shard) dropRange(tbl *table, lo, hi []byte) error {
	var all stripeSet
	all.addAll()
	sh.lock(&all)
	defer sh.unlock(&all)
	sh.spanMu.Lock()
	defer sh.spanMu.Unlock()
	pb := sh.db.NewBatch()
	if err := pb.DeleteRange(lo, hi, nil); err != nil {
		return errors.Join(err, pb.Close())
	}
	m := &tbl.parts[sh.idx].spans
	m.mu.Lock()
	m.removeLocked("", "\xff\xff\xff\xff\xff\xff")
	m.mu.Unlock()
	return sh.commitSynced(pb)
}

// Flush writes memtables to tables. A nil table means all; memtables are
// shared, so that they are written whole in either case.
func (s *Store) Flush(ctx context.Context, _ *schema.Table) error {
	for _, sh := range s.shards {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := sh.flush(ctx); err != nil {
			return fmt.Errorf("flush shard %d: %w", sh.idx, err)
		}
	}
	return s.failed()
}
