package exec

import (
	"strings"

	"varve/internal/cql"
	"varve/internal/schema"
)

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
		return invalidf("Some partition key parts are missing: %s", strings.Join(missing, ", "))
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
		return invalidf("Some clustering keys are missing: %s", strings.Join(missing, ", "))
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
