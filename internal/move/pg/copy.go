package pg

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"varve/internal/move"
)

// carefulFor is how many copies into a table go the careful way after one that
// met rows which were there.
const carefulFor = 16

// Copy writes rows that are not there. Most copies meet no row that is there
// and go by COPY; the others by INSERT ... ON CONFLICT DO NOTHING.
func (w *writer) Copy(ctx context.Context, table int, rows []move.Row, _ move.Position) error {
	return w.guard(w.copy(ctx, table, rows))
}

func (w *writer) copy(ctx context.Context, table int, rows []move.Row) error {
	if w.failed != nil {
		return w.failed
	}
	if len(rows) == 0 {
		return nil
	}
	if len(w.truncate) > 0 {
		if err := w.flushTruncate(ctx); err != nil {
			return err
		}
	}
	if err := w.flushRun(ctx); err != nil {
		return err
	}
	t := w.s.tables[table]
	if w.plain[table] == 0 && t.copyable() {
		done, err := w.copyFast(ctx, table, rows)
		if done || err != nil {
			return err
		}
		w.plain[table] = carefulFor
	} else if w.plain[table] > 0 {
		w.plain[table]--
	}
	if t.batched {
		sql := t.absentOnly(t.selected())
		for part := range slices.Chunk(rows, runMost) {
			if err := w.statement(ctx, op{"copy into", table, nil}, sql, t.columnArrays(part)); err != nil {
				return err
			}
		}
		return nil
	}
	return w.copyStaged(ctx, table, rows)
}

// copyable reports whether rows go into the table as they are.
func (t *table) copyable() bool {
	return len(t.constants) == 0 && !slices.ContainsFunc(t.cols, func(c column) bool { return c.typ != c.base })
}

// copyFast copies under a savepoint; it reports false when a row was there.
func (w *writer) copyFast(ctx context.Context, table int, rows []move.Row) (bool, error) {
	t := w.s.tables[table]
	o := op{"copy into", table, nil}
	if err := w.statement(ctx, o, "SAVEPOINT copy", nil); err != nil {
		return false, err
	}
	if err := w.send(ctx); err != nil {
		return false, err
	}
	err := w.copyTo(ctx, t, t.ident, rows)
	if err == nil {
		return true, w.prepared(ctx, o, "RELEASE copy", nil)
	}
	if state(err) != "23505" {
		return false, w.explain(o, err)
	}
	_, err = w.conn.Exec(ctx, "ROLLBACK TO copy; RELEASE copy").ReadAll()
	return false, err
}

// copyStaged copies into a temporary table and from there.
func (w *writer) copyStaged(ctx context.Context, table int, rows []move.Row) error {
	t := w.s.tables[table]
	o := op{"copy into", table, nil}
	stage := fmt.Sprintf("pg_temp.varve_stage_%d", table)
	var types, exprs []string
	for n, i := range t.stored() {
		types = append(types, fmt.Sprintf("c%d %s", n+1, t.cols[i].typ))
		exprs = append(exprs, t.native(i, fmt.Sprintf("c%d", n+1)))
	}
	for _, c := range t.constants {
		exprs = append(exprs, c.value)
	}
	make := fmt.Sprintf("CREATE TEMPORARY TABLE IF NOT EXISTS %s (%s) ON COMMIT DROP", strings.TrimPrefix(stage, "pg_temp."), strings.Join(types, ", "))
	if err := w.once(ctx, o, make, nil); err != nil {
		return err
	}
	if err := w.send(ctx); err != nil {
		return err
	}
	if err := w.copyTo(ctx, t, stage, rows); err != nil {
		return w.explain(o, err)
	}
	if err := w.once(ctx, o, t.absentOnly("SELECT "+strings.Join(exprs, ", ")+" FROM "+stage), nil); err != nil {
		return err
	}
	return w.once(ctx, o, "TRUNCATE "+stage, nil)
}

var copyHeader = append([]byte("PGCOPY\n\xff\r\n\x00"), make([]byte, 8)...)

// copyTo sends rows by COPY in binary form. The table named has the stored
// columns in order or, if it is the moved table, by name.
func (w *writer) copyTo(ctx context.Context, t *table, into string, rows []move.Row) error {
	stored := t.stored()
	list := ""
	if into == t.ident {
		var names []string
		for _, i := range stored {
			names = append(names, t.cols[i].quoted)
		}
		list = " (" + strings.Join(names, ", ") + ")"
	}
	buf := slices.Clone(copyHeader)
	for _, row := range rows {
		buf = binary.BigEndian.AppendUint16(buf, uint16(len(stored)))
		for _, i := range stored {
			if row[i] == nil {
				buf = binary.BigEndian.AppendUint32(buf, 1<<32-1)
				continue
			}
			buf = binary.BigEndian.AppendUint32(buf, uint32(len(row[i])))
			buf = append(buf, row[i]...)
		}
	}
	buf = binary.BigEndian.AppendUint16(buf, 1<<16-1)
	_, err := w.conn.CopyFrom(ctx, bytes.NewReader(buf), fmt.Sprintf("COPY %s%s FROM STDIN (FORMAT binary)", into, list))
	return err
}

// Repair makes rows equal to those given, deletions first: what a row to be
// deleted holds unique may be what another needs.
func (w *writer) Repair(ctx context.Context, table int, keys, rows []move.Row) error {
	return w.guard(w.repair(ctx, table, keys, rows))
}

func (w *writer) repair(ctx context.Context, table int, keys, rows []move.Row) error {
	if w.failed != nil {
		return w.failed
	}
	for i, row := range rows {
		if row == nil {
			if err := w.remove(ctx, table, keys[i]); err != nil {
				return err
			}
		}
	}
	for _, row := range rows {
		if row != nil {
			if err := w.put(ctx, table, row); err != nil {
				return err
			}
		}
	}
	return nil
}
