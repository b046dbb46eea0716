package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"varve/internal/schema"
	"varve/internal/store"
	"varve/internal/vtest"
)

// check reads in many ways and compares each answer with the model's. The
// clock of a read may lie before or after that of the writes.
func (w *world) check(r *rand.Rand, now int64) error {
	if r.IntN(3) == 0 {
		now += int64(r.IntN(31)) - 15
		if w.o.gcGrace != 0 {
			now = max(now, w.clock.Load())
		}
	}
	g := vtest.NewGen(r)
	for range 4 {
		t := w.tables[r.IntN(len(w.tables))]
		key := g.Key(t)
		all := store.RowQuery{Reverse: r.IntN(2) == 0}
		if err := w.checkPartition(t, key, all, now); err != nil {
			return err
		}
		for range 4 {
			if err := w.checkPartition(t, key, g.Query(t), now); err != nil {
				return err
			}
		}
	}
	t := w.tables[r.IntN(len(w.tables))]
	tr := w.tokenRange(r, g, t)
	q := g.Query(t)
	q.StaticOnly = r.IntN(5) == 0
	if q.StaticOnly {
		q.Slices, q.NoStatic = nil, false
	}
	if err := w.checkRange(w.st, t, tr, q, nil, now); err != nil {
		return err
	}
	if q.StaticOnly {
		return nil
	}
	if len(q.Slices) > 1 {
		q.Slices = q.Slices[:1]
	}
	return w.checkPages(t, tr, q, 1+r.IntN(4), now)
}

// tokenRange has random ends, most of them at the token of a partition.
func (w *world) tokenRange(r *rand.Rand, g *vtest.Gen, t *schema.Table) store.TokenRange {
	token := func() int64 {
		k, err := store.KeyOf(t, g.Key(t))
		if err != nil {
			panic(err)
		}
		return k.Token + int64(r.IntN(3)) - 1
	}
	tr := store.TokenRange{
		StartToken: token(), EndToken: token(),
		StartInclusive: r.IntN(2) == 0, EndInclusive: r.IntN(2) == 0,
		StartUnbounded: r.IntN(2) == 0, EndUnbounded: r.IntN(2) == 0,
	}
	if r.IntN(4) == 0 {
		k, err := store.KeyOf(t, g.Key(t))
		if err != nil {
			panic(err)
		}
		if r.IntN(2) == 0 {
			tr.From = &k
		} else {
			tr.After = &k
		}
	}
	return tr
}

func readPartition(st *store.Store, t *schema.Table, key [][]byte, q store.RowQuery, now int64) ([]vtest.PartState, error) {
	k, err := store.KeyOf(t, key)
	if err != nil {
		return nil, err
	}
	v := st.View(store.ReadOptions{NowSec: now, Stats: &store.ReadStats{}})
	parts, err := vtest.Collect(t, v.Partition(t, k, q))
	return parts, errors.Join(err, v.Close())
}

func (w *world) checkPartition(t *schema.Table, key [][]byte, q store.RowQuery, now int64) error {
	got, err := readPartition(w.st, t, key, q, now)
	if err != nil {
		return err
	}
	var want []vtest.PartState
	if p, ok := w.model.Partition(t, key, q, now); ok {
		want = append(want, p)
	}
	if d := vtest.Diff(want, got); d != "" {
		return fmt.Errorf("read of %s %x now=%d %s: %s", t.Name, key, now, queryString(q), d)
	}
	return nil
}

func (w *world) checkRange(st *store.Store, t *schema.Table, tr store.TokenRange, q store.RowQuery, first []store.Slice, now int64) error {
	v := st.View(store.ReadOptions{NowSec: now, Stats: &store.ReadStats{}})
	got, err := vtest.Collect(t, v.Range(t, tr, q, first))
	if err = errors.Join(err, v.Close()); err != nil {
		return err
	}
	if d := vtest.Diff(w.model.Range(t, tr, q, first, now), got); d != "" {
		return fmt.Errorf("range %+v of %s now=%d %s: %s", tr, t.Name, now, queryString(q), d)
	}
	return nil
}

// checkPages reads a range a few rows at a time, each page from a view of its
// own, and compares what the pages give together.
func (w *world) checkPages(t *schema.Table, tr store.TokenRange, q store.RowQuery, size int, now int64) error {
	var got []vtest.PartState
	var first []store.Slice
	at := tr
	for pages := 0; ; pages++ {
		if pages > 10_000 {
			return fmt.Errorf("paging %+v of %s does not end", tr, t.Name)
		}
		v := w.st.View(store.ReadOptions{NowSec: now, Stats: &store.ReadStats{}})
		page, full, last, err := readPage(t, v.Range(t, at, q, first), size)
		if err = errors.Join(err, v.Close()); err != nil {
			return err
		}
		got = joinPages(got, page)
		if !full {
			break
		}
		at.From, at.After, first = nil, nil, nil
		if rows := page[len(page)-1].Rows; len(rows) > 0 && len(t.Clustering) > 0 {
			at.From, first = &last, rest(q, rows[len(rows)-1].Clustering)
		} else {
			at.After = &last
		}
	}
	if d := vtest.Diff(w.model.Range(t, tr, q, nil, now), got); d != "" {
		return fmt.Errorf("pages of %d, range %+v of %s now=%d %s: %s", size, tr, t.Name, now, queryString(q), d)
	}
	return nil
}

// readPage reads up to size rows; a partition with nothing but a static row counts as one.
func readPage(t *schema.Table, rows *store.Rows, size int) (page []vtest.PartState, full bool, last store.Key, err error) {
	for n := 0; n < size && rows.NextPartition(); {
		p := vtest.ObservePartition(t, rows)
		for n < size && rows.Next() {
			p.Rows = append(p.Rows, vtest.Observe(t, rows.Row()))
			n++
		}
		if len(p.Rows) == 0 {
			n++
		}
		page = append(page, p)
		full = n >= size
	}
	if full {
		if last, err = store.KeyOf(t, page[len(page)-1].Key); err != nil {
			return nil, false, last, err
		}
	}
	return page, full, last, rows.Close()
}

// rest is what a query has left behind a row.
func rest(q store.RowQuery, ck [][]byte) []store.Slice {
	s := store.Slice{}
	if len(q.Slices) > 0 {
		s = q.Slices[0]
	}
	if q.Reverse {
		s.End = store.Bound{Prefix: ck}
	} else {
		s.Start = store.Bound{Prefix: ck}
	}
	return []store.Slice{s}
}

// joinPages appends a page; its first partition may go on with the last one.
func joinPages(all, page []vtest.PartState) []vtest.PartState {
	for _, p := range page {
		if n := len(all); n > 0 && fmt.Sprint(all[n-1].Key) == fmt.Sprint(p.Key) {
			all[n-1].Rows = append(all[n-1].Rows, p.Rows...)
			continue
		}
		all = append(all, p)
	}
	return all
}

func queryString(q store.RowQuery) string {
	s := fmt.Sprintf("reverse=%v staticOnly=%v noStatic=%v", q.Reverse, q.StaticOnly, q.NoStatic)
	for _, sl := range q.Slices {
		s += " " + vtest.SliceString(sl)
	}
	return s
}
