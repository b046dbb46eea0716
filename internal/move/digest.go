package move

import (
	"encoding/binary"
	"math/bits"
)

// digestSeed is the seed of every hash in a digest. Any fixed number but zero
// does; it is part of what two sides must agree on.
const digestSeed = 0x76617276

// Add puts a row into the digest.
//
// A value's hash is PostgreSQL's hash_bytes_extended over its binary form, a
// row's the same as hash_record_extended makes of it (31 times the hash so far
// plus the next column's, 0 for NULL), hashed once more so that a sum over
// rows notices values that changed places between rows. PostgreSQL computes
// all of it in the database, and any other store here.
func (d *Digest) Add(row Row) {
	var h uint64
	for _, v := range row {
		h = h<<5 - h
		if v != nil {
			h += HashBytes(v, digestSeed)
		}
	}
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], h)
	h = HashBytes(b[:], digestSeed)
	d.Rows++
	d.Sum[0] += h
	d.Sum[1] ^= h
}

// Merge adds the rows of another digest.
func (d *Digest) Merge(o Digest) {
	d.Rows += o.Rows
	d.Sum[0] += o.Sum[0]
	d.Sum[1] ^= o.Sum[1]
}

// HashBytes is PostgreSQL's hash_bytes_extended on a little-endian machine:
// Bob Jenkins' lookup3 with 64 bits of result.
func HashBytes(k []byte, seed uint64) uint64 {
	const golden = 0x9e3779b9
	init := uint32(golden) + uint32(len(k)) + 3923095
	a, b, c := init, init, init
	if seed != 0 {
		a += uint32(seed >> 32)
		b += uint32(seed)
		a, b, c = mix(a, b, c)
	}
	for len(k) >= 12 {
		a += binary.LittleEndian.Uint32(k)
		b += binary.LittleEndian.Uint32(k[4:])
		c += binary.LittleEndian.Uint32(k[8:])
		a, b, c = mix(a, b, c)
		k = k[12:]
	}
	// The last bytes: the lowest of c is kept for the length.
	var last [12]byte
	copy(last[:8], k)
	if len(k) > 8 {
		copy(last[9:], k[8:])
	}
	a += binary.LittleEndian.Uint32(last[0:])
	b += binary.LittleEndian.Uint32(last[4:])
	c += binary.LittleEndian.Uint32(last[8:])
	b, c = final(a, b, c)
	return uint64(b)<<32 | uint64(c)
}

func mix(a, b, c uint32) (x, y, z uint32) {
	a -= c
	a ^= bits.RotateLeft32(c, 4)
	c += b
	b -= a
	b ^= bits.RotateLeft32(a, 6)
	a += c
	c -= b
	c ^= bits.RotateLeft32(b, 8)
	b += a
	a -= c
	a ^= bits.RotateLeft32(c, 16)
	c += b
	b -= a
	b ^= bits.RotateLeft32(a, 19)
	a += c
	c -= b
	c ^= bits.RotateLeft32(b, 4)
	b += a
	return a, b, c
}

func final(a, b, c uint32) (y, z uint32) {
	c ^= b
	c -= bits.RotateLeft32(b, 14)
	a ^= c
	a -= bits.RotateLeft32(c, 11)
	b ^= a
	b -= bits.RotateLeft32(a, 25)
	c ^= b
	c -= bits.RotateLeft32(b, 16)
	a ^= c
	a -= bits.RotateLeft32(c, 4)
	b ^= a
	b -= bits.RotateLeft32(a, 14)
	c ^= b
	c -= bits.RotateLeft32(b, 24)
	return b, c
}
