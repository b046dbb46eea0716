package exec

import (
	"varve/internal/cql"
	"varve/internal/cqltype"
	"varve/internal/schema"
)

func (p *planner) planDelete(st *cql.Delete) (*modifyPlan, error) {
	t, err := p.modifyTable(st.Table)
	if err != nil {
		return nil, err
	}
	m := &modifyPlan{t: t, kind: deleteKind}
	if m.timestamp, m.ttl, err = p.planUsing(t, st.Using); err != nil {
		return nil, err
	}
	for i := range st.Columns {
		op, err := p.planDeletion(t, &st.Columns[i])
		if err != nil {
			return nil, err
		}
		m.addOperation(op)
	}
	if m.cond, err = p.planConditions(t, st.If, st.IfExists, false); err != nil {
		return nil, err
	}
	m.staticOnly = m.onlyStatics()
	if err := m.planRows(p, st.Where, "DELETE"); err != nil {
		return nil, err
	}
	return m, m.checkConditionalDelete()
}

// checkConditionalDelete: a conditional DELETE must name one row, or touch
// static columns only.
func (m *modifyPlan) checkConditionalDelete() error {
	if m.cond == nil || m.namesFullRows() {
		return nil
	}
	if len(m.regulars) > 0 || len(m.statics) == 0 {
		return invalidf("DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to delete non static columns")
	}
	if len(m.cond.regulars) > 0 {
		return invalidf("DELETE statements must restrict all PRIMARY KEY columns with equality relations " +
			"in order to use IF condition on non static columns")
	}
	return nil
}

// namesFullRows reports that all clustering columns are given by = or IN.
func (m *modifyPlan) namesFullRows() bool {
	if m.where == nil {
		return m.ck != nil || len(m.t.Clustering) == 0
	}
	n := 0
	for _, r := range m.where.clustering {
		if r.op != restrictEq && r.op != restrictIn {
			return false
		}
		n += len(r.cols)
	}
	return n == len(m.t.Clustering)
}

// planDeletion plans one item of DELETE's column list.
func (p *planner) planDeletion(t *schema.Table, d *cql.Deletion) (operation, error) {
	c := t.Columns[d.Column]
	if c == nil {
		return operation{}, undefinedColumn(t, d.Column)
	}
	op := operation{col: c, kind: opClear}
	if c.Kind == schema.PartitionKey || c.Kind == schema.Clustering {
		return op, invalidf("Invalid identifier %s for deletion (should not be a PRIMARY KEY part)", c.Name)
	}
	spec, ct := specOf(t, c), c.Type
	switch {
	case d.Field != "":
		if ct.Kind != cqltype.KindUDT {
			return op, invalidf("Invalid field deletion operation for non-UDT column %s", c.Name)
		}
		if !ct.IsMultiCell() {
			return op, invalidf("Frozen UDT column %s does not support field deletions", c.Name)
		}
		op.kind = opClearField
		if op.field = fieldIndex(ct, d.Field); op.field < 0 {
			return op, invalidf("UDT column %s does not have a field named %s", c.Name, d.Field)
		}
		return op, nil
	case d.Key == nil:
		return op, nil
	case !ct.IsCollection():
		return op, invalidf("Invalid deletion operation for non collection column %s", c.Name)
	case !ct.IsMultiCell():
		return op, invalidf("Invalid deletion operation for frozen collection column %s", c.Name)
	}
	op.kind = opClearElement
	key := part(spec, keyName(c.Name), ct.Elems[0])
	switch ct.Kind {
	case cqltype.KindList:
		op.kind = opClearIndex
		key = part(spec, "idx("+c.Name+")", cqltype.Int)
	case cqltype.KindSet:
		key.Name = valueName(c.Name)
	}
	k, err := p.term(d.Key, key)
	op.key = k
	return op, err
}
