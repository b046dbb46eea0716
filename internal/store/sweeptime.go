package store

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

const (
	// minSweep and maxSweep are the least and the longest time between two
	// sweeps of a table; a sweep takes at most one part in sweepShare of the time.
	minSweep   = time.Minute
	maxSweep   = 24 * time.Hour
	sweepShare = 50
	// missedSweep is how long after a sweep another one is made for deletions
	// that did not fit into the queue.
	missedSweep = 20 * time.Second
	// expirySlack is how long, in seconds, expired cells keep their values, for
	// clocks that step back.
	expirySlack = 3600
)

// sweepLoop sweeps tables for scattered tombstones and expired cells when their time comes.
func (s *Store) sweepLoop(ctx context.Context) {
	s.periodically(ctx, func() error { return s.sweepTick(ctx, true) })
}

// sweepTick sweeps the tables whose time has come. A store that does not know
// its tables cannot know when that is.
func (s *Store) sweepTick(ctx context.Context, gently bool) error {
	if s.opts.Tables == nil {
		return nil
	}
	var errs []error
	for _, def := range s.definitions() {
		tbl := s.tableFor(def)
		errs = append(errs, s.sweepIndexes(ctx, def, gently))
		now := s.opts.Clock()
		if tbl.nextSweep == 0 {
			at, err := s.loadSweep(tbl.phys)
			if err != nil {
				return err
			}
			// A clock that was ahead must not put sweeps off for long.
			tbl.nextSweep = min(at, now.Add(maxSweep).Unix())
		}
		missed := tbl.sweepSoon.Load() && now.Unix() >= tbl.lastSweep+int64(missedSweep/time.Second)
		if now.Unix() < tbl.nextSweep && !missed {
			continue
		}
		tbl.sweepSoon.Store(false)
		wait, err := s.sweepInTime(ctx, tbl, gently)
		tbl.lastSweep = s.opts.Clock().Unix()
		tbl.nextSweep = tbl.lastSweep + int64(wait/time.Second)
		errs = append(errs, err, s.saveSweep(tbl.phys, tbl.nextSweep))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// sweepInTime sweeps a table and says when to look again: when the oldest
// tombstone that it left may go, or one that is written from now on, or when
// cells have expired whose values go.
func (s *Store) sweepInTime(ctx context.Context, tbl *table, gently bool) (time.Duration, error) {
	start := time.Now()
	left, err := s.sweepTable(ctx, tbl, gently)
	if err != nil {
		return minSweep, err
	}
	s.metrics.sweeps.Add(1)
	now, gcBefore := s.opts.Clock().Unix(), s.gcBefore(tbl)
	wait := now - gcBefore + 1
	if left.left > 0 {
		wait = min(wait, left.earliest-gcBefore+1)
	}
	if left.expiring > 0 {
		wait = min(wait, left.expiring-s.expiredBefore()+1)
	}
	least := max(minSweep, sweepShare*time.Since(start))
	return max(least, min(time.Duration(min(wait, 1<<31))*time.Second, maxSweep)), nil
}

// expiredBefore is the time before which cells must have expired for their values to go.
func (s *Store) expiredBefore() int64 { return s.opts.Clock().Unix() - expirySlack }

func sweepKey(phys uint32) []byte {
	return binary.BigEndian.AppendUint32(metaKey(metaSweep, ""), phys)
}

// loadSweep reads when a table is to be swept next, in seconds; 1 when that is
// not known.
func (s *Store) loadSweep(phys uint32) (int64, error) {
	v, err := s.shards[0].get(sweepKey(phys))
	if err != nil || len(v) == 0 || v[0] != sweepVersion {
		return 1, err
	}
	at, n := binary.Uvarint(v[1:])
	if n <= 0 || at > 1<<40 {
		return 1, nil
	}
	return max(1, int64(at)), nil
}

const sweepVersion = 1

// saveSweep keeps that time: u8 1, uvarint seconds. It need not be durable.
func (s *Store) saveSweep(phys uint32, at int64) error {
	if err := s.failed(); err != nil {
		return err
	}
	v := binary.AppendUvarint([]byte{sweepVersion}, uint64(max(1, at)))
	return s.shards[0].committed(s.shards[0].db.Set(sweepKey(phys), v, pebble.NoSync))
}

// forgetSweep removes a dropped table's time.
func (s *Store) forgetSweep(phys uint32) error {
	return s.shards[0].committed(s.shards[0].db.Delete(sweepKey(phys), pebble.NoSync))
}

// exactSpans writes the records of spans whose deletion time is less than they
// say, when the store closes: nothing is written into spans any more.
func (sh *shard) exactSpans() error {
	pb := sh.db.NewBatch()
	for _, tbl := range *sh.s.tables.Load() {
		m := &tbl.parts[sh.idx].spans
		m.mu.Lock()
		for _, c := range m.chunks {
			for i, x := range c {
				if x.bound == x.newest {
					continue
				}
				y := *x
				y.bound = y.newest
				if err := putSpan(pb, &y); err != nil {
					m.mu.Unlock()
					return errors.Join(err, pb.Close())
				}
				c[i] = &y
			}
		}
		m.mu.Unlock()
	}
	if pb.Empty() {
		return pb.Close()
	}
	return errors.Join(sh.write(pb, pebble.NoSync), pb.Close())
}
