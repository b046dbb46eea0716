package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
)

// engine is the store with the benchmark's table and rows, called directly.
type engine struct {
	s    *store.Store
	t    *schema.Table
	rows int
}

const engineChannels = 1000

// alone is what the engine did by itself.
type alone struct {
	rate float64
	cpu  time.Duration // for an operation, all of this process's
}

func openEngine(ctx context.Context, o *options, durability string) (*engine, error) {
	e := &engine{t: messages(), rows: o.Rows}
	so := store.Options{DataDirs: []string{filepath.Join(o.Work, "engine-"+durability)}, Tables: func() []*schema.Table { return []*schema.Table{e.t} }}
	if durability == "periodic" {
		so.Durability = store.Periodic
	}
	var err error
	e.s, err = store.Open(ctx, so)
	return e, err
}

func (e *engine) close() error { return e.s.Close() }

func (e *engine) settle(ctx context.Context) error { return e.s.Flush(ctx, e.t) }

// messages is the table of bench.Schema.
func messages() *schema.Table {
	t := &schema.Table{PhysID: 64, Keyspace: "bench", Name: "messages", Columns: map[string]*schema.Column{}}
	add := func(name string, kind schema.ColumnKind, typ *cqltype.Type) *schema.Column {
		c := &schema.Column{ID: uint16(len(t.ByID)), Name: name, Kind: kind, Type: typ}
		t.ByID, t.Columns[name] = append(t.ByID, c), c
		return c
	}
	t.PartitionKey = []*schema.Column{add("channel_id", schema.PartitionKey, cqltype.Bigint)}
	at, id := add("sent_at", schema.Clustering, cqltype.Timestamp), add("message_id", schema.Clustering, cqltype.Bigint)
	at.Desc, id.Desc, id.Position = true, true, 1
	t.Clustering = []*schema.Column{at, id}
	t.Regular = []*schema.Column{add("body", schema.Regular, cqltype.Text), add("sender", schema.Regular, cqltype.Text)}
	t.Options.GCGraceSeconds = 864_000
	return t
}

// caller does operations; it is used by one goroutine.
type caller struct {
	e          *engine
	rng        *rand.Rand
	buf        [3][8]byte
	clustering [2][]byte
	body       [80]byte
	now        int64
	stats      store.ReadStats
}

// key is that of row i, as in package bench.
func (c *caller) key(i int) (store.Key, error) {
	channel, seq := i%engineChannels, i/engineChannels
	binary.BigEndian.PutUint64(c.buf[0][:], uint64(channel))
	binary.BigEndian.PutUint64(c.buf[1][:], uint64(1_767_225_600_000+seq*1000+channel))
	binary.BigEndian.PutUint64(c.buf[2][:], uint64(seq))
	c.clustering = [2][]byte{c.buf[1][:], c.buf[2][:]}
	return store.KeyOf(c.e.t, [][]byte{c.buf[0][:]})
}

func (c *caller) do(ctx context.Context, op string, i int) error {
	switch op {
	case "insert":
		return c.insert(ctx, i%c.e.rows)
	case "read":
		return c.read(c.rng.IntN(c.e.rows), 1)
	case "page":
		return c.read(c.rng.IntN(c.e.rows), 50)
	case "delete":
		return c.remove(ctx, int(uint64(i)*2_654_435_761%uint64(c.e.rows)))
	}
	switch r := c.rng.IntN(10); {
	case r < 2:
		return c.insert(ctx, c.rng.IntN(c.e.rows))
	case r < 6:
		return c.read(c.rng.IntN(c.e.rows), 1)
	}
	return c.read(c.rng.IntN(c.e.rows), 50)
}

func (c *caller) insert(ctx context.Context, i int) error {
	k, err := c.key(i)
	if err != nil {
		return err
	}
	for j := range c.body {
		c.body[j] = byte('a' + c.rng.IntN(26))
	}
	ts := time.Now().UnixMicro()
	b := c.e.s.NewBatch(c.now)
	r := b.Row(c.e.t, k, c.clustering[:])
	r.Marker(ts, 0)
	r.Set(c.e.t.Regular[0], ts, 0, c.body[:])
	r.Set(c.e.t.Regular[1], ts, 0, c.body[:7])
	return c.commit(ctx, b)
}

func (c *caller) remove(ctx context.Context, i int) error {
	k, err := c.key(i)
	if err != nil {
		return err
	}
	b := c.e.s.NewBatch(c.now)
	b.Row(c.e.t, k, c.clustering[:]).Delete(time.Now().UnixMicro())
	return c.commit(ctx, b)
}

func (c *caller) commit(ctx context.Context, b *store.Batch) error {
	done, err := c.e.s.Apply(ctx, b, false)
	if err != nil {
		return err
	}
	return done.Wait()
}

// read gets one row by its key or, for more, the first of a partition.
func (c *caller) read(i, limit int) (err error) {
	k, err := c.key(i)
	if err != nil {
		return err
	}
	q := store.RowQuery{NoStatic: true}
	if limit == 1 {
		at := store.Bound{Prefix: c.clustering[:], Inclusive: true}
		q.Slices = []store.Slice{{Start: at, End: at}}
	}
	v := c.e.s.View(store.ReadOptions{NowSec: c.now, Stats: &c.stats})
	rows := v.Partition(c.e.t, k, q)
	n := 0
	for rows.NextPartition() {
		for n < limit && rows.Next() {
			row := rows.Row()
			for _, col := range c.e.t.Regular {
				_ = row.Value(col)
			}
			n++
		}
	}
	if err := rows.Close(); err != nil {
		return err
	}
	return v.Close()
}

// measure runs n operations from 64 goroutines.
func (e *engine) measure(ctx context.Context, op string, n int) (alone, error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	used, start := cpuOfSelf(), time.Now()
	for g := range 64 {
		c := &caller{e: e, rng: rand.New(rand.NewPCG(1, uint64(g))), now: time.Now().Unix()}
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := c.do(ctx, op, i); err != nil {
					cancel(fmt.Errorf("engine alone, %s: %w", op, err))
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	return alone{float64(n) / took.Seconds(), (cpuOfSelf() - used) / time.Duration(n)}, context.Cause(ctx)
}

func cpuOfSelf() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail for the process itself
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
