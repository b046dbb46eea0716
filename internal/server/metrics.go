package server

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Kind groups requests for metrics.
type Kind uint8

// The kinds of request.
const (
	KindQuery Kind = iota
	KindPrepare
	KindExecute
	KindBatch
	KindOther // the handshake, OPTIONS, REGISTER
	NumKinds
)

var kindNames = [NumKinds]string{"query", "prepare", "execute", "batch", "other"}

// String returns the name used as a metric label.
func (k Kind) String() string { return kindNames[k] }

// Metrics count what the server does. All fields may be read at any time.
type Metrics struct {
	Connections        atomic.Int64 // open now
	ConnectionsTotal   atomic.Int64 // accepted
	ConnectionsRefused atomic.Int64 // over a limit
	AuthSuccess        atomic.Int64
	AuthFailure        atomic.Int64
	BytesReceived      atomic.Int64
	BytesSent          atomic.Int64
	Reads              atomic.Int64 // read calls that brought bytes
	Writes             atomic.Int64 // write calls
	ProtocolErrors     atomic.Int64
	Overloaded         atomic.Int64 // requests refused for THROW_ON_OVERLOAD
	Paused             atomic.Int64 // times a reader waited at a limit
	Stolen             atomic.Int64 // requests that lost the reader's role
	Detached           atomic.Int64 // requests given a goroutine of their own
	Panics             atomic.Int64
	SlowClients        atomic.Int64 // connections closed because responses were not taken

	Kinds [NumKinds]KindMetrics
	// Statements are the latencies of QUERY, EXECUTE and BATCH, as in KindMetrics.
	Statements [NumStatements]Histogram
}

// KindMetrics count the requests of one kind.
type KindMetrics struct {
	Errors  atomic.Int64
	Latency Histogram // from decoded to answer queued; its count is the number of requests
}

// Histogram has fixed exponential buckets, four to a power of two, from 1 µs.
type Histogram struct {
	sum     atomic.Int64
	buckets [HistogramBuckets]atomic.Int64
}

// HistogramBuckets is the number of buckets; the last one has no upper bound.
const HistogramBuckets = 4*25 + 1

// histogramShift makes the smallest bucket end at 1024 ns.
const histogramShift = 10

func bucketOf(ns int64) int {
	if ns < 1<<histogramShift {
		return 0
	}
	exp := bits.Len64(uint64(ns)) - 1
	sub := int(ns>>(exp-2)) & 3
	return min(1+(exp-histogramShift)*4+sub, HistogramBuckets-1)
}

// BucketBound returns a bucket's upper bound (exclusive); the last has none and gives 0.
func BucketBound(i int) time.Duration {
	if i >= HistogramBuckets-1 {
		return 0
	}
	exp, sub := i/4+histogramShift, i%4
	return time.Duration(int64(4+sub) << (exp - 2))
}

// Observe counts one duration.
func (h *Histogram) Observe(d time.Duration) {
	h.sum.Add(int64(d))
	h.buckets[bucketOf(int64(d))].Add(1)
}

// Snapshot returns the sum of all durations and each bucket's count.
func (h *Histogram) Snapshot() (sum time.Duration, counts [HistogramBuckets]int64) {
	for i := range counts {
		counts[i] = h.buckets[i].Load()
	}
	return time.Duration(h.sum.Load()), counts
}
