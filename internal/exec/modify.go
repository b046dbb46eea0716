package exec

import (
	"varve/internal/cql"
	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/schema"
)

type modifyKind uint8

const (
	insertKind modifyKind = iota
	updateKind
	deleteKind
)

// modifyPlan is a planned INSERT, UPDATE or DELETE.
type modifyPlan struct {
	t              *schema.Table
	kind           modifyKind
	timestamp, ttl term // nil: not given

	// The rows: by where, or (the common case) by one term a key column.
	// With pk set and ck nil the statement is on the partition alone.
	pk, ck []term
	where  *where

	// Changes, in order of column id, as the store likes them best.
	statics, regulars []operation
	// staticOnly: changes and conditions are on static columns only, and no row is named.
	staticOnly bool
	json       *jsonInsert
	cond       *conditions // nil: unconditional
	reads      bool        // some operation must see the row first
	keyIndexes []*schema.Index
	virtual    *VirtualTable // set where the server itself carries it out
}

// planModify plans an INSERT, UPDATE or DELETE.
func (p *planner) planModify(st cql.Statement) (*modifyPlan, error) {
	var (
		m   *modifyPlan
		err error
	)
	switch st := st.(type) {
	case *cql.Insert:
		m, err = p.planInsert(st)
	case *cql.Update:
		m, err = p.planUpdate(st)
	case *cql.Delete:
		m, err = p.planDelete(st)
	default:
		return nil, invalidf("Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.")
	}
	if err != nil {
		return nil, err
	}
	return m, m.settle()
}

// modifyTable finds the table of a modification.
func (p *planner) modifyTable(n cql.Name) (*schema.Table, error) {
	t, err := p.lookupTable(n)
	if err != nil {
		return nil, err
	}
	if v := virtualTable(t); t.Virtual && (v == nil || v.Change == nil) {
		return nil, invalidf("Modification is not supported by table %s.%s", t.Keyspace, t.Name)
	}
	p.keyspace = t.Keyspace // user types in terms are those of the table's keyspace
	p.keyTypes = make([]*cqltype.Type, len(t.PartitionKey))
	for i, c := range t.PartitionKey {
		p.keyTypes[i] = c.Type
	}
	return t, nil
}

// settle checks a plan as a whole and orders its operations.
func (m *modifyPlan) settle() error {
	if m.t.Counter {
		switch {
		case m.timestamp != nil:
			return invalidf("Cannot provide custom timestamp for counter updates")
		case m.ttl != nil:
			return invalidf("Cannot provide custom TTL for counter updates")
		case m.cond != nil:
			return invalidf("Conditional updates are not supported on counter tables")
		}
	}
	if m.cond != nil && m.timestamp != nil {
		return invalidf("Cannot provide custom timestamp for conditional updates")
	}
	if m.t.Virtual {
		m.virtual = virtualTable(m.t)
		return m.planVirtual()
	}
	sortOperations(m.statics)
	sortOperations(m.regulars)
	for _, ops := range [...][]operation{m.statics, m.regulars} {
		for i := range ops {
			m.reads = m.reads || ops[i].kind.reads()
			ops[i].indexes = indexesOn(m.t, ops[i].col)
		}
	}
	for _, x := range m.t.Indexes {
		if x.Column.Kind == schema.PartitionKey || x.Column.Kind == schema.Clustering {
			m.keyIndexes = append(m.keyIndexes, x)
		}
	}
	return nil
}

// planUsing plans USING TIMESTAMP and TTL.
func (p *planner) planUsing(t *schema.Table, u cql.Using) (ts, ttl term, err error) {
	spec := cqlwire.ColumnSpec{Keyspace: t.Keyspace, Table: t.Name}
	if u.Timestamp != nil {
		if ts, err = p.term(u.Timestamp, part(spec, "[timestamp]", cqltype.Bigint)); err != nil {
			return nil, nil, err
		}
	}
	if u.TTL != nil {
		if ttl, err = p.term(u.TTL, part(spec, "[ttl]", cqltype.Int)); err != nil {
			return nil, nil, err
		}
	}
	return ts, ttl, nil
}

// simpleKey plans relations that are one equality a key column, which is what
// nearly all modifications have. ok is false for any other WHERE.
func (p *planner) simpleKey(t *schema.Table, rels []cql.Relation) (pk, ck []term, ok bool, err error) {
	exprs := make([]cql.Expr, len(t.PartitionKey)+len(t.Clustering))
	if len(rels) != len(exprs) && len(rels) != len(t.PartitionKey) {
		return nil, nil, false, nil
	}
	for i := range rels {
		r := &rels[i]
		if r.Op != cql.Eq || r.Tuple || r.Token || r.Key != nil {
			return nil, nil, false, nil
		}
		c := t.Columns[r.Columns[0]]
		if c == nil || (c.Kind != schema.PartitionKey && c.Kind != schema.Clustering) {
			return nil, nil, false, nil
		}
		at := c.Position
		if c.Kind == schema.Clustering {
			at += len(t.PartitionKey)
		}
		if at >= len(rels) || exprs[at] != nil {
			return nil, nil, false, nil
		}
		exprs[at] = r.Value
	}
	if pk, err = p.keyTerms(t, t.PartitionKey, exprs); err != nil {
		return nil, nil, true, err
	}
	if len(rels) > len(t.PartitionKey) {
		ck, err = p.keyTerms(t, t.Clustering, exprs[len(t.PartitionKey):])
	}
	return pk, ck, true, err
}

func (p *planner) keyTerms(t *schema.Table, cols []*schema.Column, exprs []cql.Expr) ([]term, error) {
	terms := make([]term, len(cols))
	for i, c := range cols {
		v, err := p.term(exprs[i], specOf(t, c))
		if err != nil {
			return nil, err
		}
		terms[i] = v
	}
	return terms, nil
}

// planRows plans WHERE.
func (m *modifyPlan) planRows(p *planner, rels []cql.Relation, kind string) error {
	pk, ck, ok, err := p.simpleKey(m.t, rels)
	if err != nil {
		return err
	}
	if ok && (ck == nil || !m.staticOnly) && (ck != nil || len(m.t.Clustering) == 0 || m.staticOnly || m.kind == deleteKind) {
		m.pk, m.ck = pk, ck
		return nil
	}
	m.where, err = p.whereOf(m.t, rels, whereOptions{kind: kind, staticOnly: m.staticOnly})
	return err
}

// namesRows reports that the statement restricts rows of a partition, not only the partition.
func (m *modifyPlan) namesRows() bool {
	if m.where != nil {
		return len(m.where.clustering) > 0
	}
	return m.ck != nil
}

// changesRows reports that regular rows are changed, static ones apart.
func (m *modifyPlan) changesRows() bool { return len(m.t.Clustering) == 0 || m.namesRows() }

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
