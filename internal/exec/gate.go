package exec

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"varve/internal/schema"
)

// errStale says that the schema changed between the planning of a statement and
// its run. Nothing was done; the statement is planned again.
var errStale = errors.New("the schema changed while the statement was being planned")

// maxReplans bounds how often one statement is planned again.
const maxReplans = 8

// schemaGate lets a schema change wait until no request runs any more with a
// plan from before it: an index is filled only once every writer maintains it,
// and dropped data is removed only once no one reads or writes it. Requests
// never wait, and what they pay is two additions on a counter that few share.
type schemaGate struct {
	epoch  atomic.Uint64
	shards [gateShards]gateShard
	mu     sync.Mutex // one waiter at a time
	behind bool       // a wait was given up: requests of both parities may be old
}

const gateShards = 16

// gateShard counts requests by the parity of the epoch they began in, on a
// cache line of its own.
type gateShard struct {
	running [2]atomic.Int64
	_       [48]byte
}

// enter marks a request as running; leave takes what it returns. hint spreads
// requests over the shards.
func (g *schemaGate) enter(hint int64) *atomic.Int64 {
	shard := &g.shards[uint64(hint)%gateShards]
	for {
		epoch := g.epoch.Load()
		c := &shard.running[epoch&1]
		c.Add(1)
		if g.epoch.Load() == epoch {
			return c
		}
		// A change began in between and may have missed this request.
		c.Add(-1)
	}
}

func leave(c *atomic.Int64) { c.Add(-1) }

// wait returns once every request that entered before it has left. Requests
// that enter later see the schema that was current when wait was called.
func (g *schemaGate) wait(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.behind {
		if err := g.drain(ctx); err != nil {
			return err
		}
	}
	err := g.drain(ctx)
	g.behind = err != nil
	return err
}

// drain begins an epoch and waits for the requests of the one before.
func (g *schemaGate) drain(ctx context.Context) error {
	old := g.epoch.Add(1) - 1
	const poll = time.Millisecond
	var tick *time.Ticker
	for g.left(old) != 0 {
		if tick == nil {
			tick = time.NewTicker(poll)
			defer tick.Stop()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// left counts the requests of an epoch that still run.
func (g *schemaGate) left(epoch uint64) (n int64) {
	for i := range g.shards {
		n += g.shards[i].running[epoch&1].Load()
	}
	return n
}

// holds reports that a plan is right for snap, and remembers it.
func (st *planned) holds(snap *schema.Snapshot) bool {
	if st.fresh.Load() == snap {
		return true
	}
	if !st.current(snap) {
		return false
	}
	st.fresh.Store(snap)
	return true
}
