package exec

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"varve/internal/schema"
)

// uuidEpochTicks is 1970-01-01 in 100 ns ticks since 1582-10-15 (RFC 9562 section 5.1).
const uuidEpochTicks = 0x01B21DD213814000

// prependReferenceMillis is 2010-01-01. Elements put before a list get
// timeuuids mirrored at this time, so that later ones sort first, as in Cassandra.
const prependReferenceMillis = 1262304000000

// uuidSource makes version 1 UUIDs that grow (or, for prepending, shrink) from
// call to call.
type uuidSource struct {
	node    [8]byte // clock sequence and node, the second half of every UUID
	last    atomic.Int64
	prepend atomic.Int64
}

func (u *uuidSource) init() error {
	if _, err := rand.Read(u.node[:]); err != nil {
		return fmt.Errorf("make node id: %w", err)
	}
	u.node[0] = u.node[0]&0x3f | 0x80 // variant
	u.node[2] |= 1                    // a multicast address: not a real one
	return nil
}

func (u *uuidSource) at(ticks int64) schema.UUID {
	var id schema.UUID
	t := uint64(ticks)
	binary.BigEndian.PutUint32(id[0:], uint32(t))
	binary.BigEndian.PutUint16(id[4:], uint16(t>>32))
	binary.BigEndian.PutUint16(id[6:], uint16(t>>48)&0x0fff|0x1000)
	copy(id[8:], u.node[:])
	return id
}

// next is a timeuuid later than all before it.
func (u *uuidSource) next(now time.Time) schema.UUID {
	ticks := now.UnixNano()/100 + uuidEpochTicks
	for {
		last := u.last.Load()
		if ticks <= last {
			ticks = last + 1
		}
		if u.last.CompareAndSwap(last, ticks) {
			return u.at(ticks)
		}
	}
}

// before reserves n timeuuids that are before all earlier ones of this kind
// and returns the first tick; the i-th is at(first+i).
func (u *uuidSource) before(now time.Time, n int) int64 {
	millis := 2*prependReferenceMillis - now.UnixMilli()
	first := millis*10_000 + uuidEpochTicks - int64(n)
	for {
		last := u.prepend.Load()
		if last != 0 && first > last-int64(n) {
			first = last - int64(n)
		}
		if u.prepend.CompareAndSwap(last, first) {
			return first
		}
	}
}

// random is a version 4 UUID.
func randomUUID() schema.UUID {
	var id schema.UUID
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the process instead
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}
