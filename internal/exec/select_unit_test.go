package exec

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"varve/internal/cql"
	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/schema"
	"varve/internal/store"
)

// threeColumns is a table whose clustering columns are ordered as given.
func threeColumns(desc [3]bool) *schema.Table {
	t := &schema.Table{PhysID: 7, Keyspace: "ks", Name: "t", PartitionKey: []*schema.Column{{ID: 1, Name: "k", Type: cqltype.Int}}}
	for i, d := range desc {
		t.Clustering = append(t.Clustering, &schema.Column{
			ID: uint16(i + 2), Name: string(rune('a' + i)), Kind: schema.Clustering, Position: i, Desc: d, Type: cqltype.Int,
		})
	}
	return t
}

func drawOrder(t *rapid.T) [3]bool {
	return [3]bool{rapid.Bool().Draw(t, "d0"), rapid.Bool().Draw(t, "d1"), rapid.Bool().Draw(t, "d2")}
}

func drawPrefix(t *rapid.T, name string, n int) [][]byte {
	p := make([][]byte, n)
	for i := range p {
		p[i] = intBytes(rapid.Int32Range(0, 3).Draw(t, name))
	}
	return p
}

// allRows are all combinations of three values, in the table's order.
func allRows(tab *schema.Table) [][][]byte {
	var rows [][][]byte
	for i := range 64 {
		rows = append(rows, [][]byte{intBytes(int32(i / 16)), intBytes(int32(i / 4 % 4)), intBytes(int32(i % 4))})
	}
	for i := 1; i < len(rows); i++ {
		for j := i; j > 0 && comparePrefix(tab.Clustering, rows[j], rows[j-1]) < 0; j-- {
			rows[j], rows[j-1] = rows[j-1], rows[j]
		}
	}
	return rows
}

// TestRangePieces checks ranges of tuples over columns of mixed orders against
// a comparison of each row: every row in exactly one slice or none, and the
// slices in the table's order.
func TestRangePieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := threeColumns(drawOrder(t))
		end := func(name string) tupleEnd {
			n := rapid.IntRange(0, 3).Draw(t, name+" columns")
			if n == 0 {
				return tupleEnd{}
			}
			return tupleEnd{values: drawPrefix(t, name, n), set: true, inclusive: rapid.Bool().Draw(t, name+" inclusive")}
		}
		lo, hi := end("lo"), end("hi")
		if !lo.set && !hi.set {
			return
		}
		pieces := rangePieces(tab.Clustering, lo, hi)
		sortPieces(tab.Clustering, pieces)
		ascending := func(row [][]byte, e tupleEnd) int {
			for i, v := range e.values {
				if n := bytes.Compare(row[i], v); n != 0 {
					return n
				}
			}
			return 0
		}
		last := 0
		for _, row := range allRows(tab) {
			want := true
			if n := ascending(row, lo); lo.set && (n < 0 || (n == 0 && !lo.inclusive)) {
				want = false
			}
			if n := ascending(row, hi); hi.set && (n > 0 || (n == 0 && !hi.inclusive)) {
				want = false
			}
			in := 0
			for i := range pieces {
				if !inSlices(tab, pieces[i:i+1], row) {
					continue
				}
				in++
				if i < last {
					t.Fatalf("slice %d comes after slice %d", i, last)
				}
				last = i
			}
			if (in == 1) != want || in > 1 {
				t.Fatalf("row %x is in %d slices, want it in: %v; lo %+v hi %+v", row, in, want, lo, hi)
			}
		}
	})
}

// TestSlicesAfter checks that what is left of slices past a row is what comes
// after it, whichever way the read goes.
func TestSlicesAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := threeColumns(drawOrder(t))
		reverse := rapid.Bool().Draw(t, "reverse")
		var slices []store.Slice
		if rapid.Bool().Draw(t, "restricted") {
			lo := tupleEnd{values: drawPrefix(t, "lo", rapid.IntRange(1, 3).Draw(t, "n")), set: true, inclusive: rapid.Bool().Draw(t, "inclusive")}
			hi := tupleEnd{values: drawPrefix(t, "hi", rapid.IntRange(1, 3).Draw(t, "m")), set: true, inclusive: rapid.Bool().Draw(t, "hi inclusive")}
			slices = rangePieces(tab.Clustering, lo, hi)
			sortPieces(tab.Clustering, slices)
			if slices == nil {
				slices = []store.Slice{}
			}
		}
		last := drawPrefix(t, "last", 3)
		left := slicesAfter(tab, slices, last, reverse)
		for _, row := range allRows(tab) {
			n := comparePrefix(tab.Clustering, row, last)
			want := (slices == nil || inSlices(tab, slices, row)) && ((n > 0 && !reverse) || (n < 0 && reverse))
			if got := inSlices(tab, left, row); got != want {
				t.Fatalf("row %x: in what is left: %v, want %v", row, got, want)
			}
		}
	})
}

func TestPageState(t *testing.T) {
	tab := threeColumns([3]bool{})
	for _, s := range []*pageState{
		{key: [][]byte{{1}}, clustering: [][]byte{{1}, {}, {3, 4}}, remaining: 5, perPartition: 0},
		{key: [][]byte{{}}, done: true, remaining: -1, perPartition: -1},
		{
			key: [][]byte{{9}}, clustering: [][]byte{{1}, {2}, {3}}, remaining: -1, perPartition: -1,
			hasIndex: true, index: 70000, indexValue: []byte("x"), static: true, valueOrder: true, untouched: true,
		},
	} {
		got, err := decodePage(tab, s.encode(tab))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(s, got, cmp.AllowUnexported(pageState{}), cmpopts.EquateEmpty()); d != "" {
			t.Error(d)
		}
	}
	b := (&pageState{key: [][]byte{{1}}, remaining: -1, perPartition: -1}).encode(tab)
	for i := range b {
		c := bytes.Clone(b)
		c[i] ^= 1
		if _, err := decodePage(tab, c); !errors.Is(err, errPagingState) {
			t.Errorf("byte %d changed: got %v", i, err)
		}
		if _, err := decodePage(tab, b[:i]); i > 0 && !errors.Is(err, errPagingState) {
			t.Errorf("cut at %d: got %v", i, err)
		}
	}
	if _, err := decodePage(&schema.Table{PhysID: 8, PartitionKey: tab.PartitionKey, Clustering: tab.Clustering}, b); !errors.Is(err, errPagingState) {
		t.Errorf("another table's: got %v", err)
	}
}

// FuzzPageState feeds states with a right checksum, so that what is behind it
// is reached.
func FuzzPageState(f *testing.F) {
	tab := threeColumns([3]bool{})
	s := &pageState{key: [][]byte{{1}}, clustering: [][]byte{{1}, {}, {3, 4}}, remaining: 5, hasIndex: true, indexValue: []byte("x")}
	b := s.encode(tab)
	f.Add(b[:len(b)-4])
	f.Add([]byte{pageVersion, 0xff, 0, 0, 0, 7, 1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, body []byte) {
		b := binary.BigEndian.AppendUint32(bytes.Clone(body), crc32.Checksum(body, crcTable))
		s, err := decodePage(tab, b)
		if err != nil || s == nil {
			return
		}
		again, err := decodePage(tab, s.encode(tab))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(s, again, cmp.AllowUnexported(pageState{}), cmpopts.EquateEmpty()); d != "" {
			t.Error(d)
		}
	})
}

// TestPagesOfAnyState gives reads states that are well formed but made up:
// none may panic or loop.
func TestPagesOfAnyState(t *testing.T) {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE t (k int, c int, s int static, v int, PRIMARY KEY (k, c))")
	te.exec(t, "CREATE INDEX ON t (v)")
	for i := range 9 {
		te.exec(t, fmt.Sprintf("INSERT INTO t (k, c, s, v) VALUES (%d, %d, 1, %d)", i%3, i, i%2))
	}
	tab := te.opts.Catalog.Snapshot().Table("ks", "t")
	states := []*pageState{
		{key: [][]byte{intBytes(1)}, clustering: [][]byte{intBytes(4)}, remaining: 2, perPartition: 1},
		{key: [][]byte{intBytes(77)}, done: true, remaining: -1, perPartition: -1},
		{key: [][]byte{{1, 2}}, clustering: [][]byte{{}}, remaining: 0, perPartition: 0},
		{key: [][]byte{intBytes(1)}, clustering: [][]byte{{1, 2}}, remaining: -1, perPartition: -1},
		{key: [][]byte{{}}, remaining: -1, perPartition: -1, hasIndex: true, indexValue: []byte("xxx")},
		{remaining: -1, perPartition: -1},
		{clustering: [][]byte{intBytes(4)}, remaining: -1, perPartition: -1, hasIndex: true, static: true, valueOrder: true},
	}
	for _, text := range []string{
		"SELECT * FROM t", "SELECT * FROM t WHERE k = 1", "SELECT * FROM t WHERE k IN (1, 2)", "SELECT * FROM t WHERE v = 1",
		"SELECT k, count(*) FROM t GROUP BY k", "SELECT DISTINCT k, s FROM t", "SELECT * FROM t WHERE k = 1 ORDER BY c DESC",
		"SELECT * FROM t PER PARTITION LIMIT 2 LIMIT 3", "SELECT * FROM t WHERE k = 1 AND c > 2", "SELECT * FROM system_schema.tables",
	} {
		for _, s := range states {
			p := &Params{Consistency: cqlwire.One, PageSize: 2, PagingState: s.encode(tab)}
			for n := 0; p.PagingState != nil; n++ {
				if n > 50 {
					t.Fatalf("%s: pages without end from %+v", text, s)
				}
				res, err := te.query(text, p)
				if err != nil {
					break
				}
				res.Release()
				p.PagingState = res.PagingState
			}
		}
	}
}

// TestSerialRead reads at SERIAL: one partition at a time, under its lock.
func TestSerialRead(t *testing.T) {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE t (k int PRIMARY KEY, v int)")
	te.exec(t, "INSERT INTO t (k, v) VALUES (1, 2) IF NOT EXISTS")
	for _, cl := range []cqlwire.Consistency{cqlwire.Serial, cqlwire.LocalSerial} {
		res, err := te.query("SELECT v FROM t WHERE k = 1", &Params{Consistency: cl})
		if err != nil || res.Count != 1 {
			t.Errorf("level %d: %v, %v", cl, res, err)
		}
		_, err = te.query("SELECT v FROM t WHERE k IN (1, 2)", &Params{Consistency: cl})
		if err == nil || err.Error() != "SERIAL/LOCAL_SERIAL consistency may only be requested for one partition at a time" {
			t.Errorf("level %d: several partitions: %v", cl, err)
		}
	}
}

func TestReadLevels(t *testing.T) {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE t (k int PRIMARY KEY, v int)")
	for cl, want := range map[cqlwire.Consistency]cqlwire.Error{
		cqlwire.Any:   {Code: cqlwire.ErrInvalid, Message: "ANY ConsistencyLevel is only supported for writes"},
		cqlwire.Two:   {Code: cqlwire.ErrUnavailable, Message: "Cannot achieve consistency level TWO", Consistency: cqlwire.Two, Required: 2, Received: 1},
		cqlwire.Three: {Code: cqlwire.ErrUnavailable, Message: "Cannot achieve consistency level THREE", Consistency: cqlwire.Three, Required: 3, Received: 1},
	} {
		_, err := te.query("SELECT v FROM t", &Params{Consistency: cl})
		var we *cqlwire.Error
		if !errors.As(err, &we) {
			t.Fatalf("level %d: %v", cl, err)
		}
		if d := cmp.Diff(&want, we); d != "" {
			t.Error(d)
		}
	}
	for _, cl := range []cqlwire.Consistency{cqlwire.One, cqlwire.Quorum, cqlwire.All, cqlwire.LocalQuorum, cqlwire.EachQuorum, cqlwire.LocalOne} {
		if _, err := te.query("SELECT v FROM t", &Params{Consistency: cl}); err != nil {
			t.Errorf("level %d: %v", cl, err)
		}
	}
}

// TestReadStops ends a read whose client went away.
func TestReadStops(t *testing.T) {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE t (k int PRIMARY KEY, v int)")
	te.exec(t, "INSERT INTO t (k, v) VALUES (1, 2)")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := te.Query(ctx, te.session, "SELECT v FROM t", one()); err == nil {
		t.Error("a read went on after its context had ended")
	}
}

// FuzzSelect plans and runs whatever parses: no statement may panic.
func FuzzSelect(f *testing.F) {
	te := newTestEngine(f)
	te.exec(f, "CREATE TYPE u (a int, b text)")
	te.exec(f, "CREATE TABLE t (k int, c int, d text, s int static, v int, l list<int>, m map<text, int>, st set<int>, x u, PRIMARY KEY (k, c, d)) "+
		"WITH CLUSTERING ORDER BY (c DESC, d ASC)")
	te.exec(f, "CREATE INDEX ON t (v)")
	te.exec(f, "INSERT INTO t (k, c, d, s, v, l, m, st, x) VALUES (1, 2, 'd', 3, 4, [5], {'a': 6}, {7}, {a: 8})")
	for _, s := range []string{
		"SELECT * FROM t", "SELECT k, max(v), m['a'], st[1..9], x.a FROM t WHERE k = 1 AND (c, d) > (1, 'a') ORDER BY c LIMIT 3",
		"SELECT JSON DISTINCT k, s FROM t WHERE token(k) > -9 PER PARTITION LIMIT 1 ALLOW FILTERING",
		"SELECT cast(v AS text), writetime(l), [v, k], (v, k), -v + 2 * (k - 1) FROM t WHERE v = 4 AND m CONTAINS KEY 'a' ALLOW FILTERING",
		"SELECT count(*) FROM t WHERE k IN (1, 2) AND c IN (1, 2) AND d < 'x' GROUP BY k, c",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := cql.Parse(text)
		if err != nil {
			return
		}
		if _, ok := parsed.Stmt.(*cql.Select); !ok {
			return
		}
		res, err := te.query(text, &Params{Consistency: cqlwire.One, PageSize: 2})
		var we *cqlwire.Error
		switch {
		case err == nil:
			res.Release()
		case !errors.As(err, &we):
			t.Errorf("%s: %v is no error of the protocol", text, err)
		case we.Code == cqlwire.ErrServer:
			t.Errorf("%s: %v", text, err)
		}
	})
}

// TestIndexMadeBetweenPages goes on with a read after an index was made that
// it now uses, and after that was dropped again.
func TestIndexMadeBetweenPages(t *testing.T) {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE t (k int, c int, v int, w int, PRIMARY KEY (k, c))")
	for i := range 40 {
		te.exec(t, fmt.Sprintf("INSERT INTO t (k, c, v, w) VALUES (%d, %d, 1, 2)", i/2, i%2))
	}
	const text = "SELECT k, c FROM t WHERE v = 1 AND w = 2 ALLOW FILTERING"
	whole, err := te.query(text, one())
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Clone(whole.Data)
	var got []byte
	p := &Params{Consistency: cqlwire.One, PageSize: 7}
	steps := []string{"CREATE INDEX iv ON t (v)", "CREATE INDEX iw ON t (w)", "DROP INDEX iv", "DROP INDEX iw"}
	for n := 0; ; n++ {
		res, err := te.query(text, p)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, res.Data...)
		res.Release()
		if res.PagingState == nil {
			break
		}
		if n < len(steps) {
			te.exec(t, steps[n])
		}
		p.PagingState = res.PagingState
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got %d bytes of rows, want %d", len(got), len(want))
	}
}
