package exec

import (
	"varve/internal/cql"
	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/schema"
)

// addOperation files an operation under static or regular columns.
func (m *modifyPlan) addOperation(op operation) {
	if op.col.Kind == schema.Static {
		m.statics = append(m.statics, op)
		return
	}
	m.regulars = append(m.regulars, op)
}

// onlyStatics reports that all changes and conditions are on static columns.
func (m *modifyPlan) onlyStatics() bool {
	if len(m.statics) == 0 || len(m.regulars) > 0 {
		return false
	}
	return m.cond == nil || len(m.cond.regulars) == 0
}

func (p *planner) planInsert(st *cql.Insert) (*modifyPlan, error) {
	t, err := p.modifyTable(st.Table)
	if err != nil {
		return nil, err
	}
	if t.Counter {
		return nil, invalidf("INSERT statements are not allowed on counter tables, use UPDATE instead")
	}
	m := &modifyPlan{t: t, kind: insertKind}
	if st.IfNotExists {
		m.cond = &conditions{notExists: true}
	}
	if st.JSON != nil {
		err = p.planInsertJSON(m, st)
	} else {
		err = p.planInsertValues(m, st)
	}
	if err != nil {
		return nil, err
	}
	m.timestamp, m.ttl, err = p.planUsing(t, st.Using)
	return m, err
}

func (p *planner) planInsertValues(m *modifyPlan, st *cql.Insert) error {
	t := m.t
	switch {
	case len(st.Columns) == 0:
		return invalidf("Column names for INSERT must be provided when using VALUES")
	case len(st.Columns) != len(st.Values):
		return invalidf("Unmatched column names/values")
	}
	keys := make(map[*schema.Column]term, len(t.PartitionKey)+len(t.Clustering))
	seen := make(map[string]bool, len(st.Columns))
	for _, name := range st.Columns {
		if t.Columns[name] == nil {
			return undefinedColumn(t, name)
		}
		if seen[name] {
			return invalidf("The column names contains duplicates")
		}
		seen[name] = true
	}
	for i, name := range st.Columns {
		c := t.Columns[name]
		v, err := p.term(st.Values[i], specOf(t, c))
		if err != nil {
			return err
		}
		if c.Kind == schema.PartitionKey || c.Kind == schema.Clustering {
			keys[c] = v
			continue
		}
		m.addOperation(operation{kind: setKind(c), col: c, value: v})
	}
	return m.insertKeys(keys)
}

// setKind is how a column is given a whole new value.
func setKind(c *schema.Column) opKind {
	if c.Type.IsMultiCell() {
		return opOverwrite
	}
	return opSet
}

// insertKeys takes the key columns' terms, which must be there.
func (m *modifyPlan) insertKeys(keys map[*schema.Column]term) error {
	var missing []string
	m.pk, missing = keyList(m.t.PartitionKey, keys)
	if missing != nil {
		return invalidf("Some partition key parts are missing: %s", joinNames(missing))
	}
	var given bool
	for _, c := range m.t.Clustering {
		given = given || keys[c] != nil
	}
	if !given && len(m.t.Clustering) > 0 && m.onlyStatics() {
		m.staticOnly = true
		return nil
	}
	m.ck, missing = keyList(m.t.Clustering, keys)
	if missing != nil {
		return invalidf("Some clustering keys are missing: %s", joinNames(missing))
	}
	return nil
}

func keyList(cols []*schema.Column, keys map[*schema.Column]term) (terms []term, missing []string) {
	terms = make([]term, len(cols))
	for i, c := range cols {
		if terms[i] = keys[c]; terms[i] == nil {
			missing = append(missing, c.Name)
		}
	}
	return terms, missing
}

func joinNames(names []string) string {
	s := ""
	for i, n := range names {
		if i > 0 {
			s += ", "
		}
		s += n
	}
	return s
}

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
