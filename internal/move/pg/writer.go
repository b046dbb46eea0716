package pg

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"varve/internal/move"
)

const (
	// batchOps and batchBytes bound what waits to be sent.
	batchOps   = 2000
	batchBytes = 4 << 20
	// runMost bounds the rows of one statement.
	runMost = 500
)

// writer writes a stream's changes. Statements gather in a batch, which goes
// to the server in one piece with the commit, or before when it grows.
type writer struct {
	s       *Side
	stream  string
	conn    *pgconn.PgConn
	epoch   int64
	applied move.Position
	failed  error

	statements map[string]*pgconn.StatementDescription
	batch      *pgconn.Batch
	ops        []op // what the batch's statements are
	bytes      int
	open       bool // a transaction, on the server or in the batch
	marked     bool // the session has a replication origin

	run      run
	truncate []int
	plain    map[int]int // tables whose next copies go the careful way
}

// op names a statement of the batch for its error.
type op struct {
	what  string
	table int
	key   move.Row
}

// run gathers whole rows of one table, each key once, for one statement.
type run struct {
	table int
	rows  []move.Row
	keys  map[string]struct{}
	bytes int
	arena arena
}

const noTable = -3

// Write opens the writer of a stream.
func (s *Side) Write(ctx context.Context, stream string) (move.Writer, error) {
	w, err := s.write(ctx, stream)
	if err != nil {
		return nil, fmt.Errorf("open the writer of stream %s into %s: %w", stream, s.name, err)
	}
	return w, nil
}

func (s *Side) write(ctx context.Context, stream string) (*writer, error) {
	if err := s.Prepare(ctx); err != nil {
		return nil, err
	}
	c, err := config(s.opt.URL)
	if err != nil {
		return nil, err
	}
	// A writer that is stopped in the midst must not keep its locks for ever.
	c.RuntimeParams["idle_in_transaction_session_timeout"] = "300s"
	conn, err := pgconn.ConnectConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", s.name, err)
	}
	w := &writer{
		s: s, stream: s.object(stream), conn: conn, statements: map[string]*pgconn.StatementDescription{},
		batch: &pgconn.Batch{}, run: run{table: noTable, keys: map[string]struct{}{}}, plain: map[int]int{},
	}
	if err := w.takeOver(ctx); err != nil {
		conn.Close(ctx)
		return nil, err
	}
	if err := w.session(ctx); err != nil {
		conn.Close(ctx)
		return nil, err
	}
	return w, nil
}

// takeOver ends the powers of the writer before: its epoch is past, and its
// session, which may hold locks, is ended.
func (w *writer) takeOver(ctx context.Context) error {
	var pid int32
	var started time.Time
	err := w.s.pool.QueryRow(ctx, `SELECT pid, started FROM varve_move.applied WHERE stream = $1`, w.stream).Scan(&pid, &started)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	if err == nil {
		_, err := w.s.pool.Exec(ctx, `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2`, pid, started)
		if err != nil {
			// Another role's session: its epoch stops it all the same.
			w.s.opt.Log.Warn("the session of the writer before was not ended", "side", w.s.name, "pid", pid, "error", err)
		}
	}
	var text string
	err = w.s.pool.QueryRow(ctx, `INSERT INTO varve_move.applied AS a (stream, move, epoch, pid, started)
		SELECT $1, $2, 1, $3, backend_start FROM pg_stat_activity WHERE pid = $3
		ON CONFLICT (stream) DO UPDATE SET epoch = a.epoch + 1, pid = excluded.pid, started = excluded.started, move = excluded.move
		RETURNING epoch, position`, w.stream, w.s.opt.Move, int32(w.conn.PID())).Scan(&w.epoch, &text)
	if err != nil {
		return err
	}
	w.applied, err = move.ParsePosition(text)
	return err
}

// session prepares the connection: the fence lets it pass, its writes are
// known by their origin, and triggers and foreign keys leave it alone where
// that is permitted.
func (w *writer) session(ctx context.Context) error {
	if _, err := w.conn.Exec(ctx, "SET varve_move.pass = "+literal(w.s.opt.Move)).ReadAll(); err != nil {
		return err
	}
	if _, err := w.conn.Exec(ctx, "SET session_replication_role = replica").ReadAll(); err != nil && state(err) != "42501" {
		return err
	}
	return w.origin(ctx)
}

// origin makes the session's writes carry a replication origin, where the role
// may. Without one a message in each transaction tells streams of this move
// whose it is.
func (w *writer) origin(ctx context.Context) error {
	name := literal(w.stream)
	// Without this one a session's commits would all carry the time of its first.
	res, err := w.conn.Exec(ctx, `SELECT has_function_privilege('pg_replication_origin_xact_setup(pg_lsn,timestamptz)', 'EXECUTE')::text`).ReadAll()
	if err != nil || string(res[0].Rows[0][0]) != "true" {
		return err
	}
	setup := fmt.Sprintf(`SELECT pg_replication_origin_create(%[1]s) WHERE pg_replication_origin_oid(%[1]s) IS NULL`, name)
	if _, err := w.conn.Exec(ctx, setup).ReadAll(); err != nil {
		if state(err) == "42501" {
			return nil
		}
		if state(err) != "42710" { // made by another just now
			return fmt.Errorf("make a replication origin: %w", err)
		}
	}
	for wait := 10 * time.Millisecond; ; wait *= 2 {
		_, err := w.conn.Exec(ctx, fmt.Sprintf("SELECT pg_replication_origin_session_setup(%s)", name)).ReadAll()
		switch {
		case err == nil:
			w.marked = true
			return nil
		case state(err) == "42501":
			return nil
		case state(err) == "55006" && wait < 3*time.Second:
			if err := pause(ctx, wait); err != nil {
				return err
			}
		case state(err) == "55006":
			w.s.opt.Log.Warn("the replication origin is held by another session", "side", w.s.name, "origin", w.stream)
			return nil
		default:
			return fmt.Errorf("use replication origin %s: %w", w.stream, err)
		}
	}
}

// Applied returns the position of the last commit.
func (w *writer) Applied() move.Position { return w.applied }

// Stamp returns 0: PostgreSQL's rows have no write timestamps of ours.
func (w *writer) Stamp() int64 { return 0 }

// Progress returns what was kept for keys with the prefix.
func (w *writer) Progress(ctx context.Context, prefix string) (map[string]string, error) {
	out := map[string]string{}
	rows, err := w.s.pool.Query(ctx, `SELECT key, value FROM varve_move.progress WHERE stream = $1 AND starts_with(key, $2)`, w.stream, prefix)
	if err != nil {
		return nil, fmt.Errorf("read progress of %s: %w", w.stream, err)
	}
	var k, v string
	_, err = pgx.ForEachRow(rows, []any{&k, &v}, func() error {
		out[k] = v
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read progress of %s: %w", w.stream, err)
	}
	return out, nil
}

// Apply queues an event.
func (w *writer) Apply(ctx context.Context, e *move.Event) error {
	return w.guard(w.apply(ctx, e))
}

// guard remembers an error: what follows it must not be written.
func (w *writer) guard(err error) error {
	if w.failed == nil {
		w.failed = err
	}
	return err
}

func (w *writer) apply(ctx context.Context, e *move.Event) error {
	if w.failed != nil {
		return w.failed
	}
	if e.Op != move.Truncate && len(w.truncate) > 0 {
		if err := w.flushTruncate(ctx); err != nil {
			return err
		}
	}
	switch e.Op {
	case move.Insert:
		return w.put(ctx, e.Table, e.New)
	case move.Update:
		return w.update(ctx, e)
	case move.Delete:
		return w.remove(ctx, e.Table, w.keyOf(e.Table, e.Old))
	case move.DeleteRange:
		return w.removeSpan(ctx, e)
	case move.Truncate:
		if err := w.flushRun(ctx); err != nil {
			return err
		}
		w.truncate = append(w.truncate, e.Table)
	}
	return nil
}

func (w *writer) keyOf(table int, row move.Row) move.Row {
	if table == move.CanaryTable {
		return row[:1]
	}
	return w.s.tables[table].KeyOf(row)
}

// put queues a whole row.
func (w *writer) put(ctx context.Context, table int, row move.Row) error {
	if table == move.CanaryTable {
		if err := w.flushRun(ctx); err != nil {
			return err
		}
		sql := fmt.Sprintf(`INSERT INTO %s VALUES ($1, $2) ON CONFLICT (stream) DO UPDATE SET n = excluded.n`, w.s.canary())
		return w.statement(ctx, op{"write", table, row[:1]}, sql, row)
	}
	t := w.s.tables[table]
	if !t.batched {
		if err := w.flushRun(ctx); err != nil {
			return err
		}
		return w.statement(ctx, op{"write", table, t.KeyOf(row)}, t.upsert(t.values()), t.written(row))
	}
	key := string(move.EncodeRow(nil, t.KeyOf(row)))
	_, twice := w.run.keys[key]
	if w.run.table != table || twice || len(w.run.rows) >= runMost || w.run.bytes >= batchBytes {
		if err := w.flushRun(ctx); err != nil {
			return err
		}
	}
	w.run.table = table
	w.run.keys[key] = struct{}{}
	w.run.rows = append(w.run.rows, w.run.arena.keep(row))
	for _, v := range row {
		w.run.bytes += len(v) + 4
	}
	return nil
}

func (w *writer) flushRun(ctx context.Context) error {
	r := &w.run
	if len(r.rows) == 0 {
		return nil
	}
	t := w.s.tables[r.table]
	var err error
	if len(r.rows) == 1 {
		err = w.statement(ctx, op{"write", r.table, t.KeyOf(r.rows[0])}, t.upsert(t.values()), t.written(r.rows[0]))
	} else {
		err = w.statement(ctx, op{"write rows of", r.table, nil}, t.upsert(t.selected()), t.columnArrays(r.rows))
	}
	clear(r.keys)
	r.table, r.rows, r.bytes = noTable, r.rows[:0], 0
	r.arena = arena{}
	return err
}

func (w *writer) update(ctx context.Context, e *move.Event) error {
	if e.Table == move.CanaryTable {
		return w.put(ctx, e.Table, e.New)
	}
	t := w.s.tables[e.Table]
	unchanged := t.plainOnly(e.Unchanged)
	moved := false
	var oldKey move.Row
	newKey := t.KeyOf(e.New)
	if e.Old != nil {
		oldKey = t.KeyOf(e.Old)
		moved = !oldKey.Equal(newKey)
	}
	if len(unchanged) == 0 {
		if moved {
			if err := w.remove(ctx, e.Table, oldKey); err != nil {
				return err
			}
		}
		return w.put(ctx, e.Table, e.New)
	}
	if err := w.flushRun(ctx); err != nil {
		return err
	}
	sql, args := t.partial(e.New, unchanged, newKey)
	if err := w.once(ctx, op{"update", e.Table, newKey}, sql, args); err != nil || !moved {
		return err
	}
	// The row under its old key moves, unless it is under its new one already
	// (copied later than this change).
	sql, args = t.partial(e.New, unchanged, oldKey)
	sql, args = t.unless(sql, args, newKey)
	if err := w.once(ctx, op{"move", e.Table, oldKey}, sql, args); err != nil {
		return err
	}
	return w.remove(ctx, e.Table, oldKey)
}

func (w *writer) remove(ctx context.Context, table int, key move.Row) error {
	if err := w.flushRun(ctx); err != nil {
		return err
	}
	if table == move.CanaryTable {
		return w.statement(ctx, op{"delete", table, key}, fmt.Sprintf("DELETE FROM %s WHERE stream = $1", w.s.canary()), key)
	}
	t := w.s.tables[table]
	var c conditions
	c.key(t, "=", key)
	return w.statement(ctx, op{"delete", table, key}, "DELETE FROM "+t.from+c.where(), c.args)
}

func (w *writer) removeSpan(ctx context.Context, e *move.Event) error {
	if err := w.flushRun(ctx); err != nil {
		return err
	}
	t := w.s.tables[e.Table]
	var c conditions
	if err := c.span(t, e.Span); err != nil {
		return err
	}
	return w.once(ctx, op{"delete a range of", e.Table, e.Span.Prefix}, "DELETE FROM "+t.from+c.where(), c.args)
}

// flushTruncate empties tables that origin emptied together: they may refer to
// one another.
func (w *writer) flushTruncate(ctx context.Context) error {
	var names []string
	for _, i := range w.truncate {
		names = append(names, w.s.tables[i].from)
	}
	first := w.truncate[0]
	w.truncate = w.truncate[:0]
	return w.once(ctx, op{"truncate", first, nil}, "TRUNCATE "+strings.Join(names, ", "), nil)
}

// begin puts the beginning of a transaction into the batch.
func (w *writer) begin(ctx context.Context) error {
	if w.open {
		return nil
	}
	w.open = true
	if err := w.prepared(ctx, op{what: "begin"}, "BEGIN", nil); err != nil || w.marked {
		return err
	}
	return w.prepared(ctx, op{what: "mark"}, "SELECT pg_logical_emit_message(true, "+literal(w.s.ownPrefix())+", ''::text)::text", nil)
}

// statement queues a statement that will come again.
func (w *writer) statement(ctx context.Context, o op, sql string, args [][]byte) error {
	if err := w.begin(ctx); err != nil {
		return err
	}
	return w.prepared(ctx, o, sql, args)
}

func (w *writer) prepared(ctx context.Context, o op, sql string, args [][]byte) error {
	st := w.statements[sql]
	if st == nil {
		var err error
		if err := w.send(ctx); err != nil {
			return err
		}
		if st, err = w.conn.Prepare(ctx, fmt.Sprintf("v%d", len(w.statements)), sql, nil); err != nil {
			return w.explain(o, err)
		}
		w.statements[sql] = st
	}
	w.batch.ExecPrepared(st.Name, args, formats(args), nil)
	return w.queued(ctx, o, args)
}

// once queues a statement whose text changes from event to event.
func (w *writer) once(ctx context.Context, o op, sql string, args [][]byte) error {
	if err := w.begin(ctx); err != nil {
		return err
	}
	w.batch.ExecParams(sql, args, nil, formats(args), nil)
	return w.queued(ctx, o, args)
}

func formats(args [][]byte) []int16 {
	if len(args) == 0 {
		return nil
	}
	return binaryFormat
}

func (w *writer) queued(ctx context.Context, o op, args [][]byte) error {
	w.ops = append(w.ops, op{o.what, o.table, o.key.Clone()})
	for _, a := range args {
		w.bytes += len(a) + 4
	}
	if len(w.ops) >= batchOps || w.bytes >= batchBytes {
		return w.send(ctx)
	}
	return nil
}

// send sends the batch and reads its results.
func (w *writer) send(ctx context.Context) error {
	if len(w.ops) == 0 {
		return nil
	}
	mrr := w.conn.ExecBatch(ctx, w.batch)
	n := 0
	var err error
	for mrr.NextResult() {
		if _, e := mrr.ResultReader().Close(); e != nil && err == nil {
			err = w.explain(w.ops[min(n, len(w.ops)-1)], e)
		}
		n++
	}
	if e := mrr.Close(); e != nil && err == nil {
		err = w.explain(w.ops[min(n, len(w.ops)-1)], e)
	}
	w.batch, w.ops, w.bytes = &pgconn.Batch{}, w.ops[:0], 0
	return err
}

// explain names the row that a statement failed on.
func (w *writer) explain(o op, err error) error {
	if state(err) == "VM002" {
		return fmt.Errorf("write stream %s into %s: %w", w.stream, w.s.name, move.ErrWriterLost)
	}
	object := ""
	if o.table >= 0 && o.table < len(w.s.tables) && o.what != "begin" && o.what != "mark" && o.what != "commit" {
		t := w.s.tables[o.table]
		object = " " + t.Schema + "." + t.Name
		if o.key != nil {
			object += " " + t.show(o.key)
		}
	}
	var pe *pgconn.PgError
	if errors.As(err, &pe) && pe.Detail != "" {
		err = fmt.Errorf("%w (%s)", err, pe.Detail)
	}
	err = fmt.Errorf("%s%s in %s: %w", o.what, object, w.s.name, err)
	if class := state(err); len(class) == 5 && (class[:2] == "22" || class[:2] == "23") {
		return &move.RowError{Table: o.table, Err: err}
	}
	return err
}

// Commit makes everything since the last commit durable with the position.
func (w *writer) Commit(ctx context.Context, p move.Position, progress map[string]string) error {
	return w.guard(w.commit(ctx, p, progress))
}

func (w *writer) commit(ctx context.Context, p move.Position, progress map[string]string) error {
	if w.failed != nil {
		return w.failed
	}
	if len(w.truncate) > 0 {
		if err := w.flushTruncate(ctx); err != nil {
			return err
		}
	}
	if err := w.flushRun(ctx); err != nil {
		return err
	}
	if err := w.begin(ctx); err != nil {
		return err
	}
	var keys []move.Row
	for k, v := range progress {
		keys = append(keys, move.Row{[]byte(k), []byte(v)})
	}
	const textOID = 25
	args := [][]byte{
		[]byte(w.stream), int8Value(w.epoch), []byte(p.String()), appendArray(nil, textOID, keys, 0), appendArray(nil, textOID, keys, 1), nil,
	}
	if w.marked {
		var lsn int64
		if len(p) == 1 {
			lsn = int64(p[0])
		}
		args[len(args)-1] = int8Value(lsn)
	}
	if err := w.prepared(ctx, op{what: "commit"}, "SELECT varve_move.advance($1, $2, $3, $4, $5, $6)::text", args); err != nil {
		return err
	}
	if err := w.prepared(ctx, op{what: "commit"}, "COMMIT", nil); err != nil {
		return err
	}
	if err := w.send(ctx); err != nil {
		return err
	}
	w.open = false
	w.applied = p
	return nil
}

// Close ends the writer; what was not committed is undone.
func (w *writer) Close(ctx context.Context) error {
	w.guard(errors.New("the writer is closed"))
	return w.conn.Close(ctx)
}
