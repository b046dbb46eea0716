package cql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"varve/internal/move"
)

// fenceHint is what the store tells clients that it refuses.
const fenceHint = "the table is being moved; write through varve/move/app, or to the side that is canonical now"

// InstallFence implements move.Fence: the store has its fence built in.
func (s *Side) InstallFence(ctx context.Context) error { return s.loadPass(ctx) }

// RaiseFence implements move.Fence.
func (s *Side) RaiseFence(ctx context.Context, generation int64, patience, deadline time.Duration) error {
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, t := range s.tables {
		err := s.exec(wait, `INSERT INTO varve.fences (keyspace_name, table_name, generation, state, pass, hint, expires_in_ms)
			VALUES (?, ?, ?, 'closed', ?, ?, ?)`, t.Schema, t.Name, generation, s.pass, fenceHint, deadline.Milliseconds())
		if err == nil {
			continue
		}
		if isOldGeneration(err) {
			return fmt.Errorf("%w: %w", err, move.ErrFenceGeneration)
		}
		if lift := s.LiftFence(ctx, generation); lift != nil {
			return errors.Join(err, lift)
		}
		if wait.Err() != nil && ctx.Err() == nil {
			return fmt.Errorf("fence of %s: %w", t.qualified(), move.ErrFenceBusy)
		}
		return err
	}
	return nil
}

// LiftFence implements move.Fence. A fence that was raised under an earlier
// generation is replaced by an open one.
func (s *Side) LiftFence(ctx context.Context, generation int64) error {
	return s.eachFence(ctx, generation, func(t *table, have int64) error {
		if have < generation {
			return s.exec(ctx, `INSERT INTO varve.fences (keyspace_name, table_name, generation, state) VALUES (?, ?, ?, 'open')`,
				t.Schema, t.Name, generation)
		}
		return s.exec(ctx, `UPDATE varve.fences SET generation = ?, state = 'open' WHERE keyspace_name = ? AND table_name = ?`,
			generation, t.Schema, t.Name)
	})
}

// KeepFence implements move.Fence.
func (s *Side) KeepFence(ctx context.Context, generation int64) error {
	return s.eachFence(ctx, generation, func(t *table, have int64) error {
		if have < generation {
			return fmt.Errorf("it was raised under generation %d: %w", have, move.ErrFenceDown)
		}
		err := s.exec(ctx, `UPDATE varve.fences SET generation = ?, expires_in_ms = null WHERE keyspace_name = ? AND table_name = ?`,
			generation, t.Schema, t.Name)
		if isFenced(err) && !isOldGeneration(err) {
			return fmt.Errorf("%w: %w", err, move.ErrFenceDown)
		}
		return err
	})
}

// fenceOf returns the generation of a table's fence, if it has one.
func (s *Side) fenceOf(ctx context.Context, t *table) (generation int64, found bool, err error) {
	err = s.session.Query(`SELECT generation FROM varve.fences WHERE keyspace_name = ? AND table_name = ?`, t.Schema, t.Name).
		ScanContext(ctx, &generation)
	if isNotFound(err) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("fence of %s: %w", t.qualified(), err)
	}
	return generation, true, nil
}

// eachFence changes the fences that the tables have, with the generation last
// used.
func (s *Side) eachFence(ctx context.Context, generation int64, change func(t *table, have int64) error) error {
	for _, t := range s.tables {
		have, _, err := s.fenceOf(ctx, t)
		if err != nil {
			return err
		}
		if have > generation {
			return fmt.Errorf("fence of %s is at generation %d, not %d: %w", t.qualified(), have, generation, move.ErrFenceGeneration)
		}
		if err := change(t, have); err != nil {
			if isOldGeneration(err) {
				return fmt.Errorf("%w: %w", err, move.ErrFenceGeneration)
			}
			return fmt.Errorf("fence of %s: %w", t.qualified(), err)
		}
	}
	return nil
}

// RemoveFence implements move.Fence. Only an open fence can be removed.
func (s *Side) RemoveFence(ctx context.Context) error {
	for _, t := range s.tables {
		have, found, err := s.fenceOf(ctx, t)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		err = s.exec(ctx, `UPDATE varve.fences SET generation = ?, state = 'open' WHERE keyspace_name = ? AND table_name = ?`, have, t.Schema, t.Name)
		if err == nil {
			err = s.exec(ctx, `DELETE FROM varve.fences WHERE keyspace_name = ? AND table_name = ?`, t.Schema, t.Name)
		}
		if err != nil {
			return fmt.Errorf("remove the fence of %s: %w", t.qualified(), err)
		}
	}
	return nil
}

func isOldGeneration(err error) bool {
	return isFenced(err) && strings.Contains(err.Error(), "generation") && strings.Contains(err.Error(), "lower")
}
