package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"varve/internal/bench/lab"
)

var stdout = os.Stdout

func (b *bench) progress(format string, args ...any) {
	fmt.Printf("%s %s: %s\n", time.Now().Format("15:04:05"), b.srv.Name(), fmt.Sprintf(format, args...))
}

// Sizes on Cassandra: the report's, and not a million, which it cannot read at all.
var besideSizes = []int{2778, 20_000, 33_334}

const (
	besideSamples = 300
	// lowered is the failure threshold of the last step.
	lowered = 20_000
)

// beside runs the page matrix's deletes on a real Cassandra and on Varve.
func beside(ctx context.Context, b *bench, work string) error {
	t := &lab.Table{
		Title: "Pages of 50, Varve beside Cassandra 5.0",
		Head:  []string{"server", "dead rows", "state", "none p50", "p50", "p99", "tombstones", "warnings"},
	}
	o := b.o
	o.Samples = min(o.Samples, besideSamples)
	v := &lab.Varve{Binary: o.Varve, Data: filepath.Join(work, "beside"), Log: filepath.Join(work, "beside.log"), Address: o.Addr}
	c := &lab.Cassandra{Script: o.Cassandra, Dir: filepath.Join(work, "cassandra"), IP: "127.0.0.82"}
	for _, srv := range []lab.Server{v, c} {
		x := &bench{o: o, srv: srv, out: b.out, next: 1}
		if err := x.besideOn(ctx, t); err != nil {
			return fmt.Errorf("%s: %w", srv.Name(), err)
		}
	}
	return b.print(t)
}

func (b *bench) besideOn(ctx context.Context, t *lab.Table) (err error) {
	defer func() { err = errors.Join(err, b.srv.Stop()) }()
	if err := b.srv.Start(ctx); err != nil {
		return err
	}
	if err := b.dial(ctx); err != nil {
		return err
	}
	if err := b.schema(ctx); err != nil {
		return err
	}
	var cells []*cell
	for _, n := range besideSizes {
		if n <= b.o.Rows {
			cells = append(cells, &cell{d: deaths[0], n: n, p: b.part(), none: b.part()})
		}
	}
	for _, c := range cells {
		if _, err := b.prepare(ctx, deaths[0], c.none, 0); err != nil {
			return err
		}
		if _, err := b.prepare(ctx, c.d, c.p, c.n); err != nil {
			return err
		}
		b.besideCell(ctx, c, "at once", t)
	}
	for _, s := range []struct {
		name string
		do   func() error
	}{
		{"flushed", func() error { return b.srv.Flush(ctx, "bench") }},
		{"compacted", func() error { return b.srv.Compact(ctx, "bench") }},
		{fmt.Sprintf("restarted, tombstone_failure_threshold %d", lowered), func() error { return b.lower(ctx) }},
	} {
		if err := s.do(); err != nil {
			return err
		}
		for _, c := range cells {
			b.besideCell(ctx, c, s.name, t)
		}
	}
	return nil
}

// lower restarts the server with a threshold under the largest case.
func (b *bench) lower(ctx context.Context) error {
	setting := fmt.Sprintf("tombstone_failure_threshold=%d", lowered)
	switch s := b.srv.(type) {
	case *lab.Varve:
		s.Settings = []string{setting}
	case *lab.Cassandra:
		s.Settings = append(s.Settings, setting)
	}
	return b.stopAndStart(ctx)
}

// besideCell measures one page; a read that fails is a result here, not an error.
func (b *bench) besideCell(ctx context.Context, c *cell, state string, t *lab.Table) {
	with := func(ctx context.Context) error { return b.page(ctx, c.d, c.p, c.n, false) }
	without := func(ctx context.Context) error { return b.page(ctx, deaths[0], c.none, 0, false) }
	start := time.Now()
	err := with(ctx)
	if err != nil {
		t.Add(b.srv.Name(), c.name(), state, "", "fails after "+lab.Micros(time.Since(start)), "", "", err.Error())
		b.progress("%s, %s: %v", c.name(), state, err)
		return
	}
	_, _, err = lab.Pair(ctx, min(b.o.Samples, 100), with, without) // warms a JVM up
	if err != nil {
		t.Add(b.srv.Name(), c.name(), state, "", "fails", "", "", err.Error())
		return
	}
	qw, qo, err := lab.Pair(ctx, b.o.Samples, with, without)
	if err != nil {
		t.Add(b.srv.Name(), c.name(), state, "", "fails", "", "", err.Error())
		return
	}
	text, values := c.d.query(c.p, c.n, false)
	read, err := b.c.Trace(ctx, text, values...)
	what := read.Summary
	if err != nil {
		what = err.Error()
	}
	t.Add(b.srv.Name(), c.name(), state, lab.Micros(qo.P50), lab.Micros(qw.P50), lab.Micros(qw.P99), what, fmt.Sprint(len(read.Warnings)))
	b.progress("%s, %s: p50 %s for %s", c.name(), state, lab.Micros(qw.P50), lab.Micros(qo.P50))
}
