package pg

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"varve/internal/move"
)

//go:embed schema.sql
var schemaSQL string

// schemaVersion is that of schema.sql.
const schemaVersion = 1

// lockInstall serialises those who make or take away the schema.
const lockInstall = `SELECT pg_advisory_xact_lock(1986097782, 0)`

// install makes the schema varve_move, or finds it made.
func install(ctx context.Context, pool *pgxpool.Pool) error {
	var version int
	err := pool.QueryRow(ctx, `SELECT version FROM varve_move.version`).Scan(&version)
	switch {
	case err == nil && version == schemaVersion:
		return nil
	case err == nil:
		return fmt.Errorf("schema varve_move is of version %d, this program's is %d: use the program that made it", version, schemaVersion)
	case err != pgx.ErrNoRows && state(err) != "42P01" && state(err) != "3F000":
		return fmt.Errorf("look at schema varve_move: %w", err)
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockInstall); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, schemaSQL, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO varve_move.version SELECT $1 WHERE NOT EXISTS (SELECT FROM varve_move.version)`, schemaVersion)
		return err
	})
	if err != nil {
		return fmt.Errorf("make schema varve_move: %w", err)
	}
	return nil
}

func (s *Side) canaryName() string { return "canary_" + s.opt.Move }
func (s *Side) canary() string     { return "varve_move." + quote(s.canaryName()) }

// Prepare makes the schema and the canary's table.
func (s *Side) Prepare(ctx context.Context) error {
	if err := install(ctx, s.pool); err != nil {
		return err
	}
	return s.exec(ctx, lockInstall, fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (stream text PRIMARY KEY, n bigint NOT NULL)`, s.canary()))
}

// Remove takes away what the move keeps here; the schema goes with the last
// move that uses it.
func (s *Side) Remove(ctx context.Context) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockInstall); err != nil {
			return err
		}
		var there bool
		if err := tx.QueryRow(ctx, `SELECT to_regclass('varve_move.version') IS NOT NULL`).Scan(&there); err != nil || !there {
			return err
		}
		if _, err := tx.Exec(ctx, "DROP TABLE IF EXISTS "+s.canary()); err != nil {
			return err
		}
		for _, sql := range []string{
			`DELETE FROM varve_move.progress p USING varve_move.applied a WHERE a.stream = p.stream AND a.move = $1`,
			`DELETE FROM varve_move.applied WHERE move = $1`,
			`DELETE FROM varve_move.streams WHERE move = $1`,
		} {
			if _, err := tx.Exec(ctx, sql, s.opt.Move); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		_, err = s.pool.Exec(ctx, `SELECT pg_replication_origin_drop(roname) FROM pg_replication_origin WHERE starts_with(roname, $1)`, s.originPrefix())
		if state(err) == "42501" || state(err) == "42704" {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("remove the move from %s: %w", s.name, err)
	}
	return nil
}

// DropTables drops the moved tables.
func (s *Side) DropTables(ctx context.Context) error {
	var drops []string
	for _, t := range s.tables {
		drops = append(drops, "DROP TABLE IF EXISTS "+t.ident)
	}
	if err := s.exec(ctx, drops...); err != nil {
		return fmt.Errorf("drop the moved tables of %s: %w", s.name, err)
	}
	return nil
}

// Canary writes the stream's row as an app would.
func (s *Side) Canary(ctx context.Context, stream string, n int64) error {
	_, err := s.pool.Exec(ctx, fmt.Sprintf(`INSERT INTO %s VALUES ($1, $2) ON CONFLICT (stream) DO UPDATE SET n = excluded.n`, s.canary()), stream, n)
	if err != nil {
		return fmt.Errorf("write the canary: %w", err)
	}
	return nil
}

// ReadCanary returns the stream's row.
func (s *Side) ReadCanary(ctx context.Context, stream string) (int64, error) {
	var n int64
	err := s.pool.QueryRow(ctx, fmt.Sprintf(`SELECT n FROM %s WHERE stream = $1`, s.canary()), stream).Scan(&n)
	if err == pgx.ErrNoRows {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the canary: %w", err)
	}
	return n, nil
}

var _ = move.CanaryTable
