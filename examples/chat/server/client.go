package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"varve/examples/chat/storage"
)

const (
	outboxLength = 4096
	maxBody      = 16 << 10
	maxPage      = 200
	writeTimeout = 10 * time.Second
)

// client is one connected user.
type client struct {
	node   *Node
	user   int64
	socket *websocket.Conn
	outbox chan *Frame
	ended  context.CancelFunc
	rooms  map[int64]*room
	// session is the client's own, so that it reads what it wrote.
	session context.Context
}

// send queues a frame; a client that does not read is cut off.
func (c *client) send(f *Frame) {
	select {
	case c.outbox <- f:
	default:
		c.ended()
	}
}

// serve reads requests until the connection ends.
func (c *client) serve(ctx context.Context) {
	ctx, c.ended = context.WithCancel(ctx)
	defer c.ended()
	c.node.group.Go(func() { c.write(ctx) })
	defer func() {
		for _, r := range c.rooms {
			r.leave(c)
		}
		c.socket.CloseNow()
	}()
	for {
		var f Frame
		if err := wsjson.Read(ctx, c.socket, &f); err != nil {
			return
		}
		if err := c.request(ctx, &f); err != nil {
			c.send(&Frame{Op: "error", Ref: f.Ref, Room: f.Room, Error: err.Error()})
		}
	}
}

func (c *client) write(ctx context.Context) {
	defer c.ended()
	for {
		select {
		case f := <-c.outbox:
			wctx, cancel := context.WithTimeout(ctx, writeTimeout)
			err := wsjson.Write(wctx, c.socket, f)
			cancel()
			if err != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

func (c *client) request(ctx context.Context, f *Frame) error {
	if f.Op == "join" {
		return c.join(ctx, f)
	}
	if f.Op == "page" {
		return c.page(ctx, f)
	}
	r, ok := c.rooms[f.Room]
	if !ok {
		return fmt.Errorf("join room %d first", f.Room)
	}
	if len(f.Body) > maxBody {
		return fmt.Errorf("a message has at most %d bytes, this one %d", maxBody, len(f.Body))
	}
	var job func(ctx context.Context) (*Frame, error)
	switch f.Op {
	case "send":
		m, err := c.message(f)
		if err != nil {
			return err
		}
		job = func(ctx context.Context) (*Frame, error) { return c.append(ctx, r, m) }
	case "read":
		job = func(ctx context.Context) (*Frame, error) { return c.read(ctx, r, f.Seq) }
	case "edit":
		job = func(ctx context.Context) (*Frame, error) {
			return &Frame{Op: "done"}, c.change(ctx, r, f.Seq, c.node.store.Edit(ctx, r.id, f.Seq, f.Body, now()))
		}
	case "delete":
		job = func(ctx context.Context) (*Frame, error) {
			return &Frame{Op: "done"}, c.change(ctx, r, f.Seq, c.node.store.Delete(ctx, r.id, f.Seq, now()))
		}
	default:
		return fmt.Errorf("unknown request %q", f.Op)
	}
	return c.enqueue(r, f.Ref, job)
}

func (c *client) enqueue(r *room, ref int64, job func(context.Context) (*Frame, error)) error {
	run := func(ctx context.Context) {
		ctx = storage.WithSessionOf(ctx, c.session)
		answer, err := job(ctx)
		if err != nil {
			answer = &Frame{Op: "error", Error: err.Error()}
		}
		answer.Ref, answer.Room = ref, r.id
		c.send(answer)
	}
	select {
	case r.queue <- run:
		return nil
	default:
		return fmt.Errorf("room %d has %d requests waiting: send again later", r.id, queueLength)
	}
}

func (c *client) join(ctx context.Context, f *Frame) error {
	r := c.node.room(f.Room)
	last, err := r.join(ctx, c)
	if err != nil {
		return err
	}
	c.rooms[f.Room] = r
	c.send(&Frame{Op: "joined", Ref: f.Ref, Room: f.Room, Seq: last})
	return nil
}

func (c *client) page(ctx context.Context, f *Frame) error {
	limit := f.Limit
	if limit < 1 || limit > maxPage {
		limit = maxPage
	}
	page, err := c.node.store.Page(storage.WithSessionOf(ctx, c.session), f.Room, f.Seq, limit)
	if err != nil {
		return err
	}
	answer := &Frame{Op: "page", Ref: f.Ref, Room: f.Room, Messages: make([]Message, 0, len(page))}
	for _, m := range page {
		answer.Messages = append(answer.Messages, *shown(m))
	}
	c.send(answer)
	return nil
}

func (c *client) message(f *Frame) (storage.Message, error) {
	clientID, err := parseID(f.ClientID)
	if err != nil {
		return storage.Message{}, fmt.Errorf("client_id: %w", err)
	}
	m := storage.Message{ID: newID(), Room: f.Room, Sender: c.user, ClientID: clientID, Body: f.Body, Created: now()}
	if f.ReplyTo != "" {
		to, err := parseID(f.ReplyTo)
		if err != nil {
			return storage.Message{}, fmt.Errorf("reply_to: %w", err)
		}
		m.ReplyTo = &to
	}
	return m, nil
}

func (c *client) append(ctx context.Context, r *room, m storage.Message) (*Frame, error) {
	stored, duplicate, err := c.node.store.Append(ctx, m)
	if err != nil {
		return nil, err
	}
	r.deliver(stored)
	if !duplicate {
		c.node.relay(&relayed{Room: r.id, Message: &stored})
	}
	return &Frame{Op: "sent", ClientID: formatID(stored.ClientID), Seq: stored.Seq, Duplicate: duplicate}, nil
}

func (c *client) read(ctx context.Context, r *room, upTo int64) (*Frame, error) {
	n, err := c.node.store.MarkRead(ctx, r.id, upTo, c.user, now())
	if err != nil {
		return nil, err
	}
	if n > 0 {
		c.tell(r, &Frame{Op: "changed", Room: r.id, Seq: upTo})
	}
	return &Frame{Op: "done", Seq: int64(n)}, nil
}

func (c *client) change(ctx context.Context, r *room, seq int64, err error) error {
	if err != nil {
		return err
	}
	m, err := c.node.store.Get(ctx, r.id, seq)
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	c.tell(r, &Frame{Op: "changed", Room: r.id, Seq: seq, Message: shown(m)})
	return nil
}

func (c *client) tell(r *room, f *Frame) {
	r.changed(f)
	c.node.relay(&relayed{Room: r.id, Changed: f})
}

// now is the time as both stores keep it.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// newID returns a random UUID (RFC 9562, version 4).
func newID() storage.ID {
	var id storage.ID
	_, _ = rand.Read(id[:]) // never fails, as its documentation says
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}
