package store

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"varve/internal/schema"
)

// Durability says when a write is acknowledged.
type Durability uint8

// The durabilities.
const (
	// Durable acknowledges a write once its journal record is synced (group commit).
	Durable Durability = iota
	// Periodic acknowledges at once and syncs every SyncPeriod, as Cassandra's
	// commitlog_sync: periodic; a crash of the machine loses up to that much.
	Periodic
)

// Options configure a store. The zero value of each field means its default.
type Options struct {
	// DataDirs are the data directories, one shard each. Required.
	DataDirs []string
	// JournalDirs are the journal directories, parallel to DataDirs; empty: journals lie with the data.
	JournalDirs []string
	// FS is the file system; the default is the operating system's.
	FS vfs.FS
	// Durability of commits; the default is Durable.
	Durability Durability
	// SyncPeriod of Periodic; the default is 10 s, as in cassandra.yaml.
	SyncPeriod time.Duration
	// CacheBytes is the block cache's size, shared by all shards; the default is 256 MiB.
	CacheBytes int64
	// MemtableBytes is one memtable's size; the default is 32 MiB.
	MemtableBytes int64
	// SpanBytes bounds the memory of dead spans; the default is 64 MiB.
	SpanBytes int64
	// FeedBytes bounds a table's change feed; the default is 4 GiB.
	FeedBytes int64
	// FeedDrop drops a full feed's oldest records instead of refusing writes
	// while a consumer has not confirmed them.
	FeedDrop bool
	// ReclaimRate is how many bytes a second compactions rewrite that the store
	// asks for to get space back or to merge what is walked often; the default is 32 MiB.
	ReclaimRate int64
	// Logger receives the store's log; the default discards it.
	Logger *slog.Logger
	// Clock gives the time; the default is time.Now.
	Clock func() time.Time
	// ReadOnly opens without writing.
	ReadOnly bool
	// Fatal is called when a journal sync failed and no further acknowledgement
	// can be trusted; the default ends the process.
	Fatal func(error)
	// Tables lists the current tables, so that the background knows each one's
	// gc_grace_seconds by its physical id; without it nothing is purged on its own.
	Tables func() []*schema.Table
	// EntryStale tells whether an index entry's row is dead, in a view, or has
	// another value; false when in doubt. Without it stale entries stay until a
	// read has RemoveStaleEntry remove them.
	EntryStale func(*View, *schema.Table, *schema.Index, IndexEntry) bool
	// ManualBackground keeps the background from working on its own: spans are
	// published and space is swept only by RunBackground and Compact. For tests.
	ManualBackground bool

	steps     stepper // for tests that decide on the order of steps
	spanRows  int64   // minSpanRows, for tests with few rows
	pieceRows int64   // minPieceRows
}

const maxShards = 64

// Defaults fills in what was left zero.
func (o *Options) Defaults() {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.SyncPeriod <= 0 {
		o.SyncPeriod = 10 * time.Second
	}
	if o.CacheBytes <= 0 {
		o.CacheBytes = 256 << 20
	}
	if o.MemtableBytes <= 0 {
		o.MemtableBytes = 32 << 20
	}
	if o.spanRows <= 0 {
		o.spanRows, o.pieceRows = minSpanRows, minPieceRows
	}
	if o.SpanBytes <= 0 {
		o.SpanBytes = 64 << 20
	}
	if o.FeedBytes <= 0 {
		o.FeedBytes = 4 << 30
	}
	if o.ReclaimRate <= 0 {
		o.ReclaimRate = 32 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Fatal == nil {
		logger := o.Logger
		o.Fatal = func(err error) {
			logger.Error("journal cannot be trusted, ending the process", "err", err)
			os.Exit(70)
		}
	}
}

// Validate says what is wrong with the options.
func (o *Options) Validate() error {
	switch {
	case len(o.DataDirs) == 0:
		return errors.New("no data directory")
	case len(o.DataDirs) > maxShards:
		return fmt.Errorf("%d data directories; at most %d", len(o.DataDirs), maxShards)
	case len(o.JournalDirs) != 0 && len(o.JournalDirs) != len(o.DataDirs):
		return fmt.Errorf("%d journal directories for %d data directories", len(o.JournalDirs), len(o.DataDirs))
	}
	seen := map[string]bool{}
	for _, d := range append(append([]string(nil), o.DataDirs...), o.JournalDirs...) {
		if d == "" {
			return errors.New("empty directory name")
		}
		clean := o.pathOf(d)
		if seen[clean] {
			return fmt.Errorf("directory %s is given twice", d)
		}
		seen[clean] = true
	}
	return nil
}

func (o *Options) pathOf(d string) string {
	if o.FS == nil {
		return d
	}
	return o.FS.PathJoin(d)
}
