package cqltype

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// appendJavaFloat writes a floating point number as Java's toString does:
// plain with at least one digit after the point from 10^-3 to below 10^7, else
// d.dddE±n; bits is 32 or 64.
func appendJavaFloat(dst []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, "NaN"...)
	case math.IsInf(v, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(v, -1):
		return append(dst, "-Infinity"...)
	}
	if abs := math.Abs(v); abs == 0 || abs >= 1e-3 && abs < 1e7 {
		start := len(dst)
		dst = strconv.AppendFloat(dst, v, 'f', -1, bits)
		if bytes.IndexByte(dst[start:], '.') < 0 {
			dst = append(dst, '.', '0')
		}
		return dst
	}
	var buf [32]byte
	text := strconv.AppendFloat(buf[:0], v, 'e', -1, bits)
	if bytes.IndexByte(text, '.') < 0 {
		// Of the texts with two digits, the least that Java writes, take the
		// nearest one: 4.9E-324, not 5.0E-324.
		text = strconv.AppendFloat(buf[:0], v, 'e', 1, 64)
	}
	at := bytes.IndexByte(text, 'e')
	dst = append(append(dst, text[:at]...), 'E')
	exponent := text[at+1:]
	if exponent[0] == '-' {
		dst = append(dst, '-')
	}
	return append(dst, bytes.TrimLeft(exponent[1:], "0")...)
}

// parseJavaFloat reads what Java's Double.parseDouble does: surrounding
// blanks, NaN and Infinity in this very spelling, and a suffix d or f.
func parseJavaFloat(s string, bits int) (float64, bool) {
	s = trimJava(s)
	unsigned := s
	if s != "" && (s[0] == '+' || s[0] == '-') {
		unsigned = s[1:]
	}
	switch unsigned {
	case "NaN":
		return math.NaN(), true
	case "Infinity":
		if s[0] == '-' {
			return math.Inf(-1), true
		}
		return math.Inf(1), true
	case "":
		return 0, false
	}
	hex := strings.HasPrefix(unsigned, "0x") || strings.HasPrefix(unsigned, "0X")
	if hex && !strings.ContainsAny(s, "pP") {
		return 0, false
	}
	if c := s[len(s)-1]; c == 'd' || c == 'D' || c == 'f' || c == 'F' {
		s = s[:len(s)-1]
	}
	allowed := "0123456789.eE+-"
	if hex {
		allowed = "0123456789abcdefABCDEFxXpP.+-"
	}
	if strings.Trim(s, allowed) != "" || !strings.ContainsAny(s, "0123456789abcdefABCDEF") {
		return 0, false
	}
	for i := range len(s) {
		if strings.IndexByte(allowed, s[i]) < 0 {
			return 0, false
		}
	}
	v, err := strconv.ParseFloat(s, bits)
	if err != nil && !isRange(err) {
		return 0, false
	}
	return v, true
}

func isRange(err error) bool {
	ne, ok := err.(*strconv.NumError)
	return ok && ne.Err == strconv.ErrRange
}
