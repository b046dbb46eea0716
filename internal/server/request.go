package server

import (
	"fmt"
	"hash/maphash"
	"runtime/debug"
	"time"

	"varve/internal/cql"
	"varve/internal/cqlwire"
	"varve/internal/exec"
	"varve/internal/store"
)

// work is a decoded QUERY, PREPARE, EXECUTE or BATCH; all of it is reused.
type work struct {
	header cqlwire.Header
	kind   Kind
	move   string // the custom payload's varve-move token
	start  int64  // by Server.now
	hash   uint32 // of the statement
	bytes  int64  // reserved of the budgets, when detached
	answer int64  // of the connection's budget for answers, when not the reader's own

	query    cqlwire.Query
	prepare  cqlwire.Prepare
	execute  cqlwire.Execute
	batch    cqlwire.Batch
	items    []exec.BatchItem
	params   exec.Params
	session  exec.Session
	prepared *exec.Prepared // what EXECUTE ran
	made     *exec.Prepared // what PREPARE made
}

func (w *work) reset() {
	values, batch, items := w.query.Params.Values, w.batch, w.items
	executeValues := w.execute.Params.Values
	*w = work{}
	if cap(values) <= maxKeptValues {
		clear(values[:cap(values)])
		w.query.Params.Values = values[:0]
	}
	if cap(executeValues) <= maxKeptValues {
		clear(executeValues[:cap(executeValues)])
		w.execute.Params.Values = executeValues[:0]
	}
	if cap(batch.Statements) <= maxKeptValues && cap(items) <= maxKeptValues {
		clear(batch.Statements[:cap(batch.Statements)])
		clear(items[:cap(items)])
		w.batch.Statements, w.items = batch.Statements[:0], items[:0]
	}
}

// handleBuffered handles every whole request that has been read. owns is false
// once the role is lost; r is then no longer the connection's.
func (c *conn) handleBuffered(r *reader) (owns bool, err error) {
	for !c.draining.Load() {
		f, ok, err := c.next(r)
		if err != nil || !ok {
			return true, err
		}
		if r.reserved > 0 {
			c.halfRead.Store(false)
		}
		owns, err := c.handle(r, f)
		if r.reserved > 0 {
			c.releaseBytes(r.reserved)
			r.reserved = 0
		}
		if !owns || err != nil {
			return owns, err
		}
	}
	return true, nil
}

// handle answers one request, or sees to it that it is answered.
func (c *conn) handle(r *reader, f frame) (owns bool, err error) {
	c.requests.Add(1)
	if c.currentStage() != stageReady {
		start := c.srv.now()
		err = c.handshake(r, f)
		c.srv.Metrics.Kinds[KindOther].Latency.Observe(time.Duration(c.srv.now() - start))
		return true, err
	}
	switch f.header.Opcode {
	case cqlwire.OpExecute, cqlwire.OpQuery, cqlwire.OpBatch, cqlwire.OpPrepare:
		return c.run(r, f)
	case cqlwire.OpOptions:
		c.sendSupported(c.version, f.header.Stream)
	case cqlwire.OpRegister:
		c.register(r, f)
	case cqlwire.OpStartup:
		c.sendError(f.header.Stream, protocolError("Unexpected message STARTUP, the connection is already initialized"))
	case cqlwire.OpAuthResponse:
		if c.srv.opts.Backend.Auth() {
			c.sendError(f.header.Stream, protocolError("Unexpected message AUTH_RESPONSE, the client has logged in"))
		} else {
			c.sendAuthSuccess(f.header.Stream)
		}
	default:
		c.sendError(f.header.Stream, protocolError(fmt.Sprintf("Unexpected message %s", f.header.Opcode)))
	}
	return true, nil
}

// moveKey is what of a request's custom payload the server looks at: the token
// by which a table's fence knows who may pass.
const moveKey = "varve-move"

// plainBody returns a request's message: decompressed, and behind its custom
// payload.
func (c *conn) plainBody(q *request, f frame) (body []byte, err error) {
	body = f.body
	if f.header.Flags&cqlwire.FlagCompressed != 0 && c.compression != cqlwire.CompressionNone {
		q.plain, err = cqlwire.DecompressBody(q.plain[:0], body, c.compression, c.srv.opts.MaxFrameBytes)
		if err != nil {
			return nil, protocolError("Cannot decompress message: " + err.Error())
		}
		body = q.plain
	}
	if f.header.Flags&cqlwire.FlagPayload != 0 && c.version >= cqlwire.V4 {
		move, body, err := cqlwire.CutPayload(body, moveKey)
		if len(move) > store.MaxOriginBytes {
			return nil, protocolError(fmt.Sprintf("The custom payload %s has %d bytes, more than the %d it may have",
				moveKey, len(move), store.MaxOriginBytes))
		}
		q.move = string(move)
		return body, err
	}
	return body, nil
}

// run executes a statement: here, or, where it may take long, elsewhere.
func (c *conn) run(r *reader, f frame) (owns bool, err error) {
	q := r.req
	q.start = c.srv.now()
	q.move = ""
	body, err := c.plainBody(q, f)
	if err == nil {
		q.body = body
		err = q.decode(c.version, f.header)
	}
	if err != nil {
		c.srv.Metrics.ProtocolErrors.Add(1)
		c.sendError(f.header.Stream, cqlwire.AsError(err))
		return true, nil
	}
	if c.out.full() {
		// What the client does not take, it cannot ask for more of.
		c.leaveSlot(r)
		c.out.wait()
	}
	if c.srv.costs.slow(q.hash) || !c.enterSlot(r) {
		return true, c.detach(r)
	}

	q.answer = c.srv.costs.answerBytes(q.hash)
	c.hash, c.answer = q.hash, q.answer
	seq := c.exec.Load() + 1
	c.exec.Store(seq)
	res, err := c.execute(q)
	owns = c.exec.CompareAndSwap(seq, seq+1)

	c.srv.costs.observe(q.hash, time.Duration(c.srv.now()-q.start))
	if !owns {
		c.holdAnswer(q, res)
		c.finish(q, res, err)
		c.answers.release(q.answer)
		putRequest(q)
		return false, nil
	}
	if res != nil && len(res.Data) >= notedAnswer {
		c.srv.costs.answered(q.hash, int64(len(res.Data)))
	}
	return true, c.finishInline(r, q, res, err)
}

// detach gives the reader's request a goroutine of its own.
func (c *conn) detach(r *reader) error {
	q := r.req
	if c.throwOnOverload && !c.executing.fits(1) {
		c.srv.Metrics.Overloaded.Add(1)
		c.sendError(q.header.Stream, c.overloadedRequests())
		return nil
	}
	if err := c.takeSome(r, &c.executing, 1); err != nil {
		return err
	}
	if err := c.takeAnswer(r, q); err != nil {
		c.executing.release(1)
		return err
	}
	n := r.reserved
	r.reserved = 0
	if n == 0 {
		n = int64(len(q.body))
		if c.throwOnOverload && c.bytesShort(n) {
			c.executing.release(1)
			c.answers.release(q.answer)
			c.srv.Metrics.Overloaded.Add(1)
			c.sendError(q.header.Stream, c.overloadedBytes())
			return nil
		}
		if err := c.reserveBytes(n); err != nil {
			c.executing.release(1)
			c.answers.release(q.answer)
			return err
		}
	}
	q.own = append(q.own[:0], q.body...)
	q.body = q.own
	if err := q.decode(c.version, q.header); err != nil {
		return fmt.Errorf("decode a copy: %w", err) // it was decoded before
	}
	q.bytes = n
	c.refs.Add(1) // the reader holds one, so this is not the first
	c.srv.Metrics.Detached.Add(1)
	r.req = getRequest()
	go c.runDetached(q)
	return nil
}

func (c *conn) runDetached(q *request) {
	defer c.release()
	// The time until this goroutine got to run says nothing of the statement.
	start := c.srv.now()
	res, err := c.execute(q)
	c.srv.costs.observe(q.hash, time.Duration(c.srv.now()-start))
	c.holdAnswer(q, res)
	c.finish(q, res, err)
	c.answers.release(q.answer)
	c.releaseBytes(q.bytes)
	putRequest(q)
}

// takeAnswer takes what the answer to a request will probably take: otherwise
// a client that takes nothing could have any number of them made meanwhile.
func (c *conn) takeAnswer(r *reader, q *request) error {
	q.answer = c.srv.costs.answerBytes(q.hash)
	return c.takeSome(r, &c.answers, q.answer)
}

// holdAnswer corrects what was taken for an answer by what it is.
func (c *conn) holdAnswer(q *request, res *exec.Result) {
	n := int64(0)
	if res != nil {
		n = int64(len(res.Data))
	}
	c.srv.costs.answered(q.hash, n)
	if n > q.answer {
		c.answers.force(n - q.answer)
		q.answer = n
	}
}

// takeSome takes n of a budget, waiting for it if it must.
func (c *conn) takeSome(r *reader, b *budget, n int64) error {
	if b.try(n) {
		return nil
	}
	c.srv.Metrics.Paused.Add(1)
	c.leaveSlot(r)
	c.commits.kick(c)
	c.out.flush()
	return b.take(c.ctx, n)
}

var hashSeed = maphash.MakeSeed()

// hashedText bounds how much of a statement's text is hashed, in bytes:
// unprepared statements that begin alike count as one.
const hashedText = 32

// decode reads the request's body.
func (w *request) decode(v cqlwire.Version, h cqlwire.Header) (err error) {
	w.header = h
	switch h.Opcode {
	case cqlwire.OpExecute:
		w.kind = KindExecute
		err = w.execute.Decode(v, w.body)
		w.setParams(&w.execute.Params)
		w.setHash(w.execute.ID)
	case cqlwire.OpQuery:
		w.kind = KindQuery
		err = w.query.Decode(v, w.body)
		w.setParams(&w.query.Params)
		w.setHash(w.query.Text)
	case cqlwire.OpBatch:
		w.kind = KindBatch
		if err = w.batch.Decode(v, w.body); err == nil {
			w.setItems()
		}
		w.setParams(&w.batch.Params)
	case cqlwire.OpPrepare:
		w.kind = KindPrepare
		err = w.prepare.Decode(v, w.body)
		w.hash = 1
	}
	return err
}

func (w *work) setHash(b []byte) {
	w.hash = uint32(maphash.Bytes(hashSeed, b[:min(len(b), hashedText)]))
}

func (w *work) setItems() {
	w.items = w.items[:0]
	for i := range w.batch.Statements {
		s := &w.batch.Statements[i]
		w.items = append(w.items, exec.BatchItem{Text: string(s.Text), ID: s.ID, Values: s.Values})
	}
	if len(w.batch.Statements) > 0 {
		s := &w.batch.Statements[0]
		w.setHash(s.ID)
		if s.ID == nil {
			w.setHash(s.Text)
		}
	}
}

func (w *work) setParams(p *cqlwire.QueryParams) {
	w.params = exec.Params{
		Consistency:       p.Consistency,
		SerialConsistency: p.SerialConsistency,
		Values:            p.Values,
		Names:             p.Names,
		PageSize:          int(p.PageSize),
		PagingState:       p.PagingState,
		Timestamp:         p.Timestamp,
		HasTimestamp:      p.HasTimestamp,
		NowSec:            int64(p.NowInSeconds),
		HasNow:            p.HasNow,
		Keyspace:          p.Keyspace,
		Move:              w.move,
		Tracing:           w.header.Flags&cqlwire.FlagTracing != 0,
	}
}

// execute has the backend carry out a request.
func (c *conn) execute(q *request) (res *exec.Result, err error) {
	defer c.recoverPanic(q.kind.String(), &err)
	b := c.srv.opts.Backend
	s := &q.session
	*s = exec.Session{
		Keyspace:        *c.keyspace.Load(),
		Role:            c.role,
		ProtocolVersion: int(c.version),
		Client:          c.remote,
	}
	q.prepared, q.made = nil, nil
	switch q.kind {
	case KindExecute:
		q.prepared, err = b.Lookup(c.ctx, s, q.execute.ID)
		if err != nil {
			return nil, err
		}
		res, err = b.Execute(c.ctx, s, q.prepared, &q.params)
	case KindQuery:
		res, err = b.Query(c.ctx, s, string(q.query.Text), &q.params)
	case KindBatch:
		res, err = b.Batch(c.ctx, s, cql.BatchKind(q.batch.Type), q.items, &q.params)
	case KindPrepare:
		q.made, err = b.Prepare(c.ctx, s, q.prepare.Text, q.prepare.Keyspace)
	}
	if err == nil && res != nil && res.Kind == cqlwire.ResultSetKeyspace {
		c.keyspace.Store(&res.Keyspace)
	}
	return res, err
}

// recoverPanic turns a panic of the backend into a server error, so that one
// bad request does not take down everyone.
func (c *conn) recoverPanic(what string, err *error) {
	p := recover()
	if p == nil {
		return
	}
	c.srv.Metrics.Panics.Add(1)
	c.srv.log.Error("panic while executing a request", "request", what, "client", c.remote,
		"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	*err = &cqlwire.Error{Code: cqlwire.ErrServer, Message: fmt.Sprintf("Internal error: %v", p)}
}
