package exec

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"varve/internal/cql"
	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/schema"
)

// jsonInsert is the source of an INSERT JSON: one JSON object whose members
// are the columns.
type jsonInsert struct {
	t           *schema.Table
	source      term
	defaultNull bool // columns that are not given become null; else they stay as they are
}

// jsonTerm is a key column's value in INSERT JSON.
type jsonTerm struct{ column string }

func (j *jsonTerm) eval(x *execution) (value, error) { return x.json[j.column], nil }

func (p *planner) planInsertJSON(m *modifyPlan, st *cql.Insert) error {
	t := m.t
	spec := cqlwire.ColumnSpec{Keyspace: t.Keyspace, Table: t.Name, Name: "[json]", Type: cqltype.Text}
	source, err := p.term(st.JSON, spec)
	if err != nil {
		return err
	}
	m.json = &jsonInsert{t: t, source: source, defaultNull: st.DefaultNull}
	keys := make(map[*schema.Column]term, len(t.PartitionKey)+len(t.Clustering))
	for _, c := range t.Columns {
		if c.Kind == schema.PartitionKey || c.Kind == schema.Clustering {
			keys[c] = &jsonTerm{column: c.Name}
			continue
		}
		m.addOperation(operation{kind: setKind(c), col: c})
	}
	return m.insertKeys(keys)
}

// parse reads the object and turns its members into values.
func (j *jsonInsert) parse(mu *mutation) error {
	v, err := j.source.eval(mu.x)
	if err != nil {
		return err
	}
	if v.Bytes == nil || v.Unset {
		return invalidf("Got null for INSERT JSON values")
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(v.Bytes, &members); err != nil {
		return invalidf("Could not decode JSON string as a map: %s. (String was: %s)", err.Error(), v.Bytes)
	}
	if members == nil {
		return invalidf("Got null for INSERT JSON values")
	}
	named := make(map[string]json.RawMessage, len(members))
	for k, raw := range members {
		named[jsonColumn(k)] = raw
	}
	values := make(map[string]value, len(j.t.Columns))
	for _, c := range allColumns(j.t) {
		raw, given := named[c.Name]
		if !given {
			if j.defaultNull || c.Kind == schema.PartitionKey || c.Kind == schema.Clustering {
				values[c.Name] = value{}
			}
			continue
		}
		delete(named, c.Name)
		b, err := cqltype.FromJSON(c.Type, raw)
		if err != nil {
			return invalidf("Error decoding JSON value for %s: %s", c.Name, err.Error())
		}
		values[c.Name] = value{Bytes: b}
	}
	if len(named) > 0 {
		return invalidf("JSON values map contains unrecognized column: %s", slices.Sorted(maps.Keys(named))[0])
	}
	mu.x.json, mu.json = values, values
	return nil
}

// jsonColumn is the column that a member's name stands for: case is kept only
// within double quotes.
func jsonColumn(name string) string {
	if n := len(name); n > 1 && name[0] == '"' && name[n-1] == '"' {
		return strings.ReplaceAll(name[1:n-1], `""`, `"`)
	}
	return strings.ToLower(name)
}
