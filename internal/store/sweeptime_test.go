package store

import (
	"context"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func (e *env) sweepTick() {
	e.t.Helper()
	if err := e.s.sweepTick(context.Background(), false); err != nil {
		e.t.Fatal(err)
	}
}

// TestSweepTimes sweeps a table when its oldest tombstone may go, after a restart too.
func TestSweepTimes(t *testing.T) {
	mem := vfs.NewMem()
	o := Options{ManualBackground: true, FS: mem}
	e := openEnv(t, o)
	e.tab.Options.GCGraceSeconds = 5000
	for c := range 20 {
		e.insert(1, c, 10, "x")
		if c%2 == 0 {
			e.deleteRow(1, c, 11)
		}
	}
	e.sweepTick()
	if got := e.s.Metrics()["sweeps_total"]; got != 1 {
		t.Fatalf("%.0f sweeps of a table of which nothing is known", got)
	}
	wait := func(upTo int64, sweeps float64, rows int) {
		t.Helper()
		for ; e.now < upTo; e.now += 50 {
			e.sweepTick()
		}
		if got := e.s.Metrics()["sweeps_total"]; got != sweeps || e.keys(familyRow) != rows {
			t.Errorf("at %d: %.0f sweeps, %d rows left, want %.0f, %d", e.now, got, e.keys(familyRow), sweeps, rows)
		}
	}
	wait(6000, 1, 20)
	e.reopen(o)
	wait(6000, 0, 20) // nothing is due yet
	wait(6100, 1, 10)
	got, _ := e.show(1, RowQuery{})
	e.want(got, "1|1:x 3:x 5:x 7:x 9:x 11:x 13:x 15:x 17:x 19:x")
	// What did not fit into the queue is swept soon.
	b := e.s.NewBatch(e.now)
	b.DeletePartition(e.tab, e.key(1), 12)
	e.apply(b)
	e.s.tableFor(e.tab).sweepSoon.Store(true)
	wait(e.now+50, 2, 0)
	// A time that a clock ahead left behind does not put sweeps off for ever.
	if err := e.s.saveSweep(e.tab.PhysID, 1<<39); err != nil {
		t.Fatal(err)
	}
	e.reopen(o)
	e.insert(2, 1, 10, "x")
	e.deleteRow(2, 1, 11)
	wait(e.now+100, 0, 1)
	e.now += 25 * 3600
	e.sweepTick()
	wait(e.now, 1, 0)
}

// TestSpanTimesAreExact writes tombstones into a span, which then must be kept
// as long as they, and restarts: the span is purged neither earlier nor much later.
func TestSpanTimesAreExact(t *testing.T) {
	for _, crash := range []bool{false, true} {
		mem := vfs.NewCrashableMem()
		o := Options{ManualBackground: true, FS: mem}
		e := openEnv(t, o)
		e.tab.Options.GCGraceSeconds = 5000
		for c := range 100 {
			e.deleteRow(1, c, 11)
		}
		e.background()
		for range 90 {
			e.now++
			e.deleteRow(1, 50, 12)
		}
		last, late := e.now, int64(0)
		if crash {
			o.FS = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0})
			late = boundSlack
			if err := e.s.Close(); err != nil {
				t.Fatal(err)
			}
			e.s = openEnvOn(e, o)
		} else {
			e.reopen(o)
		}
		e.now = last + 5000
		e.background()
		if got := e.keys(familyRow); got != 100 {
			t.Fatalf("crash %v: %d rows left while one may not go", crash, got)
		}
		e.now = last + 5001 + late
		e.background()
		if got := e.keys(familyRow); got != 0 {
			t.Errorf("crash %v: %d rows left %d s after gc_grace", crash, got, 1+late)
		}
	}
}

// TestExpiredValuesGo weighs the files of rows that expired long before
// gc_grace: their values are gone, whether a span covers them or not.
func TestExpiredValuesGo(t *testing.T) {
	const rows = 4000
	d := openDisk(t)
	d.fill(1, 0, rows, 500, 60) // dead by TTL
	d.fill(2, 0, rows, 500, 60) // a cell of a row that lives
	b := d.s.NewBatch(d.now)
	for c := range rows {
		b.Row(d.tab, d.key(2), [][]byte{be8(c)}).Marker(20, 0)
	}
	d.apply(b)
	d.fill(3, 0, rows, 500, 0)
	d.merged()
	d.settle()
	before := d.tableBytes()
	d.now += 100
	if got := d.count(1); got != 0 {
		t.Fatalf("%d rows", got)
	}
	d.ticks(5) // a span over partition 1
	d.sweepTick()
	d.now += expirySlack + 100
	d.sweepTick()
	d.ticks(60)
	d.sweepTick()
	d.ticks(60)
	if after := d.tableBytes(); after > before-rows*900 {
		t.Errorf("%d bytes, %d after two thirds have expired", before, after)
	}
	if a, b, c := d.count(1), d.count(2), d.count(3); a != 0 || b != rows || c != rows {
		t.Errorf("%d, %d and %d rows", a, b, c)
	}
	if got := d.keys(familyRow); got != 3*rows {
		t.Errorf("%d rows kept before gc_grace, of %d", got, 3*rows)
	}
	// At gc_grace they go altogether.
	d.now += int64(d.tab.Options.GCGraceSeconds)
	d.sweepTick()
	d.ticks(60)
	if got := d.keys(familyRow); got != 2*rows {
		t.Errorf("%d rows after gc_grace, want %d", got, 2*rows)
	}
}
