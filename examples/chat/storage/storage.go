// Package storage keeps chat messages in PostgreSQL or in Varve, by one
// interface, so that a move between the two is a matter of routing.
package storage

import (
	"context"
	"errors"
	"time"
)

// ID is a UUID.
type ID [16]byte

// Message is one message of a room. Times are in milliseconds, which both
// stores keep exactly; the zero time stands for "not yet".
type Message struct {
	ID       ID
	Room     int64
	Seq      int64 // counts from 1 in each room, unique by the store's own key
	Sender   int64
	ClientID ID // the sender's own id: a send repeated with it is stored once
	ReplyTo  *ID
	Body     string
	Created  time.Time
	Read     time.Time
	Edited   time.Time
	Deleted  time.Time
}

// ErrNotFound says that a room has no message of that number.
var ErrNotFound = errors.New("no such message")

// Store is what the chat server asks of a database.
type Store interface {
	// Append stores m as the next message of its room and returns it with its
	// number. A message that its sender has sent before is not stored again;
	// the stored one is returned with duplicate set.
	Append(ctx context.Context, m Message) (stored Message, duplicate bool, err error)
	// MarkRead sets the read time of the messages up to a number that others
	// than the reader sent and that have none, and returns how many.
	MarkRead(ctx context.Context, room, upTo, reader int64, at time.Time) (int, error)
	// Edit replaces a message's text.
	Edit(ctx context.Context, room, seq int64, body string, at time.Time) error
	// Delete marks a message as deleted and drops its text.
	Delete(ctx context.Context, room, seq int64, at time.Time) error
	// Page returns up to limit messages numbered below before, newest first;
	// before 0 means from the newest.
	Page(ctx context.Context, room, before int64, limit int) ([]Message, error)
	// After returns up to limit messages numbered above after, oldest first.
	After(ctx context.Context, room, after int64, limit int) ([]Message, error)
	// Get returns one message.
	Get(ctx context.Context, room, seq int64) (Message, error)
}

// attempts bounds how often an append tries for the next number while others
// take it.
const attempts = 100

// errCrowded says that an append lost the race for a number too often.
var errCrowded = errors.New("room is too busy: no number was free in 100 attempts")
