package server

import (
	"errors"
	"os"
	"sync"
	"time"

	"varve/internal/cqlwire"
)

// Sizes of a connection's read buffer in bytes: small while it is quiet, large
// while requests come in batches.
const (
	minReadBuffer = 4 << 10
	maxReadBuffer = 64 << 10
)

// quietReads is after how many small reads in a row a large buffer is given up.
const quietReads = 64

// errFatal ends a connection after its client has been told why.
var errFatal = errors.New("protocol violated")

// reader is what the holder of a connection's reader role owns.
type reader struct {
	in         []byte // in[pos:end] is not yet handled
	pos, end   int
	want       int // bytes that in[pos:] must hold before the next step can be made
	quiet      int
	slot       int   // of the monitor, or -1
	flushed    int64 // when the reader last flushed, by Server.now
	reserved   int64 // bytes reserved for the large frame being read
	skip       int   // bytes of a refused frame still to be dropped
	skipHeader cqlwire.Header
	skipErr    *cqlwire.Error // to be answered once they are

	framed bool // segments (version 5 after the handshake)
	lz4    bool
	frames []byte // whole frames of the current segment not yet handled
	plain  []byte // decompressed segment or body
	large  []byte // frame being put together from segments
	need   int    // its whole length; 0: none
	got    int    // bytes of it seen; they are dropped while skipErr is set

	req *request
}

func newReader(tail []byte) *reader {
	size := minReadBuffer
	for size < len(tail) {
		size *= 2
	}
	r := &reader{in: make([]byte, size), slot: -1, req: getRequest()}
	r.end = copy(r.in, tail)
	return r
}

// split returns the reader that goes on after this one's goroutine has lost
// the role: what is not handled yet, in buffers of its own, and the slot. The
// old one keeps its request and the buffer that this aliases.
func (r *reader) split() *reader {
	next := newReader(r.in[r.pos:r.end])
	next.slot = r.slot
	next.framed, next.lz4 = r.framed, r.lz4
	next.frames = r.frames // read only: the old buffer stays as it is
	return next
}

// buffered returns the bytes not yet handled.
func (r *reader) buffered() []byte { return r.in[r.pos:r.end] }

// fill reads more. It makes room for what the next step wants, but never takes
// a client's word for more than twice what it has sent.
func (c *conn) fill(r *reader) error {
	for {
		r.makeRoom()
		c.bigBuffer.Store(len(r.in) > minReadBuffer)
		n, err := c.nc.Read(r.in[r.end:])
		if n == 0 {
			if c.shrink.CompareAndSwap(true, false) && !c.draining.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
				r.quiet = quietReads
				_ = c.nc.SetReadDeadline(time.Time{})
				if c.draining.Load() {
					return err // drain set its deadline in between
				}
				continue
			}
			return err
		}
		r.end += n
		m := &c.srv.Metrics
		m.Reads.Add(1)
		m.BytesReceived.Add(int64(n))
		now := c.srv.now()
		c.lastRead.Store(now)
		r.flushed = now
		r.adapt(n)
		return nil
	}
}

// giveUpBuffer has a reader that waits for an idle client exchange its large
// buffer for a small one. Called by the janitor.
func (c *conn) giveUpBuffer() {
	if c.bigBuffer.CompareAndSwap(true, false) && !c.draining.Load() {
		c.shrink.Store(true)
		_ = c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

func (r *reader) makeRoom() {
	unread, size := r.end-r.pos, len(r.in)
	switch {
	case unread == 0:
		r.pos, r.end = 0, 0
		if size > maxReadBuffer || (r.quiet >= quietReads && size > minReadBuffer) {
			r.in, r.quiet = make([]byte, minReadBuffer), 0
		}
	case r.pos+r.want <= size:
		// It will fit behind what is there.
	case r.pos > 0:
		copy(r.in, r.buffered())
		r.pos, r.end = 0, unread
	case r.end == size:
		in := make([]byte, min(2*size, r.want))
		copy(in, r.buffered())
		r.in = in
	}
}

// adapt sizes the buffer by what arrives at a time.
func (r *reader) adapt(n int) {
	switch {
	case n < minReadBuffer/2:
		r.quiet++
	default:
		r.quiet = 0
	}
	if r.end == len(r.in) && len(r.in) < maxReadBuffer && r.want <= len(r.in) {
		in := make([]byte, min(4*len(r.in), maxReadBuffer))
		r.end = copy(in, r.buffered())
		r.in, r.pos = in, 0
	}
}

// frame is a request frame as read.
type frame struct {
	header cqlwire.Header
	body   []byte
}

// next returns the next whole frame, or ok false when more must be read first.
// Refusals that leave the connection usable are answered in place.
func (c *conn) next(r *reader) (f frame, ok bool, err error) {
	if r.framed {
		return c.nextFramed(r)
	}
	return c.nextRaw(r)
}

func (c *conn) nextRaw(r *reader) (f frame, ok bool, err error) {
	for {
		if r.skip > 0 {
			n := min(r.skip, r.end-r.pos)
			r.pos += n
			r.skip -= n
			if r.skip > 0 {
				r.want = 1
				return f, false, nil
			}
			if err := c.refuse(&r.skipHeader, r.skipErr); err != nil {
				return f, false, err
			}
			continue
		}
		b := r.buffered()
		if len(b) == 0 {
			r.want = cqlwire.HeaderSize
			return f, false, nil
		}
		if v := cqlwire.Version(b[0] & 0x7F); v < cqlwire.MinVersion {
			return f, false, c.refuseLegacy(r, v)
		}
		if len(b) < cqlwire.HeaderSize {
			r.want = cqlwire.HeaderSize
			return f, false, nil
		}
		h := cqlwire.DecodeHeader(b)
		if e := c.checkHeader(&h, r.reserved); e != nil {
			if c.currentStage() != stageReady || !h.Version.Supported() {
				return f, false, c.refuse(&h, e)
			}
			r.skip = cqlwire.HeaderSize + int(h.Length)
			r.skipHeader, r.skipErr = h, e
			continue
		}
		total := cqlwire.HeaderSize + int(h.Length)
		if len(b) < total {
			r.want = total
			return f, false, c.reserveLarge(r, total)
		}
		r.pos += total
		return frame{h, b[cqlwire.HeaderSize:total:total]}, true, nil
	}
}

// reserveLarge takes a frame that exceeds the normal buffer from the budgets
// before it is read in.
func (c *conn) reserveLarge(r *reader, total int) error {
	if total <= maxReadBuffer || r.reserved > 0 {
		return nil
	}
	if err := c.reserveBytes(int64(total)); err != nil {
		return err
	}
	r.reserved = int64(total)
	c.halfRead.Store(true)
	return nil
}

// checkHeader returns why a frame is refused, or nil.
func (c *conn) checkHeader(h *cqlwire.Header, reserved int64) *cqlwire.Error {
	if e := h.CheckRequest(); e != nil {
		return e
	}
	if c.version != 0 && h.Version != c.version {
		return protocolError("Invalid message version. Got " + h.Version.String() +
			" but previous messages on this connection had version " + c.version.String())
	}
	if total := int64(h.Length) + cqlwire.HeaderSize; total > int64(c.maxFrame()) {
		return c.tooBig(total)
	}
	if c.throwOnOverload && h.Length > maxReadBuffer && reserved == 0 && c.bytesShort(int64(h.Length)) {
		c.srv.Metrics.Overloaded.Add(1)
		return c.overloadedBytes()
	}
	return nil
}

// refuse answers a refused frame. Before login, and where the frame's very
// layout is in doubt, it also ends the connection.
func (c *conn) refuse(h *cqlwire.Header, e *cqlwire.Error) error {
	c.srv.Metrics.ProtocolErrors.Add(1)
	v := h.Version
	if c.version != 0 {
		v = c.version
	}
	c.answerIn(v, h.Stream, e)
	if c.currentStage() == stageEstablished {
		c.hintEncrypted(byte(h.Version))
	}
	if c.currentStage() != stageReady || !h.Version.Supported() {
		return errFatal
	}
	return nil
}

func (c *conn) nextFramed(r *reader) (f frame, ok bool, err error) {
	for {
		for len(r.frames) > 0 {
			h, body, rest, ok := cqlwire.SplitFrame(r.frames)
			if !ok {
				return f, false, c.fatal(0, protocolError("Incomplete message in a self-contained frame"))
			}
			r.frames = rest
			e := c.checkHeader(&h, r.reserved)
			if e == nil {
				return frame{h, body}, true, nil
			}
			if err := c.refuse(&h, e); err != nil {
				return f, false, err
			}
		}
		more, err := c.nextSegment(r)
		if err != nil || !more {
			return f, false, err
		}
	}
}

// nextSegment takes in one segment; false when more must be read first.
func (c *conn) nextSegment(r *reader) (ok bool, err error) {
	size := cqlwire.SegmentHeaderSize
	if r.lz4 {
		size = cqlwire.SegmentHeaderSizeLZ4
	}
	b := r.buffered()
	if len(b) < size {
		r.want = size
		return false, nil
	}
	h, err := cqlwire.DecodeSegmentHeader(b, r.lz4)
	if err != nil {
		return false, c.fatal(0, protocolError("Invalid, unrecoverable CRC mismatch detected in frame header"))
	}
	total := size + h.Payload + cqlwire.SegmentTrailerSize
	if len(b) < total {
		r.want = total
		return false, nil
	}
	r.pos += total
	payload := b[size : size+h.Payload : size+h.Payload]
	if cqlwire.CheckSegmentPayload(payload, b[size+h.Payload:]) != nil {
		return false, c.fatal(0, protocolError("Invalid, unrecoverable CRC mismatch detected in frame body"))
	}
	if h.Plain > 0 {
		r.plain, err = cqlwire.DecompressSegment(r.plain[:0], payload, h)
		if err != nil {
			return false, c.fatal(0, protocolError("Malformed compressed frame"))
		}
		payload = r.plain
	}
	if h.SelfContained {
		if r.need > 0 {
			return false, c.fatal(0, protocolError("Self-contained frame within a large message"))
		}
		r.frames = payload
		return true, nil
	}
	return true, c.addPart(r, payload)
}

// addPart takes in a segment that is part of a large frame.
func (c *conn) addPart(r *reader, part []byte) error {
	if r.need == 0 {
		if len(part) < cqlwire.HeaderSize {
			return c.fatal(0, protocolError("Large message does not begin with its header"))
		}
		h := cqlwire.DecodeHeader(part)
		total := cqlwire.HeaderSize + int(h.Length)
		r.need, r.got, r.large, r.skipErr = total, 0, nil, nil
		if total > c.maxFrame() {
			r.skipHeader, r.skipErr = h, c.tooBig(int64(total))
			if c.currentStage() != stageReady {
				return c.refuse(&h, r.skipErr)
			}
		} else if err := c.reserveLarge(r, total); err != nil {
			return err
		}
	}
	r.got += len(part)
	if r.got > r.need {
		return c.fatal(0, protocolError("Large message is longer than its header says"))
	}
	if r.skipErr == nil {
		r.large = append(r.large, part...)
	}
	if r.got < r.need {
		return nil
	}
	frames, e := r.large, r.skipErr
	r.need, r.large, r.skipErr = 0, nil, nil
	if e != nil {
		return c.refuse(&r.skipHeader, e)
	}
	r.frames = frames
	return nil
}

func (c *conn) maxFrame() int {
	if c.currentStage() == stageReady {
		return c.srv.opts.MaxFrameBytes
	}
	return c.srv.opts.MaxHandshakeFrameBytes
}

// legacyHeaderSize is a header's length in bytes in versions 1 and 2.
const legacyHeaderSize = 8

// refuseLegacy answers a client of version 1 or 2 in its own format.
func (c *conn) refuseLegacy(r *reader, v cqlwire.Version) error {
	b := r.buffered()
	e := cqlwire.UnsupportedVersion(v)
	if c.currentStage() != stageEstablished || v == 0 {
		return c.fatal(0, e)
	}
	var stream int8
	if len(b) >= legacyHeaderSize {
		stream = int8(b[2])
	}
	c.srv.Metrics.ProtocolErrors.Add(1)
	c.out.push(cqlwire.AppendLegacyError(nil, v, stream, e))
	return errFatal
}

// request is the reusable state of one request.
type request struct {
	body   []byte // aliases the read buffer, or own
	own    []byte // copy of a detached request's body
	plain  []byte // decompressed body
	encode []byte // response body before compression
	work
}

const maxKeptValues = 1024

var requests = sync.Pool{New: func() any { return new(request) }}

func getRequest() *request { return requests.Get().(*request) }

func putRequest(q *request) {
	q.body = nil
	for _, b := range []*[]byte{&q.own, &q.plain, &q.encode} {
		if cap(*b) > maxReadBuffer {
			*b = nil
		}
	}
	q.reset()
	requests.Put(q)
}

func protocolError(text string) *cqlwire.Error {
	return &cqlwire.Error{Code: cqlwire.ErrProtocol, Message: text}
}
