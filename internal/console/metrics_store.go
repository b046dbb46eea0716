package console

import (
	"sort"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// storeHelp explains the figures of store.Metrics. Every one has its line here;
// a test of the server wants it.
var storeHelp = map[string]string{
	"background_pass_errors_total":  "Passes of the store's background work that ended with an error.",
	"background_tasks":              "Tasks that wait for the store's background work.",
	"block_cache_bytes":             "Bytes in the block cache.",
	"block_cache_hits_total":        "Blocks found in the block cache.",
	"block_cache_misses_total":      "Blocks read from the disk because the cache lacked them.",
	"coalescer_rows_scanned_total":  "Rows looked at in search of dead spans.",
	"coalescer_scans_total":         "Scans in search of dead spans.",
	"coalescer_tasks_lost_total":    "Scans given up because too many waited; a later read asks again.",
	"compacted_bytes_total":         "Bytes written by compactions.",
	"compaction_debt_bytes":         "Bytes that compactions have still to rewrite, as estimated.",
	"compactions_running":           "Compactions that run now.",
	"compactions_total":             "Compactions that ended.",
	"dead_rows_published_total":     "Dead rows in the dead spans that were published.",
	"dead_span_bytes":               "Memory that dead spans take.",
	"dead_span_limit_bytes":         "Memory that dead spans may take (span_size).",
	"dead_spans":                    "Dead spans in use.",
	"dead_spans_evicted_total":      "Dead spans dropped to keep within span_size.",
	"dead_spans_jumped_total":       "Dead spans that reads jumped over.",
	"dead_spans_published_total":    "Dead spans published.",
	"dead_spans_purged_total":       "Dead spans whose rows were purged.",
	"dead_spans_recounted_total":    "Dead spans whose rows were counted again after they were cut.",
	"disk_bytes":                    "Bytes on disk, journals included.",
	"disk_slow_total":               "Disk operations that took longer than the engine expects.",
	"engine_errors_total":           "Errors of the storage engine's background work.",
	"feed_bytes":                    "Bytes of changes kept for followers.",
	"feed_records_total":            "Changes recorded for followers.",
	"fence_refusals_total":          "Writes refused by a fence.",
	"flushed_bytes_total":           "Bytes written by flushes of memtables.",
	"flushes_total":                 "Flushes of memtables.",
	"head_deletions_purged_total":   "Range and partition deletions purged.",
	"index_entries_swept_total":     "Index entries of dead or changed rows removed by the background.",
	"journal_bytes":                 "Bytes of the journals on disk.",
	"journal_bytes_in_total":        "Bytes of changes given to the journals.",
	"journal_bytes_written_total":   "Bytes that the journals wrote for them.",
	"memtable_bytes":                "Memory of the memtables.",
	"read_amplification":            "Files that a read may have to look into, the mean over shards.",
	"reclaim_compactions_total":     "Compactions made to return the space of dead rows.",
	"reclaim_dead_rows":             "Dead rows in places known to hold many of them.",
	"reclaim_excised_total":         "Ranges of dead rows cut out without being rewritten.",
	"reclaim_forced_total":          "Compactions made for reads that walk too many dead rows.",
	"reclaim_looks_total":           "Looks for places worth compacting for their dead rows.",
	"reclaim_places":                "Places known to hold many dead rows.",
	"reclaim_postponed_total":       "Compactions for dead rows put off, to keep within their rate.",
	"reclaim_rate_bytes_per_second": "Bytes a second that compactions for dead rows may rewrite.",
	"reclaim_returned_bytes_total":  "Bytes returned by compactions for dead rows.",
	"reclaim_rewritten_bytes_total": "Bytes rewritten by compactions for dead rows.",
	"reclaim_seconds_total":         "Time taken by compactions for dead rows.",
	"rows_folded_total":             "Rows of many changes written anew as one, because reads met them often.",
	"rows_purged_total":             "Dead rows purged with a deletion older than gc_grace_seconds.",
	"rows_read_total":               "Live rows that reads met.",
	"rows_removed_total":            "Dead rows removed from the engine beside a deletion that stays.",
	"shards":                        "Shards, one a data directory.",
	"sweeps_total":                  "Passes over tables in search of what can be removed.",
	"table_bytes":                   "Bytes of the engine's table files.",
	"tables":                        "The engine's table files.",
	"tombstones_jumped_total":       "Dead rows that reads passed in dead spans, untouched.",
	"tombstones_walked_total":       "Tombstones that reads stepped over one by one.",
	"views_open":                    "Reads in progress.",
	"write_stalls_total":            "Times that writes waited for flushes or compactions.",
}

// store sends the storage engine's figures: counters end in _total, all others
// go up and down.
func (m *metrics) store(ch chan<- prometheus.Metric) {
	engine := m.w.Store.Metrics()
	names := make([]string, 0, len(engine))
	for name := range engine {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		kind := prometheus.GaugeValue
		if strings.HasSuffix(name, "_total") {
			kind = prometheus.CounterValue
		}
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc("varve_store_"+name, storeHelp[name], nil, nil), kind, engine[name])
	}
	count, sum, atMost, err := m.w.Store.JournalSyncs()
	desc := prometheus.NewDesc("varve_store_journal_sync_seconds", "Time that a sync of a journal took.", nil, nil)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(desc, err)
		return
	}
	ch <- prometheus.MustNewConstHistogram(desc, count, sum, thinned(atMost))
}

// thinned leaves out bounds that are not near twice the one before: the engine
// keeps a hundred of them.
func thinned(atMost map[float64]uint64) map[float64]uint64 {
	bounds := make([]float64, 0, len(atMost))
	for b := range atMost {
		bounds = append(bounds, b)
	}
	sort.Float64s(bounds)
	out, last := map[float64]uint64{}, 0.0
	for _, b := range bounds {
		if b > 0 && b >= 1.9*last {
			out[b], last = atMost[b], b
		}
	}
	return out
}
