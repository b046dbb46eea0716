package pg

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"varve/internal/move"
)

// object names what a stream needs in the database: slot, publication,
// replication origin. Slots and origins are shared by all databases of a
// server, so the move's name is part of theirs.
func (s *Side) object(stream string) string {
	clean := []byte(strings.ToLower(stream))
	for i, c := range clean {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			clean[i] = '_'
		}
	}
	name := "varve_" + s.opt.Move + "_" + string(clean)
	if len(name) > 60 || string(clean) != stream {
		name = fmt.Sprintf("%.51s_%08x", name, crc32.ChecksumIEEE([]byte(stream)))
	}
	return name
}

// originPrefix begins the replication origins of the move's writers.
func (s *Side) originPrefix() string { return "varve_" + s.opt.Move + "_" }

// replication opens a connection that can stream.
func (s *Side) replication(ctx context.Context) (*pgconn.PgConn, error) {
	c, err := config(s.opt.URL)
	if err != nil {
		return nil, err
	}
	c.RuntimeParams["replication"] = "database"
	conn, err := pgconn.ConnectConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("open a replication connection to %s: %w", s.name, err)
	}
	return conn, nil
}

// identity tells servers and their histories apart.
type identity struct {
	system   string
	timeline int32
}

func (s *Side) identity(ctx context.Context) (identity, error) {
	conn, err := s.replication(ctx)
	if err != nil {
		return identity{}, err
	}
	defer conn.Close(ctx)
	return identify(ctx, conn)
}

func identify(ctx context.Context, conn *pgconn.PgConn) (identity, error) {
	sys, err := pglogrepl.IdentifySystem(ctx, conn)
	if err != nil {
		return identity{}, fmt.Errorf("identify the server: %w", err)
	}
	return identity{sys.SystemID, sys.Timeline}, nil
}

func lost(format string, args ...any) error {
	return fmt.Errorf("%w: %s", move.ErrStreamLost, fmt.Sprintf(format, args...))
}

// recorded is what was written down when a stream was opened.
type recorded struct {
	identity
	start *string
}

func (s *Side) recorded(ctx context.Context, stream string) (*recorded, error) {
	var r recorded
	err := s.pool.QueryRow(ctx, `SELECT system, timeline, start::text FROM varve_move.streams WHERE name = $1`, s.object(stream)).
		Scan(&r.system, &r.timeline, &r.start)
	if errors.Is(err, pgx.ErrNoRows) || state(err) == "42P01" || state(err) == "3F000" {
		return nil, nil
	}
	return &r, err
}

func (r *recorded) same(now identity) error {
	if r.system != now.system {
		return lost("the server is another one now (system identifier %s, was %s): its log is not the one that was followed", now.system, r.system)
	}
	if r.timeline != now.timeline {
		return lost("the server failed over or was restored (timeline %d, was %d): changes may have been given up that were followed already, "+
			"or taken back", now.timeline, r.timeline)
	}
	return nil
}

// OpenStream makes the publication and the slot and writes down whose they
// are. A crash in between is found by the row that has no start yet.
func (s *Side) OpenStream(ctx context.Context, stream string) (move.Position, error) {
	p, err := s.openStream(ctx, stream)
	if err != nil {
		return nil, fmt.Errorf("open stream %s of %s: %w", stream, s.name, err)
	}
	return p, nil
}

func (s *Side) openStream(ctx context.Context, stream string) (move.Position, error) {
	if err := s.Prepare(ctx); err != nil {
		return nil, err
	}
	now, err := s.identity(ctx)
	if err != nil {
		return nil, err
	}
	name := s.object(stream)
	rec, err := s.recorded(ctx, stream)
	if err != nil {
		return nil, err
	}
	slot, err := s.slot(ctx, name)
	if err != nil {
		return nil, err
	}
	switch {
	case rec == nil && slot != nil:
		return nil, fmt.Errorf("a replication slot %s is there and not this move's: drop it with SELECT pg_drop_replication_slot('%s')", name, name)
	case rec == nil:
		_, err := s.pool.Exec(ctx, `INSERT INTO varve_move.streams (name, move, system, timeline) VALUES ($1, $2, $3, $4)`,
			name, s.opt.Move, now.system, now.timeline)
		if err != nil {
			return nil, err
		}
	default:
		if err := rec.same(now); err != nil {
			return nil, err
		}
		if rec.start != nil {
			if slot == nil {
				return nil, lost("replication slot %s is gone", name)
			}
			return position(*rec.start)
		}
	}
	if err := s.publish(ctx, name); err != nil {
		return nil, err
	}
	if slot == nil {
		// Waits for every transaction that writes now.
		if _, err := s.pool.Exec(ctx, `SELECT pg_create_logical_replication_slot($1, 'pgoutput')`, name); err != nil {
			return nil, fmt.Errorf("create replication slot %s: %w", name, err)
		}
		if slot, err = s.slot(ctx, name); err != nil {
			return nil, err
		}
		if slot == nil {
			return nil, lost("replication slot %s went away as it was made", name)
		}
	}
	if _, err := s.pool.Exec(ctx, `UPDATE varve_move.streams SET start = $2::text::pg_lsn WHERE name = $1`, name, slot.confirmed); err != nil {
		return nil, err
	}
	return position(slot.confirmed)
}

func position(lsn string) (move.Position, error) {
	n, err := pglogrepl.ParseLSN(lsn)
	if err != nil {
		return nil, err
	}
	return move.Position{uint64(n)}, nil
}

// publish makes the publication say what it should: the moved tables and the
// canary's, partitions as their roots.
func (s *Side) publish(ctx context.Context, name string) error {
	tables := []string{s.canary()}
	for _, t := range s.tables {
		tables = append(tables, t.from)
	}
	list := strings.Join(tables, ", ")
	var there bool
	if err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_publication WHERE pubname = $1)`, name).Scan(&there); err != nil {
		return err
	}
	options := "publish = 'insert, update, delete, truncate', publish_via_partition_root = true"
	if there {
		return s.exec(ctx,
			fmt.Sprintf("ALTER PUBLICATION %s SET TABLE %s", quote(name), list),
			fmt.Sprintf("ALTER PUBLICATION %s SET (%s)", quote(name), options))
	}
	return s.exec(ctx, fmt.Sprintf("CREATE PUBLICATION %s FOR TABLE %s WITH (%s)", quote(name), list, options))
}

// slotInfo is a replication slot as pg_replication_slots shows it.
type slotInfo struct {
	plugin, database, status string
	restart, confirmed       string // empty for NULL
	pid                      int32
	held, left               int64
}

func (s *Side) slot(ctx context.Context, name string) (*slotInfo, error) {
	var i slotInfo
	err := s.pool.QueryRow(ctx, `SELECT COALESCE(plugin, ''), COALESCE(database, ''), COALESCE(wal_status, 'lost'), COALESCE(restart_lsn::text, ''),
		COALESCE(confirmed_flush_lsn::text, ''), COALESCE(active_pid, 0),
		COALESCE(pg_current_wal_lsn() - restart_lsn, 0)::int8, COALESCE(safe_wal_size, -1)
		FROM pg_replication_slots WHERE slot_name = $1`, name).
		Scan(&i.plugin, &i.database, &i.status, &i.restart, &i.confirmed, &i.pid, &i.held, &i.left)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at replication slot %s: %w", name, err)
	}
	return &i, nil
}

// intact checks that a slot still has every change after a position.
func (i *slotInfo) intact(name, database string, after uint64) error {
	switch {
	case i == nil:
		return lost("replication slot %s is gone", name)
	case i.status == "lost" || i.restart == "":
		return lost("replication slot %s was given up by the server: it held back more log than max_slot_wal_keep_size allows", name)
	case i.plugin != "pgoutput" || i.database != database:
		return lost("replication slot %s is another one now (plugin %s, database %s)", name, i.plugin, i.database)
	}
	confirmed, err := position(i.confirmed)
	if err != nil {
		return err
	}
	if confirmed[0] > after {
		return lost("replication slot %s begins at %s, and changes are wanted from %s on: somebody else read from it, or made it anew",
			name, pglogrepl.LSN(confirmed[0]), pglogrepl.LSN(after))
	}
	return nil
}

// Follow starts the stream after a position, if the slot still has it all.
func (s *Side) Follow(ctx context.Context, stream string, after move.Position) (move.Stream, error) {
	st, err := s.follow(ctx, stream, after)
	if err != nil {
		return nil, fmt.Errorf("follow stream %s of %s: %w", stream, s.name, err)
	}
	return st, nil
}

func (s *Side) follow(ctx context.Context, called string, after move.Position) (*stream, error) {
	name := s.object(called)
	rec, err := s.recorded(ctx, called)
	if err != nil {
		return nil, err
	}
	if rec == nil || rec.start == nil {
		return nil, lost("it was never opened here, or its record is gone")
	}
	start, err := position(*rec.start)
	if err != nil {
		return nil, err
	}
	if len(after) == 0 {
		after = start
	}
	conn, err := s.replication(ctx)
	if err != nil {
		return nil, err
	}
	ok := false
	defer func() {
		if !ok {
			conn.Close(ctx)
		}
	}()
	now, err := identify(ctx, conn)
	if err != nil {
		return nil, err
	}
	if err := rec.same(now); err != nil {
		return nil, err
	}
	if err := s.releaseSlot(ctx, name, after[0]); err != nil {
		return nil, err
	}
	err = pglogrepl.StartReplication(ctx, conn, name, pglogrepl.LSN(after[0]), pglogrepl.StartReplicationOptions{
		Mode:       pglogrepl.LogicalReplication,
		PluginArgs: []string{"proto_version '1'", "publication_names '" + name + "'", "binary 'true'", "messages 'true'"},
	})
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	ok = true
	st := &stream{side: s, rels: map[uint32]*bound{}, told: after[0], r: newReceiver(conn, s.markPrefix(), after[0]), beat: s.startHeartbeat()}
	s.mu.Lock()
	s.streams[st] = struct{}{}
	s.mu.Unlock()
	return st, nil
}

// releaseSlot checks the slot and frees it from a reader that is dead or was
// overtaken: only the owner of the move's lease gets here.
func (s *Side) releaseSlot(ctx context.Context, name string, after uint64) error {
	database := s.pool.Config().ConnConfig.Database
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		slot, err := s.slot(ctx, name)
		if err != nil {
			return err
		}
		if err := slot.intact(name, database, after); err != nil {
			return err
		}
		if slot.pid == 0 {
			break
		}
		if _, err := s.pool.Exec(ctx, `SELECT pg_terminate_backend($1)`, slot.pid); err != nil {
			return fmt.Errorf("replication slot %s is in use by process %d, which cannot be ended: %w", name, slot.pid, err)
		}
		if err := pause(ctx, wait); err != nil {
			return fmt.Errorf("replication slot %s is in use by process %d: %w", name, slot.pid, err)
		}
	}
	var end string
	if err := s.pool.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn()::text`).Scan(&end); err != nil {
		return err
	}
	p, err := position(end)
	if err != nil {
		return err
	}
	if p[0] < after {
		return lost("the log ends at %s, before the position %s to go on from: the server was set back", end, pglogrepl.LSN(after))
	}
	return nil
}

// DropStream takes away slot, publication, and what a writer of the stream
// keeps on this side. The writer's replication origin stays until Remove: other
// streams may still have to read what it wrote.
func (s *Side) DropStream(ctx context.Context, stream string) error {
	name := s.object(stream)
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		slot, err := s.slot(ctx, name)
		if err != nil {
			return err
		}
		if slot == nil || slot.database != s.pool.Config().ConnConfig.Database {
			break
		}
		if slot.pid != 0 {
			if _, err := s.pool.Exec(ctx, `SELECT pg_terminate_backend($1)`, slot.pid); err != nil {
				return fmt.Errorf("end the reader of replication slot %s: %w", name, err)
			}
		} else if _, err := s.pool.Exec(ctx, `SELECT pg_drop_replication_slot($1)`, name); err != nil && state(err) != "55006" && state(err) != "42704" {
			return fmt.Errorf("drop replication slot %s: %w", name, err)
		}
		if err := pause(ctx, wait); err != nil {
			return fmt.Errorf("drop replication slot %s: %w", name, err)
		}
	}
	if err := s.exec(ctx, "DROP PUBLICATION IF EXISTS "+quote(name)); err != nil {
		return fmt.Errorf("drop publication %s: %w", name, err)
	}
	var installed bool
	if err := s.pool.QueryRow(ctx, `SELECT to_regclass('varve_move.streams') IS NOT NULL`).Scan(&installed); err != nil || !installed {
		return err
	}
	for _, sql := range []string{
		`DELETE FROM varve_move.streams WHERE name = $1`,
		`DELETE FROM varve_move.progress WHERE stream = $1`,
		`DELETE FROM varve_move.applied WHERE stream = $1`,
	} {
		if _, err := s.pool.Exec(ctx, sql, name); err != nil {
			return fmt.Errorf("forget stream %s: %w", stream, err)
		}
	}
	return nil
}

// Retained returns the log that the slot holds back.
func (s *Side) Retained(ctx context.Context, stream string) (held, left int64, err error) {
	name := s.object(stream)
	slot, err := s.slot(ctx, name)
	if err != nil {
		return 0, 0, err
	}
	if slot == nil {
		return 0, 0, lost("replication slot %s is gone", name)
	}
	if slot.status == "lost" {
		return slot.held, 0, lost("replication slot %s was given up by the server: it held back more log than max_slot_wal_keep_size allows", name)
	}
	return slot.held, slot.left, nil
}

// relation binds a relation of the stream to a moved table, which must still
// be as Bind found it.
func (st *stream) relation(msg []byte) error {
	rel, err := readRelation(msg)
	if err != nil {
		return err
	}
	b := &bound{rel: rel, table: unmoved, whole: rel.identity == 'f'}
	st.rels[rel.id] = b
	if rel.schema == "varve_move" && rel.name == st.side.canaryName() {
		b.table, b.width, b.key, b.place = move.CanaryTable, 2, []int{0}, []int{0, 1}
		return nil
	}
	for i, t := range st.side.tables {
		if t.Schema == rel.schema && t.Name == rel.name {
			b.table, b.width, b.key = i, len(t.Columns), t.Key
			b.whole = b.whole && t.kind == "r"
			return b.match(t)
		}
	}
	return nil
}

func (b *bound) match(t *table) error {
	changed := func(column, how string) error {
		return fmt.Errorf("%w: column %s of %s.%s %s since the move looked at it", move.ErrSchemaChanged, column, t.Schema, t.Name, how)
	}
	sent := map[string]int{}
	for i, c := range b.rel.columns {
		sent[c.name] = i
		b.place = append(b.place, -1)
	}
	for place := range t.Columns {
		c := &t.Columns[place]
		i, ok := sent[c.Name]
		if c.Generated && !ok {
			b.never = append(b.never, place)
			continue
		}
		if !ok {
			return changed(c.Name, "went away")
		}
		if b.rel.columns[i].typ != t.cols[place].nativeOID || b.rel.columns[i].modifier != t.cols[place].modifier {
			return changed(c.Name, "changed its type")
		}
		b.place[i] = place
		delete(sent, c.Name)
	}
	for _, name := range t.others {
		delete(sent, name)
	}
	for name := range sent {
		return changed(name, "was added")
	}
	for _, k := range t.Key {
		for i, place := range b.place {
			if place == k && b.rel.identity != 'f' && !b.rel.columns[i].key {
				return fmt.Errorf("%w: the replica identity of %s.%s no longer tells column %s of the key",
					move.ErrSchemaChanged, t.Schema, t.Name, t.Columns[k].Name)
			}
		}
	}
	return nil
}
