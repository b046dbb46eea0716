package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"varve/internal/bench/lab"
)

// tables of the row workers: one whose deletions are purged within the soak, one whose are not.
var tables = []string{"grace", "keep"}

const (
	sharedPartitions = 3
	graceSeconds     = 120
)

type soak struct {
	o       options
	srv     *lab.Varve
	workers []*worker

	// gate is held shared by each operation of a worker; whoever holds it alone sees the store at rest.
	gate sync.RWMutex

	mu      sync.Mutex
	gen     int           // counts starts
	up      chan struct{} // closed while the server runs; replaced when it is ended
	bad     []string
	fatal   context.CancelFunc
	old     string // copy of the data to put back, for sabotage
	slowest time.Duration

	acked, checked, kills, stops, scans atomic.Int64
	reads, writes                       latencies
	peak                                atomic.Int64
	disk                                []int64
}

// latencies is a lab.Series that many note to.
type latencies struct {
	mu sync.Mutex
	s  lab.Series
}

func (l *latencies) note(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.s.Note(d)
}

func (l *latencies) last() lab.Quantiles {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.s.Intervals); n > 0 {
		return l.s.Intervals[n-1]
	}
	return lab.Quantiles{}
}

// violation notes what must not happen. The soak ends soon after the first.
func (s *soak) violation(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bad = append(s.bad, text)
	if len(s.bad) <= 20 {
		fmt.Printf("%s VIOLATION: %s\n", time.Now().Format("15:04:05"), text)
	}
	s.fatal()
}

// connect dials the server that runs, or the next one.
func (s *soak) connect(ctx context.Context) (*lab.Client, int, error) {
	deadline := time.Now().Add(5 * time.Minute)
	for {
		s.mu.Lock()
		up, gen := s.up, s.gen
		s.mu.Unlock()
		select {
		case <-up:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
		try, cancel := context.WithTimeout(ctx, 10*time.Second)
		c, err := lab.Dial(try, s.srv.Address)
		cancel()
		if err == nil {
			return c, gen, nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return nil, 0, fmt.Errorf("connect: %w", err)
		}
	}
}

// ended reports whether the server that a connection was made to was ended by
// the soak. A connection's end may be noticed before the soak has come to say so.
func (s *soak) ended(gen int) bool {
	for range 500 {
		s.mu.Lock()
		over := s.gen != gen
		select {
		case <-s.up:
		default:
			over = true
		}
		s.mu.Unlock()
		if over {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

func (s *soak) started() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gen++
	close(s.up)
}

func (s *soak) ending() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up = make(chan struct{})
}

func isNetError(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) || errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNREFUSED)
}

func (s *soak) schema(ctx context.Context) error {
	c, err := lab.Dial(ctx, s.srv.Address)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	texts := []string{"CREATE KEYSPACE soak WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"}
	for _, t := range tables {
		text := "CREATE TABLE soak." + t + " (p int, c int, v text, n int, s set<int>, state text, st text static, PRIMARY KEY (p, c))"
		if t == "grace" {
			text += fmt.Sprintf(" WITH gc_grace_seconds = %d", graceSeconds)
		}
		texts = append(texts, text, "CREATE INDEX ON soak."+t+" (state)")
	}
	texts = append(texts,
		"CREATE TABLE soak.queue (q int, id bigint, body text, PRIMARY KEY (q, id)) WITH gc_grace_seconds = 60",
		"CREATE TABLE soak.ttlqueue (q int, id bigint, body text, PRIMARY KEY (q, id)) WITH gc_grace_seconds = 60",
		"CREATE TABLE soak.counts (k int PRIMARY KEY, n counter)",
		"CREATE TABLE soak.cas (k int PRIMARY KEY, n int)",
		"CREATE TABLE soak.cut (k int PRIMARY KEY, n int)")
	for _, t := range texts {
		if err := c.Do(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// play runs the whole soak and prints its closing line.
func (s *soak) play(outer context.Context) (bool, error) {
	ctx, fatal := context.WithCancel(outer)
	defer fatal()
	s.fatal, s.up = fatal, make(chan struct{})
	begin := time.Now()
	if err := s.srv.Start(ctx); err != nil {
		return false, err
	}
	defer func() { _ = s.srv.Kill() }()
	if err := s.schema(ctx); err != nil {
		return false, err
	}
	s.started()
	// The workers' own context ends with the time, each after the operation it is at.
	work, stop := context.WithTimeout(ctx, time.Duration(s.o.Seconds)*time.Second)
	defer stop()
	var wg sync.WaitGroup
	for _, w := range s.workers {
		wg.Go(func() { w.run(ctx, work) })
	}
	s.extras(work, &wg)
	wg.Go(func() { s.killer(work) })
	wg.Go(func() { s.watch(work) })
	wg.Go(func() { s.scanner(work) })
	wg.Wait()
	if ctx.Err() == nil {
		s.lastLook(ctx)
	}
	s.verdicts()
	return s.close(begin, outer.Err() != nil)
}

// lastLook checks everything once more, before and after a last kill.
func (s *soak) lastLook(ctx context.Context) {
	for _, name := range []string{"at the end", "after the last kill"} {
		if err := s.scanAll(ctx); err != nil {
			s.violation("%s: %v", name, err)
			return
		}
		if name == "at the end" {
			if err := s.endAndStart(ctx, rand.New(rand.NewPCG(s.o.Seed, 99)), true); err != nil {
				s.violation("last kill: %v", err)
				return
			}
		}
	}
}

func (s *soak) close(begin time.Time, stopped bool) (bool, error) {
	if err := s.srv.Stop(); err != nil {
		s.violation("stop: %v", err)
	}
	s.complaints()
	s.mu.Lock()
	defer s.mu.Unlock()
	verdict := "nothing lost, nothing risen, memory and disk within bounds"
	if len(s.bad) > 0 {
		verdict = fmt.Sprintf("FAILED with %d violations", len(s.bad))
	} else if stopped {
		verdict = "stopped early; nothing wrong so far"
	}
	var disk int64
	if len(s.disk) > 0 {
		disk = s.disk[len(s.disk)-1]
	}
	fmt.Printf("soak: %s: %.0f s, %d acknowledged, %d rows checked, %d kills, %d stops, %d whole scans, "+
		"peak memory %s of %s, disk %s, slowest start %.1f s, seed %d\n",
		verdict, time.Since(begin).Seconds(), s.acked.Load(), s.checked.Load(), s.kills.Load(), s.stops.Load(), s.scans.Load(),
		lab.MB(s.peak.Load()), lab.MB(s.o.BudgetMiB<<20), lab.MB(disk), s.slowest.Seconds(), s.o.Seed)
	if stopped && len(s.bad) == 0 {
		return false, errStopped
	}
	return len(s.bad) == 0, nil
}

func (s *soak) complaints() {
	for _, line := range s.srv.Complaints() {
		s.violation("the server's log: %s", line)
	}
}

// killer ends the server at random moments and starts it again.
func (s *soak) killer(ctx context.Context) {
	rng := rand.New(rand.NewPCG(s.o.Seed, 1<<32))
	for {
		wait := time.Duration((0.2 + 1.6*rng.Float64()) * float64(s.o.KillEvery))
		for end := time.Now().Add(wait); time.Now().Before(end); {
			// Between kills it flushes and compacts, so that kills meet those too.
			if rng.IntN(6) == 0 {
				s.maintain(ctx, rng)
			}
			pause(ctx, time.Until(end)/4+time.Millisecond)
			if ctx.Err() != nil {
				return
			}
			select {
			case <-s.srv.Done():
				s.violation("the server ended on its own")
				return
			default:
			}
		}
		if err := s.endAndStart(ctx, rng, rng.IntN(5) > 0); err != nil {
			if ctx.Err() == nil {
				s.violation("restart: %v", err)
			}
			return
		}
	}
}

func (s *soak) maintain(ctx context.Context, rng *rand.Rand) {
	act := s.srv.Flush
	if rng.IntN(2) == 0 {
		act = s.srv.Compact
	}
	if err := act(ctx, "soak"); err != nil && ctx.Err() == nil {
		s.violation("%v", err)
	}
}

// endAndStart kills or stops the server and starts it, sometimes killing it
// again while it starts.
func (s *soak) endAndStart(ctx context.Context, rng *rand.Rand, kill bool) error {
	s.noteMemory()
	s.ending()
	end, count := s.srv.Stop, &s.stops
	if kill {
		end, count = s.srv.Kill, &s.kills
	}
	if err := end(); err != nil {
		return err
	}
	count.Add(1)
	s.complaints()
	if err := s.sabotage(); err != nil {
		return err
	}
	for rng.IntN(4) == 0 {
		if err := s.srv.Launch(); err != nil {
			return err
		}
		pause(ctx, time.Duration(rng.IntN(300))*time.Millisecond)
		if err := s.srv.Kill(); err != nil {
			return err
		}
		s.kills.Add(1)
		s.complaints()
	}
	begin := time.Now()
	// Not the workers' context: they may be at an operation, which must end before its end.
	if err := s.srv.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	s.mu.Lock()
	s.slowest = max(s.slowest, time.Since(begin))
	s.mu.Unlock()
	s.started()
	return nil
}

// sabotage proves that the soak can fail: data of the past must be noticed.
func (s *soak) sabotage() error {
	if !s.o.Sabotage {
		return nil
	}
	ends := s.kills.Load() + s.stops.Load()
	switch {
	case s.old == "":
		s.old = filepath.Join(s.o.Work, "old")
		// A socket cannot be copied, and is made anew.
		if err := os.Remove(filepath.Join(s.srv.Data, "admin.sock")); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return os.CopyFS(s.old, os.DirFS(s.srv.Data))
	case ends >= 3:
		s.o.Sabotage = false
		fmt.Println("sabotage: the data of an earlier kill is put back")
		if err := os.RemoveAll(s.srv.Data); err != nil {
			return err
		}
		return os.Rename(s.old, s.srv.Data)
	}
	return nil
}
