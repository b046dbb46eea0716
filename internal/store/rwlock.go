package store

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// rwLock is a read-write lock that can be waited for with a context. Who waits
// is served in order; nobody overtakes, so that neither readers nor writers starve.
type rwLock struct {
	// state is the number of shared holders, and the two bits below.
	state atomic.Int64
	steps stepper // nil but in tests

	mu    sync.Mutex // of queue; held when lockWaiting is set or cleared
	queue []*lockWaiter
}

const (
	lockExclusive = int64(1) << 62 // held exclusively
	lockWaiting   = int64(1) << 61 // the queue is not empty: nothing is taken but by grant
	lockHolders   = lockWaiting - 1
)

type lockWaiter struct {
	exclusive bool
	ready     chan struct{} // closed once the lock is held
}

// RLock takes the lock shared.
func (l *rwLock) RLock() { _ = l.take(context.Background(), false) }

// Lock takes the lock exclusively.
func (l *rwLock) Lock() { _ = l.take(context.Background(), true) }

// take waits for the lock until the context ends; its error is the context's.
func (l *rwLock) take(ctx context.Context, exclusive bool) error {
	if l.steps != nil {
		l.steps.acquire(l, exclusive)
		return nil
	}
	if l.try(exclusive) {
		return nil
	}
	return l.wait(ctx, exclusive)
}

// try takes the lock if it is free and nobody waits.
func (l *rwLock) try(exclusive bool) bool {
	if exclusive {
		return l.state.CompareAndSwap(0, lockExclusive)
	}
	for {
		s := l.state.Load()
		if s&(lockExclusive|lockWaiting) != 0 {
			return false
		}
		if l.state.CompareAndSwap(s, s+1) {
			return true
		}
	}
}

func (l *rwLock) wait(ctx context.Context, exclusive bool) error {
	w := l.enqueue(exclusive)
	if w == nil {
		return nil
	}
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.queue, w)
	if i < 0 {
		return nil // it was granted at the same moment
	}
	l.queue = slices.Delete(l.queue, i, i+1)
	l.grant() // those behind may have waited for this one alone
	return ctx.Err()
}

// enqueue adds a waiter, or takes the lock after all, and returns nil.
func (l *rwLock) enqueue(exclusive bool) *lockWaiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if l.try(exclusive) {
			return nil
		}
		// Whoever releases the lock after this sees the bit, and then the queue.
		if s := l.state.Load(); s&lockWaiting != 0 || s != 0 && l.state.CompareAndSwap(s, s|lockWaiting) {
			break
		}
	}
	w := &lockWaiter{exclusive: exclusive, ready: make(chan struct{})}
	l.queue = append(l.queue, w)
	return w
}

// grant hands the lock to the first in the queue as far as it is free; mu is held.
func (l *rwLock) grant() {
	for len(l.queue) > 0 {
		w := l.queue[0]
		s := l.state.Load()
		if s&lockExclusive != 0 || w.exclusive && s&lockHolders != 0 {
			return // whoever releases it comes by
		}
		held := s + 1
		if w.exclusive {
			held = s | lockExclusive
		}
		if !l.state.CompareAndSwap(s, held) {
			continue
		}
		l.queue = slices.Delete(l.queue, 0, 1)
		close(w.ready)
	}
	l.state.And(^lockWaiting)
}

// RUnlock releases the lock held shared.
func (l *rwLock) RUnlock() {
	if l.steps != nil {
		l.steps.release(l)
	}
	if s := l.state.Add(-1); s&lockWaiting != 0 && s&lockHolders == 0 {
		l.serve()
	}
}

// Unlock releases the lock held exclusively.
func (l *rwLock) Unlock() {
	if l.steps != nil {
		l.steps.release(l)
	}
	if s := l.state.Add(-lockExclusive); s&lockWaiting != 0 {
		l.serve()
	}
}

func (l *rwLock) serve() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grant()
}
