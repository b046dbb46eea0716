package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// PostgresSchema makes the table that Postgres uses.
const PostgresSchema = `
CREATE TABLE IF NOT EXISTS messages (
  id            uuid PRIMARY KEY,
  room_id       bigint NOT NULL,
  seq           bigint NOT NULL,
  sender_id     bigint NOT NULL,
  client_msg_id uuid NOT NULL,
  reply_to      uuid,
  body          text NOT NULL,
  created_at    timestamptz(3) NOT NULL,
  read_at       timestamptz(3),
  edited_at     timestamptz(3),
  deleted_at    timestamptz(3),
  CONSTRAINT messages_number UNIQUE (room_id, seq),
  CONSTRAINT messages_sent_once UNIQUE (sender_id, client_msg_id)
);
CREATE INDEX IF NOT EXISTS messages_unread ON messages (room_id, seq) WHERE read_at IS NULL`

const postgresColumns = `id, room_id, seq, sender_id, client_msg_id, reply_to, body, created_at, read_at, edited_at, deleted_at`

// Postgres is a Store in one PostgreSQL table.
type Postgres struct {
	pool *pgxpool.Pool
}

// NewPostgres returns a store on pool, which stays the caller's to close.
func NewPostgres(pool *pgxpool.Pool) *Postgres { return &Postgres{pool} }

var _ Store = (*Postgres)(nil)

// Append implements Store. The number comes from the room's last one, and the
// table's key decides who got it.
func (p *Postgres) Append(ctx context.Context, m Message) (Message, bool, error) {
	for range attempts {
		row := p.pool.QueryRow(ctx, `
			INSERT INTO messages (id, room_id, seq, sender_id, client_msg_id, reply_to, body, created_at)
			SELECT $1, $2::bigint, coalesce(max(seq), 0) + 1, $3, $4, $5, $6, $7 FROM messages WHERE room_id = $2
			ON CONFLICT DO NOTHING RETURNING seq`,
			m.ID, m.Room, m.Sender, m.ClientID, m.ReplyTo, m.Body, m.Created)
		err := row.Scan(&m.Seq)
		if err == nil {
			return m, false, nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return Message{}, false, fmt.Errorf("append to room %d: %w", m.Room, err)
		}
		stored, err := p.one(ctx, `WHERE sender_id = $1 AND client_msg_id = $2`, m.Sender, m.ClientID)
		if !errors.Is(err, ErrNotFound) {
			return stored, err == nil, err
		}
	}
	return Message{}, false, fmt.Errorf("append to room %d: %w", m.Room, errCrowded)
}

// MarkRead implements Store.
func (p *Postgres) MarkRead(ctx context.Context, room, upTo, reader int64, at time.Time) (int, error) {
	tag, err := p.pool.Exec(ctx, `UPDATE messages SET read_at = $4
		WHERE room_id = $1 AND seq <= $2 AND sender_id <> $3 AND read_at IS NULL`, room, upTo, reader, at)
	if err != nil {
		return 0, fmt.Errorf("mark room %d read up to %d: %w", room, upTo, err)
	}
	return int(tag.RowsAffected()), nil
}

// Edit implements Store.
func (p *Postgres) Edit(ctx context.Context, room, seq int64, body string, at time.Time) error {
	return p.change(ctx, `UPDATE messages SET body = $3, edited_at = $4 WHERE room_id = $1 AND seq = $2`, room, seq, body, at)
}

// Delete implements Store.
func (p *Postgres) Delete(ctx context.Context, room, seq int64, at time.Time) error {
	return p.change(ctx, `UPDATE messages SET body = '', deleted_at = $3 WHERE room_id = $1 AND seq = $2`, room, seq, at)
}

func (p *Postgres) change(ctx context.Context, sql string, room, seq int64, args ...any) error {
	tag, err := p.pool.Exec(ctx, sql, append([]any{room, seq}, args...)...)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("message %d of room %d: %w", seq, room, err)
	}
	return nil
}

// Page implements Store.
func (p *Postgres) Page(ctx context.Context, room, before int64, limit int) ([]Message, error) {
	if before == 0 {
		before = 1<<63 - 1
	}
	return p.many(ctx, `WHERE room_id = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3`, room, before, limit)
}

// After implements Store.
func (p *Postgres) After(ctx context.Context, room, after int64, limit int) ([]Message, error) {
	return p.many(ctx, `WHERE room_id = $1 AND seq > $2 ORDER BY seq LIMIT $3`, room, after, limit)
}

// Get implements Store.
func (p *Postgres) Get(ctx context.Context, room, seq int64) (Message, error) {
	return p.one(ctx, `WHERE room_id = $1 AND seq = $2`, room, seq)
}

func (p *Postgres) one(ctx context.Context, where string, args ...any) (Message, error) {
	found, err := p.many(ctx, where, args...)
	if err != nil {
		return Message{}, err
	}
	if len(found) == 0 {
		return Message{}, ErrNotFound
	}
	return found[0], nil
}

func (p *Postgres) many(ctx context.Context, where string, args ...any) ([]Message, error) {
	rows, err := p.pool.Query(ctx, `SELECT `+postgresColumns+` FROM messages `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read messages: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (Message, error) {
		var m Message
		var read, edited, deleted *time.Time
		err := r.Scan(&m.ID, &m.Room, &m.Seq, &m.Sender, &m.ClientID, &m.ReplyTo, &m.Body, &m.Created, &read, &edited, &deleted)
		m.Created = m.Created.UTC()
		m.Read, m.Edited, m.Deleted = orZero(read), orZero(edited), orZero(deleted)
		return m, err
	})
	if err != nil {
		return nil, fmt.Errorf("read messages: %w", err)
	}
	return out, nil
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
