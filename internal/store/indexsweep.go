package store

import (
	"context"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"varve/internal/schema"
)

const (
	// indexRows is how many entries a sweep of an index looks up in one view.
	indexRows = 512
	// indexRest is how many times as long as that took a gentle sweep then waits.
	indexRest = 10
	// manyStale is how many entries reads must have found stale for a sweep to
	// come early, and staleRest how many times as long as the sweep before took
	// it then waits.
	manyStale = 100
	staleRest = 5
	// fewStale: less than one entry in so many was stale, so that the next sweep may wait longer.
	fewStale = 50
	// maxIndexWait bounds that, in sweeps' least waits.
	maxIndexWait = 64
	// indexSkips is how many removed entries a read must have stepped over for
	// their place to be compacted.
	indexSkips = 1000
)

// indexSweep is what the sweeper remembers of an index.
type indexSweep struct {
	writes int64 // of the table when the last sweep began
	took   time.Duration
	wait   int64 // factor
}

// sweepIndexes sweeps those of a table's indexes whose time has come.
func (s *Store) sweepIndexes(ctx context.Context, def *schema.Table, gently bool) error {
	if s.opts.EntryStale == nil {
		return nil
	}
	var errs []error
	for _, x := range def.Indexes {
		if x.Building || ctx.Err() != nil {
			continue
		}
		tbl := s.tableByID(x.PhysID)
		if tbl.nextSweep == 0 {
			at, err := s.loadSweep(x.PhysID)
			if err != nil {
				return err
			}
			tbl.nextSweep = min(at, s.opts.Clock().Add(maxSweep).Unix())
		}
		now := s.opts.Clock().Unix()
		early := tbl.staleSeen.Load() >= manyStale && now >= tbl.lastSweep+1+int64(staleRest*tbl.index.took/time.Second)
		if now < tbl.nextSweep && !early {
			continue
		}
		if writes := s.tableFor(def).stats.writes.Load(); writes == tbl.index.writes && tbl.lastSweep != 0 {
			continue // nothing died, but for what expired: that is swept when something is written
		}
		wait, err := s.sweepIndexInTime(ctx, def, x, tbl, gently)
		tbl.lastSweep = s.opts.Clock().Unix()
		tbl.nextSweep = tbl.lastSweep + int64(wait/time.Second)
		errs = append(errs, err, s.saveSweep(x.PhysID, tbl.nextSweep))
	}
	return errors.Join(errs...)
}

// sweepIndexInTime sweeps an index and says when to look again.
func (s *Store) sweepIndexInTime(ctx context.Context, def *schema.Table, x *schema.Index, tbl *table, gently bool) (time.Duration, error) {
	st := &tbl.index
	st.writes = s.tableFor(def).stats.writes.Load()
	tbl.staleSeen.Store(0)
	start := time.Now()
	seen, stale, err := s.sweepIndex(ctx, def, x, gently)
	st.took = time.Since(start)
	if stale*fewStale < seen {
		st.wait = min(max(1, 2*st.wait), maxIndexWait)
	} else {
		st.wait = 1
	}
	wait := max(minSweep, sweepShare*st.took) * time.Duration(st.wait)
	return min(wait, maxSweep), err
}

// sweepIndex removes the entries of an index whose rows are dead or have another value.
func (s *Store) sweepIndex(ctx context.Context, def *schema.Table, x *schema.Index, gently bool) (seen, stale int64, err error) {
	var after *IndexEntry
	for {
		if err := ctx.Err(); err != nil {
			return seen, stale, err
		}
		start := time.Now()
		gone, last, n, err := s.staleEntries(def, x, after)
		if err != nil {
			return seen, stale, err
		}
		for _, e := range gone {
			if err := s.removeStale(def, x, e); err != nil {
				return seen, stale, err
			}
		}
		seen, stale = seen+n, stale+int64(len(gone))
		if n < indexRows {
			s.metrics.entriesRemoved.Add(stale)
			return seen, stale, nil
		}
		after = &last
		if gently {
			select {
			case <-ctx.Done():
			case <-time.After(max(sweepWait, indexRest*time.Since(start))):
			}
		}
	}
}

// sweepAllEntries sweeps all indexes of a table at once.
func (s *Store) sweepAllEntries(ctx context.Context, def *schema.Table) error {
	if s.opts.EntryStale == nil {
		return nil
	}
	for _, x := range def.Indexes {
		if x.Building {
			continue
		}
		if _, _, err := s.sweepIndex(ctx, def, x, false); err != nil {
			return err
		}
	}
	return nil
}

// staleEntries looks some entries up in one view, as of an hour ago: rows that
// expired since may be read by a clock that steps back.
func (s *Store) staleEntries(
	def *schema.Table, x *schema.Index, after *IndexEntry,
) (gone []IndexEntry, last IndexEntry, n int64, err error) {
	var st ReadStats
	v := s.View(ReadOptions{NowSec: s.expiredBefore(), Stats: &st})
	it := v.Index(def, x, IndexQuery{After: after})
	for n < indexRows && it.Next() {
		n++
		e := it.Entry()
		stale := s.opts.EntryStale(v, def, x, e)
		if stale || n == indexRows {
			last = e.clone()
		}
		if stale {
			gone = append(gone, last)
		}
	}
	err = it.Close()
	return gone, last, n, errors.Join(err, v.Close())
}

func (s *Store) removeStale(def *schema.Table, x *schema.Index, e IndexEntry) error {
	return s.RemoveStaleEntry(def, x, e, func(v *View) bool { return s.opts.EntryStale(v, def, x, e) })
}

func (e IndexEntry) clone() IndexEntry {
	out := IndexEntry{Value: append([]byte{}, e.Value...), Key: e.Key.Clone()}
	if e.Clustering != nil {
		out.Clustering = [][]byte{}
		for _, c := range e.Clustering {
			out.Clustering = append(out.Clustering, append([]byte{}, c...))
		}
	}
	return out
}

// noteSkips asks for the compaction of a place in an index where the read
// stepped over many entries that were removed: the engine keeps those for a while.
func (i *IndexIter) noteSkips(sh *shard, it *pebble.Iterator) {
	if i.v.s.opts.ReadOnly {
		return
	}
	st := it.Stats()
	skips := st.ForwardStepCount[pebble.InternalIterCall] - st.ForwardStepCount[pebble.InterfaceCall]
	if skips < indexSkips {
		return
	}
	hi := i.upper
	if it.Valid() {
		hi = it.Key()
	}
	sh.debts.add(debt{lo: string(i.lower), hi: string(hi), rows: int64(skips), removed: true, forced: true})
}
