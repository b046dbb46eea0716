package server

import (
	"context"
	"sync"
	"sync/atomic"
)

// budget bounds how much of something (bytes, requests) is in use. What is
// larger than the whole budget may still use it alone.
type budget struct {
	limit int64
	used  atomic.Int64

	waiting atomic.Int32
	mu      sync.Mutex
	freed   chan struct{} // closed and replaced at each release that has waiters
}

// try takes n if so much is free.
func (b *budget) try(n int64) bool {
	if used := b.used.Add(n); used > b.limit && used != n {
		b.used.Add(-n)
		return false
	}
	return true
}

// fits reports that try would succeed now.
func (b *budget) fits(n int64) bool {
	used := b.used.Load()
	return used == 0 || used+n <= b.limit
}

// take takes n, waiting until so much is free.
func (b *budget) take(ctx context.Context, n int64) error {
	if b.try(n) {
		return nil
	}
	b.waiting.Add(1)
	defer b.waiting.Add(-1)
	for {
		b.mu.Lock()
		if b.freed == nil {
			b.freed = make(chan struct{})
		}
		freed := b.freed
		b.mu.Unlock()
		if b.try(n) {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// force takes n whether free or not.
func (b *budget) force(n int64) { b.used.Add(n) }

func (b *budget) release(n int64) {
	b.used.Add(-n)
	if b.waiting.Load() == 0 {
		return
	}
	b.mu.Lock()
	if b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
	b.mu.Unlock()
}
