package store_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"varve/internal/schema"
	"varve/internal/store"
	"varve/internal/vtest"
)

// TestFeedReplaysIntoAMirror runs random operations, crashes included, and has
// a consumer apply the feed to stores of its own, one a shard: they end equal.
func TestFeedReplaysIntoAMirror(t *testing.T) {
	for _, shards := range []int{1, 3} {
		t.Run(fmt.Sprintf("shards=%d", shards), func(t *testing.T) {
			seeds(t, time.Second, func(seed uint64) {
				steps := randomSteps(rand.New(rand.NewPCG(seed, 11)), 250)
				playAndReport(t, seed, worldOptions{shards: shards, separateJournals: seed%2 == 0, feed: true}, steps)
			})
		})
	}
}

// feedMirror follows the feeds of a world.
type feedMirror struct {
	stores []*store.Store     // by shard
	at     []map[uint32]int64 // by shard and table: the last position applied
}

const mirrorName = "mirror"

func newFeedMirror(w *world) (*feedMirror, error) {
	m := &feedMirror{}
	for shard := range w.o.shards {
		st, err := store.Open(context.Background(), store.Options{
			DataDirs: []string{"mirror"}, FS: vfs.NewMem(), CacheBytes: 1 << 20, MemtableBytes: 1 << 20, ManualBackground: true,
		})
		if err != nil {
			return nil, err
		}
		m.stores = append(m.stores, st)
		m.at = append(m.at, map[uint32]int64{})
		for _, t := range w.tables {
			if shard == 0 {
				if err := w.st.SetFeed(context.Background(), t, true); err != nil {
					return nil, err
				}
			}
			if err := w.st.SetFeedConsumer(t, store.FeedPosition{Shard: shard, Name: mirrorName, Position: 0}); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

func (m *feedMirror) close() error {
	var err error
	for _, st := range m.stores {
		err = errors.Join(err, st.Close())
	}
	return err
}

// check goes a part of the way, or all of it and compares.
func (m *feedMirror) check(w *world, r *rand.Rand, now int64) error {
	if r.IntN(2) == 0 {
		shard, t := r.IntN(len(m.stores)), w.tables[r.IntN(len(w.tables))]
		return m.follow(w.st, t, shard, 1+r.IntN(5))
	}
	for _, t := range w.tables {
		var got, want []vtest.PartState
		for shard, mirror := range m.stores {
			if err := m.follow(w.st, t, shard, math.MaxInt); err != nil {
				return err
			}
			parts, err := readAllRows(mirror, t, now)
			if err != nil {
				return err
			}
			got = append(got, parts...)
			if r.IntN(3) == 0 {
				p := store.FeedPosition{Shard: shard, Name: mirrorName, Position: m.at[shard][t.PhysID], Known: true}
				if err := w.st.SetFeedConsumer(t, p); err != nil {
					return err
				}
			}
		}
		want, err := readAllRows(w.st, t, now)
		if err != nil {
			return err
		}
		if d := cmp.Diff(vtest.Lines(want), vtest.Lines(got)); d != "" {
			return fmt.Errorf("mirror of %s (-store +mirror):\n%s", t.Name, d)
		}
	}
	return nil
}

func readAllRows(st *store.Store, t *schema.Table, now int64) ([]vtest.PartState, error) {
	v := st.View(store.ReadOptions{NowSec: now, Stats: &store.ReadStats{}})
	parts, err := vtest.Collect(t, v.Range(t, store.TokenRange{StartUnbounded: true, EndUnbounded: true}, store.RowQuery{}, nil))
	return parts, errors.Join(err, v.Close())
}

// follow applies up to limit records of a table's feed in a shard.
func (m *feedMirror) follow(st *store.Store, t *schema.Table, shard, limit int) error {
	last := m.at[shard][t.PhysID]
	var inBatch, first int64
	err := st.ReadFeed(context.Background(), store.FeedQuery{Table: t, Shard: shard, After: last, Upto: math.MaxInt64},
		func(r *store.FeedRecord) (bool, error) {
			if r.Position <= last {
				return false, fmt.Errorf("position %d after %d", r.Position, last)
			}
			if r.BatchFirst == first && inBatch != int64(r.BatchSize) {
				return false, fmt.Errorf("records of batch %d tell sizes %d and %d", first, inBatch, r.BatchSize)
			}
			first, inBatch = r.BatchFirst, int64(r.BatchSize)
			if r.Position < first || r.Position >= first+inBatch {
				return false, fmt.Errorf("position %d is not in its batch of %d from %d", r.Position, inBatch, first)
			}
			last = r.Position
			m.at[shard][t.PhysID] = last
			limit--
			return limit > 0, applyRecord(m.stores[shard], t, r)
		})
	if err != nil {
		return fmt.Errorf("follow %s in shard %d past %d: %w", t.Name, shard, last, err)
	}
	return nil
}

// applyRecord applies a record with its own timestamps.
func applyRecord(st *store.Store, t *schema.Table, r *store.FeedRecord) error {
	if r.Kind == store.FeedTruncate {
		return st.Truncate(context.Background(), t)
	}
	comps, err := r.Key()
	if err != nil {
		return err
	}
	k, err := store.KeyOf(t, comps)
	if err != nil {
		return err
	}
	b := st.NewBatch(r.NowSec)
	switch r.Kind {
	case store.FeedPartition:
		ts, _ := r.Deletion()
		b.DeletePartition(t, k, ts)
	case store.FeedRange:
		ts, _ := r.Deletion()
		sl, err := r.Slice()
		if err != nil {
			return err
		}
		b.DeleteRange(t, k, sl, ts)
	case store.FeedRow:
		if err := applyRow(b, t, k, r); err != nil {
			return err
		}
	}
	return applyWait(st, b, false)
}

func applyRow(b *store.Batch, t *schema.Table, k store.Key, r *store.FeedRecord) error {
	clustering, err := r.Clustering()
	if err != nil {
		return err
	}
	row := b.Row(t, k, clustering)
	if ts, ok := r.Deletion(); ok {
		row.Delete(ts)
	}
	if c, ok := r.Marker(); ok {
		row.Marker(c.Timestamp, c.TTL)
	}
	for _, c := range r.AppendCells(nil) {
		multi := c.Column.Type.IsMultiCell()
		switch {
		case c.Op == store.FeedClear:
			row.Clear(c.Column, c.Timestamp)
		case c.Op == store.FeedDelete && multi:
			row.UnsetElement(c.Column, c.Path, c.Timestamp)
		case c.Op == store.FeedDelete:
			row.Unset(c.Column, c.Timestamp)
		case multi:
			row.SetElement(c.Column, c.Path, c.Timestamp, c.TTL, c.Value)
		default:
			row.Set(c.Column, c.Timestamp, c.TTL, c.Value)
		}
	}
	return nil
}
