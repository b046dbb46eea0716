package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"varve/internal/bench/lab"
	"varve/internal/cqlwire"
	"varve/internal/upstream"
)

// extra is a load of its own with a check of its own: it steps, and after a
// kill makes sure of what it does not know.
type extra struct {
	name   string
	every  time.Duration
	step   func(ctx context.Context, x *conn) error
	settle func(ctx context.Context, x *conn) error
}

// conn is the connection of an extra, made anew after each kill.
type conn struct {
	*lab.Client
	rng *rand.Rand
}

func (s *soak) extras(ctx context.Context, wg *sync.WaitGroup) {
	for i, e := range []*extra{s.queue(), s.ttlQueue(), s.counter(), s.cas(), s.truncation()} {
		wg.Go(func() { s.runExtra(ctx, e, uint64(i)) })
	}
}

func (s *soak) runExtra(ctx context.Context, e *extra, i uint64) {
	x := &conn{rng: rand.New(rand.NewPCG(s.o.Seed, 1000+i))}
	gen := -1
	for ctx.Err() == nil {
		pause(ctx, e.every)
		err := func() error {
			// An operation is not cut off by the end of the soak.
			octx, cancel := context.WithTimeout(context.WithoutCancel(ctx), opDeadline)
			defer cancel()
			if x.Client == nil {
				c, g, err := s.connect(ctx)
				if err != nil {
					return err
				}
				x.Client, gen = c, g
				if err := e.settle(octx, x); err != nil {
					return err
				}
			}
			if err := e.step(octx, x); err != nil {
				return hung(err, e.name)
			}
			s.acked.Add(1)
			return nil
		}()
		switch {
		case err == nil || ctx.Err() != nil:
		case gone(err) && s.ended(gen):
			if x.Client != nil {
				_ = x.Close()
				x.Client = nil
			}
		default:
			s.violation("%s: %v", e.name, err)
			return
		}
	}
	if x.Client != nil {
		_ = x.Close()
	}
}

// queue pushes at one end and pops with LIMIT 1 at the other, in order.
func (s *soak) queue() *extra {
	const q, depth = 1, 500
	var next int64
	var have []int64    // acknowledged, in order
	var unsure [2]int64 // an id that may be there or not, and 1 if one is
	head := func(ctx context.Context, x *conn) (int64, error) {
		start := time.Now()
		cells, err := x.Rows(ctx, "SELECT id, body FROM soak.queue WHERE q = ? LIMIT 1", 0, lab.Int(q))
		if err != nil {
			return 0, err
		}
		s.reads.note(time.Since(start))
		if len(cells) == 0 {
			return -1, nil
		}
		return int64(binary.BigEndian.Uint64(cells[0][0])), nil
	}
	pop := func(ctx context.Context, x *conn, id int64) error {
		_, err := x.Exec(ctx, "DELETE FROM soak.queue WHERE q = ? AND id = ?", lab.Int(q), lab.Bigint(id))
		return err
	}
	return &extra{
		name: "queue", every: 10 * time.Millisecond,
		settle: func(ctx context.Context, x *conn) error {
			cells, err := x.Rows(ctx, "SELECT id FROM soak.queue WHERE q = ?", 200, lab.Int(q))
			if err != nil {
				return err
			}
			var ids []int64
			for _, c := range cells {
				if id := int64(binary.BigEndian.Uint64(c[0])); unsure[1] == 0 || id != unsure[0] {
					ids = append(ids, id)
				}
			}
			if fmt.Sprint(ids) != fmt.Sprint(have) {
				return fmt.Errorf("after a restart the queue holds %v, not %v", ids, have)
			}
			if unsure[1] == 0 {
				return nil
			}
			err = pop(ctx, x, unsure[0])
			if err == nil {
				unsure[1] = 0
			}
			return err
		},
		step: func(ctx context.Context, x *conn) error {
			if len(have) < depth || x.rng.IntN(2) == 0 && len(have) < 2*depth {
				next++
				unsure = [2]int64{next, 1}
				if _, err := x.Exec(ctx, "INSERT INTO soak.queue (q, id, body) VALUES (?, ?, ?)",
					lab.Int(q), lab.Bigint(next), lab.Text(strings.Repeat("q", 100))); err != nil {
					return err
				}
				unsure[1] = 0
				have = append(have, next)
				return nil
			}
			id, err := head(ctx, x)
			if err != nil {
				return err
			}
			if id != have[0] {
				return fmt.Errorf("the head is %d, not %d", id, have[0])
			}
			have = have[1:]
			unsure = [2]int64{id, 1}
			if err := pop(ctx, x, id); err != nil {
				return err
			}
			unsure[1] = 0
			return nil
		},
	}
}

// ttlQueue writes rows that expire and polls the head, which must be the oldest that has not.
func (s *soak) ttlQueue() *extra {
	const q, ttl = 1, 5
	type entry struct{ id, from, to int64 }
	var next int64
	var have []entry // from oldest; those surely expired are dropped
	look := func(ctx context.Context, x *conn) error {
		t0 := time.Now()
		cells, err := x.Rows(ctx, "SELECT id FROM soak.ttlqueue WHERE q = ? LIMIT 1", 0, lab.Int(q))
		if err != nil {
			return err
		}
		s.reads.note(time.Since(t0))
		head := int64(1 << 62)
		if len(cells) > 0 {
			head = int64(binary.BigEndian.Uint64(cells[0][0]))
		}
		for len(have) > 0 && have[0].to <= t0.Unix() {
			if head == have[0].id {
				return fmt.Errorf("RISEN: the head is %d, which expired at %d, at %d", head, have[0].to, t0.Unix())
			}
			have = have[1:]
		}
		// The oldest that surely lives bounds the head.
		for _, e := range have {
			if time.Now().Unix() < e.from {
				if head > e.id {
					return fmt.Errorf("LOST: the head is %d, while %d lives until %d", head, e.id, e.from)
				}
				break
			}
		}
		return nil
	}
	return &extra{
		name: "ttl queue", every: 5 * time.Millisecond, settle: look,
		step: func(ctx context.Context, x *conn) error {
			next++
			sent := time.Now().Unix()
			if _, err := x.Exec(ctx, "INSERT INTO soak.ttlqueue (q, id, body) VALUES (?, ?, ?) USING TTL ?",
				lab.Int(q), lab.Bigint(next), lab.Text("ttl"), lab.Int(ttl)); err != nil {
				return err
			}
			have = append(have, entry{next, sent + ttl, time.Now().Unix() + ttl})
			return look(ctx, x)
		},
	}
}

// counter increments; what is not acknowledged may have counted.
func (s *soak) counter() *extra {
	const keys = 8
	var low, high [keys]int64
	check := func(ctx context.Context, x *conn, k int32) error {
		cells, err := x.Rows(ctx, "SELECT n FROM soak.counts WHERE k = ?", 0, lab.Int(k))
		if err != nil {
			return err
		}
		var n int64
		if len(cells) > 0 {
			n = int64(binary.BigEndian.Uint64(cells[0][0]))
		}
		if n < low[k] || n > high[k] {
			return fmt.Errorf("WRONG: counter %d is %d, not %d to %d", k, n, low[k], high[k])
		}
		low[k], high[k] = n, n
		return nil
	}
	return &extra{
		name: "counters", every: 20 * time.Millisecond,
		settle: func(ctx context.Context, x *conn) error {
			for k := range int32(keys) {
				if err := check(ctx, x, k); err != nil {
					return err
				}
			}
			return nil
		},
		step: func(ctx context.Context, x *conn) error {
			k := x.rng.Int32N(keys)
			high[k]++
			if _, err := x.Exec(ctx, "UPDATE soak.counts SET n = n + 1 WHERE k = ?", lab.Int(k)); err != nil {
				return err
			}
			low[k]++
			return check(ctx, x, k)
		},
	}
}

// cas inserts, increments and deletes rows conditionally.
func (s *soak) cas() *extra {
	const keys = 16
	const absent = -1
	var have [keys]int32
	var maybe [keys][]int32 // what an unanswered change may have left
	for k := range have {
		have[k] = absent
	}
	settle := func(ctx context.Context, x *conn) error {
		for k := range int32(keys) {
			cells, err := x.Rows(ctx, "SELECT n FROM soak.cas WHERE k = ?", 0, lab.Int(k))
			if err != nil {
				return err
			}
			n := int32(absent)
			if len(cells) > 0 {
				n = int32(binary.BigEndian.Uint32(cells[0][0]))
			}
			ok := n == have[k]
			for _, m := range maybe[k] {
				ok = ok || n == m
			}
			if !ok {
				return fmt.Errorf("WRONG: the conditional row %d is %d, not %d or %v", k, n, have[k], maybe[k])
			}
			have[k], maybe[k] = n, nil
		}
		return nil
	}
	return &extra{
		name: "conditional updates", every: 20 * time.Millisecond, settle: settle,
		step: func(ctx context.Context, x *conn) error {
			k := x.rng.Int32N(keys)
			text, values, to := "INSERT INTO soak.cas (k, n) VALUES (?, 0) IF NOT EXISTS", []cqlwire.Value{lab.Int(k)}, int32(0)
			if have[k] != absent {
				text, values, to = "UPDATE soak.cas SET n = ? WHERE k = ? IF n = ?", []cqlwire.Value{lab.Int(have[k] + 1), lab.Int(k), lab.Int(have[k])}, have[k]+1
				if x.rng.IntN(3) == 0 {
					text, values, to = "DELETE FROM soak.cas WHERE k = ? IF EXISTS", []cqlwire.Value{lab.Int(k)}, absent
				}
			}
			maybe[k] = append(maybe[k], to)
			r, err := x.Exec(ctx, text, values...)
			if err != nil {
				return err
			}
			if !applied(r) {
				return fmt.Errorf("WRONG: %s was not applied to row %d, which is %d", text, k, have[k])
			}
			have[k], maybe[k] = to, nil
			return nil
		},
	}
}

func applied(r *upstream.Result) bool {
	cells, _, err := r.Rows.Row(nil, r.Rows.Data)
	return err == nil && r.Rows.Count == 1 && len(cells) > 0 && len(cells[0]) == 1 && cells[0][0] == 1
}

// truncation fills a table and empties it.
func (s *soak) truncation() *extra {
	truncate := func(ctx context.Context, x *conn) error {
		if err := x.Do(ctx, "TRUNCATE soak.cut"); err != nil {
			return err
		}
		return countCut(ctx, x, 0)
	}
	return &extra{
		name: "truncate", every: 3 * time.Second, settle: truncate,
		step: func(ctx context.Context, x *conn) error {
			n := 1 + x.rng.IntN(100)
			for k := range n {
				if _, err := x.Exec(ctx, "INSERT INTO soak.cut (k, n) VALUES (?, 1)", lab.Int(int32(k))); err != nil {
					return err
				}
			}
			if err := countCut(ctx, x, n); err != nil {
				return err
			}
			return truncate(ctx, x)
		},
	}
}

func countCut(ctx context.Context, x *conn, want int) error {
	cells, err := x.Rows(ctx, "SELECT COUNT(*) FROM soak.cut", 0)
	if err != nil {
		return err
	}
	if n := int(binary.BigEndian.Uint64(cells[0][0])); n != want {
		return fmt.Errorf("WRONG: the table that is truncated has %d rows, not %d", n, want)
	}
	return nil
}
