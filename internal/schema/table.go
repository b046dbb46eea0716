package schema

import (
	"fmt"
	"slices"
	"strings"

	"varve/internal/cqltype"
)

// maxColumnIDs bounds the columns a table ever had: ids are 16 bits wide, and
// the store keeps the last one for itself.
const maxColumnIDs = 1<<16 - 1

// FirstUserPhysID is where physical ids of user tables begin; those below
// belong to system tables and are fixed for ever.
const FirstUserPhysID = 64

// arrange fills everything of a table that follows from ByID.
func (t *Table) arrange() error {
	t.PartitionKey, t.Clustering, t.Static, t.Regular = nil, nil, nil, nil
	t.Columns = make(map[string]*Column, len(t.ByID))
	for _, c := range t.ByID {
		if c == nil {
			continue
		}
		if t.Columns[c.Name] != nil {
			return fmt.Errorf("column %q is there twice", c.Name)
		}
		t.Columns[c.Name] = c
		switch c.Kind {
		case PartitionKey:
			t.PartitionKey = append(t.PartitionKey, c)
		case Clustering:
			t.Clustering = append(t.Clustering, c)
		case Static:
			t.Static = append(t.Static, c)
		default:
			t.Regular = append(t.Regular, c)
		}
	}
	byName := func(a, b *Column) int { return strings.Compare(a.Name, b.Name) }
	byPosition := func(a, b *Column) int { return a.Position - b.Position }
	slices.SortFunc(t.PartitionKey, byPosition)
	slices.SortFunc(t.Clustering, byPosition)
	slices.SortFunc(t.Static, byName)
	slices.SortFunc(t.Regular, byName)
	for _, key := range [][]*Column{t.PartitionKey, t.Clustering} {
		for i, c := range key {
			if c.Position != i || c.Type.IsMultiCell() {
				return fmt.Errorf("key column %q has position %d and type %s", c.Name, c.Position, c.Type)
			}
		}
	}
	if len(t.PartitionKey) == 0 {
		return fmt.Errorf("table %s.%s has no partition key", t.Keyspace, t.Name)
	}
	return nil
}

// clone copies a table so far that columns and indexes may be added and
// replaced. Columns themselves are shared and must be copied to be changed.
func (t *Table) clone() *Table {
	n := *t
	n.ByID = slices.Clone(t.ByID)
	n.Indexes = slices.Clone(t.Indexes)
	n.Dropped = slices.Clone(t.Dropped)
	return &n
}

// addColumn gives a new column its id.
func (t *Table) addColumn(c Column) error {
	if len(t.ByID) >= maxColumnIDs {
		return invalid("Table %s.%s has had %d columns and can have no more", t.Keyspace, t.Name, maxColumnIDs)
	}
	c.ID = uint16(len(t.ByID))
	t.ByID = append(t.ByID, &c)
	return nil
}

// relink makes indexes point to the table's current columns.
func (t *Table) relink() {
	for i, x := range t.Indexes {
		if col := t.ByID[x.Column.ID]; col != x.Column {
			n := *x
			n.Column = col
			t.Indexes[i] = &n
		}
	}
}

// columnsInOrder lists columns as CREATE TABLE does: keys, then static and
// regular ones, those of one cell before collections and non-frozen user types.
func (t *Table) columnsInOrder() []*Column {
	cols := slices.Concat(t.PartitionKey, t.Clustering)
	for _, group := range [][]*Column{t.Static, t.Regular} {
		for _, multi := range []bool{false, true} {
			for _, c := range group {
				if c.Type.IsMultiCell() == multi {
					cols = append(cols, c)
				}
			}
		}
	}
	return cols
}

// maxTypeNodes bounds the types that one type is made of, user types counted
// with all their fields at every use: a chain of types that each name the one
// before twice would otherwise grow beyond all memory.
const maxTypeNodes = 8192

func typeNodes(t *cqltype.Type) int {
	n := 1
	for _, e := range t.Elems {
		n += typeNodes(e)
	}
	return n
}

func checkTypeSize(t *cqltype.Type) error {
	if n := typeNodes(t); n > maxTypeNodes {
		return invalid("Type %s is made of %d types, more than the limit of %d", qualified(t), n, maxTypeNodes)
	}
	return nil
}

// usesDuration reports a duration anywhere inside t.
func usesDuration(t *cqltype.Type) bool {
	return t.Kind == cqltype.KindDuration || slices.ContainsFunc(t.Elems, usesDuration)
}

// usesType reports the user type name anywhere inside t.
func usesType(t *cqltype.Type, name string) bool {
	if t.Kind == cqltype.KindUDT && t.Name == name {
		return true
	}
	return slices.ContainsFunc(t.Elems, func(e *cqltype.Type) bool { return usesType(e, name) })
}

// replaceType returns t with every use of a user type replaced by its new definition.
func replaceType(t, def *cqltype.Type) *cqltype.Type {
	if t.Kind == cqltype.KindUDT && t.Name == def.Name {
		n := *def
		n.Frozen = t.Frozen
		return &n
	}
	if !usesType(t, def.Name) {
		return t
	}
	n := *t
	n.Elems = make([]*cqltype.Type, len(t.Elems))
	for i, e := range t.Elems {
		n.Elems[i] = replaceType(e, def)
	}
	return &n
}

// mustArrange is arrange after a change that cannot break a table.
func (t *Table) mustArrange() {
	if err := t.arrange(); err != nil {
		panic("BUG: changed table is inconsistent: " + err.Error())
	}
	t.relink()
}
