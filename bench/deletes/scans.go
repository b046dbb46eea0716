package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"varve/internal/bench/lab"
	"varve/internal/cqlwire"
)

// ends makes a table of rows of which only the first and the last live, and
// counts and scans it beside one that has only ever had these two.
func (b *bench) ends(ctx context.Context) error {
	n := b.o.Rows
	for _, t := range []string{"ends", "two"} {
		if err := b.c.Do(ctx, "CREATE TABLE bench."+t+" (p bigint, c bigint, body text, PRIMARY KEY (p, c))"); err != nil {
			return err
		}
	}
	insert := func(table string, n int, key func(int) int64) error {
		_, err := b.c.Many(ctx, inFlight, n, "INSERT INTO bench."+table+" (p, c, body) VALUES (1, ?, ?)", func(i int) []cqlwire.Value {
			return []cqlwire.Value{lab.Bigint(key(i)), body(i)}
		})
		return err
	}
	if err := insert("ends", n, func(i int) int64 { return int64(i) }); err != nil {
		return err
	}
	if err := insert("two", 2, func(i int) int64 { return int64(i * (n - 1)) }); err != nil {
		return err
	}
	_, err := b.c.Many(ctx, inFlight, n-2, "DELETE FROM bench.ends WHERE p = 1 AND c = ?", func(i int) []cqlwire.Value {
		return []cqlwire.Value{lab.Bigint(int64(i + 1))}
	})
	if err != nil {
		return err
	}
	sleep(ctx, time.Second)
	t := &lab.Table{Title: fmt.Sprintf("%d rows of which the first and the last live", n), Head: []string{
		"state", "read", "p50", "with two rows ever", "p99", "with two rows ever", "longest pause", "verdict",
	}}
	for _, state := range []string{"at once", "flushed", "compacted", "restarted"} {
		if err := b.reach(ctx, state); err != nil {
			return err
		}
		for _, q := range []struct{ name, text string }{
			{"COUNT(*) of the table", "SELECT COUNT(*) FROM bench.%s"},
			{"COUNT(*) of the partition", "SELECT COUNT(*) FROM bench.%s WHERE p = 1"},
			{"scan of the table", "SELECT p, c, body FROM bench.%s"},
			{"scan of the partition, down", "SELECT p, c, body FROM bench.%s WHERE p = 1 ORDER BY c DESC"},
			{"DISTINCT partitions", "SELECT DISTINCT p FROM bench.%s"},
		} {
			if err := b.compareScans(ctx, t, state, q.name, q.text); err != nil {
				return err
			}
		}
	}
	return b.print(t)
}

func (b *bench) reach(ctx context.Context, state string) error {
	switch state {
	case "flushed":
		return b.srv.Flush(ctx, "bench")
	case "compacted":
		return b.srv.Compact(ctx, "bench")
	case "restarted":
		return b.stopAndStart(ctx)
	}
	return nil
}

// compareScans reads all pages of both tables in turn. The longest pause is the longest wait for any one page.
func (b *bench) compareScans(ctx context.Context, t *lab.Table, state, name, text string) error {
	var longest time.Duration
	scan := func(table string, pause *time.Duration) func(context.Context) error {
		text := fmt.Sprintf(text, table)
		return func(ctx context.Context) error {
			var paging []byte
			rows := 0
			for {
				start := time.Now()
				r, err := b.c.Page(ctx, text, 5000, paging)
				if err != nil {
					return err
				}
				if took := time.Since(start); pause != nil {
					*pause = max(*pause, took)
				}
				rows += r.Rows.Count
				if paging = r.Rows.PagingState; paging == nil {
					break
				}
			}
			if rows < 1 || rows > 2 {
				return fmt.Errorf("%s has %d rows", text, rows)
			}
			return nil
		}
	}
	if err := b.countsTwo(ctx); err != nil {
		return err
	}
	with, without, err := lab.Pair(ctx, max(50, b.o.Samples/10), scan("ends", &longest), scan("two", nil))
	if err != nil {
		return err
	}
	ok := ratio(with.P50, without.P50) <= maxMedian && ratio(with.P99, without.P99) <= maxP99
	t.Add(state, name, lab.Micros(with.P50), lab.Micros(without.P50), lab.Micros(with.P99), lab.Micros(without.P99), lab.Micros(longest),
		b.verdict(ok, "%s, %s over %d dead rows: p50 %s for %s, p99 %s for %s", name, state, b.o.Rows,
			lab.Micros(with.P50), lab.Micros(without.P50), lab.Micros(with.P99), lab.Micros(without.P99)))
	return nil
}

func (b *bench) countsTwo(ctx context.Context) error {
	rows, err := b.c.Rows(ctx, "SELECT COUNT(*) FROM bench.ends", 0)
	if err != nil {
		return err
	}
	if n := binary.BigEndian.Uint64(rows[0][0]); n != 2 {
		return fmt.Errorf("COUNT(*) is %d, not 2", n)
	}
	return nil
}

// flip changes an indexed column of some rows to and fro and reads by index.
func (b *bench) flip(ctx context.Context) error {
	const jobs = 1000
	flips := max(10_000, b.o.Rows/5)
	for _, t := range []string{"jobs", "calm"} {
		for _, text := range []string{
			"CREATE TABLE bench." + t + " (id bigint PRIMARY KEY, state text, body text)",
			"CREATE INDEX ON bench." + t + " (state)",
		} {
			if err := b.c.Do(ctx, text); err != nil {
				return err
			}
		}
		_, err := b.c.Many(ctx, inFlight, jobs, "INSERT INTO bench."+t+" (id, state, body) VALUES (?, 'ready', ?)", func(i int) []cqlwire.Value {
			return []cqlwire.Value{lab.Bigint(int64(i)), body(i)}
		})
		if err != nil {
			return err
		}
	}
	// Each round takes all to another state and back, one write each; one connection keeps a row's writes in order.
	set := func(state string) error {
		_, err := b.c.Many(ctx, inFlight, jobs, "UPDATE bench.jobs SET state = ? WHERE id = ?", func(i int) []cqlwire.Value {
			return []cqlwire.Value{lab.Text(state), lab.Bigint(int64(i))}
		})
		return err
	}
	start := time.Now()
	for range flips / jobs / 2 {
		for _, state := range []string{"taken", "ready"} {
			if err := set(state); err != nil {
				return err
			}
		}
	}
	took := time.Since(start)
	sleep(ctx, time.Second)
	read := func(table string) func(context.Context) error {
		text := "SELECT id, body FROM bench." + table + " WHERE state = 'ready' LIMIT 50"
		return func(ctx context.Context) error {
			r, err := b.c.Exec(ctx, text)
			if err == nil && r.Rows.Count != pageRows {
				err = fmt.Errorf("%s returns %d rows", text, r.Rows.Count)
			}
			return err
		}
	}
	none := func(table string) func(context.Context) error {
		text := "SELECT id FROM bench." + table + " WHERE state = 'taken' LIMIT 50"
		return func(ctx context.Context) error {
			r, err := b.c.Exec(ctx, text)
			if err == nil && r.Rows.Count != 0 {
				err = fmt.Errorf("%s returns %d rows", text, r.Rows.Count)
			}
			return err
		}
	}
	t := &lab.Table{
		Title: fmt.Sprintf("Indexed column of %d rows flipped %d times in all, at %.0f a second", jobs, flips, float64(flips)/took.Seconds()),
		Head:  []string{"state", "read by index", "p50", "never flipped p50", "p99", "never flipped p99", "verdict"},
	}
	for _, state := range []string{"at once", "flushed", "compacted", "restarted"} {
		if err := b.reach(ctx, state); err != nil {
			return err
		}
		for _, q := range []struct {
			name string
			read func(string) func(context.Context) error
		}{{"50 of those that match", read}, {"those that matched once", none}} {
			with, without, err := lab.Pair(ctx, max(100, b.o.Samples/5), q.read("jobs"), q.read("calm"))
			if err != nil {
				return err
			}
			ok := ratio(with.P50, without.P50) <= maxMedian && ratio(with.P99, without.P99) <= maxP99
			t.Add(state, q.name, lab.Micros(with.P50), lab.Micros(without.P50), lab.Micros(with.P99), lab.Micros(without.P99),
				b.verdict(ok, "index after %d flips, %s, %s: p50 %s for %s, p99 %s for %s", flips, q.name, state,
					lab.Micros(with.P50), lab.Micros(without.P50), lab.Micros(with.P99), lab.Micros(without.P99)))
		}
	}
	return b.print(t)
}
