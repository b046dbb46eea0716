package exec

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"sort"
	"strconv"
	"sync"
	"time"

	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
)

// Trace collects a traced request's events; methods on nil do nothing. It is
// used by one goroutine at a time.
type Trace struct {
	id         schema.UUID
	start      time.Time
	wall       time.Time
	client     netip.Addr
	request    string
	parameters map[string]string
	thread     string
	events     []traceEvent
	duration   time.Duration
	flushed    chan struct{} // not a trace: closed when the writer comes to it
}

type traceEvent struct {
	activity string
	thread   string
	elapsed  time.Duration
}

// Names that events carry for the stage of work, as Cassandra's threads are called.
const (
	requestThread = "Native-Transport-Requests-1"
	readThread    = "ReadStage-1"
	writeThread   = "MutationStage-1"
)

const (
	maxTraceEvents = 1000
	maxTraceText   = 16 << 10
	traceTTL       = 24 * 60 * 60
	traceQueue     = 256
)

// Event records one step.
func (t *Trace) Event(format string, args ...any) {
	if t == nil || len(t.events) >= maxTraceEvents {
		return
	}
	text := fmt.Sprintf(format, args...)
	if len(text) > maxTraceText {
		text = text[:maxTraceText]
	}
	t.events = append(t.events, traceEvent{activity: text, thread: t.thread, elapsed: time.Since(t.start)})
}

// Stage names the kind of work that the following events belong to.
func (t *Trace) Stage(thread string) {
	if t != nil {
		t.thread = thread
	}
}

// startTrace begins a trace where the request asks for one.
func (e *Engine) startTrace(s *Session, p *Params, request, text string) *Trace {
	if !p.Tracing {
		return nil
	}
	if len(text) > maxTraceText {
		text = text[:maxTraceText]
	}
	t := &Trace{
		id: e.uuids.next(e.opts.Clock()), start: time.Now(), wall: e.opts.Clock(), client: s.Client.Addr(),
		request: request, thread: requestThread,
		parameters: map[string]string{
			"consistency_level":        p.Consistency.String(),
			"serial_consistency_level": serialLevel(p).String(),
		},
	}
	if text != "" {
		t.parameters["query"] = text
	}
	if p.PageSize > 0 {
		t.parameters["page_size"] = strconv.Itoa(p.PageSize)
	}
	return t
}

// tracer writes finished traces to system_traces in the background. What does
// not fit its queue is dropped: tracing must not hold requests up.
type tracer struct {
	e     *Engine
	queue chan *Trace
	done  sync.WaitGroup

	mu     sync.RWMutex
	closed bool
}

func newTracer(e *Engine) *tracer {
	w := &tracer{e: e, queue: make(chan *Trace, traceQueue)}
	w.done.Go(w.loop)
	return w
}

func (w *tracer) close() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.queue)
	}
	w.mu.Unlock()
	w.done.Wait()
}

// finish ends a trace and hands it over to be written.
func (w *tracer) finish(t *Trace) {
	t.Stage(requestThread)
	t.duration = time.Since(t.start)
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return
	}
	select {
	case w.queue <- t:
	default:
		w.e.opts.Logger.Warn("trace dropped: the queue is full", "session", formatUUID(t.id))
	}
}

func formatUUID(id schema.UUID) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// flush waits until all traces handed over so far are written.
func (w *tracer) flush() {
	done := make(chan struct{})
	w.queue <- &Trace{flushed: done}
	<-done
}

func (w *tracer) loop() {
	for t := range w.queue {
		if t.flushed != nil {
			close(t.flushed)
			continue
		}
		if err := w.write(t); err != nil {
			w.e.opts.Logger.Warn("write trace", "session", formatUUID(t.id), "err", err)
		}
	}
}

// write stores a trace. The duration comes last in one batch with the rest,
// since clients take it for the sign that a trace is complete.
func (w *tracer) write(t *Trace) error {
	snap := w.e.opts.Catalog.Snapshot()
	sessions, events := snap.Table("system_traces", "sessions"), snap.Table("system_traces", "events")
	if sessions == nil || events == nil {
		return nil
	}
	sec, ts := w.e.now()
	b := w.e.opts.Store.NewBatch(sec)
	if err := w.addSession(b, sessions, t, ts); err != nil {
		b.Discard()
		return err
	}
	if err := w.addEvents(b, events, t, ts); err != nil {
		b.Discard()
		return err
	}
	commit, err := w.e.opts.Store.Apply(context.Background(), b, false)
	if err != nil {
		return err
	}
	return commit.Wait()
}

// rowWriter sets columns by name with one timestamp and TTL, skipping those
// the table does not have.
type rowWriter struct {
	t  *schema.Table
	rb *store.RowBuilder
	ts int64
}

func (r *rowWriter) set(column string, v []byte) {
	if c := r.t.Columns[column]; c != nil && v != nil {
		r.rb.Set(c, r.ts, traceTTL, v)
	}
}

func (w *tracer) addSession(b *store.Batch, tab *schema.Table, t *Trace, ts int64) error {
	key, err := store.KeyOf(tab, [][]byte{t.id[:]})
	if err != nil {
		return err
	}
	r := rowWriter{t: tab, rb: b.Row(tab, key, [][]byte{}), ts: ts}
	r.rb.Marker(ts, traceTTL)
	node := w.e.opts.Node.Address
	r.set("client", inetBytes(t.client))
	r.set("command", []byte("QUERY"))
	r.set("coordinator", inetBytes(node.Addr()))
	r.set("coordinator_port", intBytes(storagePort))
	r.set("duration", intBytes(int32(t.duration.Microseconds())))
	r.set("request", []byte(t.request))
	r.set("started_at", bigintBytes(t.wall.UnixMilli()))
	if c := tab.Columns["parameters"]; c != nil {
		for _, k := range sortedKeys(t.parameters) {
			r.rb.SetElement(c, []byte(k), ts, traceTTL, []byte(t.parameters[k]))
		}
	}
	return nil
}

func (w *tracer) addEvents(b *store.Batch, tab *schema.Table, t *Trace, ts int64) error {
	key, err := store.KeyOf(tab, [][]byte{t.id[:]})
	if err != nil {
		return err
	}
	node := inetBytes(w.e.opts.Node.Address.Addr())
	for _, ev := range t.events {
		id := w.e.uuids.next(t.wall.Add(ev.elapsed))
		r := rowWriter{t: tab, rb: b.Row(tab, key, [][]byte{id[:]}), ts: ts}
		r.rb.Marker(ts, traceTTL)
		r.set("activity", []byte(ev.activity))
		r.set("source", node)
		r.set("source_port", intBytes(storagePort))
		r.set("source_elapsed", intBytes(int32(ev.elapsed.Microseconds())))
		r.set("thread", []byte(ev.thread))
	}
	return nil
}

func inetBytes(a netip.Addr) []byte {
	if !a.IsValid() || a.IsUnspecified() {
		return []byte{127, 0, 0, 1}
	}
	return a.Unmap().AsSlice()
}

func intBytes(n int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

func bigintBytes(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool { return cqltype.Compare(cqltype.Text, []byte(keys[i]), []byte(keys[j])) < 0 })
	return keys
}
