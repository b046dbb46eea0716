package store

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// histogramBuckets cover values up to 2^62, four a power of two: a percentile is right to a quarter.
const histogramBuckets = 62 * 4

// histogram counts values since the start; the zero value is empty.
type histogram struct {
	buckets [histogramBuckets]atomic.Int64
	max     atomic.Int64
}

func histogramBucket(v int64) int {
	if v < 4 {
		return int(max(v, 0))
	}
	e := bits.Len64(uint64(v)) - 1
	return min(4*(e-1)+int(v>>(e-2)&3), histogramBuckets-1)
}

// histogramTop is the largest value of a bucket.
func histogramTop(i int) int64 {
	if i < 4 {
		return int64(i)
	}
	e := i/4 + 1
	return int64(4+i%4+1)<<(e-2) - 1
}

func (h *histogram) add(v int64) {
	h.buckets[histogramBucket(v)].Add(1)
	for m := h.max.Load(); v > m && !h.max.CompareAndSwap(m, v); m = h.max.Load() {
	}
}

// Distribution describes the values that were counted since the start.
type Distribution struct {
	Count         int64
	P50, P99, Max int64 // P50 and P99 to a quarter of their value
}

func (h *histogram) show() Distribution {
	d := Distribution{Max: h.max.Load()}
	var counts [histogramBuckets]int64
	for i := range counts {
		counts[i] = h.buckets[i].Load()
		d.Count += counts[i]
	}
	at := func(share float64) int64 {
		rank, seen := int64(math.Ceil(share*float64(d.Count))), int64(0)
		for i, n := range counts {
			if seen += n; n > 0 && seen >= rank {
				return min(histogramTop(i), d.Max)
			}
		}
		return 0
	}
	d.P50, d.P99 = at(0.5), at(0.99)
	return d
}

// tableHistograms are a table's; one is made for a table that is used.
type tableHistograms struct{ read, write, walked, rows histogram }

// histograms makes a table's histograms at its first read or write.
func (c *tableCounters) histograms() *tableHistograms {
	if h := c.hist.Load(); h != nil {
		return h
	}
	c.hist.CompareAndSwap(nil, new(tableHistograms))
	return c.hist.Load()
}

func (h *tableHistograms) readOf(d time.Duration, st *ReadStats) {
	h.read.add(int64(d))
	if st != nil {
		h.walked.add(st.Walked)
		h.rows.add(st.Rows)
	}
}

// TableDistributions are what a table's reads and writes were like since the
// start: latencies in nanoseconds, tombstones walked and live rows per read.
type TableDistributions struct{ ReadLatency, WriteLatency, Walked, Rows Distribution }
