package move

import (
	"context"
	"errors"
	"fmt"
)

// copyAhead is how many chunks of a table are read ahead of what is written.
const copyAhead = 3

// copier brings the rows that were there before the stream into the sink.
type copier struct {
	f   *flow
	lim *limiter
}

// run copies all tables from where they stand, in the file's order. It can be
// called again after any error.
func (c *copier) run(ctx context.Context) error {
	for t := range c.f.tables {
		if err := c.ranges(ctx, t); err != nil {
			return fmt.Errorf("copy %s: %w", c.f.tables[t].Name, err)
		}
		if err := c.rereads(ctx, t); err != nil {
			return fmt.Errorf("copy %s: %w", c.f.tables[t].Name, err)
		}
	}
	return nil
}

func (f *flow) frontierOf(table int) frontier {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.copied[table]
}

// ready waits until the flow runs, for its progress is known only then.
func (f *flow) ready(ctx context.Context) error {
	for {
		f.mu.Lock()
		running, news := f.running, f.news
		f.mu.Unlock()
		if running {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-news:
		}
	}
}

func (c *copier) ranges(ctx context.Context, table int) error {
	if err := c.f.ready(ctx); err != nil {
		return err
	}
	next := c.f.frontierOf(table)
	var queue []*chunk
	for {
		for !next.done && len(queue) < copyAhead {
			k, err := c.send(ctx, table, next)
			if err != nil {
				return err
			}
			queue, next = append(queue, k), k.upto
		}
		if len(queue) == 0 {
			return nil
		}
		first := queue[0]
		queue = queue[1:]
		err := first.wait(ctx)
		if errors.Is(err, errVoid) {
			for _, k := range queue {
				if err := k.wait(ctx); err != nil && !errors.Is(err, errVoid) {
					return err
				}
			}
			if err := c.f.ready(ctx); err != nil {
				return err
			}
			queue, next = nil, c.f.frontierOf(table)
			continue
		}
		if err != nil {
			return err
		}
		c.lim.copied(len(first.rows))
	}
}

// send reads the rows after the frontier and sends them.
func (c *copier) send(ctx context.Context, table int, at frontier) (*chunk, error) {
	n := c.lim.chunkRows()
	if err := c.lim.wait(ctx, n); err != nil {
		return nil, err
	}
	f := c.f
	var from Row
	if at.key != nil {
		key, _, err := DecodeRow(at.key, len(f.tables[table].Key))
		if err != nil {
			return nil, err
		}
		from = key
	}
	k := &chunk{kind: chunkRange, table: table, after: at.key}
	err := f.send(ctx, k, func(ctx context.Context) error {
		rows, err := f.from.Read(ctx, table, Range{From: from}, n)
		if err != nil {
			return fmt.Errorf("read rows: %w", err)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		k.rows = rows
		k.upto = frontier{done: len(rows) < n, rows: at.rows + int64(len(rows))}
		if !k.upto.done {
			k.upto.key = EncodeRow(nil, f.tables[table].KeyOf(rows[len(rows)-1]))
		}
		return nil
	})
	return k, err
}

// rereads copies the rows whose changes did not tell them whole.
func (c *copier) rereads(ctx context.Context, table int) error {
	f := c.f
	for {
		f.mu.Lock()
		var ids []rowID
		for id := range f.rereads {
			if id.table == table && len(ids) < 500 {
				ids = append(ids, id)
			}
		}
		f.mu.Unlock()
		if len(ids) == 0 {
			return nil
		}
		if err := c.lim.wait(ctx, len(ids)); err != nil {
			return err
		}
		if _, err := f.sendKeys(ctx, chunkReread, table, ids, false); err != nil && !errors.Is(err, errVoid) {
			return err
		}
	}
}

// copiedAll reports whether every table is copied.
func (f *flow) copiedAll() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for t := range f.tables {
		if !f.copied[t].done {
			return false
		}
	}
	return len(f.rereads) == 0
}
