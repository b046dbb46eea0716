package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Cassandra runs a real one through a script with
// `--dir D --first IP [--set K=V]... start|stop|nodetool ARG...` that leaves the
// server's process id in D/node1/pid and CQL on IP:9042.
type Cassandra struct {
	Script string
	Dir    string
	IP     string
	// Settings are KEY=VALUE of cassandra.yaml.
	Settings []string

	pid int
}

var _ Server = (*Cassandra)(nil)

func (c *Cassandra) Name() string    { return "Cassandra" }
func (c *Cassandra) Addr() string    { return c.IP + ":9042" }
func (c *Cassandra) DataDir() string { return c.Dir }
func (c *Cassandra) PID() int        { return c.pid }

func (c *Cassandra) run(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, c.Script, append([]string{"--dir", c.Dir, "--first", c.IP}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", c.Script, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Start runs it and returns when it takes requests, in some 15 s.
func (c *Cassandra) Start(ctx context.Context) error {
	var args []string
	for _, s := range c.Settings {
		args = append(args, "--set", s)
	}
	if err := c.run(ctx, append(args, "start")...); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(c.Dir, "node1", "pid"))
	if err != nil {
		return err
	}
	c.pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
	return err
}

func (c *Cassandra) Stop() error { return c.run(context.Background(), "stop") }

// Kill ends the process with SIGKILL and lets the script clear up after it.
func (c *Cassandra) Kill() error {
	if c.pid == 0 {
		return nil
	}
	if err := syscall.Kill(c.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	for range 1000 {
		if errors.Is(syscall.Kill(c.pid, 0), syscall.ESRCH) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return c.run(context.Background(), "stop")
}

func (c *Cassandra) Flush(ctx context.Context, keyspace string) error {
	return c.run(ctx, "nodetool", "flush", keyspace)
}

func (c *Cassandra) Compact(ctx context.Context, keyspace string) error {
	return c.run(ctx, "nodetool", "compact", keyspace)
}
