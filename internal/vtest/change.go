package vtest

import (
	"fmt"
	"strings"

	"varve/internal/schema"
	"varve/internal/store"
)

// Kind is what a change does.
type Kind uint8

// The kinds of change, named after the store's calls.
const (
	Marker Kind = iota
	Set
	Unset
	SetElement
	UnsetElement
	Clear
	Delete
	DeleteRange
	DeletePartition
)

var kindNames = [...]string{
	"Marker", "Set", "Unset", "SetElement", "UnsetElement", "Clear", "Delete", "DeleteRange", "DeletePartition",
}

// Change is one change to a partition. Fields that its kind has no use for are zero.
type Change struct {
	Kind       Kind
	Clustering [][]byte // the row; nil: the static row
	Column     *schema.Column
	Path       []byte
	Value      []byte
	TS         int64
	TTL        int32 // seconds; 0: none
	Slice      store.Slice
}

// Mutation is a list of changes to one partition.
type Mutation struct {
	Table   *schema.Table
	Key     [][]byte // partition key components
	Changes []Change
}

// Batch is a list of mutations applied at one clock.
type Batch struct {
	Now       int64 // seconds
	Mutations []Mutation
}

// Build puts the batch into a store's batch.
func (b Batch) Build(st *store.Store) (*store.Batch, error) {
	sb := st.NewBatch(b.Now)
	for _, m := range b.Mutations {
		k, err := store.KeyOf(m.Table, m.Key)
		if err != nil {
			return nil, err
		}
		for _, c := range m.Changes {
			c.add(sb, m.Table, k)
		}
	}
	return sb, nil
}

func (c Change) add(sb *store.Batch, t *schema.Table, k store.Key) {
	switch c.Kind {
	case DeletePartition:
		sb.DeletePartition(t, k, c.TS)
		return
	case DeleteRange:
		sb.DeleteRange(t, k, c.Slice, c.TS)
		return
	}
	r := sb.Row(t, k, c.Clustering)
	switch c.Kind {
	case Marker:
		r.Marker(c.TS, c.TTL)
	case Set:
		r.Set(c.Column, c.TS, c.TTL, c.Value)
	case Unset:
		r.Unset(c.Column, c.TS)
	case SetElement:
		r.SetElement(c.Column, c.Path, c.TS, c.TTL, c.Value)
	case UnsetElement:
		r.UnsetElement(c.Column, c.Path, c.TS)
	case Clear:
		r.Clear(c.Column, c.TS)
	case Delete:
		r.Delete(c.TS)
	}
}

// String tells the change in one line.
func (c Change) String() string {
	var b strings.Builder
	b.WriteString(kindNames[c.Kind])
	switch c.Kind {
	case DeletePartition:
	case DeleteRange:
		b.WriteString(" " + SliceString(c.Slice))
	default:
		if c.Clustering == nil {
			b.WriteString(" static")
		} else {
			fmt.Fprintf(&b, " %x", c.Clustering)
		}
	}
	if c.Column != nil {
		fmt.Fprintf(&b, " %s", c.Column.Name)
	}
	if c.Path != nil {
		fmt.Fprintf(&b, "[%x]", c.Path)
	}
	if c.Kind == Set || c.Kind == SetElement {
		fmt.Fprintf(&b, "=%x", c.Value)
	}
	fmt.Fprintf(&b, " ts=%d", c.TS)
	if c.TTL != 0 {
		fmt.Fprintf(&b, " ttl=%d", c.TTL)
	}
	return b.String()
}

// String lists the batch's changes, one a line.
func (b Batch) String() string {
	var w strings.Builder
	for _, m := range b.Mutations {
		fmt.Fprintf(&w, "  now=%d %s %x\n", b.Now, m.Table.Name, m.Key)
		for _, c := range m.Changes {
			fmt.Fprintf(&w, "    %s\n", c)
		}
	}
	return w.String()
}

// SliceString writes a slice as an interval of hexadecimal prefixes.
func SliceString(s store.Slice) string {
	open, end := "(", ")"
	if s.Start.Inclusive {
		open = "["
	}
	if s.End.Inclusive {
		end = "]"
	}
	return fmt.Sprintf("%s%x .. %x%s", open, s.Start.Prefix, s.End.Prefix, end)
}
