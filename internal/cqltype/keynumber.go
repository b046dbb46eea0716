package cqltype

import (
	"encoding/binary"
	"math"
	"math/big"
)

// Numbers of any length are written as their magnitude behind a head byte
// that holds sign and length, so that a longer number sorts outside a shorter
// one of the same sign. A negative number is the complement of its magnitude's form.
const (
	numberHead      = 0x80 // plus the length of the magnitude; alone: zero
	numberLongHead  = 0xF8 // then the length as u32
	numberShortSize = numberLongHead - numberHead
)

func appendVarintKey(dst, b []byte) []byte {
	if v, ok := varint64(b); ok {
		return appendOrderedInt(dst, v)
	}
	v := DecodeVarint(b)
	start := len(dst)
	size := (v.BitLen() + 7) / 8
	dst = appendNumberHead(dst, size)
	at := len(dst)
	dst = append(dst, make([]byte, size)...)
	negative := v.Sign() < 0
	v.FillBytes(dst[at:])
	if negative {
		complement(dst[start:])
	}
	return dst
}

func appendNumberHead(dst []byte, size int) []byte {
	if size < numberShortSize {
		return append(dst, numberHead+byte(size))
	}
	return binary.BigEndian.AppendUint32(append(dst, numberLongHead), uint32(size))
}

// appendOrderedInt is appendVarintKey for what fits 64 bits.
func appendOrderedInt(dst []byte, v int64) []byte {
	start := len(dst)
	m := magnitude(v)
	size := 0
	for rest := m; rest > 0; rest >>= 8 {
		size++
	}
	dst = appendNumberHead(dst, size)
	for i := size - 1; i >= 0; i-- {
		dst = append(dst, byte(m>>(8*i)))
	}
	if v < 0 {
		complement(dst[start:])
	}
	return dst
}

// numberHead reads a number's sign and the length of its magnitude. The bytes
// that follow are complemented once more where the number is negative.
func (r *keyReader) numberHead() (negative bool, size int, err error) {
	head, err := r.byte()
	if err != nil {
		return false, 0, err
	}
	negative = head < numberHead
	flip := byte(0)
	if negative {
		flip = 0xFF
	}
	head ^= flip
	switch {
	case head < numberLongHead:
		return negative, int(head) - numberHead, nil
	case head > numberLongHead || len(r.rest) < 4:
		return false, 0, errKey
	}
	var raw [4]byte
	for i := range raw {
		raw[i] = r.rest[i] ^ r.flip ^ flip
	}
	r.rest = r.rest[4:]
	return negative, int(binary.BigEndian.Uint32(raw[:])), nil
}

// magnitude reads a number's sign and the bytes of its magnitude into dst.
func (r *keyReader) magnitude(dst []byte) (negative bool, out []byte, err error) {
	negative, size, err := r.numberHead()
	if err != nil {
		return false, dst, err
	}
	start := len(dst)
	out, err = r.copy(dst, size)
	if err == nil && negative {
		complement(out[start:])
	}
	return negative, out, err
}

func (r *keyReader) varint(dst []byte) ([]byte, error) {
	var buf [32]byte
	negative, m, err := r.magnitude(buf[:0])
	if err != nil {
		return dst, err
	}
	if len(m) < 8 {
		return appendVarint64(dst, smallMagnitude(negative, m)), nil
	}
	v := new(big.Int).SetBytes(m)
	if negative {
		v.Neg(v)
	}
	return AppendVarint(dst, v), nil
}

func smallMagnitude(negative bool, m []byte) int64 {
	var v int64
	for _, c := range m {
		v = v<<8 | int64(c)
	}
	if negative {
		return -v
	}
	return v
}

// orderedInt reads a number written by appendOrderedInt.
func (r *keyReader) orderedInt() (int64, error) {
	var buf [8]byte
	negative, m, err := r.magnitude(buf[:0])
	if err != nil || len(m) > 7 {
		return 0, errKey
	}
	return smallMagnitude(negative, m), nil
}

// A decimal is its sign, the exponent e of 0.d₁d₂… × 10^e as an ordered
// integer, the digits in pairs (each plus one), and 0. Negative ones are
// complemented. Zeros at the end are dropped, so that equal values are equal keys.
const (
	decimalZero     = 0x80
	decimalPositive = 0xC0
)

func appendDecimalKey(dst, b []byte) ([]byte, error) {
	if len(b) < 4 {
		return dst, errKey
	}
	var buf [20]byte
	sign, digits, exponent := decimalParts(buf[:0], b)
	if sign == 0 {
		return append(dst, decimalZero), nil
	}
	start := len(dst)
	dst = appendOrderedInt(append(dst, decimalPositive), exponent)
	for i := 0; i < len(digits); i += 2 {
		pair := (digits[i] - '0') * 10
		if i+1 < len(digits) {
			pair += digits[i+1] - '0'
		}
		dst = append(dst, pair+1)
	}
	dst = append(dst, 0)
	if sign < 0 {
		complement(dst[start:])
	}
	return dst, nil
}

func (r *keyReader) decimal(dst []byte) ([]byte, error) {
	head, err := r.byte()
	if err != nil {
		return dst, err
	}
	saved := r.flip
	defer func() { r.flip = saved }()
	negative := false
	switch head {
	case decimalZero:
		return append(dst, 0, 0, 0, 0, 0), nil
	case decimalPositive:
	case decimalPositive ^ 0xFF:
		negative = true
		r.flip ^= 0xFF
	default:
		return dst, errKey
	}
	exponent, err := r.orderedInt()
	if err != nil {
		return dst, err
	}
	var buf [40]byte
	digits := buf[:0]
	for {
		c, err := r.byte()
		if err != nil || c > 100 || len(digits) > maxNumberDigits {
			return dst, errKey
		}
		if c == 0 {
			break
		}
		digits = append(digits, '0'+(c-1)/10, '0'+(c-1)%10)
	}
	return appendCanonicalDecimal(dst, negative, digits, exponent)
}

func appendCanonicalDecimal(dst []byte, negative bool, digits []byte, exponent int64) ([]byte, error) {
	for len(digits) > 0 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
	}
	scale := int64(len(digits)) - exponent
	// The smallest scale needs back the zeros that cannot be expressed by it.
	for ; scale < math.MinInt32 && len(digits) <= maxNumberDigits; scale++ {
		digits = append(digits, '0')
	}
	if scale < math.MinInt32 || scale > math.MaxInt32 || len(digits) == 0 {
		return dst, errKey
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(int32(scale)))
	if len(digits) < 19 {
		var v int64
		for _, c := range digits {
			v = v*10 + int64(c-'0')
		}
		if negative {
			v = -v
		}
		return appendVarint64(dst, v), nil
	}
	v, _ := new(big.Int).SetString(string(digits), 10)
	if negative {
		v.Neg(v)
	}
	return AppendVarint(dst, v), nil
}
