package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"varve/internal/bench/lab"
	"varve/internal/cqlwire"
)

// rate inserts and deletes single rows in turn, a chunk of each at a time.
func (b *bench) rate(ctx context.Context) error {
	const chunk = 20_000
	rounds := max(2, min(20, b.o.Rows/chunk/2))
	p := b.part()
	if err := b.load(ctx, p, rounds*chunk, func(i int) int64 { return int64(i) }, nil); err != nil {
		return err
	}
	var insert, remove time.Duration
	q := b.part()
	for r := range rounds {
		took, err := b.c.Many(ctx, inFlight, chunk, insertText, func(i int) []cqlwire.Value {
			return []cqlwire.Value{lab.Bigint(q), lab.Bigint(int64(r*chunk + i)), body(i)}
		})
		if err != nil {
			return err
		}
		insert += took
		took, err = b.c.Many(ctx, inFlight, chunk, deleteText, func(i int) []cqlwire.Value {
			return []cqlwire.Value{lab.Bigint(p), lab.Bigint(int64(r*chunk + scatter(i, chunk)))}
		})
		if err != nil {
			return err
		}
		remove += took
	}
	n := float64(rounds * chunk)
	t := &lab.Table{Title: "Single-row writes, 64 in flight on one connection, inserts and deletes in turn", Head: []string{"", "a second", "verdict"}}
	t.Add("inserts", fmt.Sprintf("%.0f", n/insert.Seconds()), "")
	t.Add("deletes", fmt.Sprintf("%.0f", n/remove.Seconds()),
		b.verdict(remove <= insert, "deletes: %.0f a second, inserts %.0f", n/remove.Seconds(), n/insert.Seconds()))
	return b.print(t)
}

const (
	spaceBody = 500
	spaceWait = time.Minute
)

// space deletes in three ways and waits, idle, until the file system has the bytes back.
func (b *bench) space(ctx context.Context) error {
	n := max(20_000, b.o.Rows*3/10)
	t := &lab.Table{
		Title: "Bytes on disk after deletes, gc_grace of ten days, server idle",
		Head:  []string{"deleted", "data before", "of it dead", "returned after 1 min", "90 % of it after", "written meanwhile", "journals and the rest", "verdict"},
	}
	for i, k := range []struct {
		name string
		dead float64
		want float64 // share of the dead bytes: deletions of single rows stay
		kill func(ctx context.Context, table string, n int) error
	}{
		{"5 of 10 partitions", .5, .9, b.killPartitions},
		{"one range over half of a partition, each of 10", .5, .9, b.killHalves},
		{"9 of 10 rows, one by one, shuffled", .9, .85, b.killScattered},
	} {
		if err := b.returned(ctx, t, fmt.Sprintf("space%d", i), k.name, n, k.dead, k.want, k.kill); err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
	}
	return b.print(t)
}

func (b *bench) returned(ctx context.Context, t *lab.Table, table, name string, n int, dead, want float64,
	kill func(context.Context, string, int) error,
) error {
	base, err := b.settled(ctx)
	if err != nil {
		return err
	}
	if err := b.c.Do(ctx, "CREATE TABLE bench."+table+" (p bigint, c bigint, body blob, PRIMARY KEY (p, c))"); err != nil {
		return err
	}
	_, err = b.c.Many(ctx, inFlight, n, "INSERT INTO bench."+table+" (p, c, body) VALUES (?, ?, ?)", func(i int) []cqlwire.Value {
		noise := make([]byte, spaceBody)
		_, _ = rand.Read(noise) // never fails
		return []cqlwire.Value{lab.Bigint(int64(i % 10)), lab.Bigint(int64(i / 10)), {Bytes: noise}}
	})
	if err != nil {
		return err
	}
	full, err := b.settled(ctx)
	if err != nil {
		return err
	}
	if err := kill(ctx, table, n); err != nil {
		return err
	}
	wrote, err := lab.WrittenBy(b.srv.PID())
	if err != nil {
		return err
	}
	deadBytes := float64(full.Tables-base.Tables) * dead
	start, enough := time.Now(), time.Duration(0)
	var now lab.Disk
	for time.Since(start) < spaceWait && ctx.Err() == nil {
		sleep(ctx, 250*time.Millisecond)
		if now, err = lab.DiskOf(b.srv.DataDir()); err != nil {
			return err
		}
		if enough == 0 && float64(full.Tables-now.Tables) >= .9*deadBytes {
			enough = time.Since(start)
			if b.o.Rows < 1_000_000 {
				break
			}
		}
	}
	wrote2, err := lab.WrittenBy(b.srv.PID())
	if err != nil {
		return err
	}
	back := float64(full.Tables-now.Tables) / deadBytes
	after := "not within 1 min"
	if enough > 0 {
		after = fmt.Sprintf("%.1f s", enough.Seconds())
	}
	t.Add(name, lab.MB(full.Tables-base.Tables), lab.MB(int64(deadBytes)), fmt.Sprintf("%.0f %%", back*100), after, lab.MB(wrote2-wrote),
		lab.MB(now.Total-now.Tables), b.verdict(back >= want, "space after deleting %s: %.0f %% of the dead bytes came back in a minute", name, back*100))
	return ctx.Err()
}

// settled flushes and compacts, so that what is on disk is the rows' own.
func (b *bench) settled(ctx context.Context) (lab.Disk, error) {
	if err := b.srv.Flush(ctx, "bench"); err != nil {
		return lab.Disk{}, err
	}
	if err := b.srv.Compact(ctx, "bench"); err != nil {
		return lab.Disk{}, err
	}
	sleep(ctx, time.Second) // files that nobody reads any more are removed in the background
	return lab.DiskOf(b.srv.DataDir())
}

func (b *bench) killPartitions(ctx context.Context, table string, _ int) error {
	_, err := b.c.Many(ctx, 1, 5, "DELETE FROM bench."+table+" WHERE p = ?", func(i int) []cqlwire.Value {
		return []cqlwire.Value{lab.Bigint(int64(i * 2))}
	})
	return err
}

func (b *bench) killHalves(ctx context.Context, table string, n int) error {
	_, err := b.c.Many(ctx, 1, 10, "DELETE FROM bench."+table+" WHERE p = ? AND c < ?", func(i int) []cqlwire.Value {
		return []cqlwire.Value{lab.Bigint(int64(i)), lab.Bigint(int64(n / 20))}
	})
	return err
}

func (b *bench) killScattered(ctx context.Context, table string, n int) error {
	_, err := b.c.Many(ctx, inFlight, n/10*9, "DELETE FROM bench."+table+" WHERE p = ? AND c = ?", func(i int) []cqlwire.Value {
		i = scatter(i, n/10*9)
		k := i / 9 * 10 // nine of each ten
		return []cqlwire.Value{lab.Bigint(int64((k + i%9) % 10)), lab.Bigint(int64((k + i%9) / 10))}
	})
	return err
}
