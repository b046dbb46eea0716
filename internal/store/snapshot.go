package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// linkPrefix begins the names of directories, beside a shard's files, in which
// a snapshot is linked. Open removes what a crash has left of them.
const linkPrefix = ".snapshot-"

// Snapshot makes a checkpoint of every shard under dir (one subdirectory a
// shard, shard-0 and so on). Each is laid out as a data directory of its own,
// so that together they can be opened as a store without journal directories.
//
// Writers are kept out while the shards' files are linked: all of a batch that
// was applied is in the snapshot, or, of a logged one, its record in shard 0.
// The links are made on each shard's own disk and moved to dir, or copied
// where dir is on another one, while writes go on.
func (s *Store) Snapshot(ctx context.Context, dir string) error {
	fs := s.opts.FS
	if err := makeDir(fs, dir); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	links := make([]string, len(s.shards))
	name := fmt.Sprintf("%s%d", linkPrefix, s.snapshots.Add(1))
	for i := range links {
		links[i] = fs.PathJoin(s.opts.DataDirs[i], name)
	}
	err := s.link(ctx, links)
	for i, link := range links {
		if err == nil {
			err = s.placeSnapshot(ctx, i, link, fs.PathJoin(dir, fmt.Sprintf("shard-%d", i)))
		}
	}
	if err == nil {
		err = syncDir(fs, dir)
	}
	for _, link := range links {
		if rerr := fs.RemoveAll(link); !isNotExist(rerr) {
			err = errors.Join(err, rerr)
		}
	}
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	return s.failed()
}

// link makes the checkpoints while no writer is at work.
func (s *Store) link(ctx context.Context, links []string) error {
	var all stripeSet
	all.addAll()
	for _, sh := range s.shards {
		if err := sh.lockWithin(ctx, &all); err != nil {
			return err
		}
		defer sh.unlock(&all)
	}
	for i, sh := range s.shards {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := checkpoint(sh.db, links[i]); err != nil {
			return fmt.Errorf("shard %d: %w", i, err)
		}
	}
	return nil
}

// checkpoint makes an error of the panic that Pebble raises when the new
// directory cannot be synced.
func checkpoint(db *pebble.DB, dir string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("engine gave up: %v", r)
		}
	}()
	return db.Checkpoint(dir, pebble.WithFlushedWAL())
}

// placeSnapshot moves a shard's checkpoint to where it is wanted and signs it.
func (s *Store) placeSnapshot(ctx context.Context, i int, link, to string) error {
	fs := s.opts.FS
	if err := makeDir(fs, to); err != nil {
		return err
	}
	files := fs.PathJoin(to, dataSubdir)
	err := fs.Rename(link, files)
	if errors.Is(err, syscall.EXDEV) {
		err = copyDir(ctx, fs, link, files)
	}
	if err != nil {
		return fmt.Errorf("shard %d: %w", i, err)
	}
	if err := syncDir(fs, to); err != nil {
		return err
	}
	return writeIdentity(fs, to, &identity{
		Format: identityFormat, Store: hex.EncodeToString(s.id[:]), Shards: len(s.shards), Role: roleData, Index: i,
		Snapshot: true,
	})
}

// copyDir copies a directory that holds files only, synced.
func copyDir(ctx context.Context, fs vfs.FS, from, to string) error {
	if err := makeDir(fs, to); err != nil {
		return err
	}
	names, err := fs.List(from)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := copySynced(fs, fs.PathJoin(from, n), fs.PathJoin(to, n)); err != nil {
			return err
		}
	}
	return syncDir(fs, to)
}

// removeLinks removes what interrupted snapshots have left, which would hold
// files that the store has dropped.
func (s *Store) removeLinks() error {
	fs := s.opts.FS
	for _, d := range s.opts.DataDirs {
		names, err := fs.List(d)
		if err != nil {
			return fmt.Errorf("directory %s: %w", d, err)
		}
		for _, n := range names {
			if !strings.HasPrefix(n, linkPrefix) {
				continue
			}
			if err := fs.RemoveAll(fs.PathJoin(d, n)); err != nil {
				return fmt.Errorf("remove an interrupted snapshot: %w", err)
			}
		}
	}
	return nil
}
