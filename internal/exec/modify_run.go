package exec

import (
	"context"
	"time"

	"varve/internal/cqlwire"
	"varve/internal/schema"
	"varve/internal/store"
)

// run carries out the statement on its own.
func (m *modifyPlan) run(ctx context.Context, x *execution) (*Result, error) {
	if m.virtual != nil {
		return m.runVirtual(ctx, x)
	}
	if m.cond != nil {
		return m.runConditional(ctx, x)
	}
	if err := m.checkLevel(x); err != nil {
		return nil, err
	}
	writeType := "SIMPLE"
	if m.t.Counter {
		writeType = "COUNTER"
	}
	if x.trace != nil {
		x.trace.Event("Determining replicas for mutation")
		x.trace.Stage(writeThread)
	}
	if m.reads {
		return m.runReading(ctx, x)
	}
	b := x.newBatch()
	mu := mutations.Get().(*mutation)
	mu.x, mu.m, mu.b = x, m, b
	err := mu.times()
	if err == nil {
		err = mu.add()
	}
	mu.release()
	if err == nil {
		err = x.checkSize(m.t, b)
	}
	if err != nil {
		b.Discard()
		return nil, err
	}
	return x.apply(ctx, b, false, writeType)
}

// newBatch starts the batch of a request's changes.
func (x *execution) newBatch() *store.Batch {
	b := x.e.opts.Store.NewBatch(x.nowSec)
	if x.p.Move != "" {
		b.SetOrigin(x.p.Move)
	}
	return b
}

// writeResult is a write's answer, with room for its commit.
type writeResult struct {
	Result
	commit store.Commit
}

// apply applies a batch and makes the answer of an unconditional write.
func (x *execution) apply(ctx context.Context, b *store.Batch, logged bool, writeType string) (*Result, error) {
	b.WaitAtMost(time.Duration(x.e.opts.Limits.WriteTimeoutMillis.Load()) * time.Millisecond)
	if x.trace != nil {
		x.trace.Event("Appending to commitlog")
		x.trace.Event("Adding to memtable")
	}
	r := &writeResult{}
	c, err := x.e.opts.Store.Apply(ctx, b, logged)
	if err != nil {
		return nil, writeError(err, x.p.Consistency, writeType)
	}
	r.commit = c
	r.Kind = cqlwire.ResultVoid
	r.Commit = &r.commit
	return &r.Result, nil
}

func (m *modifyPlan) checkLevel(x *execution) error {
	if m.t.Counter && x.p.Consistency == cqlwire.Any {
		return invalidf("Consistency level ANY is not yet supported for counter table %s", m.t.Name)
	}
	if m.t.Counter && (x.p.Consistency == cqlwire.Serial || x.p.Consistency == cqlwire.LocalSerial) {
		return invalidf("Counter operations are inherently non-serializable")
	}
	if m.reads && x.p.Consistency == cqlwire.Any {
		return invalidf("Write operation require a read but consistency ANY is not supported on reads")
	}
	return checkWrite(x.p.Consistency)
}

// checkSize refuses a write that is larger than one may be.
func (x *execution) checkSize(t *schema.Table, b *store.Batch) error {
	limit := x.e.opts.Limits.MaxValueBytes.Load()
	if size := int64(b.Size()); size > limit {
		return invalidf("Rejected an oversized mutation (%d/%d) for keyspace: %s. Top keys are: %s.", size, limit, t.Keyspace, t.Name)
	}
	return nil
}

// targetKeys are the partitions that a statement changes.
func (m *modifyPlan) targetKeys(mu *mutation) ([]store.Key, error) {
	if mu.named.keys != nil {
		return mu.named.keys, nil
	}
	if m.where != nil {
		return m.where.keys(mu.x)
	}
	if m.json != nil {
		if err := m.json.parse(mu); err != nil {
			return nil, err
		}
	}
	if err := mu.partitionKey(); err != nil {
		return nil, err
	}
	return []store.Key{mu.key}, nil
}

// runReading carries out operations that must see the row before they change
// it, with the partitions held.
func (m *modifyPlan) runReading(ctx context.Context, x *execution) (*Result, error) {
	if err := x.e.opts.Store.CheckFence(m.t, x.p.Move); err != nil {
		return nil, wireError(err) // before anything is told of the row
	}
	mu := &mutation{x: x, m: m}
	keys, err := m.targetKeys(mu)
	if err != nil {
		return nil, err
	}
	mu.named.keys = keys
	ctx, cancel := x.writeDeadline(ctx)
	defer cancel()
	l, err := x.e.opts.Store.Lock(ctx, m.t, keys...)
	if err != nil {
		return nil, writeError(err, x.p.Consistency, "SIMPLE")
	}
	defer l.Unlock()
	b := x.newBatch()
	var stats store.ReadStats
	view := x.e.opts.Store.View(store.ReadOptions{NowSec: x.nowSec, Stats: &stats, Deadline: deadlineOf(ctx)})
	mu.b, mu.view = b, view
	err = closing(view, func() error {
		if err := mu.times(); err != nil {
			return err
		}
		return mu.add()
	})
	if err == nil {
		err = x.checkSize(m.t, b)
	}
	if err != nil {
		b.Discard()
		return nil, timedOut(err, x.p.Consistency, "SIMPLE")
	}
	r := &writeResult{}
	c, err := l.Apply(ctx, b)
	if err != nil {
		return nil, writeError(err, x.p.Consistency, "SIMPLE")
	}
	r.commit = c
	r.Kind = cqlwire.ResultVoid
	r.Commit = &r.commit
	return &r.Result, nil
}

// closing closes a view once f is done with it, also when f panics.
func closing(view *store.View, f func() error) (err error) {
	defer func() {
		if cerr := view.Close(); err == nil {
			err = cerr
		}
	}()
	return f()
}

// deadlineOf is when a context ends; zero: never.
func deadlineOf(ctx context.Context) time.Time {
	d, _ := ctx.Deadline()
	return d
}

// writeDeadline bounds how long a write waits for its partitions.
func (x *execution) writeDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return withTimeout(ctx, x.e.opts.Limits.WriteTimeoutMillis.Load())
}
