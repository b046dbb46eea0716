package store

import (
	"context"
	"errors"

	"varve/internal/schema"
)

// Lock holds partitions: exclusively for read-then-write (LWT, lists by index),
// or as a logged batch needs them.
type Lock struct {
	s    *Store
	sets []stripeSet // by shard
	used uint64
}

// Lock takes the partitions' stripes exclusively, in order. It waits for them
// until the context ends.
func (s *Store) Lock(ctx context.Context, _ *schema.Table, keys ...Key) (*Lock, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.failed(); err != nil {
		return nil, err
	}
	l := &Lock{s: s, sets: make([]stripeSet, len(s.shards))}
	for _, k := range keys {
		sh := s.shardOf(k.Token)
		l.used |= 1 << sh
		l.sets[sh].add(stripeOf(k.Token), true)
	}
	if err := l.take(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// lockBatch takes the stripes of all changes of a batch, as applying them would.
func (s *Store) lockBatch(ctx context.Context, b *Batch) (*Lock, error) {
	l := &Lock{s: s, sets: make([]stripeSet, len(s.shards)), used: b.shards}
	for i := range b.ops {
		o := &b.ops[i]
		l.sets[o.shard].add(o.stripe, o.reads())
	}
	if err := l.take(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// take takes all stripes, or none when the context ends.
func (l *Lock) take(ctx context.Context) error {
	for i, sh := range l.s.shards {
		if l.used>>i&1 == 0 {
			continue
		}
		if err := sh.lockWithin(ctx, &l.sets[i]); err != nil {
			l.used &= 1<<i - 1
			l.Unlock()
			return err
		}
	}
	return nil
}

func (l *Lock) holds(shard int, stripe uint8) bool { return l.sets[shard].has(stripe) }

// Apply is Store.Apply for a batch that touches only locked partitions.
func (l *Lock) Apply(ctx context.Context, b *Batch) (Commit, error) {
	return l.s.apply(ctx, b, true, l)
}

// Sync waits until everything read under the lock is durable, so that an
// answer never rests on state that a crash could take back.
func (l *Lock) Sync() error {
	var err error
	for i, sh := range l.s.shards {
		if l.used>>i&1 != 0 {
			err = errors.Join(err, sh.syncJournal())
		}
	}
	return err
}

// Unlock releases the partitions.
func (l *Lock) Unlock() {
	for i, sh := range l.s.shards {
		if l.used>>i&1 != 0 {
			sh.unlock(&l.sets[i])
		}
	}
}
