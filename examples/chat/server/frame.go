package server

import (
	"encoding/hex"
	"fmt"
	"time"

	"varve/examples/chat/storage"
)

// Frame is one JSON message on a WebSocket, either way. Op decides which
// fields count.
//
// From a client: join (room), send (room, client_id, body, reply_to), read
// (room, seq), edit (room, seq, body), delete (room, seq), page (room, seq,
// limit). To a client: joined, message, changed, sent, page, done, error.
type Frame struct {
	Op       string `json:"op"`
	Ref      int64  `json:"ref,omitempty"` // chosen by the client, repeated in the answer
	Room     int64  `json:"room,omitempty"`
	Seq      int64  `json:"seq,omitempty"`
	Limit    int    `json:"limit,omitempty"`
	ClientID string `json:"client_id,omitempty"`
	ReplyTo  string `json:"reply_to,omitempty"`
	Body     string `json:"body,omitempty"`
	// Duplicate says in sent that the message was stored before.
	Duplicate bool      `json:"duplicate,omitempty"`
	Message   *Message  `json:"message,omitempty"`
	Messages  []Message `json:"messages,omitempty"`
	Error     string    `json:"error,omitempty"`
}

// Message is a stored message as clients see it.
type Message struct {
	ID       string    `json:"id"`
	Seq      int64     `json:"seq"`
	Sender   int64     `json:"sender"`
	ClientID string    `json:"client_id"`
	ReplyTo  string    `json:"reply_to,omitempty"`
	Body     string    `json:"body"`
	Created  time.Time `json:"created"`
	Read     time.Time `json:"read,omitzero"`
	Edited   time.Time `json:"edited,omitzero"`
	Deleted  time.Time `json:"deleted,omitzero"`
}

func shown(m storage.Message) *Message {
	s := &Message{
		ID: formatID(m.ID), Seq: m.Seq, Sender: m.Sender, ClientID: formatID(m.ClientID), Body: m.Body,
		Created: m.Created, Read: m.Read, Edited: m.Edited, Deleted: m.Deleted,
	}
	if m.ReplyTo != nil {
		s.ReplyTo = formatID(*m.ReplyTo)
	}
	return s
}

// NewID returns a random UUID in the form that clients send.
func NewID() string { return formatID(newID()) }

func formatID(id storage.ID) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// parseID reads a UUID in its usual text form.
func parseID(s string) (storage.ID, error) {
	var id storage.ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, fmt.Errorf("%q is not a UUID", s)
	}
	if _, err := hex.Decode(id[:], []byte(s[:8]+s[9:13]+s[14:18]+s[19:23]+s[24:])); err != nil {
		return id, fmt.Errorf("%q is not a UUID", s)
	}
	return id, nil
}
