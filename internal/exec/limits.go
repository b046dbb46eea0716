package exec

import "sync/atomic"

// Limits are settings that may change while the server runs. Their defaults
// are cassandra.yaml's.
type Limits struct {
	TombstoneWarn      atomic.Int64 // tombstone_warn_threshold, 1000
	TombstoneFail      atomic.Int64 // tombstone_failure_threshold, 100000
	TombstonesAll      atomic.Bool  // tombstones_counted: all
	BatchWarnBytes     atomic.Int64 // batch_size_warn_threshold, 5 KiB
	BatchFailBytes     atomic.Int64 // batch_size_fail_threshold, 50 KiB
	UnloggedWarnParts  atomic.Int64 // unlogged_batch_across_partitions_warn_threshold, 10
	MaxPrepared        atomic.Int64 // prepared statements kept, 10000
	MaxPreparedBytes   atomic.Int64 // and their text and plan bytes, 64 MiB
	MaxStatementBytes  atomic.Int64 // longest CQL text, 16 MiB
	MaxValueBytes      atomic.Int64 // max_mutation_size, 16 MiB
	SlowQueryMillis    atomic.Int64 // slow_query_log_timeout, 500
	ReadTimeoutMillis  atomic.Int64 // read_request_timeout, 5000
	RangeTimeoutMillis atomic.Int64 // range_request_timeout, 10000
	WriteTimeoutMillis atomic.Int64 // write_request_timeout, 2000
	Guardrails         Guardrails   // all off
}

// NewLimits returns the defaults.
func NewLimits() *Limits {
	l := &Limits{}
	l.TombstoneWarn.Store(1000)
	l.TombstoneFail.Store(100_000)
	l.BatchWarnBytes.Store(5 << 10)
	l.BatchFailBytes.Store(50 << 10)
	l.UnloggedWarnParts.Store(10)
	l.MaxPrepared.Store(10_000)
	l.MaxPreparedBytes.Store(64 << 20)
	l.MaxStatementBytes.Store(16 << 20)
	l.MaxValueBytes.Store(16 << 20)
	l.SlowQueryMillis.Store(500)
	l.ReadTimeoutMillis.Store(5000)
	l.RangeTimeoutMillis.Store(10_000)
	l.WriteTimeoutMillis.Store(2000)
	return l
}
