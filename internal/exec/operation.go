package exec

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"time"

	"varve/internal/cqltype"
	"varve/internal/schema"
)

// opKind is what an operation does to its column.
type opKind uint8

const (
	opSet           opKind = iota // c = v of a single-cell column
	opOverwrite                   // c = v of a multi-cell column
	opAppend                      // c = c + v: list, set, map
	opPrepend                     // c = v + c: list
	opDiscard                     // c = c - v: set, map
	opDiscardValues               // c = c - v: list, which must be read
	opSetKey                      // c[k] = v: map
	opSetIndex                    // c[i] = v: list, which must be read
	opSetField                    // c.f = v
	opIncrement                   // c = c + n: counter
	opDecrement                   // c = c - n: counter
	opClear                       // DELETE c
	opClearElement                // DELETE c[k]: set, map
	opClearIndex                  // DELETE c[i]: list, which must be read
	opClearField                  // DELETE c.f
)

func (k opKind) reads() bool { return k == opDiscardValues || k == opSetIndex || k == opClearIndex }

// operation is one change of one column.
type operation struct {
	kind    opKind
	col     *schema.Column
	value   term
	key     term
	field   int
	indexes []*schema.Index // of the column
}

func sortOperations(ops []operation) {
	slices.SortStableFunc(ops, func(a, b operation) int { return cmp.Compare(a.col.ID, b.col.ID) })
}

// What parts of a mutation count for in the size of a batch, as Cassandra
// counts them whatever they take in store.
const (
	cellBytes      = 16 // beside path and value
	rowBytes       = 21 // beside the clustering
	complexBytes   = 20 // a multi-cell column beside its cells
	deletionBytes  = 12
	partitionBytes = 33
)

var mutations = sync.Pool{New: func() any { return new(mutation) }}

func (mu *mutation) release() {
	*mu = mutation{}
	mutations.Put(mu)
}

// apply adds operations to the row being built.
func (mu *mutation) apply(ops []operation) error {
	for i := range ops {
		op := &ops[i]
		var v value
		if op.value != nil {
			var err error
			if v, err = op.value.eval(mu.x); err != nil {
				return err
			}
			// An element's key is checked even where its value is unset.
			if v.Unset && op.kind != opSetIndex && op.kind != opSetKey {
				continue
			}
		} else if mu.json != nil {
			var given bool
			if v, given = mu.json[op.col.Name]; !given || v.Unset {
				continue
			}
		}
		if op.kind == opSet {
			if v.Bytes == nil {
				mu.rb.Unset(op.col, mu.ts)
				mu.size += cellBytes
				continue
			}
			if mu.x.guards() {
				if err := mu.guardCell(op, v.Bytes); err != nil {
					return err
				}
			}
			mu.rb.Set(op.col, mu.ts, mu.ttl, v.Bytes)
			mu.size += cellBytes + len(v.Bytes)
			if op.indexes != nil {
				if err := mu.indexCell(op, nil, v.Bytes); err != nil {
					return err
				}
			}
			continue
		}
		if err := mu.applyOther(op, v); err != nil {
			return err
		}
	}
	return nil
}

func (mu *mutation) applyOther(op *operation, v value) error {
	mu.size += complexBytes
	if op.kind.reads() {
		if err := mu.x.ensure(FlagReadBeforeWriteListOperations, listFeatures[op.kind]); err != nil {
			return err
		}
	}
	switch op.kind {
	case opOverwrite:
		mu.listWrite(op, pendingCell{clear: true})
		mu.rb.Clear(op.col, mu.ts-1)
		return mu.setElements(op, v.Bytes, false)
	case opAppend:
		return mu.setElements(op, v.Bytes, false)
	case opPrepend:
		return mu.setElements(op, v.Bytes, true)
	case opDiscard:
		return mu.discard(op, v.Bytes)
	case opDiscardValues:
		return mu.discardValues(op, v.Bytes)
	case opSetKey:
		return mu.setKey(op, v)
	case opSetIndex:
		return mu.setIndex(op, v)
	case opSetField:
		return mu.setElement(op, fieldPath(op.field), v.Bytes)
	case opIncrement, opDecrement:
		return mu.increment(op, v.Bytes)
	case opClear:
		if op.col.Type.IsMultiCell() {
			mu.rb.Clear(op.col, mu.ts)
		} else {
			mu.rb.Unset(op.col, mu.ts)
		}
	case opClearElement:
		return mu.clearElement(op)
	case opClearIndex:
		return mu.clearIndex(op)
	case opClearField:
		mu.unsetElement(op, fieldPath(op.field))
	}
	return nil
}

func fieldPath(i int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(i)) }

// setElement writes one cell of a multi-cell column, or its tombstone.
func (mu *mutation) setElement(op *operation, path, v []byte) error {
	if v == nil {
		mu.unsetElement(op, path)
		return nil
	}
	if mu.x.guards() {
		if err := mu.guardElement(op, path, v); err != nil {
			return err
		}
	}
	mu.listWrite(op, pendingCell{path: path, value: v})
	mu.rb.SetElement(op.col, path, mu.ts, mu.ttl, v)
	mu.size += cellBytes + len(path) + len(v)
	if op.indexes == nil {
		return nil
	}
	return mu.indexCell(op, path, v)
}

func (mu *mutation) unsetElement(op *operation, path []byte) {
	mu.listWrite(op, pendingCell{path: path})
	mu.rb.UnsetElement(op.col, path, mu.ts)
	mu.size += cellBytes + len(path)
}

// setElements writes the elements of a collection or the fields of a UDT.
func (mu *mutation) setElements(op *operation, b []byte, prepend bool) error {
	if b == nil {
		return nil
	}
	t := op.col.Type
	if t.Kind == cqltype.KindUDT {
		return mu.setFields(op, b)
	}
	elems, err := cqltype.SplitCollection(t, b)
	if err != nil {
		return invalidf("%s", err.Error())
	}
	if mu.x.guards() {
		if err := mu.guardCollection(op, elems); err != nil {
			return err
		}
	}
	switch t.Kind {
	case cqltype.KindList:
		return mu.addToList(op, elems, prepend)
	case cqltype.KindSet:
		for _, e := range elems {
			if err := mu.setElement(op, e, []byte{}); err != nil {
				return err
			}
		}
	case cqltype.KindMap:
		for i := 0; i+1 < len(elems); i += 2 {
			if err := mu.setElement(op, elems[i], elems[i+1]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (mu *mutation) setFields(op *operation, b []byte) error {
	fields, err := cqltype.SplitTuple(op.col.Type, b)
	if err != nil {
		return invalidf("%s", err.Error())
	}
	for i, f := range fields {
		if f == nil {
			continue
		}
		if err := mu.setElement(op, fieldPath(i), f); err != nil {
			return err
		}
	}
	return nil
}

// discard removes elements of a set, or keys of a map.
func (mu *mutation) discard(op *operation, b []byte) error {
	if b == nil {
		return nil
	}
	elems, err := cqltype.SplitCollection(cqltype.SetOf(op.col.Type.Elems[0]), b)
	if err != nil {
		return invalidf("%s", err.Error())
	}
	for _, e := range elems {
		mu.unsetElement(op, e)
	}
	return nil
}

func (mu *mutation) setKey(op *operation, v value) error {
	k, err := op.key.eval(mu.x)
	if err != nil {
		return err
	}
	if k.Unset {
		return invalidf("Invalid unset map key")
	}
	if k.Bytes == nil {
		return invalidf("Invalid null map key")
	}
	if v.Unset {
		return nil
	}
	return mu.setElement(op, k.Bytes, v.Bytes)
}

func (mu *mutation) clearElement(op *operation) error {
	k, err := op.key.eval(mu.x)
	if err != nil {
		return err
	}
	what := "map key"
	if op.col.Type.Kind == cqltype.KindSet {
		what = "set element"
	}
	if k.Unset {
		return invalidf("Invalid unset %s", what)
	}
	if k.Bytes == nil {
		return invalidf("Invalid null %s", what)
	}
	mu.unsetElement(op, k.Bytes)
	return nil
}

func (mu *mutation) increment(op *operation, b []byte) error {
	if len(b) == 0 {
		return invalidf("Invalid null value for counter increment")
	}
	n := bigintOf(b)
	if op.kind == opDecrement {
		if n == math.MinInt64 {
			return invalidf("The negation of %d overflows supported counter precision (signed 8 bytes integer)", n)
		}
		n = -n
	}
	mu.rb.Increment(op.col, n)
	mu.size += cellBytes + 8
	return nil
}

// intOf and bigintOf read values that were validated; an empty one is 0.
func intOf(b []byte) int32 {
	if len(b) < 4 {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b))
}

func bigintOf(b []byte) int64 {
	if len(b) < 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

func withTimeout(ctx context.Context, millis int64) (context.Context, context.CancelFunc) {
	if millis <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(millis)*time.Millisecond)
}
