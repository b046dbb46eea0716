package cql

import (
	"context"
	"errors"
	"fmt"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"varve/internal/move"
)

// skewBound is how far the store's clock may be from the mover's before the
// plan warns: after a cutover the store stamps writes by its own clock.
const skewBound = 500 * time.Millisecond

func isNotFound(err error) bool { return errors.Is(err, gocql.ErrNotFound) }

// Check implements move.Side.
func (s *Side) Check(ctx context.Context, part move.Part) ([]move.Finding, error) {
	if part != move.Target {
		return nil, errors.New("a CQL store as origin is not supported: moves begin in PostgreSQL")
	}
	iter := s.session.Query(`SELECT generation FROM varve.fences`).IterContext(ctx)
	if err := iter.Close(); refused(err) {
		return []move.Finding{{
			Stops: true, Object: s.name,
			What: "this CQL store has no fence and no change feed (varve.fences, varve.changes), so a move could not cut over to it safely, or back",
		}}, nil
	} else if err != nil {
		return nil, fmt.Errorf("look for the fence of %s: %w", s.name, err)
	}
	var findings []move.Finding
	for i, t := range s.tables {
		rows, err := s.Read(ctx, i, move.Range{}, 1)
		if err != nil {
			return nil, err
		}
		if len(rows) > 0 {
			findings = append(findings, move.Finding{
				Object: t.qualified(),
				What:   "it holds rows already; those that origin does not have are reported as extra by verify",
				Mend:   []string{"TRUNCATE " + t.qualified()},
			})
		}
	}
	skew, err := s.skew(ctx)
	if err != nil {
		return nil, err
	}
	if skew.Abs() > skewBound {
		findings = append(findings, move.Finding{
			Object: "clock", What: fmt.Sprintf("the store's clock differs from the mover's by %s; the cutover waits until it has passed the last stamp", skew),
		})
	}
	return findings, nil
}

// skew is how far the store's clock is ahead of this machine's.
func (s *Side) skew(ctx context.Context) (time.Duration, error) {
	before := time.Now()
	var at time.Time
	if err := s.session.Query(`SELECT toTimestamp(now()) FROM system.local`).ScanContext(ctx, &at); err != nil {
		return 0, fmt.Errorf("ask %s for its time: %w", s.name, err)
	}
	return at.Sub(before.Add(time.Since(before) / 2)), nil
}

// Scans implements move.Side. A CQL store is only left by a rollback, which
// does not ask who still reads it.
func (s *Side) Scans(context.Context) (int64, []string, error) { return 0, nil, nil }

// Canary implements move.Side.
func (s *Side) Canary(ctx context.Context, stream string, n int64) error {
	return s.exec(ctx, `INSERT INTO varve_move.canary (stream, n) VALUES (?, ?)`, stream, n)
}

// ReadCanary implements move.Side.
func (s *Side) ReadCanary(ctx context.Context, stream string) (int64, error) {
	var n int64
	err := s.session.Query(`SELECT n FROM varve_move.canary WHERE stream = ?`, stream).ScanContext(ctx, &n)
	if err != nil && !isNotFound(err) {
		return 0, fmt.Errorf("read the canary of %s: %w", stream, err)
	}
	return n, nil
}
