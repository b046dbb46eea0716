package pg

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"varve/internal/move"
)

// FencedState is the SQLSTATE of a write that the fence refuses. It is of a
// class of its own, so that no other error is taken for it.
const FencedState = "VM001"

//go:embed fence.sql
var fenceSQL string

const (
	// lockClass is the first key of every advisory lock of moves.
	lockClass = 1986097782
	// kept is the sequence's value of a fence without a deadline.
	kept = math.MaxInt64
	// Raising waits this long for writers at first and then twice as long each
	// time: writers that come meanwhile queue behind it.
	raiseFirst, raiseMost = 25 * time.Millisecond, 200 * time.Millisecond
	raisePause            = 20 * time.Millisecond
	// installTry is how long one statement of the installation may hold up a
	// table's writers; installFor is how long it is tried.
	installTry, installFor = 200 * time.Millisecond, 30 * time.Second
)

// fenceNames are what a side's fence is made of.
type fenceNames struct {
	until, generation, function, trigger string
	lock, control                        int32
}

func fenceOf(name string, part move.Part) fenceNames {
	n := name + "_" + part.String()
	return fenceNames{
		until: "fence_" + n, generation: "fence_generation_" + n, function: "fence_" + n, trigger: "varve_fence_" + n,
		lock: int32(crc32.ChecksumIEEE([]byte(n))), control: int32(crc32.ChecksumIEEE([]byte("control " + n))),
	}
}

func (s *Side) fence() fenceNames { return fenceOf(s.opt.Move, s.part) }

// InstallFence makes the fence's sequences, function and triggers. Triggers
// are made one table at a time, each with a short wait for its lock.
func (s *Side) InstallFence(ctx context.Context) error {
	if err := s.Prepare(ctx); err != nil {
		return err
	}
	n := s.fence()
	canonical := "true" // only origin's database has the row
	if s.part == move.Origin {
		// No row means a snapshot from before the fence was installed.
		canonical = "c = 'origin'"
	}
	sql := strings.NewReplacer("{until}", quote(n.until), "{generation}", quote(n.generation), "{function}", quote(n.function),
		"{pass}", literal(s.opt.Move), "{move}", literal(s.opt.Move), "{class}", fmt.Sprint(lockClass), "{lock}", fmt.Sprint(n.lock),
		"{canonical}", canonical).Replace(fenceSQL)
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockInstall); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil || s.part != move.Origin {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO varve_move.fences (move, canonical) VALUES ($1, 'origin') ON CONFLICT (move) DO NOTHING`, s.opt.Move)
		return err
	})
	if err != nil {
		return fmt.Errorf("make the fence of %s: %w", s.name, err)
	}
	missing, err := s.unfenced(ctx)
	if err != nil {
		return err
	}
	for _, table := range missing {
		if err := s.installTriggers(ctx, table, n); err != nil {
			return fmt.Errorf("put the fence before %s of %s: %w", table, s.name, err)
		}
	}
	return nil
}

// unfenced lists moved tables and their partitions, quoted, that lack an
// enabled trigger of the fence.
func (s *Side) unfenced(ctx context.Context) ([]string, error) {
	var oids []uint32
	for _, t := range s.tables {
		oids = append(oids, t.oid)
	}
	// oid::regclass is qualified: the search path holds the catalogue alone.
	rows, err := s.pool.Query(ctx, `SELECT c.oid::regclass::text FROM pg_class c
		WHERE (c.oid = ANY ($1) OR c.oid IN (SELECT relid FROM unnest($1::oid[]) r, pg_partition_tree(r))) AND c.relkind IN ('r', 'p')
		AND 2 > (SELECT count(*) FROM pg_trigger g WHERE g.tgrelid = c.oid AND g.tgname::text IN ($2::text, $2::text || '_t') AND g.tgenabled = 'A')`,
		oids, s.fence().trigger)
	if err != nil {
		return nil, fmt.Errorf("look for the fence's triggers: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (s *Side) installTriggers(ctx context.Context, table string, n fenceNames) error {
	rows, truncate := quote(n.trigger), quote(n.trigger+"_t")
	body := fmt.Sprintf(`FOR EACH STATEMENT EXECUTE FUNCTION varve_move.%s()`, quote(n.function))
	statements := []string{
		fmt.Sprintf("SET LOCAL lock_timeout = %d", installTry.Milliseconds()),
		fmt.Sprintf("CREATE OR REPLACE TRIGGER %s BEFORE INSERT OR UPDATE OR DELETE ON %s %s", rows, table, body),
		fmt.Sprintf("CREATE OR REPLACE TRIGGER %s BEFORE TRUNCATE ON %s %s", truncate, table, body),
		// Also for sessions that replicate.
		fmt.Sprintf("ALTER TABLE %s ENABLE ALWAYS TRIGGER %s, ENABLE ALWAYS TRIGGER %s", table, rows, truncate),
	}
	return s.patiently(ctx, installFor, statements...)
}

// patiently runs statements in a transaction until their locks are to be had.
func (s *Side) patiently(ctx context.Context, most time.Duration, statements ...string) error {
	until := time.Now().Add(most)
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := s.exec(ctx, statements...)
		if code := state(err); code != "55P03" && code != "40P01" || time.Now().After(until) {
			return err
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}

// control runs fn in a transaction that alone changes the fence, with the
// generation last used; an older one may not.
func (s *Side) control(ctx context.Context, generation int64, fn func(pgx.Tx, fenceNames) error) error {
	n := s.fence()
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if err := n.alone(ctx, tx); err != nil {
			return err
		}
		var last int64
		if err := tx.QueryRow(ctx, "SELECT last_value FROM varve_move."+quote(n.generation)).Scan(&last); err != nil {
			return err
		}
		if last > generation {
			return fmt.Errorf("%w: %d, this is %d", move.ErrFenceGeneration, last, generation)
		}
		return fn(tx, n)
	})
}

// alone takes the lock that every change of the fence takes.
func (n *fenceNames) alone(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1, $2)`, lockClass, n.control)
	return err
}

func (n *fenceNames) set(ctx context.Context, tx pgx.Tx, until any, generation int64) error {
	_, err := tx.Exec(ctx, `SELECT setval($1, $2::numeric::bigint), setval($3, $4)`,
		"varve_move."+quote(n.until), until, "varve_move."+quote(n.generation), generation)
	return err
}

// RaiseFence closes the tables. Writers' transactions that are under way are
// waited for in short tries; those that come after read the raised sequence.
// A fence that is kept stays so.
func (s *Side) RaiseFence(ctx context.Context, generation int64, patience, deadline time.Duration) error {
	missing, err := s.unfenced(ctx)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		// A partition that was made since.
		if err := s.InstallFence(ctx); err != nil {
			return err
		}
	}
	began := time.Now()
	err = s.control(ctx, generation, func(tx pgx.Tx, n fenceNames) error {
		for try := raiseFirst; ; try = min(2*try, raiseMost) {
			left := patience - time.Since(began)
			if left <= 0 {
				return move.ErrFenceBusy
			}
			err := exclusive(ctx, tx, n, min(try, left))
			if err == nil {
				break
			}
			if state(err) != "55P03" {
				return err
			}
			if err := pause(ctx, raisePause); err != nil {
				return err
			}
		}
		var until int64
		err := tx.QueryRow(ctx, fmt.Sprintf(`SELECT CASE WHEN last_value = %d THEN %[1]d
			ELSE (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $1 END FROM varve_move.%[2]s`, int64(kept), quote(n.until)),
			max(deadline-time.Since(began), 0).Microseconds()).Scan(&until)
		if err != nil {
			return err
		}
		return n.set(ctx, tx, until, generation)
	})
	if err != nil {
		return fmt.Errorf("raise the fence of %s: %w", s.name, err)
	}
	return nil
}

// exclusive takes the lock that writers share, and gives up after a while.
func exclusive(ctx context.Context, tx pgx.Tx, n fenceNames, patience time.Duration) error {
	ms := max(patience.Milliseconds(), 1)
	return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", ms)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1, $2)`, lockClass, n.lock); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "SET LOCAL lock_timeout = 0")
		return err
	})
}

// up locks out writers and checks that the fence, raised under the generation,
// has not lifted itself. While tx lasts neither it nor a mover can lift it.
func (n *fenceNames) up(ctx context.Context, tx pgx.Tx, generation int64) error {
	if err := n.alone(ctx, tx); err != nil {
		return err
	}
	if err := exclusive(ctx, tx, *n, raiseMost); err != nil {
		if state(err) == "55P03" {
			return fmt.Errorf("%w: a writer holds its lock", move.ErrFenceDown)
		}
		return err
	}
	var raised int64
	var up bool
	err := tx.QueryRow(ctx, fmt.Sprintf(`SELECT g.last_value, u.last_value > extract(epoch FROM clock_timestamp()) * 1000000
		FROM varve_move.%s u, varve_move.%s g`, quote(n.until), quote(n.generation))).Scan(&raised, &up)
	if err != nil {
		return err
	}
	if !up || raised != generation {
		return move.ErrFenceDown
	}
	return nil
}

// KeepFence takes the deadline away from a fence that is up.
func (s *Side) KeepFence(ctx context.Context, generation int64) error {
	err := s.control(ctx, generation, func(tx pgx.Tx, n fenceNames) error {
		if err := n.up(ctx, tx, generation); err != nil {
			return err
		}
		return n.set(ctx, tx, int64(kept), generation)
	})
	if err != nil {
		return fmt.Errorf("keep the fence of %s: %w", s.name, err)
	}
	return nil
}

// LiftFence opens the tables. At origin it stays closed as long as the target
// is canonical.
func (s *Side) LiftFence(ctx context.Context, generation int64) error {
	err := s.control(ctx, generation, func(tx pgx.Tx, n fenceNames) error {
		until := 0
		if s.part == move.Origin {
			var canonical string
			err := tx.QueryRow(ctx, `SELECT canonical FROM varve_move.fences WHERE move = $1 FOR SHARE`, s.opt.Move).Scan(&canonical)
			if err != nil && !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			if canonical == "target" {
				until = 1 // past: the row decides
			}
		}
		return n.set(ctx, tx, until, generation)
	})
	if err != nil {
		return fmt.Errorf("lift the fence of %s: %w", s.name, err)
	}
	return nil
}

// RemoveFence drops the fence's triggers, function and sequences.
func (s *Side) RemoveFence(ctx context.Context) error {
	n := s.fence()
	rows, err := s.pool.Query(ctx, `SELECT g.tgrelid::regclass::text FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid
		JOIN pg_namespace ns ON ns.oid = p.pronamespace WHERE ns.nspname = 'varve_move' AND p.proname = $1 GROUP BY 1`, n.function)
	if err != nil {
		return fmt.Errorf("look for the fence of %s: %w", s.name, err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("look for the fence of %s: %w", s.name, err)
	}
	for _, table := range tables {
		err := s.patiently(ctx, installFor, fmt.Sprintf("SET LOCAL lock_timeout = %d", installTry.Milliseconds()),
			fmt.Sprintf("DROP TRIGGER IF EXISTS %s ON %s", quote(n.trigger), table),
			fmt.Sprintf("DROP TRIGGER IF EXISTS %s ON %s", quote(n.trigger+"_t"), table))
		if err != nil {
			return fmt.Errorf("take the fence from %s of %s: %w", table, s.name, err)
		}
	}
	var there bool
	if err := s.pool.QueryRow(ctx, `SELECT to_regnamespace('varve_move') IS NOT NULL`).Scan(&there); err != nil || !there {
		return err
	}
	err = s.exec(ctx, fmt.Sprintf("DROP FUNCTION IF EXISTS varve_move.%s()", quote(n.function)),
		fmt.Sprintf("DROP SEQUENCE IF EXISTS varve_move.%s, varve_move.%s", quote(n.until), quote(n.generation)))
	if err == nil && s.part == move.Origin {
		_, err = s.pool.Exec(ctx, `DELETE FROM varve_move.fences WHERE move = $1`, s.opt.Move)
	}
	if err != nil {
		return fmt.Errorf("remove the fence of %s: %w", s.name, err)
	}
	return nil
}
