package exec

import (
	"errors"
	"slices"
	"strings"

	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/schema"
	"varve/internal/store"
)

// maxProduct bounds the partitions or slices that the IN lists of one
// statement may multiply to.
const maxProduct = 100_000

// whereScratch holds a run's buffers, so that a repeated statement makes none.
type whereScratch struct {
	comps  [][]byte
	keys   []store.Key
	start  [][]byte
	end    [][]byte
	slices []store.Slice
}

func (sc *whereScratch) reset() {
	clear(sc.comps)
	clear(sc.keys)
	clear(sc.start)
	clear(sc.end)
	clear(sc.slices)
	sc.comps, sc.keys = sc.comps[:0], sc.keys[:0]
	sc.start, sc.end, sc.slices = sc.start[:0], sc.end[:0], sc.slices[:0]
}

// keys are the partitions named by = and IN: for SELECT each once and in order
// of the columns' values (Cassandra's order for IN, which is not the
// token's), for modifications as written.
func (w *where) keys(x *execution) ([]store.Key, error) {
	var sc whereScratch
	err := w.appendKeys(x, &sc)
	return sc.keys, err
}

func (w *where) appendKeys(x *execution, sc *whereScratch) error {
	if w.keyIn() {
		return w.productKeys(x, sc)
	}
	for _, r := range w.partition {
		v, err := r.eqValue(x)
		if err != nil {
			return err
		}
		sc.comps = append(sc.comps, v)
	}
	k, err := w.key(sc.comps)
	if err != nil {
		return err
	}
	sc.keys = append(sc.keys, k)
	return nil
}

func (w *where) key(comps [][]byte) (store.Key, error) {
	if len(comps) == 1 && len(comps[0]) == 0 {
		return store.Key{}, invalidf("Key may not be empty")
	}
	if err := checkKeySize(comps); err != nil {
		return store.Key{}, err
	}
	k, err := store.KeyOf(w.t, comps)
	if err != nil {
		var known *cqlwire.Error
		if errors.As(err, &known) {
			return k, err
		}
		return k, invalidf("%s", err.Error())
	}
	return k, nil
}

func (w *where) productKeys(x *execution, sc *whereScratch) error {
	sets := make([][][]byte, len(w.partition))
	n := 1
	for i, r := range w.partition {
		vs, err := r.inValues(x)
		if err != nil {
			return err
		}
		if w.kind == "SELECT" {
			vs = sortValues(w.t.PartitionKey[i], vs)
		}
		sets[i] = vs
		if n *= len(vs); n > maxProduct {
			return productTooLarge(w.t.PartitionKey, n)
		}
	}
	if n == 0 {
		return nil
	}
	if w.kind == "SELECT" && x.guards() {
		if err := x.guard(GuardInSelectCartesianProduct, int64(n), "partition key"); err != nil {
			return err
		}
		if err := x.guard(GuardPartitionKeysInSelect, int64(n), w.t.Name); err != nil {
			return err
		}
	}
	comps := make([][]byte, len(sets))
	at := make([]int, len(sets))
	for {
		for i, j := range at {
			comps[i] = sets[i][j]
		}
		k, err := w.key(comps)
		if err != nil {
			return err
		}
		sc.keys = append(sc.keys, k)
		i := len(at) - 1
		for ; i >= 0; i-- {
			if at[i]++; at[i] < len(sets[i]) {
				break
			}
			at[i] = 0
		}
		if i < 0 {
			return nil
		}
	}
}

func productTooLarge(cols []*schema.Column, n int) error {
	names := make([]string, len(cols))
	for i, c := range cols {
		names[i] = c.Name
	}
	return invalidf("The cartesian product of the IN restrictions on %s produces %d values, this exceeds fail threshold of %d",
		strings.Join(names, ", "), n, maxProduct)
}

// sortValues orders values of a column as the table does and drops duplicates.
func sortValues(c *schema.Column, vs [][]byte) [][]byte {
	slices.SortStableFunc(vs, func(a, b []byte) int { return compareColumn(c, a, b) })
	return slices.CompactFunc(vs, func(a, b []byte) bool { return compareColumn(c, a, b) == 0 })
}

// compareColumn orders values of a key column, its DESC taken in.
func compareColumn(c *schema.Column, a, b []byte) int {
	n := cqltype.Compare(c.Type, a, b)
	if c.Desc {
		return -n
	}
	return n
}

// eqValue is the value of an equality on a single key column.
func (r *restriction) eqValue(x *execution) ([]byte, error) {
	v, err := r.eq.elems[0].eval(x)
	if err != nil {
		return nil, err
	}
	return v.Bytes, r.checkKeyValue(v)
}

func (r *restriction) checkKeyValue(v cqlwire.Value) error {
	if v.Unset {
		return invalidf("Invalid unset value for column %s", r.first().Name)
	}
	if v.Bytes == nil {
		return invalidf("Invalid null value in condition for column %s", r.first().Name)
	}
	return nil
}

// inValues are the values of an equality or IN on a single key column, not
// yet sorted; the slice is the caller's.
func (r *restriction) inValues(x *execution) ([][]byte, error) {
	if r.op == restrictEq {
		v, err := r.eqValue(x)
		return [][]byte{v}, err
	}
	vs, err := r.listValues(x)
	if err != nil {
		return nil, err
	}
	for _, v := range vs {
		if v == nil {
			return nil, invalidf("Invalid null value in condition for column %s", r.first().Name)
		}
	}
	return vs, nil
}

// listValues are the values of IN on a single column; nulls are kept.
func (r *restriction) listValues(x *execution) ([][]byte, error) {
	if r.inMarker != nil {
		v, err := r.inMarker.eval(x)
		if err != nil {
			return nil, err
		}
		if v.Unset {
			return nil, invalidf("Invalid unset value for column %s", r.first().Name)
		}
		if v.Bytes == nil {
			return nil, invalidf("Invalid null value for column %s", r.first().Name)
		}
		vs, err := cqltype.SplitCollection(cqltype.ListOf(r.first().Type), v.Bytes)
		if err != nil {
			return nil, invalidf("%s", err.Error())
		}
		if err := r.checkElements(vs); err != nil {
			return nil, err
		}
		return slices.Clone(vs), nil
	}
	vs := make([][]byte, 0, len(r.in))
	for _, o := range r.in {
		v, err := o.elems[0].eval(x)
		if err != nil {
			return nil, err
		}
		if v.Unset {
			return nil, invalidf("Invalid unset value for column %s", r.first().Name)
		}
		vs = append(vs, v.Bytes)
	}
	return vs, nil
}

func (r *restriction) checkElements(vs [][]byte) error {
	for _, v := range vs {
		if v == nil {
			continue
		}
		if err := cqltype.Validate(r.first().Type, v); err != nil {
			return invalidf("%s", err.Error())
		}
	}
	return nil
}

// tuple evaluates an operand that stands for some columns; nulls are kept as nil.
func (o *operand) tuple(x *execution, cols []*schema.Column) ([][]byte, error) {
	if o.whole == nil {
		vs := make([][]byte, len(o.elems))
		for i, e := range o.elems {
			v, err := e.eval(x)
			if err != nil {
				return nil, err
			}
			if v.Unset {
				if len(o.elems) == 1 {
					return nil, invalidf("Invalid unset value for column %s", cols[0].Name)
				}
				return nil, invalidf("Invalid unset value for tuple field number %d", i)
			}
			vs[i] = v.Bytes
		}
		return vs, nil
	}
	v, err := o.whole.eval(x)
	if err != nil {
		return nil, err
	}
	if v.Unset {
		return nil, invalidf("Invalid unset value for tuple %s", tupleName(cols))
	}
	if v.Bytes == nil {
		return make([][]byte, len(cols)), nil
	}
	return splitTuple(o.typ, v.Bytes, len(cols))
}

func splitTuple(t *cqltype.Type, b []byte, n int) ([][]byte, error) {
	vs, err := cqltype.SplitTuple(t, b)
	if err != nil {
		return nil, invalidf("%s", err.Error())
	}
	if len(vs) != n {
		return nil, invalidf("Expected %d elements in value tuple, but got %d", n, len(vs))
	}
	for i, v := range vs {
		if v == nil {
			continue
		}
		if err := cqltype.Validate(t.Elems[i], v); err != nil {
			return nil, invalidf("%s", err.Error())
		}
	}
	return vs, nil
}
