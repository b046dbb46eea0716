package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"varve/internal/schema"
)

// PartitionSize is a partition and an estimate of what its rows take on disk,
// in bytes, compressed as they are; the memtable is not in it.
type PartitionSize struct {
	Key   Key
	Bytes int64
}

// maxSizeSteps bounds the estimates that one look for large partitions makes.
const maxSizeSteps = 200_000

// LargePartitions finds a table's partitions of at least minBytes on disk,
// largest first, limit at most. It halves the ring wherever the engine's
// estimate is large enough, and so asks for few estimates however many small
// partitions there are. pause, where set, is called now and then.
func (s *Store) LargePartitions(
	ctx context.Context, t *schema.Table, minBytes int64, limit int, pause func() error,
) ([]PartitionSize, error) {
	if minBytes < 1 {
		return nil, errors.New("large partitions: no least size")
	}
	var out []PartitionSize
	for _, sh := range s.shards {
		it, err := sh.db.NewIter(nil)
		if err != nil {
			return nil, err
		}
		lo := appendTablePrefix(nil, t.PhysID, familyRow)
		x := sizeSearch{ctx: ctx, sh: sh, t: t, it: it, least: minBytes, left: maxSizeSteps, pause: pause}
		err = errors.Join(x.search(lo, prefixEnd(lo)), it.Close())
		if err != nil {
			return nil, fmt.Errorf("large partitions of %s.%s: %w", t.Keyspace, t.Name, err)
		}
		out = append(out, x.out...)
	}
	slices.SortFunc(out, func(a, b PartitionSize) int { return int(min(1, max(-1, b.Bytes-a.Bytes))) })
	return out[:min(limit, len(out))], nil
}

type sizeSearch struct {
	ctx   context.Context
	sh    *shard
	t     *schema.Table
	it    *pebble.Iterator
	least int64
	left  int
	pause func() error
	out   []PartitionSize
}

// search looks in lo <= key < hi.
func (x *sizeSearch) search(lo, hi []byte) error {
	if x.left--; x.left < 0 {
		return nil
	}
	if x.left&63 == 0 {
		if err := x.ctx.Err(); err != nil {
			return err
		}
		if x.pause != nil {
			if err := x.pause(); err != nil {
				return err
			}
		}
	}
	n, err := x.sh.db.EstimateDiskUsage(lo, hi)
	if err != nil || int64(n) < x.least {
		return err
	}
	first, err := x.partitionAt(x.it.SeekGE(lo), lo, hi)
	if err != nil || first == nil {
		return err
	}
	last, err := x.partitionAt(x.it.SeekLT(hi), lo, hi)
	if err != nil || last == nil {
		return err
	}
	if bytes.Equal(first, last) {
		return x.found(first)
	}
	from, to := tokenOf(first[tablePrefixBytes:]), tokenOf(last[tablePrefixBytes:])
	mid := last // two keys of one token
	if from != to {
		half := from + int64((uint64(to)-uint64(from))/2) + 1
		mid = appendToken(appendTablePrefix(nil, x.t.PhysID, familyRow), half)
	}
	if err := x.search(lo, mid); err != nil {
		return err
	}
	return x.search(mid, hi)
}

// partitionAt is the prefix of the partition at the iterator; nil where it left the range.
func (x *sizeSearch) partitionAt(valid bool, lo, hi []byte) ([]byte, error) {
	if !valid || bytes.Compare(x.it.Key(), lo) < 0 || bytes.Compare(x.it.Key(), hi) >= 0 {
		return nil, x.it.Error()
	}
	n, _, err := partitionLen(x.t, x.it.Key(), nil)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(x.it.Key()[:n]), nil
}

func (x *sizeSearch) found(prefix []byte) error {
	n, err := x.sh.db.EstimateDiskUsage(prefix, append(bytes.Clone(prefix), suffixEnd))
	if err != nil || int64(n) < x.least {
		return err
	}
	k := Key{Token: tokenOf(prefix[tablePrefixBytes:]), enc: prefix[tablePrefixBytes+tokenBytes:]}
	x.out = append(x.out, PartitionSize{Key: k, Bytes: int64(n)})
	return nil
}
