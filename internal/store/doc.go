// Package store keeps rows on Pebble: one instance a shard, a shard a slice of
// the token ring with a data directory and a journal directory of its own.
// It owns keys, row values, the merge operator that reconciles them exactly as
// Cassandra does, deletions of every kind, dead spans, counters, the batch
// log, change feeds, table fences, snapshots and purging. It knows tables (package schema) but no CQL.
package store
