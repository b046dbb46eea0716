package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"varve/internal/cqlwire"
)

const version = cqlwire.V4

// Options say how to connect.
type Options struct {
	// Address is host:port.
	Address string
	// Username and Password answer a server that asks for a login.
	Username, Password string
	// TLS, when not nil, encrypts the connection.
	TLS *tls.Config
	// ConnectTimeout bounds dialling and the handshake; the default is 10 s.
	ConnectTimeout time.Duration
	// MaxFrameBytes bounds a response; the default is 256 MiB.
	MaxFrameBytes int
}

// ErrClosed is the error of requests on a connection that has ended.
var ErrClosed = errors.New("connection closed")

// Conn is one connection. Its methods may be called concurrently; requests
// share it by stream ids, up to 32768 at once.
type Conn struct {
	nc   net.Conn
	opts Options

	wmu sync.Mutex // one request's bytes at a time
	buf []byte

	mu      sync.Mutex
	pending map[int16]chan answer
	free    []int16
	next    int16
	err     error // why the connection ended
	done    chan struct{}
}

type answer struct {
	header cqlwire.Header
	body   []byte
	err    error
}

// Dial connects and logs in.
func Dial(ctx context.Context, o Options) (*Conn, error) {
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = 10 * time.Second
	}
	if o.MaxFrameBytes == 0 {
		o.MaxFrameBytes = 256 << 20
	}
	ctx, cancel := context.WithTimeout(ctx, o.ConnectTimeout)
	defer cancel()
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", o.Address, err)
	}
	if o.TLS != nil {
		t := tls.Client(nc, o.TLS)
		if err := t.HandshakeContext(ctx); err != nil {
			_ = nc.Close()
			var plain tls.RecordHeaderError
			if errors.As(err, &plain) {
				return nil, fmt.Errorf("TLS with %s: the server takes no TLS on this port: %w", o.Address, err)
			}
			return nil, fmt.Errorf("TLS with %s: %w", o.Address, err)
		}
		nc = t
	}
	c := &Conn{nc: nc, opts: o, pending: map[int16]chan answer{}, done: make(chan struct{})}
	go c.read()
	if err := c.handshake(ctx); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("connect to %s: %w", o.Address, err)
	}
	return c, nil
}

// Close ends the connection and waits for its reader.
func (c *Conn) Close() error {
	err := c.nc.Close()
	<-c.done
	return err
}

func (c *Conn) handshake(ctx context.Context) error {
	startup := cqlwire.Startup{Options: map[string]string{
		cqlwire.OptCQLVersion: "3.0.0", cqlwire.OptDriverName: "varve",
	}}
	h, body, err := c.call(ctx, cqlwire.OpStartup, startup.Append, false)
	if err != nil {
		return err
	}
	switch h.Opcode {
	case cqlwire.OpReady:
		return nil
	case cqlwire.OpAuthenticate:
	default:
		return fmt.Errorf("the server answered STARTUP with %v", h.Opcode)
	}
	var auth cqlwire.Authenticate
	if err := auth.Decode(body); err != nil {
		return fmt.Errorf("decode AUTHENTICATE: %w", err)
	}
	if c.opts.Username == "" {
		return fmt.Errorf("the server asks for a login (%s) and no user name was given", auth.Class)
	}
	token := cqlwire.AuthToken{Token: cqlwire.AppendPlain(nil, c.opts.Username, c.opts.Password)}
	if h, _, err = c.call(ctx, cqlwire.OpAuthResponse, token.Append, false); err != nil {
		return err
	}
	if h.Opcode != cqlwire.OpAuthSuccess {
		return fmt.Errorf("the server answered the login with %v", h.Opcode)
	}
	return nil
}

// call sends one request and waits for its answer. A body that is an ERROR
// comes back as *cqlwire.Error.
func (c *Conn) call(ctx context.Context, op cqlwire.Opcode, body func([]byte) []byte, trace bool) (cqlwire.Header, []byte, error) {
	ch := make(chan answer, 1)
	stream, err := c.claim(ch)
	if err != nil {
		return cqlwire.Header{}, nil, err
	}
	var flags cqlwire.Flags
	if trace {
		flags = cqlwire.FlagTracing
	}
	c.wmu.Lock()
	c.buf = cqlwire.BeginRequest(c.buf[:0], version, flags, stream, op)
	c.buf = body(c.buf)
	cqlwire.EndFrame(c.buf, 0)
	_, err = c.nc.Write(c.buf)
	c.wmu.Unlock()
	if err != nil {
		// The reader sees the broken connection too and fails every request.
		_ = c.nc.Close()
	}
	select {
	case a := <-ch:
		if a.err != nil {
			return a.header, nil, a.err
		}
		if a.header.Opcode == cqlwire.OpError {
			return a.header, nil, decodeError(a)
		}
		return a.header, a.body, nil
	case <-ctx.Done():
		// The stream stays taken until its answer arrives.
		return cqlwire.Header{}, nil, ctx.Err()
	}
}

func decodeError(a answer) error {
	var x cqlwire.Extras
	msg, err := x.Decode(a.header.Flags, a.body)
	if err != nil {
		return fmt.Errorf("decode ERROR: %w", err)
	}
	e := new(cqlwire.Error)
	if err := e.Decode(version, msg); err != nil {
		return fmt.Errorf("decode ERROR: %w", err)
	}
	e.Warnings = x.Warnings
	return e
}

func (c *Conn) claim(ch chan answer) (int16, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	var id int16
	switch {
	case len(c.free) > 0:
		id = c.free[len(c.free)-1]
		c.free = c.free[:len(c.free)-1]
	case c.next >= 0:
		id = c.next
		c.next++ // becomes negative after the last id
	default:
		return 0, errors.New("32768 requests wait on this connection")
	}
	c.pending[id] = ch
	return id, nil
}

func (c *Conn) read() {
	defer close(c.done)
	err := c.readFrames(bufio.NewReaderSize(c.nc, 64<<10))
	_ = c.nc.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = fmt.Errorf("%w: %w", ErrClosed, err)
	for _, ch := range c.pending {
		ch <- answer{err: c.err}
	}
	c.pending = nil
}

func (c *Conn) readFrames(r *bufio.Reader) error {
	var head [cqlwire.HeaderSize]byte
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return err
		}
		h := cqlwire.DecodeHeader(head[:])
		if !h.Response || uint64(h.Length) > uint64(c.opts.MaxFrameBytes) {
			return fmt.Errorf("the server sent a frame that is not CQL or over %d bytes", c.opts.MaxFrameBytes)
		}
		body := make([]byte, h.Length)
		if _, err := io.ReadFull(r, body); err != nil {
			return err
		}
		c.mu.Lock()
		ch := c.pending[h.Stream]
		if ch != nil {
			delete(c.pending, h.Stream)
			c.free = append(c.free, h.Stream)
		}
		c.mu.Unlock()
		if ch != nil {
			ch <- answer{header: h, body: body}
		}
	}
}
