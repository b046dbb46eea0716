package exec

import (
	"varve/internal/cql"
	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/schema"
)

// conditions are what a conditional statement asks of its row.
type conditions struct {
	notExists, exists bool
	regulars, statics []ifCondition
}

// ifCondition is one comparison of IF.
type ifCondition struct {
	col    *schema.Column
	key    term // c[key]
	field  int  // c.field; -1: none
	op     cql.Op
	value  term   // right side of all but IN
	values []term // IN (…)
	list   term   // IN ?
	typ    *cqltype.Type
}

// planConditions plans IF; nil where there is none.
func (p *planner) planConditions(t *schema.Table, ifs []cql.Condition, exists, notExists bool) (*conditions, error) {
	if !exists && !notExists && len(ifs) == 0 {
		return nil, nil
	}
	cs := &conditions{exists: exists, notExists: notExists}
	for i := range ifs {
		c, err := p.planCondition(t, &ifs[i])
		if err != nil {
			return nil, err
		}
		if c.col.Kind == schema.Static {
			cs.statics = append(cs.statics, c)
		} else {
			cs.regulars = append(cs.regulars, c)
		}
	}
	return cs, nil
}

func (p *planner) planCondition(t *schema.Table, in *cql.Condition) (c ifCondition, err error) {
	col := t.Columns[in.Column]
	if col == nil {
		return c, undefinedColumn(t, in.Column)
	}
	if col.Kind == schema.PartitionKey || col.Kind == schema.Clustering {
		return c, invalidf("PRIMARY KEY column '%s' cannot have IF conditions", col.Name)
	}
	if col.Type.Kind == cqltype.KindCounter {
		return c, invalidf("Conditions on counters are not supported")
	}
	c = ifCondition{col: col, field: -1, op: in.Op}
	spec := specOf(t, col)
	switch {
	case in.Key != nil:
		if spec, err = p.planElementAccess(&c, in, spec); err != nil {
			return c, err
		}
	case in.Field != "":
		if col.Type.Kind != cqltype.KindUDT {
			return c, invalidf("Invalid field access syntax for non-UDT column %s", col.Name)
		}
		if c.field = fieldIndex(col.Type, in.Field); c.field < 0 {
			return c, invalidf("Unknown field %s for column %s", in.Field, col.Name)
		}
		spec = part(spec, col.Name+"."+in.Field, col.Type.Elems[c.field])
	}
	c.typ = spec.Type
	if err := checkConditionOp(&c, spec); err != nil {
		return c, err
	}
	return c, p.planConditionValue(&c, in, spec)
}

func (p *planner) planElementAccess(c *ifCondition, in *cql.Condition, spec cqlwire.ColumnSpec) (cqlwire.ColumnSpec, error) {
	ct := c.col.Type
	key := part(spec, keyName(spec.Name), cqltype.Int)
	switch ct.Kind {
	case cqltype.KindList:
		key.Name = "idx(" + spec.Name + ")"
	case cqltype.KindMap:
		key.Type = ct.Elems[0]
	case cqltype.KindSet:
		return spec, invalidf("Invalid element access syntax for set column %s", spec.Name)
	default:
		return spec, invalidf("Invalid element access syntax for non-collection column %s", spec.Name)
	}
	k, err := p.term(in.Key, key)
	c.key = k
	return part(spec, valueName(spec.Name), ct.Elems[len(ct.Elems)-1]), err
}

func checkConditionOp(c *ifCondition, spec cqlwire.ColumnSpec) error {
	t := spec.Type
	switch c.op {
	case cql.Contains:
		if !t.IsCollection() {
			return invalidf("Cannot use CONTAINS on non-collection column %s", c.col.Name)
		}
	case cql.ContainsKey:
		if t.Kind != cqltype.KindMap {
			return invalidf("Cannot use CONTAINS KEY on non-map column %s", c.col.Name)
		}
	case cql.Lt, cql.Le, cql.Gt, cql.Ge:
		if !refersToDuration(t) {
			return nil
		}
		switch {
		case t.IsCollection():
			return invalidf("Slice conditions are not supported on collections containing durations")
		case t.Kind == cqltype.KindTuple:
			return invalidf("Slice conditions are not supported on tuples containing durations")
		case t.Kind == cqltype.KindUDT:
			return invalidf("Slice conditions are not supported on UDTs containing durations")
		}
		return invalidf("Slice conditions ( %s ) are not supported on durations", opText(c.op))
	case cql.Eq, cql.Ne, cql.In:
	default:
		return invalidf("Unsupported condition operator %s", opText(c.op))
	}
	return nil
}

func (p *planner) planConditionValue(c *ifCondition, in *cql.Condition, spec cqlwire.ColumnSpec) (err error) {
	switch c.op {
	case cql.Contains:
		spec = part(spec, valueName(spec.Name), spec.Type.Elems[len(spec.Type.Elems)-1])
	case cql.ContainsKey:
		spec = part(spec, keyName(spec.Name), spec.Type.Elems[0])
	case cql.In:
		if in.Value != nil {
			c.list, err = p.term(in.Value, part(spec, "in("+spec.Name+")", cqltype.ListOf(spec.Type)))
			return err
		}
		for _, e := range in.Values {
			v, err := p.term(e, spec)
			if err != nil {
				return err
			}
			c.values = append(c.values, v)
		}
		return nil
	}
	c.value, err = p.term(in.Value, spec)
	return err
}

// bound evaluates the right side: one value, or those of IN.
func (c *ifCondition) bound(x *execution) ([][]byte, error) {
	terms := c.values
	if c.value != nil {
		terms = []term{c.value}
	}
	if c.list != nil {
		v, err := c.list.eval(x)
		if err != nil {
			return nil, err
		}
		if v.Unset {
			return nil, invalidf("Invalid 'unset' value in condition")
		}
		if v.Bytes == nil {
			return nil, invalidf("Invalid null list in IN condition")
		}
		elems, err := cqltype.SplitCollection(cqltype.ListOf(c.typ), v.Bytes)
		if err != nil {
			return nil, invalidf("%s", err.Error())
		}
		for i, e := range elems {
			if len(e) == 0 && emptyIsNull(c.typ) {
				elems[i] = nil
			}
		}
		return elems, nil
	}
	out := make([][]byte, 0, len(terms))
	for _, t := range terms {
		v, err := t.eval(x)
		if err != nil {
			return nil, err
		}
		if v.Unset {
			if c.op == cql.In {
				continue
			}
			return nil, invalidf("Invalid 'unset' value in condition")
		}
		out = append(out, v.Bytes)
	}
	return out, nil
}

// emptyIsNull reports types of which no bytes mean no value. Within a list
// drivers write null so.
func emptyIsNull(t *cqltype.Type) bool {
	switch t.Kind {
	case cqltype.KindText, cqltype.KindAscii, cqltype.KindBlob, cqltype.KindCustom:
		return false
	}
	return true
}

// holds tells whether the condition is met by a row (nil: there is none).
func (c *ifCondition) holds(x *execution, row *rowImage) (bool, error) {
	bounds, err := c.bound(x)
	if err != nil {
		return false, err
	}
	have, err := c.current(x, row)
	if err != nil {
		return false, err
	}
	op := c.op
	if op == cql.In {
		op = cql.Eq
	}
	for _, want := range bounds {
		ok, err := c.compare(op, have, want)
		if ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// current is what the row holds: the column's value, an element's, or a field's.
func (c *ifCondition) current(x *execution, row *rowImage) ([]byte, error) {
	have := row.value(c.col)
	if c.field >= 0 {
		if have == nil {
			return nil, nil
		}
		fields, err := cqltype.SplitTuple(c.col.Type, have)
		if err != nil || c.field >= len(fields) {
			return nil, err
		}
		return fields[c.field], nil
	}
	if c.key == nil {
		return have, nil
	}
	k, err := c.key.eval(x)
	if err != nil {
		return nil, err
	}
	if k.Unset {
		return nil, invalidf("Invalid 'unset' value in condition")
	}
	what := "list"
	if c.col.Type.Kind == cqltype.KindMap {
		what = "map"
	}
	if len(k.Bytes) == 0 && (k.Bytes == nil || what == "list") {
		return nil, invalidf("Invalid null value for %s element access", what)
	}
	if have == nil {
		return nil, nil
	}
	elems, err := cqltype.SplitCollection(c.col.Type, have)
	if err != nil {
		return nil, err
	}
	if what == "list" {
		i := intOf(k.Bytes)
		if i < 0 {
			return nil, invalidf("Invalid negative list index %d", i)
		}
		if int(i) >= len(elems) {
			return nil, nil
		}
		return elems[i], nil
	}
	for i := 0; i+1 < len(elems); i += 2 {
		if cqltype.Compare(c.col.Type.Elems[0], elems[i], k.Bytes) == 0 {
			return elems[i+1], nil
		}
	}
	return nil, nil
}

// compare carries out one comparison, with Cassandra's rules for null and,
// in collections stored by cell, for empty ones, which are null.
func (c *ifCondition) compare(op cql.Op, have, want []byte) (bool, error) {
	contains := op == cql.Contains || op == cql.ContainsKey
	multi := c.key == nil && c.field < 0 && c.col.Type.IsMultiCell() && c.typ.IsCollection()
	if want != nil && multi && !contains && emptyCollection(want) {
		if op != cql.Eq && op != cql.Ne {
			return false, invalidf("Invalid comparison with an empty %s for operator \"%s\"", collectionName(c.typ), opText(op))
		}
		want = nil
	}
	if want == nil {
		switch op {
		case cql.Eq:
			return have == nil, nil
		case cql.Ne:
			return have != nil, nil
		}
		return false, invalidf("Invalid comparison with null for operator \"%s\"", opText(op))
	}
	if have == nil {
		return op == cql.Ne, nil
	}
	if contains {
		return c.contains(op, have, want)
	}
	n := cqltype.Compare(c.typ, have, want)
	switch op {
	case cql.Eq:
		return n == 0, nil
	case cql.Ne:
		return n != 0, nil
	case cql.Lt:
		return n < 0, nil
	case cql.Le:
		return n <= 0, nil
	case cql.Gt:
		return n > 0, nil
	}
	return n >= 0, nil
}

func (c *ifCondition) contains(op cql.Op, have, want []byte) (bool, error) {
	elems, err := cqltype.SplitCollection(c.typ, have)
	if err != nil {
		return false, err
	}
	first, step, t := 0, 1, c.typ.Elems[len(c.typ.Elems)-1]
	if c.typ.Kind == cqltype.KindMap {
		step = 2
		if op == cql.Contains {
			first = 1
		} else {
			t = c.typ.Elems[0]
		}
	}
	for i := first; i < len(elems); i += step {
		if cqltype.Compare(t, elems[i], want) == 0 {
			return true, nil
		}
	}
	return false, nil
}

func emptyCollection(b []byte) bool {
	return len(b) < 4 || b[0]|b[1]|b[2]|b[3] == 0
}

func collectionName(t *cqltype.Type) string {
	switch t.Kind {
	case cqltype.KindList:
		return "list"
	case cqltype.KindSet:
		return "set"
	}
	return "map"
}
