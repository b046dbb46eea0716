package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const copyBuffer = 1 << 20

// Progress is told how many of how many bytes are done; it may be nil.
type Progress func(done, total int64)

// meter counts bytes for a Progress.
type meter struct {
	report      Progress
	done, total int64
}

func (m *meter) add(n int64) {
	m.done += n
	if m.report != nil {
		m.report(m.done, m.total)
	}
}

// finish syncs a written file, or not after an error, and closes it.
func finish(f vfs.File, err error) error {
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}

// walk calls f for each file below dir, with its path from there in slashes,
// in order, and d for each directory once its files were visited.
func walk(fs vfs.FS, dir, rel string, f func(rel string, info vfs.FileInfo) error, d func(rel string) error) error {
	names, err := fs.List(fs.PathJoin(dir, rel))
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, n := range names {
		r := strings.TrimPrefix(rel+"/"+n, "/")
		info, err := fs.Stat(fs.PathJoin(dir, r))
		if err != nil {
			return err
		}
		if info.IsDir() {
			err = walk(fs, dir, r, f, d)
		} else {
			err = f(r, info)
		}
		if err != nil {
			return err
		}
	}
	return d(rel)
}

// shared reports that a file may have another name, so that it is not ours alone.
func shared(info vfs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || st.Nlink > 1
}

// transfer reads src to its end, writes it to dst when that is not nil, and
// returns size and SHA-256.
func transfer(ctx context.Context, dst io.Writer, src io.Reader, m *meter) (int64, string, error) {
	h := sha256.New()
	var w io.Writer = h
	if dst != nil {
		w = io.MultiWriter(h, dst) // in this order: a vfs.File may change what it is given
	}
	buf := make([]byte, copyBuffer)
	var size int64
	for {
		if err := ctx.Err(); err != nil {
			return 0, "", err
		}
		n, err := src.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return 0, "", werr
			}
			size += int64(n)
			m.add(int64(n))
		}
		if err == io.EOF {
			return size, hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return 0, "", err
		}
	}
}

// sumFile reads a file and returns its size and SHA-256.
func sumFile(ctx context.Context, fs vfs.FS, path string, m *meter) (int64, string, error) {
	f, err := fs.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return 0, "", err
	}
	size, sum, err := transfer(ctx, nil, f, m)
	return size, sum, errors.Join(err, f.Close())
}

// copyFile copies from to a new, synced file to.
func copyFile(ctx context.Context, fs vfs.FS, from, to string, m *meter) (int64, string, error) {
	src, err := fs.Open(from, vfs.SequentialReadsOption)
	if err != nil {
		return 0, "", err
	}
	dst, err := fs.Create(to, vfs.WriteCategoryUnspecified)
	if err != nil {
		return 0, "", errors.Join(err, src.Close())
	}
	size, sum, err := transfer(ctx, dst, src, m)
	return size, sum, errors.Join(finish(dst, err), src.Close())
}

func exists(fs vfs.FS, path string) (bool, error) {
	_, err := fs.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// requireSpace refuses when a directory's disk has less room than bytes, with
// a little kept free.
func requireSpace(fs vfs.FS, dir string, bytes int64) error {
	u, err := fs.GetDiskUsage(dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("ask for free space: %w", err)
	}
	if need := uint64(bytes) + uint64(bytes)/100 + 1<<20; u.AvailBytes < need {
		return fmt.Errorf("directory %s: %d bytes are needed, %d are free", dir, need, u.AvailBytes)
	}
	return nil
}
