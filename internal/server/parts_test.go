package server

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestHistogramBuckets(t *testing.T) {
	for i := 1; i < HistogramBuckets-1; i++ {
		if BucketBound(i) <= BucketBound(i-1) {
			t.Fatalf("bucket %d ends at %s, the one before at %s", i, BucketBound(i), BucketBound(i-1))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "d"))
		i := bucketOf(int64(d))
		if i > 0 && d < BucketBound(i-1) {
			t.Fatalf("%s is in bucket %d, which begins at %s", d, i, BucketBound(i-1))
		}
		if end := BucketBound(i); end > 0 && d >= end {
			t.Fatalf("%s is in bucket %d, which ends at %s", d, i, end)
		}
	})
	var h Histogram
	h.Observe(time.Millisecond)
	sum, counts := h.Snapshot()
	if sum != time.Millisecond || counts[bucketOf(int64(time.Millisecond))] != 1 {
		t.Error(sum, counts)
	}
}

func TestBudget(t *testing.T) {
	b := budget{limit: 10}
	if !b.try(100) {
		t.Fatal("a single large one must pass")
	}
	if b.try(1) {
		t.Fatal("full, but took more")
	}
	done := make(chan error)
	go func() { done <- b.take(context.Background(), 5) }()
	eventually(t, "waiting", func() bool { return b.waiting.Load() == 1 })
	b.release(100)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { done <- b.take(ctx, 6) }()
	eventually(t, "waiting", func() bool { return b.waiting.Load() == 1 })
	cancel()
	if err := <-done; err == nil {
		t.Fatal("took what was not there")
	}
	b.release(5)
	if n := b.used.Load(); n != 0 {
		t.Errorf("%d left", n)
	}
}

func TestOptionsValidate(t *testing.T) {
	good := Options{Backend: newFake(), Listen: []Listen{{Address: "127.0.0.1:0"}}}
	for name, change := range map[string]func(*Options){
		"no backend":      func(o *Options) { o.Backend = nil },
		"no address":      func(o *Options) { o.Listen = nil },
		"empty address":   func(o *Options) { o.Listen = []Listen{{}} },
		"frame too small": func(o *Options) { o.MaxFrameBytes = 10 },
		"frame too large": func(o *Options) { o.MaxFrameBytes = 1 << 30 },
		"handshake":       func(o *Options) { o.MaxHandshakeFrameBytes = 1 << 29 },
		"in flight":       func(o *Options) { o.MaxInFlight = 1 << 20 },
		"bytes":           func(o *Options) { o.MaxInFlightBytes = -1 },
		"queued":          func(o *Options) { o.MaxQueuedBytes = 1 },
		"timeout":         func(o *Options) { o.IdleTimeout = -1 },
		"logins":          func(o *Options) { o.LoginConcurrency = -1 },
		"TLS":             func(o *Options) { o.Listen = []Listen{{Address: "127.0.0.1:0", TLS: true}} },
	} {
		o := good
		change(&o)
		o.Defaults()
		if o.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	good.Defaults()
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}
