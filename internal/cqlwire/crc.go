package cqlwire

import "hash/crc32"

// Version 5 guards a segment's header with a CRC-24 (Koopman) and its payload
// with CRC-32 (IEEE); both start from values of their own, so that a run of
// zeros does not check out (specification section 2.2.2).
const (
	crc24Init = 0x875060
	crc24Poly = 0x974F0B // without its leading bit
)

var crc24Table = func() (t [256]uint32) {
	for i := range t {
		c := uint32(i) << 16
		for range 8 {
			c <<= 1
			if c&0x1000000 != 0 {
				c ^= 0x1000000 | crc24Poly
			}
		}
		t[i] = c & 0xFFFFFF
	}
	return t
}()

func crc24(b []byte) uint32 {
	c := uint32(crc24Init)
	for _, x := range b {
		c = (c<<8)&0xFFFFFF ^ crc24Table[byte(c>>16)^x]
	}
	return c
}

var crc32Init = crc32.ChecksumIEEE([]byte{0xFA, 0x2D, 0x55, 0xCA})

func payloadCRC(b []byte) uint32 { return crc32.Update(crc32Init, crc32.IEEETable, b) }
