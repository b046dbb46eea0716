package lab

import (
	"context"
	"slices"
	"time"
)

// Quantiles of latencies.
type Quantiles struct {
	N                     int
	P50, P99, P999, Worst time.Duration
}

// QuantilesOf sorts the samples and reads the quantiles off.
func QuantilesOf(samples []time.Duration) Quantiles {
	if len(samples) == 0 {
		return Quantiles{}
	}
	slices.Sort(samples)
	at := func(p float64) time.Duration { return samples[min(int(p*float64(len(samples))), len(samples)-1)] }
	return Quantiles{N: len(samples), P50: at(.5), P99: at(.99), P999: at(.999), Worst: at(1)}
}

// Pair measures two operations in turn, so that whatever else the machine does
// meets both alike; which goes first changes each time.
func Pair(ctx context.Context, n int, a, b func(context.Context) error) (qa, qb Quantiles, err error) {
	times := [2][]time.Duration{make([]time.Duration, 0, n), make([]time.Duration, 0, n)}
	do := [2]func(context.Context) error{a, b}
	for i := range n {
		for j := range 2 {
			k := (i + j) % 2
			start := time.Now()
			if err := do[k](ctx); err != nil {
				return qa, qb, err
			}
			times[k] = append(times[k], time.Since(start))
		}
	}
	return QuantilesOf(times[0]), QuantilesOf(times[1]), nil
}

// Series measures one operation over consecutive intervals, to see whether it
// stays as it is.
type Series struct {
	Every     time.Duration
	Intervals []Quantiles

	from    time.Time
	samples []time.Duration
}

// Note adds a sample taken now.
func (s *Series) Note(d time.Duration) {
	now := time.Now()
	if s.from.IsZero() {
		s.from = now
	}
	if now.Sub(s.from) >= s.Every {
		s.End()
		s.from = now
	}
	s.samples = append(s.samples, d)
}

// End closes the interval that is open.
func (s *Series) End() {
	if len(s.samples) > 0 {
		s.Intervals = append(s.Intervals, QuantilesOf(s.samples))
	}
	s.samples = s.samples[:0]
}
