package server

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"varve/internal/cqlwire"
)

// TestMalformedBodies: whatever is wrong in a request's body is answered, and
// the connection goes on.
func TestMalformedBodies(t *testing.T) {
	s := start(t, newFake(), nil)
	query := func(rest ...byte) []byte { return append(cqlwire.AppendLongString(nil, "void"), rest...) }
	for _, m := range []struct {
		name string
		op   cqlwire.Opcode
		body []byte
		want string
	}{
		{
			"cut text", cqlwire.OpQuery,
			[]byte{0, 0, 0, 16, 's'},
			"Not enough bytes to read an UTF8 serialized string preceded by its 4 bytes length",
		},
		{
			"negative text length", cqlwire.OpQuery,
			[]byte{0xFF, 0xFF, 0xFF, 0xFB, 0, 1, 0},
			"Not enough bytes to read an UTF8 serialized string preceded by its 4 bytes length",
		},
		{
			"broken text", cqlwire.OpQuery,
			[]byte{0, 0, 0, 2, 0xFF, 0xFE, 0, 1, 0},
			"Cannot decode string as UTF8: 'fffe'; java.nio.charset.MalformedInputException: Input length = 1",
		},
		{"unknown consistency", cqlwire.OpQuery, query(0, 0x44, 0), "Unknown code 68 for a consistency level"},
		{"value length -3", cqlwire.OpQuery, query(0, 1, 1, 0, 1, 0xFF, 0xFF, 0xFF, 0xFD), "Invalid ByteBuf length -3"},
		{
			"value of 2 GB", cqlwire.OpQuery, query(0, 1, 1, 0, 1, 0x77, 0x35, 0x94, 0),
			"Cannot read value of length 2000000000, only 0 bytes remaining in the message",
		},
		{"batch type", cqlwire.OpBatch, []byte{9, 0, 0, 0, 1, 0}, "Invalid BATCH message type 9"},
		{
			"batch kind", cqlwire.OpBatch,
			[]byte{0, 0, 1, 5, 0, 1, 0},
			"Invalid query kind in BATCH messages. Must be 0 or 1 but got 5",
		},
		{"no body", cqlwire.OpExecute, nil, "Not enough bytes to read a byte array preceded by its 2 bytes length"},
	} {
		t.Run(m.name, func(t *testing.T) {
			c := ready(t, s, cqlwire.V4)
			c.send(m.op, 21, 0, m.body)
			r := c.recv()
			c.wantError(r, cqlwire.ErrProtocol, m.want)
			if r.Stream != 21 {
				t.Errorf("stream %d", r.Stream)
			}
			c.ask("void")
		})
	}
	c := ready(t, s, cqlwire.V4, cqlwire.OptCompression, "lz4")
	c.write(append(cqlwire.AppendHeader(nil, cqlwire.Header{
		Version: 4, Opcode: cqlwire.OpQuery, Stream: 3, Flags: cqlwire.FlagCompressed, Length: 7,
	}), 0, 0, 1, 0, 'a', 'b', 'c'))
	c.wantError(c.recv(), cqlwire.ErrProtocol, "Cannot decompress message: malformed compressed data")
	c.ask("void")
}

func TestMalformedHeaders(t *testing.T) {
	s := start(t, newFake(), nil)
	inAllDialects(t, s, func(t *testing.T, c *client) {
		bad := func(change func(b []byte)) []byte {
			b := c.frame(cqlwire.OpOptions, 30, 0, nil)
			change(b)
			return c.pack(b)
		}
		c.write(bad(func(b []byte) { b[4] = 0x55 }))
		r := c.recv()
		c.wantError(r, cqlwire.ErrProtocol, "Unknown opcode 85")
		if r.Stream != 30 || r.Version != c.v {
			t.Errorf("%+v", r.Header)
		}
		c.write(bad(func(b []byte) { b[0] |= 0x80 }))
		c.wantError(c.recv(), cqlwire.ErrProtocol, "Wrong protocol direction (expected REQUEST, got RESPONSE) for opcode 5 (OPTIONS)")
		other := cqlwire.V3 + (c.v-cqlwire.V3+1)%3
		c.write(bad(func(b []byte) { b[0] = byte(other) }))
		c.wantError(c.recv(), cqlwire.ErrProtocol, "Invalid message version. Got "+other.String()+
			" but previous messages on this connection had version "+c.v.String())
		c.ask("void")
		c.write(bad(func(b []byte) { b[0] = 66 }))
		c.wantError(c.recv(), cqlwire.ErrProtocol,
			"Invalid or unsupported protocol version (66); supported versions are (3/v3, 4/v4, 5/v5)")
		c.wantClosed()
	})
}

func TestTooBig(t *testing.T) {
	s := start(t, newFake(), func(o *Options) { o.MaxFrameBytes = 1 << 20 })
	inAllDialects(t, s, func(t *testing.T, c *client) {
		body := make([]byte, 3<<20)
		rng := rand.NewChaCha8([32]byte{})
		_, _ = rng.Read(body) // so that it does not shrink
		b := c.frame(cqlwire.OpQuery, 77, 0, body)
		c.write(c.pack(b))
		r := c.recv()
		var e cqlwire.Error
		if err := e.Decode(c.v, r.body); err != nil || e.Code != cqlwire.ErrInvalid || r.Stream != 77 ||
			!strings.HasPrefix(e.Message, "Request is too big: length 3") ||
			!strings.HasSuffix(e.Message, " exceeds maximum allowed length 1048576.") {
			t.Fatalf("%+v %v", e, err)
		}
		c.ask("void")
	})
}

// TestStrangersAllocateNothing: thirteen bytes that promise 256 MB, and the
// like, before any login.
func TestStrangersAllocateNothing(t *testing.T) {
	f := newFake()
	f.auth = true
	s := start(t, f, nil)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, v := range []cqlwire.Version{cqlwire.V3, cqlwire.V4, cqlwire.V5} {
		for range 10 {
			c := dial(t, s)
			c.v = v
			h := cqlwire.Header{Version: v, Opcode: cqlwire.OpStartup, Stream: 5, Length: 256 << 20}
			c.write(append(cqlwire.AppendHeader(nil, h), 0, 1, 2, 3))
			c.wantError(c.recv(), cqlwire.ErrInvalid, "Request is too big: length 268435465 exceeds maximum allowed length 65536.")
			c.wantClosed()
		}
	}
	// An AUTH_RESPONSE whose token claims 256 MB, in a frame that does not.
	c := dial(t, s)
	c.tryStartup()
	c.send(cqlwire.OpAuthResponse, 5, 0, []byte{0x10, 0, 0, 0})
	c.wantError(c.recv(), cqlwire.ErrProtocol, "Cannot read value of length 268435456, only 0 bytes remaining in the message")
	c.wantClosed()
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20 {
		t.Errorf("%d MiB allocated", n>>20)
	}
}

func TestBrokenSegments(t *testing.T) {
	s := start(t, newFake(), nil)
	for _, comp := range []string{"", "lz4"} {
		open := func() *client {
			if comp == "" {
				return ready(t, s, cqlwire.V5)
			}
			return ready(t, s, cqlwire.V5, cqlwire.OptCompression, comp)
		}
		lz4 := comp != ""
		good := open().frame(cqlwire.OpQuery, 1, 0, (&cqlwire.Query{Text: []byte("void")}).Append(nil, cqlwire.V5))
		segment := func(payload []byte, whole bool) []byte { return cqlwire.AppendSegment(nil, payload, whole, lz4) }
		flip := func(b []byte, i int) []byte {
			b = bytes.Clone(b)
			b[i] ^= 1
			return b
		}
		whole := segment(good, true)
		long := bytes.Clone(good)
		binary.BigEndian.PutUint32(long[5:], 5)
		for name, c := range map[string]struct {
			bytes []byte
			want  string
		}{
			"header":       {flip(whole, 0), "Invalid, unrecoverable CRC mismatch detected in frame header"},
			"payload":      {flip(whole, len(whole)-5), "Invalid, unrecoverable CRC mismatch detected in frame body"},
			"trailer":      {flip(whole, len(whole)-1), "Invalid, unrecoverable CRC mismatch detected in frame body"},
			"cut frame":    {segment(good[:len(good)-1], true), "Incomplete message in a self-contained frame"},
			"cut header":   {segment(good[:5], true), "Incomplete message in a self-contained frame"},
			"large cut":    {segment(good[:5], false), "Large message does not begin with its header"},
			"interrupted":  {append(segment(good[:12], false), whole...), "Self-contained frame within a large message"},
			"large excess": {append(segment(good[:12], false), segment(append(good[12:], 0), false)...), "Large message is longer than its header says"},
		} {
			t.Run(name+comp, func(t *testing.T) {
				d := open()
				d.write(c.bytes)
				d.wantError(d.recv(), cqlwire.ErrProtocol, c.want)
				d.wantClosed()
			})
		}
		d := open()
		d.write(segment(nil, true)) // nothing, but well-formed
		d.write(append(segment(good[:12], false), segment(good[12:], false)...))
		d.result(d.recv())
	}
}

// TestGarbage throws random bytes, also behind a proper handshake, and expects
// the server to be there afterwards.
func TestGarbage(t *testing.T) {
	s := start(t, newFake(), nil)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 150 {
		c := dial(t, s)
		if i%3 > 0 {
			c.v = cqlwire.V3 + cqlwire.Version(i%2)*2
			c.startup()
		}
		b := make([]byte, 1+rng.IntN(400))
		for j := range b {
			b[j] = byte(rng.Uint32())
		}
		if i%2 == 0 {
			b[0] = byte(c.v)
			if len(b) > 9 {
				b[4] = byte(7 + i%8)
				binary.BigEndian.PutUint32(b[5:], uint32(len(b)-9))
			}
			if c.framed {
				b = c.pack(append(b, make([]byte, 9)...)[:max(9, len(b))])
			}
		}
		_, _ = c.nc.Write(b)
		_ = c.nc.(*net.TCPConn).CloseWrite()
		_ = c.nc.SetReadDeadline(time.Now().Add(patience))
		buf := make([]byte, 1<<16)
		for {
			if _, err := c.nc.Read(buf); err != nil {
				break
			}
		}
		c.nc.Close()
	}
	ready(t, s, cqlwire.V5).ask("void")
	eventually(t, "gone", func() bool { return s.Metrics.Connections.Load() <= 1 })
}
