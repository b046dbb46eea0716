package exec

import (
	"varve/internal/cqltype"
)

// guard checks the guardrails on a SELECT as it was written. Cassandra's are on
// ordinary users' reads of all tables; here those of system tables are spared,
// since drivers depend on them.
func (sp *selectPlan) guard(x *execution) error {
	if sp.table.System || sp.virtual != nil {
		return nil
	}
	if sp.allowFiltering {
		if err := x.ensure(FlagAllowFiltering, ""); err != nil {
			return err
		}
	}
	if sp.groupBy {
		if err := x.ensure(FlagGroupBy, ""); err != nil {
			return err
		}
	}
	if sp.where.usesIndex && sp.where.partitionEmpty() {
		if err := x.ensure(FlagNonPartitionRestrictedIndexQuery, ""); err != nil {
			return err
		}
	}
	if x.p.PageSize > 0 {
		return x.guard(GuardPageSize, int64(x.p.PageSize), sp.table.Name)
	}
	return nil
}

// listFeatures are Cassandra's names of the list operations that read before they write.
var listFeatures = map[opKind]string{
	opSetIndex:      "Setting of list items by index requiring read before write",
	opClearIndex:    "Removal of list items by index requiring read before write",
	opDiscardValues: "Removal of list items requiring read before write",
}

// guardCell checks the value of a single-cell column.
func (mu *mutation) guardCell(op *operation, v []byte) error {
	if t := op.col.Type; t.Kind == cqltype.KindList || t.Kind == cqltype.KindSet || t.Kind == cqltype.KindMap {
		elems, err := cqltype.SplitCollection(t, v)
		if err != nil {
			return invalidf("%s", err.Error())
		}
		if err := mu.x.guard(GuardItemsPerCollection, items(t, elems), op.col.Name); err != nil {
			return err
		}
		if err := mu.x.guard(GuardCollectionSize, int64(len(v)), op.col.Name); err != nil {
			return err
		}
	}
	return mu.x.guard(GuardColumnValueSize, int64(len(v)), op.col.Name)
}

// guardElement checks the value and the path of a multi-cell column's cell.
func (mu *mutation) guardElement(op *operation, path, v []byte) error {
	if err := mu.x.guard(GuardColumnValueSize, int64(len(v)), op.col.Name); err != nil {
		return err
	}
	return mu.x.guard(GuardColumnValueSize, int64(len(path)), op.col.Name)
}

// guardCollection checks the elements that one statement writes to a multi-cell
// collection; what the row holds already is not read for that, as in Cassandra.
func (mu *mutation) guardCollection(op *operation, elems [][]byte) error {
	t := op.col.Type
	n := items(t, elems)
	if err := mu.x.guard(GuardItemsPerCollection, n, op.col.Name); err != nil {
		return err
	}
	size := n * cellBytes
	for _, e := range elems {
		size += int64(len(e))
	}
	if t.Kind == cqltype.KindList {
		size += n * listPathBytes
	}
	return mu.x.guard(GuardCollectionSize, size, op.col.Name)
}

// listPathBytes is a list element's path, a timeuuid.
const listPathBytes = 16

// items is the number of a collection's elements; a map's are keys and values in turn.
func items(t *cqltype.Type, elems [][]byte) int64 {
	if t.Kind == cqltype.KindMap {
		return int64(len(elems) / 2)
	}
	return int64(len(elems))
}
