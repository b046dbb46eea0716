package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestLargePartitions finds the few large partitions among many small ones, with few estimates.
func TestLargePartitions(t *testing.T) {
	e := openEnv(t, Options{ManualBackground: true})
	rnd := rand.New(rand.NewPCG(1, 2))
	body := func(n int) string {
		var b strings.Builder
		for b.Len() < n {
			fmt.Fprintf(&b, "%x", rnd.Uint64()) // does not compress to nothing
		}
		return b.String()
	}
	for p := range 500 {
		e.insert(p, 1, 10, body(200))
	}
	for _, p := range []int{17, 333} {
		for c := range 300 * (1 + p/300) {
			e.insert(p, c, 10, body(1000))
		}
	}
	if err := e.s.Flush(context.Background(), e.tab); err != nil {
		t.Fatal(err)
	}
	pauses := 0
	got, err := e.s.LargePartitions(context.Background(), e.tab, 100<<10, 10, func() error { pauses++; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || !got[0].Key.Equal(e.key(333)) || !got[1].Key.Equal(e.key(17)) || got[0].Bytes < 200<<10 {
		t.Errorf("%+v", got)
	}
	if pauses > 10 {
		t.Errorf("%d times 64 estimates", pauses)
	}
	if got, err := e.s.LargePartitions(context.Background(), e.tab, 100<<10, 1, nil); err != nil || len(got) != 1 {
		t.Errorf("limit: %+v, %v", got, err)
	}
	stop := errors.New("stop")
	if _, err := e.s.LargePartitions(context.Background(), e.tab, 1, 1, func() error { return stop }); !errors.Is(err, stop) {
		t.Errorf("stopped: %v", err)
	}
}
