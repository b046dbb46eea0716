package cqlfunc

import (
	"time"

	"varve/internal/cqltype"
)

const (
	secondsPerDay = 24 * 3600
	millisPerDay  = secondsPerDay * 1000
	nanosPerMilli = 1_000_000
	nanosPerDay   = millisPerDay * nanosPerMilli
)

// timeuuids makes the values of now(), which must be unique in the process.
var timeuuids = cqltype.NewTimeuuidGenerator(time.Now)

func (r *registry) addTime() {
	now := func(name, legacy string, t *cqltype.Type, e eval) {
		r.add(name, t, e).Pure = false
		if legacy != "" {
			r.add(legacy, t, e).Pure = false
		}
	}
	now("now", "", cqltype.Timeuuid, nowTimeuuid)
	now("current_timeuuid", "currenttimeuuid", cqltype.Timeuuid, nowTimeuuid)
	now("current_timestamp", "currenttimestamp", cqltype.Timestamp, func(ctx *Context, _ [][]byte) ([]byte, error) {
		return cqltype.EncodeBigint(ctx.NowMicros / 1000), nil
	})
	now("current_date", "currentdate", cqltype.Date, func(ctx *Context, _ [][]byte) ([]byte, error) {
		return dateOf(ctx.NowMicros / 1000), nil
	})
	now("current_time", "currenttime", cqltype.Time, func(ctx *Context, _ [][]byte) ([]byte, error) {
		return cqltype.EncodeBigint(ctx.NowMicros * 1000 % nanosPerDay), nil
	})

	r.addBoth("min_timeuuid", "mintimeuuid", cqltype.Timeuuid, timeBound(cqltype.MinTimeuuid), cqltype.Timestamp)
	r.addBoth("max_timeuuid", "maxtimeuuid", cqltype.Timeuuid, timeBound(cqltype.MaxTimeuuid), cqltype.Timestamp)
	for _, t := range []*cqltype.Type{cqltype.Timeuuid, cqltype.Timestamp} {
		r.addBoth("to_date", "todate", cqltype.Date, convertTime(t, dateOf), t)
	}
	for _, t := range []*cqltype.Type{cqltype.Timeuuid, cqltype.Date} {
		r.addBoth("to_timestamp", "totimestamp", cqltype.Timestamp, convertTime(t, cqltype.EncodeBigint), t)
	}
	for _, t := range []*cqltype.Type{cqltype.Timeuuid, cqltype.Timestamp, cqltype.Date} {
		r.addBoth("to_unix_timestamp", "tounixtimestamp", cqltype.Bigint, convertTime(t, cqltype.EncodeBigint), t)
	}

	for _, f := range []struct{ arg, result *cqltype.Type }{
		{cqltype.Timestamp, cqltype.Timestamp}, {cqltype.Timeuuid, cqltype.Timestamp}, {cqltype.Date, cqltype.Date},
	} {
		r.add("floor", f.result, floorTemporal(f.arg, f.result), f.arg, cqltype.Duration)
		r.add("floor", f.result, floorTemporal(f.arg, f.result), f.arg, cqltype.Duration, f.result)
	}
	r.add("floor", cqltype.Time, floorTime, cqltype.Time, cqltype.Duration)
}

func nowTimeuuid(*Context, [][]byte) ([]byte, error) {
	u := timeuuids.Next()
	return u[:], nil
}

// timeBound makes the functions of bounds. As in Cassandra, times that
// timeuuids do not reach have UUIDs of some other version, which a SELECT shows
// and everything else refuses; where the version is right by chance, so that
// the time would be a wrong one, the function fails.
func timeBound(bound func(int64) [16]byte) eval {
	return func(_ *Context, args [][]byte) ([]byte, error) {
		if anyNull(args) {
			return nil, nil
		}
		ms := cqltype.DecodeBigint(args[0])
		u := bound(ms)
		if back, ok := cqltype.TimeuuidUnixMillis(u[:]); ok && back != ms {
			return nil, invalidf("The timestamp %d is out of the range of timeuuids", ms)
		}
		return u[:], nil
	}
}

// dateOf returns the day of a Unix millisecond. As in Cassandra, whole seconds
// before 1970 are cut towards it: half a day before counts as 1970-01-01.
func dateOf(millis int64) []byte { return cqltype.DaysToDate(floorDiv(millis, 1000) / secondsPerDay) }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// errNotTimeuuid is a timeuuid of another version, which the type refuses.
var errNotTimeuuid = invalidf("Invalid version for TimeUUID type.")

// millisOf returns the Unix milliseconds of a timestamp, date or timeuuid.
func millisOf(t *cqltype.Type, b []byte) (int64, error) {
	switch t.Kind {
	case cqltype.KindDate:
		return cqltype.DateToDays(b) * millisPerDay, nil
	case cqltype.KindTimeuuid:
		ms, ok := cqltype.TimeuuidUnixMillis(b)
		if !ok {
			return 0, errNotTimeuuid
		}
		return ms, nil
	}
	return cqltype.DecodeBigint(b), nil
}

// fromMillis is the reverse of millisOf for timestamps and dates.
func fromMillis(t *cqltype.Type, ms int64) []byte {
	if t.Kind == cqltype.KindDate {
		return dateOf(ms)
	}
	return cqltype.EncodeBigint(ms)
}

func convertTime(from *cqltype.Type, encode func(int64) []byte) eval {
	return func(_ *Context, args [][]byte) ([]byte, error) {
		if anyNull(args) {
			return nil, nil
		}
		ms, err := millisOf(from, args[0])
		if err != nil {
			return nil, err
		}
		return encode(ms), nil
	}
}

var (
	errFloorStart    = invalidf("The floor function starting time is greater than the provided time")
	errFloorNegative = invalidf("Negative durations are not supported by the floor function")
	errFloorTime     = invalidf("For time values, the floor can only be computed for durations smaller that a day")
)

// floorTemporal rounds a time down to start + n durations.
func floorTemporal(arg, result *cqltype.Type) eval {
	return func(_ *Context, args [][]byte) ([]byte, error) {
		if anyNull(args) {
			return nil, nil
		}
		ms, err := millisOf(arg, args[0])
		if err != nil {
			return nil, err
		}
		d, err := cqltype.DecodeDuration(args[1])
		if err != nil {
			return nil, err
		}
		start := int64(0)
		if len(args) == 3 {
			if start, err = millisOf(result, args[2]); err != nil {
				return nil, err
			}
		}
		switch {
		case result.Kind == cqltype.KindDate && d.Nanos != 0:
			return nil, invalidf("The floor on date values cannot be computed for the %s duration as precision is below 1 day", d)
		case d.Nanos%nanosPerMilli != 0:
			return nil, invalidf("The floor cannot be computed for the %s duration as precision is below 1 millisecond", d)
		case start > ms:
			return nil, errFloorStart
		case d.IsNegative():
			return nil, errFloorNegative
		}
		return fromMillis(result, floorMillis(ms, start, d)), nil
	}
}

// floorMillis returns the largest start + n·d that is at most ms.
func floorMillis(ms, start int64, d cqltype.DurationValue) int64 {
	step := int64(d.Days)*millisPerDay + d.Nanos/nanosPerMilli
	if d.Months == 0 {
		if step == 0 {
			return ms
		}
		return ms - (ms-start)%step
	}
	// Months differ in length: guess n by months alone, then come back month by
	// month. That moves the day forward in short months for good, and without
	// days or time in d the guess stands even where it is past ms; both are
	// Cassandra's results.
	at, from := time.UnixMilli(ms).UTC(), time.UnixMilli(start).UTC()
	months := int64(at.Year()-from.Year())*12 + int64(at.Month()) - int64(from.Month())
	n := months / int64(d.Months)
	if step > 0 {
		// Every step is longer than 28 days a month: more of them cannot fit.
		n = min(n, (ms-start)/(step+int64(d.Months)*28*millisPerDay)+maxFloorSteps)
	}
	cur := addMonths(start, n*int64(d.Months))
	if step == 0 {
		return cur
	}
	for n > 0 && cur+n*step > ms {
		n--
		cur = addMonths(cur, -int64(d.Months))
	}
	return max(start, cur+n*step)
}

// maxFloorSteps bounds the way back in floorMillis where d has far more days than months.
const maxFloorSteps = 1000

// addMonths moves a Unix millisecond by calendar months in UTC; where the
// month is too short for the day it is the month's last.
func addMonths(ms, months int64) int64 {
	t := time.UnixMilli(ms).UTC()
	y, m, day := t.Date()
	total := int64(y)*12 + int64(m) - 1 + months
	year, month := floorDiv(total, 12), total-floorDiv(total, 12)*12
	last := time.Date(int(year), time.Month(month+2), 0, 0, 0, 0, 0, time.UTC).Day()
	inDay := ms - floorDiv(ms, millisPerDay)*millisPerDay
	return time.Date(int(year), time.Month(month+1), min(day, last), 0, 0, 0, 0, time.UTC).UnixMilli() + inDay
}

func floorTime(_ *Context, args [][]byte) ([]byte, error) {
	if anyNull(args) {
		return nil, nil
	}
	d, err := cqltype.DecodeDuration(args[1])
	switch {
	case err != nil:
		return nil, err
	case d.IsNegative():
		return nil, errFloorNegative
	case d.Months != 0 || d.Days != 0 || d.Nanos > nanosPerDay:
		return nil, errFloorTime
	case d.Nanos == 0:
		return args[0], nil
	}
	t := cqltype.DecodeBigint(args[0])
	return cqltype.EncodeBigint(t - t%d.Nanos), nil
}

// addDuration adds a duration, or subtracts it with sign -1.
func addDuration(t *cqltype.Type, value []byte, d cqltype.DurationValue, sign int64) ([]byte, error) {
	if t.Kind == cqltype.KindDate && d.Nanos != 0 {
		return nil, invalidf("The duration must have a day precision. Was: %s", d)
	}
	if d.Nanos%nanosPerMilli != 0 {
		return nil, invalidf("The duration must have a millisecond precision. Was: %s", d)
	}
	ms, err := millisOf(t, value)
	if err != nil {
		return nil, err
	}
	if d.Months != 0 {
		ms = addMonths(ms, sign*int64(d.Months))
	}
	return fromMillis(t, ms+sign*(int64(d.Days)*millisPerDay+d.Nanos/nanosPerMilli)), nil
}
