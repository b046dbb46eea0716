package server

import (
	"net"
	"sync"
	"sync/atomic"

	"varve/internal/cqlwire"
)

// maxWriteChunk bounds one write call, so that a slow client shows progress.
const maxWriteChunk = 1 << 20

// maxKeptBuffer bounds the buffers that are kept for reuse, in bytes.
const maxKeptBuffer = 256 << 10

// buffers holds what connections append responses to; an idle one has none.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

func getBuffer() []byte {
	p := buffers.Get().(*[]byte)
	b := (*p)[:0]
	*p = nil
	holders.Put(p)
	return b
}

// holders keeps the pool's pointers, so that returning a buffer does not allocate.
var holders = sync.Pool{New: func() any { return new([]byte) }}

func putBuffer(b []byte) {
	if cap(b) == 0 || cap(b) > maxKeptBuffer {
		return
	}
	p := holders.Get().(*[]byte)
	*p = b
	buffers.Put(p)
}

// outbox collects a connection's response frames. Whoever flushes writes all
// that has been collected, with what is added meanwhile; there is no writer
// goroutine to wake.
type outbox struct {
	nc      net.Conn
	metrics *Metrics
	limit   int // bytes queued at which add waits

	queued     atomic.Int64 // len(pending), to be read without the lock
	writeStart atomic.Int64 // when the write under way began, by Server.now; 0: none
	now        func() int64

	mu      sync.Mutex
	room    sync.Cond // signalled when pending shrinks or the outbox closes
	pending []byte    // whole frames; nil while there are none
	writing bool
	closed  bool
	framed  bool // version 5 after the handshake: segments
	lz4     bool // segments are compressed
}

func (o *outbox) init(nc net.Conn, m *Metrics, limit int, now func() int64) {
	o.nc, o.metrics, o.limit, o.now = nc, m, limit, now
	o.room.L = &o.mu
}

// begin locks the outbox and returns the buffer to append one frame to; end
// must follow, in the same goroutine. It waits while too much is queued. ok is
// false, and end must not follow, when the connection is gone.
func (o *outbox) begin() (b []byte, ok bool) {
	o.mu.Lock()
	o.waitLocked()
	if o.closed {
		o.mu.Unlock()
		return nil, false
	}
	if o.pending == nil {
		o.pending = getBuffer()
	}
	return o.pending, true
}

// end takes the buffer back and returns how many bytes are queued.
func (o *outbox) end(b []byte) (queued int) {
	o.pending = b
	o.queued.Store(int64(len(b)))
	o.mu.Unlock()
	return len(b)
}

// full reports that begin would wait.
func (o *outbox) full() bool { return o.queued.Load() >= int64(o.limit) }

// wait returns when begin would not wait.
func (o *outbox) wait() {
	o.mu.Lock()
	o.waitLocked()
	o.mu.Unlock()
}

func (o *outbox) waitLocked() {
	for len(o.pending) >= o.limit && !o.closed {
		if !o.writing {
			o.flushLocked()
			continue
		}
		o.metrics.Paused.Add(1)
		o.room.Wait()
	}
}

// push adds a whole frame without ever waiting; false when too much is queued.
func (o *outbox) push(frame []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return true
	}
	if len(o.pending) >= 2*o.limit {
		return false
	}
	o.pending = append(o.pending, frame...)
	o.queued.Store(int64(len(o.pending)))
	return true
}

// flush writes what is queued, unless another goroutine is at it (which then
// writes this too).
func (o *outbox) flush() {
	o.mu.Lock()
	if !o.writing {
		o.flushLocked()
	}
	o.mu.Unlock()
}

func (o *outbox) flushLocked() {
	for len(o.pending) > 0 && !o.closed {
		o.writing = true
		b := o.pending
		o.pending = nil
		o.queued.Store(0)
		framed, lz4 := o.framed, o.lz4
		o.mu.Unlock()

		if framed {
			segments := cqlwire.AppendSegments(getBuffer(), b, lz4)
			putBuffer(b)
			b = segments
		}
		err := o.write(b)
		putBuffer(b)

		o.mu.Lock()
		o.writing = false
		if err != nil {
			o.closeLocked()
			_ = o.nc.Close() // the reader sees that, and ends the connection
		}
		o.room.Broadcast()
	}
}

// write is called by the one goroutine that has set writing.
func (o *outbox) write(b []byte) error {
	defer o.writeStart.Store(0)
	for len(b) > 0 {
		o.writeStart.Store(o.now())
		n, err := o.nc.Write(b[:min(len(b), maxWriteChunk)])
		o.metrics.Writes.Add(1)
		o.metrics.BytesSent.Add(int64(n))
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// setFramed switches to segments; what is queued must have been flushed.
func (o *outbox) setFramed(lz4 bool) {
	o.mu.Lock()
	o.framed, o.lz4 = true, lz4
	o.mu.Unlock()
}

// close drops what is queued and lets everyone go who waits for room.
func (o *outbox) close() {
	o.mu.Lock()
	o.closeLocked()
	o.mu.Unlock()
}

func (o *outbox) closeLocked() {
	o.closed = true
	o.pending = nil
	o.queued.Store(0)
	o.room.Broadcast()
}
