package exec

import (
	"varve/internal/cqlfunc"
	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/schema"
	"varve/internal/store"
)

// selector computes one value of a result row.
type selector interface {
	// typ is the value's type.
	typ() *cqltype.Type
	// name is the result column's name where no alias was given.
	name() string
	// eval computes the value for the row at hand; nil is null. It may alias
	// the row's and the run's buffers and is valid until the next row.
	eval(r *rowContext) ([]byte, error)
}

// rowContext is what selectors and filters see of the row at hand.
type rowContext struct {
	x      *execution
	t      *schema.Table
	key    [][]byte // the partition key's components
	static *store.Row
	row    *store.Row // nil: the partition has a static row only
	virt   [][]byte   // a virtual table's row, in place of the others

	cells []store.Cell // for multi-cell columns
	elems [][]byte
	slots [][]byte // values kept for a group, by slot
	aggs  []cqlfunc.State
}

// column is a column's value; multi-cell columns are put together.
func (r *rowContext) column(c *schema.Column) []byte {
	if r.virt != nil {
		return r.virt[virtualIndex(r.t, c)]
	}
	switch c.Kind {
	case schema.PartitionKey:
		if r.key == nil {
			return nil
		}
		return r.key[c.Position]
	case schema.Clustering:
		if r.row == nil {
			return nil
		}
		return r.row.Clustering()[c.Position]
	}
	row := r.of(c)
	if row == nil {
		return nil
	}
	if !c.Type.IsMultiCell() {
		return row.Value(c)
	}
	r.cells = row.Elements(r.cells[:0], c)
	return r.join(c.Type, r.cells)
}

// clustering are the clustering values of the row at hand; nil when there is no row.
func (r *rowContext) clustering() [][]byte {
	if r.virt != nil {
		n := len(r.t.PartitionKey)
		return r.virt[n : n+len(r.t.Clustering)]
	}
	if r.row == nil {
		return nil
	}
	return r.row.Clustering()
}

// of is the stored row that holds a column: the static one or the row itself.
func (r *rowContext) of(c *schema.Column) *store.Row {
	if c.Kind == schema.Static {
		return r.static
	}
	return r.row
}

// join makes one value of a multi-cell column's cells; nil when there are none.
func (r *rowContext) join(t *cqltype.Type, cells []store.Cell) []byte {
	if len(cells) == 0 {
		return nil
	}
	r.elems = r.elems[:0]
	switch t.Kind {
	case cqltype.KindList:
		for i := range cells {
			r.elems = append(r.elems, cells[i].Value)
		}
	case cqltype.KindSet:
		for i := range cells {
			r.elems = append(r.elems, cells[i].Path)
		}
	case cqltype.KindMap:
		for i := range cells {
			r.elems = append(r.elems, cells[i].Path, cells[i].Value)
		}
	default: // UDT
		for range t.Elems {
			r.elems = append(r.elems, nil)
		}
		for i := range cells {
			if f := fieldOf(cells[i].Path); f < len(r.elems) {
				r.elems[f] = cells[i].Value
			}
		}
		return cqltype.AppendTuple(nil, r.elems)
	}
	return cqltype.AppendCollection(nil, t, r.elems)
}

// fieldOf reads a UDT cell's path.
func fieldOf(path []byte) int {
	if len(path) != 2 {
		return 1 << 16
	}
	return int(path[0])<<8 | int(path[1])
}

// virtualIndex is a column's place in a virtual table's rows.
func virtualIndex(t *schema.Table, c *schema.Column) int {
	switch c.Kind {
	case schema.PartitionKey:
		return c.Position
	case schema.Clustering:
		return len(t.PartitionKey) + c.Position
	}
	n := len(t.PartitionKey) + len(t.Clustering)
	cols := t.Static
	if c.Kind == schema.Regular {
		n += len(t.Static)
		cols = t.Regular
	}
	for i, d := range cols {
		if c == d {
			return n + i
		}
	}
	return 0
}

// columnSelector is a plain column.
type columnSelector struct{ c *schema.Column }

func (s *columnSelector) typ() *cqltype.Type                 { return s.c.Type }
func (s *columnSelector) name() string                       { return s.c.Name }
func (s *columnSelector) eval(r *rowContext) ([]byte, error) { return r.column(s.c), nil }

// termSelector is a constant, a marker, or a function of such.
type termSelector struct {
	t    term
	typ_ *cqltype.Type
	text string
}

func (s *termSelector) typ() *cqltype.Type { return s.typ_ }
func (s *termSelector) name() string       { return s.text }

func (s *termSelector) eval(r *rowContext) ([]byte, error) {
	v, err := s.t.eval(r.x)
	if err != nil {
		return nil, err
	}
	if v.Unset {
		return nil, invalidf("Invalid unset value for %s", s.text)
	}
	return v.Bytes, nil
}

// funcSelector is a function of other selectors.
type funcSelector struct {
	fn       *cqlfunc.Function
	args     []selector
	keyTypes []*cqltype.Type
	text     string
}

func (s *funcSelector) typ() *cqltype.Type { return s.fn.Return }
func (s *funcSelector) name() string       { return s.text }

func (s *funcSelector) eval(r *rowContext) ([]byte, error) {
	var fixed [4][]byte
	args := fixed[:0]
	for _, a := range s.args {
		v, err := a.eval(r)
		if err != nil {
			return nil, err
		}
		args = append(args, v)
	}
	r.x.fn.KeyTypes = s.keyTypes
	b, err := s.fn.Eval(&r.x.fn, args)
	if err != nil {
		return nil, functionError(err)
	}
	return b, nil
}

// aggSelector is an aggregate function. In eval its state has the group's rows.
type aggSelector struct {
	agg  *cqlfunc.Aggregate
	args []selector
	text string
	slot int // of rowContext.aggs
}

func (s *aggSelector) typ() *cqltype.Type { return s.agg.Return }
func (s *aggSelector) name() string       { return s.text }

func (s *aggSelector) eval(r *rowContext) ([]byte, error) {
	b, err := r.aggs[s.slot].Result()
	if err != nil {
		return nil, functionError(err)
	}
	return b, nil
}

// add takes the row at hand into the aggregate's state.
func (s *aggSelector) add(r *rowContext) error {
	var fixed [4][]byte
	args := fixed[:0]
	for _, a := range s.args {
		v, err := a.eval(r)
		if err != nil {
			return err
		}
		args = append(args, v)
	}
	if err := r.aggs[s.slot].Add(args); err != nil {
		return functionError(err)
	}
	return nil
}

// slotSelector stands, in a grouped query, for an expression without
// aggregates: the value it had in the group's first row.
type slotSelector struct {
	of   selector
	slot int
}

func (s *slotSelector) typ() *cqltype.Type                 { return s.of.typ() }
func (s *slotSelector) name() string                       { return s.of.name() }
func (s *slotSelector) eval(r *rowContext) ([]byte, error) { return r.slots[s.slot], nil }

// buildSelector makes a collection, tuple, user type or vector of selectors.
type buildSelector struct {
	t     *cqltype.Type
	parts []selector
	build func(t *cqltype.Type, parts [][]byte) ([]byte, error)
	text  string
}

func (s *buildSelector) typ() *cqltype.Type { return s.t }
func (s *buildSelector) name() string       { return s.text }

func (s *buildSelector) eval(r *rowContext) ([]byte, error) {
	parts := make([][]byte, len(s.parts))
	for i, p := range s.parts {
		v, err := p.eval(r)
		if err != nil {
			return nil, err
		}
		parts[i] = v
	}
	return s.build(s.t, parts)
}

// hintSelector gives a selector another name and type.
type hintSelector struct {
	selector
	t    *cqltype.Type
	text string
}

func (s *hintSelector) typ() *cqltype.Type { return s.t }
func (s *hintSelector) name() string       { return s.text }

// fieldSelector is a field of a user type.
type fieldSelector struct {
	of    selector
	field int
	text  string
}

func (s *fieldSelector) typ() *cqltype.Type { return s.of.typ().Elems[s.field] }
func (s *fieldSelector) name() string       { return s.text }

func (s *fieldSelector) eval(r *rowContext) ([]byte, error) {
	if c, ok := s.of.(*columnSelector); ok && c.c.Type.IsMultiCell() && r.virt == nil {
		row := r.of(c.c)
		if row == nil {
			return nil, nil
		}
		r.cells = row.Elements(r.cells[:0], c.c)
		for i := range r.cells {
			if fieldOf(r.cells[i].Path) == s.field {
				return r.cells[i].Value, nil
			}
		}
		return nil, nil
	}
	b, err := s.of.eval(r)
	if err != nil || b == nil {
		return nil, err
	}
	fields, err := cqltype.SplitTuple(s.of.typ(), b)
	if err != nil {
		return nil, invalidf("%s", err.Error())
	}
	if s.field >= len(fields) {
		return nil, nil
	}
	return fields[s.field], nil
}

// resultSpec describes a selector as a result column.
func resultSpec(t *schema.Table, s selector, alias string) cqlwire.ColumnSpec {
	name := alias
	if name == "" {
		name = s.name()
	}
	return cqlwire.ColumnSpec{Keyspace: t.Keyspace, Table: t.Name, Name: name, Type: s.typ()}
}
