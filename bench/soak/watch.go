package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"varve/internal/bench/lab"
)

const (
	watchEvery = 5 * time.Second
	scanEvery  = 4 * time.Minute
	// Journals and tables that are about to be rewritten make the disk swing by this much.
	diskSlack = 96 << 20
)

// watch notes memory and disk and prints a line each half minute.
func (s *soak) watch(ctx context.Context) {
	begin := time.Now()
	for n := 0; ; n++ {
		s.noteMemory()
		if d, err := lab.DiskOf(s.srv.Data); err == nil {
			s.mu.Lock()
			s.disk = append(s.disk, d.Total)
			s.mu.Unlock()
			if n%6 == 0 {
				m, _ := lab.MemoryOf(s.srv.PID())
				r, w := s.reads.last(), s.writes.last()
				fmt.Printf("%s %5.0f s: %9d acknowledged, %3d kills, memory %s (peak %s), disk %s (tables %s), last minute: page p50 %s p99 %s, write p50 %s p99 %s\n",
					time.Now().Format("15:04:05"), time.Since(begin).Seconds(), s.acked.Load(), s.kills.Load(), lab.MB(m.Resident), lab.MB(s.peak.Load()),
					lab.MB(d.Total), lab.MB(d.Tables), lab.Micros(r.P50), lab.Micros(r.P99), lab.Micros(w.P50), lab.Micros(w.P99))
			}
		}
		pause(ctx, watchEvery)
		if ctx.Err() != nil {
			return
		}
	}
}

// noteMemory keeps the highest resident memory of any of the server's lives.
func (s *soak) noteMemory() {
	m, err := lab.MemoryOf(s.srv.PID())
	if err != nil {
		return // it is being ended
	}
	for {
		old := s.peak.Load()
		if m.Peak <= old || s.peak.CompareAndSwap(old, m.Peak) {
			return
		}
	}
}

func (s *soak) verdicts() {
	s.noteMemory()
	if p := s.peak.Load(); p > s.o.BudgetMiB<<20 {
		s.violation("resident memory reached %s, over the budget of %s", lab.MB(p), lab.MB(s.o.BudgetMiB<<20))
	}
	s.mu.Lock()
	disk := slices.Clone(s.disk)
	s.mu.Unlock()
	if what, ok := flatDisk(disk); !ok {
		s.violation("%s", what)
	}
}

// flatDisk compares the last third of the samples with the middle one: by then
// every key was written and what is purged is being purged.
func flatDisk(samples []int64) (string, bool) {
	n := len(samples) / 3
	if n < 10 {
		return "", true
	}
	middle, last := slices.Max(samples[n:2*n]), slices.Max(samples[2*n:])
	if last > middle+middle/5+diskSlack {
		return fmt.Sprintf("the disk grows: at most %s in the second third, %s in the last", lab.MB(middle), lab.MB(last)), false
	}
	return "", true
}

// scanner stops all workers from time to time and reads whole tables.
func (s *soak) scanner(ctx context.Context) {
	for {
		pause(ctx, scanEvery)
		if ctx.Err() != nil {
			return
		}
		if err := s.scanAll(ctx); err != nil && ctx.Err() == nil && !gone(err) {
			s.violation("%v", err)
			return
		}
	}
}

// scanAll reads each table by token range, counts it and lists its partitions, while nobody writes.
func (s *soak) scanAll(ctx context.Context) error {
	s.gate.Lock()
	defer s.gate.Unlock()
	c, _, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	for _, t := range tables {
		if err := s.scan(ctx, c, t); err != nil {
			return fmt.Errorf("scan of %s: %w", t, err)
		}
	}
	s.scans.Add(1)
	return nil
}

func (s *soak) scan(ctx context.Context, c *lab.Client, table string) error {
	t0 := time.Now().Unix()
	cells, err := c.Rows(ctx, "SELECT p, c, v, n, s, state FROM soak."+table, 500)
	if err != nil {
		return err
	}
	t1 := time.Now().Unix()
	byPartition := map[int][]got{}
	live := 0
	for _, r := range cells {
		p := int(int32(binary.BigEndian.Uint32(r[0])))
		if r[1] == nil { // a partition with nothing but its static column
			byPartition[p] = append(byPartition[p], []got{}...)
			continue
		}
		x, err := decodeRow(r[1:])
		if err != nil {
			return err
		}
		live++
		byPartition[p] = append(byPartition[p], x)
	}
	var bad []string
	for _, w := range s.workers {
		for _, g := range w.regions {
			if g.table != table {
				continue
			}
			mine, others := split(byPartition[g.p], g)
			byPartition[g.p] = others
			bad = append(bad, g.compare(mine, g.base, g.end(), false, t0, t1)...)
		}
	}
	for p, rest := range byPartition {
		for _, r := range rest {
			bad = append(bad, fmt.Sprintf("RISEN: row p=%d c=%d is nobody's", p, r.c))
		}
	}
	if err := found(bad); err != nil {
		return err
	}
	return s.counts(ctx, c, table, live)
}

// counts compares COUNT(*) with the rows of the scan, where none was about to expire meanwhile.
func (s *soak) counts(ctx context.Context, c *lab.Client, table string, live int) error {
	t0 := time.Now().Unix() - 2
	cells, err := c.Rows(ctx, "SELECT COUNT(*) FROM soak."+table, 0)
	if err != nil {
		return err
	}
	low, high := 0, 0
	t1 := time.Now().Unix()
	for _, w := range s.workers {
		for _, g := range w.regions {
			for i := range g.rows {
				if g.table != table {
					break
				}
				must, may := g.rows[i].seen(t0, t1)
				if must {
					low++
				}
				if may {
					high++
				}
			}
			// A partition with only a static column counts as one row.
			if must, _ := g.static.seen(g.statDel, 0, 0); must && g.table == table {
				if l, sure := g.exact(t0, t1); !sure || len(l) == 0 {
					high++
				}
			}
		}
	}
	if n := int(binary.BigEndian.Uint64(cells[0][0])); n < low || n > high {
		return fmt.Errorf("WRONG: COUNT(*) is %d, not %d to %d; the scan before it found %d", n, low, high, live)
	}
	return nil
}

func split(rows []got, g *region) (mine, others []got) {
	for _, r := range rows {
		if r.c >= g.base && r.c < g.end() {
			mine = append(mine, r)
		} else {
			others = append(others, r)
		}
	}
	return mine, others
}
