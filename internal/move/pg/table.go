package pg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"varve/internal/move"
)

// table is a moved table as this database has it.
type table struct {
	move.Table
	oid       uint32
	kind      string // r: table, p: partitioned
	cols      []column
	ident     string // "schema"."name"
	from      string // as a source of rows: ONLY, so that inheritance adds none
	constants []constant
	others    []string // all columns of the table that are not mapped
	batched   bool     // rows can travel as one array for each column
}

// column is what SQL needs of a mapped column.
type column struct {
	attnum    int16
	quoted    string
	alias     string // its name at origin, quoted
	nativeOID uint32 // of the column
	modifier  int32
	base      string // native type below domains, with its modifier
	kind      string // typtype of the base type
	elem      bool   // an array
	typ       string // the type of Row's values, without modifier
	typOID    uint32 // its number in this database
	send      string // its send function
	collation string // nondeterministic or not, "" for none
	identity  bool
	fallback  bool // has a default
}

type constant struct{ quoted, value string }

// read is the expression that yields Row's value.
func (c *column) read(qualifier string) string {
	if c.typ == c.base {
		return qualifier + c.quoted
	}
	return qualifier + c.quoted + "::" + c.typ
}

// param is parameter n as a value of the column.
func (c *column) param(n int) string {
	p := fmt.Sprintf("$%d::%s", n, c.typ)
	if c.typ != c.base {
		p += "::" + c.base
	}
	return p
}

// hashed is the expression whose extended hash is that of the value's binary
// form: types that PostgreSQL hashes by their bytes stay as they are.
func (c *column) hashed(utf8 bool) string {
	switch c.typ {
	case "uuid", "bytea":
		return c.read("")
	case "text", "character varying":
		if utf8 {
			return c.read("") + `::text COLLATE "C"`
		}
	}
	return c.send + "(" + c.read("") + ")"
}

// columnsQuery reads a table's columns, each with the type below its domains.
const columnsQuery = `
SELECT a.attnum, a.attname, a.atttypid, a.atttypmod, format_type(b.oid, CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END),
  format_type(b.oid, -1), format_type(a.atttypid, a.atttypmod), b.oid, b.typtype::text, b.typcategory = 'A',
  COALESCE(e.oid, 0) >= 16384, a.attnotnull, a.attgenerated <> '', a.attidentity <> '', a.atthasdef,
  CASE WHEN b.typsend <> 0 AND b.typreceive <> 0 THEN b.typsend::regproc::text ELSE '' END,
  COALESCE(quote_ident(n.nspname) || '.' || quote_ident(c.collname)
    || CASE WHEN c.collname IN ('C', 'POSIX') THEN '' ELSE '/' || c.collprovider::text || COALESCE('/' || pg_collation_actual_version(c.oid), '') END, '')
FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
CROSS JOIN LATERAL (
  WITH RECURSIVE d AS (
    SELECT t.oid, t.typtype, t.typbasetype
    UNION ALL SELECT u.oid, u.typtype, u.typbasetype FROM d JOIN pg_type u ON u.oid = d.typbasetype WHERE d.typtype = 'd')
  SELECT d.oid FROM d WHERE d.typtype <> 'd') below
JOIN pg_type b ON b.oid = below.oid
LEFT JOIN pg_type e ON e.oid = b.typelem AND b.typcategory = 'A'
LEFT JOIN pg_collation c ON c.oid = a.attcollation
LEFT JOIN pg_namespace n ON n.oid = c.collnamespace
WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum`

// described is a column as the catalogue has it.
type described struct {
	column
	name, full, native string
	oid                uint32
	foreignElem        bool
	notNull, generated bool
}

func describe(ctx context.Context, q pgx.Tx, oid uint32) ([]described, error) {
	rows, err := q.Query(ctx, columnsQuery, oid)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (described, error) {
		var d described
		err := row.Scan(&d.attnum, &d.name, &d.nativeOID, &d.modifier, &d.full, &d.base, &d.native, &d.oid, &d.kind, &d.elem,
			&d.foreignElem, &d.notNull, &d.generated, &d.identity, &d.fallback, &d.send, &d.collation)
		d.quoted = quote(d.name)
		d.alias = d.quoted
		d.typ, d.typOID = d.base, d.oid
		return d, err
	})
}

// binder looks up one table and collects what is wrong with it.
type binder struct {
	s        *Side
	tx       pgx.Tx
	findings []move.Finding
}

func (b *binder) stop(object, what string, mend ...string) {
	b.findings = append(b.findings, move.Finding{Stops: true, Object: object, What: what, Mend: mend})
}

// Bind looks up the mapped tables; see move.Side.
func (s *Side) Bind(ctx context.Context, part move.Part, tables []move.TableMap, origin []move.Table) ([]move.Table, []move.Finding, error) {
	s.part, s.tables = part, nil
	if part == move.Target && len(origin) != len(tables) {
		return nil, nil, fmt.Errorf("%d tables are mapped and %d bound at origin", len(tables), len(origin))
	}
	b := &binder{s: s}
	var out []move.Table
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly, IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		b.tx = tx
		for i := range tables {
			var t *table
			var err error
			if part == move.Origin {
				t, err = b.origin(ctx, &tables[i])
			} else {
				t, err = b.target(ctx, &tables[i], &origin[i])
			}
			if err != nil {
				return err
			}
			if t == nil {
				out = append(out, move.Table{})
				continue
			}
			s.tables = append(s.tables, t)
			out = append(out, t.Table)
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("look up the tables: %w", err)
	}
	return out, b.findings, nil
}

// find looks a table up by "schema.name", or "name" in schema public.
func (b *binder) find(ctx context.Context, name string) (*table, []described, error) {
	t := &table{}
	var ok bool
	if t.Schema, t.Name, ok = strings.Cut(name, "."); !ok {
		t.Schema, t.Name = "public", name
	}
	err := b.tx.QueryRow(ctx, `SELECT c.oid, c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = $2`, t.Schema, t.Name).Scan(&t.oid, &t.kind)
	if errors.Is(err, pgx.ErrNoRows) {
		b.stop(name, "there is no such table in "+b.s.name)
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if t.kind != "r" && t.kind != "p" {
		b.stop(name, "it is not a table: views, foreign tables and the like cannot be moved")
		return nil, nil, nil
	}
	t.ident = quote(t.Schema) + "." + quote(t.Name)
	t.from = t.ident
	if t.kind == "r" {
		t.from = "ONLY " + t.ident
	}
	cols, err := describe(ctx, b.tx, t.oid)
	return t, cols, err
}

func (b *binder) origin(ctx context.Context, m *move.TableMap) (*table, error) {
	t, cols, err := b.find(ctx, m.From)
	if t == nil || err != nil {
		return nil, err
	}
	for _, name := range slices.Concat(m.Ignore, m.Key) {
		if !slices.ContainsFunc(cols, func(d described) bool { return d.name == name }) {
			b.stop(m.From+"."+name, "the move file names a column that the table does not have")
		}
	}
	for name := range m.Columns {
		if !slices.ContainsFunc(cols, func(d described) bool { return d.name == name }) {
			b.stop(m.From+"."+name, "the move file names a column that the table does not have")
		}
	}
	for _, d := range cols {
		if slices.Contains(m.Ignore, d.name) {
			t.others = append(t.others, d.name)
			continue
		}
		b.movable(m.From, &d)
		t.add(d, move.Type{OID: d.oid, Name: d.full})
	}
	key := m.Key
	if len(key) == 0 {
		if key, err = b.primaryKey(ctx, t.oid); err != nil {
			return nil, err
		}
	}
	if len(key) == 0 {
		b.stop(m.From, "it has no primary key and the move file names no key: its rows cannot be told apart",
			fmt.Sprintf("ALTER TABLE %s ADD PRIMARY KEY (...)", t.ident))
		return t, nil
	}
	for _, name := range key {
		i := slices.IndexFunc(t.Columns, func(c move.Column) bool { return c.Name == name })
		if i < 0 {
			b.stop(m.From+"."+name, "a column of the key must be moved")
			return t, nil
		}
		t.Key = append(t.Key, i)
	}
	return t, b.checkKey(ctx, t)
}

// movable finds types whose binary form means something in one database only.
func (b *binder) movable(tableName string, d *described) {
	object := tableName + "." + d.name
	switch {
	case d.send == "":
		b.stop(object, "type "+d.native+" has no binary form")
	case d.kind == "c" || d.kind == "p":
		b.stop(object, "values of row types like "+d.native+" hold numbers of this database")
	case d.foreignElem:
		b.stop(object, "arrays of a type of one's own ("+d.native+") hold the number that it has in this database")
	case strings.HasPrefix(d.base, "reg") && d.oid < 16384:
		b.stop(object, "type "+d.native+" holds numbers of this database")
	}
}

func (t *table) add(d described, typ move.Type) {
	t.Columns = append(t.Columns, move.Column{
		Name: d.name, Type: typ, Native: d.native, NotNull: d.notNull, Generated: d.generated,
	})
	t.cols = append(t.cols, d.column)
	if len(t.cols) == 1 {
		t.batched = true
	}
	t.batched = t.batched && !d.elem
}

func (b *binder) primaryKey(ctx context.Context, oid uint32) ([]string, error) {
	rows, err := b.tx.Query(ctx, `SELECT a.attname FROM pg_index i, unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, n), pg_attribute a
		WHERE i.indrelid = $1 AND i.indisprimary AND a.attrelid = i.indrelid AND a.attnum = k.attnum ORDER BY k.n`, oid)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// checkKey asks for NOT NULL and for a unique index of just the key's columns.
func (b *binder) checkKey(ctx context.Context, t *table) error {
	var names []string
	var attnums []int16
	for _, i := range t.Key {
		if object := t.Schema + "." + t.Name + "." + t.Columns[i].Name; t.cols[i].elem || t.Columns[i].Generated {
			b.stop(object, "an array or a computed column cannot be of the key")
		}
		names = append(names, t.cols[i].quoted)
		attnums = append(attnums, t.cols[i].attnum)
		if !t.Columns[i].NotNull {
			b.stop(t.Schema+"."+t.Name+"."+t.Columns[i].Name, "a column of the key may be NULL",
				fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s SET NOT NULL", t.ident, t.cols[i].quoted))
		}
	}
	var found bool
	err := b.tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = $1 AND i.indisunique AND i.indisvalid AND i.indimmediate
		AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indnkeyatts = cardinality($2::int2[])
		AND (i.indkey::int2[])[0:i.indnkeyatts - 1] @> $2::int2[])`, t.oid, attnums).Scan(&found)
	if err != nil {
		return err
	}
	if !found {
		b.stop(t.Schema+"."+t.Name, "no unique index holds just the key's columns ("+strings.Join(names, ", ")+
			"): copying and comparing would read the whole table again and again",
			fmt.Sprintf("CREATE UNIQUE INDEX CONCURRENTLY ON %s (%s)", t.ident, strings.Join(names, ", ")))
	}
	return nil
}

func (b *binder) target(ctx context.Context, m *move.TableMap, o *move.Table) (*table, error) {
	to := m.To
	if to == "" {
		to = m.From
	}
	t, cols, err := b.find(ctx, to)
	if t == nil || err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for i := range o.Columns {
		oc := &o.Columns[i]
		name := oc.Name
		if renamed, ok := m.Columns[name]; ok {
			name = renamed
		}
		j := slices.IndexFunc(cols, func(d described) bool { return d.name == name })
		if j < 0 {
			b.stop(to+"."+name, "the target's table has no such column",
				fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", t.ident, quote(name), oc.Type.Name))
			continue
		}
		d := cols[j]
		used[name] = true
		if err := b.fit(ctx, to, oc, &d); err != nil {
			return nil, err
		}
		d.alias = quote(oc.Name)
		t.add(d, oc.Type)
	}
	t.Key = slices.Clone(o.Key)
	if err := b.rest(m, to, t, cols, used); err != nil {
		return nil, err
	}
	if len(t.Columns) != len(o.Columns) || len(t.Key) == 0 {
		return t, nil
	}
	return t, b.checkKey(ctx, t)
}

// rest looks at the target's columns that origin does not have.
func (b *binder) rest(m *move.TableMap, to string, t *table, cols []described, used map[string]bool) error {
	for name := range m.Constants {
		if !slices.ContainsFunc(cols, func(d described) bool { return d.name == name }) {
			b.stop(to+"."+name, "the move file gives a value for a column that the target's table does not have")
		}
	}
	for _, d := range cols {
		if used[d.name] {
			continue
		}
		t.others = append(t.others, d.name)
		if value, ok := m.Constants[d.name]; ok {
			t.constants = append(t.constants, constant{d.quoted, literal(value) + "::" + d.native})
			continue
		}
		if d.notNull && !d.fallback && !d.generated && !d.identity {
			b.stop(to+"."+d.name, "the target's column has no counterpart, no default, and must not be NULL",
				fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s SET DEFAULT ...", t.ident, d.quoted))
		}
	}
	return nil
}

// fit checks that the target's column takes origin's values without loss, and
// tells it the type that rows come in.
func (b *binder) fit(ctx context.Context, to string, oc *move.Column, d *described) error {
	object := to + "." + d.name
	if oc.Generated && !d.generated {
		b.stop(object, "origin computes this column and its stream does not tell it: let the target compute it too, or ignore it")
	}
	if d.generated && !oc.Generated {
		b.stop(object, "the target computes this column: ignore it or make it a plain one",
			fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s DROP EXPRESSION", to, d.quoted))
	}
	// The type as this database numbers it. Names of own types are looked up.
	base, _ := splitType(oc.Type.Name)
	err := b.tx.QueryRow(ctx, `SELECT t.oid, t.typsend::regproc::text, format_type(t.oid, -1) FROM pg_type t WHERE t.oid = to_regtype($1)`,
		base).Scan(&d.typOID, &d.send, &d.typ)
	if errors.Is(err, pgx.ErrNoRows) {
		b.stop(object, "origin's type "+oc.Type.Name+" is not known here")
		return nil
	}
	if err != nil {
		return err
	}
	if !lossless(oc.Type.Name, d.full) {
		b.stop(object, fmt.Sprintf("type %s does not hold every value of origin's %s", d.native, oc.Type.Name),
			fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s TYPE %s", to, d.quoted, oc.Type.Name))
	}
	if d.notNull && !oc.NotNull {
		b.findings = append(b.findings, move.Finding{
			Object: object, What: "the target's column must not be NULL, origin's may: a row with NULL will stop the move",
			Mend: []string{fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s DROP NOT NULL", to, d.quoted)},
		})
	}
	return nil
}
