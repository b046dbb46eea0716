package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"varve/internal/cqlwire"
	"varve/internal/exec"
	"varve/internal/store"
)

// Server accepts CQL clients.
type Server struct {
	// Metrics may be read at any time.
	Metrics Metrics

	opts      Options
	log       *slog.Logger
	epoch     time.Time
	ctx       context.Context // of all requests
	cancel    context.CancelFunc
	stop      chan struct{} // closed by Close
	wg        sync.WaitGroup
	listeners []net.Listener
	certs     *Certificates // nil: no listener has TLS
	hints     hints
	nextID    atomic.Uint64
	monitor   monitor
	costs     costs
	bytes     budget
	logins    chan struct{}
	refusals  chan struct{} // bounds how many refused clients are told so at a time

	// waitCommit is Commit.Wait but in tests.
	waitCommit func(*store.Commit) error

	mu      sync.Mutex
	closing bool
	conns   map[*conn]struct{}
	hosts   map[netip.Addr]*host
	empty   chan struct{} // closed when closing and no connection is left
}

// host is what the connections of one client address share.
type host struct {
	addr  netip.Addr
	conns int // guarded by Server.mu
	bytes budget
}

// maxRefusals bounds the clients that are told that there are too many.
const maxRefusals = 64

// New opens the listeners; Serve starts to accept.
func New(o Options) (*Server, error) {
	o.Defaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &Server{
		opts: o, log: o.Logger, epoch: time.Now(),
		stop:     make(chan struct{}),
		logins:   make(chan struct{}, o.LoginConcurrency),
		refusals: make(chan struct{}, maxRefusals),
		conns:    map[*conn]struct{}{},
		hosts:    map[netip.Addr]*host{},
		empty:    make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.bytes.limit = o.MaxInFlightBytes
	s.monitor.wake = make(chan struct{}, 1)
	s.waitCommit = (*store.Commit).Wait
	if err := s.listen(); err != nil {
		s.cancel()
		return nil, err
	}
	o.Backend.Subscribe(s.schemaChanged)
	return s, nil
}

func (s *Server) listen() (err error) {
	defer func() {
		if err != nil {
			for _, l := range s.listeners {
				_ = l.Close()
			}
		}
	}()
	if s.opts.TLS != nil {
		if s.certs, err = LoadTLS(*s.opts.TLS, s.log); err != nil {
			return err
		}
	}
	for _, o := range s.opts.Listen {
		l := o.Listener
		if l == nil {
			if l, err = ListenTCP(o.Address); err != nil {
				return fmt.Errorf("listen for CQL clients: %w", err)
			}
		}
		if o.TLS {
			l = tls.NewListener(l, s.certs.Config())
		}
		s.listeners = append(s.listeners, l)
	}
	return nil
}

// ReloadTLS reads the certificates again, where there are any; open
// connections go on as they are.
func (s *Server) ReloadTLS() {
	if s.certs != nil {
		s.certs.Reload()
	}
}

// Addrs lists the listeners' addresses, in the order of Options.Listen.
func (s *Server) Addrs() []net.Addr {
	addrs := make([]net.Addr, len(s.listeners))
	for i, l := range s.listeners {
		addrs[i] = l.Addr()
	}
	return addrs
}

// Serve accepts clients in the background until Close.
func (s *Server) Serve() {
	for _, l := range s.listeners {
		s.wg.Go(func() { s.accept(l) })
	}
	s.wg.Go(func() { s.monitor.run(s.stop) })
	s.wg.Go(s.janitor)
}

// now is a monotonic clock in nanoseconds, cheaper than time.Now; never 0.
func (s *Server) now() int64 { return int64(time.Since(s.epoch)) + 1 }

// acceptPause is how long accepting rests after an error such as too many open files.
const acceptPause = 50 * time.Millisecond

func (s *Server) accept(l net.Listener) {
	for {
		nc, err := l.Accept()
		if err == nil {
			s.admit(nc)
			continue
		}
		select {
		case <-s.stop:
			return
		default:
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		s.log.Warn("cannot accept a CQL client", "err", err)
		select {
		case <-s.stop:
			return
		case <-time.After(acceptPause):
		}
	}
}

func (s *Server) admit(nc net.Conn) {
	s.Metrics.ConnectionsTotal.Add(1)
	addr := remoteAddr(nc).Addr()
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		_ = nc.Close()
		return
	}
	h := s.hosts[addr]
	if h == nil {
		h = &host{addr: addr}
		h.bytes.limit = s.opts.MaxInFlightBytesPerIP
		s.hosts[addr] = h
	}
	full := ""
	if m := s.opts.MaxConnections; m >= 0 && len(s.conns) >= m {
		full = fmt.Sprintf("Exceeded maximum native connection limit of %d", m)
	} else if m := s.opts.MaxConnectionsPerIP; m >= 0 && h.conns >= m {
		full = fmt.Sprintf("Exceeded maximum native connection limit per ip of %d", m)
	}
	if full != "" {
		if h.conns == 0 {
			delete(s.hosts, addr)
		}
		s.mu.Unlock()
		s.turnAway(nc, full)
		return
	}
	h.conns++
	c := s.newConn(nc, h)
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	s.Metrics.Connections.Add(1)
	go c.serve(c.r)
}

// forget takes a finished connection off the books.
func (s *Server) forget(c *conn) {
	s.Metrics.Connections.Add(-1)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if c.host.conns--; c.host.conns == 0 {
		delete(s.hosts, c.host.addr)
	}
	if s.closing && len(s.conns) == 0 {
		close(s.empty)
	}
}

// refusalTime bounds how long a client that is one too many is listened to.
const refusalTime = time.Second

// turnAway tells a client that there are too many, in the version it asks in.
func (s *Server) turnAway(nc net.Conn, why string) {
	s.Metrics.ConnectionsRefused.Add(1)
	s.log.Warn(why, "client", nc.RemoteAddr())
	select {
	case s.refusals <- struct{}{}:
	default:
		_ = nc.Close()
		return
	}
	s.wg.Go(func() {
		defer func() { <-s.refusals }()
		defer nc.Close()
		_ = nc.SetDeadline(time.Now().Add(refusalTime))
		var first [cqlwire.HeaderSize]byte
		if _, err := io.ReadFull(nc, first[:]); err != nil {
			return
		}
		h := cqlwire.DecodeHeader(first[:])
		if !h.Version.Supported() {
			h.Version = cqlwire.MaxVersion
		}
		e := &cqlwire.Error{Code: cqlwire.ErrOverloaded, Message: why}
		_, _ = nc.Write(appendError(nil, h.Version, h.Stream, e))
		linger(nc)
	})
}

// janitorTick is how often connections are looked at for timeouts.
const janitorTick = 250 * time.Millisecond

// idleBufferTime is after how long without input a connection's large read
// buffer is given up.
const idleBufferTime = 5 * time.Second

// janitor closes connections that outstay a timeout.
func (s *Server) janitor() {
	ticker := time.NewTicker(janitorTick)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
			s.sweep()
		}
	}
}

func (s *Server) sweep() {
	now := s.now()
	over := func(since int64, limit time.Duration) bool {
		return limit > 0 && since > 0 && now-since > int64(limit)
	}
	var late []*conn
	s.mu.Lock()
	for c := range s.conns {
		switch {
		case c.ctx.Err() != nil: // hung up already, and ending
			continue
		case over(c.out.writeStart.Load(), s.opts.WriteTimeout):
			s.Metrics.SlowClients.Add(1)
		case c.halfRead.Load() && over(c.lastRead.Load(), s.opts.WriteTimeout):
			s.Metrics.SlowClients.Add(1)
		case over(c.lastRead.Load(), s.opts.IdleTimeout) && c.refs.Load() == 1:
		case c.currentStage() != stageReady && over(int64(c.since.Sub(s.epoch)), s.opts.HandshakeTimeout):
		default:
			if c.bigBuffer.Load() && over(c.lastRead.Load(), idleBufferTime) {
				c.giveUpBuffer()
			}
			continue
		}
		late = append(late, c)
	}
	s.mu.Unlock()
	for _, c := range late {
		s.log.Debug("connection timed out", "client", c.remote)
		c.hangUp()
	}
}

// Clients lists the connections for system_views.clients.
func (s *Server) Clients() []exec.ClientInfo {
	s.mu.Lock()
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	infos := make([]exec.ClientInfo, len(conns))
	for i, c := range conns {
		infos[i] = c.info()
	}
	return infos
}

// Close stops accepting, lets requests in flight finish until ctx ends, then
// closes all connections and waits for their goroutines. It returns ctx's
// error if requests had to be cut off.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		<-s.empty
		return nil
	}
	s.closing = true
	none := len(s.conns) == 0
	if none {
		close(s.empty)
	}
	for c := range s.conns {
		c.drain()
	}
	s.mu.Unlock()
	for _, l := range s.listeners {
		_ = l.Close()
	}
	var err error
	select {
	case <-s.empty:
	case <-ctx.Done():
		err = ctx.Err()
		s.mu.Lock()
		for c := range s.conns {
			c.hangUp()
		}
		s.mu.Unlock()
		<-s.empty
	}
	close(s.stop)
	s.cancel()
	s.wg.Wait()
	return err
}
