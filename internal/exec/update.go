package exec

import (
	"varve/internal/cql"
	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/schema"
)

func (p *planner) planUpdate(st *cql.Update) (*modifyPlan, error) {
	t, err := p.modifyTable(st.Table)
	if err != nil {
		return nil, err
	}
	m := &modifyPlan{t: t, kind: updateKind}
	if m.timestamp, m.ttl, err = p.planUsing(t, st.Using); err != nil {
		return nil, err
	}
	if err := checkAssignments(st.Set); err != nil {
		return nil, err
	}
	for i := range st.Set {
		a := &st.Set[i]
		c := t.Columns[a.Column]
		if c == nil {
			return nil, undefinedColumn(t, a.Column)
		}
		if c.Kind == schema.PartitionKey || c.Kind == schema.Clustering {
			return nil, invalidf("PRIMARY KEY part %s found in SET part", c.Name)
		}
		op, err := p.planAssignment(t, c, a)
		if err != nil {
			return nil, err
		}
		m.addOperation(op)
	}
	if m.cond, err = p.planConditions(t, st.If, st.IfExists, false); err != nil {
		return nil, err
	}
	m.staticOnly = m.onlyStatics()
	return m, m.planRows(p, st.Where, "UPDATE")
}

// checkAssignments refuses a column that is set twice.
func checkAssignments(set []cql.Assignment) error {
	for i := range set {
		for j := range i {
			a, b := &set[i], &set[j]
			if a.Column != b.Column {
				continue
			}
			if a.Op == cql.AssignSet || b.Op == cql.AssignSet ||
				(a.Op == cql.AssignField && b.Op == cql.AssignField && a.Field == b.Field) {
				return &cqlwire.Error{Code: cqlwire.ErrSyntax, Message: "Multiple incompatible setting of column " + a.Column}
			}
		}
	}
	return nil
}

// planAssignment plans one item of SET.
func (p *planner) planAssignment(t *schema.Table, c *schema.Column, a *cql.Assignment) (operation, error) {
	spec := specOf(t, c)
	op := operation{col: c}
	switch a.Op {
	case cql.AssignSet:
		if c.Type.Kind == cqltype.KindCounter {
			if _, err := p.term(a.Value, spec); err != nil {
				return op, err
			}
			return op, invalidf("Cannot set the value of counter column %s (counters can only be incremented/decremented, not set)", c.Name)
		}
		op.kind = setKind(c)
	case cql.AssignElement:
		return p.planSetElement(c, a, spec)
	case cql.AssignField:
		return p.planSetField(c, a, spec)
	case cql.AssignPrepend:
		text := c.Name + " = " + exprText(a.Value) + " - " + c.Name
		if c.Type.Kind != cqltype.KindList {
			return op, invalidf("Invalid operation (%s) for non list column %s", text, c.Name)
		}
		if !c.Type.IsMultiCell() {
			return op, invalidf("Invalid operation (%s) for frozen list column %s", text, c.Name)
		}
		op.kind = opPrepend
	case cql.AssignAdd:
		return p.planAdd(c, a, spec)
	case cql.AssignSub:
		return p.planSubtract(c, a, spec)
	}
	v, err := p.term(a.Value, spec)
	op.value = v
	return op, err
}

func (p *planner) planAdd(c *schema.Column, a *cql.Assignment, spec cqlwire.ColumnSpec) (operation, error) {
	op := operation{col: c, kind: opAppend}
	text := c.Name + " = " + c.Name + " + " + exprText(a.Value)
	t := c.Type
	if !t.IsCollection() || !t.IsMultiCell() {
		switch {
		case t.Kind == cqltype.KindTuple:
			return op, invalidf("Invalid operation (%s) for tuple column %s", text, c.Name)
		case t.IsCollection():
			return op, invalidf("Invalid operation (%s) for frozen collection column %s", text, c.Name)
		case t.Kind != cqltype.KindCounter:
			return op, invalidf("Invalid operation (%s) for non counter column %s", text, c.Name)
		}
		op.kind = opIncrement
	}
	if t.Kind == cqltype.KindMap {
		switch e := a.Value.(type) {
		case *cql.SetLit:
			if len(e.Elems) > 0 {
				return op, invalidf("Value for a map addition has to be a map, but was: '%s'", exprText(a.Value))
			}
		case *cql.ListLit:
			return op, invalidf("Value for a map addition has to be a map, but was: '%s'", exprText(a.Value))
		}
	}
	v, err := p.term(a.Value, spec)
	op.value = v
	return op, err
}

func (p *planner) planSubtract(c *schema.Column, a *cql.Assignment, spec cqlwire.ColumnSpec) (operation, error) {
	op := operation{col: c}
	text := c.Name + " = " + c.Name + " - " + exprText(a.Value)
	t := c.Type
	switch {
	case t.Kind == cqltype.KindCounter:
		op.kind = opDecrement
	case !t.IsCollection():
		return op, invalidf("Invalid operation (%s) for non counter column %s", text, c.Name)
	case !t.IsMultiCell():
		return op, invalidf("Invalid operation (%s) for frozen collection column %s", text, c.Name)
	case t.Kind == cqltype.KindList:
		op.kind = opDiscardValues
	case t.Kind == cqltype.KindMap:
		// What is taken from a map is a set of its keys.
		op.kind = opDiscard
		if e, ok := a.Value.(*cql.MapLit); ok {
			return op, invalidf("Value for a map substraction has to be a set, but was: '%s'", exprText(e))
		}
		spec = part(spec, spec.Name, cqltype.SetOf(t.Elems[0]))
	default:
		op.kind = opDiscard
	}
	v, err := p.term(a.Value, spec)
	op.value = v
	return op, err
}

func (p *planner) planSetElement(c *schema.Column, a *cql.Assignment, spec cqlwire.ColumnSpec) (operation, error) {
	op := operation{col: c}
	t := c.Type
	text := c.Name + "[" + exprText(a.Key) + "] = " + exprText(a.Value)
	switch {
	case !t.IsCollection():
		return op, invalidf("Invalid operation (%s) for non collection column %s", text, c.Name)
	case !t.IsMultiCell():
		return op, invalidf("Invalid operation (%s) for frozen collection column %s", text, c.Name)
	case t.Kind == cqltype.KindSet:
		return op, invalidf("Invalid operation (%s) for set column %s", text, c.Name)
	}
	key := part(spec, keyName(c.Name), t.Elems[0])
	op.kind = opSetKey
	if t.Kind == cqltype.KindList {
		key = part(spec, "idx("+c.Name+")", cqltype.Int)
		op.kind = opSetIndex
	}
	var err error
	if op.key, err = p.term(a.Key, key); err != nil {
		return op, err
	}
	op.value, err = p.term(a.Value, part(spec, valueName(c.Name), t.Elems[len(t.Elems)-1]))
	return op, err
}

func (p *planner) planSetField(c *schema.Column, a *cql.Assignment, spec cqlwire.ColumnSpec) (operation, error) {
	op := operation{col: c, kind: opSetField}
	t := c.Type
	text := c.Name + "." + a.Field + " = " + exprText(a.Value)
	switch {
	case t.Kind != cqltype.KindUDT:
		return op, invalidf("Invalid operation (%s) for non-UDT column %s", text, c.Name)
	case !t.IsMultiCell():
		return op, invalidf("Invalid operation (%s) for frozen UDT column %s", text, c.Name)
	}
	if op.field = fieldIndex(t, a.Field); op.field < 0 {
		return op, invalidf("UDT column %s does not have a field named %s", c.Name, a.Field)
	}
	v, err := p.term(a.Value, part(spec, c.Name+"."+a.Field, t.Elems[op.field]))
	op.value = v
	return op, err
}
