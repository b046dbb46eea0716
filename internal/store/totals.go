package store

import (
	"fmt"
	"sync/atomic"

	dto "github.com/prometheus/client_model/go"
)

// readTotals sum what all reads met since the start.
type readTotals struct{ rows, walked, jumped, spans atomic.Int64 }

func (t *readTotals) add(st *ReadStats) {
	if st == nil {
		return
	}
	t.rows.Add(st.Rows)
	// Most reads meet no tombstone, and leave these alone.
	if st.Walked > 0 {
		t.walked.Add(st.Walked)
	}
	if st.Spans > 0 {
		t.jumped.Add(st.Jumped)
		t.spans.Add(st.Spans)
	}
}

func (t *readTotals) show(out map[string]float64) {
	out["rows_read_total"] = float64(t.rows.Load())
	out["tombstones_walked_total"] = float64(t.walked.Load())
	out["tombstones_jumped_total"] = float64(t.jumped.Load())
	out["dead_spans_jumped_total"] = float64(t.spans.Load())
}

// JournalSyncs is the distribution of the time that syncs of the journals took
// since the start, over all shards: their number, their sum in seconds, and
// how many took at most each of the bounds, in seconds.
func (s *Store) JournalSyncs() (count uint64, sum float64, atMost map[float64]uint64, err error) {
	atMost = map[float64]uint64{}
	for _, sh := range s.shards {
		h := sh.db.Metrics().LogWriter.FsyncLatency
		if h == nil {
			continue
		}
		var m dto.Metric
		if err := h.Write(&m); err != nil {
			return 0, 0, nil, fmt.Errorf("latency of journal syncs: %w", err)
		}
		count += m.GetHistogram().GetSampleCount()
		sum += m.GetHistogram().GetSampleSum() / 1e9 // the engine counts nanoseconds
		for _, b := range m.GetHistogram().GetBucket() {
			atMost[b.GetUpperBound()/1e9] += b.GetCumulativeCount()
		}
	}
	return count, sum, atMost, nil
}
