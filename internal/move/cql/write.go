package cql

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"varve/internal/move"
)

// batchRows is how many changes of one transaction go into one atomic batch;
// readers may see a larger transaction in several parts. ahead is how many
// changes may be queued before they are sent.
const (
	batchRows = 64
	ahead     = 2048
	// batchBytes bounds a batch's values well below the 50 KiB above which
	// servers refuse batches (batch_size_fail_threshold) unless set otherwise.
	batchBytes = 16 << 10
)

// change is one statement on its way.
type change struct {
	table     int
	statement string
	args      []any
}

// writer writes one stream's changes. Every change has a timestamp of its own:
// the greater of its transaction's commit time and the last one given plus
// one. The fold goes on from the position and stamp that were kept with the
// last Commit, so that changes sent again after a crash are the same cells.
type writer struct {
	side   *Side
	stream string
	epoch  int64

	applied move.Position
	stamp   int64 // the last one given
	base    int64 // of copied rows: below every stamp given by this stream

	commit   int64 // the running transaction's time
	txn      []change
	txnBytes int        // of the values in txn
	groups   [][]change // whole transactions that were not sent yet
	queued   int
	broken   error
}

// streamRow is what the store keeps for a stream.
type streamRow struct {
	epoch, stamp, base int64
	position           string
}

// Write implements move.Side.
func (s *Side) Write(ctx context.Context, stream string) (move.Writer, error) {
	if err := s.loadPass(ctx); err != nil {
		return nil, err
	}
	for {
		old, err := s.streamRow(ctx, stream)
		if err != nil {
			return nil, err
		}
		next := *old
		next.epoch++
		if old.epoch == 0 {
			if next.base, err = s.floor(ctx); err != nil {
				return nil, err
			}
			next.stamp = next.base
		}
		applied, err := s.replaceRow(ctx, stream, old, &next)
		if err != nil {
			return nil, err
		}
		if !applied {
			continue
		}
		position, err := move.ParsePosition(next.position)
		if err != nil {
			return nil, fmt.Errorf("position of stream %s: %w", stream, err)
		}
		return &writer{side: s, stream: stream, epoch: next.epoch, applied: position, stamp: next.stamp, base: next.base}, nil
	}
}

func (s *Side) streamRow(ctx context.Context, stream string) (*streamRow, error) {
	var r streamRow
	err := s.session.Query(`SELECT epoch, position, stamp, base FROM varve_move.streams WHERE stream = ? LIMIT 1`, stream).
		ScanContext(ctx, &r.epoch, &r.position, &r.stamp, &r.base)
	if err != nil && !isNotFound(err) {
		return nil, fmt.Errorf("read stream %s: %w", stream, err)
	}
	return &r, nil
}

func (s *Side) replaceRow(ctx context.Context, stream string, old, next *streamRow) (bool, error) {
	condition, args := "epoch = ?", []any{next.epoch, next.position, next.stamp, next.base, stream, old.epoch}
	if old.epoch == 0 {
		condition, args = "epoch = null", args[:5]
	}
	applied, err := s.session.Query(`UPDATE varve_move.streams SET epoch = ?, position = ?, stamp = ?, base = ? WHERE stream = ? IF `+condition, args...).
		MapScanCASContext(ctx, map[string]any{})
	if err != nil {
		return false, fmt.Errorf("take stream %s over: %w", stream, err)
	}
	return applied, nil
}

// floor is a stamp above every one that a move gave to these stores before,
// and not below the clock.
func (s *Side) floor(ctx context.Context) (int64, error) {
	floor := time.Now().UnixMicro()
	iter := s.session.Query(`SELECT DISTINCT stream, stamp FROM varve_move.streams`).IterContext(ctx)
	var stream string
	var stamp int64
	for iter.Scan(&stream, &stamp) {
		floor = max(floor, stamp+1)
	}
	if err := iter.Close(); err != nil {
		return 0, fmt.Errorf("read the stamps of earlier moves: %w", err)
	}
	return floor, nil
}

// Applied implements move.Writer.
func (w *writer) Applied() move.Position { return w.applied }

// Stamp implements move.Writer.
func (w *writer) Stamp() int64 { return w.stamp + 1 }

// Progress implements move.Writer.
func (w *writer) Progress(ctx context.Context, prefix string) (map[string]string, error) {
	iter := w.side.session.Query(`SELECT key, value FROM varve_move.streams WHERE stream = ? AND key >= ?`, w.stream, prefix).IterContext(ctx)
	out := map[string]string{}
	var key, value string
	for iter.Scan(&key, &value) {
		if strings.HasPrefix(key, prefix) {
			out[key] = value
		}
	}
	if err := iter.Close(); err != nil {
		return nil, fmt.Errorf("read progress of stream %s: %w", w.stream, err)
	}
	return out, nil
}

// next gives the next change its stamp.
func (w *writer) next() int64 {
	w.stamp = max(w.commit, w.stamp+1)
	return w.stamp
}

// Apply implements move.Writer. The event is only the caller's until it
// returns, so that what is queued is a copy.
func (w *writer) Apply(ctx context.Context, e *move.Event) error {
	if w.broken != nil {
		return w.broken
	}
	if at := e.Time.UnixMicro(); at != w.commit {
		w.endTransaction()
		w.commit = at
	}
	var err error
	switch e.Op {
	case move.Insert, move.Update:
		err = w.upsert(ctx, e)
	case move.Delete:
		err = w.remove(e.Table, w.keyOf(e.Table, e.Old).Clone())
	case move.Truncate:
		err = w.truncate(ctx, e.Table)
	case move.DeleteRange:
		err = fmt.Errorf("range deletions from another CQL store are not supported")
	}
	if err == nil && w.queued > ahead {
		err = w.flush(ctx)
	}
	if err != nil {
		w.broken = err
	}
	return err
}

func (w *writer) keyOf(table int, row move.Row) move.Row {
	if table == move.CanaryTable {
		return row[:1]
	}
	return w.side.tables[table].KeyOf(row)
}

func (w *writer) add(table int, statement string, args []any) {
	size := 0
	for _, a := range args {
		size += argSize(a)
	}
	if w.txnBytes+size > batchBytes {
		w.endTransaction()
	}
	w.txn, w.txnBytes = append(w.txn, change{table, statement, args}), w.txnBytes+size
	w.queued++
	if len(w.txn) >= batchRows {
		w.endTransaction()
	}
}

func (w *writer) endTransaction() {
	if len(w.txn) > 0 {
		w.groups = append(w.groups, w.txn)
		w.txn, w.txnBytes = nil, 0
	}
}

// argSize is about what a bound value takes in a batch, in bytes.
func argSize(a any) int {
	switch v := a.(type) {
	case raw:
		return 16 + len(v)
	case string:
		return 16 + len(v)
	}
	return 32
}

// upsert writes an insert or update. Nulls of an insert are left out, since
// nothing older than the row can show through; those of an update delete the
// cell, unless the old row tells that it was null before.
func (w *writer) upsert(ctx context.Context, e *move.Event) error {
	if e.Table == move.CanaryTable {
		w.add(e.Table, `INSERT INTO varve_move.canary (stream, n) VALUES (?, ?) USING TIMESTAMP ?`,
			[]any{raw(slices.Clone(e.New[0])), raw(slices.Clone(e.New[1])), w.next()})
		return nil
	}
	t := w.side.tables[e.Table]
	row, known := e.New.Clone(), make([]bool, len(e.New))
	for i := range known {
		known[i] = true
	}
	for _, c := range e.Unchanged {
		known[c] = false
	}
	if e.Op == move.Update && e.Old != nil && !t.KeyOf(e.Old).Equal(t.KeyOf(row)) {
		return w.moveRow(ctx, e, t, known)
	}
	whole := e.Op == move.Update && e.Old != nil && !e.Partial
	args, err := w.bindRow(e.Table, t, row, func(c int) bool {
		return !known[c] || row[c] == nil && (e.Op == move.Insert || whole && e.Old[c] == nil)
	})
	if err != nil {
		return err
	}
	w.add(e.Table, t.insert, append(args, w.next()))
	return nil
}

// moveRow writes an update of the key: a deletion and an insert, with values
// that the update does not tell taken from the old row.
func (w *writer) moveRow(ctx context.Context, e *move.Event, t *table, known []bool) error {
	row, old := e.New.Clone(), e.Old.Clone()
	key := t.KeyOf(old)
	if e.Partial && len(e.Unchanged) > 0 {
		if err := w.flush(ctx); err != nil {
			return err
		}
		found, err := w.side.ReadKeys(ctx, e.Table, []move.Row{key})
		if err != nil {
			return err
		}
		if found[0] == nil {
			return nil
		}
		old = found[0]
	}
	for c := range row {
		if !known[c] {
			row[c] = old[c]
		}
	}
	if err := w.remove(e.Table, key); err != nil {
		return err
	}
	return w.upsert(ctx, &move.Event{Op: move.Insert, Table: e.Table, New: row})
}

// bindRow gives a row's values as an insert binds them, with room for the
// timestamp. Columns to skip stay as they are.
func (w *writer) bindRow(table int, t *table, row move.Row, skip func(c int) bool) ([]any, error) {
	args := make([]any, 0, len(row)+1)
	for c, v := range row {
		switch {
		case skip(c):
			args = append(args, gocql.UnsetValue)
		case v == nil:
			args = append(args, nil)
		default:
			out, err := t.toCQL(c, v)
			if err != nil {
				return nil, &move.RowError{Table: table, Err: err}
			}
			args = append(args, out)
		}
	}
	return args, nil
}

func (w *writer) remove(table int, key move.Row) error {
	if table == move.CanaryTable {
		w.add(table, `DELETE FROM varve_move.canary USING TIMESTAMP ? WHERE stream = ?`, []any{w.next(), raw(key[0])})
		return nil
	}
	t := w.side.tables[table]
	args, err := t.bindKey(key)
	if err != nil {
		return &move.RowError{Table: table, Err: err}
	}
	w.add(table, t.remove, append([]any{w.next()}, args...))
	return nil
}

// truncate has no timestamp in CQL: everything before it must be there, and
// nothing after it yet. A writer that was replaced finds it out first.
func (w *writer) truncate(ctx context.Context, table int) error {
	if err := w.flush(ctx); err != nil {
		return err
	}
	if err := w.keep(ctx, w.applied, nil); err != nil {
		return err
	}
	name := "varve_move.canary"
	if table != move.CanaryTable {
		name = w.side.tables[table].qualified()
	}
	q := w.side.session.Query("TRUNCATE " + name).CustomPayload(w.side.payload())
	if err := q.ExecContext(ctx); err != nil {
		return fmt.Errorf("truncate %s: %w", name, err)
	}
	return nil
}

// Copy implements move.Writer: copied rows have one stamp below all changes.
func (w *writer) Copy(ctx context.Context, table int, rows []move.Row, _ move.Position) error {
	if w.broken != nil {
		return w.broken
	}
	t := w.side.tables[table]
	for _, row := range rows {
		args, err := w.bindRow(table, t, row, func(c int) bool { return row[c] == nil })
		if err != nil {
			w.broken = err
			return err
		}
		w.groups = append(w.groups, []change{{table, t.insert, append(args, w.base)}})
	}
	w.queued += len(rows)
	if err := w.flush(ctx); err != nil {
		w.broken = err
		return err
	}
	return nil
}

// Repair implements move.Writer. The stamps are put down before they are used:
// after a crash no change may get one that a repair had.
func (w *writer) Repair(ctx context.Context, table int, keys, rows []move.Row) error {
	if w.broken != nil {
		return w.broken
	}
	w.broken = w.repair(ctx, table, keys, rows)
	return w.broken
}

func (w *writer) repair(ctx context.Context, table int, keys, rows []move.Row) error {
	if err := w.flush(ctx); err != nil {
		return err
	}
	first := max(w.stamp+1, time.Now().UnixMicro())
	w.stamp = first + int64(len(keys))
	if err := w.keep(ctx, w.applied, nil); err != nil {
		return err
	}
	last := w.stamp
	w.stamp, w.commit = first-1, 0
	t := w.side.tables[table]
	for i, key := range keys {
		if rows[i] == nil {
			if err := w.remove(table, key); err != nil {
				return err
			}
			continue
		}
		args, err := w.bindRow(table, t, rows[i], func(int) bool { return false })
		if err != nil {
			return err
		}
		w.add(table, t.insert, append(args, w.next()))
	}
	w.endTransaction()
	w.stamp = last
	return w.flush(ctx)
}

// Commit implements move.Writer.
func (w *writer) Commit(ctx context.Context, p move.Position, progress map[string]string) error {
	if w.broken != nil {
		return w.broken
	}
	w.endTransaction()
	err := w.flush(ctx)
	if err == nil {
		err = w.keep(ctx, p, progress)
	}
	if err != nil {
		w.broken = err
		return err
	}
	w.applied = p
	return nil
}

// keep stores position, stamp and progress if this writer is still the one.
func (w *writer) keep(ctx context.Context, p move.Position, progress map[string]string) error {
	b := w.side.session.Batch(gocql.LoggedBatch)
	b.Query(`UPDATE varve_move.streams SET position = ?, stamp = ? WHERE stream = ? IF epoch = ?`, p.String(), w.stamp, w.stream, w.epoch)
	for key, value := range progress {
		if value == "" {
			b.Query(`DELETE FROM varve_move.streams WHERE stream = ? AND key = ?`, w.stream, key)
		} else {
			b.Query(`INSERT INTO varve_move.streams (stream, key, value) VALUES (?, ?, ?)`, w.stream, key, value)
		}
	}
	applied, iter, err := b.MapExecCASContext(ctx, map[string]any{})
	if err == nil {
		err = iter.Close()
	}
	if err != nil {
		return fmt.Errorf("keep the position of stream %s: %w", w.stream, err)
	}
	if !applied {
		return fmt.Errorf("stream %s into %s: %w", w.stream, w.side.name, move.ErrWriterLost)
	}
	return nil
}

// flush sends what is queued and waits until it is durable. Groups may pass
// each other: their timestamps decide.
func (w *writer) flush(ctx context.Context) error {
	groups := w.groups
	if len(w.txn) > 0 {
		groups = append(groups, w.txn)
		w.txn, w.txnBytes = nil, 0
	}
	w.groups, w.queued = nil, 0
	return each(ctx, len(groups), func(ctx context.Context, i int) error { return w.send(ctx, groups[i]) })
}

func (w *writer) send(ctx context.Context, group []change) error {
	var err error
	if len(group) == 1 {
		err = w.side.session.Query(group[0].statement, group[0].args...).CustomPayload(w.side.payload()).Idempotent(true).ExecContext(ctx)
	} else {
		b := w.side.session.Batch(gocql.LoggedBatch)
		b.CustomPayload = w.side.payload()
		for _, c := range group {
			b.Query(c.statement, c.args...)
		}
		err = b.ExecContext(ctx)
	}
	if err == nil {
		return nil
	}
	if refused(err) {
		return &move.RowError{Table: group[0].table, Err: err}
	}
	return fmt.Errorf("write %d changes to %s: %w", len(group), w.side.name, err)
}

// Close implements move.Writer.
func (w *writer) Close(context.Context) error { return nil }

// Applied returns the position that a stream's writer last kept here, for
// readers that wait for a write of theirs to arrive.
func (s *Side) Applied(ctx context.Context, stream string) (move.Position, error) {
	r, err := s.streamRow(ctx, stream)
	if err != nil {
		return nil, err
	}
	return move.ParsePosition(r.position)
}
