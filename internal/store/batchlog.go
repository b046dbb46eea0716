package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"
)

// A logged batch over several shards is first recorded in shard 0 and synced,
// then applied to each shard, and its record removed once all of them are
// durable. Records left by a crash are applied again when the store is opened:
// changes carry timestamps, so that a second time changes nothing.
//
// A record is u8 1, i64 nowSec (or u8 2, i64 nowSec, the origin behind its uvarint length), then for each change: u8 kind, u8 flags, u8 stripe,
// u16 shard, i64 ts, the partition prefix's length as a uvarint, key and value
// each behind a uvarint length. Integers are little endian.
const (
	loggedVersion = 1
	loggedOrigin  = 2
	loggedLive    = 1
	loggedKills   = 2
)

var errLogged = errors.New("malformed batch log record")

func loggedKey(id uint64) []byte {
	return binary.BigEndian.AppendUint64(metaKey(metaLogged, ""), id)
}

func (s *Store) logBatch(b *Batch) (uint64, error) {
	v := binary.LittleEndian.AppendUint64([]byte{loggedVersion}, uint64(b.nowSec))
	if b.origin != "" {
		v[0] = loggedOrigin
		v = appendBytes(v, []byte(b.origin))
	}
	for i := range b.ops {
		o := &b.ops[i]
		if o.kind == opCounter {
			return 0, errors.New("counters cannot be in a logged batch")
		}
		var flags byte
		if o.live {
			flags |= loggedLive
		}
		if o.kills {
			flags |= loggedKills
		}
		v = append(v, byte(o.kind), flags, o.stripe)
		v = binary.LittleEndian.AppendUint16(v, o.shard)
		v = binary.LittleEndian.AppendUint64(v, uint64(o.ts))
		v = binary.AppendUvarint(v, uint64(o.preEnd-o.key))
		v = appendBytes(v, b.buf[o.key:o.keyEnd])
		v = appendBytes(v, b.buf[o.val:o.valEnd])
	}
	s.logMu.Lock()
	s.logSeq++
	id := s.logSeq
	s.logMu.Unlock()
	pb := s.shards[0].db.NewBatch()
	if err := pb.Set(loggedKey(id), v, nil); err != nil {
		return 0, errors.Join(err, pb.Close())
	}
	return id, s.shards[0].commitSynced(pb)
}

// forgetLogged removes a record; that need not be durable.
func (s *Store) forgetLogged(id uint64) error {
	return s.shards[0].db.Delete(loggedKey(id), pebble.NoSync)
}

// replayLogged applies the batches whose records a crash left.
func (s *Store) replayLogged(ctx context.Context) error {
	lower := metaKey(metaLogged, "")
	it, err := s.shards[0].db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: prefixEnd(lower)})
	if err != nil {
		return err
	}
	var ids []uint64
	var values [][]byte
	for it.First(); it.Valid(); it.Next() {
		k := it.Key()[len(lower):]
		if len(k) != 8 {
			return errors.Join(errLogged, it.Close())
		}
		v, err := it.ValueAndErr()
		if err != nil {
			return errors.Join(err, it.Close())
		}
		ids = append(ids, binary.BigEndian.Uint64(k))
		values = append(values, append([]byte(nil), v...))
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return err
	}
	for i, v := range values {
		s.logSeq = max(s.logSeq, ids[i])
		b, err := s.decodeLogged(v)
		if err != nil {
			return fmt.Errorf("record %d: %w", ids[i], err)
		}
		c, err := s.Apply(ctx, b, false)
		if err == nil {
			err = c.Wait()
		}
		if err == nil {
			err = s.syncAll()
		}
		if err == nil {
			err = s.forgetLogged(ids[i])
		}
		if err != nil {
			return fmt.Errorf("record %d: %w", ids[i], err)
		}
		s.opts.Logger.Info("applied a logged batch again", "changes", len(b.ops))
	}
	return nil
}

func (s *Store) syncAll() error {
	var err error
	for _, sh := range s.shards {
		err = errors.Join(err, sh.syncJournal())
	}
	return err
}

func (s *Store) decodeLogged(v []byte) (*Batch, error) {
	const fixed = 3 + 2 + 8
	if len(v) < 9 || v[0] != loggedVersion && v[0] != loggedOrigin {
		return nil, errLogged
	}
	b := s.NewBatch(int64(binary.LittleEndian.Uint64(v[1:])))
	// It was admitted when it was logged.
	b.admitted, b.replayed = true, true
	version := v[0]
	v = v[9:]
	if version == loggedOrigin {
		origin, rest, ok := cutBytes(v)
		if !ok {
			return nil, errLogged
		}
		b.SetOrigin(string(origin))
		v = rest
	}
	for len(v) > 0 {
		if len(v) < fixed {
			return nil, errLogged
		}
		o := op{
			kind: opKind(v[0]), live: v[1]&loggedLive != 0, kills: v[1]&loggedKills != 0, stripe: v[2],
			shard: binary.LittleEndian.Uint16(v[3:]), ts: int64(binary.LittleEndian.Uint64(v[5:])),
		}
		pre, n := binary.Uvarint(v[fixed:])
		if n <= 0 || pre > math.MaxInt32 || int(o.shard) >= len(s.shards) || o.kind > opRange || o.kind == opCounter {
			return nil, errLogged
		}
		key, rest, ok := cutBytes(v[fixed+n:])
		if !ok || len(key) < tablePrefixBytes || int(pre) > len(key) {
			return nil, errLogged
		}
		val, rest, ok := cutBytes(rest)
		if !ok {
			return nil, errLogged
		}
		v = rest
		o.tbl = s.tableByID(binary.BigEndian.Uint32(key))
		o.key = len(b.buf)
		b.buf = append(b.buf, key...)
		o.preEnd, o.keyEnd, o.val = o.key+int(pre), len(b.buf), len(b.buf)
		b.buf = append(b.buf, val...)
		o.valEnd = len(b.buf)
		b.shards |= 1 << o.shard
		b.ops = append(b.ops, o)
	}
	return b, nil
}
