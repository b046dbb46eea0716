package vtest

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
)

// modelCase is a list of changes to the row 1 of a partition and what is then
// read at a clock of 1000, as Lines writes it without keys.
type modelCase struct {
	name    string
	changes []Change
	want    string
}

func modelTable() *schema.Table {
	return NewTable(1, "t", PK("p", cqltype.Int), CK("c", cqltype.Int),
		Col("a", cqltype.Int), Col("m", cqltype.MapOf(cqltype.Int, cqltype.Int)), StaticCol("s", cqltype.Int))
}

func modelCases(t *schema.Table) []modelCase {
	row := [][]byte{Value(cqltype.Int, 2)} // 1
	a, m, s := t.Columns["a"], t.Columns["m"], t.Columns["s"]
	set := func(ts int64, ttl int32, v byte) Change {
		return Change{Kind: Set, Clustering: row, Column: a, TS: ts, TTL: ttl, Value: []byte{v}}
	}
	unset := func(ts int64) Change { return Change{Kind: Unset, Clustering: row, Column: a, TS: ts} }
	marker := func(ts int64, ttl int32) Change { return Change{Kind: Marker, Clustering: row, TS: ts, TTL: ttl} }
	elem := func(ts int64, path, v byte) Change {
		return Change{Kind: SetElement, Clustering: row, Column: m, Path: []byte{0, 0, 0, path}, TS: ts, Value: []byte{v}}
	}
	clear := func(ts int64) Change { return Change{Kind: Clear, Clustering: row, Column: m, TS: ts} }
	del := func(ts int64) Change { return Change{Kind: Delete, Clustering: row, TS: ts} }
	part := func(ts int64) Change { return Change{Kind: DeletePartition, TS: ts} }
	rng := func(ts int64, lo, hi int, incl bool) Change {
		return Change{Kind: DeleteRange, TS: ts, Slice: store.Slice{
			Start: store.Bound{Prefix: [][]byte{Value(cqltype.Int, lo)}, Inclusive: incl},
			End:   store.Bound{Prefix: [][]byte{Value(cqltype.Int, hi)}, Inclusive: incl},
		}}
	}
	static := func(ts int64, v byte) Change { return Change{Kind: Set, Column: s, TS: ts, Value: []byte{v}} }
	return []modelCase{
		{"newest wins", []Change{set(2, 0, 2), set(1, 0, 9)}, "row a=02@2"},
		{"equal timestamps: the larger value", []Change{set(1, 0, 2), set(1, 0, 0x80)}, "row a=80@1"},
		{"equal timestamps: a tombstone beats a value", []Change{set(1, 0, 9), unset(1)}, ""},
		{"equal timestamps: expiring beats plain", []Change{set(1, 0, 9), set(1, 5, 1)}, "row a=01@1,ttl=5,expiry=1005"},
		{"equal timestamps: a tombstone beats expiring", []Change{set(1, 5, 9), unset(1)}, ""},
		{"equal timestamps: the later expiry", []Change{set(1, 5, 9), set(1, 6, 1)}, "row a=01@1,ttl=6,expiry=1006"},
		{"a row deletion of the same timestamp deletes", []Change{set(1, 0, 9), marker(1, 0), del(1)}, ""},
		{"a newer value outlives a row deletion", []Change{set(2, 0, 9), marker(1, 0), del(1)}, "row a=09@2"},
		{"a marker alone makes a row", []Change{marker(1, 0)}, "row marker@1"},
		{"a null keeps the marker's row", []Change{marker(1, 0), unset(1)}, "row marker@1"},
		{"an update's row dies with its cells", []Change{set(1, 0, 1), unset(2)}, ""},
		{"a range takes its bounds when inclusive", []Change{marker(1, 0), rng(1, 2, 2, true)}, ""},
		{"and not otherwise", []Change{marker(1, 0), rng(1, 2, 2, false)}, "row marker@1"},
		{"a range around", []Change{marker(1, 0), rng(1, 1, 4, false)}, ""},
		{"a partition deletion takes the static row", []Change{static(1, 1), marker(1, 0), part(1)}, ""},
		{"a row deletion does not", []Change{static(1, 1), marker(1, 0), del(1)}, "static s=01@1"},
		{"nor a range", []Change{static(1, 1), rng(9, 1, 4, true)}, "static s=01@1"},
		{"a cleared map keeps what is newer", []Change{elem(1, 1, 1), elem(2, 2, 2), clear(1)}, "row m={ 00000002:02@2 }"},
		{"elements in order of key", []Change{elem(1, 2, 1), elem(1, 1, 2)}, "row m={ 00000001:02@1 00000002:01@1 }"},
		{"a cleared map's row", []Change{elem(1, 2, 1), clear(1), marker(0, 0)}, "row marker@0"},
	}
}

// TestModelRules compares the model with answers worked out by hand, in every order of arrival.
func TestModelRules(t *testing.T) {
	tab := modelTable()
	key := [][]byte{Value(cqltype.Int, 0)}
	for _, tc := range modelCases(tab) {
		t.Run(tc.name, func(t *testing.T) {
			permute(tc.changes, func(cs []Change) {
				m := NewModel()
				m.Apply(Batch{Now: 1000, Mutations: []Mutation{{Table: tab, Key: key, Changes: cs}}})
				if got := modelText(m, tab, key, 1000); got != tc.want {
					t.Errorf("%v\n got %q\nwant %q", cs, got, tc.want)
				}
			})
		})
	}
}

func modelText(m *Model, tab *schema.Table, key [][]byte, now int64) string {
	p, ok := m.Partition(tab, key, store.RowQuery{}, now)
	if !ok {
		return ""
	}
	var out []string
	for _, l := range Lines([]PartState{p})[1:] {
		out = append(out, strings.ReplaceAll(strings.TrimSpace(l), "row [00000001]", "row"))
	}
	return strings.Join(out, "\n")
}

func permute(cs []Change, f func([]Change)) {
	if len(cs) <= 1 {
		f(cs)
		return
	}
	for i := range cs {
		rest := append(append([]Change{}, cs[:i]...), cs[i+1:]...)
		permute(rest, func(p []Change) { f(append([]Change{cs[i]}, p...)) })
	}
}

// TestModelExpiry reads one cell before, at and after its expiry.
func TestModelExpiry(t *testing.T) {
	tab := modelTable()
	key := [][]byte{Value(cqltype.Int, 0)}
	m := NewModel()
	m.Apply(Batch{Now: 1000, Mutations: []Mutation{{Table: tab, Key: key, Changes: []Change{
		{Kind: Marker, Clustering: [][]byte{Value(cqltype.Int, 2)}, TS: 1, TTL: 10},
	}}}})
	for now, want := range map[int64]string{
		990: "row marker@1,ttl=10,expiry=1010", 1009: "row marker@1,ttl=10,expiry=1010", 1010: "", 2000: "",
	} {
		if got := modelText(m, tab, key, now); got != want {
			t.Errorf("at %d: %q, want %q", now, got, want)
		}
	}
}

// TestModelPrefixBounds checks how bounds on a prefix of a mixed-order clustering take in rows.
func TestModelPrefixBounds(t *testing.T) {
	tab := NewTable(1, "t", PK("p", cqltype.Int), CKDesc("c", cqltype.Int), CK("d", cqltype.Int), Col("a", cqltype.Int))
	ck := func(v ...byte) [][]byte {
		var out [][]byte
		for _, b := range v {
			out = append(out, []byte{0, 0, 0, b})
		}
		return out
	}
	rows := [][][]byte{ck(2, 0), ck(2, 1), ck(1, 0), ck(1, 1), ck(0, 0)} // in the table's order
	tests := []struct {
		s    store.Slice
		want int // bits, lowest first
	}{
		{store.Slice{}, 0b11111},
		{store.Slice{Start: store.Bound{Prefix: ck(1), Inclusive: true}}, 0b11100},
		{store.Slice{Start: store.Bound{Prefix: ck(1)}}, 0b10000},
		{store.Slice{End: store.Bound{Prefix: ck(1), Inclusive: true}}, 0b01111},
		{store.Slice{End: store.Bound{Prefix: ck(1)}}, 0b00011},
		{store.Slice{Start: store.Bound{Prefix: ck(2, 1), Inclusive: true}, End: store.Bound{Prefix: ck(1, 0), Inclusive: true}}, 0b00110},
		{store.Slice{Start: store.Bound{Prefix: ck(2, 0)}, End: store.Bound{Prefix: ck(1, 1)}}, 0b00110},
	}
	for _, tt := range tests {
		got := 0
		for i, r := range rows {
			if inSlice(tab, r, tt.s) {
				got |= 1 << i
			}
		}
		if got != tt.want {
			t.Errorf("%s takes %05b, want %05b", SliceString(tt.s), got, tt.want)
		}
	}
	if !slices.IsSortedFunc(rows, func(a, b [][]byte) int { return compareClustering(tab, a, b) }) {
		t.Error("rows of a mixed order do not sort as the table says")
	}
}

// TestModelForgetsOrder plays the same random changes in two orders.
func TestModelForgetsOrder(t *testing.T) {
	for seed := range uint64(40) {
		g := NewGen(rand.New(rand.NewPCG(seed, 0)))
		tables := Tables()
		var bs []Batch
		for range 60 {
			bs = append(bs, g.Batch(tables))
			g.Now += int64(g.R.IntN(3))
		}
		m1, m2 := NewModel(), NewModel()
		for i := range bs {
			m1.Apply(bs[i])
		}
		for _, i := range g.R.Perm(len(bs)) {
			m2.Apply(bs[i])
		}
		for _, tab := range tables {
			all := store.TokenRange{StartUnbounded: true, EndUnbounded: true}
			a, b := m1.Range(tab, all, store.RowQuery{}, nil, g.Now), m2.Range(tab, all, store.RowQuery{}, nil, g.Now)
			if d := Diff(a, b); d != "" {
				t.Errorf("seed %d table %s: %s", seed, tab.Name, d)
			}
		}
	}
}

// TestGeneratorsMakeEverything checks that a few thousand random changes hold
// each kind, ties of timestamps and extremes among them, and live rows remain.
func TestGeneratorsMakeEverything(t *testing.T) {
	g := NewGen(rand.New(rand.NewPCG(1, 1)))
	tables := Tables()
	kinds, stamps := map[Kind]int{}, map[int64]int{}
	m := NewModel()
	for range 150 {
		b := g.Batch(tables)
		m.Apply(b)
		for _, mu := range b.Mutations {
			for _, c := range mu.Changes {
				kinds[c.Kind]++
				stamps[c.TS]++
			}
		}
	}
	for k := Marker; k <= DeletePartition; k++ {
		if kinds[k] == 0 {
			t.Errorf("no %s among %v", kindNames[k], kinds)
		}
	}
	if stamps[math.MaxInt64] == 0 || len(stamps) > 60 {
		t.Errorf("%d different timestamps", len(stamps))
	}
	live := 0
	for _, tab := range tables {
		for _, p := range m.Range(tab, store.TokenRange{StartUnbounded: true, EndUnbounded: true}, store.RowQuery{}, nil, g.Now) {
			live += len(p.Rows)
		}
	}
	if live < 10 {
		t.Errorf("only %d live rows after 300 batches: reads would test nothing", live)
	}
}
