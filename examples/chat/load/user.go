package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"varve/examples/chat/server"
)

const (
	reconnectAfter = 100 * time.Millisecond
	resendAfter    = 5 * time.Second
	joinPatience   = 10 * time.Second
	historyPage    = 200
	readLimit      = 8 << 20
)

// user is one chat user who comes back when the connection is lost and sends
// again what was not answered, under the same id.
type user struct {
	load    *run
	address string
	room    int64
	id      int64
	listens bool
	ready   chan struct{}
	once    sync.Once
	outbox  chan *server.Frame

	mu      sync.Mutex
	open    map[string]*server.Frame // sent and not answered
	done    []string
	last    int64 // the highest number received
	own     []int64
	answers map[int64]chan *server.Frame
	ref     int64
	// While catching up after a lost connection, older holds what came in pages
	// and newer what came by itself.
	catching     bool
	older, newer []server.Message
}

func newUser(r *run, address string, room, id int64, listens bool) *user {
	return &user{
		load: r, address: address, room: room, id: id, listens: listens, ready: make(chan struct{}),
		outbox: make(chan *server.Frame, 65536), open: map[string]*server.Frame{}, answers: map[int64]chan *server.Frame{},
	}
}

func (u *user) joined(ctx context.Context) error {
	select {
	case <-u.ready:
		return nil
	case <-time.After(joinPatience):
		return fmt.Errorf("no chat node answers at %s", u.address)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// connection is one connection, from joining to its end.
func (u *user) connection(ctx context.Context) error {
	socket, _, err := websocket.Dial(ctx, fmt.Sprintf("%s/ws?user=%d", u.address, u.id), nil)
	if err != nil {
		return err
	}
	defer socket.CloseNow()
	socket.SetReadLimit(readLimit)
	if err := wsjson.Write(ctx, socket, &server.Frame{Op: "join", Room: u.room}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var writer sync.WaitGroup
	defer writer.Wait()
	defer cancel()
	for {
		var f server.Frame
		if err := wsjson.Read(ctx, socket, &f); err != nil {
			return err
		}
		if f.Op == "joined" {
			u.back(f.Seq)
			writer.Go(func() { u.write(ctx, socket) })
			u.once.Do(func() { close(u.ready) })
			continue
		}
		u.take(&f)
	}
}

// run keeps the user connected until ctx ends.
func (u *user) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := u.connection(ctx); err != nil && ctx.Err() == nil {
			u.load.failed("connection lost")
		}
		u.load.wait(ctx, reconnectAfter)
	}
}

// back asks, after a lost connection, for what came meanwhile, and sends again
// what was not answered.
func (u *user) back(last int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	missed := u.last > 0 && last > u.last
	if u.last == 0 {
		u.last = last
	}
	u.catching, u.older, u.newer = missed && u.listens, nil, nil
	if u.catching {
		u.outbox <- &server.Frame{Op: "page", Room: u.room, Seq: last + 1, Limit: historyPage}
	}
	for _, f := range u.open {
		u.outbox <- f
	}
}

func (u *user) write(ctx context.Context, socket *websocket.Conn) {
	for {
		select {
		case f := <-u.outbox:
			if err := wsjson.Write(ctx, socket, f); err != nil {
				socket.CloseNow()
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

func (u *user) take(f *server.Frame) {
	u.mu.Lock()
	if answer, ok := u.answers[f.Ref]; ok && f.Ref > 0 {
		delete(u.answers, f.Ref)
		u.mu.Unlock()
		answer <- f
		return
	}
	defer u.mu.Unlock()
	switch f.Op {
	case "message":
		if u.catching {
			u.newer = append(u.newer, *f.Message)
			return
		}
		u.received(*f.Message)
	case "page":
		u.catchUp(f.Messages)
	case "sent":
		if _, ok := u.open[f.ClientID]; ok {
			delete(u.open, f.ClientID)
			u.done = append(u.done, f.ClientID)
			u.own = append(u.own, f.Seq)
		}
	case "error":
		u.load.failed(f.Error)
	}
}

// catchUp takes a page of what was missed, and hands all of it over in order
// once the last page is here.
func (u *user) catchUp(page []server.Message) {
	u.older = append(u.older, page...)
	if n := len(page); n == historyPage && page[n-1].Seq > u.last+1 {
		u.outbox <- &server.Frame{Op: "page", Room: u.room, Seq: page[n-1].Seq, Limit: historyPage}
		return
	}
	slices.Reverse(u.older)
	for _, m := range append(u.older, u.newer...) {
		if m.Seq > u.last {
			u.received(m)
		}
	}
	u.catching, u.older, u.newer = false, nil, nil
}

func (u *user) received(m server.Message) {
	inverted := m.Seq <= u.last
	u.last = max(u.last, m.Seq)
	if u.listens {
		u.load.delivered(m.ClientID, m.Seq, inverted)
	}
}

// post sends a message, and again as long as no answer comes.
func (u *user) post(id, body string) {
	f := &server.Frame{Op: "send", Room: u.room, ClientID: id, Body: body}
	u.mu.Lock()
	u.open[id] = f
	u.mu.Unlock()
	u.outbox <- f
	time.AfterFunc(resendAfter, func() { u.again(id) })
}

func (u *user) again(id string) {
	u.mu.Lock()
	f, ok := u.open[id]
	u.mu.Unlock()
	if !ok {
		return
	}
	select {
	case u.outbox <- f:
	default:
	}
	time.AfterFunc(resendAfter, func() { u.again(id) })
}

// vary edits or deletes one of the messages sent before.
func (u *user) vary(n int, edits, deletes float64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.own) == 0 {
		return
	}
	seq := u.own[rand.IntN(len(u.own))]
	switch p := rand.Float64(); {
	case p < edits:
		u.outbox <- &server.Frame{Op: "edit", Room: u.room, Seq: seq, Body: fmt.Sprintf("edited in round %d", n)}
	case p < edits+deletes:
		u.outbox <- &server.Frame{Op: "delete", Room: u.room, Seq: seq}
	}
}

func (u *user) markRead(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			u.mu.Lock()
			last := u.last
			u.mu.Unlock()
			if last > 0 {
				u.outbox <- &server.Frame{Op: "read", Room: u.room, Seq: last}
			}
		case <-ctx.Done():
			return
		}
	}
}

// browse reads pages of the history, the newest or some older one.
func (u *user) browse(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		u.mu.Lock()
		before := int64(0)
		if u.last > 1 && rand.IntN(2) == 0 {
			before = 1 + rand.Int64N(u.last)
		}
		u.mu.Unlock()
		began := time.Now()
		if _, err := u.ask(ctx, &server.Frame{Op: "page", Room: u.room, Seq: before, Limit: 50}); err == nil {
			u.load.paged(time.Since(began))
		} else if ctx.Err() == nil {
			u.load.failed("a page: " + err.Error())
		}
	}
}

func (u *user) unanswered() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.open)
}

func (u *user) answered() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.done
}

// history counts in stored how often each message of the room is there.
func (u *user) history(ctx context.Context, stored map[string]int) error {
	before := int64(0)
	for {
		page, err := u.ask(ctx, &server.Frame{Op: "page", Room: u.room, Seq: before, Limit: historyPage})
		if err != nil {
			return err
		}
		for _, m := range page.Messages {
			stored[m.ClientID]++
			before = m.Seq
		}
		if len(page.Messages) < historyPage {
			return nil
		}
	}
}

func (u *user) ask(ctx context.Context, f *server.Frame) (*server.Frame, error) {
	answer := make(chan *server.Frame, 1)
	u.mu.Lock()
	u.ref++
	f.Ref = u.ref
	u.answers[f.Ref] = answer
	u.mu.Unlock()
	u.outbox <- f
	select {
	case f := <-answer:
		if f.Op == "error" {
			return nil, fmt.Errorf("%s", f.Error)
		}
		return f, nil
	case <-time.After(joinPatience):
		return nil, fmt.Errorf("no answer in %s", joinPatience)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
