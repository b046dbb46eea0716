package store

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestShuffledRangeDeletions puts many range deletions into one batch, in an
// order that makes a list that is kept sorted move at each of them, and many
// partitions into another.
func TestShuffledRangeDeletions(t *testing.T) {
	e := openEnv(t, Options{ManualBackground: true})
	n := 60_000
	if raceEnabled {
		n = 6_000
	}
	r := rand.New(rand.NewPCG(1, 2))
	b := e.s.NewBatch(e.now)
	for i, c := range r.Perm(n) {
		b.DeleteRange(e.tab, e.key(1), Slice{from(10 * c), past(10*c + 5)}, int64(100+i%3))
	}
	b.DeleteRange(e.tab, e.key(1), Slice{from(0), past(20)}, 50) // older than what lies in it
	e.apply(b)
	b = e.s.NewBatch(e.now)
	for _, p := range r.Perm(n / 10) {
		b.DeleteRange(e.tab, e.key(2+p), Slice{from(0), past(5)}, 100)
	}
	e.apply(b)
	for _, p := range []int{1, 2, n / 20} {
		for _, c := range []int{0, 4, 5, 9, 10, 10*n - 10, 10*n - 6, 10*n - 5} {
			e.insert(p, c, 99, "old")
		}
	}
	got, _ := e.show(1, RowQuery{})
	e.want(got, fmt.Sprintf("1|5:old 9:old %d:old", 10*n-5))
	b = e.s.NewBatch(e.now)
	b.Row(e.tab, e.key(1), [][]byte{be8(7)}).Marker(60, 0)
	b.Row(e.tab, e.key(1), [][]byte{be8(8)}).Marker(50, 0)
	e.apply(b)
	got, _ = e.show(1, RowQuery{Slices: []Slice{{from(0), from(9)}}})
	e.want(got, "1|5:old 7: 9:old")
	got, _ = e.show(n/20, RowQuery{Slices: []Slice{{from(0), from(10)}}})
	e.want(got, fmt.Sprintf("%d|5:old 9:old 10:old", n/20))
}

// TestWorkQueue joins tasks of one place and hands them out in order.
func TestWorkQueue(t *testing.T) {
	var q workQueue
	q.wake = make(chan struct{}, 1)
	sh, tbl := &shard{}, &table{}
	part := func(p, lo, hi string, sweep bool) *task {
		return &task{sh: sh, tbl: tbl, lo: []byte(p + lo), hi: []byte(p + hi), prefix: len(p), sweep: sweep, dead: 1}
	}
	for i := range maxTasks - 3 {
		if !q.add(part(fmt.Sprintf("p%06d", i), "b", "c", false)) {
			t.Fatalf("task %d refused", i)
		}
	}
	for _, x := range []*task{
		part("p000000", "a", "b", false), // joined
		part("p000000", "x", "y", true),
		{sh: sh, tbl: tbl, lo: []byte("p0"), hi: []byte("p1"), dead: 1},
		{sh: sh, tbl: tbl, lo: []byte("p01"), hi: []byte("p2"), dead: 1, walked: true}, // joined
		{sh: sh, tbl: tbl, lo: []byte("p3"), hi: []byte("p4"), dead: 1},
	} {
		if !q.add(x) {
			t.Fatalf("%s..%s refused", x.lo, x.hi)
		}
	}
	if q.add(part("q", "a", "b", false)) {
		t.Error("the queue has no bound")
	}
	x := q.take()
	if string(x.lo) != "p000000a" || string(x.hi) != "p000000c" || x.dead != 2 || x.sweep {
		t.Errorf("first task %s..%s, %d dead, sweep %v", x.lo, x.hi, x.dead, x.sweep)
	}
	if !q.add(part("p000000", "a", "b", false)) {
		t.Error("no room for the place of a task that was taken")
	}
	n := 0
	var last *task
	for x := q.take(); x != nil; x = q.take() {
		if n++; x.prefix == 0 && string(x.lo) == "p0" && (string(x.hi) != "p2" || x.dead != 2 || !x.walked) {
			t.Errorf("range task %s..%s, %d dead", x.lo, x.hi, x.dead)
		}
		last = x
	}
	if n != maxTasks || string(last.hi) != "p000000b" || len(q.parts) != 0 || len(q.ranges) != 0 {
		t.Errorf("%d tasks, the last one to %s; %d places left", n, last.hi, len(q.parts)+len(q.ranges))
	}
}
