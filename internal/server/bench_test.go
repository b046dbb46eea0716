package server

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"varve/internal/cqlwire"
	"varve/internal/exec"
)

// echo is a backend that costs nothing, so that the server's own share shows.
type echo struct {
	*fake
	ps  *exec.Prepared
	res exec.Result
}

func newEcho(kind string) *echo {
	e := &echo{fake: newFake()}
	e.ps = &exec.Prepared{ID: []byte("0123456789abcdef"), ResultColumns: blobColumn, ResultMetadataID: []byte("meta")}
	if kind == "write" {
		e.res = exec.Result{Kind: cqlwire.ResultVoid}
		return e
	}
	size := 100
	if kind == "page" {
		size = 5000
	}
	e.res = exec.Result{
		Kind: cqlwire.ResultRows, Columns: blobColumn, Count: 1, MetadataID: e.ps.ResultMetadataID,
		Data: cqlwire.AppendBytes(nil, make([]byte, size)),
	}
	return e
}

// Lookup and Execute shadow the fake's.
func (e *echo) Lookup(context.Context, *exec.Session, []byte) (*exec.Prepared, error) {
	return e.ps, nil
}

func (e *echo) Execute(context.Context, *exec.Session, *exec.Prepared, *exec.Params) (*exec.Result, error) {
	r := e.res
	return &r, nil
}

// BenchmarkEcho has 64 streams on 2 connections ask again as soon as they are
// answered. Server and client share the process: "us-cpu/op" is both, and the
// client's share is about the server's.
func BenchmarkEcho(b *testing.B) {
	for _, v := range []cqlwire.Version{cqlwire.V4, cqlwire.V5} {
		for _, kind := range []string{"write", "point", "page"} {
			b.Run(v.String()[2:]+"/"+kind, func(b *testing.B) { benchEcho(b, v, kind) })
		}
	}
}

const (
	benchConns   = 2
	benchStreams = 32
)

func benchEcho(b *testing.B, v cqlwire.Version, kind string) {
	e := newEcho(kind)
	s := startBackend(b, e, e.wait, nil)
	var frames [benchConns][]byte
	var conns [benchConns]*client
	for i := range conns {
		c := ready(b, s, v)
		conns[i] = c
		m := cqlwire.Execute{ID: []byte("0123456789abcdef"), ResultMetadataID: []byte("meta"), Params: cqlwire.QueryParams{
			SkipMetadata: true, PageSize: 50, HasTimestamp: true,
			Values: []cqlwire.Value{{Bytes: make([]byte, 8)}, {Bytes: make([]byte, 16)}, {Bytes: make([]byte, 80)}},
		}}
		frames[i] = c.frame(cqlwire.OpExecute, 0, 0, m.Append(nil, v))
	}
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuTime()
	done := make(chan struct{})
	for i, c := range conns {
		go func() {
			pingPong(b, c.nc, v >= cqlwire.V5, frames[i], b.N/benchConns+1)
			done <- struct{}{}
		}()
	}
	for range conns {
		<-done
	}
	b.ReportMetric(float64(cpuTime()-cpu)/float64(time.Microsecond)/float64(b.N), "us-cpu/op")
	m := &s.Metrics
	b.ReportMetric(float64(m.Writes.Load())/float64(b.N), "writes/op")
	b.ReportMetric(float64(m.Stolen.Load()+m.Detached.Load()), "moved")
}

// pingPong keeps the streams busy, decoding no more than it must.
func pingPong(b *testing.B, nc net.Conn, framed bool, frame []byte, n int) {
	out := make([]byte, 0, 1<<16)
	in := make([]byte, 1<<19)
	have, sent, got := 0, 0, 0
	request := func(k int) {
		out = out[:0]
		if !framed {
			for range k {
				out = append(out, frame...)
			}
		} else {
			run := make([]byte, 0, k*len(frame))
			for range k {
				run = append(run, frame...)
			}
			out = cqlwire.AppendSegments(out, run, false)
		}
		sent += k
		if _, err := nc.Write(out); err != nil {
			b.Error(err)
		}
	}
	request(min(benchStreams, n))
	for got < n {
		r, err := nc.Read(in[have:])
		if err != nil {
			b.Error(err)
			return
		}
		have += r
		pos, answered := 0, 0
		for {
			k, used := countFrames(in[pos:have], framed)
			if used == 0 {
				break
			}
			answered += k
			pos += used
		}
		have = copy(in, in[pos:have])
		got += answered
		if k := min(answered, n-sent); k > 0 {
			request(k)
		}
	}
}

// countFrames counts the frames of the first segment (or the first frame) of b.
func countFrames(b []byte, framed bool) (n, used int) {
	if !framed {
		if _, _, rest, ok := cqlwire.SplitFrame(b); ok {
			return 1, len(b) - len(rest)
		}
		return 0, 0
	}
	if len(b) < cqlwire.SegmentHeaderSize {
		return 0, 0
	}
	h, _ := cqlwire.DecodeSegmentHeader(b, false)
	total := cqlwire.SegmentHeaderSize + h.Payload + cqlwire.SegmentTrailerSize
	if len(b) < total {
		return 0, 0
	}
	payload := b[cqlwire.SegmentHeaderSize : cqlwire.SegmentHeaderSize+h.Payload]
	for len(payload) > 0 {
		_, _, rest, ok := cqlwire.SplitFrame(payload)
		if !ok {
			return n, total
		}
		n, payload = n+1, rest
	}
	return n, total
}

func cpuTime() time.Duration {
	var ru syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
