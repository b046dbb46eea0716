package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// diskEnv is a store whose files can be weighed; bodies do not compress.
type diskEnv struct {
	*env
	mem *vfs.MemFS
	r   *rand.Rand
	at  time.Time // the background's clock
}

func openDisk(t *testing.T) *diskEnv {
	mem := vfs.NewMem()
	d := &diskEnv{mem: mem, r: rand.New(rand.NewPCG(3, 4)), at: time.Now()}
	d.env = openEnv(t, Options{ManualBackground: true, FS: mem, Durability: Periodic, ReclaimRate: 1 << 40})
	return d
}

// fill inserts rows from to to of a partition with bodies of some bytes.
func (d *diskEnv) fill(p, from, to, bytes int, ttl int32) {
	d.t.Helper()
	body := make([]byte, bytes)
	for c := from; c < to; {
		b := d.s.NewBatch(d.now)
		for end := min(to, c+500); c < end; c++ {
			for i := range body {
				body[i] = byte(d.r.Uint32())
			}
			r := b.Row(d.tab, d.key(p), [][]byte{be8(c)})
			r.Marker(10, ttl)
			r.Set(d.tab.Columns["body"], 10, ttl, body)
		}
		d.apply(b)
	}
}

// merged brings everything into the deepest level, as an old store has it.
func (d *diskEnv) merged() {
	d.t.Helper()
	if err := d.s.shards[0].compactRange(context.Background(), []byte{0}, []byte{0xff}); err != nil {
		d.t.Fatal(err)
	}
}

// tableBytes is the size of the engine's tables on disk, those that are no longer used included.
func (d *diskEnv) tableBytes() int64 {
	d.t.Helper()
	names, err := d.mem.List("data/" + dataSubdir)
	if err != nil {
		d.t.Fatal(err)
	}
	n := int64(0)
	for _, name := range names {
		if len(name) < 4 || name[len(name)-4:] != ".sst" {
			continue
		}
		st, err := d.mem.Stat("data/" + dataSubdir + "/" + name)
		if err != nil {
			continue
		}
		n += st.Size()
	}
	return n
}

// ticks drives the background for so many seconds of its own clock.
func (d *diskEnv) ticks(n int) {
	d.t.Helper()
	ctx := context.Background()
	for _, sh := range d.s.shards {
		sh.pending.flush(sh, true)
	}
	d.s.drain(ctx)
	for range n {
		d.at = d.at.Add(time.Second)
		if err := d.s.reclaimTick(ctx, d.at, false); err != nil {
			d.t.Fatal(err)
		}
	}
	d.settle()
}

// settle waits for the engine's own compactions and its removal of files.
func (d *diskEnv) settle() {
	d.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		m := d.s.shards[0].db.Metrics()
		if m.Compact.NumInProgress == 0 && m.Table.ObsoleteCount == 0 && m.Table.ZombieCount == 0 {
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("the engine does not come to rest: %d compactions, %d obsolete tables", m.Compact.NumInProgress, m.Table.ObsoleteCount)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// TestSpaceComesBack deletes most of a store in every way and weighs its files
// after a minute of the background's clock: the dead bytes are gone, and
// nothing but tombstones came for them.
func TestSpaceComesBack(t *testing.T) {
	const rows, bytes = 8_000, 1000 // 8 MB in partition 1, as much in 2 to 201
	for _, c := range []struct {
		name string
		kill func(d *diskEnv)
		dead int64 // bytes that must go
		left int64 // rows of partition 1 that stay
	}{
		{"rows in order", func(d *diskEnv) {
			for c := range rows {
				d.deleteRow(1, c, 11)
			}
		}, rows * bytes, 0},
		{"rows shuffled", func(d *diskEnv) {
			for _, c := range d.r.Perm(rows) {
				d.deleteRow(1, c, 11)
			}
		}, rows * bytes, 0},
		{"nine of ten rows", func(d *diskEnv) {
			for _, c := range d.r.Perm(rows) {
				if c%10 != 0 {
					d.deleteRow(1, c, 11)
				}
			}
		}, rows * bytes * 9 / 10, rows / 10},
		{"one range", func(d *diskEnv) {
			b := d.s.NewBatch(d.now)
			b.DeleteRange(d.tab, d.key(1), Slice{from(100), past(rows - 100)}, 11)
			d.apply(b)
		}, (rows - 200) * bytes, 200},
		{"ranges of five", func(d *diskEnv) {
			for c := 0; c < rows; c += 10 {
				b := d.s.NewBatch(d.now)
				b.DeleteRange(d.tab, d.key(1), Slice{from(c), past(c + 7)}, 11)
				d.apply(b)
			}
		}, rows * bytes * 7 / 10, rows * 3 / 10},
		{"the partition", func(d *diskEnv) {
			b := d.s.NewBatch(d.now)
			b.DeletePartition(d.tab, d.key(1), 11)
			d.apply(b)
		}, rows * bytes, 0},
		{"many partitions", func(d *diskEnv) {
			for p := 2; p < 202; p++ {
				b := d.s.NewBatch(d.now)
				b.DeletePartition(d.tab, d.key(p), 11)
				d.apply(b)
			}
		}, rows * bytes, rows},
		{"cells", func(d *diskEnv) {
			for c := range rows {
				b := d.s.NewBatch(d.now)
				r := b.Row(d.tab, d.key(1), [][]byte{be8(c)})
				r.Unset(d.tab.Columns["body"], 11)
				d.apply(b)
			}
		}, rows * bytes, rows},
	} {
		t.Run(c.name, func(t *testing.T) {
			if raceEnabled && c.name != "rows shuffled" && c.name != "one range" {
				t.Skip("slow with the race detector")
			}
			d := openDisk(t)
			d.fill(1, 0, rows, bytes, 0)
			for p := 2; p < 202; p++ {
				d.fill(p, 0, rows/200, bytes, 0)
			}
			d.merged()
			d.settle()
			before := d.tableBytes()
			c.kill(d)
			d.ticks(60)
			after := d.tableBytes()
			m := d.s.Metrics()
			t.Logf("%d MB, then %d MB; %.0f compactions asked for, %.1f MB rewritten",
				before>>20, after>>20, m["reclaim_compactions_total"], m["reclaim_rewritten_bytes_total"]/(1<<20))
			if after > before-c.dead*19/20+rows*60 {
				t.Errorf("%d bytes on disk before, %d after %d died", before, after, c.dead)
			}
			if got := d.count(1); got != c.left {
				t.Errorf("%d rows left, want %d", got, c.left)
			}
			// Once is enough.
			asked := m["reclaim_compactions_total"]
			d.ticks(120)
			if m := d.s.Metrics(); m["reclaim_compactions_total"] != asked || m["reclaim_dead_rows"] != 0 {
				t.Errorf("%.0f compactions more, %.0f dead rows still owed", m["reclaim_compactions_total"]-asked, m["reclaim_dead_rows"])
			}
		})
	}
}

// count reads a partition's live rows.
func (d *diskEnv) count(p int) int64 {
	var st ReadStats
	v := d.s.View(ReadOptions{NowSec: d.now, Stats: &st})
	defer v.Close()
	rows := v.Partition(d.tab, d.key(p), RowQuery{})
	for rows.NextPartition() {
		for rows.Next() {
		}
	}
	if err := rows.Close(); err != nil {
		d.t.Fatal(err)
	}
	return st.Rows
}

// TestScatteredDeletesLeaveFilesAlone deletes few rows everywhere: no file is
// rewritten for them.
func TestScatteredDeletesLeaveFilesAlone(t *testing.T) {
	d := openDisk(t)
	const rows = 20_000
	d.fill(1, 0, rows, 1000, 0)
	d.merged()
	for c := 0; c < rows; c += 5 {
		d.deleteRow(1, c, 11)
	}
	d.ticks(60)
	if m := d.s.Metrics(); m["reclaim_compactions_total"] != 0 || m["reclaim_postponed_total"] == 0 || m["reclaim_dead_rows"] != rows/5 {
		t.Errorf("%.0f compactions, %.0f looks without one, %.0f dead rows owed",
			m["reclaim_compactions_total"], m["reclaim_postponed_total"], m["reclaim_dead_rows"])
	}
	// The same rows again and others besides: now they are mostly dead.
	for c := range rows {
		if c%5 < 3 {
			d.deleteRow(1, c, 11)
		}
	}
	d.ticks(60)
	if m := d.s.Metrics(); m["reclaim_compactions_total"] == 0 || m["reclaim_dead_rows"] != 0 {
		t.Errorf("%.0f compactions, %.0f dead rows owed", m["reclaim_compactions_total"], m["reclaim_dead_rows"])
	}
}

// TestLiveDataIsNotRewritten drops one large partition between others.
func TestLiveDataIsNotRewritten(t *testing.T) {
	d := openDisk(t)
	for p := 1; p <= 8; p++ {
		d.fill(p, 0, 5_000, 1000, 0)
	}
	d.merged()
	d.settle()
	before, written := d.tableBytes(), d.s.Metrics()["compacted_bytes_total"]
	b := d.s.NewBatch(d.now)
	b.DeletePartition(d.tab, d.key(3), 11)
	b.DeletePartition(d.tab, d.key(6), 11)
	d.apply(b)
	d.ticks(60)
	after, written := d.tableBytes(), d.s.Metrics()["compacted_bytes_total"]-written
	if after > before-9_500_000 || written > 10_000_000 {
		t.Errorf("%d MB before, %d MB after 10 MB died, %.1f MB written", before>>20, after>>20, written/(1<<20))
	}
	for p, want := range map[int]int64{2: 5_000, 3: 0, 4: 5_000, 6: 0} {
		if got := d.count(p); got != want {
			t.Errorf("partition %d has %d rows, want %d", p, got, want)
		}
	}
}

// TestSpaceIsThrottled keeps the compactions that the store asks for to their rate.
func TestSpaceIsThrottled(t *testing.T) {
	d := openDisk(t)
	d.s.opts.ReclaimRate = 1 << 20
	const rows = 10_000
	for p := 1; p <= 3; p++ {
		d.fill(p, 0, rows, 1000, 0)
	}
	d.merged()
	for c := range rows {
		d.deleteRow(1, c, 11)
		d.deleteRow(3, c, 11)
	}
	cost := func() float64 { return d.s.Metrics()["reclaim_rewritten_bytes_total"] }
	sum := 0
	for sum < 200 && d.s.Metrics()["reclaim_dead_rows"]+float64(sum) != 0 || sum < 5 {
		d.ticks(1)
		sum++
		// One file may be under way beyond what the seconds that have passed allow.
		if got := cost(); got > float64(sum+1)*(1<<20)+24<<20 {
			t.Fatalf("%.1f MB rewritten in %d s", got/(1<<20), sum)
		}
		if sum > 5 && d.s.Metrics()["reclaim_dead_rows"] == 0 {
			break
		}
	}
	if m := d.s.Metrics(); m["reclaim_dead_rows"] != 0 || m["reclaim_compactions_total"] == 0 {
		t.Errorf("after %d s: %.0f compactions, %.0f dead rows owed", sum, m["reclaim_compactions_total"], m["reclaim_dead_rows"])
	}
}

// TestSpaceComesBackAfterRestart deletes, and restarts before the background acted.
func TestSpaceComesBackAfterRestart(t *testing.T) {
	d := openDisk(t)
	const rows = 10_000
	d.fill(1, 0, rows, 1000, 0)
	d.merged()
	d.settle()
	before := d.tableBytes()
	for c := range rows {
		d.deleteRow(1, c, 11)
	}
	for _, sh := range d.s.shards {
		sh.pending.flush(sh, true)
	}
	d.s.drain(context.Background())
	d.reopen(Options{ManualBackground: true, FS: d.mem, Durability: Periodic})
	d.ticks(60)
	if after := d.tableBytes(); after > before/10 {
		t.Errorf("%d bytes, %d after a restart", before, after)
	}
	d.reopen(Options{ManualBackground: true, FS: d.mem, Durability: Periodic})
	d.ticks(60)
	if got := d.s.Metrics()["reclaim_compactions_total"]; got != 0 {
		t.Errorf("%.0f compactions after a second restart, of what is merged already", got)
	}
}

func (e *env) reopen(o Options) {
	e.t.Helper()
	if err := e.s.Close(); err != nil {
		e.t.Fatal(err)
	}
	e.s = openEnvOn(e, o)
}

// TestMixedRowsAreMerged reads over live and dead rows that no span covers:
// the background merges them, and a page then takes one step of the engine a row.
func TestMixedRowsAreMerged(t *testing.T) {
	for _, nth := range []int{3, 10} {
		t.Run(fmt.Sprintf("every %d", nth), func(t *testing.T) {
			const rows = 20_000
			d := openDisk(t)
			d.fill(1, 0, rows, 100, 0)
			d.merged()
			for c := range rows {
				if c%nth != 0 {
					d.deleteRow(1, c, 11)
				}
			}
			if d.steps(1) < 1.5 {
				t.Fatalf("%.2f steps a row right after the deletes", d.steps(1))
			}
			d.count(1)
			d.ticks(10)
			if got := d.steps(1); got > 1.01 {
				t.Errorf("%.2f steps a row after the background acted", got)
			}
			if got := d.count(1); got != (rows+int64(nth)-1)/int64(nth) {
				t.Errorf("%d rows", got)
			}
			forced := d.s.Metrics()["reclaim_forced_total"]
			for range 5 {
				d.count(1)
				d.ticks(5)
			}
			if got := d.s.Metrics()["reclaim_forced_total"]; got != forced {
				t.Errorf("%.0f more compactions of a place that is merged", got-forced)
			}
		})
	}
}

// steps is how many steps the engine takes for a row of a partition.
func (d *diskEnv) steps(p int) float64 {
	d.t.Helper()
	lo := appendPartition(nil, d.tab.PhysID, familyRow, d.key(p))
	it, err := d.s.shards[0].db.NewIter(&pebble.IterOptions{LowerBound: lo, UpperBound: prefixEnd(lo)})
	if err != nil {
		d.t.Fatal(err)
	}
	n := 0
	for it.First(); it.Valid(); it.Next() {
		n++
	}
	st := it.Stats()
	if err := it.Close(); err != nil {
		d.t.Fatal(err)
	}
	return float64(st.ForwardStepCount[pebble.InternalIterCall]) / float64(n)
}

// TestForcedCompactionsBackOff keeps a place that is written all the time from
// being compacted all the time.
func TestForcedCompactionsBackOff(t *testing.T) {
	var b debtBook
	at := time.Unix(1000, 0)
	n := 0
	for range 600 {
		at = at.Add(time.Second)
		if b.mayForce("a", "c", at) {
			b.wasForced("a", "c", at, time.Second)
			n++
		}
	}
	if n != 600/forcedRest {
		t.Errorf("forced %d times in ten minutes", n)
	}
	b.wasForced("a", "c", at, time.Millisecond)
	if b.mayForce("b", "d", at) || !b.mayForce("x", "z", at) || !b.mayForce("b", "d", at.Add(time.Minute)) {
		t.Error("only what overlaps has to wait, for a while")
	}
}

// TestDebtBook sums up debts of one place and stays within its bound.
func TestDebtBook(t *testing.T) {
	var b debtBook
	r := rand.New(rand.NewPCG(5, 6))
	want := int64(0)
	for range 10_000 {
		lo := r.IntN(1_000_000)
		b.add(debt{lo: fmt.Sprintf("%07d", lo), hi: fmt.Sprintf("%07d", lo+r.IntN(20)), rows: 3})
		want += 3
	}
	places, rows := b.show()
	if places > maxDebts || places < maxDebts/4 || rows != want {
		t.Errorf("%d places, %d rows, want %d", places, rows, want)
	}
	if got := b.take(time.Now(), false); len(got) != 0 {
		t.Errorf("%d debts are due at once", len(got))
	}
	for i := 1; i < len(b.places); i++ {
		if b.places[i-1].hi >= b.places[i].lo {
			t.Fatalf("%s..%s overlaps %s..", b.places[i-1].lo, b.places[i-1].hi, b.places[i].lo)
		}
	}
	long := string(make([]byte, 60_000))
	b.add(debt{lo: "x" + long + "a", hi: "x" + long + "b", rows: 1})
	b.show()
	if d := b.places[len(b.places)-1]; len(d.lo) > maxDebtKey || len(d.hi) > maxDebtKey || d.lo > "x"+long || d.hi < "x"+long+"b" {
		t.Errorf("a place with keys of %d and %d bytes", len(d.lo), len(d.hi))
	}
	places, _ = b.show()
	if got := b.take(time.Now().Add(time.Hour), false); len(got) != places {
		t.Errorf("%d of %d debts are due after an hour", len(got), places)
	}
}
