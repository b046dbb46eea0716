package exec

import (
	"slices"

	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
)

func (mu *mutation) addToList(op *operation, elems [][]byte, prepend bool) error {
	e := mu.x.e
	now := e.opts.Clock()
	first := int64(0)
	if prepend {
		first = e.uuids.before(now, len(elems))
	}
	for i, v := range elems {
		id := schema.UUID{}
		if prepend {
			id = e.uuids.at(first + int64(i))
		} else {
			id = e.uuids.next(now)
		}
		if err := mu.setElement(op, id[:], v); err != nil {
			return err
		}
	}
	return nil
}

// pendingCell is what an earlier operation of the same statement did to a
// list's element; later ones see it.
type pendingCell struct {
	col   *schema.Column
	path  []byte
	value []byte // nil: deleted
	clear bool   // all that was there before the statement is gone
}

// listWrite notes a change of a list for the statement's later operations.
func (mu *mutation) listWrite(op *operation, p pendingCell) {
	if mu.view != nil && op.col.Type.Kind == cqltype.KindList {
		p.col = op.col
		mu.pending = append(mu.pending, p)
	}
}

// list is the state of a list in the row being changed: its live elements as
// they are stored, with the changes that the statement has made so far.
func (mu *mutation) list(c *schema.Column) ([]store.Cell, error) {
	cells, err := mu.storedList(c)
	if err != nil {
		return nil, err
	}
	for _, p := range mu.pending {
		if p.col != c {
			continue
		}
		if p.clear {
			cells = slices.DeleteFunc(cells, func(s store.Cell) bool { return s.Timestamp < mu.ts })
			continue
		}
		cells = overlay(cells, p, mu.ts)
	}
	return cells, nil
}

// overlay puts one pending change over the cells of a list, by the rules that
// reconcile cells: the newer wins; of the same age, a deletion, else the larger value.
func overlay(cells []store.Cell, p pendingCell, ts int64) []store.Cell {
	i, found := slices.BinarySearchFunc(cells, p.path, func(s store.Cell, path []byte) int {
		return cqltype.Compare(cqltype.Timeuuid, s.Path, path)
	})
	switch {
	case !found && p.value == nil:
	case !found:
		cells = slices.Insert(cells, i, store.Cell{Path: p.path, Value: p.value, Timestamp: ts})
	case cells[i].Timestamp > ts:
	case p.value == nil:
		cells = slices.Delete(cells, i, i+1)
	case cells[i].Timestamp < ts || string(p.value) > string(cells[i].Value):
		cells[i].Value, cells[i].Timestamp = p.value, ts
	}
	return cells
}

func (mu *mutation) storedList(c *schema.Column) ([]store.Cell, error) {
	q := store.RowQuery{StaticOnly: true}
	if c.Kind != schema.Static {
		b := store.Bound{Prefix: mu.clustering, Inclusive: true}
		q = store.RowQuery{NoStatic: true}
		if len(mu.clustering) > 0 {
			q.Slices = []store.Slice{{Start: b, End: b}}
		}
	}
	rows := mu.view.Partition(mu.m.t, mu.key, q)
	var cells []store.Cell
	if rows.NextPartition() {
		row := rows.Static()
		if c.Kind != schema.Static {
			row = nil
			if rows.Next() {
				row = rows.Row()
			}
		}
		if row != nil {
			cells = row.Elements(nil, c)
		}
	}
	for i := range cells {
		cells[i].Path = slices.Clone(cells[i].Path)
		cells[i].Value = slices.Clone(cells[i].Value)
	}
	return cells, rows.Close()
}

// listCell finds the element that an index names; nil when nothing is to be deleted.
func (mu *mutation) listCell(op *operation, verb string) ([]byte, error) {
	k, err := op.key.eval(mu.x)
	if err != nil {
		return nil, err
	}
	if k.Unset {
		if op.kind == opClearIndex {
			return nil, nil
		}
		return nil, invalidf("Invalid unset value for list index")
	}
	if len(k.Bytes) == 0 {
		return nil, invalidf("Invalid null value for list index")
	}
	cells, err := mu.list(op.col)
	if err != nil {
		return nil, err
	}
	i := intOf(k.Bytes)
	if len(cells) == 0 {
		return nil, invalidf("Attempted to %s list which is null", verb)
	}
	if i < 0 || int(i) >= len(cells) {
		return nil, invalidf("List index %d out of bound, list has size %d", i, len(cells))
	}
	return cells[i].Path, nil
}

func (mu *mutation) setIndex(op *operation, v value) error {
	path, err := mu.listCell(op, "set an element on a")
	if err != nil || v.Unset {
		return err
	}
	return mu.setElement(op, path, v.Bytes)
}

func (mu *mutation) clearIndex(op *operation) error {
	path, err := mu.listCell(op, "delete an element from a")
	if err != nil || path == nil {
		return err
	}
	mu.unsetElement(op, path)
	return nil
}

// discardValues removes every element of a list that equals one of the values.
func (mu *mutation) discardValues(op *operation, b []byte) error {
	cells, err := mu.list(op.col)
	if err != nil || b == nil {
		return err
	}
	elems, err := cqltype.SplitCollection(op.col.Type, b)
	if err != nil {
		return invalidf("%s", err.Error())
	}
	for _, c := range cells {
		for _, e := range elems {
			if string(c.Value) == string(e) {
				mu.unsetElement(op, c.Path)
				break
			}
		}
	}
	return nil
}
