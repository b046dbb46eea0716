package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// VarveSchema makes the tables that Varve uses, in the session's keyspace.
var VarveSchema = []string{
	`CREATE TABLE IF NOT EXISTS messages (
	  room_id bigint, seq bigint, id uuid, sender_id bigint, client_msg_id uuid, reply_to uuid, body text,
	  created_at timestamp, read_at timestamp, edited_at timestamp, deleted_at timestamp,
	  PRIMARY KEY ((room_id), seq)) WITH CLUSTERING ORDER BY (seq DESC)`,
	`CREATE INDEX IF NOT EXISTS messages_sent_once ON messages (client_msg_id)`,
}

const varveColumns = `id, room_id, seq, sender_id, client_msg_id, reply_to, body, created_at, read_at, edited_at, deleted_at`

// Varve is a Store in a CQL table keyed by room and number.
type Varve struct {
	session *gocql.Session
}

// NewVarve returns a store on session, which stays the caller's to close.
func NewVarve(session *gocql.Session) *Varve { return &Varve{session} }

var _ Store = (*Varve)(nil)

// Append implements Store. The last number is read before the sender's id is
// looked up: a twin that is stored in between takes the number that this
// attempt then fails to get.
func (v *Varve) Append(ctx context.Context, m Message) (Message, bool, error) {
	for range attempts {
		last, err := v.Page(ctx, m.Room, 0, 1)
		if err != nil {
			return Message{}, false, err
		}
		stored, err := v.sent(ctx, m)
		if !errors.Is(err, ErrNotFound) {
			return stored, err == nil, err
		}
		m.Seq = 1
		if len(last) > 0 {
			m.Seq = last[0].Seq + 1
		}
		applied, err := v.session.Query(`INSERT INTO messages (room_id, seq, id, sender_id, client_msg_id, reply_to, body, created_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS`,
			m.Room, m.Seq, gocql.UUID(m.ID), m.Sender, gocql.UUID(m.ClientID), (*gocql.UUID)(m.ReplyTo), m.Body, m.Created).
			MapScanCASContext(ctx, map[string]any{})
		if err != nil {
			return Message{}, false, fmt.Errorf("append to room %d: %w", m.Room, err)
		}
		if applied {
			return m, false, nil
		}
	}
	return Message{}, false, fmt.Errorf("append to room %d: %w", m.Room, errCrowded)
}

func (v *Varve) sent(ctx context.Context, m Message) (Message, error) {
	found, err := v.many(ctx, `WHERE room_id = ? AND client_msg_id = ?`, m.Room, gocql.UUID(m.ClientID))
	if err != nil {
		return Message{}, err
	}
	for _, f := range found {
		if f.Sender == m.Sender {
			return f, nil
		}
	}
	return Message{}, ErrNotFound
}

// MarkRead implements Store: it walks back from the newest unread message to
// the first that is read already.
func (v *Varve) MarkRead(ctx context.Context, room, upTo, reader int64, at time.Time) (int, error) {
	const page = 100
	marked, before := 0, upTo+1
	for {
		messages, err := v.Page(ctx, room, before, page)
		if err != nil {
			return marked, err
		}
		batch := v.session.Batch(gocql.UnloggedBatch)
		done := len(messages) < page
		for _, m := range messages {
			if m.Sender == reader {
				continue
			}
			if !m.Read.IsZero() {
				done = true
				break
			}
			batch.Query(`UPDATE messages SET read_at = ? WHERE room_id = ? AND seq = ? IF EXISTS`, at, room, m.Seq)
		}
		if n := len(batch.Entries); n > 0 {
			if _, iter, err := batch.MapExecCASContext(ctx, map[string]any{}); err != nil {
				return marked, fmt.Errorf("mark room %d read up to %d: %w", room, upTo, err)
			} else if err := iter.Close(); err != nil {
				return marked, fmt.Errorf("mark room %d read up to %d: %w", room, upTo, err)
			}
			marked += n
		}
		if done {
			return marked, nil
		}
		before = messages[len(messages)-1].Seq
	}
}

// Edit implements Store.
func (v *Varve) Edit(ctx context.Context, room, seq int64, body string, at time.Time) error {
	return v.change(ctx, `UPDATE messages SET body = ?, edited_at = ? WHERE room_id = ? AND seq = ? IF EXISTS`, room, seq, body, at, room, seq)
}

// Delete implements Store.
func (v *Varve) Delete(ctx context.Context, room, seq int64, at time.Time) error {
	return v.change(ctx, `UPDATE messages SET body = '', deleted_at = ? WHERE room_id = ? AND seq = ? IF EXISTS`, room, seq, at, room, seq)
}

func (v *Varve) change(ctx context.Context, cql string, room, seq int64, args ...any) error {
	applied, err := v.session.Query(cql, args...).MapScanCASContext(ctx, map[string]any{})
	if err == nil && !applied {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("message %d of room %d: %w", seq, room, err)
	}
	return nil
}

// Page implements Store.
func (v *Varve) Page(ctx context.Context, room, before int64, limit int) ([]Message, error) {
	if before == 0 {
		return v.many(ctx, `WHERE room_id = ? LIMIT ?`, room, limit)
	}
	return v.many(ctx, `WHERE room_id = ? AND seq < ? LIMIT ?`, room, before, limit)
}

// After implements Store.
func (v *Varve) After(ctx context.Context, room, after int64, limit int) ([]Message, error) {
	return v.many(ctx, `WHERE room_id = ? AND seq > ? ORDER BY seq ASC LIMIT ?`, room, after, limit)
}

// Get implements Store.
func (v *Varve) Get(ctx context.Context, room, seq int64) (Message, error) {
	found, err := v.many(ctx, `WHERE room_id = ? AND seq = ?`, room, seq)
	if err != nil {
		return Message{}, err
	}
	if len(found) == 0 {
		return Message{}, ErrNotFound
	}
	return found[0], nil
}

func (v *Varve) many(ctx context.Context, where string, args ...any) ([]Message, error) {
	iter := v.session.Query(`SELECT `+varveColumns+` FROM messages `+where, args...).IterContext(ctx)
	var out []Message
	for {
		var m Message
		var reply *gocql.UUID
		if !iter.Scan((*gocql.UUID)(&m.ID), &m.Room, &m.Seq, &m.Sender, (*gocql.UUID)(&m.ClientID), &reply, &m.Body,
			&m.Created, &m.Read, &m.Edited, &m.Deleted) {
			break
		}
		m.ReplyTo = (*ID)(reply)
		out = append(out, m)
	}
	if err := iter.Close(); err != nil {
		return nil, fmt.Errorf("read messages: %w", err)
	}
	return out, nil
}
