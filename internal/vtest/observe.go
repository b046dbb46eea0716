package vtest

import (
	"fmt"
	"slices"
	"strings"

	"varve/internal/schema"
	"varve/internal/store"
)

// Collect reads everything an iterator returns and closes it.
func Collect(t *schema.Table, rows *store.Rows) ([]PartState, error) {
	var out []PartState
	for rows.NextPartition() {
		p := ObservePartition(t, rows)
		for rows.Next() {
			p.Rows = append(p.Rows, Observe(t, rows.Row()))
		}
		out = append(out, p)
	}
	return out, rows.Close()
}

// ObservePartition copies the current partition's key and static row, without its rows.
func ObservePartition(t *schema.Table, rows *store.Rows) PartState {
	p := PartState{Key: cloneAll(rows.KeyComponents())}
	if s := rows.Static(); s != nil {
		st := observe(t.Static, s)
		p.Static = &st
	}
	return p
}

// Observe copies the current row of a table out of an iterator's buffers.
func Observe(t *schema.Table, r *store.Row) RowState { return observe(t.Regular, r) }

func observe(columns []*schema.Column, r *store.Row) RowState {
	out := RowState{
		Clustering: cloneAll(r.Clustering()),
		Cells:      map[string]store.Cell{}, Elements: map[string][]store.Cell{},
	}
	if m, ok := r.Marker(); ok {
		c := cloneCell(m)
		out.Marker = &c
	}
	for _, col := range columns {
		if col.Type.IsMultiCell() {
			for _, e := range r.Elements(nil, col) {
				out.Elements[col.Name] = append(out.Elements[col.Name], cloneCell(e))
			}
			continue
		}
		c, ok := r.Cell(col)
		v := r.Value(col)
		if ok != (v != nil) || string(v) != string(c.Value) {
			// Recorded as a value that no model has, so that a comparison shows it.
			c.Value = fmt.Appendf(nil, "Cell=%v,%x but Value=%x", ok, c.Value, v)
			ok = true
		}
		if ok {
			out.Cells[col.Name] = cloneCell(c)
		}
	}
	return out
}

func cloneCell(c store.Cell) store.Cell {
	c.Path, c.Value = slices.Clone(c.Path), slices.Clone(c.Value)
	return c
}

func cloneAll(vs [][]byte) [][]byte {
	if vs == nil {
		return nil
	}
	out := make([][]byte, len(vs))
	for i, v := range vs {
		out[i] = append([]byte{}, v...)
	}
	return out
}

// Lines writes partitions as text, one line a row, for comparison and for error messages.
func Lines(parts []PartState) []string {
	var out []string
	for _, p := range parts {
		out = append(out, fmt.Sprintf("partition %x", p.Key))
		if p.Static != nil {
			out = append(out, "  static"+p.Static.text())
		}
		for _, r := range p.Rows {
			out = append(out, fmt.Sprintf("  row %x%s", r.Clustering, r.text()))
		}
	}
	return out
}

func (r RowState) text() string {
	var b strings.Builder
	if r.Marker != nil {
		b.WriteString(" marker" + cellText(*r.Marker))
	}
	names := make([]string, 0, len(r.Cells)+len(r.Elements))
	for n := range r.Cells {
		names = append(names, n)
	}
	for n := range r.Elements {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		if c, ok := r.Cells[n]; ok {
			fmt.Fprintf(&b, " %s=%x%s", n, c.Value, cellText(c))
			continue
		}
		fmt.Fprintf(&b, " %s={", n)
		for _, e := range r.Elements[n] {
			fmt.Fprintf(&b, " %x:%x%s", e.Path, e.Value, cellText(e))
		}
		b.WriteString(" }")
	}
	return b.String()
}

func cellText(c store.Cell) string {
	if c.TTL == 0 && c.Expiry == 0 {
		return fmt.Sprintf("@%d", c.Timestamp)
	}
	return fmt.Sprintf("@%d,ttl=%d,expiry=%d", c.Timestamp, c.TTL, c.Expiry)
}

// Diff compares what a store returned with what the model says; empty when they agree.
func Diff(want, got []PartState) string {
	w, g := Lines(want), Lines(got)
	if slices.Equal(w, g) {
		return ""
	}
	var b strings.Builder
	for i := range max(len(w), len(g)) {
		wl, gl := lineAt(w, i), lineAt(g, i)
		switch {
		case wl == gl:
			fmt.Fprintf(&b, "    %s\n", wl)
		default:
			fmt.Fprintf(&b, "  - %s\n  + %s\n", wl, gl)
		}
	}
	return "(- model, + store)\n" + b.String()
}

func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}
