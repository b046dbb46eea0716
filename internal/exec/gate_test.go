package exec

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"varve/internal/cqlwire"
)

// TestIndexOfTableBeingWritten makes indexes of tables that are being written
// through prepared statements. Every row that is acknowledged, before, while
// and after an index is made, must be found through it.
func TestIndexOfTableBeingWritten(t *testing.T) {
	e := newAdminEngine(t, false)
	run := func(text string) *Result {
		t.Helper()
		res, err := settled(e.Query(context.Background(), &Session{ProtocolVersion: 5}, text, &Params{Consistency: cqlwire.One}))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return res
	}
	run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	for round := range 8 {
		table := fmt.Sprintf("ks.t%d", round)
		run("CREATE TABLE " + table + " (k int PRIMARY KEY, v int)")
		w := &tableWriters{e: e, table: table, stop: make(chan struct{}), enough: make(chan struct{})}
		w.start(t, 3)
		<-w.enough
		run("CREATE INDEX ON " + table + " (v)")
		close(w.stop)
		w.done.Wait()
		res := run("SELECT count(*) FROM " + table + " WHERE v = 1")
		if got := int64(binary.BigEndian.Uint64(res.Data[4:])); got != w.written.Load() {
			t.Errorf("round %d: %d rows were acknowledged, the index finds %d", round, w.written.Load(), got)
		}
	}
}

// tableWriters write rows until they are stopped.
type tableWriters struct {
	e       *Engine
	table   string
	stop    chan struct{}
	enough  chan struct{} // closed after the first few rows
	written atomic.Int64
	done    sync.WaitGroup
}

func (w *tableWriters) start(t *testing.T, n int) {
	for id := range n {
		w.done.Add(1)
		go func() {
			defer w.done.Done()
			if err := w.write(id); err != nil {
				t.Error(err)
			}
		}()
	}
}

func (w *tableWriters) write(id int) error {
	ctx, s := context.Background(), &Session{ProtocolVersion: 5}
	// The plan stays the one from before the index: whoever holds it may run it late.
	ps, err := w.e.Prepare(ctx, s, "INSERT INTO "+w.table+" (k, v) VALUES (?, 1)", "")
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		select {
		case <-w.stop:
			return nil
		default:
		}
		key := binary.BigEndian.AppendUint32(nil, uint32(id<<24|i))
		p := &Params{Consistency: cqlwire.One, Values: []cqlwire.Value{{Bytes: key}}}
		if _, err := settled(w.e.Execute(ctx, s, ps, p)); err != nil {
			return err
		}
		if w.written.Add(1) == 20 {
			close(w.enough)
		}
	}
}

func TestGate(t *testing.T) {
	var g schemaGate
	ctx := context.Background()
	if err := g.wait(ctx); err != nil {
		t.Fatal(err)
	}
	inside := g.enter(3)
	done := make(chan error)
	go func() { done <- g.wait(ctx) }()
	// A request that enters while a change waits neither blocks nor is waited for.
	for g.epoch.Load() < 2 {
		runtime.Gosched()
	}
	late := g.enter(3)
	select {
	case err := <-done:
		t.Fatalf("wait returned with a request inside (%v)", err)
	default:
	}
	leave(inside)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if err := g.wait(cancelled); err != context.Canceled {
		t.Errorf("got %v from a wait that was cancelled", err)
	}
	leave(late)
	if err := g.wait(ctx); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkGate(b *testing.B) {
	var g schemaGate
	var n atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		hint := n.Add(1)
		for pb.Next() {
			leave(g.enter(hint))
		}
	})
}
