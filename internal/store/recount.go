package store

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// recountBook holds spans whose counts are estimates and that reads walk, since
// they have to count every tombstone.
type recountBook struct {
	mu    sync.Mutex
	spans map[*span]*table
}

const maxRecounts = 256

// ask notes a span to be counted anew.
func (b *recountBook) ask(tbl *table, x *span) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.spans == nil {
		b.spans = map[*span]*table{}
	}
	if len(b.spans) < maxRecounts {
		b.spans[x] = tbl
	}
}

func (b *recountBook) take() map[*span]*table {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.spans
	b.spans = nil
	return out
}

// recountAsked counts the spans that were asked for.
func (sh *shard) recountAsked(ctx context.Context) error {
	for x, tbl := range sh.recounts.take() {
		if err := sh.recount(ctx, tbl, x); err != nil {
			return err
		}
	}
	return nil
}

// recount replaces a span's estimates by what its rows say, unless something is
// written into it meanwhile. An intent over the span tells; it is not held by
// one pass, so that others go on between two steps of a long count.
func (sh *shard) recount(ctx context.Context, tbl *table, x *span) error {
	m := &tbl.parts[sh.idx].spans
	// The scan that asked may have joined it to others.
	m.mu.RLock()
	x = m.at(x.lo)
	m.mu.RUnlock()
	if x == nil || !x.estimated {
		return nil
	}
	set := sh.spanStripes(tbl, x)
	sh.lock(&set)
	in := m.begin([]byte(x.lo), []byte(x.hi))
	sh.unlock(&set)
	defer m.finish(in)
	var sum fate
	rows := int64(0)
	for cur := []byte(x.lo); cur != nil; {
		if err := ctx.Err(); err != nil {
			return err
		}
		next, n, err := sh.countDead(tbl, cur, []byte(x.hi), &sum)
		if err != nil || sum.live {
			return err
		}
		rows += n
		cur = next
	}
	sh.lock(&set)
	defer sh.unlock(&set)
	sh.spanMu.Lock()
	defer sh.spanMu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	written, ok := in.all()
	o := m.at(x.lo)
	if !ok || len(written) > 0 || o == nil || o.lo != x.lo || o.hi != x.hi || o.purged || !o.estimated || rows == 0 {
		return nil // a read asks again
	}
	y := *o
	y.rows, y.tombs, y.estimated = rows, sum.tombs, false
	y.newest, y.bound, y.expiry = sum.newest, sum.newest, sum.expiry
	pb := sh.db.NewBatch()
	if err := putSpan(pb, &y); err != nil {
		return errors.Join(err, pb.Close())
	}
	if err := errors.Join(sh.write(pb, pebble.NoSync), pb.Close()); err != nil {
		return err
	}
	c, i := m.locate(y.lo)
	m.chunks[c][i] = &y
	sh.s.metrics.recounted.Add(1)
	return nil
}

// countDead adds some rows from cur to sum; next is where to go on. It gives up
// at a row that is live by this clock.
func (sh *shard) countDead(tbl *table, cur, hi []byte, sum *fate) (next []byte, rows int64, err error) {
	sh.s.passMu.Lock()
	defer sh.s.passMu.Unlock()
	sc, err := sh.newScan(tbl, cur, hi)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, sc.close()) }()
	for valid := sc.it.First(); valid; valid = sc.it.Next() {
		if rows == scanRows {
			return slices.Clone(sc.it.Key()), rows, nil
		}
		f, err := sc.fate(sc.it.Key())
		if err != nil {
			return nil, rows, err
		}
		rows++
		sum.live = sum.live || f.live
		sum.tombs += f.tombs
		sum.newest, sum.expiry = max(sum.newest, f.newest), max(sum.expiry, f.expiry)
	}
	return nil, rows, sc.it.Error()
}
