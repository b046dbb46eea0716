package cqltype

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"sync/atomic"
	"time"
)

// uuidEpochMillis is 1582-10-15, where a timeuuid's count of 100 ns starts, in Unix milliseconds.
const uuidEpochMillis = -12219292800000

// NewRandomUUID returns a version 4 UUID.
func NewRandomUUID() [16]byte {
	var u [16]byte
	rand.Read(u[:]) //nolint:errcheck // never fails: the program ends instead
	u[6] = u[6]&0x0F | 0x40
	u[8] = u[8]&0x3F | 0x80
	return u
}

// TimeuuidGenerator makes version 1 UUIDs that never repeat and only grow in
// one process. Its node and clock sequence are random, with the multicast bit
// that says that the node is no hardware address (RFC 9562 section 6.10).
type TimeuuidGenerator struct {
	now        func() time.Time
	node       uint64 // clock sequence and node, the low half of every UUID
	lastMicros atomic.Int64
}

// NewTimeuuidGenerator returns a generator that reads the clock by now.
func NewTimeuuidGenerator(now func() time.Time) *TimeuuidGenerator {
	var seed [8]byte
	rand.Read(seed[:]) //nolint:errcheck // never fails: the program ends instead
	seed[0] = seed[0]&0x3F | 0x80
	seed[2] |= 1
	return &TimeuuidGenerator{now: now, node: binary.BigEndian.Uint64(seed[:])}
}

// Next returns the next timeuuid. Where the clock stands still or goes back,
// the time in the UUID runs ahead by a microsecond a call.
func (g *TimeuuidGenerator) Next() [16]byte {
	micros := g.now().UnixMicro()
	for {
		last := g.lastMicros.Load()
		next := max(micros, last+1)
		if g.lastMicros.CompareAndSwap(last, next) {
			return TimeuuidAt((next-uuidEpochMillis*1000)*10, g.node)
		}
	}
}

// TimeuuidAt builds a version 1 UUID from a count of 100 ns since 1582-10-15
// and its low half (clock sequence and node). A timeuuid has 60 bits for the
// count, which end in the year 5236; counts beyond them, and negative ones,
// make UUIDs of another version, which Validate refuses.
func TimeuuidAt(ticks int64, low uint64) [16]byte {
	t := uint64(ticks)
	var u [16]byte
	binary.BigEndian.PutUint64(u[:8], t<<32|t>>16&0xFFFF0000|0x1000|t>>48)
	binary.BigEndian.PutUint64(u[8:], low)
	return u
}

// MinTimeuuid returns the smallest timeuuid of a Unix millisecond, as
// minTimeuuid(); it is a bound and not a proper UUID. See TimeuuidAt for
// times that timeuuids do not reach.
func MinTimeuuid(unixMillis int64) [16]byte {
	return TimeuuidAt((unixMillis-uuidEpochMillis)*10000, 0x8080808080808080)
}

// MaxTimeuuid returns the largest timeuuid of a Unix millisecond, as
// maxTimeuuid(), with MinTimeuuid's limits.
func MaxTimeuuid(unixMillis int64) [16]byte {
	return TimeuuidAt((unixMillis+1-uuidEpochMillis)*10000-1, 0x7f7f7f7f7f7f7f7f)
}

// TimeuuidTicks returns a version 1 UUID's count of 100 ns since 1582-10-15;
// ok is false for anything else.
func TimeuuidTicks(b []byte) (ticks int64, ok bool) {
	if len(b) != 16 || b[6]>>4 != 1 {
		return 0, false
	}
	return int64(timeOrder(binary.BigEndian.Uint64(b)) & 0x0FFFFFFFFFFFFFFF), true
}

// TimeuuidUnixMillis returns a version 1 UUID's time in Unix milliseconds.
func TimeuuidUnixMillis(b []byte) (millis int64, ok bool) {
	micros, ok := TimeuuidUnixMicros(b)
	return floorDiv(micros, 1000), ok
}

// TimeuuidUnixMicros returns a version 1 UUID's time in Unix microseconds.
func TimeuuidUnixMicros(b []byte) (micros int64, ok bool) {
	ticks, ok := TimeuuidTicks(b)
	if !ok {
		return 0, false
	}
	return ticks/10 + uuidEpochMillis*1000, true
}

// ParseUUID reads 8-4-4-4-12 hexadecimal digits in any case.
func ParseUUID(s string) (u [16]byte, err error) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return u, errNotUUID
	}
	var digits [32]byte
	n := copy(digits[:], s[:8])
	n += copy(digits[n:], s[9:13])
	n += copy(digits[n:], s[14:18])
	n += copy(digits[n:], s[19:23])
	copy(digits[n:], s[24:])
	if _, err := hex.Decode(u[:], digits[:]); err != nil {
		return u, errNotUUID
	}
	return u, nil
}

var errNotUUID = marshalf("not a UUID")

// AppendUUID writes 16 bytes as 8-4-4-4-12 lower case hexadecimal digits.
func AppendUUID(dst, b []byte) []byte {
	dst = append(hex.AppendEncode(dst, b[:4]), '-')
	dst = append(hex.AppendEncode(dst, b[4:6]), '-')
	dst = append(hex.AppendEncode(dst, b[6:8]), '-')
	dst = append(hex.AppendEncode(dst, b[8:10]), '-')
	return hex.AppendEncode(dst, b[10:16])
}

// timeOrder turns a version 1 UUID's upper half so that its most significant
// bits come first: version, then the 60 bits of time.
func timeOrder(high uint64) uint64 {
	return high<<48 | high<<16&0xFFFF00000000 | high>>32
}

// timeOrderBack reverses timeOrder.
func timeOrderBack(ordered uint64) uint64 {
	return ordered<<32 | ordered>>16&0xFFFF0000 | ordered>>48
}

// uuidOrder puts the version in front of any other UUID's upper half.
func uuidOrder(high uint64) uint64 {
	version := high >> 12 & 0xF
	if version == 1 {
		return timeOrder(high)
	}
	return version<<60 | high>>4&0x0FFFFFFFFFFFF000 | high&0xFFF
}

// uuidOrderBack reverses uuidOrder.
func uuidOrderBack(ordered uint64) uint64 {
	version := ordered >> 60
	if version == 1 {
		return timeOrderBack(ordered)
	}
	return ordered<<4&0xFFFFFFFFFFFF0000 | version<<12 | ordered&0xFFF
}

// signFlips turns eight signed bytes into bytes that order unsigned.
const signFlips = 0x8080808080808080

// compareTimeuuid orders by time, then by the lower half's bytes as signed
// ones, which Cassandra keeps from its first releases.
func compareTimeuuid(a, b []byte) int {
	if len(a) != 16 || len(b) != 16 {
		return boolCompare(len(a) > 0, len(b) > 0)
	}
	timeA := timeOrder(binary.BigEndian.Uint64(a))
	timeB := timeOrder(binary.BigEndian.Uint64(b))
	if timeA != timeB {
		return cmp.Compare(timeA, timeB)
	}
	return cmp.Compare(binary.BigEndian.Uint64(a[8:])^signFlips, binary.BigEndian.Uint64(b[8:])^signFlips)
}

// compareUUID orders by version, then version 1 by time and others by their
// bytes; the lower half is unsigned here.
func compareUUID(a, b []byte) int {
	if len(a) != 16 || len(b) != 16 {
		return boolCompare(len(a) > 0, len(b) > 0)
	}
	highA := uuidOrder(binary.BigEndian.Uint64(a))
	highB := uuidOrder(binary.BigEndian.Uint64(b))
	if highA != highB {
		return cmp.Compare(highA, highB)
	}
	return bytes.Compare(a[8:], b[8:])
}
