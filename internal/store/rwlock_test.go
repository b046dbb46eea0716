package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// waiting returns once n wait in a lock's queue.
func waiting(l *rwLock, n int) {
	for {
		l.mu.Lock()
		there := len(l.queue)
		l.mu.Unlock()
		if there == n {
			return
		}
		runtime.Gosched()
	}
}

// TestLockExcludes lets many goroutines take a lock in both ways, giving up some
// of the time: whoever holds it exclusively is alone.
func TestLockExcludes(t *testing.T) {
	var l rwLock
	var shared, exclusive atomic.Int64
	var plain int // guarded by the lock alone, for the race detector
	var g sync.WaitGroup
	for w := range 8 {
		g.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for range 2000 {
				ctx, cancel := context.WithCancel(context.Background())
				if r.IntN(3) == 0 {
					time.AfterFunc(time.Duration(r.IntN(50))*time.Microsecond, cancel)
				}
				alone := r.IntN(3) == 0
				err := l.take(ctx, alone)
				cancel()
				if err != nil {
					continue
				}
				if alone {
					if exclusive.Add(1) != 1 || shared.Load() != 0 {
						t.Error("an exclusive holder is not alone")
					}
					plain++
					exclusive.Add(-1)
					l.Unlock()
				} else {
					shared.Add(1)
					if exclusive.Load() != 0 {
						t.Error("a shared holder beside an exclusive one")
					}
					_ = plain
					shared.Add(-1)
					l.RUnlock()
				}
			}
		})
	}
	g.Wait()
	if s := l.state.Load(); s != 0 || len(l.queue) != 0 {
		t.Errorf("state %x, %d waiting after all", s, len(l.queue))
	}
}

// TestLockServesInOrder: readers that come after a writer wait for it, and go on
// when the writer gives up.
func TestLockServesInOrder(t *testing.T) {
	var l rwLock
	l.RLock()
	ctx, cancel := context.WithCancel(context.Background())
	writer, reader := make(chan error, 1), make(chan error, 1)
	go func() { writer <- l.take(ctx, true) }()
	waiting(&l, 1)
	go func() { reader <- l.take(context.Background(), false) }()
	waiting(&l, 2)
	select {
	case <-reader:
		t.Fatal("a reader overtook a writer")
	default:
	}
	cancel()
	if err := <-writer; !errors.Is(err, context.Canceled) {
		t.Errorf("the writer that gave up got %v", err)
	}
	if err := <-reader; err != nil {
		t.Error(err)
	}
	l.RUnlock()
	l.RUnlock()
	if !l.try(true) {
		t.Error("the lock is not free in the end")
	}
}

// TestLockCostsNothingFree guards the way that every write takes.
func TestLockCostsNothingFree(t *testing.T) {
	var l rwLock
	if n := testing.AllocsPerRun(100, func() {
		_ = l.take(context.Background(), false)
		l.RUnlock()
		if l.try(true) {
			l.Unlock()
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
