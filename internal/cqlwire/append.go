package cqlwire

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"unicode/utf8"
)

// AppendShort writes a [short].
func AppendShort(dst []byte, n int) []byte { return append(dst, byte(n>>8), byte(n)) }

// AppendInt writes an [int].
func AppendInt(dst []byte, n int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(n)) }

// AppendLong writes a [long].
func AppendLong(dst []byte, n int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(n)) }

// maxString is the longest [string] in bytes.
const maxString = 0xFFFF

// clip shortens s to what a [string] can hold, between characters.
func clip(s string) string {
	if len(s) <= maxString {
		return s
	}
	n := maxString
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// AppendString writes a [string]; what exceeds 65535 bytes is cut off, so that
// no text can break the frame.
func AppendString(dst []byte, s string) []byte {
	s = clip(s)
	return append(AppendShort(dst, len(s)), s...)
}

// AppendLongString writes a [long string].
func AppendLongString(dst []byte, s string) []byte {
	return append(AppendInt(dst, int32(len(s))), s...)
}

// AppendBytes writes a [bytes]; nil is null.
func AppendBytes(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 0xFF, 0xFF, 0xFF, 0xFF)
	}
	return append(AppendInt(dst, int32(len(b))), b...)
}

// AppendShortBytes writes a [short bytes] of at most 65535 bytes.
func AppendShortBytes(dst, b []byte) []byte {
	return append(AppendShort(dst, len(b)), b...)
}

// AppendValue writes a [value].
func AppendValue(dst []byte, v Value) []byte {
	if v.Unset {
		return append(dst, 0xFF, 0xFF, 0xFF, 0xFE)
	}
	return AppendBytes(dst, v.Bytes)
}

// AppendValues writes a [short] count and the values.
func AppendValues(dst []byte, values []Value) []byte {
	dst = AppendShort(dst, len(values))
	for _, v := range values {
		dst = AppendValue(dst, v)
	}
	return dst
}

// AppendConsistency writes a [consistency].
func AppendConsistency(dst []byte, c Consistency) []byte { return AppendShort(dst, int(c)) }

// AppendInetAddr writes an [inetaddr].
func AppendInetAddr(dst []byte, a netip.Addr) []byte {
	a = a.Unmap()
	if a.Is4() {
		b := a.As4()
		return append(append(dst, 4), b[:]...)
	}
	b := a.As16()
	return append(append(dst, 16), b[:]...)
}

// AppendInet writes an [inet].
func AppendInet(dst []byte, a netip.AddrPort) []byte {
	return AppendInt(AppendInetAddr(dst, a.Addr()), int32(a.Port()))
}

// AppendStringList writes a [string list].
func AppendStringList(dst []byte, list []string) []byte {
	dst = AppendShort(dst, len(list))
	for _, s := range list {
		dst = AppendString(dst, s)
	}
	return dst
}

// AppendStringMap writes a [string map], in the order of its keys.
func AppendStringMap(dst []byte, m map[string]string) []byte {
	dst = AppendShort(dst, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		dst = AppendString(AppendString(dst, k), m[k])
	}
	return dst
}

// AppendStringMultimap writes a [string multimap], in the order of its keys.
func AppendStringMultimap(dst []byte, m map[string][]string) []byte {
	dst = AppendShort(dst, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		dst = AppendStringList(AppendString(dst, k), m[k])
	}
	return dst
}

// AppendBytesMap writes a [bytes map], in the order of its keys.
func AppendBytesMap(dst []byte, m map[string][]byte) []byte {
	dst = AppendShort(dst, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		dst = AppendBytes(AppendString(dst, k), m[k])
	}
	return dst
}
