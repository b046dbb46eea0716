package exec

import (
	"crypto/rand"
	"encoding/binary"
	"sync/atomic"
	"time"

	"varve/internal/cqltype"
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
	node    uint64 // clock sequence and node, the second half of every UUID
	last    atomic.Int64
	prepend atomic.Int64
}

func (u *uuidSource) init() {
	var seed [8]byte
	_, _ = rand.Read(seed[:])     // never fails: the program ends instead
	seed[0] = seed[0]&0x3f | 0x80 // variant
	seed[2] |= 1                  // a multicast address: not a real one
	u.node = binary.BigEndian.Uint64(seed[:])
}

func (u *uuidSource) at(ticks int64) schema.UUID { return cqltype.TimeuuidAt(ticks, u.node) }

// next is a timeuuid later than all before it.
func (u *uuidSource) next(now time.Time) schema.UUID {
	ticks := now.UnixNano()/100 + uuidEpochTicks
	for {
		last := u.last.Load()
		next := max(ticks, last+1)
		if u.last.CompareAndSwap(last, next) {
			return u.at(next)
		}
	}
}

// before reserves n timeuuids that are before all earlier ones of this kind
// and returns the first tick; the i-th is at(first+i).
func (u *uuidSource) before(now time.Time, n int) int64 {
	millis := 2*prependReferenceMillis - now.UnixMilli()
	for {
		last := u.prepend.Load()
		first := millis*10_000 + uuidEpochTicks - int64(n)
		if last != 0 {
			first = min(first, last-int64(n))
		}
		if u.prepend.CompareAndSwap(last, first) {
			return first
		}
	}
}
