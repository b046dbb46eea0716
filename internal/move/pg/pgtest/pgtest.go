// Package pgtest runs real PostgreSQL servers for tests: throw-away clusters
// that listen on a socket in a temporary directory and end with the test
// process, however it ends.
package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Cluster is a running PostgreSQL server.
type Cluster struct {
	dir   string
	conf  []string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	log   *os.File
}

var (
	once    sync.Once
	shared  *Cluster
	failure error
	counter atomic.Int64
)

// Shared returns the cluster that all tests of a binary use, each with
// databases of its own. Main stops it.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	once.Do(func() { shared, failure = start() })
	if failure != nil {
		t.Fatal(failure)
	}
	return shared
}

// Main runs a binary's tests and stops the shared cluster; TestMain hands its
// result to os.Exit.
func Main(m *testing.M) int {
	code := m.Run()
	if shared != nil {
		shared.Stop()
	}
	return code
}

// New starts a cluster for one test, with further lines of configuration.
func New(t testing.TB, conf ...string) *Cluster {
	t.Helper()
	c, err := start(conf...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

// bin returns the directory with initdb: VARVE_TEST_PGBIN, PATH, or the newest
// that Debian's packages installed.
func bin() (string, error) {
	if dir := os.Getenv("VARVE_TEST_PGBIN"); dir != "" {
		return dir, nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) > 0 {
		version := func(path string) int {
			n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
			return n
		}
		sort.Slice(found, func(i, j int) bool { return version(found[i]) > version(found[j]) })
		return filepath.Dir(found[0]), nil
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", errors.New("PostgreSQL's initdb is neither under /usr/lib/postgresql nor on PATH: " +
			"run tools/prerequisites.sh or set VARVE_TEST_PGBIN")
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return filepath.Dir(path), nil
}

// unprivileged makes a command run as the user postgres when tests run as
// root, since PostgreSQL refuses to.
func unprivileged(cmd *exec.Cmd, dir string) error {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return fmt.Errorf("PostgreSQL does not run as root: %w", err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	return os.Chown(dir, uid, gid)
}

func start(conf ...string) (*Cluster, error) {
	path, err := bin()
	if err != nil {
		return nil, err
	}
	// Not under TMPDIR: the user postgres must reach it and a socket's path is short.
	dir, err := os.MkdirTemp("/tmp", "varvepg")
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, conf: conf}
	initdb := exec.Command(filepath.Join(path, "initdb"), "-D", filepath.Join(dir, "data"), "-U", "postgres", "-A", "trust",
		"-E", "UTF8", "--locale=C", "--no-sync")
	initdb.Dir = dir
	if err := unprivileged(initdb, dir); err != nil {
		return nil, err
	}
	if out, err := initdb.CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if err := c.Start(); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// supervisor ends the server when its standard input closes, which also
// happens when the test process is killed.
const supervisor = `dir=$1; shift; exec 3<&0; "$@" </dev/null 3<&- & pid=$!
{ cat <&3 >/dev/null; kill -QUIT $pid 2>/dev/null; } & exec 3<&-
wait $pid; [ -e "$dir/keep" ] || rm -rf "$dir"`

// Start starts a cluster that Kill or Shutdown stopped.
func (c *Cluster) Start() error {
	path, err := bin()
	if err != nil {
		return err
	}
	os.Remove(filepath.Join(c.dir, "keep"))
	args := []string{
		"-c", supervisor, "sh", c.dir, filepath.Join(path, "postgres"), "-D", filepath.Join(c.dir, "data"), "-k", c.dir,
	}
	conf := []string{
		"listen_addresses=", "fsync=off", "wal_level=logical", "max_wal_senders=40", "max_replication_slots=40", "max_connections=200",
		"shared_buffers=64MB", "max_prepared_transactions=10", "autovacuum_naptime=5s", "log_min_messages=warning", "wal_writer_delay=10ms",
	}
	for _, line := range append(conf, c.conf...) {
		args = append(args, "-c", line)
	}
	c.cmd = exec.Command("/bin/sh", args...)
	c.cmd.Dir = c.dir
	if err := unprivileged(c.cmd, c.dir); err != nil {
		return err
	}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return err
	}
	if c.log, err = os.OpenFile(filepath.Join(c.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return err
	}
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	if err := c.cmd.Start(); err != nil {
		return err
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		conn, err := pgconn.Connect(ctx, c.URL("postgres"))
		cancel()
		if err == nil {
			return conn.Close(context.Background())
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("start PostgreSQL: %w\n%s", err, c.Log())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Log returns what the server logged.
func (c *Cluster) Log() string {
	b, _ := os.ReadFile(filepath.Join(c.dir, "log"))
	return string(b)
}

// Stop ends the server at once and removes its data.
func (c *Cluster) Stop() {
	c.end()
	os.RemoveAll(c.dir)
}

// Kill ends the server at once, as a crash would, and keeps its data.
func (c *Cluster) Kill() {
	if f, err := os.Create(filepath.Join(c.dir, "keep")); err == nil {
		f.Close()
	}
	c.end()
}

func (c *Cluster) end() {
	if c.stdin == nil {
		return
	}
	c.stdin.Close()
	c.cmd.Wait() // its status tells only that it was ended
	c.log.Close()
	c.stdin = nil
}

// Dir is the cluster's directory, which holds data and socket.
func (c *Cluster) Dir() string { return c.dir }

// URL is the address of a database for the superuser.
func (c *Cluster) URL(database string) string { return c.URLAs("postgres", database) }

// URLAs is the address of a database for a role.
func (c *Cluster) URLAs(role, database string) string {
	return fmt.Sprintf("host=%s user=%s dbname=%s", c.dir, role, database)
}

// Database creates a database for a test and returns its name. After the test
// it is dropped with its slots.
func (c *Cluster) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test%d", counter.Add(1))
	c.Exec(t, "postgres", "CREATE DATABASE "+name)
	t.Cleanup(func() {
		if c.stdin == nil {
			return
		}
		c.Exec(t, "postgres", fmt.Sprintf(`
			SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '%[1]s';
			SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '%[1]s'`, name))
		c.Exec(t, "postgres", "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	})
	return name
}

// Exec runs statements as superuser and returns the last result as text, rows
// by line and columns by "|".
func (c *Cluster) Exec(t testing.TB, database, sql string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgconn.Connect(ctx, c.URL(database))
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer conn.Close(ctx)
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", strings.TrimSpace(sql), err)
	}
	if len(results) == 0 {
		return ""
	}
	var lines []string
	for _, row := range results[len(results)-1].Rows {
		lines = append(lines, string(bytes.Join(row, []byte("|"))))
	}
	return strings.Join(lines, "\n")
}
