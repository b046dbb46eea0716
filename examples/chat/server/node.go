// Package server is a chat node: clients on WebSockets, rooms with one ordered
// queue each, and links to the other nodes. The store decides numbers and
// duplicates, so that nodes need no agreement among themselves.
package server

import (
	"context"
	_ "embed"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"varve/examples/chat/storage"
)

//go:embed page.html
var page []byte

// Node is one chat server process.
type Node struct {
	store  storage.Store
	links  []*link
	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu    sync.Mutex
	rooms map[int64]*room
}

// New returns a node that stores in store and passes what it takes to the
// nodes at peers (ws://host:port).
func New(store storage.Store, peers []string) *Node {
	n := &Node{store: store, rooms: map[int64]*room{}}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	for _, address := range peers {
		l := &link{address: address, outbox: make(chan *relayed, linkLength)}
		n.links = append(n.links, l)
		n.group.Go(func() { l.run(n.ctx) })
	}
	return n
}

// Close ends all connections and waits for what is under way.
func (n *Node) Close() {
	n.cancel()
	n.group.Wait()
}

// Handler serves the page, /ws for clients, /link for nodes.
func (n *Node) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'")
		_, _ = w.Write(page)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /ws", n.serveClient)
	mux.HandleFunc("GET /link", n.serveLink)
	return mux
}

func (n *Node) serveClient(w http.ResponseWriter, r *http.Request) {
	user, err := strconv.ParseInt(r.URL.Query().Get("user"), 10, 64)
	if err != nil {
		http.Error(w, "give ?user=<number>", http.StatusBadRequest)
		return
	}
	socket, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	c := &client{node: n, user: user, socket: socket, outbox: make(chan *Frame, outboxLength), rooms: map[int64]*room{}}
	c.session = n.ctx
	if moving, ok := n.store.(interface {
		Session(ctx context.Context) context.Context
	}); ok {
		c.session = moving.Session(n.ctx)
	}
	c.serve(n.ctx)
}

func (n *Node) room(id int64) *room {
	n.mu.Lock()
	defer n.mu.Unlock()
	r, ok := n.rooms[id]
	if !ok {
		r = newRoom(n, id)
		n.rooms[id] = r
	}
	return r
}

// relayed is what one node tells another.
type relayed struct {
	Room    int64
	Message *storage.Message `json:",omitempty"`
	Changed *Frame           `json:",omitempty"`
}

func (n *Node) relay(m *relayed) {
	for _, l := range n.links {
		select {
		case l.outbox <- m:
		default:
			l.overflow()
		}
	}
}

// serveLink takes what another node accepted. Whenever a link begins or ends
// something may have been missed, and the store is asked.
func (n *Node) serveLink(w http.ResponseWriter, r *http.Request) {
	socket, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer socket.CloseNow()
	socket.SetReadLimit(linkBytes)
	n.resync()
	defer n.resync()
	for {
		var m relayed
		if err := wsjson.Read(n.ctx, socket, &m); err != nil {
			return
		}
		n.mu.Lock()
		room, ok := n.rooms[m.Room]
		n.mu.Unlock()
		switch {
		case !ok:
		case m.Message != nil:
			room.deliver(*m.Message)
		case m.Changed != nil:
			room.changed(m.Changed)
		}
	}
}

func (n *Node) resync() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.rooms {
		r.resync()
	}
}

const (
	linkLength = 16384
	linkBytes  = 8 * maxBody // JSON may write a byte as six
	linkRetry  = 200 * time.Millisecond
)

// link is the way to one other node.
type link struct {
	address string
	outbox  chan *relayed

	mu   sync.Mutex
	drop context.CancelFunc
}

// overflow cuts the link; the other node asks the store when it is back.
func (l *link) overflow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.drop != nil {
		l.drop()
	}
}

func (l *link) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := l.connected(ctx)
		slog.Debug("link to node ended", "address", l.address, "error", err)
		select {
		case <-time.After(linkRetry):
		case <-ctx.Done():
		}
	}
}

func (l *link) connected(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	socket, _, err := websocket.Dial(ctx, l.address+"/link", nil)
	if err != nil {
		return err
	}
	defer socket.CloseNow()
	ctx = socket.CloseRead(ctx)
	l.mu.Lock()
	l.drop = cancel
	l.mu.Unlock()
	for {
		select {
		case m := <-l.outbox:
			if err := wsjson.Write(ctx, socket, m); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
