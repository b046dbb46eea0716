package cqltype

import (
	"math"
	"strconv"
	"strings"
)

const (
	millisPerDay  = 86_400_000
	dateEpochBias = 1 << 31 // the day that stands for 1970-01-01 in a date value
)

// DaysToDate returns a date value for a count of days since 1970-01-01.
func DaysToDate(days int64) []byte { return EncodeInt(int32(uint32(days + dateEpochBias))) }

// DateToDays returns a date value's days since 1970-01-01; malformed values read as the first day.
func DateToDays(b []byte) int64 { return int64(uint32(DecodeInt(b))) - dateEpochBias }

// floorDiv divides rounding down, for b > 0.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// civil is a day of the proleptic Gregorian calendar; year 0 is 1 BC.
type civil struct {
	year       int64
	month, day int
}

// civilOf converts days since 1970-01-01. It counts in eras of 400 years from
// a March 1st, so that the leap day ends a year.
func civilOf(days int64) civil {
	days += 719468
	era := floorDiv(days, 146097)
	dayOfEra := days - era*146097
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36524 - dayOfEra/146096) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	m := (5*dayOfYear + 2) / 153
	c := civil{year: yearOfEra + era*400, month: int(m) + 3, day: int(dayOfYear-(153*m+2)/5) + 1}
	if c.month > 12 {
		c.month -= 12
		c.year++
	}
	return c
}

// days reverses civilOf.
func (c civil) days() int64 {
	year, month := c.year, int64(c.month)-3
	if month < 0 {
		month += 12
		year--
	}
	era := floorDiv(year, 400)
	yearOfEra := year - era*400
	dayOfYear := (153*month+2)/5 + int64(c.day) - 1
	return era*146097 + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear - 719468
}

func (c civil) daysInMonth() int {
	switch c.month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if c.year%4 == 0 && (c.year%100 != 0 || c.year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// appendYear writes at least four digits, with a sign where more are needed
// or the year is before 0, as ISO 8601 and Java do.
func appendYear(dst []byte, year int64) []byte {
	switch {
	case year < 0:
		dst = append(dst, '-')
		year = -year
	case year > 9999:
		dst = append(dst, '+')
	}
	return padded(dst, year, 4)
}

// padded writes v with zeros in front up to width.
func padded(dst []byte, v int64, width int) []byte {
	start := len(dst)
	dst = strconv.AppendInt(dst, v, 10)
	for missing := width - (len(dst) - start); missing > 0; missing-- {
		dst = append(dst, 0)
		copy(dst[start+1:], dst[start:])
		dst[start] = '0'
	}
	return dst
}

// appendDate writes days since 1970-01-01 as yyyy-mm-dd.
func appendDate(dst []byte, days int64) []byte {
	c := civilOf(days)
	dst = append(appendYear(dst, c.year), '-')
	dst = append(padded(dst, int64(c.month), 2), '-')
	return padded(dst, int64(c.day), 2)
}

// appendTime writes nanoseconds since midnight as hh:mm:ss.nnnnnnnnn. Values
// beyond a day, which binary input may hold, wrap.
func appendTime(dst []byte, nanos int64) []byte {
	nanos -= floorDiv(nanos, nanosPerDay) * nanosPerDay
	dst = append(padded(dst, nanos/nanosPerHour, 2), ':')
	dst = append(padded(dst, nanos/nanosPerMinute%60, 2), ':')
	dst = append(padded(dst, nanos/nanosPerSecond%60, 2), '.')
	return padded(dst, nanos%nanosPerSecond, 9)
}

// appendTimestamp writes Unix milliseconds as yyyy-MM-dd, sep, HH:mm:ss.SSSZ
// in UTC. The year is one of its era, so that 2 BC is written 0002, as Java's
// pattern letter y does.
func appendTimestamp(dst []byte, millis int64, sep byte) []byte {
	days := floorDiv(millis, millisPerDay)
	ofDay := millis - days*millisPerDay
	c := civilOf(days)
	if c.year < 1 {
		c.year = 1 - c.year
	}
	dst = append(appendYear(dst, c.year), '-')
	dst = append(padded(dst, int64(c.month), 2), '-')
	dst = append(padded(dst, int64(c.day), 2), sep)
	dst = append(padded(dst, ofDay/3_600_000, 2), ':')
	dst = append(padded(dst, ofDay/60_000%60, 2), ':')
	dst = append(padded(dst, ofDay/1000%60, 2), '.')
	return append(padded(dst, ofDay%1000, 3), 'Z')
}

// parseDate reads a date: days as an unsigned number with 1970-01-01 at 2^31,
// or yyyy-mm-dd with a strict calendar.
func parseDate(s string) ([]byte, error) {
	if rawNumber(s) {
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil || v < 0 || v > math.MaxUint32 {
			return nil, marshalf("Unable to make unsigned int (for date) from: '%s'", s)
		}
		return EncodeInt(int32(uint32(v))), nil
	}
	c, rest, ok := cutISODate(s)
	if !ok || rest != "" || c.day > c.daysInMonth() {
		return nil, marshalf("Unable to coerce '%s' to a formatted date (long)", s)
	}
	days := c.days()
	switch {
	case days < math.MinInt64/millisPerDay || days > math.MaxInt64/millisPerDay:
		return nil, marshalf("Unable to coerce '%s' to a formatted date (long)", s)
	case days < math.MinInt32:
		return nil, marshalf("Input date %s is less than min supported date -5877641-06-23T00:00Z", s)
	case days > math.MaxInt32:
		return nil, marshalf("Input date %s is greater than max supported date +5881580-07-11T00:00Z", s)
	}
	return DaysToDate(days), nil
}

// rawNumber reports digits with an optional minus sign.
func rawNumber(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	return digits != "" && allDigits(digits)
}

// cutISODate reads a year of four to ten digits (with a plus sign where more
// than four, or a minus sign), -MM and -dd off the front of s. The day is
// checked against 31 only.
func cutISODate(s string) (c civil, rest string, ok bool) {
	return cutDate(s, 10, true)
}

func cutDate(s string, maxDigits int, negative bool) (c civil, rest string, ok bool) {
	sign := byte(0)
	if s != "" && (s[0] == '+' || s[0] == '-' && negative) {
		sign, s = s[0], s[1:]
	}
	n := countDigits(s)
	if n < 4 || n > maxDigits || n == 4 && sign == '+' || n > 4 && sign == 0 || len(s) < n+6 {
		return c, s, false
	}
	year, err := strconv.ParseInt(s[:n], 10, 64)
	month, okMonth := twoDigits(s[n+1:])
	day, okDay := twoDigits(s[n+4:])
	if err != nil || year > 999_999_999 || s[n] != '-' || s[n+3] != '-' || !okMonth || !okDay ||
		month < 1 || month > 12 || day < 1 || day > 31 || sign == '-' && year == 0 {
		return c, s, false
	}
	if sign == '-' {
		year = -year
	}
	return civil{year: year, month: month, day: day}, s[n+6:], true
}

func twoDigits(s string) (int, bool) {
	if len(s) < 2 || !allDigits(s[:2]) {
		return 0, false
	}
	return int(s[0]-'0')*10 + int(s[1]-'0'), true
}

// parseTime reads nanoseconds since midnight, or hh:mm:ss with up to nine
// digits of fraction.
func parseTime(s string) ([]byte, error) {
	if rawNumber(s) {
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil || v < 0 || v >= nanosPerDay {
			return nil, marshalf("Unable to make long (for time) from: '%s'", s)
		}
		return EncodeBigint(v), nil
	}
	v, ok := clockNanos(trimJava(s))
	if !ok {
		return nil, marshalf("(TimeType) Unable to coerce '%s' to a formatted time (long)", s)
	}
	return EncodeBigint(v), nil
}

func clockNanos(s string) (int64, bool) {
	hour, rest, ok := strings.Cut(s, ":")
	if !ok || hour == "" {
		return 0, false
	}
	minute, second, ok := strings.Cut(rest, ":")
	if !ok {
		return 0, false
	}
	second, fraction, hasFraction := strings.Cut(second, ".")
	if hasFraction && (fraction == "" || len(fraction) > 9 || !allDigits(fraction)) {
		return 0, false
	}
	var total int64
	for _, f := range []struct {
		text  string
		limit int64
		size  int64
	}{{hour, 24, nanosPerHour}, {minute, 60, nanosPerMinute}, {second, 60, nanosPerSecond}} {
		v, err := strconv.ParseInt(f.text, 10, 32)
		if err != nil || v < 0 || v >= f.limit {
			return 0, false
		}
		total += v * f.size
	}
	if hasFraction {
		v, _ := strconv.ParseInt(fraction+"000000000"[len(fraction):], 10, 64)
		total += v
	}
	return total, true
}

// trimJava is java.lang.String.trim: it cuts everything up to the space character.
func trimJava(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
}
