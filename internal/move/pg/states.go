package pg

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"varve/internal/move"
)

//go:embed states.sql
var statesSQL string

// States keeps the state of moves in the database that they leave.
type States struct {
	pool *pgxpool.Pool
}

var _ move.StateStore = (*States)(nil)

// stateChannel is notified with the move's name whenever its record changes.
const stateChannel = "varve_move"

// stateConnections bounds the pool: one waits for notifications, the others
// are short.
const stateConnections = 4

// OpenStates connects to the database at url.
func OpenStates(ctx context.Context, url string) (*States, error) {
	pool, err := newPool(url, stateConnections)
	if err != nil {
		return nil, err
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	return &States{pool: pool}, nil
}

// Close ends the connections.
func (s *States) Close(context.Context) error {
	s.pool.Close()
	return nil
}

// Install makes the schema and the state's tables.
func (s *States) Install(ctx context.Context) error {
	if err := install(ctx, s.pool); err != nil {
		return err
	}
	var there bool
	if err := s.pool.QueryRow(ctx, `SELECT to_regclass('varve_move.ranges') IS NOT NULL`).Scan(&there); err != nil || there {
		return err
	}
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockInstall); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, statesSQL, pgx.QueryExecModeSimpleProtocol)
		return err
	})
	if err != nil {
		return fmt.Errorf("make the tables of schema varve_move: %w", err)
	}
	return nil
}

// missing reports that the schema or its tables are not there.
func missing(err error) bool {
	code := state(err)
	return code == "42P01" || code == "3F000"
}

// Create puts a new move down.
func (s *States) Create(ctx context.Context, r *move.Record) error {
	c := *r
	c.State, c.Generation = move.Planned, 1
	more, err := encodeMore(&c)
	if err != nil {
		return err
	}
	tag, err := s.pool.Exec(ctx, `INSERT INTO varve_move.moves AS m
		(move, state, generation, canonical, read_percent, shadow, paused, trouble, file, more)
		VALUES ($1, $2, 1, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (move) DO UPDATE SET state = excluded.state, generation = m.generation + 1, canonical = excluded.canonical,
			read_percent = excluded.read_percent, shadow = excluded.shadow, paused = excluded.paused, trouble = excluded.trouble,
			file = excluded.file, more = excluded.more, intent = NULL, live = NULL, owner = '',
			created = clock_timestamp(), changed = clock_timestamp()
		WHERE m.state IN ('finished', 'aborted')`,
		c.Move, string(c.State), c.Canonical.String(), c.ReadPercent, c.Shadow, c.Paused, c.Trouble, string(c.File), more)
	if err != nil {
		return fmt.Errorf("create move %s: %w", c.Move, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("move %s: %w", c.Move, move.ErrMoveExists)
	}
	for _, table := range []string{"nodes", "samples", "differences", "ranges"} {
		if _, err := s.pool.Exec(ctx, `DELETE FROM varve_move.`+table+` WHERE move = $1`, c.Move); err != nil {
			return fmt.Errorf("forget an earlier move %s: %w", c.Move, err)
		}
	}
	return nil
}

// more is what a record has no column for.
type more struct {
	Back        move.State    `json:"back,omitempty"`
	ShadowSince int64         `json:"shadow_since,omitempty"`
	Budgets     []move.Budget `json:"budgets,omitempty"`
	StampFloor  int64         `json:"stamp_floor,omitempty"`
	Result      *move.Result  `json:"result,omitempty"`
}

func encodeMore(r *move.Record) (string, error) {
	b, err := json.Marshal(more{r.Back, r.ShadowSince, r.Budgets, r.StampFloor, r.Result})
	if err != nil {
		return "", fmt.Errorf("record of move %s: %w", r.Move, err)
	}
	return string(b), nil
}

const recordColumns = `move, state, generation, canonical, read_percent, shadow, paused, trouble, file, more::text, intent::text, live::text,
	owner, token, CASE WHEN isfinite(lease_until) THEN lease_until ELSE 'epoch' END, created, changed, clock_timestamp()`

func scanRecord(row pgx.Row) (*move.Record, error) {
	var r move.Record
	var at, canonical, file, rest string
	var intent, live *string
	err := row.Scan(&r.Move, &at, &r.Generation, &canonical, &r.ReadPercent, &r.Shadow, &r.Paused, &r.Trouble, &file, &rest, &intent, &live,
		&r.Owner, &r.Token, &r.LeaseUntil, &r.Created, &r.Changed, &r.Loaded)
	if err != nil {
		return nil, err
	}
	r.State, r.File = move.State(at), []byte(file)
	if canonical == move.Target.String() {
		r.Canonical = move.Target
	}
	var m more
	if err := json.Unmarshal([]byte(rest), &m); err != nil {
		return nil, fmt.Errorf("record of move %s: %w", r.Move, err)
	}
	r.Back, r.ShadowSince, r.Budgets, r.StampFloor, r.Result = m.Back, m.ShadowSince, m.Budgets, m.StampFloor, m.Result
	if intent != nil {
		r.Intent = &move.Intent{}
		if err := json.Unmarshal([]byte(*intent), r.Intent); err != nil {
			return nil, fmt.Errorf("intent of move %s: %w", r.Move, err)
		}
	}
	if live != nil {
		if err := json.Unmarshal([]byte(*live), &r.Live); err != nil {
			return nil, fmt.Errorf("figures of move %s: %w", r.Move, err)
		}
	}
	return &r, nil
}

// Load reads a move's record.
func (s *States) Load(ctx context.Context, name string) (*move.Record, error) {
	r, err := scanRecord(s.pool.QueryRow(ctx, `SELECT `+recordColumns+` FROM varve_move.moves WHERE move = $1`, name))
	if errors.Is(err, pgx.ErrNoRows) || missing(err) {
		return nil, fmt.Errorf("move %s: %w", name, move.ErrNoMove)
	}
	if err != nil {
		return nil, fmt.Errorf("load move %s: %w", name, err)
	}
	return r, nil
}

// List reads all moves' records.
func (s *States) List(ctx context.Context) ([]*move.Record, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+recordColumns+` FROM varve_move.moves ORDER BY move`)
	if err == nil {
		var out []*move.Record
		if out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (*move.Record, error) { return scanRecord(row) }); err == nil {
			return out, nil
		}
	}
	if missing(err) {
		return nil, nil
	}
	return nil, fmt.Errorf("list moves: %w", err)
}

// Wait listens until the move's record changes.
func (s *States) Wait(ctx context.Context, name string, generation int64, patience time.Duration) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("wait for move %s: %w", name, err)
	}
	defer conn.Release()
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := conn.Exec(limit, "LISTEN "+stateChannel); err != nil {
		return waited(ctx, limit, name, err)
	}
	for {
		var same bool
		err := conn.QueryRow(limit, `SELECT generation = $2 AND intent IS NULL FROM varve_move.moves WHERE move = $1`, name, generation).Scan(&same)
		switch {
		case errors.Is(err, pgx.ErrNoRows) || missing(err):
			if generation != 0 {
				return nil
			}
		case err != nil:
			return waited(ctx, limit, name, err)
		case !same:
			return nil
		}
		for {
			n, err := conn.Conn().WaitForNotification(limit)
			if err != nil {
				return waited(ctx, limit, name, err)
			}
			if n.Payload == name {
				break
			}
		}
	}
}

// waited tells the end of the patience from errors.
func waited(ctx, limit context.Context, name string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if limit.Err() != nil {
		return nil
	}
	return fmt.Errorf("wait for move %s: %w", name, err)
}

// Ask puts down an intent.
func (s *States) Ask(ctx context.Context, name string, i move.Intent) (int64, error) {
	var id int64
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var pending bool
		err := tx.QueryRow(ctx, `SELECT intent IS NOT NULL, last_intent + 1, clock_timestamp() FROM varve_move.moves WHERE move = $1 FOR UPDATE`, name).
			Scan(&pending, &id, &i.At)
		if errors.Is(err, pgx.ErrNoRows) || missing(err) {
			return move.ErrNoMove
		}
		if err != nil {
			return err
		}
		if pending {
			return move.ErrIntentPending
		}
		i.ID = id
		b, err := json.Marshal(i)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE varve_move.moves SET intent = $2, last_intent = $3 WHERE move = $1`, name, string(b), id); err != nil {
			return err
		}
		return notify(ctx, tx, name)
	})
	if err != nil {
		return 0, fmt.Errorf("ask for %s of move %s: %w", i.Verb, name, err)
	}
	return id, nil
}

func notify(ctx context.Context, tx pgx.Tx, name string) error {
	_, err := tx.Exec(ctx, `SELECT pg_notify($1, $2)`, stateChannel, name)
	return err
}

// Remove takes the schema away when no move needs it any more.
func (s *States) Remove(ctx context.Context) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockInstall); err != nil {
			return err
		}
		var live int
		err := tx.QueryRow(ctx, `SELECT count(*) FROM varve_move.moves WHERE state NOT IN ('finished', 'aborted')`).Scan(&live)
		if err != nil || live > 0 {
			return err
		}
		_, err = tx.Exec(ctx, `DROP SCHEMA varve_move CASCADE`)
		return err
	})
	if err != nil && !missing(err) {
		return fmt.Errorf("remove schema varve_move: %w", err)
	}
	return nil
}
