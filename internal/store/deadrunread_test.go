package store_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"varve/internal/store"
)

// read checks pages in both directions, single rows, several slices and the
// whole partition, at the operation's clock and at one before it.
func (w *deadRunWorld) read(r *rand.Rand, now int64) error {
	if r.IntN(4) == 0 {
		now -= int64(r.IntN(12))
	}
	if err := w.compare(nil, r.IntN(2) == 0, 0, now); err != nil {
		return err
	}
	for range 12 {
		lo, hi := r.IntN(deadRows), r.IntN(deadRows)
		if lo > hi {
			lo, hi = hi, lo
		}
		ranges := [][2]int{{lo, hi}}
		switch r.IntN(4) {
		case 0:
			ranges = [][2]int{{lo, lo}}
		case 1:
			mid := (lo + hi) / 2
			if mid+2 < hi {
				ranges = [][2]int{{lo, mid}, {mid + 2, hi}}
			}
		}
		if err := w.compare(ranges, r.IntN(2) == 0, []int{0, 1, 50}[r.IntN(3)], now); err != nil {
			return err
		}
	}
	return nil
}

// compare reads up to limit rows (0: all) of some ranges and compares them with the array.
func (w *deadRunWorld) compare(ranges [][2]int, reverse bool, limit int, now int64) error {
	q := store.RowQuery{Reverse: reverse}
	for _, rg := range ranges {
		q.Slices = append(q.Slices, w.slice(rg[0], rg[1]))
	}
	if w.desc {
		slices.Reverse(q.Slices)
	}
	stats := &store.ReadStats{}
	v := w.st.View(store.ReadOptions{NowSec: now, Stats: stats})
	rows := v.Partition(w.table, w.key, q)
	var got []int
	for rows.NextPartition() {
		for (limit == 0 || len(got) < limit) && rows.Next() {
			got = append(got, int(binary.BigEndian.Uint32(rows.Row().Clustering()[0])))
		}
	}
	if err := errors.Join(rows.Close(), v.Close()); err != nil {
		return err
	}
	want := w.want(ranges, reverse, limit, now)
	if !slices.Equal(got, want) {
		return fmt.Errorf("ranges %v reverse=%v limit=%d now=%d: %s", ranges, reverse, limit, now, firstDifference(want, got))
	}
	if stats.Rows != int64(len(got)) {
		return fmt.Errorf("ranges %v reverse=%v limit=%d: %d rows returned, counted as %d", ranges, reverse, limit, len(got), stats.Rows)
	}
	return nil
}

func (w *deadRunWorld) want(ranges [][2]int, reverse bool, limit int, now int64) []int {
	if ranges == nil {
		ranges = [][2]int{{0, deadRows - 1}}
	}
	var out []int
	for _, rg := range ranges {
		for i := rg[0]; i <= rg[1]; i++ {
			if w.rows[i].live(now) {
				out = append(out, i)
			}
		}
	}
	if reverse != w.desc {
		slices.Reverse(out)
	}
	if limit > 0 && len(out) > limit {
		out = out[:limit]
	}
	return out
}

func firstDifference(want, got []int) string {
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("row %d is missing at the end (%d of %d returned)", want[i], len(got), len(want))
		case i >= len(want):
			return fmt.Sprintf("row %d returned after the last live one (%d live)", got[i], len(want))
		case want[i] != got[i]:
			return fmt.Sprintf("as row number %d, row %d returned instead of %d", i, got[i], want[i])
		}
	}
	return "equal"
}
