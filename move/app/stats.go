package app

import (
	"slices"
	"sync"
	"time"

	"varve/internal/move"
)

// window holds the last latencies of one kind.
type window struct {
	at [windowLength]time.Time
	ms [windowLength]float64
	n  int
}

const (
	windowLength = 2048
	// windowAge bounds what counts for a report.
	windowAge = 10 * time.Second
)

func (w *window) add(d time.Duration) {
	i := w.n % windowLength
	w.at[i], w.ms[i] = time.Now(), d.Seconds()*1000
	w.n++
}

// p95 is 0 when there was no traffic.
func (w *window) p95() float64 {
	var v []float64
	since := time.Now().Add(-windowAge)
	for i := range min(w.n, windowLength) {
		if w.at[i].After(since) {
			v = append(v, w.ms[i])
		}
	}
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[min(len(v)*95/100, len(v)-1)]
}

// stats are what a node reports.
type stats struct {
	mu     sync.Mutex
	writes window
	reads  [2]window
	last   move.Position
	counts move.Node
}

// changed starts the counts anew where shadow reads begin.
func (s *stats) changed(r *route) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.since != s.counts.Epoch {
		s.counts.Epoch = r.since
		s.counts.Compared, s.counts.Different, s.counts.Drop, s.counts.Error, s.counts.OriginReads = 0, 0, 0, 0, 0
	}
}

func (s *stats) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *stats) wrote(d time.Duration) {
	s.locked(func() { s.writes.add(d); s.counts.Writes++ })
}

func (s *stats) read(side Side, d time.Duration) {
	s.locked(func() {
		s.reads[side].add(d)
		s.counts.Reads++
		if side == Origin {
			s.counts.OriginReads++
		}
	})
}

func (s *stats) position(p move.Position) { s.locked(func() { s.last = p }) }
func (s *stats) dropped()                 { s.locked(func() { s.counts.Drop++ }) }
func (s *stats) failed()                  { s.locked(func() { s.counts.Error++ }) }
func (s *stats) compared()                { s.locked(func() { s.counts.Compared++ }) }

func (s *stats) different() {
	s.locked(func() { s.counts.Compared++; s.counts.Different++ })
}

func (s *stats) node(name string, generation int64) move.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.counts
	n.Name, n.Generation, n.WritePosition = name, generation, s.last.String()
	n.WriteP95, n.OriginReadP95, n.TargetReadP95 = s.writes.p95(), s.reads[Origin].p95(), s.reads[Target].p95()
	return n
}
