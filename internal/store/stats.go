package store

import (
	"sync"
	"sync/atomic"
	"time"

	"varve/internal/schema"
)

// TableStats are what tablestats shows of a table.
type TableStats struct {
	LiveBytes, TotalBytes int64
	Partitions, Rows      int64 // estimates
	DeadSpans             int64
	DeadRows              int64 // in spans
	MemtableBytes         int64
	Reads, Writes         int64
	ReadLatency           time.Duration // mean, since start
	WriteLatency          time.Duration
	Files                 int
	MaxTombstones         int64 // largest Walked of one read in the last five minutes
	MeanTombstones        float64
	MeanLive              float64
	MaxLive               int64
	// Walked and Jumped are tombstones that reads stepped over, and dead rows that
	// they passed in spans, since the start.
	Walked, Jumped int64
}

// tableCounters count a table's reads and writes.
type tableCounters struct {
	reads, writes         atomic.Int64
	readNanos, writeNanos atomic.Int64
	walked, jumped        atomic.Int64
	hist                  atomic.Pointer[tableHistograms]

	mu     sync.Mutex
	window [recentMinutes]recentReads
}

// recentMinutes is how far back tombstones and live rows of reads are shown.
const recentMinutes = 5

// recentReads sums the reads of one minute.
type recentReads struct {
	minute            int64
	reads, dead, live int64
	maxDead, maxLive  int64
}

func (c *tableCounters) wrote(d time.Duration) {
	c.writes.Add(1)
	c.writeNanos.Add(int64(d))
	c.histograms().write.add(int64(d))
}

func (c *tableCounters) read(d time.Duration, st *ReadStats) {
	c.reads.Add(1)
	c.readNanos.Add(int64(d))
	c.histograms().readOf(d, st)
	if st == nil {
		return
	}
	if st.Walked > 0 {
		c.walked.Add(st.Walked)
	}
	if st.Jumped > 0 {
		c.jumped.Add(st.Jumped)
	}
	minute := int64(time.Since(statsStart) / time.Minute)
	c.mu.Lock()
	w := &c.window[minute%recentMinutes]
	if w.minute != minute {
		*w = recentReads{minute: minute}
	}
	w.reads++
	w.dead += st.Walked
	w.live += st.Rows
	w.maxDead, w.maxLive = max(w.maxDead, st.Walked), max(w.maxLive, st.Rows)
	c.mu.Unlock()
}

// statsStart is a monotonic zero for minutes.
var statsStart = time.Now().Add(-recentMinutes * time.Minute)

func (c *tableCounters) show(out *TableStats) {
	out.Reads, out.Writes = c.reads.Load(), c.writes.Load()
	out.Walked, out.Jumped = c.walked.Load(), c.jumped.Load()
	if out.Reads > 0 {
		out.ReadLatency = time.Duration(c.readNanos.Load() / out.Reads)
	}
	if out.Writes > 0 {
		out.WriteLatency = time.Duration(c.writeNanos.Load() / out.Writes)
	}
	minute := int64(time.Since(statsStart) / time.Minute)
	c.mu.Lock()
	defer c.mu.Unlock()
	var sum recentReads
	for _, w := range c.window {
		if minute-w.minute < recentMinutes {
			sum.reads += w.reads
			sum.dead += w.dead
			sum.live += w.live
			sum.maxDead, sum.maxLive = max(sum.maxDead, w.maxDead), max(sum.maxLive, w.maxLive)
		}
	}
	out.MaxTombstones, out.MaxLive = sum.maxDead, sum.maxLive
	if sum.reads > 0 {
		out.MeanTombstones = float64(sum.dead) / float64(sum.reads)
		out.MeanLive = float64(sum.live) / float64(sum.reads)
	}
}

// TableDistributions shows what a table's reads and writes were like.
func (s *Store) TableDistributions(t *schema.Table) TableDistributions {
	h := s.tableFor(t).stats.hist.Load()
	if h == nil {
		return TableDistributions{}
	}
	return TableDistributions{h.read.show(), h.write.show(), h.walked.show(), h.rows.show()}
}

// TableStats estimates a table's size and shows its spans.
func (s *Store) TableStats(t *schema.Table) (TableStats, error) {
	tbl := s.tableFor(t)
	var out TableStats
	tbl.stats.show(&out)
	lo, hi := physBounds(t.PhysID)
	for i, sh := range s.shards {
		n, err := sh.db.EstimateDiskUsage(lo, hi)
		if err != nil {
			return out, err
		}
		out.TotalBytes += int64(n)
		files, rows, parts, err := sh.estimateRows(t.PhysID)
		if err != nil {
			return out, err
		}
		out.Files += files
		out.Rows += rows
		out.Partitions += parts
		m := &tbl.parts[i].spans
		m.mu.RLock()
		for _, c := range m.chunks {
			for _, x := range c {
				out.DeadSpans++
				out.DeadRows += x.rows
			}
		}
		m.mu.RUnlock()
		out.MemtableBytes += int64(sh.db.Metrics().MemTable.Size)
	}
	out.LiveBytes = out.TotalBytes
	return out, nil
}

// physBounds are the bounds of everything under a physical id.
func physBounds(phys uint32) (lo, hi []byte) {
	lo = appendTablePrefix(nil, phys, 0)[:4]
	return lo, prefixEnd(lo)
}

// Span is a dead span, for display: no row between its bounds is live.
type Span struct {
	Key               Key
	Start, End        [][]byte // clustering of the first and last dead row
	Rows              int64
	NewestDeletion    int64 // seconds
	LatestExpiry      int64 // seconds; 0: none
	EstimatedRowCount bool
	Tombstones        int64 // what a read that walks the rows would count
}

// Spans lists a table's dead spans.
func (s *Store) Spans(t *schema.Table, k *Key, limit int) ([]Span, error) {
	tbl := s.tableFor(t)
	var out []Span
	for i := range s.shards {
		if k != nil && s.shardOf(k.Token) != i {
			continue
		}
		for _, x := range tbl.parts[i].spans.list(t, k, limit-len(out)) {
			y, err := showSpan(t, x)
			if err != nil {
				return nil, err
			}
			out = append(out, y)
		}
		if len(out) >= limit {
			break
		}
	}
	return out, nil
}

// list returns up to limit spans, those that touch a partition where one is given.
func (m *spanMap) list(t *schema.Table, k *Key, limit int) []*span {
	lo := string(appendTablePrefix(nil, t.PhysID, familyRow))
	hi := string(prefixEnd([]byte(lo)))
	if k != nil {
		p := appendPartition(nil, t.PhysID, familyRow, *k)
		lo, hi = string(p), string(append(p, suffixEnd))
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []*span
	c, i := m.locate(lo)
	for ; c < len(m.chunks); c, i = c+1, 0 {
		for ; i < len(m.chunks[c]); i++ {
			if len(out) >= limit || m.chunks[c][i].lo >= hi {
				return out
			}
			out = append(out, m.chunks[c][i])
		}
	}
	return out
}

// showSpan decodes a span's bounds. A span ends just past its last dead row.
func showSpan(t *schema.Table, x *span) (Span, error) {
	out := Span{Rows: x.rows, NewestDeletion: x.newest, LatestExpiry: x.expiry, EstimatedRowCount: x.estimated, Tombstones: x.tombs}
	lo := []byte(x.lo)
	n, _, err := partitionLen(t, lo, nil)
	if err != nil {
		return out, err
	}
	out.Key = Key{Token: tokenOf(lo[tablePrefixBytes:]), enc: lo[tablePrefixBytes+tokenBytes : n]}
	if n < len(lo) {
		if out.Start, _, err = decodeSuffix(nil, nil, t, lo[n:]); err != nil {
			out.Start = nil
		}
	}
	hi := []byte(x.hi)
	if n, _, err := partitionLen(t, hi, nil); err == nil && n < len(hi) {
		if out.End, _, err = decodeSuffix(nil, nil, t, hi[n:]); err != nil {
			out.End = nil
		}
	}
	return out, nil
}
