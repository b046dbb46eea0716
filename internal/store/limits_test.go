package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
	"varve/internal/vtest"
)

// deadPartition has n deleted rows, then one live one.
func deadPartition(t *testing.T, st *store.Store, n int) (*schema.Table, store.Key) {
	t.Helper()
	tab := vtest.NewTable(7, "t", vtest.PK("p", cqltype.Int), vtest.CK("c", cqltype.Int), vtest.Col("v", cqltype.Int))
	k := mustKey(t, tab, be32(1))
	b := st.NewBatch(1)
	for i := range n {
		b.Row(tab, k, [][]byte{be32(i)}).Delete(2)
	}
	b.Row(tab, k, [][]byte{be32(n)}).Marker(1, 0)
	if err := applyWait(st, b, false); err != nil {
		t.Fatal(err)
	}
	return tab, k
}

// TestTombstoneThreshold counts deleted rows as Cassandra does: a read fails
// when it has met more than the threshold.
func TestTombstoneThreshold(t *testing.T) {
	o := memOptions(vfs.NewMem(), 1)
	o.ManualBackground = true
	st := mustOpen(t, o)
	const dead = 50 // too few for a span
	tab, k := deadPartition(t, st, dead)
	for _, failAfter := range []int64{0, dead, dead - 1, 1} {
		stats := &store.ReadStats{}
		v := st.View(store.ReadOptions{NowSec: 1, FailAfter: failAfter, Stats: stats})
		parts, err := vtest.Collect(tab, v.Partition(tab, k, store.RowQuery{}))
		if cerr := v.Close(); cerr != nil {
			t.Error(cerr)
		}
		var tomb *store.TombstoneError
		switch fails := failAfter != 0 && failAfter < dead; {
		case fails && !errors.As(err, &tomb):
			t.Errorf("threshold %d: %v", failAfter, err)
		case fails && tomb.Count != failAfter+1:
			t.Errorf("threshold %d: failed after %d", failAfter, tomb.Count)
		case !fails && (err != nil || len(parts) != 1 || len(parts[0].Rows) != 1):
			t.Errorf("threshold %d: %v, %v", failAfter, parts, err)
		case !fails && stats.Walked != dead:
			t.Errorf("threshold %d: %d tombstones counted of %d", failAfter, stats.Walked, dead)
		}
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}

// TestDeadlineMakesProgress reads over dead rows with deadlines far too short
// and goes on from where each read stopped.
func TestDeadlineMakesProgress(t *testing.T) {
	o := memOptions(vfs.NewMem(), 1)
	o.ManualBackground = true
	st := mustOpen(t, o)
	tab, k := deadPartition(t, st, 5000)
	for _, reverse := range []bool{false, true} {
		q := store.RowQuery{Reverse: reverse}
		live, stops := 0, 0
		for done := false; !done; {
			if stops > 20_000 {
				t.Fatal("no progress")
			}
			v := st.View(store.ReadOptions{NowSec: 1, Stats: &store.ReadStats{}, Deadline: time.Now().Add(20 * time.Microsecond)})
			rows := v.Partition(tab, k, q)
			for rows.NextPartition() {
				for rows.Next() {
					live++
				}
			}
			_, at, ok := rows.Position()
			last := append([]byte{}, bytes.Join(at, nil)...)
			err := rows.Close()
			if cerr := v.Close(); cerr != nil {
				t.Fatal(cerr)
			}
			switch {
			case err == nil:
				done = true
			case !errors.Is(err, store.ErrDeadline):
				t.Fatal(err)
			default:
				stops++
				if ok && len(last) > 0 {
					q.Slices = rest(store.RowQuery{Reverse: reverse}, [][]byte{last})
				}
			}
		}
		if live != 1 {
			t.Errorf("reverse=%v: %d live rows found over %d stops", reverse, live, stops)
		}
		if stops == 0 {
			t.Errorf("reverse=%v: no read met its deadline", reverse)
		}
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}

// TestKeyLimits checks the size limit of partition keys and their round trip.
func TestKeyLimits(t *testing.T) {
	one := vtest.NewTable(7, "t", vtest.PK("p", cqltype.Blob))
	two := vtest.NewTable(7, "t", vtest.PK("p", cqltype.Blob), vtest.PK("q", cqltype.Text))
	tests := []struct {
		tab   *schema.Table
		comps [][]byte
		ok    bool
	}{
		{one, [][]byte{bytes.Repeat([]byte{0}, 65535)}, true},
		{one, [][]byte{bytes.Repeat([]byte{0}, 65536)}, false},
		{two, [][]byte{bytes.Repeat([]byte{0}, 65000), []byte("a")}, true},
		{two, [][]byte{bytes.Repeat([]byte{0}, 65530), []byte("a")}, false},
		{two, [][]byte{{}, {}}, true},
		{two, [][]byte{{0, 0xff, 0}, []byte("\x00")}, true},
	}
	for i, tt := range tests {
		k, err := store.KeyOf(tt.tab, tt.comps)
		if (err == nil) != tt.ok {
			t.Errorf("%d: %v", i, err)
		}
		if err != nil {
			continue
		}
		got, err := k.Components(tt.tab)
		if d := cmp.Diff(tt.comps, got); err != nil || d != "" {
			t.Errorf("%d: %v %s", i, err, d)
		}
		joined, err := cqltype.JoinKey(nil, tt.comps)
		if err != nil || cqltype.Token(joined) != k.Token {
			t.Errorf("%d: token %d, %v", i, k.Token, err)
		}
	}
}

// TestRecordsSurviveACrash saves catalogue records, all of a call or none.
func TestRecordsSurviveACrash(t *testing.T) {
	fs := vfs.NewCrashableMem()
	st := mustOpen(t, memOptions(fs, 2))
	save := func(rs ...schema.Record) {
		t.Helper()
		if err := st.SaveRecords(tContext, rs); err != nil {
			t.Fatal(err)
		}
	}
	save(schema.Record{Key: "ks/a", Value: []byte("1")}, schema.Record{Key: "ks/b", Value: []byte{}})
	save(schema.Record{Key: "ks/a", Value: []byte("2")}, schema.Record{Key: "table/a/t", Value: bytes.Repeat([]byte("x"), 100_000)})
	save(schema.Record{Key: "ks/b"})
	after := fs.CrashClone(vfs.CrashCloneCfg{})
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	st = mustOpen(t, memOptions(after, 2))
	got, err := st.LoadRecords(tContext)
	if err != nil {
		t.Fatal(err)
	}
	text := map[string]string{}
	for _, r := range got {
		text[r.Key] = fmt.Sprintf("%d %.3s", len(r.Value), r.Value)
	}
	if d := cmp.Diff(map[string]string{"ks/a": "1 2", "table/a/t": "100000 xxx"}, text); d != "" {
		t.Error(d)
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}
