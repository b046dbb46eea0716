package pg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"varve/internal/move"
)

// Acquire takes the lease if nobody holds it, by the database's clock.
func (s *States) Acquire(ctx context.Context, name, owner string, ttl time.Duration) (move.Lease, error) {
	l := move.Lease{Move: name, Owner: owner, TTL: ttl}
	err := s.pool.QueryRow(ctx, `UPDATE varve_move.moves SET owner = $2, token = token + 1, lease_until = clock_timestamp() + $3
		WHERE move = $1 AND (owner = '' OR lease_until <= clock_timestamp()) RETURNING token`, name, owner, ttl).Scan(&l.Token)
	if err == nil {
		return l, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) && !missing(err) {
		return l, fmt.Errorf("take the lease of move %s: %w", name, err)
	}
	r, err := s.Load(ctx, name)
	if err != nil {
		return l, err
	}
	return l, fmt.Errorf("move %s belongs to %s until %s: %w", name, r.Owner, r.LeaseUntil.Format(time.RFC3339), move.ErrLeaseHeld)
}

// held is the condition under which a lease counts; its parameters are the
// move, the token and the owner.
const held = `move = $1 AND token = $2 AND owner = $3 AND lease_until > clock_timestamp()`

// Renew prolongs the lease.
func (s *States) Renew(ctx context.Context, l move.Lease) error {
	tag, err := s.pool.Exec(ctx, `UPDATE varve_move.moves SET lease_until = clock_timestamp() + $4 WHERE `+held, l.Move, l.Token, l.Owner, l.TTL)
	if err != nil {
		return fmt.Errorf("renew the lease of move %s: %w", l.Move, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("move %s: %w", l.Move, move.ErrLeaseLost)
	}
	return nil
}

// Release gives the lease back.
func (s *States) Release(ctx context.Context, l move.Lease) error {
	_, err := s.pool.Exec(ctx, `UPDATE varve_move.moves SET owner = '' WHERE `+held, l.Move, l.Token, l.Owner)
	if err != nil && !missing(err) {
		return fmt.Errorf("give the lease of move %s back: %w", l.Move, err)
	}
	return nil
}

// leased runs do in a transaction in which the lease is held, and stays so
// until the commit.
func (s *States) leased(ctx context.Context, l move.Lease, what string, do func(tx pgx.Tx) error) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var one int
		err := tx.QueryRow(ctx, `SELECT 1 FROM varve_move.moves WHERE `+held+` FOR SHARE`, l.Move, l.Token, l.Owner).Scan(&one)
		if errors.Is(err, pgx.ErrNoRows) {
			return move.ErrLeaseLost
		}
		if err != nil {
			return err
		}
		return do(tx)
	})
	if err != nil {
		return fmt.Errorf("%s of move %s: %w", what, l.Move, err)
	}
	return nil
}

// Transition replaces the record.
func (s *States) Transition(ctx context.Context, l move.Lease, next *move.Record, e move.Entry) error {
	rest, err := encodeMore(next)
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var generation int64
		var canonical string
		var intent *int64
		err := tx.QueryRow(ctx, `SELECT generation, canonical, (intent->>'ID')::bigint FROM varve_move.moves WHERE `+held+` FOR UPDATE`,
			l.Move, l.Token, l.Owner).Scan(&generation, &canonical, &intent)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return move.ErrLeaseLost
		case err != nil:
			return err
		case generation != next.Generation:
			return fmt.Errorf("%w: it is at generation %d, not %d", move.ErrConflict, generation, next.Generation)
		}
		if to := next.Canonical.String(); to != canonical {
			if err := s.switchCanonical(ctx, tx, next); err != nil {
				return err
			}
		}
		answered := intent != nil && next.Result != nil && next.Result.Intent == *intent
		_, err = tx.Exec(ctx, `UPDATE varve_move.moves SET state = $2, generation = generation + 1, canonical = $3, read_percent = $4,
			shadow = $5, paused = $6, trouble = $7, file = $8, more = $9, intent = CASE WHEN $10 THEN NULL ELSE intent END,
			changed = clock_timestamp() WHERE move = $1`,
			l.Move, string(next.State), next.Canonical.String(), next.ReadPercent, next.Shadow, next.Paused, next.Trouble,
			string(next.File), rest, answered)
		if err != nil {
			return err
		}
		measured := e.Measured
		if measured == nil {
			measured = []string{}
		}
		_, err = tx.Exec(ctx, `INSERT INTO varve_move.history (move, by, from_state, to_state, generation, why, measured)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`, l.Move, e.By, string(e.From), string(e.To), generation+1, e.Why, measured)
		if err != nil {
			return err
		}
		return notify(ctx, tx, l.Move)
	})
	if err != nil {
		return fmt.Errorf("transition of move %s to %s: %w", l.Move, next.State, err)
	}
	next.Generation++
	return nil
}

// switchCanonical changes the row that origin's fence reads. To the target it
// goes only while the fence is up, which then cannot fall before the commit.
func (s *States) switchCanonical(ctx context.Context, tx pgx.Tx, next *move.Record) error {
	if next.Canonical == move.Target {
		n := fenceOf(next.Move, move.Origin)
		if err := n.up(ctx, tx, next.Generation); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `INSERT INTO varve_move.fences (move, canonical) VALUES ($1, $2)
		ON CONFLICT (move) DO UPDATE SET canonical = excluded.canonical`, next.Move, next.Canonical.String())
	return err
}

// Report stores the mover's figures.
func (s *States) Report(ctx context.Context, l move.Lease, live *move.Live) error {
	b, err := json.Marshal(live)
	if err != nil {
		return fmt.Errorf("figures of move %s: %w", l.Move, err)
	}
	tag, err := s.pool.Exec(ctx, `UPDATE varve_move.moves SET live = $4 WHERE `+held, l.Move, l.Token, l.Owner, string(b))
	if err != nil {
		return fmt.Errorf("report of move %s: %w", l.Move, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("move %s: %w", l.Move, move.ErrLeaseLost)
	}
	return nil
}

// History reads the newest entries.
func (s *States) History(ctx context.Context, name string, limit int) ([]move.Entry, error) {
	rows, err := s.pool.Query(ctx, `SELECT at, by, from_state, to_state, generation, why, measured
		FROM varve_move.history WHERE move = $1 ORDER BY id DESC LIMIT $2`, name, limit)
	if err != nil {
		return nil, fmt.Errorf("history of move %s: %w", name, err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e move.Entry, err error) {
		var from, to string
		err = row.Scan(&e.At, &e.By, &from, &to, &e.Generation, &e.Why, &e.Measured)
		e.From, e.To = move.State(from), move.State(to)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("history of move %s: %w", name, err)
	}
	return out, nil
}
