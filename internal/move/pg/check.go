package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"varve/internal/move"
)

// checker collects what is wrong or dear about a side's part. Both sides need
// nearly the same: the changes of either flow to the other, before the cutover
// one way and after it back.
type checker struct {
	s        *Side
	part     move.Part
	role     string // quoted
	replica  bool   // may set session_replication_role
	findings []move.Finding
}

func (c *checker) add(stops bool, object, what string, mend ...string) {
	c.findings = append(c.findings, move.Finding{Stops: stops, Object: object, What: what, Mend: mend})
}

// longAge is from when on a transaction is told as long.
const longAge = time.Minute

// Check looks at server, role and tables.
func (s *Side) Check(ctx context.Context, part move.Part) ([]move.Finding, error) {
	c := &checker{s: s, part: part}
	for _, step := range []func(context.Context) error{
		c.server, c.privileges, c.settings, c.retention, c.tables, c.identities, c.triggers, c.foreignKeys, c.others, c.long,
	} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("check %s: %w", s.name, err)
		}
	}
	return c.findings, nil
}

func (c *checker) server(ctx context.Context) error {
	var standby, superuser, replication bool
	var encoding string
	err := c.s.pool.QueryRow(ctx, `SELECT pg_is_in_recovery(), quote_ident(current_user), r.rolsuper, r.rolreplication OR r.rolsuper,
		current_setting('server_encoding') FROM pg_roles r WHERE r.rolname = current_user`).
		Scan(&standby, &c.role, &superuser, &replication, &encoding)
	if err != nil {
		return err
	}
	if standby {
		c.add(true, "server", "it is a standby: a move needs the primary")
	}
	if !replication {
		c.add(true, "role "+c.role, "it may not use replication slots", "ALTER ROLE "+c.role+" REPLICATION")
	}
	if encoding != "UTF8" {
		c.add(false, "server_encoding", "it is "+encoding+": text goes through a conversion, and what does not convert stops the move")
	}
	c.replica = superuser
	if !superuser && c.s.version >= 150000 {
		return c.s.pool.QueryRow(ctx, `SELECT has_parameter_privilege('session_replication_role', 'SET')`).Scan(&c.replica)
	}
	return nil
}

func (c *checker) privileges(ctx context.Context) error {
	var create, schema, origins bool
	var database string
	err := c.s.pool.QueryRow(ctx, `SELECT has_database_privilege(current_database(), 'CREATE'), quote_ident(current_database()),
		COALESCE((SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = 'varve_move'), false),
		(SELECT bool_and(has_function_privilege(f::regprocedure, 'EXECUTE')) FROM unnest(ARRAY['pg_replication_origin_create(text)',
			'pg_replication_origin_oid(text)', 'pg_replication_origin_session_setup(text)', 'pg_replication_origin_drop(text)',
			'pg_replication_origin_xact_setup(pg_lsn,timestamptz)']) f)`).
		Scan(&create, &database, &schema, &origins)
	if err != nil {
		return err
	}
	if !create {
		what := "role " + c.role + " may not create publications"
		if !schema {
			what += " and the schema varve_move"
		}
		c.add(true, "database "+database, what, "GRANT CREATE ON DATABASE "+database+" TO "+c.role)
	}
	if !origins {
		var grants []string
		for _, f := range []string{"create(text)", "oid(text)", "session_setup(text)", "drop(text)", "xact_setup(pg_lsn, timestamptz)"} {
			grants = append(grants, "GRANT EXECUTE ON FUNCTION pg_replication_origin_"+f+" TO "+c.role)
		}
		c.add(false, "replication origins", "the role may not use them: the move knows its own writes by a message in each transaction instead, "+
			"other subscribers of this server do not", grants...)
	}
	return nil
}

func (c *checker) settings(ctx context.Context) error {
	var level string
	var slots, senders, connections int
	var mine bool
	err := c.s.pool.QueryRow(ctx, `SELECT current_setting('wal_level'),
		current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_replication_slots),
		current_setting('max_wal_senders')::int - (SELECT count(*) FROM pg_stat_replication),
		current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int - (SELECT count(*) FROM pg_stat_activity),
		EXISTS (SELECT FROM pg_replication_slots WHERE starts_with(slot_name, $1))`, c.s.originPrefix()).
		Scan(&level, &slots, &senders, &connections, &mine)
	if err != nil {
		return err
	}
	if level != "logical" {
		c.add(true, "wal_level", "it is "+level+": the log does not hold what a stream of changes needs",
			"ALTER SYSTEM SET wal_level = logical", "-- then restart the server")
	}
	if slots < 1 && !mine {
		c.add(true, "max_replication_slots", "no replication slot is free",
			"ALTER SYSTEM SET max_replication_slots = ...",
			"-- then restart the server, or drop a slot that is not used: SELECT * FROM pg_replication_slots WHERE NOT active")
	}
	if senders < 1 && !mine {
		c.add(true, "max_wal_senders", "no process for sending the log is free", "ALTER SYSTEM SET max_wal_senders = ...", "-- then restart the server")
	}
	if need := c.s.opt.Connections + 2; connections < need {
		c.add(false, "max_connections", fmt.Sprintf("%d connections are free, the move opens up to %d", connections, need))
	}
	return nil
}

func (c *checker) retention(ctx context.Context) error {
	var keep int64
	var size int64
	err := c.s.pool.QueryRow(ctx, `SELECT setting::int8, (SELECT COALESCE(sum(pg_total_relation_size(r)), 0)::int8 FROM `+family+` f(r))
		FROM pg_settings WHERE name = 'max_slot_wal_keep_size'`, c.s.oids()).Scan(&keep, &size)
	if err != nil {
		return err
	}
	if c.part == move.Origin {
		c.add(false, "disk", fmt.Sprintf("the moved tables take %s with their indexes: the target needs as much, and what is written during the copy",
			bytesText(size)))
	}
	switch {
	case keep < 0:
		c.add(false, "max_slot_wal_keep_size", "it is unlimited: if the mover stays away, the log grows until the disk is full. A limit drops the stream instead, "+
			"and the move begins anew", "ALTER SYSTEM SET max_slot_wal_keep_size = '...GB'", "SELECT pg_reload_conf()")
	case keep < 1024:
		c.add(false, "max_slot_wal_keep_size", fmt.Sprintf("it is %s: a mover that is away for longer than that much log loses the stream, and the move begins anew",
			bytesText(keep<<20)), "ALTER SYSTEM SET max_slot_wal_keep_size = '...GB'", "SELECT pg_reload_conf()")
	}
	return nil
}

func bytesText(n int64) string {
	units := []string{"bytes", "kB", "MB", "GB", "TB"}
	f, u := float64(n), 0
	for f >= 1024 && u < len(units)-1 {
		f, u = f/1024, u+1
	}
	if u == 0 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[u])
}

// each runs fn for every row of a query whose columns are text, the first
// being the object.
func (c *checker) each(ctx context.Context, fn func(v []string), sql string, args ...any) error {
	rows, err := c.s.pool.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]string, error) {
		values, err := row.Values()
		if err != nil {
			return nil, err
		}
		out := make([]string, len(values))
		for i, v := range values {
			if v != nil {
				out[i] = fmt.Sprint(v)
			}
		}
		return out, nil
	})
	for _, v := range found {
		fn(v)
	}
	return err
}

// tables looks at ownership, persistence, row security and inheritance.
func (c *checker) tables(ctx context.Context) error {
	err := c.each(ctx, func(v []string) {
		c.add(true, v[0], "role "+c.role+" does not own it, as publications and the fence ask", "GRANT "+v[1]+" TO "+c.role)
	}, `SELECT c.oid::regclass::text, quote_ident(pg_get_userbyid(c.relowner)) FROM pg_class c
		WHERE c.oid IN `+family+` AND NOT pg_has_role(c.relowner, 'USAGE')`, c.s.oids())
	if err != nil {
		return err
	}
	err = c.each(ctx, func(v []string) {
		c.add(true, v[0], "it is not logged: its changes are not in any stream", "ALTER TABLE "+v[0]+" SET LOGGED")
	}, `SELECT c.oid::regclass::text FROM pg_class c WHERE c.oid IN `+family+` AND c.relpersistence <> 'p'`, c.s.oids())
	if err != nil {
		return err
	}
	err = c.each(ctx, func(v []string) {
		c.add(true, v[0], "row security hides rows from role "+c.role, "ALTER ROLE "+c.role+" BYPASSRLS")
	}, `SELECT c.oid::regclass::text FROM pg_class c WHERE c.oid IN `+family+` AND row_security_active(c.oid)`, c.s.oids())
	if err != nil {
		return err
	}
	err = c.each(ctx, func(v []string) {
		c.add(true, v[0], "table "+v[1]+" inherits from it and is not moved: its rows, which queries of the parent show, would stay behind")
	}, `SELECT i.inhparent::regclass::text, i.inhrelid::regclass::text FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent
		WHERE i.inhparent = ANY ($1) AND p.relkind = 'r' AND i.inhrelid <> ALL ($1)`, c.s.oids())
	if err != nil {
		return err
	}
	return c.each(ctx, func(v []string) {
		c.add(true, v[0], "partition "+v[1]+" is a foreign table: its changes are not in this server's log")
	}, `SELECT r::regclass::text, c.oid::regclass::text FROM unnest($1::oid[]) r, pg_partition_tree(r) p JOIN pg_class c ON c.oid = p.relid
		WHERE c.relkind = 'f'`, c.s.oids())
}

// identities checks that the log tells a changed row's old key.
func (c *checker) identities(ctx context.Context) error {
	for _, t := range c.s.tables {
		var attnames []string
		for _, i := range t.Key {
			attnames = append(attnames, t.Columns[i].Name)
		}
		// Partitions number columns as they like: names are compared.
		err := c.each(ctx, func(v []string) { c.identity(t, v) }, `
			SELECT c.oid::regclass::text, c.relreplident::text,
			  $2::text[] <@ COALESCE((SELECT array_agg(a.attname::text) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
			    WHERE i.indrelid = c.oid AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END), '{}'),
			  (SELECT quote_ident(x.relname) FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
			    WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
			    AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum = ANY (i.indkey) AND NOT a.attnotnull)
			    AND $2::text[] <@ (SELECT array_agg(a.attname::text) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum = ANY (i.indkey))
			    ORDER BY i.indnatts LIMIT 1),
			  (SELECT COALESCE(sum(avg_width), 0) FROM pg_stats s WHERE s.schemaname = n.nspname AND s.tablename = c.relname AND NOT s.inherited)
			FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE c.relkind = 'r' AND (c.oid = $1 OR c.oid IN (SELECT relid FROM pg_partition_tree($1)))`, t.oid, attnames)
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) identity(t *table, v []string) {
	name, kind, covers, index, width := v[0], v[1], v[2] == "true", v[3], v[4]
	cost := "every update and delete then logs the whole old row"
	if width != "0" && width != "" {
		cost += " (about " + width + " bytes)"
	}
	switch {
	case kind == "f":
		c.add(false, name, "its replica identity is FULL: "+cost)
	case covers:
	default:
		var mend []string
		what := fmt.Sprintf("its replica identity does not tell the key %s that the target has: a change could not be told apart there", t.show(nil))
		if index != "" {
			mend = append(mend, fmt.Sprintf("ALTER TABLE %s REPLICA IDENTITY USING INDEX %s", name, index))
		} else {
			mend = append(mend, fmt.Sprintf("ALTER TABLE %s REPLICA IDENTITY FULL -- %s", name, cost),
				fmt.Sprintf("CREATE UNIQUE INDEX CONCURRENTLY ... ON %s (%s) -- or so, on columns that are NOT NULL, and then REPLICA IDENTITY USING INDEX",
					name, t.keyList("")))
		}
		c.add(true, name, what, mend...)
	}
}

// mendReplica is what lets the mover write past triggers and foreign keys.
func (c *checker) mendReplica() string {
	if c.s.version >= 150000 {
		return "GRANT SET ON PARAMETER session_replication_role TO " + c.role
	}
	return "-- PostgreSQL 14 lets superusers alone set session_replication_role: open the move as one, or drop these until the cutover"
}

// triggers looks for those that would fire on the move's own writes. On the
// target they would change what arrives; at origin only on the way back.
func (c *checker) triggers(ctx context.Context) error {
	return c.each(ctx, func(v []string) {
		always := v[2] == "A"
		switch {
		case c.replica && !always:
		case c.part == move.Origin:
			c.add(false, v[0], "trigger "+v[1]+" fires on the rows that the mirror writes after the cutover, and may change them", c.mendReplica())
		default:
			mend := c.mendReplica()
			if always {
				mend = fmt.Sprintf("ALTER TABLE %s ENABLE TRIGGER %s", v[0], v[1])
			}
			c.add(true, v[0], "trigger "+v[1]+" fires on the rows that the move writes, and may change them", mend)
		}
	}, `SELECT g.tgrelid::regclass::text, quote_ident(g.tgname), g.tgenabled::text FROM pg_trigger g
		JOIN pg_proc p ON p.oid = g.tgfoid JOIN pg_namespace n ON n.oid = p.pronamespace
		WHERE g.tgrelid IN `+family+` AND NOT g.tgisinternal AND g.tgenabled IN ('O', 'A') AND n.nspname <> 'varve_move'`, c.s.oids())
}

func (c *checker) foreignKeys(ctx context.Context) error {
	err := c.each(ctx, func(v []string) {
		switch {
		case c.part == move.Target && !c.replica:
			c.add(true, v[0], "foreign key "+v[1]+" is checked on rows that the copy brings in another order than origin wrote them",
				c.mendReplica(), fmt.Sprintf("ALTER TABLE %s DROP CONSTRAINT %s -- or so, and add it again before the cutover", v[0], v[1]))
		case c.part == move.Target:
			c.add(false, v[0], "foreign key "+v[1]+" is not checked for the rows that the move writes: they are as origin has them")
		}
	}, `SELECT conrelid::regclass::text, quote_ident(conname) FROM pg_constraint
		WHERE contype = 'f' AND conparentid = 0 AND (conrelid IN `+family+` OR confrelid IN `+family+`)`, c.s.oids())
	if err != nil || c.part == move.Target {
		return err
	}
	return c.each(ctx, func(v []string) {
		c.add(false, v[0], fmt.Sprintf("foreign key %s changes its rows with those of %s, which is not moved: "+
			"after the cutover such changes there are refused", v[1], v[2]))
	}, `SELECT conrelid::regclass::text, quote_ident(conname), confrelid::regclass::text FROM pg_constraint
		WHERE contype = 'f' AND conparentid = 0 AND conrelid IN `+family+` AND NOT confrelid IN `+family+`
		AND (confdeltype IN ('c', 'n', 'd') OR confupdtype IN ('c', 'n', 'd'))`, c.s.oids())
}

// others looks for writers that the fence does not see and for a target that
// is not empty.
func (c *checker) others(ctx context.Context) error {
	err := c.each(ctx, func(v []string) {
		c.add(true, v[0], "subscription "+v[1]+" writes it, past every statement trigger and so past the fence",
			fmt.Sprintf("ALTER SUBSCRIPTION %s DISABLE; ALTER SUBSCRIPTION %[1]s SET (slot_name = NONE); DROP SUBSCRIPTION %[1]s", v[1]))
	}, `SELECT r.srrelid::regclass::text, quote_ident(s.subname) FROM pg_subscription_rel r JOIN pg_subscription s ON s.oid = r.srsubid
		WHERE r.srrelid IN `+family, c.s.oids())
	if err != nil || c.part == move.Origin {
		return err
	}
	err = c.each(ctx, func(v []string) {
		c.add(true, v[0], "it has rewrite rules, with which rows cannot be written whether they are there or not")
	}, `SELECT DISTINCT ev_class::regclass::text FROM pg_rewrite WHERE ev_class IN `+family+` AND ev_type IN ('2', '3')`, c.s.oids())
	if err != nil {
		return err
	}
	for _, t := range c.s.tables {
		var some bool
		if err := c.s.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+t.from+")").Scan(&some); err != nil {
			if state(err) == "42501" {
				continue // told above
			}
			return err
		}
		if some {
			c.add(false, t.Schema+"."+t.Name, "the target's table has rows: those that origin does not have are told as extra by verification, and repaired away")
		}
	}
	return nil
}

func (c *checker) long(ctx context.Context) error {
	long, err := c.s.long(ctx, longAge)
	for _, l := range long {
		c.add(false, "transactions", l+": opening a stream, and raising the fence, wait for it")
	}
	return err
}
