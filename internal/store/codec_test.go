package store

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"varve/internal/cqltype"
	"varve/internal/schema"
)

// TestKeyOrder puts rows of all shapes into key form and wants them sorted as
// Cassandra sorts them: static row first, then by clustering columns, each in its order;
// bounds must stand right before or after all rows that begin with their prefix.
func TestKeyOrder(t *testing.T) {
	for _, desc := range []bool{false, true} {
		tab := &schema.Table{PhysID: 3, Clustering: []*schema.Column{
			{Name: "a", Kind: schema.Clustering, Type: cqltype.Text, Desc: desc},
			{Name: "b", Kind: schema.Clustering, Type: cqltype.Varint},
		}}
		rapid.Check(t, func(t *rapid.T) {
			draw := func(label string) [][]byte {
				a := rapid.SampledFrom([]string{"", "\x00", "\x00\x00", "a", "a\x00", "ab", "b", "\xc3\xbf"}).Draw(t, label+"a")
				b := rapid.SampledFrom([][]byte{{}, {0}, {1}, {0xff}, {0x7f}, {0x80}, {1, 0}, {0xfe, 0}}).Draw(t, label+"b")
				return [][]byte{[]byte(a), b}
			}
			x, y := draw("x"), draw("y")
			cmp := bytes.Compare(x[0], y[0])
			if desc {
				cmp = -cmp
			}
			if cmp == 0 {
				cmp = cqltype.Compare(cqltype.Varint, x[1], y[1])
			}
			suffix := func(row [][]byte) []byte {
				s, err := appendSuffix(nil, tab, row)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			sx, sy := suffix(x), suffix(y)
			if got := bytes.Compare(sx, sy); got != cmp {
				t.Fatalf("%x against %x: %d, want %d", sx, sy, got, cmp)
			}
			if bytes.Compare(suffix(nil), sx) >= 0 || bytes.Compare([]byte{suffixFirst}, sx) >= 0 || bytes.Compare(sx, []byte{suffixEnd}) >= 0 {
				t.Fatalf("row %x is not between the partition's ends", sx)
			}
			back, _, err := decodeSuffix(nil, nil, tab, sx)
			if err != nil || !bytes.Equal(back[0], x[0]) || cqltype.Compare(cqltype.Varint, back[1], x[1]) != 0 {
				t.Fatalf("%x decodes to %x: %v", sx, back, err)
			}
			for _, n := range []int{1, 2} {
				for _, incl := range []bool{false, true} {
					b := Bound{Prefix: y[:n], Inclusive: incl}
					lo, err := appendStart(nil, tab, b)
					if err != nil {
						t.Fatal(err)
					}
					hi, err := appendEnd(nil, tab, b)
					if err != nil {
						t.Fatal(err)
					}
					c := bytes.Compare(x[0], y[0])
					if desc {
						c = -c
					}
					if c == 0 && n == 2 {
						c = cqltype.Compare(cqltype.Varint, x[1], y[1])
					}
					if in := bytes.Compare(sx, lo) >= 0; in != (c > 0 || c == 0 && incl) {
						t.Fatalf("row %x, start %x (prefix of %d, inclusive %v): in %v", sx, lo, n, incl, in)
					}
					if in := bytes.Compare(sx, hi) < 0; in != (c < 0 || c == 0 && incl) {
						t.Fatalf("row %x, end %x (prefix of %d, inclusive %v): in %v", sx, hi, n, incl, in)
					}
				}
			}
		})
	}
}

// TestMergeIntervals compares lists of intervals, merged one by one and all at
// once, with what covers each point.
func TestMergeIntervals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all, list []interval
		var want [40]interval
		for range rapid.IntRange(1, 30).Draw(t, "n") {
			lo := rapid.IntRange(0, 38).Draw(t, "lo")
			hi := rapid.IntRange(lo+1, 39).Draw(t, "hi")
			v := interval{[]byte{byte(lo)}, []byte{byte(hi)}, rapid.Int64Range(-3, 3).Draw(t, "ts"), rapid.Int64Range(1, 3).Draw(t, "ldt")}
			all = append(all, v)
			list = mergeIntervals(list, []interval{v})
			for p := lo; p < hi; p++ {
				if want[p].ldt == 0 || v.newer(&want[p]) {
					want[p] = v
				}
			}
			_, list2, err := decodeChunk(nil, appendChunk(nil, []byte{5}, list))
			if err != nil {
				t.Fatal(err)
			}
			list = list2
		}
		half := rapid.IntRange(0, len(all)).Draw(t, "half")
		halves := mergeIntervals(disjoint(slices.Clone(all[:half])), disjoint(slices.Clone(all[half:])))
		for _, list := range [][]interval{list, disjoint(slices.Clone(all)), halves} {
			for i := 1; i < len(list); i++ {
				if bytes.Compare(list[i-1].hi, list[i].lo) > 0 || bytes.Compare(list[i].lo, list[i].hi) >= 0 {
					t.Fatalf("not disjoint: %v", list)
				}
			}
			for p := range want {
				i := slices.IndexFunc(list, func(v interval) bool { return v.lo[0] <= byte(p) && byte(p) < v.hi[0] })
				if (i >= 0) != (want[p].ldt != 0) || i >= 0 && (list[i].ts != want[p].ts || list[i].ldt != want[p].ldt) {
					t.Fatalf("point %d: interval %d of %v, want %v", p, i, list, want[p])
				}
			}
		}
	})
}

// TestPurgeRow checks that purging keeps exactly what a reader and a later merge still need.
func TestPurgeRow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := genRow(t)
		v := m.canonical()
		del := rapid.SampledFrom([]int64{noDeletion, 0, 3}).Draw(t, "del")
		gc := rapid.Int64Range(0, 4).Draw(t, "gc")
		now := gc + rapid.Int64Range(0, 2).Draw(t, "later")
		var left tombs
		out, what := purgeRow(nil, v, del, gc, noDeletion, &left)
		before, _ := fateOf(v, del, now)
		switch what {
		case purgedNothing:
			return
		case purgedAll:
			if before.live {
				t.Fatalf("purged the live row %x", v)
			}
			return
		}
		if !wellFormed(out) {
			t.Fatalf("%x purged to malformed %x", v, out)
		}
		after, _ := fateOf(out, del, now)
		if before.live != after.live {
			t.Fatalf("%x purged to %x: live %v, was %v", v, out, after.live, before.live)
		}
		if _, again := purgeRow(nil, out, del, gc, noDeletion, &left); again != purgedNothing {
			t.Fatalf("%x purged to %x is not done", v, out)
		}
	})
}

func FuzzDecode(f *testing.F) {
	m := modelRow{cells: []cell{{col: 1, ts: 5, value: []byte("v")}, {col: 300, flags: cellPath | cellTomb, path: []byte("p")}}}
	f.Add(m.canonical())
	f.Add(appendChunk(nil, []byte{5}, []interval{{[]byte{6}, []byte{7}, 1, 2}}))
	f.Add([]byte{spanVersion, 2, 1, 2, 3, 4, 5, 0})
	f.Fuzz(func(_ *testing.T, b []byte) {
		var left tombs
		wellFormed(b)
		opaqueParts(b)
		fateOf(b, 3, 5)
		purgeRow(nil, b, 3, 5, 9, &left)
		_, _, _ = decodeChunk(nil, b)
		decodeSpan(append(make([]byte, 13), b...), b)
		_, _ = addCounters(b, b, 3, 4)
		_, _, _ = decodeSuffix(nil, nil, testTable(1, true), b)
		_, _, _ = partitionLen(testTable(1, true), b, nil)
	})
}
