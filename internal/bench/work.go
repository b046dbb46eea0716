package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"varve/internal/cqlwire"
	"varve/internal/upstream"
)

// Ops are the operations Run knows.
var Ops = []string{"insert", "read", "page", "delete", "mixed"}

// Schema creates the keyspace and table of the benchmark.
func Schema(ctx context.Context, c *upstream.Conn) error {
	for _, text := range []string{
		`CREATE KEYSPACE IF NOT EXISTS bench WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`,
		`CREATE TABLE IF NOT EXISTS bench.messages (channel_id bigint, sent_at timestamp, message_id bigint, sender text, body text,
			PRIMARY KEY ((channel_id), sent_at, message_id)) WITH CLUSTERING ORDER BY (sent_at DESC, message_id DESC)`,
	} {
		if _, err := c.Query(ctx, text, upstream.Params{Consistency: cqlwire.LocalOne}); err != nil {
			return fmt.Errorf("make benchmark table: %w", err)
		}
	}
	return nil
}

const (
	insertText = "INSERT INTO bench.messages (channel_id, sent_at, message_id, sender, body) VALUES (?, ?, ?, ?, ?)"
	readText   = "SELECT sender, body FROM bench.messages WHERE channel_id = ? AND sent_at = ? AND message_id = ?"
	pageText   = "SELECT sent_at, message_id, sender, body FROM bench.messages WHERE channel_id = ? LIMIT 50"
	deleteText = "DELETE FROM bench.messages WHERE channel_id = ? AND sent_at = ? AND message_id = ?"
	baseMillis = 1_767_225_600_000 // 2026-01-01
)

// worker issues operations over one connection. It is used by one goroutine.
type worker struct {
	o                         *Options
	conn                      *upstream.Conn
	insert, read, page, erase *upstream.Statement
	rng                       *rand.Rand
	buf                       []byte
	values                    [5]cqlwire.Value
	body                      []byte
}

var errMissing = errors.New("a row that was inserted is missing")

// prepare makes the statements once for a connection; workers share them.
func (w *worker) prepare(ctx context.Context) (err error) {
	for _, p := range []struct {
		st   **upstream.Statement
		text string
	}{{&w.insert, insertText}, {&w.read, readText}, {&w.page, pageText}, {&w.erase, deleteText}} {
		if *p.st, err = w.conn.Prepare(ctx, p.text); err != nil {
			return fmt.Errorf("prepare %s: %w", p.text, err)
		}
	}
	return nil
}

// key binds row i's primary key: rows are dealt out to the channels in turn,
// so that every operation finds its row without shared state.
func (w *worker) key(i int) {
	channel, seq := i%w.o.Channels, i/w.o.Channels
	w.buf = w.buf[:0]
	w.buf = binary.BigEndian.AppendUint64(w.buf, uint64(channel))
	w.buf = binary.BigEndian.AppendUint64(w.buf, uint64(baseMillis+seq*1000+channel%1000))
	w.buf = binary.BigEndian.AppendUint64(w.buf, uint64(seq))
	for k := range 3 {
		w.values[k].Bytes = w.buf[8*k : 8*k+8]
	}
}

// scatter maps 0..m-1 onto itself, one to one, so that deletes come in no
// order of the table. Its factor is prime and larger than any m.
func scatter(i, m int) int { return int(uint64(i) % uint64(m) * 2_654_435_761 % uint64(m)) }

func (w *worker) do(ctx context.Context, op string, i int) error {
	switch op {
	case "insert":
		return w.doInsert(ctx, (w.o.First+i)%w.o.Rows)
	case "read":
		return w.doRead(ctx, w.rng.IntN(w.o.Rows))
	case "page":
		return w.doPage(ctx)
	case "delete":
		w.key(scatter(w.o.First+i, w.o.Rows))
		return w.exec(ctx, w.erase, 3, -1)
	}
	// mixed: four reads or pages to one insert.
	switch r := w.rng.IntN(10); {
	case r < 2:
		return w.doInsert(ctx, w.rng.IntN(w.o.Rows))
	case r < 6:
		return w.doRead(ctx, w.rng.IntN(w.o.Rows))
	}
	return w.doPage(ctx)
}

func (w *worker) doInsert(ctx context.Context, i int) error {
	w.key(i)
	for k := range w.body {
		w.body[k] = byte('a' + w.rng.IntN(26))
	}
	w.values[3].Bytes = fmt.Appendf(nil, "user%03d", w.rng.IntN(500))
	w.values[4].Bytes = w.body
	return w.exec(ctx, w.insert, 5, -1)
}

func (w *worker) doRead(ctx context.Context, i int) error {
	w.key(i)
	return w.exec(ctx, w.read, 3, 1)
}

func (w *worker) doPage(ctx context.Context) error {
	w.key(w.rng.IntN(w.o.Channels))
	return w.exec(ctx, w.page, 1, min(50, w.o.Rows/w.o.Channels))
}

// exec runs a statement; rows is how many it must return, -1 for writes.
func (w *worker) exec(ctx context.Context, st *upstream.Statement, values, rows int) error {
	r, err := w.conn.Execute(ctx, st, upstream.Params{Consistency: w.o.Consistency, Values: w.values[:values]})
	if err != nil {
		return err
	}
	if rows >= 0 && r.Rows.Count < rows && w.o.Check {
		return errMissing
	}
	return nil
}
