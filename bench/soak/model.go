package main

import (
	"fmt"
	"slices"
	"strings"
)

// Columns of a model row. The marker is what an INSERT leaves beside its cells.
const (
	marker = iota
	colV
	colN
	colS
	colState
	columns
)

var columnNames = [columns]string{"(row)", "v", "n", "s", "state"}

// cell is the newest write to a column: a value or, where it is not live, a
// tombstone. Expiry is a span of seconds, since the server's clock at a write
// is known only to lie between its sending and its answer.
type cell struct {
	ts       int64 // microseconds; 0: never written
	val      string
	live     bool
	from, to int64 // seconds: surely live before from, surely expired at to; 0: no TTL
}

// write keeps the newer of two writes; the same again may only lengthen its TTL.
func (c *cell) write(w cell) {
	switch {
	case w.ts > c.ts:
		*c = w
	case w.ts == c.ts && w.from > 0:
		c.from, c.to = min(c.from, w.from), max(c.to, w.to)
	}
}

// seen tells whether a read that took place between the seconds t0 and t1 must,
// and whether it may, see the cell.
func (c *cell) seen(del, t0, t1 int64) (must, may bool) {
	switch {
	case !c.live || c.ts <= del:
		return false, false
	case c.from == 0:
		return true, true
	}
	return t1 < c.from, t0 < c.to
}

// row is what is known of one row.
type row struct {
	del     int64 // newest row, range or partition deletion over it
	cells   [columns]cell
	history []*op // the last few, for reports
}

const keepHistory = 6

func (r *row) note(o *op) {
	if len(r.history) >= keepHistory {
		r.history = append(r.history[:0:0], r.history[1:]...)
	}
	r.history = append(r.history, o)
}

// seen is cell.seen for the whole row: it is there while any part of it is live.
func (r *row) seen(t0, t1 int64) (must, may bool) {
	for i := range r.cells {
		a, b := r.cells[i].seen(r.del, t0, t1)
		must, may = must || a, may || b
	}
	return must, may
}

// got is a row as a read returned it; "" stands for null, which no value here is.
type got struct {
	c    int
	vals [columns]string
}

// check says in what a row that was read, or nil where it was not there,
// differs from the model; "" if in nothing.
func (r *row) check(g *got, t0, t1 int64) string {
	must, may := r.seen(t0, t1)
	switch {
	case g == nil && must:
		return "LOST: a live row is not returned"
	case g == nil:
		return ""
	case !may:
		return "RISEN: a dead row is returned"
	}
	for i := marker + 1; i < columns; i++ {
		must, may := r.cells[i].seen(r.del, t0, t1)
		switch {
		case g.vals[i] == "" && must:
			return fmt.Sprintf("LOST: %s is null, not %q", columnNames[i], r.cells[i].val)
		case g.vals[i] != "" && !may:
			return fmt.Sprintf("RISEN: %s is %q, not null", columnNames[i], g.vals[i])
		case g.vals[i] != "" && g.vals[i] != r.cells[i].val:
			return fmt.Sprintf("WRONG: %s is %q, not %q", columnNames[i], g.vals[i], r.cells[i].val)
		}
	}
	return ""
}

func (r *row) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "deleted at %d", r.del)
	for i, c := range r.cells {
		if c.ts != 0 {
			fmt.Fprintf(&b, "; %s %q live=%v at %d", columnNames[i], c.val, c.live, c.ts)
			if c.from > 0 {
				fmt.Fprintf(&b, " expires %d-%d", c.from, c.to)
			}
		}
	}
	for _, o := range r.history {
		fmt.Fprintf(&b, "\n      %s", o)
	}
	return b.String()
}

// region is a worker's own stretch of a partition: rows base to base+len(rows).
type region struct {
	table  string
	p      int
	base   int
	rows   []row
	static cell
	// statDel is the newest partition deletion; only an owner of the whole partition writes either.
	statDel int64
	whole   bool
}

func newRegion(table string, p, base, n int, whole bool) *region {
	return &region{table: table, p: p, base: base, rows: make([]row, n), whole: whole}
}

func (g *region) clone() *region {
	c := *g
	c.rows = slices.Clone(g.rows)
	return &c
}

func (g *region) end() int { return g.base + len(g.rows) }

// op is one acknowledged-or-not statement on a region. It may be sent again
// with the same effect, since its timestamps are its own.
type op struct {
	kind   string
	lo, hi int // rows [lo, hi) it may touch
	ts     int64
	effect func(g *region, sent, acked int64) // seconds
	// sent and acked are seconds, of the first try and of the answer.
	sent, acked int64
	send        func() error
}

func (o *op) String() string {
	return fmt.Sprintf("%s rows [%d,%d) at %d, sent %d, acknowledged %d", o.kind, o.lo, o.hi, o.ts, o.sent, o.acked)
}

// apply makes the operation part of the model.
func (o *op) apply(g *region) {
	o.effect(g, o.sent, o.acked)
	for c := o.lo; c < o.hi; c++ {
		g.rows[c-g.base].note(o)
	}
}

// compare checks rows that were read for [lo, hi), in either order, against the
// model and returns what is wrong, each with its row.
func (g *region) compare(rows []got, lo, hi int, reversed bool, t0, t1 int64) []string {
	var bad []string
	found := make(map[int]*got, len(rows))
	for i := range rows {
		r := &rows[i]
		if r.c < lo || r.c >= hi || found[r.c] != nil {
			bad = append(bad, fmt.Sprintf("row %d is returned twice, or is not of [%d,%d)", r.c, lo, hi))
			continue
		}
		if i > 0 && (rows[i-1].c > r.c) != reversed {
			bad = append(bad, fmt.Sprintf("row %d comes after row %d", r.c, rows[i-1].c))
		}
		found[r.c] = r
	}
	for c := lo; c < hi; c++ {
		m := &g.rows[c-g.base]
		if what := m.check(found[c], t0, t1); what != "" {
			bad = append(bad, fmt.Sprintf("%s: %s p=%d c=%d, read between %d and %d; model: %s", what, g.table, g.p, c, t0, t1, m))
		}
	}
	return bad
}

// exact lists the live rows, or reports that some may be either, being about to expire.
func (g *region) exact(t0, t1 int64) (live []int, sure bool) {
	for i := range g.rows {
		must, may := g.rows[i].seen(t0, t1)
		if must != may {
			return nil, false
		}
		if must {
			live = append(live, g.base+i)
		}
	}
	return live, true
}
