package store

import (
	"math"
	"testing"
)

// TestHistogramBuckets: buckets tile the numbers, and each holds its own top.
func TestHistogramBuckets(t *testing.T) {
	last := -1
	for i := range histogramBuckets - 1 {
		top := histogramTop(i)
		if histogramBucket(top) != i || histogramBucket(top+1) != i+1 {
			t.Fatalf("bucket %d: top %d lies in %d, the next in %d", i, top, histogramBucket(top), histogramBucket(top+1))
		}
		last = i
	}
	if histogramBucket(math.MaxInt64) > last+1 || histogramBucket(-5) != 0 {
		t.Error("values out of range have no bucket")
	}
}

func TestHistogramPercentiles(t *testing.T) {
	var h histogram
	if d := h.show(); d != (Distribution{}) {
		t.Errorf("empty: %+v", d)
	}
	for v := range int64(1000) {
		h.add(v + 1)
	}
	d := h.show()
	if d.Count != 1000 || d.Max != 1000 || d.P50 < 500 || d.P50 > 640 || d.P99 < 990 || d.P99 > 1000 {
		t.Errorf("%+v", d)
	}
	h.add(1 << 50)
	if d := h.show(); d.Max != 1<<50 || d.P99 > 1100 {
		t.Errorf("one outlier: %+v", d)
	}
}
