package cqltype

import (
	"math"
	"strconv"
	"strings"
)

// DurationValue is a CQL duration. Its three parts have one sign between them.
type DurationValue struct {
	Months, Days int32
	Nanos        int64
}

// Encode returns d in binary form: three signed vints.
func (d DurationValue) Encode() []byte {
	b := appendVint(nil, int64(d.Months))
	b = appendVint(b, int64(d.Days))
	return appendVint(b, d.Nanos)
}

// DecodeDuration reads a duration; malformed values give an error.
func DecodeDuration(b []byte) (DurationValue, error) {
	if len(b) < 3 {
		return DurationValue{}, marshalf("Expected at least 3 bytes for a duration (%d)", len(b))
	}
	var parts [3]int64
	rest := b
	for i := range parts {
		v, n := readVint(rest)
		if n == 0 {
			return DurationValue{}, marshalf("Not enough bytes to read a duration")
		}
		parts[i], rest = v, rest[n:]
	}
	months, days, nanos := parts[0], parts[1], parts[2]
	if int64(int32(months)) != months {
		return DurationValue{}, marshalf("The duration months must be a 32 bits integer but was: %d", months)
	}
	if int64(int32(days)) != days {
		return DurationValue{}, marshalf("The duration days must be a 32 bits integer but was: %d", days)
	}
	if (months < 0 || days < 0 || nanos < 0) && (months > 0 || days > 0 || nanos > 0) {
		return DurationValue{}, marshalf("The duration months, days and nanoseconds must be all of the same sign (%d, %d, %d)",
			months, days, nanos)
	}
	return DurationValue{Months: int32(months), Days: int32(days), Nanos: nanos}, nil
}

// IsNegative reports that any part is below zero.
func (d DurationValue) IsNegative() bool { return d.Months < 0 || d.Days < 0 || d.Nanos < 0 }

// Append writes d as Cassandra does: 1y2mo3d4h5m6s7ms8us9ns. The zero
// duration is the empty text.
func (d DurationValue) Append(dst []byte) []byte {
	if d.IsNegative() {
		dst = append(dst, '-')
	}
	dst = appendUnits(dst, magnitude(int64(d.Months)), monthUnits)
	dst = appendUnits(dst, magnitude(int64(d.Days)), dayUnits)
	return appendUnits(dst, magnitude(d.Nanos), nanoUnits)
}

// String returns what Append writes.
func (d DurationValue) String() string { return string(d.Append(nil)) }

func magnitude(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}

type durationUnit struct {
	size uint64
	name string
}

var (
	monthUnits = []durationUnit{{12, "y"}, {1, "mo"}}
	dayUnits   = []durationUnit{{1, "d"}}
	nanoUnits  = []durationUnit{
		{nanosPerHour, "h"}, {nanosPerMinute, "m"}, {nanosPerSecond, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"},
	}
)

func appendUnits(dst []byte, v uint64, units []durationUnit) []byte {
	for _, u := range units {
		if v >= u.size {
			dst = append(strconv.AppendUint(dst, v/u.size, 10), u.name...)
			v %= u.size
		}
	}
	return dst
}

const (
	nanosPerSecond = 1_000_000_000
	nanosPerMinute = 60 * nanosPerSecond
	nanosPerHour   = 60 * nanosPerMinute
	nanosPerDay    = 24 * nanosPerHour
)

// ParseDuration reads the three written forms: 1y2mo3w4d5h6m7s8ms9us10ns,
// ISO 8601 with designators (P1Y2M3DT4H5M6S, P3W), and ISO 8601 alternative
// (P0001-02-03T04:05:06); a minus sign may precede each.
func ParseDuration(s string) (DurationValue, error) {
	source, negative := strings.CutPrefix(s, "-")
	b := durationBuilder{source: source}
	var err error
	switch {
	case !strings.HasPrefix(source, "P"):
		err = b.standard()
	case strings.HasSuffix(source, "W"):
		err = b.designators(source[1:], "W")
	case strings.Contains(source, "-"):
		err = b.alternative()
	default:
		date, clock, hasClock := strings.Cut(source[1:], "T")
		err = b.designators(date, "YMD")
		if err == nil && hasClock {
			b.clock = true
			err = b.designators(clock, "HMS")
		}
	}
	if err != nil {
		return DurationValue{}, err
	}
	d := DurationValue{Months: int32(b.months), Days: int32(b.days), Nanos: b.nanos}
	if negative {
		d = DurationValue{Months: -d.Months, Days: -d.Days, Nanos: -d.Nanos}
	}
	return d, nil
}

// durationBuilder adds units, which must come from the largest to the
// smallest, each at most once.
type durationBuilder struct {
	source       string
	clock        bool // past the T of an ISO text: M is minutes
	last         int
	months, days int64
	nanos        int64
}

// unitNames are in the order in which units must be written.
var unitNames = [...]string{
	1: "years", "months", "weeks", "days", "hours", "minutes", "seconds", "milliseconds", "microseconds", "nanoseconds",
}

const (
	unitYears = 1 + iota
	unitMonths
	unitWeeks
	unitDays
	unitHours
	unitMinutes
	unitSeconds
	unitMillis
	unitMicros
	unitNanos
)

func (b *durationBuilder) bad() error {
	return marshalf("Unable to convert '%s' to a duration", b.source)
}

func (b *durationBuilder) add(unit int, digits string) error {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return b.bad()
	}
	if unit == b.last {
		return marshalf("Invalid duration. The %s are specified multiple times", unitNames[unit])
	}
	if unit < b.last {
		return marshalf("Invalid duration. The %s should be after %s", unitNames[b.last], unitNames[unit])
	}
	b.last = unit
	switch unit {
	case unitYears:
		return addUnits(&b.months, n, 12, math.MaxInt32, "months")
	case unitMonths:
		return addUnits(&b.months, n, 1, math.MaxInt32, "months")
	case unitWeeks:
		return addUnits(&b.days, n, 7, math.MaxInt32, "days")
	case unitDays:
		return addUnits(&b.days, n, 1, math.MaxInt32, "days")
	}
	sizes := [...]int64{nanosPerHour, nanosPerMinute, nanosPerSecond, 1e6, 1e3, 1}
	return addUnits(&b.nanos, n, sizes[unit-unitHours], math.MaxInt64, "nanoseconds")
}

func addUnits(total *int64, n, size, limit int64, name string) error {
	if n > (limit-*total)/size {
		// Cassandra names the 32-bit limit for nanoseconds too.
		return marshalf("Invalid duration. The total number of %s must be less or equal to %d", name, math.MaxInt32)
	}
	*total += n * size
	return nil
}

// standard reads digits and unit symbols, in any case of letters.
func (b *durationBuilder) standard() error {
	rest := b.source
	if rest == "" {
		return b.bad()
	}
	for rest != "" {
		digits := rest[:countDigits(rest)]
		rest = rest[len(digits):]
		unit, width := durationSymbol(rest)
		if digits == "" || width == 0 {
			return b.bad()
		}
		if err := b.add(unit, digits); err != nil {
			return err
		}
		rest = rest[width:]
	}
	return nil
}

func durationSymbol(s string) (unit, width int) {
	for _, u := range []struct {
		symbol string
		unit   int
	}{
		{"mo", unitMonths},
		{"ms", unitMillis},
		{"us", unitMicros},
		{"µs", unitMicros},
		{"ns", unitNanos},
		{"y", unitYears},
		{"w", unitWeeks},
		{"d", unitDays},
		{"h", unitHours},
		{"m", unitMinutes},
		{"s", unitSeconds},
	} {
		if len(s) >= len(u.symbol) && lowerASCII(s[:len(u.symbol)]) == u.symbol {
			return u.unit, len(u.symbol)
		}
	}
	return 0, 0
}

// lowerASCII lowers A-Z only, so that no other letter folds into a symbol.
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

func countDigits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// designators reads digits and designators of ISO 8601 out of allowed, in that order.
func (b *durationBuilder) designators(s, allowed string) error {
	if s == "" && allowed == "W" {
		return b.bad()
	}
	next := 0
	for s != "" {
		n := countDigits(s)
		if n == 0 || n == len(s) {
			return b.bad()
		}
		i := strings.IndexByte(allowed[next:], s[n])
		if i < 0 {
			return b.bad()
		}
		next += i + 1
		if err := b.add(b.designator(s[n]), s[:n]); err != nil {
			return err
		}
		s = s[n+1:]
	}
	return nil
}

func (b *durationBuilder) designator(c byte) int {
	switch c {
	case 'Y':
		return unitYears
	case 'W':
		return unitWeeks
	case 'D':
		return unitDays
	case 'H':
		return unitHours
	case 'S':
		return unitSeconds
	}
	if b.clock {
		return unitMinutes
	}
	return unitMonths
}

// alternative reads P[YYYY]-[MM]-[DD]T[hh]:[mm]:[ss].
func (b *durationBuilder) alternative() error {
	const shape = "P0000-00-00T00:00:00"
	s := b.source
	if len(s) != len(shape) {
		return b.bad()
	}
	for i := range len(shape) {
		if digit := s[i] >= '0' && s[i] <= '9'; shape[i] == '0' && !digit || shape[i] != '0' && s[i] != shape[i] {
			return b.bad()
		}
	}
	for _, f := range []struct{ unit, from, to int }{
		{unitYears, 1, 5},
		{unitMonths, 6, 8},
		{unitDays, 9, 11},
		{unitHours, 12, 14},
		{unitMinutes, 15, 17},
		{unitSeconds, 18, 20},
	} {
		if err := b.add(f.unit, s[f.from:f.to]); err != nil {
			return err
		}
	}
	return nil
}
