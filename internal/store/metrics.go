package store

import (
	"errors"
	"strings"

	"github.com/cockroachdb/pebble/v2"
)

// Metrics is a flat view of the engine's counters for the metrics page. Sums
// are over shards; names end in their unit or in _total.
func (s *Store) Metrics() map[string]float64 {
	out := map[string]float64{
		"shards": float64(len(s.shards)), "views_open": float64(s.reads.Load()),
		"dead_span_bytes": float64(s.spanBytes.Load()), "dead_span_limit_bytes": float64(s.opts.SpanBytes),
		"background_tasks": float64(s.work.len()),
	}
	c := &s.metrics
	for name, v := range map[string]int64{
		"dead_spans_published_total": c.spansPublished.Load(), "dead_rows_published_total": c.spanRows.Load(),
		"dead_spans_purged_total": c.spansPurged.Load(), "dead_spans_evicted_total": c.spansEvicted.Load(),
		"coalescer_scans_total": c.scans.Load(), "coalescer_rows_scanned_total": c.scanned.Load(),
		"coalescer_tasks_lost_total": c.tasksLost.Load(), "rows_removed_total": c.rowsRemoved.Load(),
		"rows_purged_total": c.rowsPurged.Load(), "rows_folded_total": c.folded.Load(),
		"feed_records_total": c.feedRecords.Load(), "fence_refusals_total": c.fenceRefusals.Load(),
		"reclaim_looks_total": c.reclaimLooks.Load(), "reclaim_compactions_total": c.reclaims.Load(),
		"reclaim_forced_total": c.reclaimForced.Load(), "reclaim_postponed_total": c.reclaimPostponed.Load(),
		"reclaim_rewritten_bytes_total": c.reclaimCost.Load(), "reclaim_returned_bytes_total": c.reclaimGain.Load(),
		"reclaim_excised_total": c.excised.Load(), "reclaim_rate_bytes_per_second": s.opts.ReclaimRate,
		"index_entries_swept_total":   c.entriesRemoved.Load(),
		"sweeps_total":                c.sweeps.Load(),
		"dead_spans_recounted_total":  c.recounted.Load(),
		"head_deletions_purged_total": c.intervalsPurged.Load(), "background_pass_errors_total": c.passErrors.Load(),
	} {
		out[name] = float64(v)
	}
	for _, tbl := range *s.tables.Load() {
		for i := range tbl.parts {
			out["dead_spans"] += float64(tbl.parts[i].spans.n.Load())
			out["feed_bytes"] += float64(tbl.parts[i].feed.held.Load())
		}
	}
	s.readTotals.show(out)
	out["reclaim_seconds_total"] = float64(c.reclaimNanos.Load()) / 1e9
	for _, sh := range s.shards {
		places, rows := sh.debts.show()
		out["reclaim_places"] += float64(places)
		out["reclaim_dead_rows"] += float64(rows)
		sh.addMetrics(out)
	}
	return out
}

func (sh *shard) addMetrics(out map[string]float64) {
	c := &sh.counters
	add := func(name string, v float64) { out[name] += v }
	add("flushes_total", float64(c.flushes.Load()))
	add("flushed_bytes_total", float64(c.flushedBytes.Load()))
	add("compactions_total", float64(c.compactions.Load()))
	add("compacted_bytes_total", float64(c.compactedBytes.Load()))
	add("write_stalls_total", float64(c.stalls.Load()))
	add("disk_slow_total", float64(c.diskSlow.Load()))
	add("engine_errors_total", float64(c.backgroundErrors.Load()))
	m := sh.db.Metrics()
	add("block_cache_bytes", float64(m.BlockCache.Size)/float64(len(sh.s.shards)))
	add("block_cache_hits_total", float64(m.BlockCache.Hits)/float64(len(sh.s.shards)))
	add("block_cache_misses_total", float64(m.BlockCache.Misses)/float64(len(sh.s.shards)))
	add("compactions_running", float64(m.Compact.NumInProgress))
	add("compaction_debt_bytes", float64(m.Compact.EstimatedDebt))
	add("memtable_bytes", float64(m.MemTable.Size))
	add("journal_bytes", float64(m.WAL.PhysicalSize))
	add("journal_bytes_in_total", float64(m.WAL.BytesIn))
	add("journal_bytes_written_total", float64(m.WAL.BytesWritten))
	add("disk_bytes", float64(m.DiskSpaceUsage()))
	for _, l := range m.Levels {
		add("tables", float64(l.TablesCount))
		add("table_bytes", float64(l.TablesSize))
	}
	add("read_amplification", float64(m.ReadAmp())/float64(len(sh.s.shards)))
}

// LastError is the newest error of the engine's or the store's background, "" when there was none.
func (s *Store) LastError() string {
	var out []string
	if p := s.metrics.lastPassError.Load(); p != nil {
		out = append(out, *p)
	}
	for _, sh := range s.shards {
		if p := sh.counters.lastError.Load(); p != nil {
			out = append(out, *p)
		}
	}
	return strings.Join(out, "; ")
}

// sampleRows is how many rows an estimate of a table's rows and partitions looks at.
const sampleRows = 2000

// estimateRows estimates a table's rows and partitions in the shard from some
// thousand of its rows and the bytes of all of them; files are those that hold any.
func (sh *shard) estimateRows(phys uint32) (files int, rows, partitions int64, err error) {
	lo := appendTablePrefix(nil, phys, familyRow)
	hi := prefixEnd(lo)
	levels, err := sh.db.SSTables(pebble.WithKeyRangeFilter(lo, hi))
	if err != nil {
		return 0, 0, 0, err
	}
	for _, l := range levels {
		files += len(l)
	}
	it, err := sh.db.NewIter(&pebble.IterOptions{LowerBound: lo, UpperBound: hi})
	if err != nil {
		return 0, 0, 0, err
	}
	n, parts := int64(0), int64(0)
	var prev, last []byte
	for valid := it.First(); valid && n < sampleRows; valid = it.Next() {
		n++
		key := it.Key()
		if len(prev) == 0 || string(prev) != string(key[tablePrefixBytes:tablePrefixBytes+tokenBytes]) {
			parts++
			prev = append(prev[:0], key[tablePrefixBytes:tablePrefixBytes+tokenBytes]...)
		}
		last = append(last[:0], key...)
	}
	more := it.Valid()
	if err := errors.Join(it.Error(), it.Close()); err != nil || !more {
		return files, n, parts, err
	}
	seen, err := sh.db.EstimateDiskUsage(lo, last)
	if err != nil {
		return files, 0, 0, err
	}
	all, err := sh.db.EstimateDiskUsage(lo, hi)
	if err != nil || seen == 0 || all < seen {
		return files, n, parts, err
	}
	share := float64(all) / float64(seen)
	return files, int64(share * float64(n)), max(1, int64(share*float64(parts))), nil
}
