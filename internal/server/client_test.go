package server

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"varve/internal/cqlwire"
	"varve/internal/store"
)

// patience bounds every wait in these tests; only a failing one takes so long.
const patience = 10 * time.Second

// client is a CQL client without any wits of its own.
type client struct {
	t      testing.TB
	nc     net.Conn
	v      cqlwire.Version
	comp   cqlwire.Compression
	framed bool
	in     []byte // not yet decoded
	frames []byte // of segments
}

// reply is a decoded response frame.
type reply struct {
	cqlwire.Header
	cqlwire.Extras
	body []byte
}

func dial(t testing.TB, s *Server) *client {
	t.Helper()
	nc, err := net.Dial("tcp", s.Addrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, nc, cqlwire.V4)
}

func newClient(t testing.TB, nc net.Conn, v cqlwire.Version) *client {
	t.Cleanup(func() { nc.Close() })
	return &client{t: t, nc: nc, v: v}
}

// ready connects and starts up.
func ready(t testing.TB, s *Server, v cqlwire.Version, options ...string) *client {
	t.Helper()
	c := dial(t, s)
	c.v = v
	c.startup(options...)
	return c
}

func (c *client) startup(options ...string) {
	c.t.Helper()
	if r := c.tryStartup(options...); r.Opcode != cqlwire.OpReady {
		c.t.Fatalf("STARTUP answered by %s %q", r.Opcode, r.body)
	}
}

// tryStartup takes options as key, value, key, value …
func (c *client) tryStartup(options ...string) reply {
	c.t.Helper()
	m := cqlwire.Startup{Options: map[string]string{cqlwire.OptCQLVersion: "3.0.0"}}
	for i := 0; i < len(options); i += 2 {
		m.Options[options[i]] = options[i+1]
	}
	c.send(cqlwire.OpStartup, 1, 0, m.Append(nil))
	r := c.recv()
	if r.Opcode == cqlwire.OpError {
		return r
	}
	switch m.Options[cqlwire.OptCompression] {
	case "lz4":
		c.comp = cqlwire.CompressionLZ4
	case "snappy":
		c.comp = cqlwire.CompressionSnappy
	}
	c.framed = c.v >= cqlwire.V5
	return r
}

func (c *client) write(b []byte) {
	c.t.Helper()
	_ = c.nc.SetWriteDeadline(time.Now().Add(patience))
	if _, err := c.nc.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// frame builds a request frame, compressed where that was agreed on.
func (c *client) frame(op cqlwire.Opcode, stream int16, flags cqlwire.Flags, body []byte) []byte {
	compress := !c.framed && c.comp != cqlwire.CompressionNone && op != cqlwire.OpStartup
	if compress {
		flags |= cqlwire.FlagCompressed
	}
	b := cqlwire.BeginRequest(nil, c.v, flags, stream, op)
	if compress {
		b = cqlwire.CompressBody(b, body, c.comp)
	} else {
		b = append(b, body...)
	}
	cqlwire.EndFrame(b, 0)
	return b
}

// pack puts frames into segments where the connection has them.
func (c *client) pack(frames []byte) []byte {
	if !c.framed {
		return frames
	}
	return cqlwire.AppendSegments(nil, frames, c.comp == cqlwire.CompressionLZ4)
}

func (c *client) send(op cqlwire.Opcode, stream int16, flags cqlwire.Flags, body []byte) {
	c.t.Helper()
	c.write(c.pack(c.frame(op, stream, flags, body)))
}

func (c *client) query(stream int16, text string, p cqlwire.QueryParams) {
	c.t.Helper()
	c.send(cqlwire.OpQuery, stream, 0, c.queryBody(text, p))
}

func (c *client) queryBody(text string, p cqlwire.QueryParams) []byte {
	m := cqlwire.Query{Text: []byte(text), Params: p}
	return m.Append(nil, c.v)
}

func (c *client) recv() reply {
	c.t.Helper()
	r, err := c.tryRecv()
	if err != nil {
		c.t.Fatalf("no response: %v", err)
	}
	return r
}

func (c *client) tryRecv() (r reply, err error) {
	for {
		if r, ok, err := c.next(); ok || err != nil {
			return r, err
		}
		buf := make([]byte, 64<<10)
		_ = c.nc.SetReadDeadline(time.Now().Add(patience))
		n, err := c.nc.Read(buf)
		c.in = append(c.in, buf[:n]...)
		if err != nil && n == 0 {
			return r, err
		}
	}
}

// next decodes a response from what was received.
func (c *client) next() (r reply, ok bool, err error) {
	if c.framed {
		if err := c.unsegment(); err != nil {
			return r, false, err
		}
	} else {
		c.frames, c.in = append(c.frames, c.in...), nil
	}
	h, body, rest, ok := cqlwire.SplitFrame(c.frames)
	if !ok {
		return r, false, nil
	}
	c.frames = rest
	if h.Flags&cqlwire.FlagCompressed != 0 && !c.framed {
		if body, err = cqlwire.DecompressBody(nil, body, c.comp, 256<<20); err != nil {
			return r, false, err
		}
	}
	r.Header = h
	r.body, err = r.Extras.Decode(h.Flags, body)
	return r, true, err
}

func (c *client) unsegment() error {
	lz4 := c.comp == cqlwire.CompressionLZ4
	size := cqlwire.SegmentHeaderSize
	if lz4 {
		size = cqlwire.SegmentHeaderSizeLZ4
	}
	for len(c.in) >= size {
		h, err := cqlwire.DecodeSegmentHeader(c.in, lz4)
		if err != nil {
			return err
		}
		total := size + h.Payload + cqlwire.SegmentTrailerSize
		if len(c.in) < total {
			return nil
		}
		payload := c.in[size : size+h.Payload]
		if err := cqlwire.CheckSegmentPayload(payload, c.in[size+h.Payload:]); err != nil {
			return err
		}
		if h.Plain > 0 {
			c.frames, err = cqlwire.DecompressSegment(c.frames, payload, h)
			if err != nil {
				return err
			}
		} else {
			c.frames = append(c.frames, payload...)
		}
		c.in = c.in[total:]
	}
	return nil
}

// ask sends a query and returns the result.
func (c *client) ask(text string) cqlwire.Result {
	c.t.Helper()
	return c.askWith(text, cqlwire.QueryParams{Consistency: cqlwire.One})
}

func (c *client) askWith(text string, p cqlwire.QueryParams) cqlwire.Result {
	c.t.Helper()
	c.query(7, text, p)
	return c.result(c.recv())
}

func (c *client) result(r reply) (res cqlwire.Result) {
	c.t.Helper()
	if r.Opcode != cqlwire.OpResult {
		c.t.Fatalf("got %s %q, want a result", r.Opcode, r.body)
	}
	if err := res.Decode(c.v, r.body); err != nil {
		c.t.Fatal(err)
	}
	return res
}

// cells returns the cells of a result of one column as strings; null is "null".
func cells(t testing.TB, res cqlwire.Result) (list []string) {
	t.Helper()
	data := res.Rows.Data
	for range res.Rows.Count {
		row, rest, err := res.Rows.Row(nil, data)
		if err != nil {
			t.Fatal(err)
		}
		cell := "null"
		if row[0] != nil {
			cell = string(row[0])
		}
		list, data = append(list, cell), rest
	}
	return list
}

func (c *client) wantError(r reply, code cqlwire.ErrorCode, message string) cqlwire.Error {
	c.t.Helper()
	var e cqlwire.Error
	if r.Opcode != cqlwire.OpError {
		c.t.Fatalf("got %s, want an error", r.Opcode)
	}
	if err := e.Decode(r.Version, r.body); err != nil {
		c.t.Fatal(err)
	}
	if e.Code != code || e.Message != message {
		c.t.Fatalf("got %#x %q, want %#x %q", e.Code, e.Message, code, message)
	}
	return e
}

// wantClosed waits for the server to end the connection.
func (c *client) wantClosed() {
	c.t.Helper()
	r, err := c.tryRecv()
	if err == nil {
		c.t.Fatalf("got %s %q, want the connection closed", r.Opcode, r.body)
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		c.t.Fatal("the connection stays open")
	}
}

// start runs a server on a fake backend until the test ends.
func start(t testing.TB, f *fake, change func(*Options)) *Server {
	t.Helper()
	return startBackend(t, f, f.wait, change)
}

func startBackend(t testing.TB, b Backend, wait func(*store.Commit) error, change func(*Options)) *Server {
	t.Helper()
	o := Options{Backend: b, Listen: []Listen{{Address: "127.0.0.1:0"}}}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s.waitCommit = wait
	s.Serve()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = s.Close(ctx)
	})
	return s
}

// eventually waits for a condition that the server will bring about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		<-tick.C
	}
}
