package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Varve runs the binary.
type Varve struct {
	Binary   string
	Data     string // data directory
	Log      string // file that its log is appended to
	Address  string // host:port
	Settings []string

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and its log is read
	err  error

	mu    sync.Mutex
	ready chan struct{}
	bad   []string
}

// startTimeout bounds a start: journals of several memtables are replayed in seconds.
const startTimeout = 2 * time.Minute

var _ Server = (*Varve)(nil)

func (v *Varve) Name() string    { return "Varve" }
func (v *Varve) Addr() string    { return v.Address }
func (v *Varve) DataDir() string { return v.Data }

// PID of the process; 0 before Start.
func (v *Varve) PID() int {
	if v.cmd == nil || v.cmd.Process == nil {
		return 0
	}
	return v.cmd.Process.Pid
}

// Launch runs the server without waiting until it is ready.
func (v *Varve) Launch() error {
	args := []string{"serve", "--data", v.Data, "--cql", v.Address, "--http", ""}
	for _, s := range v.Settings {
		args = append(args, "--set", s)
	}
	log, err := os.OpenFile(v.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return errors.Join(err, log.Close())
	}
	v.cmd = exec.Command(v.Binary, args...)
	v.cmd.Stderr, v.cmd.Stdout = w, w
	// A terminal's interrupt is for this program, which then ends the server.
	v.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = v.cmd.Start()
	_ = w.Close()
	if err != nil {
		return errors.Join(err, r.Close(), log.Close())
	}
	v.done, v.ready = make(chan struct{}), make(chan struct{})
	go v.follow(r, log)
	return nil
}

// follow copies the log and notes what it says, until the process has ended.
func (v *Varve) follow(r io.ReadCloser, log io.WriteCloser) {
	defer close(v.done)
	seen := false
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		_, _ = io.WriteString(log, line)
		if !seen && strings.Contains(line, "msg=ready") {
			seen = true
			close(v.ready)
		}
		if badLine(line) {
			v.mu.Lock()
			if len(v.bad) < 20 {
				v.bad = append(v.bad, strings.TrimSpace(line))
			}
			v.mu.Unlock()
		}
		if err != nil {
			break
		}
	}
	_ = r.Close()
	_ = log.Close()
	v.err = v.cmd.Wait()
}

func badLine(line string) bool {
	return strings.Contains(line, "level=ERROR") || strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") ||
		strings.Contains(line, "DATA RACE")
}

// Complaints returns the errors, panics and races found in the log so far, and forgets them.
func (v *Varve) Complaints() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	bad := v.bad
	v.bad = nil
	return bad
}

// Done is closed when the process has ended.
func (v *Varve) Done() <-chan struct{} { return v.done }

// Start runs the server and returns when it is ready.
func (v *Varve) Start(ctx context.Context) error {
	if err := v.Launch(); err != nil {
		return err
	}
	return v.AwaitReady(ctx)
}

// AwaitReady returns when the launched server takes requests.
func (v *Varve) AwaitReady(ctx context.Context) error {
	select {
	case <-v.ready:
		return nil
	case <-v.done:
		return fmt.Errorf("the server ended before it was ready (%v); its log is %s", v.err, v.Log)
	case <-time.After(startTimeout):
		return errors.Join(fmt.Errorf("the server is not ready after %v; its log is %s", startTimeout, v.Log), v.Kill())
	case <-ctx.Done():
		return errors.Join(ctx.Err(), v.Kill())
	}
}

// Stop ends the server with SIGTERM.
func (v *Varve) Stop() error {
	if v.ended() {
		return nil
	}
	if err := v.end(syscall.SIGTERM); err != nil {
		return err
	}
	if v.err != nil {
		return fmt.Errorf("the server stopped with %w; its log is %s", v.err, v.Log)
	}
	return nil
}

// Kill ends the server with SIGKILL.
func (v *Varve) Kill() error { return v.end(syscall.SIGKILL) }

func (v *Varve) ended() bool {
	if v.cmd == nil {
		return true
	}
	select {
	case <-v.done:
		return true
	default:
		return false
	}
}

func (v *Varve) end(sig syscall.Signal) error {
	if v.ended() {
		return nil
	}
	if err := v.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-v.done:
		return nil
	case <-time.After(startTimeout):
		return fmt.Errorf("the server still runs %v after %v", startTimeout, sig)
	}
}

// Nodetool runs an administration command and returns what it prints.
func (v *Varve) Nodetool(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, v.Binary, append([]string{"nodetool", "--data", v.Data}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("nodetool %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

func (v *Varve) Flush(ctx context.Context, keyspace string) error {
	_, err := v.Nodetool(ctx, "flush", keyspace)
	return err
}

func (v *Varve) Compact(ctx context.Context, keyspace string) error {
	_, err := v.Nodetool(ctx, "compact", keyspace)
	return err
}
