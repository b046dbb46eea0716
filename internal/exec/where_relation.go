package exec

import (
	"strings"

	"varve/internal/cql"
	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/schema"
)

// restriction plans one relation of WHERE.
func (p *planner) restriction(t *schema.Table, rel *cql.Relation) (*restriction, error) {
	switch {
	case rel.Token:
		return p.tokenRestriction(t, rel)
	case rel.Tuple:
		return p.tupleRestriction(t, rel)
	}
	return p.columnRestriction(t, rel)
}

func undefinedColumn(t *schema.Table, name string) error {
	return invalidf("Undefined column name %s in table %s.%s", cqltype.MaybeQuote(name), t.Keyspace, t.Name)
}

func (p *planner) columnRestriction(t *schema.Table, rel *cql.Relation) (*restriction, error) {
	c := t.Columns[rel.Columns[0]]
	if c == nil {
		return nil, undefinedColumn(t, rel.Columns[0])
	}
	if rel.Op == cql.Ne {
		return nil, invalidf("Unsupported \"!=\" relation: %s", relationText(rel))
	}
	if err := checkColumnRelation(c, rel); err != nil {
		return nil, err
	}
	r := &restriction{cols: []*schema.Column{c}}
	spec := specOf(t, c)
	switch rel.Op {
	case cql.Contains, cql.ContainsKey:
		return r, p.planContains(r, rel, spec)
	case cql.In:
		return r, p.planIn(r, rel, spec)
	}
	if rel.Key != nil {
		return r, p.planEntry(r, rel, spec)
	}
	v, err := p.term(rel.Value, spec)
	if err != nil {
		return nil, err
	}
	r.setOp(rel.Op, &operand{elems: []term{v}})
	return r, nil
}

// setOp files an operand under =, <, <=, > or >=.
func (r *restriction) setOp(op cql.Op, v *operand) {
	r.op = restrictSlice
	switch op {
	case cql.Lt:
		r.hi = &sliceBound{v: v}
	case cql.Le:
		r.hi = &sliceBound{v: v, inclusive: true}
	case cql.Gt:
		r.lo = &sliceBound{v: v}
	case cql.Ge:
		r.lo = &sliceBound{v: v, inclusive: true}
	default:
		r.op = restrictEq
		r.eq = v
	}
}

// checkColumnRelation refuses relations that the column's type cannot have.
func checkColumnRelation(c *schema.Column, rel *cql.Relation) error {
	ct := c.Type
	slice := rel.Op == cql.Lt || rel.Op == cql.Le || rel.Op == cql.Gt || rel.Op == cql.Ge
	if slice && refersToDuration(ct) {
		switch {
		case ct.IsCollection():
			return invalidf("Slice restrictions are not supported on collections containing durations")
		case ct.Kind == cqltype.KindTuple:
			return invalidf("Slice restrictions are not supported on tuples containing durations")
		case ct.Kind == cqltype.KindUDT:
			return invalidf("Slice restrictions are not supported on UDTs containing durations")
		}
		return invalidf("Slice restrictions are not supported on duration columns")
	}
	if rel.Op == cql.Contains && !ct.IsCollection() {
		return invalidf("Cannot use CONTAINS on non-collection column %s", c.Name)
	}
	if rel.Op == cql.ContainsKey && ct.Kind != cqltype.KindMap {
		return invalidf("Cannot use CONTAINS KEY on non-map column %s", c.Name)
	}
	if rel.Key != nil {
		switch {
		case ct.Kind == cqltype.KindList:
			return invalidf("Indexes on list entries (%s[index] = value) are not currently supported.", c.Name)
		case ct.Kind != cqltype.KindMap:
			return invalidf("Column %s cannot be used as a map", c.Name)
		case !ct.IsMultiCell():
			return invalidf("Map-entry equality predicates on frozen map column %s are not supported", c.Name)
		case rel.Op != cql.Eq:
			return invalidf("Only EQ relations are supported on map entries")
		}
	}
	if !ct.IsMultiCell() {
		return nil
	}
	if ct.Kind == cqltype.KindUDT {
		return invalidf("Non-frozen UDT column '%s' (%s) cannot be restricted by any relation", c.Name, ct)
	}
	if rel.Op != cql.Contains && rel.Op != cql.ContainsKey && rel.Key == nil {
		return invalidf("Collection column '%s' (%s) cannot be restricted by a '%s' relation", c.Name, ct, opText(rel.Op))
	}
	return nil
}

func refersToDuration(t *cqltype.Type) bool {
	if t.Kind == cqltype.KindDuration {
		return true
	}
	for _, e := range t.Elems {
		if refersToDuration(e) {
			return true
		}
	}
	return false
}

func (p *planner) planContains(r *restriction, rel *cql.Relation, spec cqlwire.ColumnSpec) error {
	r.op = restrictContains
	key, value := elementSpecs(spec)
	if rel.Op == cql.ContainsKey {
		v, err := p.term(rel.Value, key)
		r.containsKey = []term{v}
		return err
	}
	v, err := p.term(rel.Value, value)
	r.contains = []term{v}
	return err
}

func (p *planner) planEntry(r *restriction, rel *cql.Relation, spec cqlwire.ColumnSpec) error {
	r.op = restrictContains
	key, value := elementSpecs(spec)
	k, err := p.term(rel.Key, key)
	if err != nil {
		return err
	}
	v, err := p.term(rel.Value, value)
	r.entries = []entryTerm{{key: k, value: v}}
	return err
}

// elementSpecs describe a collection column's key and value, named as
// Cassandra names such bind variables.
func elementSpecs(spec cqlwire.ColumnSpec) (key, value cqlwire.ColumnSpec) {
	key, value = spec, spec
	key.Name, value.Name = "key("+spec.Name+")", "value("+spec.Name+")"
	key.Type, value.Type = spec.Type.Elems[0], spec.Type.Elems[len(spec.Type.Elems)-1]
	return key, value
}

func (p *planner) planIn(r *restriction, rel *cql.Relation, spec cqlwire.ColumnSpec) error {
	r.op = restrictIn
	if rel.Value != nil {
		list := spec
		list.Name = "in(" + spec.Name + ")"
		list.Type = cqltype.ListOf(spec.Type)
		v, err := p.term(rel.Value, list)
		r.inMarker = v
		return err
	}
	for _, e := range rel.Values {
		v, err := p.term(e, spec)
		if err != nil {
			return err
		}
		r.in = append(r.in, &operand{elems: []term{v}})
	}
	// IN of one value is an equality, in what may stand beside it too.
	if len(r.in) == 1 {
		r.op, r.eq, r.in = restrictEq, r.in[0], nil
	}
	return nil
}

func (p *planner) tupleRestriction(t *schema.Table, rel *cql.Relation) (*restriction, error) {
	if rel.Op == cql.Ne {
		return nil, invalidf("Unsupported \"!=\" relation: %s", relationText(rel))
	}
	cols, err := tupleColumns(t, rel)
	if err != nil {
		return nil, err
	}
	if rel.Op == cql.Contains || rel.Op == cql.ContainsKey {
		return nil, invalidf("%s cannot be used for multi-column relations", opText(rel.Op))
	}
	r := &restriction{cols: cols, multi: true}
	if rel.Op == cql.In {
		return r, p.planTupleIn(t, r, rel)
	}
	v, err := p.tupleOperand(t, cols, rel.Value)
	if err != nil {
		return nil, err
	}
	r.setOp(rel.Op, v)
	return r, nil
}

// tupleColumns are the columns of (a, b, …), which must be clustering columns
// that follow one another.
func tupleColumns(t *schema.Table, rel *cql.Relation) ([]*schema.Column, error) {
	cols := make([]*schema.Column, 0, len(rel.Columns))
	prev := -1
	for _, name := range rel.Columns {
		c := t.Columns[name]
		if c == nil {
			return nil, undefinedColumn(t, name)
		}
		if c.Kind != schema.Clustering {
			return nil, invalidf("Multi-column relations can only be applied to clustering columns but was applied to: %s",
				c.Name)
		}
		for _, d := range cols {
			if c == d {
				return nil, invalidf("Column \"%s\" appeared twice in a relation: %s", c.Name, relationText(rel))
			}
		}
		if prev >= 0 && c.Position != prev+1 {
			return nil, invalidf("Clustering columns must appear in the PRIMARY KEY order in multi-column relations: %s",
				relationText(rel))
		}
		prev = c.Position
		cols = append(cols, c)
	}
	return cols, nil
}

func (p *planner) planTupleIn(t *schema.Table, r *restriction, rel *cql.Relation) error {
	r.op = restrictIn
	if rel.Value != nil {
		spec := tupleSpec(t, r.cols)
		spec.Name = "in" + spec.Name
		spec.Type = cqltype.ListOf(spec.Type)
		v, err := p.term(rel.Value, spec)
		r.inMarker = v
		return err
	}
	for _, e := range rel.Values {
		v, err := p.tupleOperand(t, r.cols, e)
		if err != nil {
			return err
		}
		r.in = append(r.in, v)
	}
	if len(r.in) == 1 {
		r.op, r.eq, r.in = restrictEq, r.in[0], nil
	}
	return nil
}

// tupleSpec describes a marker for a whole tuple of columns.
func tupleSpec(t *schema.Table, cols []*schema.Column) cqlwire.ColumnSpec {
	types := make([]*cqltype.Type, len(cols))
	for i, c := range cols {
		types[i] = c.Type
	}
	return cqlwire.ColumnSpec{Keyspace: t.Keyspace, Table: t.Name, Name: tupleName(cols), Type: cqltype.TupleOf(types...)}
}

func tupleName(cols []*schema.Column) string {
	names := make([]string, len(cols))
	for i, c := range cols {
		names[i] = c.Name
	}
	return "(" + strings.Join(names, ",") + ")"
}

func (p *planner) tupleOperand(t *schema.Table, cols []*schema.Column, e cql.Expr) (*operand, error) {
	lit, ok := e.(*cql.TupleLit)
	if !ok {
		spec := tupleSpec(t, cols)
		if _, marker := e.(*cql.Marker); !marker {
			// (1) is parsed as 1, but stands for a tuple of one here.
			lit = &cql.TupleLit{Elems: []cql.Expr{e}}
		} else {
			v, err := p.term(e, spec)
			return &operand{whole: v, typ: spec.Type}, err
		}
	}
	if len(lit.Elems) != len(cols) {
		return nil, invalidf("Expected %d elements in value tuple, but got %d: %s",
			len(cols), len(lit.Elems), exprText(lit))
	}
	o := &operand{}
	for i, el := range lit.Elems {
		v, err := p.term(el, specOf(t, cols[i]))
		if err != nil {
			return nil, err
		}
		o.elems = append(o.elems, v)
	}
	return o, nil
}

func (p *planner) tokenRestriction(t *schema.Table, rel *cql.Relation) (*restriction, error) {
	cols := make([]*schema.Column, 0, len(rel.Columns))
	for _, name := range rel.Columns {
		c := t.Columns[name]
		if c == nil {
			return nil, undefinedColumn(t, name)
		}
		cols = append(cols, c)
	}
	if rel.Op == cql.Ne {
		return nil, invalidf("Unsupported \"!=\" relation: %s", relationText(rel))
	}
	if err := checkTokenColumns(t, cols); err != nil {
		return nil, err
	}
	switch rel.Op {
	case cql.Eq, cql.Lt, cql.Le, cql.Gt, cql.Ge:
	default:
		return nil, invalidf("%s cannot be used with the token function", opText(rel.Op))
	}
	spec := cqlwire.ColumnSpec{Keyspace: t.Keyspace, Table: t.Name, Name: "partition key token", Type: cqltype.Bigint}
	v, err := p.term(rel.Value, spec)
	if err != nil {
		return nil, err
	}
	r := &restriction{cols: cols, onTok: true}
	r.setOp(rel.Op, &operand{elems: []term{v}})
	return r, nil
}

func checkTokenColumns(t *schema.Table, cols []*schema.Column) error {
	named := map[*schema.Column]bool{}
	for _, c := range cols {
		named[c] = true
	}
	for _, c := range t.PartitionKey {
		if !named[c] {
			return invalidf("The token() function must be applied to all partition key components or none of them")
		}
	}
	if len(named) < len(cols) {
		return invalidf("The token() function contains duplicate partition key components")
	}
	if len(cols) > len(t.PartitionKey) {
		return invalidf("The token() function must contains only partition key components")
	}
	for i, c := range t.PartitionKey {
		if cols[i] != c {
			names := make([]string, len(t.PartitionKey))
			for j, k := range t.PartitionKey {
				names[j] = k.Name
			}
			return invalidf("The token function arguments must be in the partition key order: %s", strings.Join(names, ", "))
		}
	}
	return nil
}
