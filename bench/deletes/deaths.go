package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"varve/internal/bench/lab"
	"varve/internal/cqlwire"
)

// Rows of a case's partition: edge live ones, the stretch with the dead ones, edge live ones.
const (
	edge       = 100
	pageRows   = 50
	bodyBytes  = 80
	inFlight   = 64
	batchRows  = 30
	rangeRows  = 100
	insertText = "INSERT INTO bench.pages (p, c, body) VALUES (?, ?, ?)"
	deleteText = "DELETE FROM bench.pages WHERE p = ? AND c = ?"
	rangeText  = "DELETE FROM bench.pages WHERE p = ? AND c >= ? AND c < ?"
)

// death is a way in which n rows of a partition come to be dead.
type death struct {
	name string
	// alive: every so many rows of the stretch lives on; 0: none.
	alive int
	// step is the distance of keys; the gaps hold no rows.
	step int64
	// wait is what the background has, after the last delete.
	wait time.Duration
	ttl  bool
	kill func(ctx context.Context, b *bench, d *death, p int64, n int) error
}

var deaths = []*death{
	{name: "one by one", step: 1, wait: time.Second, kill: killRows(false)},
	{name: "shuffled", step: 1, wait: 3 * time.Second, kill: killRows(true)},
	{name: "by ranges", step: 1, wait: time.Second, kill: killRanges},
	{name: "by TTL", step: 1, wait: time.Second, ttl: true},
	{name: "every 10th alive", step: 1, alive: 10, wait: time.Second, kill: killRows(false)},
	{name: "every 50th alive", step: 1, alive: 50, wait: time.Second, kill: killRows(false)},
}

// disjoint are ranges that each cover one row and touch no other.
var disjoint = &death{name: "disjoint ranges", step: 2, wait: time.Second, kill: killDisjoint}

func (d *death) lives(i int) bool { return d.alive > 0 && i%d.alive == 0 }

func (d *death) key(i int) int64 { return edge + int64(i)*d.step }

// span is the stretch with the dead rows: keys from lo up to but not including hi.
func (d *death) span(n int) (lo, hi int64) { return edge, d.key(n) }

// expected are the keys a page holds, going up from the stretch's start or down from its end.
func (d *death) expected(n int, down bool) (keys []int64) {
	for j := 0; j < n && len(keys) < pageRows && d.alive > 0; j++ {
		i := j
		if down {
			i = n - 1 - j
		}
		if d.lives(i) {
			keys = append(keys, d.key(i))
		}
	}
	_, hi := d.span(n)
	for j := int64(0); len(keys) < pageRows; j++ {
		if down {
			keys = append(keys, edge-1-j)
		} else {
			keys = append(keys, hi+j)
		}
	}
	return keys
}

// crossed is how many dead rows a page lies over.
func (d *death) crossed(n int) int {
	if d.alive == 0 {
		return n
	}
	return min(n-n/d.alive, pageRows*(d.alive-1))
}

// scatter maps 0..n-1 onto itself, one to one; the factor is prime and larger than any n.
func scatter(i, n int) int { return int(uint64(i) * 2_654_435_761 % uint64(n)) }

func body(i int) cqlwire.Value {
	var b [bodyBytes]byte
	x := uint64(i)*0x9E3779B97F4A7C15 + 1
	for k := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[k] = 'a' + byte(x%26)
	}
	return cqlwire.Value{Bytes: b[:]}
}

// load inserts rows, in batches of a partition. TTL values, where wanted, come from ttl.
func (b *bench) load(ctx context.Context, p int64, n int, key func(int) int64, ttl func() int32) error {
	one := insertText
	if ttl != nil {
		one += " USING TTL ?"
	}
	values := func(dst []cqlwire.Value, i int) []cqlwire.Value {
		dst = append(dst, lab.Bigint(p), lab.Bigint(key(i)), body(i))
		if ttl != nil {
			dst = append(dst, lab.Int(ttl()))
		}
		return dst
	}
	whole := n / batchRows
	batch := "BEGIN UNLOGGED BATCH " + strings.Repeat(one+"; ", batchRows) + "APPLY BATCH"
	_, err := b.c.Many(ctx, inFlight, whole, batch, func(k int) []cqlwire.Value {
		out := make([]cqlwire.Value, 0, batchRows*4)
		for i := k * batchRows; i < (k+1)*batchRows; i++ {
			out = values(out, i)
		}
		return out
	})
	if err != nil {
		return err
	}
	_, err = b.c.Many(ctx, inFlight, n-whole*batchRows, one, func(i int) []cqlwire.Value { return values(nil, whole*batchRows+i) })
	return err
}

// prepare fills a partition for a death of n rows, and lets them die; the
// background's time has passed when it returns. first is how long a page took
// right after the last delete.
func (b *bench) prepare(ctx context.Context, d *death, p int64, n int) (first time.Duration, err error) {
	if err := b.load(ctx, p, edge, func(i int) int64 { return int64(i) }, nil); err != nil {
		return 0, err
	}
	_, hi := d.span(n)
	if err := b.load(ctx, p, edge, func(i int) int64 { return hi + int64(i) }, nil); err != nil {
		return 0, err
	}
	// All rows expire together, once the last is written.
	expiry := time.Now().Add(2*time.Second + time.Duration(n)*8*time.Microsecond)
	var ttl func() int32
	if d.ttl {
		ttl = func() int32 { return max(1, int32(time.Until(expiry)/time.Second)+1) }
	}
	if err := b.load(ctx, p, n, d.key, ttl); err != nil {
		return 0, err
	}
	if d.ttl {
		sleep(ctx, max(time.Until(expiry), 0)+2*time.Second)
	} else if n > 0 {
		if err := d.kill(ctx, b, d, p, n); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	if err := b.page(ctx, d, p, n, false); err != nil {
		return 0, err
	}
	first = time.Since(start)
	sleep(ctx, d.wait-first)
	return first, ctx.Err()
}

func killRows(shuffled bool) func(context.Context, *bench, *death, int64, int) error {
	return func(ctx context.Context, b *bench, d *death, p int64, n int) error {
		var dead []int
		for i := range n {
			if shuffled {
				i = scatter(i, n)
			}
			if !d.lives(i) {
				dead = append(dead, i)
			}
		}
		_, err := b.c.Many(ctx, inFlight, len(dead), deleteText, func(i int) []cqlwire.Value {
			return []cqlwire.Value{lab.Bigint(p), lab.Bigint(d.key(dead[i]))}
		})
		return err
	}
}

func killRanges(ctx context.Context, b *bench, d *death, p int64, n int) error {
	ranges := (n + rangeRows - 1) / rangeRows
	_, err := b.c.Many(ctx, inFlight, ranges, rangeText, func(i int) []cqlwire.Value {
		i = scatter(i, ranges)
		return []cqlwire.Value{lab.Bigint(p), lab.Bigint(d.key(i * rangeRows)), lab.Bigint(d.key(min(n, (i+1)*rangeRows)))}
	})
	return err
}

func killDisjoint(ctx context.Context, b *bench, d *death, p int64, n int) error {
	_, err := b.c.Many(ctx, inFlight, n, rangeText, func(i int) []cqlwire.Value {
		return []cqlwire.Value{lab.Bigint(p), lab.Bigint(d.key(i)), lab.Bigint(d.key(i) + 1)}
	})
	return err
}

// query is the page and its values.
func (d *death) query(p int64, n int, down bool) (string, []cqlwire.Value) {
	lo, hi := d.span(n)
	if down {
		return fmt.Sprintf("SELECT c, body FROM bench.pages WHERE p = ? AND c < ? ORDER BY c DESC LIMIT %d", pageRows),
			[]cqlwire.Value{lab.Bigint(p), lab.Bigint(hi)}
	}
	return fmt.Sprintf("SELECT c, body FROM bench.pages WHERE p = ? AND c >= ? LIMIT %d", pageRows),
		[]cqlwire.Value{lab.Bigint(p), lab.Bigint(lo)}
}

func (b *bench) page(ctx context.Context, d *death, p int64, n int, down bool) error {
	text, values := d.query(p, n, down)
	r, err := b.c.Exec(ctx, text, values...)
	if err != nil {
		return err
	}
	if r.Rows.Count != pageRows {
		return fmt.Errorf("a page over %d rows, %s, has %d rows, not %d", n, d.name, r.Rows.Count, pageRows)
	}
	return nil
}

// right checks the page's keys.
func (b *bench) right(ctx context.Context, d *death, p int64, n int, down bool) error {
	text, values := d.query(p, n, down)
	rows, err := b.c.Rows(ctx, text, 0, values...)
	if err != nil {
		return err
	}
	want := d.expected(n, down)
	for i, k := range want {
		if i >= len(rows) || string(rows[i][0]) != string(lab.Bigint(k).Bytes) {
			return fmt.Errorf("page over %d rows, %s, down=%v: row %d is not %d", n, d.name, down, i, k)
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
