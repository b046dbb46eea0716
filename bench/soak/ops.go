package main

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"varve/internal/bench/lab"
	"varve/internal/cqlwire"
)

// Limits of what one operation touches.
const (
	maxRun   = 200 // rows deleted one by one, or written again, in a row
	lateness = 10_000_000
)

// make draws the next change of a region: mostly one operation, sometimes a run of them.
func (w *worker) make(g *region) []*op {
	c := g.base + w.rng.IntN(len(g.rows))
	switch r := w.rng.IntN(100); {
	case r < 25:
		return []*op{w.insert(g, c, w.stamp(), 0)}
	case r < 31:
		return []*op{w.insert(g, c, w.stamp(), int64(1+w.rng.IntN(20)))}
	case r < 41:
		return []*op{w.update(g, c, w.stamp())}
	case r < 44:
		return []*op{w.insertNull(g, c, w.stamp())}
	case r < 60:
		return []*op{w.deleteRow(g, c, w.stamp())}
	case r < 63:
		return w.run1(g, c, w.deleteRow)
	case r < 65:
		return []*op{w.refill(g, c, w.stamp())}
	case r < 70:
		return []*op{w.deleteColumn(g, c, w.stamp())}
	case r < 75:
		return []*op{w.deleteRange(g, c)}
	case r < 83:
		return []*op{w.swap(g, c)}
	case r < 90:
		// Older than what may have been written there since: it must not show where something newer was, or was deleted.
		return []*op{w.insert(g, c, w.stamp()-int64(w.rng.IntN(lateness))&^3, 0)}
	case r < 94:
		return []*op{w.deleteRow(g, c, w.stamp()-int64(w.rng.IntN(lateness))&^3)}
	case r < 97 && g.whole:
		return []*op{w.setStatic(g)}
	case r < 99 && g.whole && w.rng.IntN(4) == 0:
		return []*op{w.deletePartition(g)}
	}
	return []*op{w.update(g, c, w.stamp())}
}

// run1 makes one operation a row for a stretch of rows.
func (w *worker) run1(g *region, c int, one func(*region, int, int64) *op) (ops []*op) {
	for end := min(g.end(), c+1+w.rng.IntN(maxRun)); c < end; c++ {
		ops = append(ops, one(g, c, w.stamp()))
	}
	return ops
}

func (w *worker) text() string {
	b := make([]byte, w.rng.IntN(200))
	for i := range b {
		b[i] = byte(w.rng.UintN(256))
	}
	return fmt.Sprintf("w%d-%x", w.id, b)
}

var states = []string{"new", "open", "done"}

// full returns values for all columns, as bound and as read.
func (w *worker) full() (vals [columns]string, bound []cqlwire.Value) {
	n := w.rng.Int32N(1000)
	a := w.rng.Int32N(100)
	vals = [columns]string{marker: "1", colV: w.text(), colN: strconv.Itoa(int(n)), colS: fmt.Sprintf("{%d,%d}", a, a+1), colState: states[w.rng.IntN(3)]}
	return vals, []cqlwire.Value{lab.Text(vals[colV]), lab.Int(n), intSet(a, a+1), lab.Text(vals[colState])}
}

func intSet(vals ...int32) cqlwire.Value {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(vals)))
	for _, v := range vals {
		b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, 4), uint32(v))
	}
	return cqlwire.Value{Bytes: b}
}

func key(g *region, c int) []cqlwire.Value {
	return []cqlwire.Value{lab.Int(int32(g.p)), lab.Int(int32(c))}
}

// put is the effect of writing the given columns of a row.
func put(c int, ts, ttl int64, vals [columns]string, which ...int) func(*region, int64, int64) {
	return func(g *region, sent, acked int64) {
		for _, i := range which {
			x := cell{ts: ts, val: vals[i], live: vals[i] != ""}
			if ttl > 0 && x.live {
				x.from, x.to = sent+ttl, acked+ttl
			}
			g.rows[c-g.base].cells[i].write(x)
		}
	}
}

func bury(lo, hi int, ts int64) func(*region, int64, int64) {
	return func(g *region, _, _ int64) {
		for c := lo; c < hi; c++ {
			r := &g.rows[c-g.base]
			r.del = max(r.del, ts)
		}
	}
}

func both(a, b func(*region, int64, int64)) func(*region, int64, int64) {
	return func(g *region, sent, acked int64) { a(g, sent, acked); b(g, sent, acked) }
}

func (w *worker) insert(g *region, c int, ts, ttl int64) *op {
	vals, bound := w.full()
	text := "INSERT INTO soak." + g.table + " (p, c, v, n, s, state) VALUES (?, ?, ?, ?, ?, ?) USING TIMESTAMP ?"
	bound = append(append(key(g, c), bound...), lab.Bigint(ts))
	if ttl > 0 {
		text += " AND TTL ?"
		bound = append(bound, lab.Int(int32(ttl)))
	}
	return &op{
		kind: fmt.Sprintf("insert ttl %d", ttl), lo: c, hi: c + 1, ts: ts, send: w.exec(text, bound...),
		effect: put(c, ts, ttl, vals, marker, colV, colN, colS, colState),
	}
}

// insertNull binds null, which writes a tombstone.
func (w *worker) insertNull(g *region, c int, ts int64) *op {
	vals, _ := w.full()
	vals[colV], vals[colS] = "", ""
	text := "INSERT INTO soak." + g.table + " (p, c, v, s) VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
	return &op{
		kind: "insert nulls", lo: c, hi: c + 1, ts: ts, effect: put(c, ts, 0, vals, marker, colV, colS),
		send: w.exec(text, append(key(g, c), cqlwire.Value{}, cqlwire.Value{}, lab.Bigint(ts))...),
	}
}

func (w *worker) update(g *region, c int, ts int64) *op {
	vals, bound := w.full()
	i := colV + w.rng.IntN(columns-1)
	text := "UPDATE soak." + g.table + " USING TIMESTAMP ? SET " + columnNames[i] + " = ? WHERE p = ? AND c = ?"
	return &op{
		kind: "update " + columnNames[i], lo: c, hi: c + 1, ts: ts, effect: put(c, ts, 0, vals, i),
		send: w.exec(text, append([]cqlwire.Value{lab.Bigint(ts), bound[i-1]}, key(g, c)...)...),
	}
}

func (w *worker) deleteColumn(g *region, c int, ts int64) *op {
	i := colV + w.rng.IntN(columns-1)
	text := "DELETE " + columnNames[i] + " FROM soak." + g.table + " USING TIMESTAMP ? WHERE p = ? AND c = ?"
	return &op{
		kind: "delete " + columnNames[i], lo: c, hi: c + 1, ts: ts, effect: put(c, ts, 0, [columns]string{}, i),
		send: w.exec(text, append([]cqlwire.Value{lab.Bigint(ts)}, key(g, c)...)...),
	}
}

func (w *worker) deleteRow(g *region, c int, ts int64) *op {
	text := "DELETE FROM soak." + g.table + " USING TIMESTAMP ? WHERE p = ? AND c = ?"
	return &op{
		kind: "delete row", lo: c, hi: c + 1, ts: ts, effect: bury(c, c+1, ts),
		send: w.exec(text, append([]cqlwire.Value{lab.Bigint(ts)}, key(g, c)...)...),
	}
}

func (w *worker) deleteRange(g *region, c int) *op {
	ts, hi := w.stamp(), min(g.end(), c+1+w.rng.IntN(len(g.rows)/2))
	lower, upper := ">=", "<"
	from, to := c, hi
	if w.rng.IntN(2) == 0 {
		lower, from = ">", c-1
	}
	if w.rng.IntN(2) == 0 {
		upper, to = "<=", hi-1
	}
	text := fmt.Sprintf("DELETE FROM soak.%s USING TIMESTAMP ? WHERE p = ? AND c %s ? AND c %s ?", g.table, lower, upper)
	return &op{
		kind: "delete range", lo: c, hi: hi, ts: ts, effect: bury(c, hi, ts),
		send: w.exec(text, lab.Bigint(ts), lab.Int(int32(g.p)), lab.Int(int32(from)), lab.Int(int32(to))),
	}
}

func (w *worker) deletePartition(g *region) *op {
	ts := w.stamp()
	return &op{
		kind: "delete partition", lo: g.base, hi: g.end(), ts: ts,
		effect: both(bury(g.base, g.end(), ts), func(g *region, _, _ int64) { g.statDel = max(g.statDel, ts) }),
		send:   w.exec("DELETE FROM soak."+g.table+" USING TIMESTAMP ? WHERE p = ?", lab.Bigint(ts), lab.Int(int32(g.p))),
	}
}

func (w *worker) setStatic(g *region) *op {
	ts, v := w.stamp(), w.text()
	return &op{
		kind: "set static", lo: g.base, hi: g.base, ts: ts,
		effect: func(g *region, _, _ int64) { g.static.write(cell{ts: ts, val: v, live: true}) },
		send: w.exec("UPDATE soak."+g.table+" USING TIMESTAMP ? SET st = ? WHERE p = ?",
			lab.Bigint(ts), lab.Text(v), lab.Int(int32(g.p))),
	}
}

// swap deletes one row and inserts another in one batch, which is seen whole or not at all.
func (w *worker) swap(g *region, c int) *op {
	d := c + 1
	if d == g.end() {
		c, d = c-1, c
	}
	ts := w.stamp()
	vals, bound := w.full()
	text := fmt.Sprintf("BEGIN BATCH DELETE FROM soak.%s USING TIMESTAMP ? WHERE p = ? AND c = ?; "+
		"INSERT INTO soak.%s (p, c, v, n, s, state) VALUES (?, ?, ?, ?, ?, ?) USING TIMESTAMP ?; APPLY BATCH", g.table, g.table)
	values := append([]cqlwire.Value{lab.Bigint(ts)}, key(g, c)...)
	values = append(append(append(values, key(g, d)...), bound...), lab.Bigint(ts))
	return &op{
		kind: "swap", lo: c, hi: d + 1, ts: ts, send: w.exec(text, values...),
		effect: both(bury(c, c+1, ts), put(d, ts, 0, vals, marker, colV, colN, colS, colState)),
	}
}

// refill writes a stretch of rows again in one batch.
func (w *worker) refill(g *region, c int, ts int64) *op {
	hi := min(g.end(), c+20)
	var values []cqlwire.Value
	text := "BEGIN UNLOGGED BATCH "
	effect := func(*region, int64, int64) {}
	for r := c; r < hi; r++ {
		vals, bound := w.full()
		text += "INSERT INTO soak." + g.table + " (p, c, v, n, s, state) VALUES (?, ?, ?, ?, ?, ?) USING TIMESTAMP ?; "
		values = append(append(append(values, key(g, r)...), bound...), lab.Bigint(ts))
		effect = both(effect, put(r, ts, 0, vals, marker, colV, colN, colS, colState))
	}
	return &op{kind: "refill", lo: c, hi: hi, ts: ts, effect: effect, send: w.exec(text+"APPLY BATCH", values...)}
}
