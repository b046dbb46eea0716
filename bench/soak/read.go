package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"varve/internal/bench/lab"
	"varve/internal/cqlwire"
)

const selected = "SELECT c, v, n, s, state"

// read does one read of a region in one of many ways and checks it.
func (w *worker) read(ctx context.Context, g *region) error {
	a := g.base + w.rng.IntN(len(g.rows))
	b := min(g.end(), a+1+w.rng.IntN(len(g.rows)))
	switch w.rng.IntN(8) {
	case 0, 1:
		return w.slice(ctx, g, a, b, false)
	case 2, 3:
		return w.slice(ctx, g, a, b, true)
	case 4:
		return w.first(ctx, g, w.rng.IntN(2) == 0)
	case 5:
		return w.points(ctx, g)
	case 6:
		return w.count(ctx, g)
	}
	return w.byState(ctx, g)
}

// whole checks a region and, of a partition that is the worker's own, the static column.
func (w *worker) whole(ctx context.Context, g *region) error {
	bad, err := w.fetchAndCompare(ctx, g)
	if err != nil {
		return err
	}
	return found(bad)
}

func found(bad []string) error {
	if len(bad) == 0 {
		return nil
	}
	return fmt.Errorf("%d differences, the first: %s", len(bad), bad[0])
}

func (w *worker) fetchAndCompare(ctx context.Context, g *region) ([]string, error) {
	t0 := time.Now().Unix()
	rows, err := w.fetch(ctx, selected+" FROM soak."+g.table+" WHERE p = ? AND c >= ? AND c < ?", g, g.base, g.end())
	if err != nil {
		return nil, err
	}
	bad := g.compare(rows, g.base, g.end(), false, t0, time.Now().Unix())
	if g.whole {
		cells, err := w.rows(ctx, "SELECT DISTINCT p, st FROM soak."+g.table+" WHERE p = ?", 0, lab.Int(int32(g.p)))
		if err != nil {
			return nil, err
		}
		static := ""
		if len(cells) == 1 {
			static = string(cells[0][1])
		}
		must, _ := g.static.seen(g.statDel, 0, 0)
		if must && static != g.static.val || !must && static != "" {
			bad = append(bad, fmt.Sprintf("static column of %s p=%d is %q; model: %+v, partition deleted at %d", g.table, g.p, static, g.static, g.statDel))
		}
	}
	return bad, nil
}

// rows reads all rows, page by page, within the time after which it counts as hanging.
func (w *worker) rows(ctx context.Context, text string, size int, values ...cqlwire.Value) ([][][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, opDeadline)
	defer cancel()
	cells, err := w.client.Rows(ctx, text, size, values...)
	return cells, hung(err, text)
}

// fetch reads rows page by page, of random sizes, and decodes them.
func (w *worker) fetch(ctx context.Context, text string, g *region, lo, hi int) ([]got, error) {
	start := time.Now()
	size := 5 + w.rng.IntN(300)
	cells, err := w.rows(ctx, text, size, lab.Int(int32(g.p)), lab.Int(int32(lo)), lab.Int(int32(hi)))
	if err != nil {
		return nil, err
	}
	w.s.reads.note(time.Since(start) / time.Duration(1+len(cells)/size))
	w.s.checked.Add(int64(hi - lo))
	return decodeRows(cells)
}

func decodeRows(cells [][][]byte) ([]got, error) {
	rows := make([]got, 0, len(cells))
	for _, r := range cells {
		x, err := decodeRow(r)
		if err != nil {
			return nil, err
		}
		rows = append(rows, x)
	}
	return rows, nil
}

func decodeRow(r [][]byte) (got, error) {
	if len(r) != columns || len(r[0]) != 4 {
		return got{}, fmt.Errorf("WRONG: a row of %d cells, the first of %d bytes", len(r), len(r[0]))
	}
	x := got{c: int(int32(binary.BigEndian.Uint32(r[0])))}
	x.vals[colV], x.vals[colState] = string(r[1]), string(r[4])
	if len(r[2]) == 4 {
		x.vals[colN] = strconv.Itoa(int(int32(binary.BigEndian.Uint32(r[2]))))
	}
	if r[3] != nil {
		var elems []string
		rd := cqlwire.NewReader(r[3])
		for range rd.Int() {
			b := rd.Bytes()
			if rd.Err() != nil || len(b) != 4 {
				return got{}, fmt.Errorf("WRONG: a set of bytes %x", r[3])
			}
			elems = append(elems, strconv.Itoa(int(int32(binary.BigEndian.Uint32(b)))))
		}
		x.vals[colS] = "{" + strings.Join(elems, ",") + "}"
	}
	return x, nil
}

func (w *worker) slice(ctx context.Context, g *region, lo, hi int, reversed bool) error {
	text := selected + " FROM soak." + g.table + " WHERE p = ? AND c >= ? AND c < ?"
	if reversed {
		text += " ORDER BY c DESC"
	}
	t0 := time.Now().Unix()
	rows, err := w.fetch(ctx, text, g, lo, hi)
	if err != nil {
		return err
	}
	return found(g.compare(rows, lo, hi, reversed, t0, time.Now().Unix()))
}

// first reads the first live row, from either end, over whatever is dead before it.
func (w *worker) first(ctx context.Context, g *region, reversed bool) error {
	text := "SELECT c FROM soak." + g.table + " WHERE p = ? AND c >= ? AND c < ?"
	if reversed {
		text += " ORDER BY c DESC"
	}
	t0, start := time.Now().Unix(), time.Now()
	cells, err := w.rows(ctx, text+" LIMIT 1", 0, lab.Int(int32(g.p)), lab.Int(int32(g.base)), lab.Int(int32(g.end())))
	if err != nil {
		return err
	}
	w.s.reads.note(time.Since(start))
	live, sure := g.exact(t0, time.Now().Unix())
	if !sure {
		return nil
	}
	want, have := -1, -1
	if len(live) > 0 {
		want = live[0]
		if reversed {
			want = live[len(live)-1]
		}
	}
	if len(cells) > 0 {
		have = int(int32(binary.BigEndian.Uint32(cells[0][0])))
	}
	if want == have {
		return nil
	}
	return fmt.Errorf("WRONG: the first row of %s p=%d [%d,%d) reversed=%v is %d, not %d", g.table, g.p, g.base, g.end(), reversed, have, want)
}

// points reads a few rows with IN.
func (w *worker) points(ctx context.Context, g *region) error {
	var want []int
	for range 5 {
		want = append(want, g.base+w.rng.IntN(len(g.rows)))
	}
	slices.Sort(want)
	want = slices.Compact(want)
	values := []cqlwire.Value{lab.Int(int32(g.p))}
	for _, c := range want {
		values = append(values, lab.Int(int32(c)))
	}
	text := selected + " FROM soak." + g.table + " WHERE p = ? AND c IN (?" + strings.Repeat(", ?", len(want)-1) + ")"
	t0, start := time.Now().Unix(), time.Now()
	cells, err := w.rows(ctx, text, 0, values...)
	if err != nil {
		return err
	}
	w.s.reads.note(time.Since(start))
	rows, err := decodeRows(cells)
	if err != nil {
		return err
	}
	t1 := time.Now().Unix()
	for _, c := range want {
		var r []got
		if len(rows) > 0 && rows[0].c == c {
			r, rows = rows[:1], rows[1:]
		}
		if err := found(g.compare(r, c, c+1, false, t0, t1)); err != nil {
			return err
		}
	}
	if len(rows) > 0 {
		return fmt.Errorf("WRONG: IN %v of %s p=%d returns row %d", want, g.table, g.p, rows[0].c)
	}
	return nil
}

func (w *worker) count(ctx context.Context, g *region) error {
	t0 := time.Now().Unix()
	cells, err := w.rows(ctx, "SELECT COUNT(*) FROM soak."+g.table+" WHERE p = ? AND c >= ? AND c < ?", 0,
		lab.Int(int32(g.p)), lab.Int(int32(g.base)), lab.Int(int32(g.end())))
	if err != nil {
		return err
	}
	live, sure := g.exact(t0, time.Now().Unix())
	if n := int(binary.BigEndian.Uint64(cells[0][0])); sure && n != len(live) {
		return fmt.Errorf("WRONG: COUNT of %s p=%d [%d,%d) is %d, not %d", g.table, g.p, g.base, g.end(), n, len(live))
	}
	return nil
}

// byState reads through the secondary index.
func (w *worker) byState(ctx context.Context, g *region) error {
	state := states[w.rng.IntN(len(states))]
	t0, start := time.Now().Unix(), time.Now()
	cells, err := w.rows(ctx, selected+" FROM soak."+g.table+" WHERE p = ? AND state = ?", 100, lab.Int(int32(g.p)), lab.Text(state))
	if err != nil {
		return err
	}
	w.s.reads.note(time.Since(start))
	all, err := decodeRows(cells)
	if err != nil {
		return err
	}
	t1 := time.Now().Unix()
	have := map[int]*got{}
	for i := range all {
		if c := all[i].c; c >= g.base && c < g.end() {
			have[c] = &all[i]
		}
	}
	for i := range g.rows {
		c, r := g.base+i, &g.rows[i]
		must, may := r.cells[colState].seen(r.del, t0, t1)
		match := r.cells[colState].val == state
		x := have[c]
		switch {
		case x == nil && must && match:
			return fmt.Errorf("LOST: the index on %s p=%d misses c=%d in state %s; model: %s", g.table, g.p, c, state, r)
		case x != nil && (!may || !match):
			return fmt.Errorf("RISEN: the index on %s p=%d returns c=%d in state %s; model: %s", g.table, g.p, c, state, r)
		case x != nil:
			if what := r.check(x, t0, t1); what != "" {
				return fmt.Errorf("%s: %s p=%d c=%d by index; model: %s", what, g.table, g.p, c, r)
			}
		}
	}
	return nil
}
