package server

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"varve/examples/chat/storage"
)

const (
	// queueLength bounds the requests of one room that wait for the store.
	queueLength = 1024
	// gapPatience is how long a room waits for a number that another node took
	// before it asks the store.
	gapPatience = 20 * time.Millisecond
	gapPage     = 200
)

// room is one room on this node: a queue of requests that are carried out one
// after the other, and the members here, who get messages by number without
// gaps whichever node took them.
type room struct {
	id    int64
	node  *Node
	queue chan func(ctx context.Context)

	mu      sync.Mutex
	members map[*client]struct{}
	next    int64 // the number to deliver next; 0 while nobody is here
	waiting map[int64]storage.Message
	filling bool
	unsure  bool // messages may be missing even if none waits for them
}

func newRoom(n *Node, id int64) *room {
	r := &room{
		id: id, node: n, queue: make(chan func(context.Context), queueLength),
		members: map[*client]struct{}{}, waiting: map[int64]storage.Message{},
	}
	n.group.Go(func() {
		for {
			select {
			case job := <-r.queue:
				job(n.ctx)
			case <-n.ctx.Done():
				return
			}
		}
	})
	return r
}

// join adds a member and returns the last number it will not be sent.
func (r *room) join(ctx context.Context, c *client) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == 0 {
		r.mu.Unlock()
		newest, err := r.node.store.Page(ctx, r.id, 0, 1)
		r.mu.Lock()
		if err != nil {
			return 0, err
		}
		if r.next == 0 {
			r.next = 1
			if len(newest) > 0 {
				r.next = newest[0].Seq + 1
			}
			// What was delivered since the page was read found nobody here.
			r.unsure = true
			r.fillLocked(0)
		}
	}
	r.members[c] = struct{}{}
	return r.next - 1, nil
}

func (r *room) leave(c *client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.members, c)
	if len(r.members) == 0 {
		r.next, r.unsure = 0, false
		clear(r.waiting)
	}
}

// deliver hands a stored message to the members in the order of numbers. A
// gap is filled from the store when the missing message does not come by
// itself.
func (r *room) deliver(m storage.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == 0 || m.Seq < r.next {
		return
	}
	r.waiting[m.Seq] = m
	for {
		m, ok := r.waiting[r.next]
		if !ok {
			break
		}
		delete(r.waiting, r.next)
		r.next++
		r.sendLocked(&Frame{Op: "message", Room: r.id, Message: shown(m)})
	}
	if len(r.waiting) > 0 {
		r.fillLocked(gapPatience)
	}
}

// changed tells the members that a message was edited, deleted or read.
func (r *room) changed(f *Frame) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sendLocked(f)
}

func (r *room) sendLocked(f *Frame) {
	for c := range r.members {
		c.send(f)
	}
}

// resync asks the store for what other nodes may have taken unheard.
func (r *room) resync() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next > 0 {
		r.unsure = true
		r.fillLocked(0)
	}
}

// fillLocked asks the store for what is missing after a while, page by page.
func (r *room) fillLocked(patience time.Duration) {
	if r.filling {
		return
	}
	r.filling = true
	r.node.group.Go(func() {
		select {
		case <-time.After(patience):
		case <-r.node.ctx.Done():
			return
		}
		r.mu.Lock()
		from, gap := r.next, r.unsure || len(r.waiting) > 0
		r.filling, r.unsure = false, false
		r.mu.Unlock()
		if from == 0 || !gap {
			return
		}
		missing, err := r.node.store.After(r.node.ctx, r.id, from-1, gapPage)
		if err != nil {
			slog.Warn("room could not be filled from the store; trying again", "room", r.id, "error", err)
			r.mu.Lock()
			r.unsure = true
			r.fillLocked(time.Second)
			r.mu.Unlock()
			return
		}
		for _, m := range missing {
			r.deliver(m)
		}
		if len(missing) == gapPage {
			r.resync()
		}
	})
}
