// Command limits tells how far a Varve server is from what this machine could
// do at best: beside a bare server that exchanges the same frames and does
// nothing for them, and beside the engine alone, without CQL and sockets. It
// also measures pages with compactions running and paused, and memory.
//
//	limits --varve bin/varve             # about 12 minutes
//	limits --varve bin/varve --scale 0.1 # to see that it works
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"varve/internal/bench"
	"varve/internal/bench/lab"
	"varve/internal/cqlwire"
	"varve/internal/upstream"
)

type options struct {
	Varve, Work, Addr, Echo string
	Rows                    int
	Scale                   float64
	Seconds, Windows        int
	BudgetMiB               int64
	Only, Out               string
}

func main() {
	var o options
	echo := flag.String("serve-echo", "", "be the bare server on this address (used by this program itself)")
	behind := flag.String("echo-of", "", "the server that the bare one learns its answers from")
	flag.StringVar(&o.Varve, "varve", "bin/varve", "the server's binary")
	flag.StringVar(&o.Work, "work", "", "where data goes (default: a temporary directory)")
	flag.StringVar(&o.Addr, "addr", "127.0.0.1:39342", "the server's CQL address")
	flag.StringVar(&o.Echo, "echo", "127.0.0.1:39343", "the bare server's address")
	flag.IntVar(&o.Rows, "rows", 300_000, "rows of the table")
	flag.Float64Var(&o.Scale, "scale", 1, "share of the operations to run")
	flag.IntVar(&o.Seconds, "seconds", 20, "length of a window with compactions running or paused")
	flag.IntVar(&o.Windows, "windows", 5, "windows of each")
	flag.Int64Var(&o.BudgetMiB, "budget", 512, "memory_limit of the server, MiB")
	flag.StringVar(&o.Only, "only", "", "cost or compaction (default: both)")
	flag.StringVar(&o.Out, "out", "", "file with the markers <!-- limits:begin --> and end to write the tables into")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	var err error
	if *echo != "" {
		err = serveEcho(ctx, *echo, *behind)
	} else {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "limits:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	work, err := os.MkdirTemp(o.Work, "varve-limits-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	o.Work = work
	var report bytes.Buffer
	out := io.MultiWriter(os.Stdout, &report)
	fmt.Fprintf(out, "Measured %s on %s, %d rows, client on the same cores.\n\n", time.Now().Format("2006-01-02"), lab.Machine(), o.Rows)
	var failed []string
	if o.Only == "" || o.Only == "cost" {
		for _, durability := range []string{"durable", "periodic"} {
			if err := costs(ctx, o, out, durability); err != nil {
				return fmt.Errorf("%s: %w", durability, err)
			}
		}
	}
	if o.Only == "" || o.Only == "compaction" {
		if failed, err = compactions(ctx, o, out); err != nil {
			return err
		}
	}
	if o.Out != "" {
		if err := lab.Splice(o.Out, "limits", report.String()); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		return errors.New(strings.Join(failed, "; "))
	}
	return nil
}

// ops are operations and how many of each are timed.
var ops = []struct {
	name string
	n    int
}{{"insert", 300_000}, {"read", 200_000}, {"page", 60_000}, {"mixed", 60_000}, {"delete", 150_000}}

func (o *options) server(name string, settings ...string) *lab.Varve {
	return &lab.Varve{
		Binary: o.Varve, Data: filepath.Join(o.Work, name), Log: filepath.Join(o.Work, name+".log"), Address: o.Addr,
		Settings: append([]string{fmt.Sprintf("memory_limit=%dMiB", o.BudgetMiB)}, settings...),
	}
}

func (o *options) load(op string, n, clients int, addr string) bench.Options {
	return bench.Options{
		Op: op, N: max(1000, int(float64(n)*o.Scale)), Warm: 1000, InFlight: clients, Conns: clients, Rows: o.Rows, Channels: 1000, BodyBytes: 80,
		Consistency: cqlwire.LocalOne, Check: false, Seed: 1,
		Dial: func(ctx context.Context) (*upstream.Conn, error) {
			return upstream.Dial(ctx, upstream.Options{Address: addr})
		},
	}
}

// measured is a run with the server's CPU for a request.
type measured struct {
	bench.Result
	cpu time.Duration
}

func measure(ctx context.Context, pid int, o bench.Options) (m measured, err error) {
	before, err := lab.CPUOf(pid)
	if err != nil {
		return m, err
	}
	if m.Result, err = bench.Run(ctx, o); err != nil {
		return m, err
	}
	if m.Errors > 0 {
		return m, fmt.Errorf("%s: %d errors, the first: %s", o.Op, m.Errors, m.FirstError)
	}
	after, err := lab.CPUOf(pid)
	m.cpu = (after - before) / time.Duration(o.N+o.Warm)
	return m, err
}

func costs(ctx context.Context, o options, out io.Writer, durability string) (err error) {
	srv := o.server(durability, "durability="+durability)
	if err := srv.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.Stop()) }()
	c, err := upstream.Dial(ctx, upstream.Options{Address: o.Addr})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := bench.Schema(ctx, c); err != nil {
		return err
	}
	echo, stop, err := startEcho(ctx, o.Echo, o.Addr)
	if err != nil {
		return err
	}
	defer stop()
	eng, err := openEngine(ctx, &o, durability)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.close()) }()
	t := &lab.Table{Title: "How far from the limit, " + durability, Head: []string{
		"operation", "clients", "Varve", "p50", "p99", "server CPU", "bare echo", "its CPU", "engine alone", "its CPU", "CPU over echo + engine", "peak memory",
	}}
	for _, op := range ops {
		alone, err := eng.measure(ctx, op.name, max(1000, int(float64(op.n)*o.Scale)))
		if err != nil {
			return err
		}
		for _, clients := range []int{64, 512} {
			m, err := measure(ctx, srv.PID(), o.load(op.name, op.n, clients, o.Addr))
			if err != nil {
				return err
			}
			e, err := measure(ctx, echo, o.load(op.name, op.n, clients, o.Echo))
			if err != nil {
				return fmt.Errorf("echo: %w", err)
			}
			mem, err := lab.MemoryOf(srv.PID())
			if err != nil {
				return err
			}
			t.Add(op.name, fmt.Sprint(clients), perSecond(m.PerSecond), micros(m.P50), micros(m.P99), cpu(m.cpu), perSecond(e.PerSecond), cpu(e.cpu),
				perSecond(alone.rate), cpu(alone.cpu), fmt.Sprintf("%.2f", float64(m.cpu)/float64(max(e.cpu+alone.cpu, 1))), lab.MB(mem.Peak))
		}
		if op.name == "insert" {
			if err := eng.settle(ctx); err != nil {
				return err
			}
			if err := srv.Flush(ctx, "bench"); err != nil {
				return err
			}
		}
	}
	_, err = t.WriteTo(out)
	return err
}

func perSecond(f float64) string { return fmt.Sprintf("%.0f/s", f) }
func micros(f float64) string    { return lab.Micros(time.Duration(f * 1e3)) }
func cpu(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d)/1e3) }
