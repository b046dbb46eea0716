package store

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"varve/internal/cqltype"
	"varve/internal/schema"
)

var errUnwritten = errors.New("unwritten")

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
	// Logger receives the store's log; the default discards it.
	Logger *slog.Logger
	// Clock gives the time; the default is time.Now.
	Clock func() time.Time
	// ReadOnly opens without writing.
	ReadOnly bool
	// Fatal is called when a journal sync failed and no further acknowledgement
	// can be trusted; the default ends the process.
	Fatal func(error)
}

// Store is an open store. All methods may be called concurrently.
type Store struct{ storeState }

type storeState struct{}

// Open opens or creates a store. A directory that is missing, swapped or of
// another store is refused by name.
func Open(ctx context.Context, o Options) (*Store, error) { panic(errUnwritten) }

// Close flushes nothing but syncs the journals and waits for background work.
func (s *Store) Close() error { panic(errUnwritten) }

// HostID is the store's identity, made when it was created.
func (s *Store) HostID() schema.UUID { panic(errUnwritten) }

// LoadRecords implements schema.Storage.
func (s *Store) LoadRecords(ctx context.Context) ([]schema.Record, error) { panic(errUnwritten) }

// SaveRecords implements schema.Storage: one synced batch.
func (s *Store) SaveRecords(ctx context.Context, records []schema.Record) error { panic(errUnwritten) }

// Key identifies a partition of a table.
type Key struct {
	Token int64
	enc   []byte // partition key components in key form
}

// KeyOf makes the Key of a partition from its components in binary form. The
// total serialized size is at most 65535 bytes.
func KeyOf(t *schema.Table, components [][]byte) (Key, error) { panic(errUnwritten) }

// Components returns the partition key's components in binary form.
func (k Key) Components(t *schema.Table) ([][]byte, error) { panic(errUnwritten) }

// Bound is one end of a slice of clustering rows: a prefix of the clustering
// columns (binary form; empty prefix: unbounded). Inclusive bounds take in every
// row that begins with the prefix.
type Bound struct {
	Prefix    [][]byte
	Inclusive bool
}

// Slice is a range of rows in clustering order (the table's order, DESC
// columns included: Start comes first on disk).
type Slice struct{ Start, End Bound }

// Batch collects changes to any number of partitions. It is used by one goroutine.
// Timestamps are microseconds, TTLs seconds (0: none).
type Batch struct{ batchState }

type batchState struct{}

// NewBatch starts a batch; nowSec is the clock in seconds for deletion times and expiry.
func (s *Store) NewBatch(nowSec int64) *Batch { panic(errUnwritten) }

// Row starts (or goes on with) changes to one row; clustering nil means the
// partition's static row. The builder is valid until the next call on the batch.
func (b *Batch) Row(t *schema.Table, k Key, clustering [][]byte) *RowBuilder { panic(errUnwritten) }

// DeletePartition deletes everything in the partition written at or before ts.
func (b *Batch) DeletePartition(t *schema.Table, k Key, ts int64) { panic(errUnwritten) }

// DeleteRange deletes the partition's rows in the slice written at or before ts.
func (b *Batch) DeleteRange(t *schema.Table, k Key, s Slice, ts int64) { panic(errUnwritten) }

// Len is the number of rows and deletions in the batch; Size its bytes.
func (b *Batch) Len() int { panic(errUnwritten) }

// Size is the batch's size in bytes.
func (b *Batch) Size() int { panic(errUnwritten) }

// Discard drops an unapplied batch for reuse.
func (b *Batch) Discard() { panic(errUnwritten) }

// RowBuilder adds changes to one row.
type RowBuilder struct{ rowBuilderState }

type rowBuilderState struct{}

// Marker sets the row marker (INSERT).
func (r *RowBuilder) Marker(ts int64, ttl int32) { panic(errUnwritten) }

// Set writes a simple (single-cell) column.
func (r *RowBuilder) Set(c *schema.Column, ts int64, ttl int32, value []byte) { panic(errUnwritten) }

// Unset writes a simple column's tombstone.
func (r *RowBuilder) Unset(c *schema.Column, ts int64) { panic(errUnwritten) }

// SetElement writes one cell of a multi-cell column: path is the list's
// timeuuid, the set's element, the map's key, or the UDT field's index (i16).
func (r *RowBuilder) SetElement(c *schema.Column, path []byte, ts int64, ttl int32, value []byte) {
	panic(errUnwritten)
}

// UnsetElement writes one element's tombstone.
func (r *RowBuilder) UnsetElement(c *schema.Column, path []byte, ts int64) { panic(errUnwritten) }

// Clear deletes all elements of a multi-cell column written at or before ts.
// (An overwrite is Clear at ts-1, then SetElement at ts, as in Cassandra.)
func (r *RowBuilder) Clear(c *schema.Column, ts int64) { panic(errUnwritten) }

// Delete deletes the row (or the static row's cells) written at or before ts.
func (r *RowBuilder) Delete(ts int64) { panic(errUnwritten) }

// Increment adds to a counter. Apply reads the counter under the partition's exclusive stripe.
func (r *RowBuilder) Increment(c *schema.Column, delta int64) { panic(errUnwritten) }

// Index adds an index entry that points from value to this row (static rows:
// to the partition). Entries are hints: they carry no time and a reader checks the row.
func (r *RowBuilder) Index(x *schema.Index, value []byte) { panic(errUnwritten) }

// Commit is an applied batch that may not be durable yet.
type Commit struct{ commitState }

type commitState struct{}

// Wait returns once the batch may be acknowledged. It must be called once.
func (c Commit) Wait() error { panic(errUnwritten) }

// Apply makes the batch visible: atomically in each shard, and, where logged
// and the batch spans shards, whole even after a crash. The batch is used up.
func (s *Store) Apply(ctx context.Context, b *Batch, logged bool) (Commit, error) {
	panic(errUnwritten)
}

// Lock holds partitions exclusively for read-then-write (LWT, lists by index).
type Lock struct{ lockState }

type lockState struct{}

// Lock takes the partitions' stripes exclusively, in order.
func (s *Store) Lock(ctx context.Context, t *schema.Table, keys ...Key) (*Lock, error) {
	panic(errUnwritten)
}

// Apply is Store.Apply for a batch that touches only locked partitions.
func (l *Lock) Apply(ctx context.Context, b *Batch) (Commit, error) { panic(errUnwritten) }

// Sync waits until everything read under the lock is durable, so that an
// answer never rests on state that a crash could take back.
func (l *Lock) Sync() error { panic(errUnwritten) }

// Unlock releases the partitions.
func (l *Lock) Unlock() { panic(errUnwritten) }

// ReadStats counts what a read touched; one is shared by all of a request's iterators.
type ReadStats struct {
	Rows       int64 // live rows returned
	Walked     int64 // tombstones stepped over: dead rows and dead cells, as Cassandra counts them
	Jumped     int64 // dead rows passed in spans, not touched
	Spans      int64 // spans used
	RangeTombs int64 // range and partition deletions consulted
	Partitions int64
	BytesRead  int64  // bytes of row values decoded
	LastKey    string // for error texts: last row scanned, as ((1), 2026-…, 7)
}

// TombstoneError ends a read that met more tombstones than it may.
type TombstoneError struct {
	Count   int64
	Token   int64
	LastRow [][]byte // clustering of the last row scanned
	LastKey Key
}

// Error implements error.
func (e *TombstoneError) Error() string { panic(errUnwritten) }

// ReadOptions configure a View.
type ReadOptions struct {
	NowSec int64 // clock for expiry
	// FailAfter ends a read with a TombstoneError once it counted more than
	// this many tombstones; 0: never.
	FailAfter int64
	// CountAll counts jumped rows as walked ones towards FailAfter.
	CountAll bool
	// Stats receives counts; required.
	Stats *ReadStats
	// Deadline stops an iterator with ErrDeadline between rows; zero: none.
	Deadline time.Time
}

// ErrDeadline says that a read stopped at its deadline; the iterator's
// Position tells from where to go on.
var ErrDeadline = errors.New("read deadline passed")

// View is one consistent state of the store for one request (one state of
// each shard). It must be closed. It is used by one goroutine.
type View struct{ viewState }

type viewState struct{}

// View opens a view.
func (s *Store) View(o ReadOptions) *View { panic(errUnwritten) }

// Close releases the view.
func (v *View) Close() error { panic(errUnwritten) }

// RowQuery says which rows of a partition, or of each partition, to return.
type RowQuery struct {
	// Slices in clustering order, disjoint; nil: all rows. A slice with equal
	// full prefixes, both inclusive, is a single row.
	Slices  []Slice
	Reverse bool
	// StaticOnly asks for static rows alone (DISTINCT, or only static columns).
	StaticOnly bool
	// NoStatic skips the static row.
	NoStatic bool
}

// Partition reads one partition.
func (v *View) Partition(t *schema.Table, k Key, q RowQuery) *Rows { panic(errUnwritten) }

// TokenRange is a range of partitions in token order. After and From, when
// set, start past or at a partition (paging).
type TokenRange struct {
	StartToken, EndToken         int64
	StartInclusive, EndInclusive bool
	StartUnbounded, EndUnbounded bool
	From                         *Key // start at this partition, inclusive
	After                        *Key // start after this partition
}

// Range reads partitions in token order. firstSlices, when not nil, replaces
// q.Slices for the first partition returned when it is r.From (paging inside it).
func (v *View) Range(t *schema.Table, r TokenRange, q RowQuery, firstSlices []Slice) *Rows {
	panic(errUnwritten)
}

// Rows iterates over rows, partition by partition. A partition is returned
// when it has a live static row or any live row. Usage:
//
//	for rows.NextPartition() { for rows.Next() { rows.Row() … } }
//
// Everything returned is valid until the next call of Next or NextPartition.
type Rows struct{ rowsState }

type rowsState struct{}

// NextPartition goes to the next partition that is not empty (skipping what is left of this one).
func (r *Rows) NextPartition() bool { panic(errUnwritten) }

// Key is the current partition's.
func (r *Rows) Key() Key { panic(errUnwritten) }

// KeyComponents are the current partition's key components in binary form.
func (r *Rows) KeyComponents() [][]byte { panic(errUnwritten) }

// Static is the partition's static row; nil when it holds nothing live.
func (r *Rows) Static() *Row { panic(errUnwritten) }

// Next goes to the next live row of the partition.
func (r *Rows) Next() bool { panic(errUnwritten) }

// Row is the current row.
func (r *Rows) Row() *Row { panic(errUnwritten) }

// Err is the error that ended iteration, if any.
func (r *Rows) Err() error { panic(errUnwritten) }

// Position is where iteration stopped (after ErrDeadline): the partition, and the
// clustering of the last row passed, nil when none was.
func (r *Rows) Position() (Key, [][]byte, bool) { panic(errUnwritten) }

// Close releases the iterator and returns Err.
func (r *Rows) Close() error { panic(errUnwritten) }

// Cell is one live cell.
type Cell struct {
	Path      []byte // multi-cell columns only
	Value     []byte
	Timestamp int64
	TTL       int32 // 0: none
	Expiry    int64 // seconds; 0: none
}

// Row is one live row, reconciled. Its slices alias the iterator's buffers.
type Row struct{ rowState }

type rowState struct{}

// Clustering are the row's clustering values in binary form; nil for a static row.
func (r *Row) Clustering() [][]byte { panic(errUnwritten) }

// Marker is the row marker, when it is live.
func (r *Row) Marker() (c Cell, ok bool) { panic(errUnwritten) }

// Cell is a simple column's live cell.
func (r *Row) Cell(c *schema.Column) (cell Cell, ok bool) { panic(errUnwritten) }

// Value is a simple column's live value, nil when there is none: the hot path.
func (r *Row) Value(c *schema.Column) []byte { panic(errUnwritten) }

// Elements appends a multi-cell column's live cells to dst in the order
// Cassandra returns them (lists by timeuuid, sets and maps by key, UDTs by field).
func (r *Row) Elements(dst []Cell, c *schema.Column) []Cell { panic(errUnwritten) }

// IndexQuery is a range of an index: values between Lo and Hi (nil: unbounded).
type IndexQuery struct {
	Lo, Hi                   []byte
	LoInclusive, HiInclusive bool
	Partition                *Key        // only this partition
	After                    *IndexEntry // paging: start past this entry
}

// IndexEntry is one entry: a row that had the value at some time.
type IndexEntry struct {
	Value      []byte
	Key        Key
	Clustering [][]byte // nil: static row
}

// Index reads entries in order of value, token, partition key, clustering.
func (v *View) Index(t *schema.Table, x *schema.Index, q IndexQuery) *IndexIter { panic(errUnwritten) }

// IndexIter iterates over index entries.
type IndexIter struct{ indexIterState }

type indexIterState struct{}

// Next goes to the next entry.
func (i *IndexIter) Next() bool { panic(errUnwritten) }

// Entry is the current entry, valid until Next.
func (i *IndexIter) Entry() IndexEntry { panic(errUnwritten) }

// Close releases the iterator and returns its error.
func (i *IndexIter) Close() error { panic(errUnwritten) }

// RemoveStaleEntry removes an index entry that the caller found stale, unless
// stillStale, called under the partition's exclusive stripe with a fresh view, says otherwise.
func (s *Store) RemoveStaleEntry(t *schema.Table, x *schema.Index, e IndexEntry, stillStale func(*View) bool) error {
	panic(errUnwritten)
}

// Truncate removes all rows and index entries of a table written so far.
func (s *Store) Truncate(ctx context.Context, t *schema.Table) error { panic(errUnwritten) }

// DropPhys removes everything under a physical id (a dropped table or index).
func (s *Store) DropPhys(ctx context.Context, id uint32) error { panic(errUnwritten) }

// Flush writes memtables to tables; Compact rewrites a table's range. A nil table means all.
func (s *Store) Flush(ctx context.Context, t *schema.Table) error { panic(errUnwritten) }

// Compact rewrites a table's key range (nil: everything), purging what may be purged.
func (s *Store) Compact(ctx context.Context, t *schema.Table) error { panic(errUnwritten) }

// TableStats are what tablestats shows of a table.
type TableStats struct {
	LiveBytes, TotalBytes int64
	Partitions, Rows      int64 // estimates
	DeadSpans             int64
	DeadRows              int64 // in spans
	MemtableBytes         int64
	Reads, Writes         int64
	ReadLatency           time.Duration // mean, since start
	WriteLatency          time.Duration
	Files                 int
	MaxTombstones         int64 // largest Walked of one read in the last five minutes
	MeanTombstones        float64
	MeanLive              float64
	MaxLive               int64
}

// TableStats estimates a table's size and shows its spans.
func (s *Store) TableStats(t *schema.Table) (TableStats, error) { panic(errUnwritten) }

// Span is a dead span, for display: no row between its bounds is live.
type Span struct {
	Key               Key
	Start, End        [][]byte // clustering of the first and last dead row
	Rows              int64
	NewestDeletion    int64 // seconds
	LatestExpiry      int64 // seconds; 0: none
	EstimatedRowCount bool
}

// Spans lists a table's dead spans.
func (s *Store) Spans(t *schema.Table, k *Key, limit int) ([]Span, error) { panic(errUnwritten) }

// Snapshot makes a checkpoint of every shard under dir (one subdirectory a shard).
func (s *Store) Snapshot(ctx context.Context, dir string) error { panic(errUnwritten) }

// Metrics is a flat view of the engine's counters for the metrics page.
func (s *Store) Metrics() map[string]float64 { panic(errUnwritten) }

// keep the import used until the implementation is here.
var _ = cqltype.Text
