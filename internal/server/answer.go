package server

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"varve/internal/cqlwire"
	"varve/internal/exec"
)

// flushBytes is how many response bytes a reader lets queue up before it
// writes them although more requests are waiting.
const flushBytes = 128 << 10

// flushAfter is likewise how long it lets answers wait for company.
const flushAfter = 500 * time.Microsecond

// maxResponseBytes bounds a response's body: what the protocol allows a frame.
const maxResponseBytes = 256 << 20

// minCompressBody is the size in bytes below which a body is sent plain.
const minCompressBody = 512

// answer is what is needed to write a response; it holds nothing of the request.
type answer struct {
	stream        int16
	kind          Kind
	statement     StatementKind // NumStatements: none
	noMetadata    bool
	start         int64
	newMetadataID []byte
	res           *exec.Result
	made          *exec.Prepared // PREPARE
}

// answerTo decides how a result is shown.
func (c *conn) answerTo(q *request, res *exec.Result) answer {
	a := answer{stream: q.header.Stream, kind: q.kind, statement: NumStatements, start: q.start, res: res, made: q.made}
	if k, ok := q.statement(); ok {
		a.statement = k
	}
	if res == nil || res.Kind != cqlwire.ResultRows {
		return a
	}
	switch q.kind {
	case KindQuery:
		a.noMetadata = q.query.Params.SkipMetadata
	case KindExecute:
		if res.MetadataID == nil {
			// Columns that depend on the outcome are told each time and never
			// to be kept: the outcome of another request may be a different one.
			break
		}
		skip := q.execute.Params.SkipMetadata
		switch same := bytes.Equal(res.MetadataID, q.execute.ResultMetadataID); {
		case c.version < cqlwire.V5:
			a.noMetadata = skip && !q.prepared.ColumnsChanged
		case same:
			a.noMetadata = skip
		default:
			a.newMetadataID = res.MetadataID
		}
	}
	return a
}

// finishInline is finish for a request that the reader executed.
func (c *conn) finishInline(r *reader, q *request, res *exec.Result, err error) error {
	queued := 0
	if err == nil && res != nil && res.Commit != nil {
		if err := c.takeSome(r, &c.inflight, 1); err != nil {
			// The connection ends, but the write is done: its commit is still to be waited for.
			c.inflight.force(1)
			c.commits.add(c.answerTo(q, res))
			c.commits.kick(c)
			return err
		}
		c.commits.add(c.answerTo(q, res))
	} else {
		queued = c.send(c.answerTo(q, res), err)
	}
	if queued >= flushBytes || q.start-r.flushed >= int64(flushAfter) {
		r.flushed = q.start
		c.commits.kick(c)
		c.out.flush()
	}
	return nil
}

// finish answers a request that another goroutine than the reader executed, at
// once or after its commit.
func (c *conn) finish(q *request, res *exec.Result, err error) {
	if err == nil && res != nil && res.Commit != nil {
		// Over the limit if it must be: the write is done.
		c.inflight.force(1)
		c.commits.add(c.answerTo(q, res))
		c.commits.kick(c)
	} else {
		c.send(c.answerTo(q, res), err)
		c.out.flush()
	}
	c.executing.release(1)
}

// send queues a response and returns how many bytes are queued.
func (c *conn) send(a answer, err error) int {
	m := &c.srv.Metrics.Kinds[a.kind]
	took := time.Duration(c.srv.now() - a.start)
	m.Latency.Observe(took)
	if a.statement < NumStatements {
		c.srv.Metrics.Statements[a.statement].Observe(took)
	}
	var e *cqlwire.Error
	if err != nil {
		m.Errors.Add(1)
		e = cqlwire.AsError(err)
	}
	if a.res != nil && len(a.res.Data) > maxResponseBytes-maxStringsRoom {
		e = &cqlwire.Error{Code: cqlwire.ErrServer, Message: fmt.Sprintf(
			"Result of %d bytes exceeds the protocol's frame size; use a smaller page", len(a.res.Data))}
	}
	n := c.encode(&a, e)
	if a.res != nil && a.res.Release != nil {
		a.res.Release()
	}
	return n
}

// maxStringsRoom is what a response may hold beside its rows.
const maxStringsRoom = 16 << 20

// encode appends the response to the outbox. Whatever the backend returned,
// the outbox is left unlocked and with whole frames only.
func (c *conn) encode(a *answer, e *cqlwire.Error) (queued int) {
	if c.compression != cqlwire.CompressionNone {
		return c.encodeCompressed(a, e)
	}
	b, ok := c.out.begin()
	if !ok {
		return 0
	}
	start := len(b)
	defer func() {
		if p := recover(); p != nil {
			b = c.encodePanicked(b[:start], a, p)
		}
		queued = c.out.end(b)
	}()
	b = appendResponse(b, c.version, a, e)
	return 0
}

func (c *conn) encodePanicked(b []byte, a *answer, p any) []byte {
	c.srv.Metrics.Panics.Add(1)
	c.srv.log.Error("panic while encoding a response", "client", c.remote, "panic", fmt.Sprint(p))
	return appendError(b, c.version, a.stream, &cqlwire.Error{
		Code: cqlwire.ErrServer, Message: fmt.Sprintf("Internal error: %v", p),
	})
}

var scratch = sync.Pool{New: func() any { return new([]byte) }}

// encodeCompressed is encode for protocol versions that compress bodies one by one.
func (c *conn) encodeCompressed(a *answer, e *cqlwire.Error) int {
	p := scratch.Get().(*[]byte)
	plain := c.encodePlain((*p)[:0], a, e)
	b, ok := c.out.begin()
	if !ok {
		return 0
	}
	if body := plain[cqlwire.HeaderSize:]; len(body) >= minCompressBody {
		start := len(b)
		b = append(b, plain[:cqlwire.HeaderSize]...)
		b[start+1] |= byte(cqlwire.FlagCompressed)
		b = cqlwire.CompressBody(b, body, c.compression)
		cqlwire.EndFrame(b, start)
	} else {
		b = append(b, plain...)
	}
	queued := c.out.end(b)
	if cap(plain) <= maxKeptBuffer {
		*p = plain
		scratch.Put(p)
	}
	return queued
}

func (c *conn) encodePlain(b []byte, a *answer, e *cqlwire.Error) (out []byte) {
	defer func() {
		if p := recover(); p != nil {
			out = c.encodePanicked(b[:0], a, p)
		}
	}()
	return appendResponse(b, c.version, a, e)
}

// appendResponse writes a whole frame.
func appendResponse(b []byte, v cqlwire.Version, a *answer, e *cqlwire.Error) []byte {
	var x cqlwire.Extras
	if a.made != nil {
		x.Warnings = a.made.Warnings
	}
	if a.res != nil {
		x.Warnings = a.res.Warnings
		x.TraceID = (*[16]byte)(a.res.TraceID)
	}
	op := cqlwire.OpResult
	if e != nil {
		op = cqlwire.OpError
		if len(e.Warnings) > 0 {
			x.Warnings = e.Warnings
		}
		x.TraceID = e.TraceID
	}
	start := len(b)
	flags := x.Flags(v)
	b = cqlwire.BeginResponse(b, v, flags, a.stream, op)
	if flags != 0 {
		b = x.Append(b, flags)
	}
	switch {
	case e != nil:
		b = e.Append(b, v)
	case a.made != nil:
		b = appendPrepared(b, v, a.made)
	default:
		b = appendResult(b, v, a)
	}
	cqlwire.EndFrame(b, start)
	return b
}

func appendResult(b []byte, v cqlwire.Version, a *answer) []byte {
	res := a.res
	switch res.Kind {
	case cqlwire.ResultVoid:
		return cqlwire.AppendVoid(b)
	case cqlwire.ResultRows:
		h := cqlwire.RowsHeader{
			Columns:       res.Columns,
			PagingState:   res.PagingState,
			NoMetadata:    a.noMetadata,
			NewMetadataID: a.newMetadataID,
			Count:         res.Count,
		}
		return append(cqlwire.AppendRowsHeader(b, v, &h), res.Data...)
	case cqlwire.ResultSetKeyspace:
		return cqlwire.AppendSetKeyspace(b, res.Keyspace)
	case cqlwire.ResultSchemaChange:
		ch := res.Change
		return cqlwire.AppendSchemaChange(b, &cqlwire.SchemaChange{
			Change: ch.Change, Target: ch.Target, Keyspace: ch.Keyspace, Name: ch.Name,
		})
	}
	panic(fmt.Sprintf("result of unknown kind %d", res.Kind))
}

func appendPrepared(b []byte, v cqlwire.Version, ps *exec.Prepared) []byte {
	m := cqlwire.Prepared{
		ID:               ps.ID,
		ResultMetadataID: ps.ResultMetadataID,
		PartitionKey:     ps.PartitionKeyIdx,
		Variables:        ps.Variables,
		Columns:          ps.ResultColumns,
	}
	return m.Append(b, v)
}

func appendError(b []byte, v cqlwire.Version, stream int16, e *cqlwire.Error) []byte {
	start := len(b)
	x := cqlwire.Extras{Warnings: e.Warnings}
	flags := x.Flags(v)
	b = cqlwire.BeginResponse(b, v, flags, stream, cqlwire.OpError)
	b = e.Append(x.Append(b, flags), v)
	cqlwire.EndFrame(b, start)
	return b
}

// sendError answers a request that does not get as far as the backend.
func (c *conn) sendError(stream int16, e *cqlwire.Error) {
	c.answerIn(c.version, stream, e)
}

// answerIn is sendError in a version of the client's choosing, if it is spoken.
func (c *conn) answerIn(v cqlwire.Version, stream int16, e *cqlwire.Error) {
	if !v.Supported() {
		v = cqlwire.MaxVersion
	}
	if b, ok := c.out.begin(); ok {
		c.out.end(appendError(b, v, stream, e))
	}
}

// fatal queues the last answer of a connection and returns errFatal.
func (c *conn) fatal(stream int16, e *cqlwire.Error) error {
	c.srv.Metrics.ProtocolErrors.Add(1)
	c.answerIn(c.version, stream, e)
	return errFatal
}

func (c *conn) tooBig(total int64) *cqlwire.Error {
	return &cqlwire.Error{Code: cqlwire.ErrInvalid, Message: fmt.Sprintf(
		"Request is too big: length %d exceeds maximum allowed length %d.", total, c.maxFrame())}
}

// bytesShort reports that n more bytes would have to wait.
func (c *conn) bytesShort(n int64) bool {
	return !c.host.bytes.fits(n) || !c.srv.bytes.fits(n)
}

func (c *conn) overloadedBytes() *cqlwire.Error {
	return &cqlwire.Error{Code: cqlwire.ErrOverloaded, Message: fmt.Sprintf(
		"Request breached limit on bytes in flight. (Endpoint: %d/%d bytes, Global: %d/%d bytes.) "+
			"Server is currently in an overloaded state and cannot accept more requests.",
		c.host.bytes.used.Load(), c.host.bytes.limit, c.srv.bytes.used.Load(), c.srv.bytes.limit)}
}

func (c *conn) overloadedRequests() *cqlwire.Error {
	return &cqlwire.Error{Code: cqlwire.ErrOverloaded, Message: fmt.Sprintf(
		"Request breached limit of %d concurrent requests on a connection. "+
			"Server is currently in an overloaded state and cannot accept more requests.", c.executing.limit)}
}
