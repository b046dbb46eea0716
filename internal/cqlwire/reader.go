package cqlwire

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"unicode/utf8"
)

// Reader decodes the protocol's notations (specification section 3) from a
// message body. Its first error sticks; what is read after it is zero. Byte
// slices it returns alias the body. Lengths are checked against what is left
// before anything is allocated.
type Reader struct {
	buf []byte
	err error
}

// NewReader returns a reader of body.
func NewReader(body []byte) Reader { return Reader{buf: body} }

// Err returns the first error, a *Error with code ErrProtocol, or nil.
func (r *Reader) Err() error { return r.err }

// Rest returns what has not been read.
func (r *Reader) Rest() []byte { return r.buf }

func protocolErrorf(format string, args ...any) *Error {
	return &Error{Code: ErrProtocol, Message: fmt.Sprintf(format, args...)}
}

var (
	errShort       = &Error{Code: ErrProtocol, Message: "Not enough bytes left in the message"}
	errShortString = &Error{
		Code:    ErrProtocol,
		Message: "Not enough bytes to read an UTF8 serialized string preceded by its 2 bytes length",
	}
	errShortLongString = &Error{
		Code:    ErrProtocol,
		Message: "Not enough bytes to read an UTF8 serialized string preceded by its 4 bytes length",
	}
	errShortBytes = &Error{
		Code:    ErrProtocol,
		Message: "Not enough bytes to read a byte array preceded by its 2 bytes length",
	}
)

func (r *Reader) fail(err *Error) {
	if r.err == nil {
		r.err = err
	}
	r.buf = nil
}

// take returns the next n bytes, or nil and the given error.
func (r *Reader) take(n int, short *Error) []byte {
	if n < 0 || n > len(r.buf) {
		r.fail(short)
		return nil
	}
	b := r.buf[:n:n]
	r.buf = r.buf[n:]
	return b
}

// Byte reads a [byte].
func (r *Reader) Byte() byte {
	if len(r.buf) < 1 {
		r.fail(errShort)
		return 0
	}
	b := r.buf[0]
	r.buf = r.buf[1:]
	return b
}

// Short reads a [short].
func (r *Reader) Short() int {
	if len(r.buf) < 2 {
		r.fail(errShort)
		return 0
	}
	v := binary.BigEndian.Uint16(r.buf)
	r.buf = r.buf[2:]
	return int(v)
}

// Int reads an [int].
func (r *Reader) Int() int32 {
	if len(r.buf) < 4 {
		r.fail(errShort)
		return 0
	}
	v := binary.BigEndian.Uint32(r.buf)
	r.buf = r.buf[4:]
	return int32(v)
}

// Long reads a [long].
func (r *Reader) Long() int64 {
	if len(r.buf) < 8 {
		r.fail(errShort)
		return 0
	}
	v := binary.BigEndian.Uint64(r.buf)
	r.buf = r.buf[8:]
	return int64(v)
}

// StringBytes reads a [string] without a copy.
func (r *Reader) StringBytes() []byte {
	if len(r.buf) < 2 {
		r.fail(errShortString)
		return nil
	}
	n := int(binary.BigEndian.Uint16(r.buf))
	r.buf = r.buf[2:]
	return r.checkUTF8(r.take(n, errShortString))
}

// String reads a [string].
func (r *Reader) String() string { return string(r.StringBytes()) }

// LongStringBytes reads a [long string] without a copy.
func (r *Reader) LongStringBytes() []byte {
	if len(r.buf) < 4 {
		r.fail(errShortLongString)
		return nil
	}
	n := int(int32(binary.BigEndian.Uint32(r.buf)))
	r.buf = r.buf[4:]
	return r.checkUTF8(r.take(n, errShortLongString))
}

// LongString reads a [long string].
func (r *Reader) LongString() string { return string(r.LongStringBytes()) }

// utf8Shown bounds how much of a broken string its error repeats.
const utf8Shown = 64

func (r *Reader) checkUTF8(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	shown := b
	if len(shown) > utf8Shown {
		shown = shown[:utf8Shown]
	}
	r.fail(protocolErrorf("Cannot decode string as UTF8: '%s'; "+
		"java.nio.charset.MalformedInputException: Input length = 1", hex.EncodeToString(shown)))
	return nil
}

// Bytes reads a [bytes]; null is nil, empty is not.
func (r *Reader) Bytes() []byte {
	n := r.Int()
	if n < 0 || r.err != nil {
		return nil
	}
	return r.valueBytes(n)
}

func (r *Reader) valueBytes(n int32) []byte {
	if int(n) > len(r.buf) {
		r.fail(protocolErrorf("Cannot read value of length %d, only %d bytes remaining in the message", n, len(r.buf)))
		return nil
	}
	return r.take(int(n), errShort)
}

// ShortBytes reads a [short bytes].
func (r *Reader) ShortBytes() []byte {
	if len(r.buf) < 2 {
		r.fail(errShortBytes)
		return nil
	}
	n := int(binary.BigEndian.Uint16(r.buf))
	r.buf = r.buf[2:]
	return r.take(n, errShortBytes)
}

// Value reads a bound [value]. Before version 4 every negative length is null.
func (r *Reader) Value(v Version) Value {
	n := r.Int()
	switch {
	case r.err != nil:
		return Value{}
	case n >= 0:
		return Value{Bytes: r.valueBytes(n)}
	case n == -1 || v < V4:
		return Value{}
	case n == -2:
		return Value{Unset: true}
	}
	r.fail(protocolErrorf("Invalid ByteBuf length %d", n))
	return Value{}
}

// Values appends a [short] count and so many values to dst.
func (r *Reader) Values(dst []Value, v Version) []Value {
	n := r.count(r.Short(), 4)
	if cap(dst)-len(dst) < n {
		dst = append(make([]Value, 0, max(len(dst)+n, 2*cap(dst))), dst...)
	}
	for range n {
		dst = append(dst, r.Value(v))
		if r.err != nil {
			return dst
		}
	}
	return dst
}

// count checks a number of elements of at least minSize bytes each against
// what is left, so that no count can ask for more memory than was sent.
func (r *Reader) count(n, minSize int) int {
	if r.err != nil || n < 0 {
		return 0
	}
	if n*minSize > len(r.buf) {
		r.fail(errShort)
		return 0
	}
	return n
}

// UUID reads a [uuid].
func (r *Reader) UUID() (u [16]byte) {
	copy(u[:], r.take(16, errShort))
	return u
}

// Consistency reads a [consistency].
func (r *Reader) Consistency() Consistency {
	c := Consistency(r.Short())
	if r.err == nil && !c.Valid() {
		r.fail(protocolErrorf("Unknown code %d for a consistency level", uint16(c)))
		return 0
	}
	return c
}

// InetAddr reads an [inetaddr].
func (r *Reader) InetAddr() netip.Addr {
	n := int(r.Byte())
	if r.err == nil && n != 4 && n != 16 {
		r.fail(protocolErrorf("Invalid network address size %d", n))
		return netip.Addr{}
	}
	addr, _ := netip.AddrFromSlice(r.take(n, errShort))
	return addr
}

// Inet reads an [inet].
func (r *Reader) Inet() netip.AddrPort {
	addr := r.InetAddr()
	port := r.Int()
	if r.err == nil && (port < 0 || port > 65535) {
		r.fail(protocolErrorf("Invalid port %d", port))
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(addr, uint16(port))
}

// StringList reads a [string list].
func (r *Reader) StringList() []string {
	n := r.count(r.Short(), 2)
	list := make([]string, 0, n)
	for range n {
		list = append(list, r.String())
		if r.err != nil {
			return nil
		}
	}
	return list
}

// StringMap reads a [string map].
func (r *Reader) StringMap() map[string]string {
	n := r.count(r.Short(), 4)
	m := make(map[string]string, n)
	for range n {
		k := r.String()
		m[k] = r.String()
		if r.err != nil {
			return nil
		}
	}
	return m
}

// StringMultimap reads a [string multimap].
func (r *Reader) StringMultimap() map[string][]string {
	n := r.count(r.Short(), 4)
	m := make(map[string][]string, n)
	for range n {
		k := r.String()
		m[k] = r.StringList()
		if r.err != nil {
			return nil
		}
	}
	return m
}

// BytesMap reads a [bytes map]; its values alias the body.
func (r *Reader) BytesMap() map[string][]byte {
	n := r.count(r.Short(), 6)
	m := make(map[string][]byte, n)
	for range n {
		k := r.String()
		m[k] = r.Bytes()
		if r.err != nil {
			return nil
		}
	}
	return m
}
