package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"varve/internal/cqlwire"
	"varve/internal/exec"
)

// stage is how far a connection's handshake is.
type stage int32

const (
	stageEstablished stage = iota
	stageAuthenticating
	stageReady
)

var stageNames = [...]string{"established", "authenticating", "ready"}

// conn is one client connection.
type conn struct {
	srv    *Server
	id     uint64
	nc     net.Conn
	tls    *tls.Conn // nil: not encrypted
	remote netip.AddrPort
	host   *host
	since  time.Time

	ctx    context.Context // ends when the connection does
	cancel context.CancelFunc
	refs   atomic.Int32

	// exec is odd while the reader executes a request, and changes with each:
	// see the package comment.
	exec atomic.Uint64

	// r, hash (of the statement being executed) and answer belong to the holder of the
	// reader's role.
	r      *reader
	hash   uint32
	answer int64 // expected bytes of its answer

	out       outbox
	commits   commitQueue
	inflight  budget // writes that await their commit
	executing budget // requests executed beside the reader's own
	answers   budget // bytes of the answers to those, as far as they can be foreseen

	requests  atomic.Int64
	lastRead  atomic.Int64 // by Server.now
	draining  atomic.Bool
	halfRead  atomic.Bool // a large request is being read
	shrink    atomic.Bool // the reader was woken to give up its buffer
	bigBuffer atomic.Bool // it has one that is worth giving up
	stage     atomic.Int32
	keyspace  atomic.Pointer[string]
	events    atomic.Uint32 // registered event types, by eventBit
	clientInf atomic.Pointer[clientInfo]

	// Set once, before the stage becomes ready.
	version         cqlwire.Version
	compression     cqlwire.Compression // of frame bodies, versions 3 and 4
	throwOnOverload bool
	role            string
}

// clientInfo is what a client told of itself in STARTUP.
type clientInfo struct {
	driverName, driverVersion string
	options                   map[string]string
	tlsCipher, tlsProtocol    string
}

func (s *Server) newConn(nc net.Conn, h *host) *conn {
	c := &conn{srv: s, id: s.nextID.Add(1), nc: nc, host: h, since: time.Now()}
	c.tls, _ = nc.(*tls.Conn)
	c.remote = remoteAddr(nc)
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	c.refs.Store(1)
	c.r = newReader(nil)
	c.r.slot = -1
	c.out.init(nc, &s.Metrics, s.opts.MaxQueuedBytes, s.now)
	c.inflight.limit = int64(s.opts.MaxInFlight)
	c.executing.limit = int64(s.opts.MaxExecuting)
	c.answers.limit = int64(s.opts.MaxQueuedBytes)
	c.lastRead.Store(s.now())
	empty := ""
	c.keyspace.Store(&empty)
	return c
}

func remoteAddr(nc net.Conn) netip.AddrPort {
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		ap := a.AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	return netip.AddrPort{}
}

// retain adds a goroutine; false when the connection is already finished.
func (c *conn) retain() bool {
	for {
		n := c.refs.Load()
		if n == 0 {
			return false
		}
		if c.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release takes a goroutine away; the last one ends the connection.
func (c *conn) release() {
	if c.refs.Add(-1) > 0 {
		return
	}
	c.out.flush()
	c.hangUp()
	c.srv.forget(c)
}

// hangUp closes the socket and cancels what is being executed. Goroutines
// still at work see that and end.
func (c *conn) hangUp() {
	c.cancel()
	c.out.close()
	_ = c.nc.Close()
}

// drain makes the reader stop after the request at hand.
func (c *conn) drain() {
	c.draining.Store(true)
	_ = c.nc.SetReadDeadline(time.Unix(1, 0))
}

func (c *conn) currentStage() stage { return stage(c.stage.Load()) }

// serve reads and executes until the connection ends or the role is lost.
// It owns one reference.
func (c *conn) serve(r *reader) {
	defer c.release()
	for {
		owns, err := c.handleBuffered(r)
		if !owns {
			return
		}
		c.leaveSlot(r)
		c.commits.kick(c)
		c.out.flush()
		if err == nil && c.draining.Load() {
			return
		}
		if err == nil {
			err = c.fill(r)
		}
		if err != nil {
			c.end(r, err)
			return
		}
	}
}

// end closes the connection from the reader's side.
func (c *conn) end(r *reader, err error) {
	if r.reserved > 0 {
		c.releaseBytes(r.reserved)
		r.reserved = 0
	}
	c.halfRead.Store(false)
	switch {
	case errors.Is(err, errFatal):
		// The client has been told why; let the answer reach it.
		c.out.flush()
		linger(c.nc)
	case c.draining.Load():
		return // what is in flight is still to be answered
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
	default:
		c.srv.log.Debug("connection lost", "client", c.remote, "err", err)
		c.hintPlain(err)
	}
	c.hangUp()
}

// Bounds of linger.
const (
	lingerTime  = time.Second
	lingerBytes = 1 << 20
)

// linger ends sending and takes in what the client still sends: closing with
// unread bytes would reset the connection, and the last answer be lost.
func linger(nc net.Conn) {
	_ = nc.SetReadDeadline(time.Now().Add(lingerTime))
	half, ok := nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, nc, lingerBytes)
}

func (c *conn) enterSlot(r *reader) bool {
	if r.slot < 0 {
		r.slot = c.srv.monitor.enter(c)
	}
	return r.slot >= 0
}

func (c *conn) leaveSlot(r *reader) {
	if r.slot >= 0 {
		c.srv.monitor.leave(r.slot)
		r.slot = -1
	}
}

// steal takes the reader's role from a goroutine that executes request number
// exec, and has another one read on. At the limit of requests executed at a
// time nothing is stolen, and the connection waits for its request.
// Called by the monitor.
func (c *conn) steal(exec uint64) {
	if !c.retain() {
		return
	}
	if !c.countStolen() {
		c.release()
		return
	}
	old := c.r
	if !c.exec.CompareAndSwap(exec, exec+1) {
		c.executing.release(1)
		c.release()
		return
	}
	c.answers.force(c.answer)
	c.srv.costs.observe(c.hash, slowRun)
	next := old.split()
	c.r = next
	c.srv.Metrics.Stolen.Add(1)
	c.commits.kick(c)
	go c.serve(next)
}

// countStolen counts one more request. Clients that want to be told
// of overload are read a while longer at the limit, so that they are.
func (c *conn) countStolen() bool {
	if c.executing.try(1) {
		return true
	}
	if !c.throwOnOverload || c.executing.used.Load() >= 2*c.executing.limit {
		return false
	}
	c.executing.force(1)
	return true
}

// reserveBytes takes n bytes of the budgets for requests in flight.
func (c *conn) reserveBytes(n int64) error {
	if c.host.bytes.try(n) {
		if c.srv.bytes.try(n) {
			return nil
		}
		c.host.bytes.release(n)
	}
	c.srv.Metrics.Paused.Add(1)
	c.leaveSlot(c.r)
	c.out.flush()
	if err := c.host.bytes.take(c.ctx, n); err != nil {
		return err
	}
	if err := c.srv.bytes.take(c.ctx, n); err != nil {
		c.host.bytes.release(n)
		return err
	}
	return nil
}

func (c *conn) releaseBytes(n int64) {
	c.host.bytes.release(n)
	c.srv.bytes.release(n)
}

// info describes the connection for system_views.clients.
func (c *conn) info() exec.ClientInfo {
	i := exec.ClientInfo{
		Addr:           c.remote,
		Keyspace:       *c.keyspace.Load(),
		Stage:          stageNames[c.currentStage()],
		Requests:       c.requests.Load(),
		SSL:            c.tls != nil,
		ConnectedSince: c.since,
	}
	if ci := c.clientInf.Load(); ci != nil {
		i.Protocol = int(c.version)
		i.DriverName, i.DriverVersion = ci.driverName, ci.driverVersion
		i.ClientOptions = ci.options
		i.SSLCipher, i.SSLProtocol = ci.tlsCipher, ci.tlsProtocol
	}
	if c.currentStage() == stageReady {
		i.Username = c.role
		if i.Username == "" {
			i.Username = "anonymous"
		}
	}
	return i
}
