package cqltype

import (
	"net/netip"
	"strconv"
	"strings"
)

// EncodeInet returns an address as 4 or 16 bytes; an IPv4 address in IPv6
// form is 4 bytes, as in Java.
func EncodeInet(a netip.Addr) []byte {
	if !a.IsValid() {
		return []byte{}
	}
	return a.Unmap().AsSlice()
}

// DecodeInet reads an inet value; the zero Addr stands for empty and malformed ones.
func DecodeInet(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a.Unmap()
}

// appendInet writes an address as Java's getHostAddress does: IPv6 with all
// eight groups and no "::".
func appendInet(dst, b []byte) []byte {
	a := DecodeInet(b)
	if a.Is4() {
		return a.AppendTo(dst)
	}
	for i := 0; i+1 < len(b); i += 2 {
		if i > 0 {
			dst = append(dst, ':')
		}
		dst = strconv.AppendUint(dst, uint64(b[i])<<8|uint64(b[i+1]), 16)
	}
	return dst
}

// parseInet reads an address. Cassandra asks the resolver for anything else;
// we never do, but know localhost.
func parseInet(s string) ([]byte, bool) {
	if s == "localhost" {
		return []byte{127, 0, 0, 1}, true
	}
	if v4, ok := parseIPv4(s); ok {
		return v4, true
	}
	if len(s) > 2 && s[0] == '[' && s[len(s)-1] == ']' {
		s = s[1 : len(s)-1]
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Is4() || a.Zone() != "" {
		return nil, false
	}
	return EncodeInet(a), true
}

// parseIPv4 reads one to four decimal parts, the last of which fills what is
// left of the four bytes: 127.1 is 127.0.0.1.
func parseIPv4(s string) ([]byte, bool) {
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return nil, false
	}
	b := make([]byte, 4)
	for i, p := range parts {
		if p == "" || !allDigits(p) {
			return nil, false
		}
		width := 1
		if i == len(parts)-1 {
			width = 4 - i
		}
		v, err := strconv.ParseUint(p, 10, 8*width)
		if err != nil {
			return nil, false
		}
		for j := width - 1; j >= 0; j-- {
			b[i+j] = byte(v)
			v >>= 8
		}
	}
	return b, true
}
