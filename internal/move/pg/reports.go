package pg

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"varve/internal/move"
)

// samplesKept is how many samples of a move stay.
const samplesKept = 1000

// ReportNode stores an app node's report.
func (s *States) ReportNode(ctx context.Context, name string, n *move.Node) error {
	b, err := json.Marshal(n)
	if err == nil {
		_, err = s.pool.Exec(ctx, `INSERT INTO varve_move.nodes (move, name, seen, report) VALUES ($1, $2, clock_timestamp(), $3)
			ON CONFLICT (move, name) DO UPDATE SET seen = excluded.seen, report = excluded.report`, name, n.Name, string(b))
	}
	if err != nil {
		return fmt.Errorf("report of node %s for move %s: %w", n.Name, name, err)
	}
	return nil
}

// Nodes reads the reports of the last ten minutes.
func (s *States) Nodes(ctx context.Context, name string) ([]move.Node, error) {
	rows, err := s.pool.Query(ctx, `SELECT seen, report::text FROM varve_move.nodes
		WHERE move = $1 AND seen > clock_timestamp() - interval '10 min' ORDER BY name`, name)
	if err != nil {
		return nil, fmt.Errorf("nodes of move %s: %w", name, err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (n move.Node, err error) {
		var report string
		seen := n.Seen
		if err = row.Scan(&seen, &report); err == nil {
			err = json.Unmarshal([]byte(report), &n)
		}
		n.Seen = seen
		return n, err
	})
	if err != nil {
		return nil, fmt.Errorf("nodes of move %s: %w", name, err)
	}
	return out, nil
}

// AddSample keeps a shadow read whose answers differed.
func (s *States) AddSample(ctx context.Context, name string, x *move.Sample) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO varve_move.samples (move, node, query, origin, target) VALUES ($1, $2, $3, $4, $5)`,
			name, x.Node, x.Query, clean(x.Origin), clean(x.Target))
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM varve_move.samples WHERE move = $1 AND id <=
			(SELECT id FROM varve_move.samples WHERE move = $1 ORDER BY id DESC OFFSET $2 LIMIT 1)`, name, samplesKept)
		return err
	})
	if err != nil {
		return fmt.Errorf("sample of move %s: %w", name, err)
	}
	return nil
}

// clean makes text of an answer that PostgreSQL takes.
func clean(s string) string {
	b := []rune(s)
	for i, r := range b {
		if r == 0 {
			b[i] = '\uFFFD'
		}
	}
	return string(b)
}

// Samples reads the newest samples.
func (s *States) Samples(ctx context.Context, name string, limit int) ([]move.Sample, error) {
	rows, err := s.pool.Query(ctx, `SELECT at, node, query, origin, target FROM varve_move.samples WHERE move = $1 ORDER BY id DESC LIMIT $2`, name, limit)
	if err != nil {
		return nil, fmt.Errorf("samples of move %s: %w", name, err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (x move.Sample, err error) {
		err = row.Scan(&x.At, &x.Node, &x.Query, &x.Origin, &x.Target)
		return x, err
	})
	if err != nil {
		return nil, fmt.Errorf("samples of move %s: %w", name, err)
	}
	return out, nil
}

// PutDifferences adds or replaces differences.
func (s *States) PutDifferences(ctx context.Context, l move.Lease, ds []move.Difference) error {
	return s.leased(ctx, l, "differences", func(tx pgx.Tx) error {
		var b pgx.Batch
		for _, d := range ds {
			b.Queue(`INSERT INTO varve_move.differences (move, tbl, rule, key, kind, shown, found) VALUES ($1, $2, $3, $4, $5, $6, $7)
				ON CONFLICT (move, tbl, rule, key) DO UPDATE SET kind = excluded.kind, shown = excluded.shown, found = excluded.found`,
				l.Move, d.Table, d.Kind == move.Broken, d.Key, string(d.Kind), clean(d.Shown), d.Found)
		}
		return tx.SendBatch(ctx, &b).Close()
	})
}

// ClearDifferences takes differences away.
func (s *States) ClearDifferences(ctx context.Context, l move.Lease, table int, keys [][]byte) error {
	return s.leased(ctx, l, "differences", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM varve_move.differences WHERE move = $1 AND tbl = $2 AND key = ANY ($3)`, l.Move, table, keys)
		return err
	})
}

// Differences reads differences by table and key.
func (s *States) Differences(ctx context.Context, name string, limit int) ([]move.Difference, int64, error) {
	var n int64
	if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM varve_move.differences WHERE move = $1`, name).Scan(&n); err != nil {
		return nil, 0, fmt.Errorf("differences of move %s: %w", name, err)
	}
	rows, err := s.pool.Query(ctx, `SELECT tbl, key, kind, shown, found FROM varve_move.differences
		WHERE move = $1 ORDER BY tbl, rule, key LIMIT $2`, name, limit)
	if err != nil {
		return nil, 0, fmt.Errorf("differences of move %s: %w", name, err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d move.Difference, err error) {
		var kind string
		err = row.Scan(&d.Table, &d.Key, &kind, &d.Shown, &d.Found)
		d.Kind = move.DifferenceKind(kind)
		return d, err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("differences of move %s: %w", name, err)
	}
	return out, n, nil
}

// PutRanges adds or replaces ranges.
func (s *States) PutRanges(ctx context.Context, l move.Lease, rs []move.VerifiedRange) error {
	return s.leased(ctx, l, "ranges", func(tx pgx.Tx) error {
		var b pgx.Batch
		for _, r := range rs {
			b.Queue(`INSERT INTO varve_move.ranges (move, tbl, side, from_key, to_key, done, rows, sum, position, at)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
				ON CONFLICT (move, tbl, side, from_key) DO UPDATE SET to_key = excluded.to_key, done = excluded.done,
					rows = excluded.rows, sum = excluded.sum, position = excluded.position, at = excluded.at`,
				l.Move, r.Table, int(r.Side), stored(r.From), stored(r.To), r.Done, r.Rows, r.Sum, r.Position, r.At)
		}
		return tx.SendBatch(ctx, &b).Close()
	})
}

// stored is a range's bound as it is stored: empty for none.
func stored(key []byte) []byte {
	if key == nil {
		return []byte{}
	}
	return key
}

func unbound(key []byte) []byte {
	if len(key) == 0 {
		return nil
	}
	return key
}

// ForgetRanges drops ranges.
func (s *States) ForgetRanges(ctx context.Context, l move.Lease, table int) error {
	return s.leased(ctx, l, "ranges", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM varve_move.ranges WHERE move = $1 AND ($2 < 0 OR tbl = $2)`, l.Move, table)
		return err
	})
}

// Ranges reads a table's ranges.
func (s *States) Ranges(ctx context.Context, name string, table int) ([]move.VerifiedRange, error) {
	rows, err := s.pool.Query(ctx, `SELECT tbl, side, from_key, to_key, done, rows, sum, position, at
		FROM varve_move.ranges WHERE move = $1 AND tbl = $2 ORDER BY side, from_key`, name, table)
	if err != nil {
		return nil, fmt.Errorf("ranges of move %s: %w", name, err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r move.VerifiedRange, err error) {
		var side int
		err = row.Scan(&r.Table, &side, &r.From, &r.To, &r.Done, &r.Rows, &r.Sum, &r.Position, &r.At)
		r.Side, r.From, r.To = move.Part(side), unbound(r.From), unbound(r.To)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("ranges of move %s: %w", name, err)
	}
	return out, nil
}
