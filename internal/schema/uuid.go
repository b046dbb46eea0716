package schema

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
)

// UUID is a 16-byte identifier (table ids, schema version).
type UUID [16]byte

// randomUUID makes a version 4 UUID.
func randomUUID() UUID {
	var u UUID
	// Read never fails: the runtime ends the process when there is no randomness.
	_, _ = rand.Read(u[:])
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return u
}

// nameUUID makes a version 3 UUID (RFC 9562 section 5.3) of an md5 sum.
func nameUUID(sum []byte) UUID {
	u := UUID(sum)
	u[6] = u[6]&0x0f | 0x30
	u[8] = u[8]&0x3f | 0x80
	return u
}

// String returns the UUID in its usual form.
func (u UUID) String() string {
	var b [36]byte
	hex.Encode(b[:8], u[:4])
	hex.Encode(b[9:13], u[4:6])
	hex.Encode(b[14:18], u[6:8])
	hex.Encode(b[19:23], u[8:10])
	hex.Encode(b[24:], u[10:])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// ParseUUID reads a UUID in its usual form.
func ParseUUID(s string) (UUID, error) {
	var u UUID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return u, fmt.Errorf("%q is not a UUID", s)
	}
	plain := s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	if _, err := hex.Decode(u[:], []byte(plain)); err != nil {
		return u, fmt.Errorf("%q is not a UUID", s)
	}
	return u, nil
}
