package cql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"varve/internal/move"
)

// column is one row of system_schema.columns.
type column struct {
	name, kind, native string
	descending         bool
	position           int
}

// Bind implements move.Side, for the target of a move.
func (s *Side) Bind(ctx context.Context, part move.Part, maps []move.TableMap, origin []move.Table) ([]move.Table, []move.Finding, error) {
	if part != move.Target {
		return nil, nil, errors.New("a CQL store as origin is not supported: moves begin in PostgreSQL")
	}
	if len(maps) != len(origin) {
		return nil, nil, fmt.Errorf("%d tables are mapped and origin has %d", len(maps), len(origin))
	}
	var findings []move.Finding
	for i, m := range maps {
		t, found, err := s.bind(ctx, &m, &origin[i])
		if err != nil {
			return nil, nil, err
		}
		findings = append(findings, found...)
		s.tables = append(s.tables, t)
		s.rows = append(s.rows, t.Table)
	}
	return s.rows, findings, nil
}

func (s *Side) bind(ctx context.Context, m *move.TableMap, origin *move.Table) (*table, []move.Finding, error) {
	keyspace, name, ok := strings.Cut(m.To, ".")
	if !ok {
		return nil, nil, fmt.Errorf("table %q: give it as keyspace.table", m.To)
	}
	t := &table{Table: move.Table{Schema: keyspace, Name: name, Key: origin.Key}}
	b := &binding{side: s, t: t, m: m, origin: origin, columns: map[string]column{}, mapped: map[string]bool{}}
	if err := b.load(ctx); err != nil {
		return nil, nil, err
	}
	if len(b.findings) == 0 {
		b.mapColumns()
		b.checkKey()
		b.constants()
	}
	if len(b.findings) == 0 {
		t.prepareStatements()
	}
	return t, b.findings, nil
}

// binding is a table being looked up.
type binding struct {
	side     *Side
	t        *table
	m        *move.TableMap
	origin   *move.Table
	columns  map[string]column
	mapped   map[string]bool
	findings []move.Finding
}

func (b *binding) stop(object, what string, mend ...string) {
	b.findings = append(b.findings, move.Finding{Stops: true, Object: object, What: what, Mend: mend})
}

func (b *binding) load(ctx context.Context) error {
	iter := b.side.session.Query(`SELECT column_name, kind, position, type, clustering_order FROM system_schema.columns
		WHERE keyspace_name = ? AND table_name = ?`, b.t.Schema, b.t.Name).IterContext(ctx)
	var c column
	var order string
	for iter.Scan(&c.name, &c.kind, &c.position, &c.native, &order) {
		c.descending = order == "desc"
		b.columns[c.name] = c
	}
	if err := iter.Close(); err != nil {
		return fmt.Errorf("look up table %s: %w", b.m.To, err)
	}
	if len(b.columns) == 0 {
		b.stop(b.m.To, "there is no such table", b.suggestion())
		return nil
	}
	var ttl int
	err := b.side.session.Query(`SELECT default_time_to_live FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?`,
		b.t.Schema, b.t.Name).ScanContext(ctx, &ttl)
	if err != nil && !isNotFound(err) {
		return fmt.Errorf("look up table %s: %w", b.m.To, err)
	}
	if ttl != 0 {
		b.stop(b.m.To, "its rows expire, which cannot be mirrored back",
			fmt.Sprintf("ALTER TABLE %s WITH default_time_to_live = 0", b.m.To))
	}
	return nil
}

// suggestion is a statement that creates a table which fits.
func (b *binding) suggestion() string {
	var cols, partition []string
	for _, c := range b.origin.Columns {
		native := "text"
		for cqlType := range conversions[c.Type.OID] {
			native = cqlType
			if cqlType == "timestamp" || len(conversions[c.Type.OID]) == 1 {
				break
			}
		}
		cols = append(cols, b.target(c.Name)+" "+native)
	}
	for _, k := range b.origin.Key {
		partition = append(partition, b.target(b.origin.Columns[k].Name))
	}
	key := "(" + partition[0] + ")"
	if len(partition) > 1 {
		key += ", " + strings.Join(partition[1:], ", ")
	}
	return fmt.Sprintf("CREATE TABLE %s (%s, PRIMARY KEY (%s))", b.m.To, strings.Join(cols, ", "), key)
}

func (b *binding) target(name string) string {
	if to, ok := b.m.Columns[name]; ok {
		return to
	}
	return name
}

func (b *binding) mapColumns() {
	for _, c := range b.origin.Columns {
		object := b.m.To + "." + b.target(c.Name)
		to, ok := b.columns[b.target(c.Name)]
		if !ok {
			b.stop(object, fmt.Sprintf("there is no such column for origin's %s", c.Name),
				fmt.Sprintf("ALTER TABLE %s ADD %s <type>", b.m.To, b.target(c.Name)))
			continue
		}
		if to.kind == "static" {
			b.stop(object, "a static column holds one value for many rows and cannot take a row's")
		}
		convert, ok := conversions[c.Type.OID][to.native]
		if !ok {
			b.stop(object, fmt.Sprintf("%s cannot be kept as %s without loss; it fits %s", c.Type.Name, to.native, fitting(c.Type.OID)))
		} else if to.native == "timestamp" && !millis(c.Type.Name) {
			b.stop(object, fmt.Sprintf("%s has microseconds and timestamp milliseconds", c.Type.Name),
				fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s TYPE timestamptz(3)", b.m.From, c.Name), "or map it to a column of type bigint (microseconds since 1970)")
		}
		b.t.Columns = append(b.t.Columns, move.Column{Name: to.name, Type: c.Type, Native: to.native, NotNull: c.NotNull})
		b.t.convert = append(b.t.convert, convert)
		b.t.native = append(b.t.native, to.native)
		b.mapped[to.name] = true
	}
}

// millis reports whether PostgreSQL rounds a column's times to milliseconds,
// from its type's name: "timestamp(3) with time zone".
func millis(name string) bool {
	_, rest, ok := strings.Cut(name, "(")
	return ok && rest[0] >= '0' && rest[0] <= '3' && rest[1] == ')'
}

func fitting(oid uint32) string {
	var names []string
	for n := range conversions[oid] {
		names = append(names, n)
	}
	if len(names) == 0 {
		return "no CQL type (leave the column out with ignore)"
	}
	slices.Sort(names)
	return strings.Join(names, " or ")
}

// checkKey wants the table's primary key to be the mapped key, in its order.
func (b *binding) checkKey() {
	var wanted []string
	for _, k := range b.origin.Key {
		wanted = append(wanted, b.target(b.origin.Columns[k].Name))
	}
	var kinds [2][]column
	for _, c := range b.columns {
		switch c.kind {
		case "partition_key":
			kinds[0] = append(kinds[0], c)
		case "clustering":
			kinds[1] = append(kinds[1], c)
		}
	}
	var have []string
	for _, cols := range kinds {
		slices.SortFunc(cols, func(x, y column) int { return x.position - y.position })
		for _, c := range cols {
			have = append(have, c.name)
		}
	}
	if !slices.Equal(have, wanted) {
		b.stop(b.m.To, fmt.Sprintf("its primary key is (%s) and the mapped key (%s)", strings.Join(have, ", "), strings.Join(wanted, ", ")),
			fmt.Sprintf("key: [%s] in the move file", strings.Join(have, ", ")))
		return
	}
	for i, k := range b.origin.Key {
		if i < len(kinds[0]) {
			b.t.partition = append(b.t.partition, k)
		} else {
			b.t.cluster = append(b.t.cluster, k)
			b.t.descending = append(b.t.descending, kinds[1][i-len(kinds[0])].descending)
		}
		if _, ok := orders[b.origin.Columns[k].Type.OID]; !ok {
			b.stop(b.m.To+"."+wanted[i], fmt.Sprintf("a key of type %s cannot be moved: its order is not the same in both stores", b.origin.Columns[k].Type.Name))
		}
	}
}

// constants takes the values of columns that only the target has, as CQL
// literals.
func (b *binding) constants() {
	for name, literal := range b.m.Constants {
		c, ok := b.columns[name]
		switch {
		case !ok:
			b.stop(b.m.To+"."+name, "there is no such column for the constant")
		case b.mapped[name]:
			b.stop(b.m.To+"."+name, "it is mapped and has a constant; one of them has to go")
		case c.kind != "regular":
			b.stop(b.m.To+"."+name, "a key or static column cannot be a constant")
		default:
			b.t.constants = append(b.t.constants, quote(name), literal)
		}
	}
}

// prepareStatements writes the table's statements. Values are bound in the
// order of columns, keys in the order of the key.
func (t *table) prepareStatements() {
	var names, marks, keys []string
	for _, c := range t.Columns {
		names, marks = append(names, quote(c.Name)), append(marks, "?")
	}
	t.all = strings.Join(names, ", ")
	for i := 0; i < len(t.constants); i += 2 {
		names, marks = append(names, t.constants[i]), append(marks, t.constants[i+1])
	}
	for _, k := range t.Key {
		keys = append(keys, quote(t.Columns[k].Name)+" = ?")
	}
	where := " WHERE " + strings.Join(keys, " AND ")
	t.insert = "INSERT INTO " + t.qualified() + " (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(marks, ", ") + ") USING TIMESTAMP ?"
	t.remove = "DELETE FROM " + t.qualified() + " USING TIMESTAMP ?" + where
	t.get = "SELECT " + t.all + " FROM " + t.qualified() + where
}
