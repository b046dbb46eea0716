package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"varve/internal/cqltype"
	"varve/internal/schema"
)

// testTable is (p int, c bigint DESC or ASC, s text static, body text, author blob, tags set<int>, n counter).
func testTable(phys uint32, desc bool) *schema.Table {
	t := &schema.Table{PhysID: phys, Keyspace: "ks", Name: fmt.Sprintf("t%d", phys), Columns: map[string]*schema.Column{}}
	add := func(name string, kind schema.ColumnKind, typ *cqltype.Type) *schema.Column {
		c := &schema.Column{ID: uint16(len(t.ByID)), Name: name, Kind: kind, Type: typ}
		t.ByID = append(t.ByID, c)
		t.Columns[name] = c
		return c
	}
	t.PartitionKey = []*schema.Column{add("p", schema.PartitionKey, cqltype.Int)}
	c := add("c", schema.Clustering, cqltype.Bigint)
	c.Desc = desc
	t.Clustering = []*schema.Column{c}
	t.Static = []*schema.Column{add("s", schema.Static, cqltype.Text)}
	t.Regular = []*schema.Column{
		add("body", schema.Regular, cqltype.Text), add("author", schema.Regular, cqltype.Blob),
		add("tags", schema.Regular, cqltype.SetOf(cqltype.Int)), add("n", schema.Regular, cqltype.Counter),
	}
	t.Options.GCGraceSeconds = 864000
	return t
}

func be4(v int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(v)) }
func be8(v int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

type env struct {
	t   testing.TB
	s   *Store
	tab *schema.Table
	now int64
}

func openEnv(t testing.TB, o Options) *env {
	t.Helper()
	if o.FS == nil {
		o.FS = vfs.NewMem()
	}
	e := &env{t: t, tab: testTable(7, false), now: 1000}
	e.s = openEnvOn(e, o)
	t.Cleanup(func() {
		if e.s != nil {
			if err := e.s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return e
}

// openEnvOn opens a store for the environment's table.
func openEnvOn(e *env, o Options) *Store {
	e.t.Helper()
	if o.DataDirs == nil {
		o.DataDirs = []string{"data"}
	}
	if o.Clock == nil {
		o.Clock = func() time.Time { return time.Unix(e.now, 0) }
	}
	o.Tables = func() []*schema.Table { return []*schema.Table{e.tab} }
	s, err := Open(context.Background(), o)
	if err != nil {
		e.t.Fatal(err)
	}
	return s
}

func (e *env) key(p int) Key {
	k, err := KeyOf(e.tab, [][]byte{be4(p)})
	if err != nil {
		e.t.Fatal(err)
	}
	return k
}

func (e *env) apply(b *Batch) {
	e.t.Helper()
	c, err := e.s.Apply(context.Background(), b, false)
	if err == nil {
		err = c.Wait()
	}
	if err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) insert(p, c int, ts int64, body string) {
	b := e.s.NewBatch(e.now)
	r := b.Row(e.tab, e.key(p), [][]byte{be8(c)})
	r.Marker(ts, 0)
	r.Set(e.tab.Columns["body"], ts, 0, []byte(body))
	e.apply(b)
}

func (e *env) deleteRow(p, c int, ts int64) {
	b := e.s.NewBatch(e.now)
	b.Row(e.tab, e.key(p), [][]byte{be8(c)}).Delete(ts)
	e.apply(b)
}

// show reads a partition as "s|c:body c:body".
func (e *env) show(p int, q RowQuery) (string, ReadStats) {
	e.t.Helper()
	var st ReadStats
	v := e.s.View(ReadOptions{NowSec: e.now, Stats: &st})
	defer v.Close()
	return e.rows(v.Partition(e.tab, e.key(p), q)), st
}

func (e *env) rows(rows *Rows) string {
	e.t.Helper()
	var out []string
	for rows.NextPartition() {
		line := fmt.Sprintf("%d|", int32(binary.BigEndian.Uint32(rows.KeyComponents()[0])))
		if s := rows.Static(); s != nil {
			line += string(s.Value(e.tab.Columns["s"])) + "|"
		}
		var cells []string
		for rows.Next() {
			r := rows.Row()
			cells = append(cells, fmt.Sprintf("%d:%s", int64(binary.BigEndian.Uint64(r.Clustering()[0])), r.Value(e.tab.Columns["body"])))
		}
		out = append(out, line+strings.Join(cells, " "))
	}
	if err := rows.Close(); err != nil {
		e.t.Fatal(err)
	}
	return strings.Join(out, "\n")
}

func (e *env) want(got, want string) {
	e.t.Helper()
	if got != want {
		e.t.Fatalf("got  %q\nwant %q", got, want)
	}
}

func from(c int) Bound { return Bound{Prefix: [][]byte{be8(c)}, Inclusive: true} }
func past(c int) Bound { return Bound{Prefix: [][]byte{be8(c)}} }

func TestBasics(t *testing.T) {
	for _, desc := range []bool{false, true} {
		e := openEnv(t, Options{ManualBackground: true})
		e.tab = testTable(7, desc)
		for c := range 5 {
			e.insert(1, c, 10, fmt.Sprint("b", c))
		}
		e.insert(2, 9, 10, "other")
		b := e.s.NewBatch(e.now)
		b.Row(e.tab, e.key(1), nil).Set(e.tab.Columns["s"], 10, 0, []byte("st"))
		e.apply(b)
		up, down := "1|st|0:b0 1:b1 2:b2 3:b3 4:b4", "1|st|4:b4 3:b3 2:b2 1:b1 0:b0"
		if desc {
			up, down = down, up
		}
		got, _ := e.show(1, RowQuery{})
		e.want(got, up)
		got, _ = e.show(1, RowQuery{Reverse: true})
		e.want(got, down)
		sl := Slice{Start: from(1), End: past(3)}
		if desc {
			sl = Slice{Start: past(3), End: from(1)}
		}
		got, _ = e.show(1, RowQuery{Slices: []Slice{sl}, NoStatic: true})
		if desc {
			e.want(got, "1|2:b2 1:b1")
		} else {
			e.want(got, "1|1:b1 2:b2")
		}
		got, _ = e.show(1, RowQuery{Slices: []Slice{{from(2), from(2)}}, NoStatic: true})
		e.want(got, "1|2:b2")
		got, _ = e.show(3, RowQuery{})
		e.want(got, "")
		e.deleteRow(1, 2, 9)
		e.deleteRow(1, 3, 10)
		got, st := e.show(1, RowQuery{NoStatic: true})
		e.want(strings.ReplaceAll(got, " ", ""), map[bool]string{false: "1|0:b01:b12:b24:b4", true: "1|4:b42:b21:b10:b0"}[desc])
		if st.Walked != 1 || st.Rows != 4 {
			t.Fatalf("%+v", st)
		}
		v := e.s.View(ReadOptions{NowSec: e.now, Stats: &st})
		all := e.rows(v.Range(e.tab, TokenRange{StartUnbounded: true, EndUnbounded: true}, RowQuery{NoStatic: true}, nil))
		if !strings.Contains(all, "2|9:other") || strings.Count(all, "\n") != 1 {
			t.Fatalf("range: %q", all)
		}
		k2 := e.key(1)
		rest := e.rows(v.Range(e.tab, TokenRange{StartUnbounded: true, EndUnbounded: true, From: &k2}, RowQuery{}, []Slice{{from(0), from(0)}}))
		if !strings.Contains(rest, "1|st|0:b0") {
			t.Fatalf("range from: %q", rest)
		}
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRangeAndPartitionDelete(t *testing.T) {
	e := openEnv(t, Options{ManualBackground: true})
	for c := range 10 {
		e.insert(1, c, 10, "x")
	}
	b := e.s.NewBatch(e.now)
	b.DeleteRange(e.tab, e.key(1), Slice{from(2), past(5)}, 20)
	b.DeleteRange(e.tab, e.key(1), Slice{from(4), from(7)}, 9)
	e.apply(b)
	got, _ := e.show(1, RowQuery{})
	e.want(got, "1|0:x 1:x 5:x 6:x 7:x 8:x 9:x")
	e.insert(1, 3, 19, "old")
	e.insert(1, 4, 21, "new")
	got, _ = e.show(1, RowQuery{})
	e.want(got, "1|0:x 1:x 4:new 5:x 6:x 7:x 8:x 9:x")
	got, _ = e.show(1, RowQuery{Reverse: true, Slices: []Slice{{from(0), from(5)}}})
	e.want(got, "1|5:x 4:new 1:x 0:x")
	e.background()
	got, _ = e.show(1, RowQuery{})
	e.want(got, "1|0:x 1:x 4:new 5:x 6:x 7:x 8:x 9:x")
	b = e.s.NewBatch(e.now)
	b.DeletePartition(e.tab, e.key(1), 15)
	e.apply(b)
	got, _ = e.show(1, RowQuery{})
	e.want(got, "1|4:new")
	var st ReadStats
	v := e.s.View(ReadOptions{NowSec: e.now, Stats: &st})
	e.want(e.rows(v.Range(e.tab, TokenRange{StartUnbounded: true, EndUnbounded: true}, RowQuery{}, nil)), "1|4:new")
	v.Close()
}

// TestSpans deletes many rows, publishes spans, and reads and writes across them.
func TestSpans(t *testing.T) {
	fs := vfs.NewCrashableMem()
	e := openEnv(t, Options{ManualBackground: true, FS: fs, CacheBytes: 1 << 20, MemtableBytes: 1 << 20})
	const n = 3000
	b := e.s.NewBatch(e.now)
	for c := range n {
		r := b.Row(e.tab, e.key(1), [][]byte{be8(c)})
		r.Marker(10, 0)
		r.Set(e.tab.Columns["body"], 10, 0, []byte("x"))
	}
	e.apply(b)
	for c := 5; c < n-5; c++ {
		e.deleteRow(1, c, 11)
	}
	live := "1|0:x 1:x 2:x 3:x 4:x 2995:x 2996:x 2997:x 2998:x 2999:x"
	got, st := e.show(1, RowQuery{})
	e.want(got, live)
	if st.Walked != n-10 {
		t.Fatalf("%+v", st)
	}
	e.background()
	check := func(want string, jumped bool) {
		t.Helper()
		for _, rev := range []bool{false, true} {
			got, st = e.show(1, RowQuery{Reverse: rev})
			if !rev {
				e.want(got, want)
			}
			if jumped && (st.Walked > 100 || st.Spans == 0) {
				t.Fatalf("reverse %v: %+v", rev, st)
			}
		}
	}
	check(live, true)
	if st.Jumped != n-10 || st.Spans != 1 {
		t.Fatalf("%+v", st)
	}
	e.insert(1, 1000, 5, "late") // stays dead
	check(live, true)
	e.insert(1, 1000, 50, "back")
	live = "1|0:x 1:x 2:x 3:x 4:x 1000:back 2995:x 2996:x 2997:x 2998:x 2999:x"
	check(live, true)
	crash := fs.CrashClone(vfs.CrashCloneCfg{})
	if err := e.s.Close(); err != nil {
		t.Fatal(err)
	}
	e.s = nil
	e2 := openEnv(t, Options{ManualBackground: true, FS: crash})
	e2.tab = e.tab
	e = e2
	check(live, true)
	got, st = e.show(1, RowQuery{Slices: []Slice{{from(1000), from(2000)}}})
	e.want(got, "1|1000:back")
	b = e.s.NewBatch(e.now)
	b.Row(e.tab, e.key(1), [][]byte{be8(1000)}).Delete(60)
	b.Row(e.tab, e.key(1), [][]byte{be8(999)}).Marker(60, 0)
	e.apply(b)
	e.background()
	got, _ = e.show(1, RowQuery{Slices: []Slice{{from(990), from(2000)}}})
	e.want(got, "1|999:")
}

// TestRangeDeleteMany checks disjoint and nested range deletions against a plain map.
func TestRangeDeleteMany(t *testing.T) {
	e := openEnv(t, Options{ManualBackground: true})
	const n = 400
	var newest [n]int64
	b := e.s.NewBatch(e.now)
	for c := range n {
		b.Row(e.tab, e.key(1), [][]byte{be8(c)}).Marker(1000, 0)
	}
	e.apply(b)
	x := uint32(1)
	next := func(m int) int { x = x*1664525 + 1013904223; return int(x>>8) % m }
	for i := range 600 {
		lo := next(n)
		hi := min(n, lo+1+next(12))
		ts := int64(next(2000))
		if i%50 == 0 {
			lo, hi = next(n/4), n-next(n/4)
		}
		b := e.s.NewBatch(e.now)
		b.DeleteRange(e.tab, e.key(1), Slice{from(lo), past(hi)}, ts)
		e.apply(b)
		for c := lo; c < hi; c++ {
			newest[c] = max(newest[c], ts)
		}
		if i%20 != 0 {
			continue
		}
		want := []string{}
		for c := range n {
			if newest[c] < 1000 {
				want = append(want, fmt.Sprintf("%d:", c))
			}
		}
		got, _ := e.show(1, RowQuery{})
		if len(want) > 0 {
			e.want(got, "1|"+strings.Join(want, " "))
		}
		for r := range want[:len(want)/2] {
			want[r], want[len(want)-1-r] = want[len(want)-1-r], want[r]
		}
		if len(want) > 0 {
			got, _ = e.show(1, RowQuery{Reverse: true})
			e.want(got, "1|"+strings.Join(want, " "))
		}
	}
}

func TestCounters(t *testing.T) {
	e := openEnv(t, Options{ManualBackground: true})
	n := e.tab.Columns["n"]
	add := func(d int64) {
		b := e.s.NewBatch(e.now)
		b.Row(e.tab, e.key(1), [][]byte{be8(1)}).Increment(n, d)
		e.apply(b)
	}
	value := func() int64 {
		var st ReadStats
		v := e.s.View(ReadOptions{NowSec: e.now, Stats: &st})
		defer v.Close()
		rows := v.Partition(e.tab, e.key(1), RowQuery{})
		defer rows.Close()
		if !rows.NextPartition() || !rows.Next() {
			return -1
		}
		return int64(binary.BigEndian.Uint64(rows.Row().Value(n)))
	}
	add(5)
	add(-2)
	if got := value(); got != 3 {
		t.Fatal(got)
	}
	e.now++
	e.deleteRow(1, 1, e.now*1e6)
	if got := value(); got != -1 {
		t.Fatal(got)
	}
	e.now++
	add(7)
	if got := value(); got != 7 {
		t.Fatal(got)
	}
	b := e.s.NewBatch(e.now)
	b.Row(e.tab, e.key(1), [][]byte{be8(1)}).Unset(n, e.now*1e6)
	e.apply(b)
	e.now++
	add(7)
	if got := value(); got != -1 {
		t.Fatal("a deleted counter came back:", got)
	}
}

func TestLayoutRefusals(t *testing.T) {
	fs := vfs.NewMem()
	open := func(data, journal []string) error {
		s, err := Open(context.Background(), Options{FS: fs, DataDirs: data, JournalDirs: journal, ManualBackground: true})
		if err != nil {
			return err
		}
		return s.Close()
	}
	if err := open([]string{"d0", "d1"}, []string{"j0", "j1"}); err != nil {
		t.Fatal(err)
	}
	if err := open([]string{"x0"}, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		data, journal []string
		want          string
	}{
		{[]string{"d0", "d1"}, []string{"j0", "j1"}, ""},
		{[]string{"d1", "d0"}, []string{"j0", "j1"}, "d1"},
		{[]string{"d0", "d1"}, []string{"j1", "j0"}, "j1"},
		{[]string{"d0"}, []string{"j0"}, "2 data directories"},
		{[]string{"d0", "x0"}, []string{"j0", "j1"}, "x0 belongs to another store"},
		{[]string{"d0", "new"}, []string{"j0", "j1"}, "directory new has no"},
		{[]string{"new2", "d1"}, []string{"j0", "j1"}, "d1"},
		{[]string{"d0", "d1"}, nil, "journal directories"},
		{[]string{"x0"}, []string{"j9"}, "j9"},
	} {
		err := open(c.data, c.journal)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v %v: %v, want %q", c.data, c.journal, err, c.want)
		}
	}
	s, err := Open(context.Background(), Options{FS: fs, DataDirs: []string{"x0"}, ManualBackground: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := open([]string{"x0"}, nil); err == nil {
		t.Error("opened twice")
	}
	if err := errors.Join(s.Close()); err != nil {
		t.Fatal(err)
	}
}

func (e *env) background() {
	e.t.Helper()
	if err := e.s.RunBackground(context.Background()); err != nil {
		e.t.Fatal(err)
	}
}

// keys counts the keys that Pebble still holds in one of the table's families.
func (e *env) keys(family byte) int {
	e.t.Helper()
	n := 0
	for _, sh := range e.s.shards {
		lo := appendTablePrefix(nil, e.tab.PhysID, family)
		it, err := sh.db.NewIter(&pebble.IterOptions{LowerBound: lo, UpperBound: prefixEnd(lo)})
		if err != nil {
			e.t.Fatal(err)
		}
		for it.First(); it.Valid(); it.Next() {
			n++
		}
		if err := it.Close(); err != nil {
			e.t.Fatal(err)
		}
	}
	return n
}

// TestPurge checks what goes at once, what after gc_grace, and what never.
func TestPurge(t *testing.T) {
	e := openEnv(t, Options{ManualBackground: true})
	const n = 600
	b := e.s.NewBatch(e.now)
	for c := range n {
		r := b.Row(e.tab, e.key(1), [][]byte{be8(c)})
		r.Marker(10, 0)
		r.Set(e.tab.Columns["body"], 10, 0, []byte("x"))
		r.Set(e.tab.Columns["author"], 30, 0, []byte("x"))
	}
	e.apply(b)
	for c := range n {
		if c >= 100 && c < 300 {
			e.deleteRow(1, c, 40)
		}
	}
	b = e.s.NewBatch(e.now)
	b.DeleteRange(e.tab, e.key(1), Slice{from(300), past(500)}, 50) // kills all of it
	b.DeleteRange(e.tab, e.key(1), Slice{from(500), past(510)}, 20) // kills all but author
	e.apply(b)
	check := func() {
		t.Helper()
		got, _ := e.show(1, RowQuery{Slices: []Slice{{from(99), from(511)}}})
		want := []string{"99:x"}
		for c := 500; c < 510; c++ {
			want = append(want, fmt.Sprintf("%d:", c))
		}
		want = append(want, "510:x", "511:x")
		e.want(got, "1|"+strings.Join(want, " "))
	}
	check()
	e.background()
	check()
	if got := e.keys(familyRow); got != n-200 {
		t.Fatalf("%d rows left, want those of the newest range deletion gone", got)
	}
	if e.keys(familyHead) == 0 {
		t.Fatal("the range deletion went before gc_grace")
	}
	e.insert(1, 400, 45, "late")
	check()
	if err := e.s.Compact(context.Background(), e.tab); err != nil {
		t.Fatal(err)
	}
	check()
	e.now += int64(e.tab.Options.GCGraceSeconds) + 1
	if err := e.s.Compact(context.Background(), e.tab); err != nil {
		t.Fatal(err)
	}
	check()
	if rows, heads := e.keys(familyRow), e.keys(familyHead); rows != n-400 || heads != 0 {
		t.Fatalf("%d rows and %d heads left", rows, heads)
	}
	if spans := e.keys(familySpan); spans != 0 {
		t.Fatalf("%d spans left", spans)
	}
}

// TestExpiry checks rows dead by TTL under a span and a clock that steps back.
func TestExpiry(t *testing.T) {
	e := openEnv(t, Options{ManualBackground: true})
	const n = 1000
	b := e.s.NewBatch(e.now)
	for c := range n {
		r := b.Row(e.tab, e.key(1), [][]byte{be8(c)})
		r.Marker(10, 50)
		r.Set(e.tab.Columns["body"], 10, 50, []byte("x"))
	}
	r := b.Row(e.tab, e.key(1), [][]byte{be8(n)})
	r.Marker(10, 0)
	e.apply(b)
	e.now += 60
	got, st := e.show(1, RowQuery{})
	e.want(got, "1|1000:")
	if st.Walked != n {
		t.Fatalf("%+v", st)
	}
	e.background()
	got, st = e.show(1, RowQuery{})
	e.want(got, "1|1000:")
	if st.Walked != 0 || st.Jumped != n {
		t.Fatalf("%+v", st)
	}
	e.now -= 30
	if got, _ = e.show(1, RowQuery{}); strings.Count(got, ":x") != n {
		t.Fatalf("an earlier clock sees %d rows", strings.Count(got, ":x"))
	}
}
