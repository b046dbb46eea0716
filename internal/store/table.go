package store

import (
	"maps"
	"sync/atomic"

	"varve/internal/schema"
)

// table is what a store remembers of a physical id.
type table struct {
	phys  uint32
	lossy atomic.Int32 // whether some key column's key form loses something: lossyUnknown, lossyNo, lossyYes
	parts []tablePart
	stats tableCounters
	def   atomic.Pointer[schema.Table] // the definition seen last
	fence atomic.Pointer[fence]        // nil: it never had one
	// sweepSoon: range or partition deletions did not fit into the queue.
	sweepSoon atomic.Bool
	// nextSweep and lastSweep, in seconds, are the sweeper's.
	nextSweep, lastSweep int64
	index                indexSweep
	staleSeen            atomic.Int64 // stale entries that reads met in this index
}

// tablePart is a table's state in one shard.
type tablePart struct {
	heads atomic.Bool // the table has, or may soon have, deletions in its head family
	spans spanMap
	feed  feedPart
}

const (
	lossyUnknown = iota
	lossyNo
	lossyYes
)

// isLossy reports that some key column's key form does not give back what was written.
func (tbl *table) isLossy(t *schema.Table) bool {
	v := tbl.lossy.Load()
	if v == lossyUnknown {
		v = lossyNo
		if lossyColumns(t.PartitionKey) || lossyColumns(t.Clustering) {
			v = lossyYes
		}
		tbl.lossy.Store(v)
	}
	return v == lossyYes
}

// tableFor is the state of a table; the first call for a physical id makes it.
func (s *Store) tableFor(t *schema.Table) *table {
	tbl := s.tableByID(t.PhysID)
	if tbl.def.Load() != t {
		tbl.def.Store(t)
	}
	return tbl
}

func (s *Store) tableByID(phys uint32) *table {
	if tbl := (*s.tables.Load())[phys]; tbl != nil {
		return tbl
	}
	return s.addTable(phys)
}

func (s *Store) addTable(phys uint32) *table {
	s.tablesMu.Lock()
	defer s.tablesMu.Unlock()
	old := *s.tables.Load()
	if tbl := old[phys]; tbl != nil {
		return tbl
	}
	tbl := &table{phys: phys, parts: make([]tablePart, len(s.shards))}
	for i := range tbl.parts {
		tbl.parts[i].spans.store = s
		tbl.parts[i].spans.mu.steps = s.steps
		tbl.parts[i].heads.Store(s.shards[i].hasHeads(phys))
	}
	next := maps.Clone(old)
	next[phys] = tbl
	s.tables.Store(&next)
	return tbl
}
