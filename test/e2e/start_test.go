package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A start that fails before the store is opened leaves no store behind.
func TestFailedStartLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	busy := taken.Addr().String()
	for _, args := range [][]string{
		{"--cql", busy, "--http", ""},
		{"--cql", "127.0.0.1:0", "--http", busy},
		{"--cql", "127.0.0.1:0", "--http", "", "--set", "cql_tls.certificate=no.pem", "--set", "cql_tls.key=no.pem"},
		{"--cql", "127.0.0.1:0", "--http", "127.0.0.1:0", "--set", "http_tls.certificate=no.pem", "--set", "http_tls.key=no.pem"},
		{"--cql", "127.0.0.1:0", "--http", "", "--set", "broadcast_address=elsewhere"},
	} {
		if out, err := run(t, append([]string{"serve", "--data", filepath.Join(dir, "d")}, args...)...); err == nil || strings.Contains(out, "panic") {
			t.Errorf("%v: %v %s", args, err, out)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v leaves %v %v", args, left, err)
		}
	}
}

// 0.0.0.0 is every IPv4 address and no IPv6 one.
func TestUnspecifiedAddressIsIPv4Only(t *testing.T) {
	s := start(t, filepath.Join(t.TempDir(), "d"), "--cql", "0.0.0.0:0", "--http", "0.0.0.0:0")
	for _, addr := range []string{s.addr, s.http} {
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		if c, err := net.Dial("tcp", net.JoinHostPort("::1", port)); err == nil {
			_ = c.Close()
			t.Errorf("%s is reached over IPv6", addr)
		}
	}
}

// The limits are the promised ones for an empty store and for one with data
// whose journal was never flushed; the machine that runs the tests may be busy,
// so each is tried a few times.
func TestStartIsQuick(t *testing.T) {
	dir := t.TempDir()
	quick := func(what, data string, limit time.Duration, end syscall.Signal) {
		t.Helper()
		best := time.Hour
		for try := 0; try < 5 && best > limit; try++ {
			began := time.Now()
			s := start(t, data)
			best = min(best, time.Since(began))
			_ = s.stop(end)
			if what == "empty" {
				if err := os.RemoveAll(data); err != nil {
					t.Fatal(err)
				}
			}
		}
		t.Logf("%s: ready after %v", what, best)
		if best > limit {
			t.Errorf("%s: ready after %v, the limit is %v", what, best, limit)
		}
	}
	quick("empty", filepath.Join(dir, "e"), 300*time.Millisecond, syscall.SIGTERM)

	data, file := filepath.Join(dir, "d"), filepath.Join(dir, "rows.csv")
	const rows = 60_000
	var csv strings.Builder
	for i := range rows {
		fmt.Fprintf(&csv, "%d,%d,good morning everyone the build is green again who takes the night shift\n", i%7, i)
	}
	if err := os.WriteFile(file, []byte(csv.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, data)
	sess := s.session()
	mustExec(t, sess, makeKeyspace)
	mustExec(t, sess, `CREATE TABLE chat.m (k int, c int, v text, PRIMARY KEY (k, c))`)
	mustRun(t, "import", "chat.m", file, "--host", s.addr)
	sess.Close()
	_ = s.stop(syscall.SIGKILL)
	quick("killed", data, time.Second, syscall.SIGKILL)
	quick("stopped", data, time.Second, syscall.SIGTERM)
	var n int
	s = start(t, data)
	if err := s.session().Query(`SELECT count(*) FROM chat.m`).ScanContext(context.Background(), &n); err != nil || n != rows {
		t.Fatalf("%d rows, %v", n, err)
	}
}
