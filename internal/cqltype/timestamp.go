package cqltype

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// parseTimestamp reads a timestamp's text: now, Unix milliseconds, a date, or
// a date and time, with or without a time zone; without one it is UTC.
//
// The grammar is Cassandra's (TimestampSerializer), whose patterns Java reads
// leniently: parts of a date with a time may have any number of digits, a day
// beyond its month's end is the month's last, and 24:00 is the next midnight.
func parseTimestamp(s string) ([]byte, error) {
	if strings.EqualFold(s, "now") {
		return EncodeBigint(time.Now().UnixMilli()), nil
	}
	if rawNumber(s) {
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return nil, marshalf("Unable to make long (for date) from: '%s'", s)
		}
		return EncodeBigint(v), nil
	}
	for _, parse := range []func(string) (int64, bool){parseDateTime, parseDateZone, parseISODateZone} {
		if millis, ok := parse(s); ok {
			return EncodeBigint(millis), nil
		}
	}
	return nil, marshalf("Unable to parse a date/time from '%s'", s)
}

// parseDateTime reads y-M-d, T or space, H:m[:s], a fraction, and a zone.
func parseDateTime(s string) (int64, bool) {
	c, rest, ok := cutLooseDate(s)
	if !ok || rest == "" || rest[0] != 'T' && rest[0] != ' ' {
		return 0, false
	}
	ofDay, rest, ok := cutClock(rest[1:])
	if !ok {
		return 0, false
	}
	return zonedMillis(c, ofDay, rest, dateTimeZones)
}

// parseDateZone reads yyyy-MM-dd and a zone that must be there.
func parseDateZone(s string) (int64, bool) {
	c, rest, ok := cutDate(s, 19, false)
	if !ok || c.year < 1 || rest == "" {
		return 0, false
	}
	return zonedMillis(c, 0, rest, dateTimeZones)
}

// parseISODateZone reads a date of any sign and an offset with colons, or none.
func parseISODateZone(s string) (int64, bool) {
	c, rest, ok := cutISODate(s)
	if !ok {
		return 0, false
	}
	return zonedMillis(c, 0, rest, offsetID)
}

// cutLooseDate reads y-M-d, each of one to 19 digits, the year from 1 on.
func cutLooseDate(s string) (c civil, rest string, ok bool) {
	var parts [3]int64
	limits := [3]int64{999_999_999, 12, 31}
	for i := range parts {
		if i > 0 {
			if s == "" || s[0] != '-' {
				return c, s, false
			}
			s = s[1:]
		}
		parts[i], s, ok = cutNumber(s)
		if !ok || parts[i] < 1 || parts[i] > limits[i] {
			return c, s, false
		}
	}
	return civil{year: parts[0], month: int(parts[1]), day: int(parts[2])}, s, true
}

func cutNumber(s string) (v int64, rest string, ok bool) {
	n := countDigits(s)
	if n == 0 || n > 19 {
		return 0, s, false
	}
	v, err := strconv.ParseInt(s[:n], 10, 64)
	return v, s[n:], err == nil
}

// cutClock reads H:m[:s][.fraction] as milliseconds of a day. A fraction needs
// seconds before it; digits beyond milliseconds are cut off.
func cutClock(s string) (millis int64, rest string, ok bool) {
	var parts [3]int64
	n := 0
	for ; n < 3; n++ {
		if n > 0 {
			if s == "" || s[0] != ':' {
				break
			}
			s = s[1:]
		}
		parts[n], s, ok = cutNumber(s)
		if !ok {
			return 0, s, false
		}
	}
	if n < 2 || parts[0] > 24 || parts[1] > 59 || parts[2] > 59 {
		return 0, s, false
	}
	millis = parts[0]*3_600_000 + parts[1]*60_000 + parts[2]*1000
	if s != "" && s[0] == '.' {
		digits := s[1 : 1+countDigits(s[1:])]
		if n < 3 || len(digits) > 9 {
			return 0, s, false
		}
		s = s[1+len(digits):]
		fraction, _ := strconv.ParseInt((digits + "000")[:3], 10, 64)
		millis += fraction
	}
	return millis, s, millis <= millisPerDay
}

// zonedMillis turns a local date and time into Unix milliseconds.
func zonedMillis(c civil, ofDay int64, zone string, parse func(string) (*time.Location, bool)) (int64, bool) {
	c.day = min(c.day, c.daysInMonth())
	loc := time.UTC
	if zone != "" {
		var ok bool
		if loc, ok = parse(zone); !ok {
			return 0, false
		}
	}
	local := c.days()*86400 + ofDay/1000
	seconds, millis := local-localOffset(loc, local), ofDay%1000
	if seconds < math.MinInt64/1000 || seconds > (math.MaxInt64-millis)/1000 {
		return 0, false
	}
	return seconds*1000 + millis, true
}

// localOffset returns the seconds east of UTC at a local time given as if it
// were UTC. Of two possible instants it takes the earlier; a time that a
// change of offset skips takes the offset before the change.
func localOffset(loc *time.Location, local int64) int64 {
	_, before := time.Unix(local-86400, 0).In(loc).Zone()
	_, at := time.Unix(local-int64(before), 0).In(loc).Zone()
	if at == before {
		return int64(before)
	}
	_, again := time.Unix(local-int64(at), 0).In(loc).Zone()
	if again == at {
		return int64(at)
	}
	return int64(before)
}

// dateTimeZones reads a zone after a time: +hh, +hhmm or +hh:mm, each with a
// space in front or not, Z, or after a space a zone's name.
func dateTimeZones(s string) (*time.Location, bool) {
	if s[0] != ' ' {
		if loc, ok := offsetBasic(s); ok {
			return loc, true
		}
		if len(s) == 6 {
			return offsetID(s)
		}
		return nil, false
	}
	s = s[1:]
	if loc, ok := offsetBasic(s); ok {
		return loc, true
	}
	if loc, ok := offsetID(s); ok {
		return loc, true
	}
	return namedZone(s)
}

// offsetBasic reads Z, +hh or +hhmm.
func offsetBasic(s string) (*time.Location, bool) {
	if s == "Z" {
		return time.UTC, true
	}
	if len(s) != 3 && len(s) != 5 {
		return nil, false
	}
	return fixedOffset(s[:1], s[1:3], s[3:], "")
}

// offsetID reads Z, +hh:mm or +hh:mm:ss.
func offsetID(s string) (*time.Location, bool) {
	switch {
	case s == "Z":
		return time.UTC, true
	case len(s) == 6 && s[3] == ':':
		return fixedOffset(s[:1], s[1:3], s[4:6], "")
	case len(s) == 9 && s[3] == ':' && s[6] == ':':
		return fixedOffset(s[:1], s[1:3], s[4:6], s[7:9])
	}
	return nil, false
}

func fixedOffset(sign, hours, minutes, seconds string) (*time.Location, bool) {
	if sign != "+" && sign != "-" {
		return nil, false
	}
	total := 0
	for i, part := range []string{hours, minutes, seconds} {
		if part == "" {
			continue
		}
		v, ok := twoDigits(part)
		if !ok || v > 59 {
			return nil, false
		}
		total += v * []int{3600, 60, 1}[i]
	}
	if total > 18*3600 {
		return nil, false
	}
	if sign == "-" {
		total = -total
	}
	return time.FixedZone("", total), true
}

// zoneRegions are the zone texts of Java's English locale that are no names
// in the time zone database, by the region Java takes for them.
var zoneRegions = map[string]string{
	"PST": "America/Los_Angeles", "PDT": "America/Los_Angeles", "PT": "America/Los_Angeles",
	"Pacific Standard Time": "America/Los_Angeles", "Pacific Daylight Time": "America/Los_Angeles",
	"MDT": "America/Denver", "MT": "America/Denver", "MST": "America/Denver",
	"Mountain Standard Time": "America/Denver", "Mountain Daylight Time": "America/Denver",
	"CST": "America/Chicago", "CDT": "America/Chicago", "CT": "America/Chicago",
	"Central Standard Time": "America/Chicago", "Central Daylight Time": "America/Chicago",
	"EST": "America/New_York", "EDT": "America/New_York", "ET": "America/New_York",
	"Eastern Standard Time": "America/New_York", "Eastern Daylight Time": "America/New_York",
	"British Summer Time": "Europe/London", "Greenwich Mean Time": "GMT",
	"CET": "Europe/Paris", "CEST": "Europe/Paris",
	"Central European Time": "Europe/Paris", "Central European Summer Time": "Europe/Paris",
	"EET": "Europe/Athens", "EEST": "Europe/Athens", "WET": "Europe/Lisbon", "WEST": "Europe/Lisbon",
	"MSK": "Europe/Moscow", "JST": "Asia/Tokyo", "IST": "Europe/Dublin", "HKT": "Asia/Hong_Kong",
	"AEST": "Australia/Sydney", "AEDT": "Australia/Sydney", "NZST": "Pacific/Auckland", "NZDT": "Pacific/Auckland",
	"Coordinated Universal Time": "UTC", "UT": "UTC", "Japan Standard Time": "Asia/Tokyo", "BST": "Pacific/Bougainville",
}

// namedZone reads UTC, GMT or UT with an offset or without, or a zone's name.
func namedZone(s string) (*time.Location, bool) {
	for _, prefix := range []string{"UTC", "GMT", "UT"} {
		if rest, ok := strings.CutPrefix(s, prefix); ok {
			if rest == "" {
				return time.UTC, true
			}
			if loc, ok := offsetID(rest); ok && rest != "Z" {
				return loc, true
			}
		}
	}
	if region, ok := zoneRegions[s]; ok {
		s = region
	}
	if s == "" || s == "Local" || strings.Contains(s, ".") || len(s) > 64 {
		return nil, false
	}
	loc, err := time.LoadLocation(s)
	return loc, err == nil
}
