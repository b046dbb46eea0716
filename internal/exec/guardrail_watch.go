package exec

import (
	"context"
	"sync"
	"time"

	"varve/internal/schema"
	"varve/internal/store"
)

const (
	// watchPeriod is how often tables are looked at for partition_size and partition_tombstones.
	watchPeriod = 10 * time.Minute
	watchPause  = 10 * time.Millisecond
	// largeByDefault is from where varve.large_partitions lists, while no threshold is set.
	largeByDefault = 100 << 20
	largeShown     = 1000
)

// guardWatch looks for large partitions and for many tombstones now and then:
// Cassandra finds them when it compacts, and there is no such moment here.
type guardWatch struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
}

func (w *guardWatch) start(e *Engine) {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	w.done.Go(func() {
		t := time.NewTicker(watchPeriod)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			if err := e.watchPartitions(ctx); err != nil && ctx.Err() == nil {
				e.opts.Logger.Warn("look for large partitions", "err", err)
			}
		}
	})
}

func (w *guardWatch) close() {
	w.cancel()
	w.done.Wait()
}

// watchPartitions logs the partitions over a threshold.
func (e *Engine) watchPartitions(ctx context.Context) error {
	rails := &e.opts.Limits.Guardrails
	pause := func() error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(watchPause):
			return nil
		}
	}
	return eachStored(e.opts.Catalog.Snapshot(), func(t *schema.Table) error {
		if t.System {
			return nil
		}
		if least := rails.least(GuardPartitionSize); least > 0 {
			large, err := e.opts.Store.LargePartitions(ctx, t, least+1, largeShown, pause)
			if err != nil {
				return err
			}
			for _, p := range large {
				e.judgePartition(GuardPartitionSize, t, p.Key, p.Bytes)
			}
		}
		if rails.least(GuardPartitionTombstones) <= 0 {
			return nil
		}
		sums, err := e.spanSums(t)
		if err != nil {
			return err
		}
		for i := range sums {
			e.judgePartition(GuardPartitionTombstones, t, sums[i].key, sums[i].tombstones)
		}
		return ctx.Err()
	})
}

// least is the lower of a guardrail's thresholds; 0: it is off.
func (g *Guardrails) least(which Guardrail) int64 {
	warn, fail := max(g.warn[which].Load(), 0), max(g.fail[which].Load(), 0)
	if warn > 0 && fail > 0 {
		return min(warn, fail)
	}
	return max(warn, fail)
}

func (e *Engine) judgePartition(g Guardrail, t *schema.Table, k store.Key, value int64) {
	threshold, failed, warned := e.opts.Limits.Guardrails.over(g, value)
	if !failed && !warned {
		return
	}
	comps, err := k.Components(t)
	if err != nil {
		return
	}
	what := t.Keyspace + "." + t.Name + ":" + cutText(literalsText(t.PartitionKey, comps), walkKeyMax)
	e.logGuardrail(g, what, value, threshold, failed)
}

// spanSum sums up the dead spans of one partition. A span over several stands under its first.
type spanSum struct {
	key                       store.Key
	spans                     int32
	rows, covered, tombstones int64
	newest, expiry            int64
	estimated                 bool
}

// spanSums sums up a table's spans by partition; they lie in that order.
func (e *Engine) spanSums(t *schema.Table) ([]spanSum, error) {
	spans, err := e.opts.Store.Spans(t, nil, maxSpansShown)
	if err != nil {
		return nil, err
	}
	var out []spanSum
	for i := range spans {
		sp := &spans[i]
		if n := len(out); n == 0 || !out[n-1].key.Equal(sp.Key) {
			out = append(out, spanSum{key: sp.Key})
		}
		s := &out[len(out)-1]
		s.spans++
		s.rows += sp.Rows
		s.tombstones += sp.Tombstones
		if sp.NewestDeletion == 0 {
			s.covered += sp.Rows
		}
		s.newest, s.expiry = max(s.newest, sp.NewestDeletion), max(s.expiry, sp.LatestExpiry)
		s.estimated = s.estimated || sp.EstimatedRowCount
	}
	return out, nil
}
