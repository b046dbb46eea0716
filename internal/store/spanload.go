package store

import (
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// eachPhys calls f for every physical id with keys in the shard, ascending.
func (sh *shard) eachPhys(f func(phys uint32) error) error {
	it, err := sh.db.NewIter(nil)
	if err != nil {
		return err
	}
	valid := it.SeekGE(appendTablePrefix(nil, 1, 0))
	for valid && err == nil {
		key := it.Key()
		if len(key) < tablePrefixBytes {
			err = errKeyShape
			break
		}
		phys := binary.BigEndian.Uint32(key)
		err = f(phys)
		if phys == ^uint32(0) {
			break
		}
		valid = it.SeekGE(appendTablePrefix(nil, phys+1, 0))
	}
	return errors.Join(err, it.Error(), it.Close())
}

// loadSpans reads the records of dead spans into memory. Records for which
// there is no room are removed: a span that is not in memory would not be cut.
func (s *Store) loadSpans() error {
	for _, sh := range s.shards {
		err := sh.eachPhys(func(phys uint32) error {
			prefix := appendTablePrefix(nil, phys, familySpan)
			it, err := sh.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
			if err != nil {
				return err
			}
			defer it.Close()
			pb := sh.db.NewBatch()
			defer pb.Close()
			var last string
			for it.First(); it.Valid(); it.Next() {
				v, err := it.ValueAndErr()
				if err != nil {
					return err
				}
				x, ok := decodeSpan(it.Key(), v)
				if !ok || x.lo < last || s.spanBytes.Load()+x.bytes() > s.opts.SpanBytes {
					if err := pb.Delete(it.Key(), nil); err != nil {
						return err
					}
					continue
				}
				last = x.hi
				m := &s.tableByID(phys).parts[sh.idx].spans
				m.mu.Lock()
				m.insertLocked(x)
				m.mu.Unlock()
				// What is merged already is told apart when it is looked at.
				sh.debts.add(debt{lo: x.lo, hi: x.hi, rows: x.rows})
			}
			if err := it.Error(); err != nil {
				return err
			}
			if pb.Empty() || s.opts.ReadOnly {
				return nil
			}
			return sh.write(pb, pebble.NoSync)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
