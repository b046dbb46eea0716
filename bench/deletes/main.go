// Command deletes measures what deletes cost the reads that come after them,
// and whether they give their space back, on a real server of its own.
//
//	deletes --varve bin/varve                                   # whole size, about 20 minutes
//	deletes --varve bin/varve --rows 33334 --samples 500        # about a minute, to see that it works
//	deletes --varve bin/varve --cassandra PATH/TO/cassandra.sh  # the same steps, reduced, on a real Cassandra too
//
// Every measure is of two things in turn, one with deletes and one without, so
// that whatever else the machine does meets both. Each line has a verdict; the
// exit status is 1 if any of them is not "ok".
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
	"slices"
	"strings"
	"syscall"
	"time"

	"varve/internal/bench/lab"
)

type options struct {
	Varve, Cassandra, Work string
	Addr                   string
	Rows, Samples          int
	Seconds                int
	Only, Out              string
	Settings               string
}

func main() {
	var o options
	flag.StringVar(&o.Varve, "varve", "bin/varve", "the server's binary")
	flag.StringVar(&o.Cassandra, "cassandra", "", "script that starts a Cassandra, to run the page matrix on it too")
	flag.StringVar(&o.Work, "work", "", "where data goes (default: a temporary directory)")
	flag.StringVar(&o.Addr, "addr", "127.0.0.1:39242", "the server's CQL address")
	flag.IntVar(&o.Rows, "rows", 1_000_000, "dead rows of the largest case")
	flag.IntVar(&o.Samples, "samples", 5000, "pairs of reads a cell")
	flag.IntVar(&o.Seconds, "seconds", 0, "length of each churn (default: 180 at the whole size, else 10)")
	flag.StringVar(&o.Only, "only", "", "comma-separated parts: "+strings.Join(partNames(), ", "))
	flag.StringVar(&o.Out, "out", "", "file with the markers <!-- deletes:begin --> and end to write the tables into")
	flag.StringVar(&o.Settings, "set", "", "comma-separated settings of the server, key=value")
	flag.Parse()
	if o.Seconds == 0 {
		if o.Seconds = 10; o.Rows >= 1_000_000 {
			o.Seconds = 180
		}
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	failed, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "deletes:", err)
		os.Exit(1)
	}
	if len(failed) > 0 {
		fmt.Printf("%d of the bounds do not hold:\n  %s\n", len(failed), strings.Join(failed, "\n  "))
		os.Exit(1)
	}
	fmt.Println("every bound holds")
}

// parts run in this order, all on one server.
var parts = []struct {
	name string
	run  func(*bench, context.Context) error
}{
	{"matrix", (*bench).matrixOf},
	{"queue", (*bench).queue},
	{"churn", (*bench).churn},
	{"ttl", (*bench).ttlQueue},
	{"nested", (*bench).nested},
	{"ends", (*bench).ends},
	{"flip", (*bench).flip},
	{"rate", (*bench).rate},
	{"space", (*bench).space},
}

func partNames() (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

// bench is one server under measurement.
type bench struct {
	o      options
	srv    lab.Server
	c      *lab.Client
	out    io.Writer
	failed []string
	next   int64 // partition that nobody uses yet
}

func run(ctx context.Context, o options) (failed []string, err error) {
	for _, name := range strings.FieldsFunc(o.Only, isComma) {
		if !slices.Contains(partNames(), name) {
			return nil, fmt.Errorf("part %q is not one of %v", name, partNames())
		}
	}
	work, err := os.MkdirTemp(o.Work, "varve-deletes-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	var report bytes.Buffer
	fmt.Fprintf(&report, "Measured %s on %s, up to %d dead rows, %d pairs of reads a cell, client on the same cores.\n\n",
		time.Now().Format("2006-01-02"), lab.Machine(), o.Rows, o.Samples)
	v := &lab.Varve{
		Binary: o.Varve, Data: filepath.Join(work, "data"), Log: filepath.Join(work, "varve.log"), Address: o.Addr,
		Settings: append([]string{"tombstone_warn_threshold=10000000", "tombstone_failure_threshold=100000000"}, strings.FieldsFunc(o.Settings, isComma)...),
	}
	b := &bench{o: o, srv: v, out: io.MultiWriter(os.Stdout, &report), next: 1}
	if err := b.play(ctx); err != nil {
		text, _ := os.ReadFile(v.Log)
		return nil, fmt.Errorf("%w; the end of the server's log:\n%s", err, text[max(0, len(text)-2000):])
	}
	if o.Cassandra != "" {
		if err := beside(ctx, b, work); err != nil {
			return nil, err
		}
	}
	if o.Out != "" {
		err = lab.Splice(o.Out, "deletes", report.String())
	}
	return b.failed, err
}

func isComma(r rune) bool { return r == ',' }

func (b *bench) play(ctx context.Context) (err error) {
	if err := b.srv.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.srv.Stop()) }()
	if err := b.dial(ctx); err != nil {
		return err
	}
	if err := b.schema(ctx); err != nil {
		return err
	}
	only := strings.FieldsFunc(b.o.Only, isComma)
	for _, p := range parts {
		if len(only) > 0 && !slices.Contains(only, p.name) {
			continue
		}
		start := time.Now()
		if err := p.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Printf("(%s took %.0f s)\n\n", p.name, time.Since(start).Seconds())
	}
	return nil
}

func (b *bench) dial(ctx context.Context) (err error) {
	if b.c != nil {
		_ = b.c.Close()
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	b.c, err = lab.Dial(ctx, b.srv.Addr())
	return err
}

func (b *bench) schema(ctx context.Context) error {
	for _, text := range []string{
		"CREATE KEYSPACE bench WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE bench.pages (p bigint, c bigint, body text, PRIMARY KEY (p, c))",
	} {
		if err := b.c.Do(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// part gives out a partition.
func (b *bench) part() int64 {
	b.next++
	return b.next - 1
}

// verdict is a cell of a table; what does not hold is listed at the end too.
func (b *bench) verdict(ok bool, format string, args ...any) string {
	if ok {
		return "ok"
	}
	b.failed = append(b.failed, fmt.Sprintf(format, args...))
	return "FAILS"
}

func (b *bench) print(t *lab.Table) error {
	_, err := t.WriteTo(b.out)
	return err
}

func ratio(a, b time.Duration) float64 { return float64(a) / max(float64(b), 1) }
