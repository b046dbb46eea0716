package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"varve/internal/move/pg/pgtest"
)

// binary builds varve once for all tests of the package.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "varve-e2e-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "varve")
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, "varve/cmd/varve")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build varve: %w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := pgtest.Main(m)
	if path, err := binary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

type server struct {
	t    *testing.T
	data string
	addr string
	http string
	cmd  *exec.Cmd
	log  *syncBuffer
	done chan error
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
	new chan struct{}
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.new <- struct{}{}:
	default:
	}
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// start runs varve serve and returns once it says that it is ready.
func start(t *testing.T, data string, args ...string) *server {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, data: data, log: &syncBuffer{new: make(chan struct{}, 1)}, done: make(chan error, 1)}
	s.cmd = exec.Command(path, append([]string{"serve", "--data", data, "--cql", "127.0.0.1:0", "--http", "127.0.0.1:0"}, args...)...)
	s.cmd.Stderr = s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.done <- s.cmd.Wait() }()
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			_ = s.cmd.Process.Kill()
		}
	})
	s.awaitReady()
	return s
}

var readyLine = regexp.MustCompile(`msg=ready.* cql=(\S+)(?: http=(\S+))?`)

func (s *server) awaitReady() {
	s.t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		if m := readyLine.FindStringSubmatch(s.log.String()); m != nil {
			s.addr, s.http = m[1], m[2]
			return
		}
		select {
		case <-s.log.new:
		case err := <-s.done:
			s.t.Fatalf("the server ended: %v\n%s", err, s.log)
		case <-timeout:
			s.t.Fatalf("not ready after 30 s:\n%s", s.log)
		}
	}
}

// stop ends the server with a signal and waits for it.
func (s *server) stop(sig syscall.Signal) error {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
	select {
	case err := <-s.done:
		return err
	case <-time.After(30 * time.Second):
		s.t.Fatalf("still running 30 s after %v:\n%s", sig, s.log)
		return nil
	}
}

func (s *server) session() *gocql.Session {
	s.t.Helper()
	sess, err := s.trySession(nil)
	if err != nil {
		s.t.Fatalf("connect: %v\n%s", err, s.log)
	}
	return sess
}

// trySession connects with what set changes.
func (s *server) trySession(set func(*gocql.ClusterConfig)) (*gocql.Session, error) {
	s.t.Helper()
	host, portText, err := net.SplitHostPort(s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	var port int
	if _, err := fmt.Sscan(portText, &port); err != nil {
		s.t.Fatal(err)
	}
	c := gocql.NewCluster(host)
	c.Port, c.Timeout, c.ConnectTimeout = port, 20*time.Second, 20*time.Second
	c.RetryPolicy = nil
	c.Consistency = gocql.LocalOne
	c.ReconnectInterval = 0
	if set != nil {
		set(c)
	}
	sess, err := c.CreateSession()
	if err != nil {
		return nil, err
	}
	s.t.Cleanup(sess.Close)
	return sess, nil
}

func mustExec(t *testing.T, s *gocql.Session, stmt string, args ...any) {
	t.Helper()
	if err := s.Query(stmt, args...).ExecContext(context.Background()); err != nil {
		t.Fatalf("%s: %v", stmt, err)
	}
}

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), err
}
