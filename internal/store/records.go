package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"varve/internal/schema"
)

// The store's own records lie in shard 0 under physical id 0: [0 u32][familyMeta][kind][key].
// Those of change feeds lie in the shards of the feeds.
const (
	metaRecord = 'r' // a catalogue record
	metaLogged = 'b' // a logged batch that may not be applied everywhere
	metaFeed   = 'c' // a table's change feed in this shard
	metaFence  = 'f' // a table's fence
	metaSweep  = 's' // when a table is to be swept
)

func metaKey(kind byte, key string) []byte {
	return append(append(appendTablePrefix(nil, 0, familyMeta), kind), key...)
}

// LoadRecords implements schema.Storage.
func (s *Store) LoadRecords(ctx context.Context) (out []schema.Record, err error) {
	lower := metaKey(metaRecord, "")
	it, err := s.shards[0].db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: lower, UpperBound: prefixEnd(lower)})
	if err != nil {
		return nil, fmt.Errorf("load records: %w", err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.First(); it.Valid(); it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return nil, fmt.Errorf("load records: %w", err)
		}
		out = append(out, schema.Record{
			Key: string(it.Key()[len(lower):]), Value: append(make([]byte, 0, len(v)), v...),
		})
	}
	return out, it.Error()
}

// SaveRecords implements schema.Storage: one synced batch.
func (s *Store) SaveRecords(ctx context.Context, records []schema.Record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.opts.ReadOnly {
		return ErrReadOnly
	}
	b := s.shards[0].db.NewBatch()
	for _, r := range records {
		var err error
		if r.Value == nil {
			err = b.Delete(metaKey(metaRecord, r.Key), nil)
		} else {
			err = b.Set(metaKey(metaRecord, r.Key), r.Value, nil)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("save records: %w", err), b.Close())
		}
	}
	return s.shards[0].commitSynced(b)
}

// commitSynced commits a batch of the store's own and waits for its sync.
func (sh *shard) commitSynced(b *pebble.Batch) error {
	if err := sh.s.failed(); err != nil {
		return errors.Join(err, b.Close())
	}
	if err := sh.write(b, pebble.Sync); err != nil {
		return err
	}
	if err := sh.s.failed(); err != nil {
		return err
	}
	return b.Close()
}
