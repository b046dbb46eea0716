package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

const stripes = 256

// shard is one slice of the token ring: a Pebble instance and its stripes.
type shard struct {
	s   *Store
	idx int
	db  *pebble.DB
	// A partition's stripe is held shared by each write from its checks to its
	// commit, exclusively by whoever reads and then writes. Stripes are taken in
	// ascending order (shards too), each once.
	stripes [stripes]rwLock
	// epoch counts publications of dead spans; see docs/design/dead-spans.md.
	epoch atomic.Uint64
	// spanMu is held while span records change, from the change of the map to
	// the commit of the records. Taken after stripes.
	spanMu rwLock

	feed feedClock

	hot     hotKeys
	pending deleteTracker
	debts   debtBook
	// gone, ripening and nextReclaim are used by one pass at a time (Store.reclaimMu).
	gone        goneSpans
	ripening    map[*table]*ripening
	nextReclaim time.Time
	recounts    recountBook
	// rangeOps counts range deletions since the memtable was last flushed for them.
	rangeOps atomic.Int64

	counters shardCounters
	troubles trouble
}

// trouble tells those who wait for a flush or compaction that the engine's
// background failed: it tries again and again, and never tells its waiters.
type trouble struct {
	mu   sync.Mutex
	next chan struct{} // closed by the next error
	err  error
}

func (x *trouble) wait() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.next == nil {
		x.next = make(chan struct{})
	}
	return x.next
}

func (x *trouble) last() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err
}

func (x *trouble) raise(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.err = err
	if x.next != nil {
		close(x.next)
		x.next = nil
	}
}

// flush writes the memtable to tables.
func (sh *shard) flush(ctx context.Context) error {
	failed := sh.troubles.wait()
	done, err := sh.db.AsyncFlush()
	if err != nil {
		return err
	}
	select {
	case <-done:
		return sh.s.failed()
	case <-failed:
		return sh.troubles.last()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// compact rewrites what lies in [lo, hi), flushing memtables first. When it
// returns early, because of the context or of an error for which the engine
// would try for ever, the work goes on: Pebble panics when a compaction that it
// has picked but not begun is cancelled.
func (sh *shard) compact(ctx context.Context, lo, hi []byte) error {
	failed := sh.troubles.wait()
	done := make(chan error, 1)
	lo, hi = bytes.Clone(lo), bytes.Clone(hi)
	go func() {
		// Nobody may wait any more, and the engine be closed before this begins.
		defer func() {
			if p := recover(); p == pebble.ErrClosed {
				done <- pebble.ErrClosed
			} else if p != nil {
				panic(p)
			}
		}()
		done <- sh.db.Compact(context.Background(), lo, hi, true)
	}()
	select {
	case err := <-done:
		return err
	case <-failed:
		return sh.troubles.last()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write commits a Pebble batch.
func (sh *shard) write(pb *pebble.Batch, o *pebble.WriteOptions) error {
	sh.s.step(sharedData, true)
	return sh.committed(sh.db.Apply(pb, o))
}

// committed ends the store when a commit failed, since Pebble then holds back
// all that come after it.
func (sh *shard) committed(err error) error {
	if err != nil && !errors.Is(err, pebble.ErrReadOnly) {
		sh.s.fatal(err)
	}
	return err
}

// shardCounters are fed by Pebble's events.
type shardCounters struct {
	flushes, compactions, stalls, diskSlow, backgroundErrors atomic.Int64
	compactedBytes, flushedBytes                             atomic.Int64
	lastError                                                atomic.Pointer[string]
}

// compactions is how many may run: at least, and at most under pressure. Before
// the store is open none is wanted, since one in flight when opening fails would
// go on without what it needs; Pebble divides by the second number.
func (sh *shard) compactions() (lower, upper int) {
	if !sh.s.armed.Load() || sh.s.paused.Load() {
		return 0, 1
	}
	return 1, 2
}

func isNotExist(err error) bool { return errors.Is(err, os.ErrNotExist) }

// pebbleOptions are the same for every shard but for what it is told of.
func (sh *shard) pebbleOptions(cache *pebble.Cache, fileCache *pebble.FileCache, walDir string) *pebble.Options {
	o := &sh.s.opts
	guard := journalFS{o.FS, sh.s, []string{o.FS.PathJoin(o.DataDirs[sh.idx], dataSubdir)}}
	if walDir != "" {
		guard.dirs = append(guard.dirs, o.FS.PathJoin(walDir))
	}
	po := &pebble.Options{
		FS:                          guard,
		Cache:                       cache,
		FileCache:                   fileCache,
		Comparer:                    pebble.DefaultComparer,
		Merger:                      newMerger(sh.hot.note),
		FormatMajorVersion:          pebble.FormatValueSeparation,
		MemTableSize:                uint64(o.MemtableBytes),
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       2,
		L0StopWritesThreshold:       1000,
		LBaseMaxBytes:               64 << 20,
		FlushSplitBytes:             2 << 20,
		MaxManifestFileSize:         64 << 20,
		WALDir:                      walDir,
		Logger:                      pebbleLogger{sh},
		EventListener:               sh.events(),
		ReadOnly:                    o.ReadOnly,
		CompactionConcurrencyRange:  sh.compactions,
	}
	po.Levels[0].EnsureL0Defaults()
	for i := range po.Levels {
		l := &po.Levels[i]
		if i > 0 {
			l.EnsureL1PlusDefaults(&po.Levels[i-1])
		}
		l.BlockSize = 16 << 10
		l.IndexBlockSize = 64 << 10
		l.FilterPolicy = bloom.FilterPolicy(10)
		l.FilterType = pebble.TableFilter
	}
	po.Experimental.ReadSamplingMultiplier = -1
	// The layout file already tells that every directory is there; a snapshot is opened without journal directories.
	po.Unsafe.AllowMissingWALDirs = true
	return po
}

func (sh *shard) events() *pebble.EventListener {
	c := &sh.counters
	log := sh.s.opts.Logger
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			c.backgroundErrors.Add(1)
			msg := err.Error()
			c.lastError.Store(&msg)
			log.Error("storage engine", "shard", sh.idx, "err", err)
			if !sh.s.armed.Load() { // the engine would try for ever to open
				sh.s.fatal(fmt.Errorf("open shard %d: %w", sh.idx, err))
			}
			sh.troubles.raise(err)
		},
		CompactionEnd: func(i pebble.CompactionInfo) {
			c.compactions.Add(1)
			if i.Err == nil {
				for _, t := range i.Output.Tables {
					c.compactedBytes.Add(int64(t.Size))
				}
			}
		},
		FlushEnd: func(i pebble.FlushInfo) {
			c.flushes.Add(1)
			for _, t := range i.Output {
				c.flushedBytes.Add(int64(t.Size))
			}
		},
		WriteStallBegin: func(i pebble.WriteStallBeginInfo) {
			c.stalls.Add(1)
			log.Warn("writes stalled", "shard", sh.idx, "reason", i.Reason)
		},
		DiskSlow: func(i pebble.DiskSlowInfo) {
			c.diskSlow.Add(1)
			log.Warn("slow disk", "shard", sh.idx, "op", i.OpType.String(), "path", i.Path, "for", i.Duration)
		},
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			c.backgroundErrors.Add(1)
			msg := fmt.Sprint(i.Details)
			c.lastError.Store(&msg)
			log.Error("corrupt data", "shard", sh.idx, "path", i.Path, "details", i.Details)
		},
	}
}

// pebbleLogger passes Pebble's log on. Its fatal errors (a journal or manifest
// that could not be written) end the store.
type pebbleLogger struct{ sh *shard }

func (l pebbleLogger) Infof(format string, args ...any) {
	if l.sh.s.opts.Logger.Enabled(l.sh.s.ctx, slog.LevelDebug) {
		l.sh.s.opts.Logger.Debug(fmt.Sprintf(format, args...), "shard", l.sh.idx)
	}
}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.sh.s.opts.Logger.Error(fmt.Sprintf(format, args...), "shard", l.sh.idx)
}

func (l pebbleLogger) Fatalf(format string, args ...any) {
	l.sh.s.fatal(fmt.Errorf(strings.TrimPrefix(format, "pebble: "), args...))
}

// hasHeads reports that a table has deletions in its head family.
func (sh *shard) hasHeads(phys uint32) bool {
	prefix := appendTablePrefix(nil, phys, familyHead)
	it, err := sh.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return true
	}
	defer it.Close()
	return it.First() || it.Error() != nil
}

// prefixEnd is the end of all keys that begin with prefix; nil when there is none.
func prefixEnd(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		end[i]++
		if end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// get reads one key's merged value into a new slice; nil when it is absent.
func (sh *shard) get(key []byte) ([]byte, error) {
	sh.s.step(sharedData, false)
	v, closer, err := sh.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, len(v)), v...)
	return out, closer.Close()
}

// syncJournal waits until everything committed so far is durable.
func (sh *shard) syncJournal() error {
	if err := sh.s.failed(); err != nil {
		return err
	}
	if err := sh.db.LogData(nil, pebble.Sync); err != nil {
		sh.s.fatal(err)
		return err
	}
	return sh.s.failed()
}

// stripeSet says how stripes are to be held.
type stripeSet struct{ shared, exclusive [stripes / 64]uint64 }

func (x *stripeSet) add(stripe uint8, exclusive bool) {
	w, bit := stripe>>6, uint64(1)<<(stripe&63)
	if exclusive {
		x.exclusive[w] |= bit
	} else {
		x.shared[w] |= bit
	}
}

func (x *stripeSet) addAll() {
	for i := range x.exclusive {
		x.exclusive[i] = ^uint64(0)
	}
}

func (x *stripeSet) has(stripe uint8) bool {
	return (x.shared[stripe>>6]|x.exclusive[stripe>>6])>>(stripe&63)&1 != 0
}

// lock takes the stripes of a set, exclusively those that are in both.
func (sh *shard) lock(x *stripeSet) { _ = sh.lockWithin(context.Background(), x) }

// lockWithin is lock until the context ends: then none is held.
func (sh *shard) lockWithin(ctx context.Context, x *stripeSet) error {
	for i := range stripes {
		w, bit := i>>6, uint64(1)<<(i&63)
		exclusive := x.exclusive[w]&bit != 0
		if !exclusive && x.shared[w]&bit == 0 {
			continue
		}
		if err := sh.stripes[i].take(ctx, exclusive); err != nil {
			sh.unlockBelow(x, i)
			return err
		}
	}
	return nil
}

func (sh *shard) unlock(x *stripeSet) { sh.unlockBelow(x, stripes) }

// unlockBelow releases those of a set's stripes that come before end.
func (sh *shard) unlockBelow(x *stripeSet, end int) {
	for i := range end {
		w, bit := i>>6, uint64(1)<<(i&63)
		switch {
		case x.exclusive[w]&bit != 0:
			sh.stripes[i].Unlock()
		case x.shared[w]&bit != 0:
			sh.stripes[i].RUnlock()
		}
	}
}

var _ io.Closer = (*Store)(nil)
