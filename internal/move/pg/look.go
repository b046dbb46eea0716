package pg

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"varve/internal/move"
)

// oids are the moved tables' numbers.
func (s *Side) oids() []uint32 {
	var out []uint32
	for _, t := range s.tables {
		out = append(out, t.oid)
	}
	return out
}

// family is a subquery of the moved tables and their partitions, $1 being the
// tables.
const family = `(SELECT unnest($1::oid[]) UNION SELECT relid FROM unnest($1::oid[]) r, pg_partition_tree(r))`

// Long describes transactions that would hold up the fence. A role that may
// not see since when others' transactions run goes by when it saw them first.
func (s *Side) Long(ctx context.Context, age time.Duration) ([]string, error) {
	out, err := s.long(ctx, age)
	if err != nil {
		return nil, fmt.Errorf("look for long transactions in %s: %w", s.name, err)
	}
	return out, nil
}

func (s *Side) long(ctx context.Context, age time.Duration) ([]string, error) {
	rows, err := s.pool.Query(ctx, `SELECT 'prepared transaction ' || quote_literal(gid) || ' of ' || owner || ', since ' || prepared
		FROM pg_prepared_xacts WHERE database = current_database()`)
	if err != nil {
		return nil, err
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	// A transaction with a number holds a lock on it, which everybody may see.
	rows, err = s.pool.Query(ctx, `SELECT l.transactionid::text::bigint, l.pid, COALESCE(a.usename, ''), COALESCE(a.application_name, ''),
		COALESCE(a.state, ''), EXTRACT(epoch FROM clock_timestamp() - a.xact_start)::float8
		FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted
		AND a.datname = current_database() AND a.application_name <> 'varve move'`)
	if err != nil {
		return nil, err
	}
	type running struct {
		XID              int64
		PID              int32
		User, App, State string
		Seconds          *float64
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[running])
	if err != nil {
		return nil, err
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.seen
	s.seen = map[uint64]time.Time{}
	for _, r := range found {
		first, ok := before[uint64(r.XID)]
		if !ok {
			first = now
		}
		if r.Seconds != nil {
			first = now.Add(-time.Duration(*r.Seconds * float64(time.Second)))
		}
		s.seen[uint64(r.XID)] = first
		if open := now.Sub(first); open >= age && (r.Seconds != nil || ok) {
			out = append(out, fmt.Sprintf("process %d of role %s (%s, %s) has written in a transaction open for %s",
				r.PID, r.User, r.App, r.State, open.Round(time.Millisecond)))
		}
	}
	return out, nil
}

// CheckRule returns keys of rows that break a rule. NULLs differ from each
// other, as in a unique index.
func (s *Side) CheckRule(ctx context.Context, rule *move.Rule, limit int) ([]move.Row, error) {
	t := s.tables[rule.Table]
	var sql string
	if len(rule.Unique) > 0 {
		var names, filled, match []string
		for _, i := range rule.Unique {
			c := t.cols[i].quoted
			names = append(names, c)
			filled = append(filled, c+" IS NOT NULL")
			match = append(match, fmt.Sprintf("t.%s = d.%s", c, c))
		}
		list := strings.Join(names, ", ")
		var keys []string
		for _, i := range t.Key {
			keys = append(keys, t.cols[i].read("t."))
		}
		sql = fmt.Sprintf("SELECT %s FROM (SELECT %s FROM %s WHERE %s GROUP BY %s HAVING count(*) > 1 LIMIT %d) d JOIN %s t ON %s LIMIT %d",
			strings.Join(keys, ", "), list, t.from, strings.Join(filled, " AND "), list, limit, t.from, strings.Join(match, " AND "), limit)
	} else if rule.Check != nil {
		condition := rule.Check.SQL(func(i int) string { return "(" + t.cols[i].read("") + ")" })
		sql = fmt.Sprintf("SELECT %s FROM %s WHERE NOT (%s) LIMIT %d", t.keyColumns(), t.from, condition, limit)
	} else {
		return nil, nil
	}
	rows, err := s.rows(ctx, sql, nil)
	if err != nil {
		return nil, fmt.Errorf("check rule %s: %w", rule.Name, s.failed("read", t, err))
	}
	return rows, nil
}

// sequencesSQL finds the sequence behind each column: owned by it (serial,
// identity) or named in its default.
const sequencesSQL = `
SELECT DISTINCT ON (a.attrelid, a.attnum) a.attrelid, a.attname, c.oid::regclass::text, s.seqincrement
FROM pg_attribute a
JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum
  AND d.deptype IN ('a', 'i')
JOIN pg_class c ON c.oid = d.objid AND c.relkind = 'S'
JOIN pg_sequence s ON s.seqrelid = c.oid
WHERE a.attrelid = ANY ($1) AND NOT a.attisdropped
UNION
SELECT a.attrelid, a.attname, c.oid::regclass::text, s.seqincrement
FROM pg_attrdef f
JOIN pg_attribute a ON a.attrelid = f.adrelid AND a.attnum = f.adnum
JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid AND d.refclassid = 'pg_class'::regclass
JOIN pg_class c ON c.oid = d.refobjid AND c.relkind = 'S'
JOIN pg_sequence s ON s.seqrelid = c.oid
WHERE f.adrelid = ANY ($1)
ORDER BY 1, 2`

type sequence struct {
	counter, name string
	up            bool
}

// sequences finds the sequences behind moved columns. A counter is named by
// the table's place in the plan and origin's name of the column.
func (s *Side) sequences(ctx context.Context) ([]sequence, error) {
	rows, err := s.pool.Query(ctx, sequencesSQL, s.oids())
	if err != nil {
		return nil, err
	}
	var out []sequence
	var oid uint32
	var column, name string
	var increment int64
	_, err = pgx.ForEachRow(rows, []any{&oid, &column, &name, &increment}, func() error {
		for i, t := range s.tables {
			for j, c := range t.Columns {
				if t.oid == oid && c.Name == column {
					out = append(out, sequence{fmt.Sprintf("%d.%s", i, t.cols[j].alias), name, increment > 0})
				}
			}
		}
		return nil
	})
	return out, err
}

// Counters returns the last values of the sequences behind moved columns.
// Those that count down are left alone.
func (s *Side) Counters(ctx context.Context) (map[string]int64, error) {
	sequences, err := s.sequences(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for sequences in %s: %w", s.name, err)
	}
	out := map[string]int64{}
	for _, q := range sequences {
		var last int64
		var called bool
		if err := s.pool.QueryRow(ctx, "SELECT last_value, is_called FROM "+q.name).Scan(&last, &called); err != nil {
			return nil, fmt.Errorf("read sequence %s: %w", q.name, err)
		}
		if called && q.up {
			out[q.counter] = max(out[q.counter], last)
		}
	}
	return out, nil
}

// RaiseCounters sets the sequences to at least these values.
func (s *Side) RaiseCounters(ctx context.Context, c map[string]int64) error {
	if len(c) == 0 {
		return nil
	}
	sequences, err := s.sequences(ctx)
	if err != nil {
		return fmt.Errorf("look for sequences in %s: %w", s.name, err)
	}
	for _, q := range sequences {
		n, ok := c[q.counter]
		if !ok || !q.up {
			continue
		}
		_, err := s.pool.Exec(ctx, fmt.Sprintf("SELECT setval(%s, $1) FROM %s WHERE last_value < $1 OR NOT is_called AND last_value <= $1",
			literal(q.name), q.name), n)
		if err != nil {
			return fmt.Errorf("set sequence %s: %w", q.name, err)
		}
	}
	return nil
}

// Scans counts reads by the server's statistics, which lag by up to a second
// and which count the move's own, and names sessions that hold a moved table
// open now.
func (s *Side) Scans(ctx context.Context) (int64, []string, error) {
	var n int64
	err := s.pool.QueryRow(ctx, `SELECT COALESCE(sum(COALESCE(seq_scan, 0) + COALESCE(idx_scan, 0)), 0)::int8
		FROM pg_stat_all_tables WHERE relid IN `+family, s.oids()).Scan(&n)
	if err != nil {
		return 0, nil, fmt.Errorf("count the reads of %s: %w", s.name, err)
	}
	rows, err := s.pool.Query(ctx, `SELECT DISTINCT format('process %s of role %s (%s, %s) uses %s', a.pid, a.usename, a.application_name,
			COALESCE(host(a.client_addr), 'local'), string_agg(DISTINCT l.relation::regclass::text, ', '))
		FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.locktype = 'relation' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND l.relation IN `+family+` AND a.application_name <> 'varve move' AND a.backend_type = 'client backend'
		GROUP BY a.pid, a.usename, a.application_name, a.client_addr`, s.oids())
	if err != nil {
		return 0, nil, fmt.Errorf("look who reads %s: %w", s.name, err)
	}
	who, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return 0, nil, fmt.Errorf("look who reads %s: %w", s.name, err)
	}
	return n, who, nil
}
