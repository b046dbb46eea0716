package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Server is a CQL server as a process.
type Server interface {
	// Name is "Varve" or "Cassandra".
	Name() string
	// Addr is its CQL address.
	Addr() string
	// PID is the process that runs now.
	PID() int
	// Start runs it and returns when it takes requests.
	Start(ctx context.Context) error
	// Stop ends it cleanly and waits for it.
	Stop() error
	// Kill ends it with SIGKILL and waits for it.
	Kill() error
	// Flush writes memtables to disk, Compact rewrites a keyspace's tables.
	Flush(ctx context.Context, keyspace string) error
	Compact(ctx context.Context, keyspace string) error
	// DataDir is the directory in which all of its data lies.
	DataDir() string
}

// Memory of a process in bytes, as the kernel accounts for it.
type Memory struct {
	Resident, Peak int64
}

// MemoryOf reads a process's resident memory and its peak.
func MemoryOf(pid int) (Memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Memory{}, err
	}
	var m Memory
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		var to *int64
		switch name {
		case "VmRSS":
			to = &m.Resident
		case "VmHWM":
			to = &m.Peak
		default:
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			return Memory{}, fmt.Errorf("%s of process %d: %w", name, pid, err)
		}
		*to = kib << 10
	}
	if m.Peak == 0 {
		return Memory{}, fmt.Errorf("process %d has no memory: it has ended", pid)
	}
	return m, nil
}

// clockTick is USER_HZ, which Linux has fixed at 100 for what it shows in /proc.
const clockTick = 10 * time.Millisecond

// CPUOf returns the CPU time a process has used, to 10 ms.
func CPUOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field, the name, may hold spaces; it ends with the last bracket.
	_, rest, ok := cutLast(string(text), ")")
	f := strings.Fields(rest)
	if !ok || len(f) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat is not as expected", pid)
	}
	user, err1 := strconv.ParseInt(f[11], 10, 64)
	system, err2 := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * clockTick, errors.Join(err1, err2)
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// Disk is what a directory's files take.
type Disk struct {
	Total  int64 // all files
	Tables int64 // sorted tables: everything but journals, manifests and logs
}

// DiskOf adds up the files below a directory; what goes away meanwhile counts nothing.
func DiskOf(dir string) (Disk, error) {
	var d Disk
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		d.Total += info.Size()
		switch filepath.Ext(path) {
		case ".sst", ".blob", ".db":
			d.Tables += info.Size()
		}
		return nil
	})
	return d, err
}

// WrittenBy is how many bytes a process has had written to disk.
func WrittenBy(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "write_bytes:"); ok {
			return strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
		}
	}
	return 0, fmt.Errorf("/proc/%d/io does not tell write_bytes", pid)
}
