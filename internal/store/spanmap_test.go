package store

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSpanMapModel drives a span map and a plain list of dead keys alike: a
// key that is not dead may never be covered, and what next and prev return is
// what a walk over the list would find.
func TestSpanMapModel(t *testing.T) {
	e := openEnv(t, Options{ManualBackground: true})
	sh := e.s.shards[0]
	const n = 400
	prefix := string(appendPartition(nil, e.tab.PhysID, familyRow, e.key(1)))
	key := func(i int) string { return prefix + fmt.Sprintf("\x10%04d", i) }
	rapid.Check(t, func(t *rapid.T) {
		m := &spanMap{store: e.s}
		dead := make([]bool, n)
		epochs := make([]uint64, n)
		epoch := uint64(0)
		pb := sh.db.NewBatch()
		defer pb.Close()
		for range rapid.IntRange(1, 60).Draw(t, "ops") {
			i := rapid.IntRange(0, n-1).Draw(t, "key")
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0: // publish a run, replacing what it touches
				j := min(n-1, i+rapid.IntRange(minPieceRows, 120).Draw(t, "len"))
				epoch++
				x := &span{lo: key(i), hi: key(j) + "\x00", rows: int64(j - i + 1), newest: 5, bound: 5, epoch: epoch}
				for _, o := range m.removeLocked(x.lo, x.hi) {
					x.lo, x.hi = min(x.lo, o.lo), max(x.hi, o.hi)
				}
				m.insertLocked(x)
				for k := range n {
					if x.lo <= key(k) && key(k) < x.hi {
						dead[k], epochs[k] = true, epoch
					}
				}
			case 1: // a row comes to life
				if err := m.written(pb, []byte(key(i)), true, 7); err != nil {
					t.Fatal(err)
				}
				dead[i] = false
			case 2: // a newer tombstone
				if err := m.written(pb, []byte(key(i)), false, int64(i)); err != nil {
					t.Fatal(err)
				}
				if x := m.at(key(i)); x != nil && (x.newest < int64(i) || x.bound < x.newest) {
					t.Fatalf("tombstone at %d in a span of newest %d, bound %d", i, x.newest, x.bound)
				}
			default:
				e := rapid.Uint64Range(0, epoch).Draw(t, "epoch")
				if x := m.next([]byte(key(i)), e, 0); x != nil && (x.epoch > e || x.hi <= key(i)) {
					t.Fatalf("next of %d at epoch %d is %+v", i, e, x)
				}
				if x := m.prev([]byte(key(i)), e, 0); x != nil && (x.epoch > e || x.lo > key(i)) {
					t.Fatalf("prev of %d at epoch %d is %+v", i, e, x)
				}
			}
			check(t, m, dead, key)
		}
	})
	if got := e.s.spanBytes.Load(); got < 0 {
		t.Fatalf("span bytes %d", got)
	}
}

func check(t *rapid.T, m *spanMap, dead []bool, key func(int) string) {
	var all []*span
	for _, c := range m.chunks {
		if len(c) == 0 || len(c) > spanChunk {
			t.Fatalf("chunk of %d", len(c))
		}
		all = append(all, c...)
	}
	if int64(len(all)) != m.n.Load() || m.busy.Load() != m.n.Load() {
		t.Fatalf("%d spans, counted %d and %d", len(all), m.n.Load(), m.busy.Load())
	}
	if !slices.IsSortedFunc(all, func(a, b *span) int {
		if a.hi <= b.lo {
			return -1
		}
		return 1
	}) {
		t.Fatal("spans overlap or are out of order")
	}
	for k := range dead {
		x := m.at(key(k))
		if x != nil && !dead[k] {
			t.Fatalf("live key %d lies in a span", k)
		}
		c := m.at(key(k)) != nil
		if c != (x != nil) {
			t.Fatal("covers and at disagree")
		}
		var first, last *span
		for _, o := range all {
			if o.hi > key(k) && first == nil {
				first = o
			}
			if o.lo <= key(k) {
				last = o
			}
		}
		if got := m.next([]byte(key(k)), ^uint64(0), 0); got != first {
			t.Fatalf("next of %d: %v, want %v", k, got, first)
		}
		if got := m.prev([]byte(key(k)), ^uint64(0), 0); got != last {
			t.Fatalf("prev of %d: %v, want %v", k, got, last)
		}
	}
}
