package store

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// modelRow is the obvious form of a row: everything that was ever written.
type modelRow struct {
	markers   []rowHeader
	deletions []rowHeader
	cells     []cell
}

func (m *modelRow) add(o modelRow) {
	m.markers = append(m.markers, o.markers...)
	m.deletions = append(m.deletions, o.deletions...)
	m.cells = append(m.cells, o.cells...)
}

// canonical reconciles by looking at everything at once.
func (m *modelRow) canonical() []byte {
	hdr := rowHeader{flags: rowVersion, delTS: noDeletion}
	for _, d := range m.deletions {
		if hdr.flags&rowHasDeletion == 0 || d.delTS > hdr.delTS || d.delTS == hdr.delTS && d.delLDT > hdr.delLDT {
			hdr.flags |= rowHasDeletion
			hdr.delTS, hdr.delLDT = d.delTS, d.delLDT
		}
	}
	var best *rowHeader
	for i := range m.markers {
		if best == nil || compareMarkers(&m.markers[i], best) > 0 {
			best = &m.markers[i]
		}
	}
	if best != nil && (hdr.flags&rowHasDeletion == 0 || best.base > hdr.delTS) {
		hdr.flags |= rowHasBase | rowHasMarker | best.flags&rowMarkerTTL
		hdr.base, hdr.markerTTL, hdr.markerExpiry = best.base, best.markerTTL, best.markerExpiry
	}
	places := map[string]*cell{}
	var order []string
	for i := range m.cells {
		c := &m.cells[i]
		k := fmt.Sprintf("%05d/%d/%x", c.col, 1-(c.flags&cellClear)/cellClear, c.path)
		if p := places[k]; p == nil {
			places[k] = c
			order = append(order, k)
		} else if compareCells(c, p) > 0 {
			places[k] = c
		}
	}
	slices.Sort(order)
	var w rowWriter
	w.begin(nil, hdr)
	for _, k := range order {
		w.add(places[k])
	}
	return w.end()
}

func genRow(t *rapid.T) modelRow {
	var m modelRow
	ts := rapid.Int64Range(-2, 6)
	ldt := rapid.Int64Range(0, 3)
	if rapid.Bool().Draw(t, "marker") {
		h := rowHeader{flags: rowVersion | rowHasBase | rowHasMarker, base: ts.Draw(t, "ts"), delTS: noDeletion}
		if rapid.Bool().Draw(t, "ttl") {
			h.flags |= rowMarkerTTL
			h.markerTTL = rapid.Int32Range(1, 3).Draw(t, "ttl")
			h.markerExpiry = ldt.Draw(t, "expiry")
		}
		m.markers = append(m.markers, h)
	}
	if rapid.IntRange(0, 3).Draw(t, "del") == 0 {
		m.deletions = append(m.deletions, rowHeader{delTS: ts.Draw(t, "ts"), delLDT: ldt.Draw(t, "ldt")})
	}
	for range rapid.IntRange(0, 4).Draw(t, "cells") {
		c := cell{col: uint16(rapid.SampledFrom([]int{0, 1, 2, 200, 300}).Draw(t, "col")), ts: ts.Draw(t, "ts")}
		if c.col >= 200 {
			if rapid.IntRange(0, 3).Draw(t, "clear") == 0 {
				c.flags, c.ldt = cellClear, ldt.Draw(t, "ldt")
				m.cells = append(m.cells, c)
				continue
			}
			c.flags = cellPath
			c.path = []byte(rapid.SampledFrom([]string{"", "a", "b", "ab"}).Draw(t, "path"))
		}
		if c.col == 2 {
			c.flags = cellCounter
		}
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			c.flags |= cellTomb
			c.ldt = ldt.Draw(t, "ldt")
		case 1:
			if c.col != 2 {
				c.flags |= cellExpiring
				c.ldt, c.ttl = ldt.Draw(t, "expiry"), rapid.Int32Range(1, 2).Draw(t, "ttl")
			}
			fallthrough
		default:
			c.value = []byte(rapid.SampledFrom([]string{"", "x", "y", "xyz"}).Draw(t, "value"))
		}
		m.cells = append(m.cells, c)
	}
	return m
}

// TestMergeAnyOrder merges operands in random orders and groupings, some of
// them twice, and wants what the model makes of them all at once.
func TestMergeAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all modelRow
		var operands [][]byte
		for range rapid.IntRange(1, 6).Draw(t, "rows") {
			m := genRow(t)
			all.add(m)
			operands = append(operands, m.canonical())
		}
		want := all.canonical()
		if !wellFormed(want) {
			t.Fatalf("the model made a malformed row %x", want)
		}
		for range rapid.IntRange(0, 3).Draw(t, "twice") {
			operands = append(operands, rapid.SampledFrom(operands).Draw(t, "again"))
		}
		tree := rapid.Permutation(operands).Draw(t, "order")
		for len(tree) > 1 {
			i := rapid.IntRange(0, len(tree)-2).Draw(t, "join")
			tree[i] = mergeValues(nil, tree[i], tree[i+1])
			tree = slices.Delete(tree, i+1, i+2)
		}
		if d := cmp.Diff(want, mergeValues(nil, tree[0], tree[0])); d != "" {
			t.Fatalf("tree: -want +got\n%s", d)
		}
		m := newMerger(nil)
		v, _ := m.Merge(nil, operands[0])
		for _, o := range operands[1:] {
			if rapid.Bool().Draw(t, "newer") {
				_ = v.MergeNewer(o)
			} else {
				_ = v.MergeOlder(o)
			}
		}
		got, closer, err := v.Finish(true)
		if err != nil {
			t.Fatal(err)
		}
		if len(operands) == 1 {
			got = mergeValues(nil, got, got)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("merger: -want +got\n%s", d)
		}
		closer.Close()
	})
}

// TestMergeUnknown keeps operands of an unknown version, in any order.
func TestMergeUnknown(t *testing.T) {
	m := modelRow{cells: []cell{{col: 1, ts: 5, value: []byte("v")}}}
	n := modelRow{cells: []cell{{col: 2, ts: 6, value: []byte("w")}}}
	row, other := m.canonical(), n.canonical()
	odd, odder := []byte{0x41, 1, 2}, []byte{}
	a := mergeValues(nil, mergeValues(nil, row, odd), mergeValues(nil, other, odder))
	b := mergeValues(nil, odder, mergeValues(nil, odd, mergeValues(nil, other, mergeValues(nil, odd, row))))
	if !bytes.Equal(a, b) {
		t.Fatalf("order matters: %x and %x", a, b)
	}
	got, blobs := opaqueParts(a)
	both := modelRow{cells: append(m.cells, n.cells...)}
	if !bytes.Equal(got, both.canonical()) || len(blobs) != 2 {
		t.Fatalf("lost something: %x %x", got, blobs)
	}
}

func FuzzMerge(f *testing.F) {
	m := modelRow{cells: []cell{{col: 1, ts: 5, value: []byte("v")}, {col: 300, flags: cellPath | cellTomb, path: []byte("p")}}}
	f.Add(m.canonical(), []byte{opaque, 0})
	f.Add([]byte{0x2f}, []byte{0x21, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 200, 1})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		x, y := mergeValues(nil, a, b), mergeValues(nil, b, a)
		if wellFormed(a) && wellFormed(b) {
			if !bytes.Equal(x, y) || !wellFormed(x) {
				t.Fatalf("%x and %x merge to %x and %x", a, b, x, y)
			}
		}
	})
}
