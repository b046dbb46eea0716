package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"varve/internal/cqlwire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dialects are the ways to talk to the server.
var dialects = []struct {
	v    cqlwire.Version
	comp string
}{
	{cqlwire.V3, ""},
	{cqlwire.V3, "snappy"},
	{cqlwire.V4, ""},
	{cqlwire.V4, "lz4"},
	{cqlwire.V4, "snappy"},
	{cqlwire.V5, ""},
	{cqlwire.V5, "lz4"},
}

// inAllDialects runs a test once for each version and compression.
func inAllDialects(t *testing.T, s *Server, test func(t *testing.T, c *client)) {
	for _, d := range dialects {
		t.Run(strings.Trim(fmt.Sprintf("v%d %s", d.v, d.comp), " "), func(t *testing.T) {
			var options []string
			if d.comp != "" {
				options = []string{cqlwire.OptCompression, d.comp}
			}
			test(t, ready(t, s, d.v, options...))
		})
	}
}

func TestQueries(t *testing.T) {
	f := newFake()
	s := start(t, f, nil)
	inAllDialects(t, s, func(t *testing.T, c *client) {
		if res := c.ask("void"); res.Kind != cqlwire.ResultVoid {
			t.Errorf("void: %+v", res)
		}
		p := cqlwire.QueryParams{Values: []cqlwire.Value{{Bytes: []byte("a")}, {}, {Bytes: []byte{}}, {Unset: true}}}
		want := []string{"a", "null", "", "unset"}
		if c.v < cqlwire.V4 {
			want[3] = "null"
		}
		if d := cmp.Diff(want, cells(t, c.askWith("values", p))); d != "" {
			t.Error(d)
		}
		res := c.askWith("page", cqlwire.QueryParams{PageSize: 50, PagingState: []byte("here")})
		if d := cmp.Diff([]string{"50", "here"}, cells(t, res)); d != "" || string(res.Rows.PagingState) != "next page" {
			t.Error(d, res.Rows.PagingState)
		}
		res = c.askWith("big 10", cqlwire.QueryParams{SkipMetadata: true})
		if res.Rows.Columns != nil || res.Rows.ColumnCount != 1 {
			t.Errorf("columns sent although not asked for: %+v", res.Rows)
		}
		if res := c.ask("create x"); res.Kind != cqlwire.ResultSchemaChange || res.Schema.Name != "x" {
			t.Errorf("create: %+v", res)
		}
	})
	if f.released.Load() == 0 {
		t.Error("no result was released")
	}
}

func TestBigResults(t *testing.T) {
	s := start(t, newFake(), nil)
	inAllDialects(t, s, func(t *testing.T, c *client) {
		for _, n := range []int{0, 1000, cqlwire.MaxSegmentPayload - 60, cqlwire.MaxSegmentPayload, 2 << 20} {
			res := c.ask(fmt.Sprintf("big %d", n))
			if got := len(cells(t, res)[0]); got != n {
				t.Errorf("%d bytes of %d", got, n)
			}
		}
	})
}

// TestBigRequests sends requests over several segments and reads.
func TestBigRequests(t *testing.T) {
	s := start(t, newFake(), nil)
	inAllDialects(t, s, func(t *testing.T, c *client) {
		for _, n := range []int{1000, 70_000, cqlwire.MaxSegmentPayload + 1, 2 << 20} {
			value := bytes.Repeat([]byte("0123456789"), n/10)
			res := c.askWith("values", cqlwire.QueryParams{Values: []cqlwire.Value{{Bytes: value}}})
			if got := cells(t, res)[0]; got != string(value) {
				t.Errorf("%d bytes came back as %d", len(value), len(got))
			}
		}
	})
	if n := s.bytes.used.Load(); n != 0 {
		t.Errorf("%d bytes still reserved", n)
	}
}

func TestManyValues(t *testing.T) {
	s := start(t, newFake(), nil)
	inAllDialects(t, s, func(t *testing.T, c *client) {
		res := c.askWith("count", cqlwire.QueryParams{Values: make([]cqlwire.Value, 65535)})
		if got := cells(t, res)[0]; got != "65535" {
			t.Error(got)
		}
	})
}

func TestPrepared(t *testing.T) {
	s := start(t, newFake(), nil)
	inAllDialects(t, s, func(t *testing.T, c *client) {
		c.send(cqlwire.OpPrepare, 3, 0, (&cqlwire.Prepare{Text: "values"}).Append(nil, c.v))
		res := c.result(c.recv())
		ps := res.Prepared
		if res.Kind != cqlwire.ResultPrepared || len(ps.Variables) != 1 || len(ps.Columns) != 1 {
			t.Fatalf("%+v", res)
		}
		execute := func(metadataID []byte, skip bool) cqlwire.Rows {
			m := cqlwire.Execute{ID: ps.ID, ResultMetadataID: metadataID, Params: cqlwire.QueryParams{
				SkipMetadata: skip, Values: []cqlwire.Value{{Bytes: []byte("x")}},
			}}
			c.send(cqlwire.OpExecute, 4, 0, m.Append(nil, c.v))
			res := c.result(c.recv())
			if got := cells(t, res); got[0] != "x" {
				t.Errorf("got %q", got)
			}
			return res.Rows
		}
		if rows := execute(ps.ResultMetadataID, true); rows.Columns != nil || rows.NewMetadataID != nil {
			t.Errorf("known columns sent: %+v", rows)
		}
		if rows := execute(ps.ResultMetadataID, false); rows.Columns == nil {
			t.Error("columns asked for, not sent")
		}
		if c.v >= cqlwire.V5 {
			rows := execute([]byte("some other columns"), true)
			if !bytes.Equal(rows.NewMetadataID, ps.ResultMetadataID) || rows.Columns == nil {
				t.Errorf("change of columns not told: %+v", rows)
			}
		}
		m := cqlwire.Execute{ID: []byte("unknown")}
		c.send(cqlwire.OpExecute, 4, 0, m.Append(nil, c.v))
		e := c.wantError(c.recv(), cqlwire.ErrUnprepared, "unprepared")
		if string(e.StatementID) != "unknown" {
			t.Errorf("id %q", e.StatementID)
		}
		c.send(cqlwire.OpPrepare, 3, 0, (&cqlwire.Prepare{Text: "bad"}).Append(nil, c.v))
		c.wantError(c.recv(), cqlwire.ErrSyntax, "bad")
	})
}

// TestColumnsAlwaysTold executes statements whose columns a client may not take
// for granted: they are sent although it asks to skip them.
func TestColumnsAlwaysTold(t *testing.T) {
	backend := newFake()
	s := start(t, backend, nil)
	inAllDialects(t, s, func(t *testing.T, c *client) {
		execute := func(text string, changed bool) cqlwire.Rows {
			c.send(cqlwire.OpPrepare, 3, 0, (&cqlwire.Prepare{Text: text}).Append(nil, c.v))
			ps := c.result(c.recv()).Prepared
			backend.setColumnsChanged(ps.ID, changed)
			m := cqlwire.Execute{ID: ps.ID, ResultMetadataID: ps.ResultMetadataID, Params: cqlwire.QueryParams{
				SkipMetadata: true, Values: []cqlwire.Value{{Bytes: []byte("x")}},
			}}
			c.send(cqlwire.OpExecute, 4, 0, m.Append(nil, c.v))
			return c.result(c.recv()).Rows
		}
		if rows := execute("outcome", false); rows.Columns == nil || rows.NewMetadataID != nil {
			t.Errorf("columns that depend on the outcome: %+v", rows)
		}
		// From version 5 on the id tells which columns the client knows.
		if rows := execute("values", true); (rows.Columns == nil) != (c.v >= cqlwire.V5) {
			t.Errorf("columns that changed once: %+v", rows)
		}
	})
}

func TestBatch(t *testing.T) {
	s := start(t, newFake(), nil)
	inAllDialects(t, s, func(t *testing.T, c *client) {
		m := cqlwire.Batch{Type: cqlwire.BatchUnlogged, Statements: []cqlwire.BatchStatement{
			{Text: []byte("INSERT"), Values: make([]cqlwire.Value, 2)},
			{ID: []byte{1, 2}},
		}}
		c.send(cqlwire.OpBatch, 4, 0, m.Append(nil, c.v))
		want := []string{"1/INSERT//2", "1//0102/0"}
		if d := cmp.Diff(want, cells(t, c.result(c.recv()))); d != "" {
			t.Error(d)
		}
	})
}

func TestWarningsTracesAndErrors(t *testing.T) {
	s := start(t, newFake(), nil)
	inAllDialects(t, s, func(t *testing.T, c *client) {
		c.query(5, "warn one,two", cqlwire.QueryParams{})
		r := c.recv()
		want := []string{"one", "two"}
		if c.v < cqlwire.V4 {
			want = nil
		}
		if d := cmp.Diff(want, r.Warnings); d != "" {
			t.Error(d)
		}
		c.result(r)

		c.send(cqlwire.OpQuery, 5, cqlwire.FlagTracing, c.queryBody("trace", cqlwire.QueryParams{}))
		r = c.recv()
		if r.TraceID == nil || r.TraceID[2] != 3 || cells(t, c.result(r))[0] != "true" {
			t.Errorf("trace %v", r.TraceID)
		}

		c.query(6, "fail too bad", cqlwire.QueryParams{})
		r = c.recv()
		if r.Stream != 6 {
			t.Errorf("stream %d", r.Stream)
		}
		if c.v < cqlwire.V4 {
			c.wantError(r, cqlwire.ErrReadTimeout, "Operation timed out - received only 0 responses.")
		} else {
			c.wantError(r, cqlwire.ErrReadFailure, "too bad")
			if d := cmp.Diff([]string{"careful"}, r.Warnings); d != "" {
				t.Error(d)
			}
		}
		c.query(6, "plainfail disk full", cqlwire.QueryParams{})
		c.wantError(c.recv(), cqlwire.ErrServer, "disk full")
	})
}

// TestCustomPayload: of a payload the backend is told the token of a move, for this request only.
func TestCustomPayload(t *testing.T) {
	s := start(t, newFake(), nil)
	for _, v := range []cqlwire.Version{cqlwire.V4, cqlwire.V5} {
		c := ready(t, s, v)
		ask := func(payload map[string][]byte, want string) {
			t.Helper()
			body := cqlwire.AppendBytesMap(nil, payload)
			c.send(cqlwire.OpQuery, 1, cqlwire.FlagPayload, append(body, c.queryBody("move", cqlwire.QueryParams{})...))
			if got := cells(t, c.result(c.recv()))[0]; got != want {
				t.Errorf("payload %q: the backend was told %q", payload, got)
			}
		}
		ask(map[string][]byte{"key": []byte("value"), "null": nil}, "")
		ask(map[string][]byte{"key": []byte("value"), "varve-move": []byte("token")}, "token")
		ask(map[string][]byte{"varve-move": nil}, "")
		if got := cells(t, c.ask("move"))[0]; got != "" {
			t.Errorf("without a payload the backend was told %q", got)
		}
		body := cqlwire.AppendBytesMap(nil, map[string][]byte{"varve-move": make([]byte, 129)})
		c.send(cqlwire.OpQuery, 1, cqlwire.FlagPayload, append(body, c.queryBody("move", cqlwire.QueryParams{})...))
		c.wantError(c.recv(), cqlwire.ErrProtocol, "The custom payload varve-move has 129 bytes, more than the 128 it may have")
	}
}

func TestUseAndSession(t *testing.T) {
	s := start(t, newFake(), nil)
	inAllDialects(t, s, func(t *testing.T, c *client) {
		if got := cells(t, c.ask("session"))[0]; got != fmt.Sprintf("//%d/", c.v) {
			t.Error(got)
		}
		if res := c.ask("use chat"); res.Kind != cqlwire.ResultSetKeyspace || res.Keyspace != "chat" {
			t.Errorf("%+v", res)
		}
		want := fmt.Sprintf("chat//%d/", c.v)
		p := cqlwire.QueryParams{}
		if c.v >= cqlwire.V5 {
			p.Keyspace = "other"
			want += "other"
		}
		if got := cells(t, c.askWith("session", p))[0]; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// TestPanic: the backend's panics, and results that cannot be encoded, are errors.
func TestPanic(t *testing.T) {
	s := start(t, newFake(), nil)
	inAllDialects(t, s, func(t *testing.T, c *client) {
		c.query(1, "panic", cqlwire.QueryParams{})
		c.wantError(c.recv(), cqlwire.ErrServer, "Internal error: the fake was told to")
		c.query(1, "broken", cqlwire.QueryParams{})
		c.wantError(c.recv(), cqlwire.ErrServer, "Internal error: result of unknown kind 99")
		c.ask("void")
	})
	if n := s.Metrics.Panics.Load(); n != int64(2*len(dialects)) {
		t.Errorf("%d panics counted", n)
	}
}

// TestSlowRequestHoldsUpNobody: what comes behind a request that blocks is answered.
func TestSlowRequestHoldsUpNobody(t *testing.T) {
	f := newFake()
	s := start(t, f, nil)
	inAllDialects(t, s, func(t *testing.T, c *client) {
		const blocked = 5
		for i := range int16(blocked) {
			c.query(100+i, fmt.Sprintf("block %s %d", t.Name(), i), cqlwire.QueryParams{})
		}
		for i := range int16(20) {
			c.query(i, "void", cqlwire.QueryParams{})
		}
		for range 20 {
			if r := c.recv(); r.Stream >= 100 {
				t.Fatal("a blocked request was answered")
			}
		}
		for i := blocked - 1; i >= 0; i-- {
			close(f.gate(fmt.Sprintf("%s %d", t.Name(), i)))
			if r := c.recv(); int(r.Stream) != 100+i {
				t.Fatalf("answer on stream %d", r.Stream)
			}
		}
	})
	if s.Metrics.Stolen.Load() == 0 {
		t.Error("nothing was stolen")
	}
}

// TestSlowStatementsAreDetached: a statement that was slow gets a goroutine.
func TestSlowStatementsAreDetached(t *testing.T) {
	s := start(t, newFake(), nil)
	c := ready(t, s, cqlwire.V5)
	for range 5 {
		c.ask("spin 4ms")
	}
	if s.Metrics.Detached.Load() == 0 {
		t.Error("nothing was detached")
	}
}

func TestCommits(t *testing.T) {
	f := newFake()
	hold := make(chan struct{})
	f.onCommit = func() { <-hold }
	s := start(t, f, nil)
	inAllDialects(t, s, func(t *testing.T, c *client) {
		hold = make(chan struct{})
		waited := f.waited.Load()
		for i := range int16(200) {
			c.query(i, "commit", cqlwire.QueryParams{})
		}
		c.query(300, "void", cqlwire.QueryParams{})
		if r := c.recv(); r.Stream != 300 {
			t.Fatalf("stream %d was answered before it was durable", r.Stream)
		}
		close(hold)
		answered := map[int16]bool{}
		for range 200 {
			answered[c.recv().Stream] = true
		}
		if len(answered) != 200 || answered[300] {
			t.Errorf("%d streams answered", len(answered))
		}
		if n := f.waited.Load() - waited; n != 200 {
			t.Errorf("%d commits waited for", n)
		}
	})
}

func TestCancelledWhenTheClientLeaves(t *testing.T) {
	f := newFake()
	s := start(t, f, nil)
	inAllDialects(t, s, func(t *testing.T, c *client) {
		before := f.cancelled.Load()
		c.query(1, "block for ever", cqlwire.QueryParams{})
		eventually(t, "running", func() bool { return f.running.Load() == 1 })
		c.nc.Close()
		eventually(t, "cancelled", func() bool { return f.cancelled.Load() == before+1 })
	})
	eventually(t, "all gone", func() bool { return s.Metrics.Connections.Load() == 0 && len(s.Clients()) == 0 })
}

func TestExecutingLimit(t *testing.T) {
	f := newFake()
	s := start(t, f, func(o *Options) { o.MaxExecuting = 4 })
	t.Run("waits", func(t *testing.T) {
		c := ready(t, s, cqlwire.V5)
		for i := range int16(20) {
			c.query(i, "block a", cqlwire.QueryParams{})
		}
		// The reader's own one comes on top.
		eventually(t, "full", func() bool { return f.running.Load() >= 4 })
		close(f.gate("a"))
		for range 20 {
			c.result(c.recv())
		}
	})
	t.Run("throws", func(t *testing.T) {
		c := ready(t, s, cqlwire.V5, cqlwire.OptThrowOnOverload, "1")
		for i := range int16(40) {
			c.query(i, "block b", cqlwire.QueryParams{})
		}
		r := c.recv()
		c.wantError(r, cqlwire.ErrOverloaded, "Request breached limit of 4 concurrent requests on a connection. "+
			"Server is currently in an overloaded state and cannot accept more requests.")
		close(f.gate("b"))
		for range 39 {
			c.recv()
		}
	})
}

// TestInFlightLimit: no more writes are read than may await their commit.
func TestInFlightLimit(t *testing.T) {
	f := newFake()
	hold := make(chan struct{})
	f.onCommit = func() { <-hold }
	s := start(t, f, func(o *Options) { o.MaxInFlight = 8 })
	c := ready(t, s, cqlwire.V5)
	for i := range int16(100) {
		c.query(i, "commit", cqlwire.QueryParams{})
	}
	eventually(t, "the reader waits", func() bool { return s.Metrics.Paused.Load() > 0 })
	if n := s.Clients()[0].Requests; n > 20 {
		t.Errorf("%d requests were taken in", n)
	}
	close(hold)
	for range 100 {
		c.result(c.recv())
	}
}

// TestCommitOfCutOffWrite: a write whose connection ends while the reader waits
// for room has its commit waited for like any other.
func TestCommitOfCutOffWrite(t *testing.T) {
	f := newFake()
	hold := make(chan struct{})
	f.onCommit = func() { <-hold }
	s := start(t, f, func(o *Options) { o.MaxInFlight = 8 })
	c := ready(t, s, cqlwire.V5)
	for i := range int16(100) {
		c.query(i, "commit", cqlwire.QueryParams{})
	}
	eventually(t, "the reader waits", func() bool { return s.Metrics.Paused.Load() > 0 })
	over, cancel := context.WithCancel(context.Background())
	cancel()
	closed := make(chan error, 1)
	go func() { closed <- s.Close(over) }()
	c.wantClosed()
	close(hold)
	if err := <-closed; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if n := f.waited.Load(); n != 9 {
		t.Errorf("%d commits were waited for, want 8 in flight and the one at the limit", n)
	}
}

func TestBytesInFlightLimit(t *testing.T) {
	f := newFake()
	s := start(t, f, func(o *Options) { o.MaxInFlightBytesPerIP = 1 << 20 })
	c := ready(t, s, cqlwire.V4)
	big := cqlwire.QueryParams{Values: []cqlwire.Value{{Bytes: make([]byte, 800<<10)}}}
	c.query(1, "block big", big)
	eventually(t, "running", func() bool { return f.running.Load() == 1 && s.bytes.used.Load() > 800<<10 })

	d := ready(t, s, cqlwire.V4, cqlwire.OptThrowOnOverload, "1")
	d.query(2, "values", big)
	r := d.recv()
	var e cqlwire.Error
	if err := e.Decode(d.v, r.body); err != nil || e.Code != cqlwire.ErrOverloaded ||
		!strings.HasPrefix(e.Message, "Request breached limit on bytes in flight. (Endpoint: ") {
		t.Fatalf("%v %q", err, r.body)
	}
	d.ask("void")

	patient := ready(t, s, cqlwire.V4)
	patient.query(3, "values", big)
	eventually(t, "a reader waits", func() bool { return s.Metrics.Paused.Load() > 0 })
	close(f.gate("big"))
	c.result(c.recv())
	patient.result(patient.recv())
	eventually(t, "all released", func() bool { return s.bytes.used.Load() == 0 })
}

// TestSlowReader: a client that takes nothing stops being read, keeps to its
// bound of queued bytes, is closed in the end, and disturbs nobody.
func TestSlowReader(t *testing.T) {
	f := newFake()
	s := start(t, f, func(o *Options) {
		o.MaxQueuedBytes = 1 << 20
		o.WriteTimeout = 500 * time.Millisecond
	})
	c := ready(t, s, cqlwire.V5)
	_ = c.nc.(*net.TCPConn).SetReadBuffer(4 << 10)
	go func() {
		request := c.pack(c.frame(cqlwire.OpQuery, 1, 0, c.queryBody("big 200000", cqlwire.QueryParams{})))
		for {
			if _, err := c.nc.Write(request); err != nil {
				return
			}
		}
	}()
	neighbour := ready(t, s, cqlwire.V5)
	for range 50 {
		neighbour.ask("void")
	}
	eventually(t, "closed", func() bool { return s.Metrics.SlowClients.Load() == 1 && s.Metrics.Connections.Load() == 1 })
	neighbour.ask("void")
}

// TestAnswersInTheMaking: answers that would not fit the queue together are not
// made together.
func TestAnswersInTheMaking(t *testing.T) {
	f := newFake()
	s := start(t, f, func(o *Options) { o.MaxQueuedBytes = 1 << 20 })
	c := ready(t, s, cqlwire.V5)
	text := "heavy" + strings.Repeat(" ", hashedText) // what follows is not hashed
	for range 5 {
		c.ask(text)
	}
	f.heavyPeak.Store(0)
	paused := s.Metrics.Paused.Load()
	const n = 10
	for i := range int16(n) {
		c.query(i, text+"gate", cqlwire.QueryParams{})
	}
	eventually(t, "paused", func() bool { return s.Metrics.Paused.Load() > paused })
	ready(t, s, cqlwire.V5).ask("void")
	close(f.gate("gate"))
	for range n {
		if got := len(c.recv().body); got < heavyAnswer {
			t.Fatalf("an answer of %d bytes", got)
		}
	}
	if got := f.heavyPeak.Load(); got != 1 {
		t.Errorf("%d answers were made at a time", got)
	}
}

func TestGracefulClose(t *testing.T) {
	f := newFake()
	s := start(t, f, nil)
	c, idle := ready(t, s, cqlwire.V5), ready(t, s, cqlwire.V4)
	c.query(1, "block close", cqlwire.QueryParams{})
	eventually(t, "running", func() bool { return f.running.Load() == 1 })
	done := make(chan error)
	go func() { done <- s.Close(context.Background()) }()
	idle.wantClosed()
	if _, err := net.Dial("tcp", s.Addrs()[0].String()); err == nil {
		eventually(t, "not accepting", func() bool {
			nc, err := net.Dial("tcp", s.Addrs()[0].String())
			if err == nil {
				nc.Close()
			}
			return err != nil
		})
	}
	close(f.gate("close"))
	c.result(c.recv())
	c.wantClosed()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestCloseCutsOff(t *testing.T) {
	f := newFake()
	s := start(t, f, nil)
	c := ready(t, s, cqlwire.V5)
	c.query(1, "block cut", cqlwire.QueryParams{})
	eventually(t, "running", func() bool { return f.running.Load() == 1 })
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if f.cancelled.Load() != 1 {
		t.Error("the request was not cancelled")
	}
	c.wantClosed()
}

func TestClients(t *testing.T) {
	s := start(t, newFake(), nil)
	c := ready(t, s, cqlwire.V5, cqlwire.OptDriverName, "raw", cqlwire.OptDriverVersion, "1.2")
	c.ask("use chat")
	list := s.Clients()
	if len(list) != 1 {
		t.Fatalf("%d clients", len(list))
	}
	i := list[0]
	if i.Keyspace != "chat" || i.Protocol != 5 || i.Stage != "ready" || i.DriverName != "raw" ||
		i.DriverVersion != "1.2" || i.Requests != 2 || i.Username != "anonymous" || i.SSL ||
		i.Addr.String() != c.nc.LocalAddr().String() {
		t.Errorf("%+v", i)
	}
}

// TestPipelining sends many requests in one write, cut at every kind of place.
func TestPipelining(t *testing.T) {
	s := start(t, newFake(), nil)
	inAllDialects(t, s, func(t *testing.T, c *client) {
		var frames []byte
		const n = 300
		for i := range int16(n) {
			p := cqlwire.QueryParams{Values: []cqlwire.Value{{Bytes: fmt.Appendf(nil, "%d", i)}}}
			frames = append(frames, c.frame(cqlwire.OpQuery, i, 0, c.queryBody("values", p))...)
		}
		b := c.pack(frames)
		for len(b) > 0 {
			n := min(len(b), 1+len(b)*7919%3001)
			c.write(b[:n])
			b = b[n:]
		}
		answered := map[int16]bool{}
		for range n {
			r := c.recv()
			if got := cells(t, c.result(r))[0]; got != fmt.Sprint(r.Stream) {
				t.Fatalf("stream %d: value %s", r.Stream, got)
			}
			answered[r.Stream] = true
		}
		if len(answered) != n {
			t.Errorf("%d streams answered", len(answered))
		}
	})
}

func TestByteByByte(t *testing.T) {
	s := start(t, newFake(), nil)
	inAllDialects(t, s, func(t *testing.T, c *client) {
		for _, b := range c.pack(c.frame(cqlwire.OpQuery, 9, 0, c.queryBody("void", cqlwire.QueryParams{}))) {
			c.write([]byte{b})
		}
		if r := c.recv(); r.Stream != 9 {
			t.Error(r.Stream)
		}
	})
}

// TestHalfFrames leaves in the middle of everything.
func TestHalfFrames(t *testing.T) {
	s := start(t, newFake(), nil)
	inAllDialects(t, s, func(t *testing.T, c *client) {
		b := c.pack(c.frame(cqlwire.OpQuery, 9, 0, c.queryBody("void", cqlwire.QueryParams{})))
		var options []string
		switch c.comp {
		case cqlwire.CompressionLZ4, cqlwire.CompressionSnappy:
			options = []string{cqlwire.OptCompression, c.comp.String()}
		}
		for n := range b {
			d := ready(t, s, c.v, options...)
			d.write(b[:n])
			d.nc.Close()
		}
	})
	eventually(t, "all gone but the dialects'", func() bool { return s.Metrics.Connections.Load() <= int64(len(dialects)) })
}
