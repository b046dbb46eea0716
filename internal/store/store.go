package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"varve/internal/schema"
)

// Store is an open store. All methods may be called concurrently.
type Store struct {
	opts   Options
	id     schema.UUID
	shards []*shard
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	bg     sync.WaitGroup

	tables   atomic.Pointer[map[uint32]*table]
	tablesMu sync.Mutex

	spanBytes atomic.Int64
	reads     atomic.Int64 // views open
	failure   atomic.Pointer[error]
	snapshots atomic.Int64 // made, for names
	armed     atomic.Bool  // open: journal errors end the store
	paused    atomic.Bool  // no compactions but those asked for, and those without which reads would suffer
	fatalOnce sync.Once
	locks     []io.Closer
	cache     *pebble.Cache
	fileCache *pebble.FileCache

	logMu  sync.Mutex
	logSeq uint64

	// watched: some table has a change feed or a closed fence.
	watched atomic.Bool
	watchMu sync.Mutex
	// fenceMu is held shared by batches over several shards from their admission
	// until they are visible, and by changes of definitions; taken before stripes.
	fenceMu    rwLock
	fenceAdmin sync.Mutex // one change of a fence at a time

	work   workQueue
	passMu rwLock // one pass of the background, or of Compact, at a time
	// reclaimMu is held by whoever returns space; taken before passMu.
	reclaimMu  sync.Mutex
	metrics    storeCounters
	readTotals readTotals
	steps      stepper // nil but in tests
}

// Open opens or creates a store. A directory that is missing, swapped or of
// another store is refused by name.
func Open(ctx context.Context, o Options) (_ *Store, err error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	o.Defaults()
	s := &Store{opts: o, steps: o.steps}
	s.passMu.steps = o.steps
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	empty := map[uint32]*table{}
	s.tables.Store(&empty)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.closeFiles())
			s.cancel()
		}
	}()
	if err := s.lockDirs(); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	id, err := openLayout(&s.opts)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s.id = id.uuid
	s.cache = pebble.NewCache(o.CacheBytes)
	s.fileCache = pebble.NewFileCache(2, 2000)
	for i := range o.DataDirs {
		if err := s.openShard(i, id.fresh); err != nil {
			return nil, err
		}
	}
	if id.fresh {
		if err := finishLayout(&s.opts, id.uuid); err != nil {
			return nil, fmt.Errorf("open store: %w", err)
		}
	}
	s.armed.Store(true)
	if err := s.loadSpans(); err != nil {
		return nil, fmt.Errorf("load dead spans: %w", err)
	}
	if err := s.failed(); err != nil {
		return nil, err
	}
	if err := s.loadWatched(); err != nil {
		return nil, err
	}
	if id.copied && !o.ReadOnly {
		if err := s.startAnew(); err != nil {
			return nil, fmt.Errorf("begin change feeds anew in a store from a snapshot: %w", err)
		}
	}
	if !o.ReadOnly {
		if err := s.removeLinks(); err != nil {
			return nil, err
		}
		if err := s.replayLogged(ctx); err != nil {
			return nil, fmt.Errorf("replay batch log: %w", err)
		}
	}
	s.startBackground()
	return s, nil
}

// loadWatched reads the change feeds and fences.
func (s *Store) loadWatched() error {
	for _, sh := range s.shards {
		if err := sh.loadFeeds(); err != nil {
			return fmt.Errorf("load change feeds: %w", err)
		}
	}
	if err := s.loadFences(); err != nil {
		return fmt.Errorf("load fences: %w", err)
	}
	s.updateWatched()
	return nil
}

// openShard opens the engine of a shard, and makes it only in a store that is being created.
func (s *Store) openShard(i int, create bool) error {
	sh := &shard{s: s, idx: i}
	sh.hot.sh = sh
	sh.spanMu.steps = s.steps
	for i := range sh.stripes {
		sh.stripes[i].steps = s.steps
	}
	s.shards = append(s.shards, sh)
	fs := s.opts.FS
	dir := fs.PathJoin(s.opts.DataDirs[i], dataSubdir)
	walDir := ""
	if len(s.opts.JournalDirs) > 0 {
		walDir = fs.PathJoin(s.opts.JournalDirs[i], journalSubdir)
	}
	po := sh.pebbleOptions(s.cache, s.fileCache, walDir)
	po.ErrorIfNotExists = !create
	db, err := openPebble(dir, po)
	if err != nil {
		// Pebble may have begun a compaction before it failed, which goes on with
		// the caches: they stay.
		s.fileCache, s.cache = nil, nil
		return fmt.Errorf("open shard %d in %s: %w", i, s.opts.DataDirs[i], err)
	}
	sh.db = db
	return nil
}

// openPebble makes an error of the panic that Pebble raises when the disk fails
// at certain points of opening. The files stay open and locked in this process:
// whoever met such a disk can only end it.
func openPebble(dir string, o *pebble.Options) (db *pebble.DB, err error) {
	defer func() {
		if r := recover(); r != nil {
			db, err = nil, fmt.Errorf("engine gave up: %v", r)
		}
	}()
	return pebble.Open(dir, o)
}

// lockDirs takes every directory for this process alone.
func (s *Store) lockDirs() error {
	if s.opts.ReadOnly {
		return nil
	}
	fs := s.opts.FS
	for _, d := range append(append([]string(nil), s.opts.DataDirs...), s.opts.JournalDirs...) {
		if err := makeDir(fs, d); err != nil {
			return fmt.Errorf("directory %s: %w", d, err)
		}
		l, err := fs.Lock(fs.PathJoin(d, lockFile))
		if err != nil {
			return fmt.Errorf("directory %s is in use by another process (is a server running on it?): %w", d, err)
		}
		s.locks = append(s.locks, l)
	}
	return nil
}

// makeDirs makes a directory and its subdirectory, durably: a crash must not
// take away a name whose content was synced.
func makeDirs(fs vfs.FS, dir, sub string) error {
	if err := fs.MkdirAll(fs.PathJoin(dir, sub), 0o700); err != nil {
		return err
	}
	if err := syncDir(fs, dir); err != nil {
		return err
	}
	for p := fs.PathDir(dir); ; p = fs.PathDir(p) {
		// Parents that were there before, and may not be ours to open, need no sync.
		if err := syncDir(fs, p); err != nil && !isNotExist(err) && !errors.Is(err, os.ErrPermission) {
			return err
		}
		if p == fs.PathDir(p) {
			return nil
		}
	}
}

// Close flushes nothing but syncs the journals and waits for background work.
func (s *Store) Close() error {
	s.cancel()
	s.work.close()
	s.bg.Wait()
	var err error
	if !s.opts.ReadOnly && s.failed() == nil {
		for _, sh := range s.shards {
			err = errors.Join(err, sh.exactSpans(), sh.syncJournal())
		}
	}
	return errors.Join(err, s.closeFiles())
}

func (s *Store) closeFiles() error {
	var err error
	for _, sh := range s.shards {
		if sh.db != nil {
			err = errors.Join(err, sh.db.Close())
		}
	}
	if s.fileCache != nil {
		s.fileCache.Unref()
	}
	if s.cache != nil {
		s.cache.Unref()
	}
	for _, l := range s.locks {
		err = errors.Join(err, l.Close())
	}
	s.locks = nil
	return err
}

// HostID is the store's identity, made when it was created.
func (s *Store) HostID() schema.UUID { return s.id }

// fatal records that a journal or manifest could not be written: from here on
// nothing is acknowledged, and nothing is tried again.
func (s *Store) fatal(err error) {
	if err == nil {
		err = errors.New("unknown storage failure")
	}
	s.failure.CompareAndSwap(nil, &err)
	s.fatalOnce.Do(func() { s.opts.Fatal(err) })
}

// failed is the error that ended the store, if any.
func (s *Store) failed() error {
	if p := s.failure.Load(); p != nil {
		return *p
	}
	return nil
}
