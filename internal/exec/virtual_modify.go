package exec

import (
	"context"

	"varve/internal/cqlwire"
	"varve/internal/schema"
)

// virtualChange is an INSERT, UPDATE or DELETE of one row of a virtual table.
type virtualChange struct {
	kind modifyKind
	key  map[string][]byte // the primary key's columns
	set  map[string][]byte // what is written of the others; nil: null
}

// planVirtual checks a modification of a virtual table.
func (m *modifyPlan) planVirtual() error {
	name := m.t.Keyspace + "." + m.t.Name
	switch {
	case m.cond != nil:
		return invalidf("Conditional updates are not supported by table %s", name)
	case m.timestamp != nil:
		return invalidf("Custom timestamp is not supported by table %s", name)
	case m.ttl != nil:
		return invalidf("Expiring columns are not supported by table %s", name)
	case m.json != nil:
		return invalidf("INSERT JSON is not supported by table %s", name)
	case m.where != nil || len(m.ck) != len(m.t.Clustering):
		return invalidf("Only whole rows of table %s can be modified: name all of %s by =", name,
			columnList(append(m.t.PartitionKey[:len(m.t.PartitionKey):len(m.t.PartitionKey)], m.t.Clustering...)))
	}
	for i := range m.regulars {
		switch m.regulars[i].kind {
		case opSet, opClear:
		default:
			return invalidf("Column %s of table %s can't be written", m.regulars[i].col.Name, name)
		}
	}
	return nil
}

func columnList(cols []*schema.Column) string {
	out := ""
	for i, c := range cols {
		switch {
		case i == 0:
		case i == len(cols)-1:
			out += " and "
		default:
			out += ", "
		}
		out += c.Name
	}
	return out
}

// runVirtual carries a modification of a virtual table out.
func (m *modifyPlan) runVirtual(ctx context.Context, x *execution) (*Result, error) {
	if err := checkWrite(x.p.Consistency); err != nil {
		return nil, err
	}
	mu := &mutation{x: x, m: m}
	c := &virtualChange{kind: m.kind, key: map[string][]byte{}, set: map[string][]byte{}}
	for _, part := range []struct {
		cols  []*schema.Column
		terms []term
	}{{m.t.PartitionKey, m.pk}, {m.t.Clustering, m.ck}} {
		vs, err := mu.keyValues(nil, part.cols, part.terms)
		if err != nil {
			return nil, err
		}
		for i, v := range vs {
			c.key[part.cols[i].Name] = v
		}
	}
	for i := range m.regulars {
		op := &m.regulars[i]
		if op.kind == opClear {
			c.kind = updateKind // DELETE of columns
			c.set[op.col.Name] = nil
			continue
		}
		v, err := op.value.eval(x)
		if err != nil {
			return nil, err
		}
		if !v.Unset {
			c.set[op.col.Name] = v.Bytes
		}
	}
	if err := m.virtual.Change(ctx, x, c); err != nil {
		return nil, err
	}
	return &Result{Kind: cqlwire.ResultVoid}, nil
}
