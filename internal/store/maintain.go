package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"varve/internal/schema"
)

// Truncate removes all rows and index entries of a table written so far. Writes
// go on meanwhile: in each shard one is removed whole, with its index entries,
// or stays whole.
func (s *Store) Truncate(ctx context.Context, t *schema.Table) error {
	return s.TruncateAs(ctx, t, "")
}

// TruncateAs is Truncate by the origin of a request, which a fence may let pass.
func (s *Store) TruncateAs(ctx context.Context, t *schema.Table, origin string) error {
	ids := []uint32{t.PhysID}
	for _, x := range t.Indexes {
		ids = append(ids, x.PhysID)
	}
	if err := s.passMu.take(ctx, true); err != nil {
		return fmt.Errorf("truncate %s.%s: %w", t.Keyspace, t.Name, err)
	}
	defer s.passMu.Unlock()
	if err := s.truncate(ctx, t, ids, origin); err != nil {
		return fmt.Errorf("truncate %s.%s: %w", t.Keyspace, t.Name, err)
	}
	// An excise would take later writes too. A flush has compactions drop whole files.
	for _, sh := range s.shards {
		if err := sh.flush(ctx); err != nil {
			s.opts.Logger.Warn("space of a truncated table is not returned yet", "table", t.Keyspace+"."+t.Name, "err", err)
			continue
		}
		for _, id := range ids {
			sh.oweAll(id)
		}
	}
	return s.failed()
}

func (s *Store) truncate(ctx context.Context, t *schema.Table, ids []uint32, origin string) error {
	// As for a batch over several shards: a fence must not fall between two of them.
	if err := s.fenceMu.take(ctx, false); err != nil {
		return err
	}
	defer s.fenceMu.RUnlock()
	if err := s.CheckFence(t, origin); err != nil {
		return err
	}
	tbl := s.tableFor(t)
	return s.dropRanges(ctx, ids, func(sh *shard, pb *pebble.Batch) (int64, error) {
		return sh.captureTruncate(pb, tbl, origin)
	})
}

// oweAll makes a debt of everything that there is under a physical id.
func (sh *shard) oweAll(id uint32) {
	lo, hi := physBounds(id)
	y, err := sh.yieldOf(string(lo), string(hi))
	if err != nil {
		sh.s.passFailed(err)
	} else if y.entries > 0 {
		sh.debts.add(debt{lo: string(lo), hi: string(hi), rows: y.entries, removed: true})
	}
}

// DropPhys removes everything under the physical id of a dropped table or
// index, to which nothing may be written any more. The range deletion is what
// makes it durable, the excise what returns the space.
func (s *Store) DropPhys(ctx context.Context, id uint32) error {
	if err := s.passMu.take(ctx, true); err != nil {
		return fmt.Errorf("drop physical id %d: %w", id, err)
	}
	defer s.passMu.Unlock()
	more := func(sh *shard, pb *pebble.Batch) (int64, error) { return 0, sh.dropFeed(pb, id) }
	if err := s.dropRanges(ctx, []uint32{id}, more); err != nil {
		return fmt.Errorf("drop physical id %d: %w", id, err)
	}
	s.updateWatched()
	lo, hi := physBounds(id)
	for _, sh := range s.shards {
		if err := sh.db.Excise(ctx, pebble.KeyRange{Start: lo, End: hi}); err != nil {
			s.opts.Logger.Warn("space of a dropped table is not returned yet", "phys", id, "err", err)
		}
	}
	if err := s.forgetSweep(id); err != nil {
		return fmt.Errorf("drop physical id %d: %w", id, err)
	}
	return s.failed()
}

// PhysIDs lists the physical ids of which anything is stored, ascending.
func (s *Store) PhysIDs() ([]uint32, error) {
	var ids []uint32
	for _, sh := range s.shards {
		if err := sh.eachPhys(func(phys uint32) error {
			ids = append(ids, phys)
			return nil
		}); err != nil {
			return nil, fmt.Errorf("list physical ids: %w", err)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// dropRanges removes everything under some physical ids; more adds to each
// shard's batch, and tells the position of the record it added.
func (s *Store) dropRanges(
	ctx context.Context, ids []uint32, more func(*shard, *pebble.Batch) (int64, error),
) error {
	if s.opts.ReadOnly {
		return ErrReadOnly
	}
	if slices.Contains(ids, 0) {
		return errors.New("physical id 0 is the store's own")
	}
	for _, sh := range s.shards {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := sh.dropRanges(ctx, ids, more); err != nil {
			return err
		}
	}
	return nil
}

// dropRanges keeps the shard's writers out while it removes what there is.
func (sh *shard) dropRanges(
	ctx context.Context, ids []uint32, more func(*shard, *pebble.Batch) (int64, error),
) error {
	var all stripeSet
	all.addAll()
	if err := sh.lockWithin(ctx, &all); err != nil {
		return err
	}
	defer sh.unlock(&all)
	sh.spanMu.Lock()
	defer sh.spanMu.Unlock()
	pb := sh.db.NewBatch()
	first, err := more(sh, pb)
	if err != nil {
		return errors.Join(err, pb.Close())
	}
	defer sh.feed.land(first)
	for _, id := range ids {
		lo, hi := physBounds(id)
		if err := pb.DeleteRange(lo, hi, nil); err != nil {
			return errors.Join(err, pb.Close())
		}
		m := &sh.s.tableByID(id).parts[sh.idx].spans
		m.mu.Lock()
		m.removeLocked("", "\xff\xff\xff\xff\xff\xff")
		m.mu.Unlock()
	}
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
