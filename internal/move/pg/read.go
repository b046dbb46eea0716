package pg

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"varve/internal/move"
)

// keyList is the key's columns for ORDER BY.
func (t *table) keyList(qualifier string) string {
	var names []string
	for _, i := range t.Key {
		names = append(names, qualifier+t.cols[i].quoted)
	}
	return strings.Join(names, ", ")
}

// columnList is what Row holds, in its order.
func (t *table) columnList(qualifier string) string {
	var exprs []string
	for i := range t.cols {
		exprs = append(exprs, t.cols[i].read(qualifier))
	}
	return strings.Join(exprs, ", ")
}

func (t *table) keyColumns() string {
	var exprs []string
	for _, i := range t.Key {
		exprs = append(exprs, t.cols[i].read(""))
	}
	return strings.Join(exprs, ", ")
}

// conditions collects the parts of a WHERE and their parameters.
type conditions struct {
	parts []string
	args  [][]byte
}

func (c *conditions) param(col *column, v []byte) string {
	c.args = append(c.args, v)
	return col.param(len(c.args))
}

func (c *conditions) where() string {
	if len(c.parts) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.parts, " AND ")
}

// key compares the key with a row of key values.
func (c *conditions) key(t *table, op string, key move.Row) {
	var params []string
	for n, i := range t.Key {
		params = append(params, c.param(&t.cols[i], key[n]))
	}
	c.parts = append(c.parts, fmt.Sprintf("(%s) %s (%s)", t.keyList(""), op, strings.Join(params, ", ")))
}

func (c *conditions) within(t *table, r move.Range) {
	if r.From != nil {
		c.key(t, ">", r.From)
	}
	if r.To != nil {
		c.key(t, "<=", r.To)
	}
}

var binaryFormat = []int16{1}

// query runs a statement with binary parameters and results and hands over
// each row, valid until the next.
func query(ctx context.Context, conn *pgconn.PgConn, sql string, args [][]byte, each func([][]byte) error) error {
	var formats []int16
	if len(args) > 0 {
		formats = binaryFormat
	}
	rr := conn.ExecParams(ctx, sql, args, nil, formats, binaryFormat)
	var err error
	for rr.NextRow() {
		if err == nil {
			err = each(rr.Values())
		}
	}
	if _, closeErr := rr.Close(); err == nil {
		err = closeErr
	}
	return err
}

// arena keeps copies of values in few pieces of memory.
type arena struct {
	block  []byte
	header move.Row
}

func (a *arena) keep(values [][]byte) move.Row {
	if len(a.header) < len(values) {
		a.header = make(move.Row, max(256*len(values), len(values)))
	}
	row := a.header[:len(values):len(values)]
	a.header = a.header[len(values):]
	for i, v := range values {
		if v == nil {
			continue
		}
		if cap(a.block)-len(a.block) < len(v) {
			a.block = make([]byte, 0, max(64<<10, len(v)))
		}
		start := len(a.block)
		a.block = append(a.block, v...)
		row[i] = a.block[start:len(a.block):len(a.block)]
	}
	return row
}

func (s *Side) rows(ctx context.Context, sql string, args [][]byte) ([]move.Row, error) {
	var out []move.Row
	var a arena
	err := s.raw(ctx, func(conn *pgconn.PgConn) error {
		return query(ctx, conn, sql, args, func(values [][]byte) error {
			out = append(out, a.keep(values))
			return nil
		})
	})
	return out, err
}

func (s *Side) failed(what string, t *table, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s.%s of %s: %w", what, t.Schema, t.Name, s.name, err)
}

// Read returns rows of a range in key order.
func (s *Side) Read(ctx context.Context, table int, r move.Range, limit int) ([]move.Row, error) {
	t := s.tables[table]
	var c conditions
	c.within(t, r)
	rows, err := s.rows(ctx, fmt.Sprintf("SELECT %s FROM %s%s ORDER BY %s LIMIT %d",
		t.columnList(""), t.from, c.where(), t.keyList(""), limit), c.args)
	return rows, s.failed("read", t, err)
}

// ReadSpan returns rows of a span in key order.
func (s *Side) ReadSpan(ctx context.Context, table int, span move.KeySpan, after move.Row, limit int) ([]move.Row, error) {
	t := s.tables[table]
	var c conditions
	if err := c.span(t, &span); err != nil {
		return nil, s.failed("read", t, err)
	}
	if after != nil {
		c.key(t, ">", after)
	}
	rows, err := s.rows(ctx, fmt.Sprintf("SELECT %s FROM %s%s ORDER BY %s LIMIT %d",
		t.columnList(""), t.from, c.where(), t.keyList(""), limit), c.args)
	return rows, s.failed("read", t, err)
}

func (c *conditions) span(t *table, span *move.KeySpan) error {
	bounded := span.From != nil || span.To != nil
	if len(span.Prefix) > len(t.Key) || bounded && len(span.Prefix) == len(t.Key) {
		return fmt.Errorf("a span over %d columns does not fit a key of %d", len(span.Prefix), len(t.Key))
	}
	for i, v := range span.Prefix {
		col := &t.cols[t.Key[i]]
		c.parts = append(c.parts, col.quoted+" = "+c.param(col, v))
	}
	if !bounded {
		return nil
	}
	col := &t.cols[t.Key[len(span.Prefix)]]
	if span.From != nil {
		op := " >= "
		if span.FromOpen {
			op = " > "
		}
		c.parts = append(c.parts, col.quoted+op+c.param(col, span.From))
	}
	if span.To != nil {
		op := " <= "
		if span.ToOpen {
			op = " < "
		}
		c.parts = append(c.parts, col.quoted+op+c.param(col, span.To))
	}
	return nil
}

// arrays makes one array parameter of each key column.
func (t *table) arrays(columns []int, rows []move.Row) [][]byte {
	out := make([][]byte, len(columns))
	for n, i := range columns {
		out[n] = appendArray(nil, t.cols[i].typOID, rows, n)
	}
	return out
}

// appendArray appends the binary form of an array of the n-th values of rows.
func appendArray(dst []byte, oid uint32, rows []move.Row, n int) []byte {
	nulls, dimensions := uint32(0), uint32(1)
	for _, r := range rows {
		if r[n] == nil {
			nulls = 1
		}
	}
	if len(rows) == 0 {
		dimensions = 0
	}
	dst = binary.BigEndian.AppendUint32(dst, dimensions)
	dst = binary.BigEndian.AppendUint32(dst, nulls)
	dst = binary.BigEndian.AppendUint32(dst, oid)
	if dimensions == 0 {
		return dst
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(rows)))
	dst = binary.BigEndian.AppendUint32(dst, 1)
	for _, r := range rows {
		if r[n] == nil {
			dst = binary.BigEndian.AppendUint32(dst, 1<<32-1)
			continue
		}
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(r[n])))
		dst = append(dst, r[n]...)
	}
	return dst
}

// unnested is a source of rows made of array parameters from number first on,
// with columns named prefix1, prefix2, ... of the columns' native types.
func (t *table) unnested(columns []int, first int, alias, prefix string, ordinality bool) string {
	var params, names []string
	for n, i := range columns {
		params = append(params, fmt.Sprintf("$%d::%s[]", first+n, t.cols[i].typ))
		names = append(names, prefix+strconv.Itoa(n+1))
	}
	with := ""
	if ordinality {
		with = " WITH ORDINALITY"
		names = append(names, prefix+"o")
	}
	return fmt.Sprintf("unnest(%s)%s AS %s(%s)", strings.Join(params, ", "), with, alias, strings.Join(names, ", "))
}

// native is the n-th unnested value as the column's own type.
func (t *table) native(i int, ref string) string {
	if c := &t.cols[i]; c.typ != c.base {
		return ref + "::" + c.base
	}
	return ref
}

// readKeysMost bounds the keys of one statement.
const readKeysMost = 1000

// ReadKeys returns the rows with these keys, in the keys' order.
func (s *Side) ReadKeys(ctx context.Context, table int, keys []move.Row) ([]move.Row, error) {
	t := s.tables[table]
	out := make([]move.Row, len(keys))
	var match []string
	for n, i := range t.Key {
		match = append(match, fmt.Sprintf("t.%s = %s", t.cols[i].quoted, t.native(i, "q.k"+strconv.Itoa(n+1))))
	}
	// One look into the index for each key, whatever the planner believes about
	// the array's length.
	sql := fmt.Sprintf("SELECT q.ko, r.* FROM %s CROSS JOIN LATERAL (SELECT %s FROM %s t WHERE %s LIMIT 1) r",
		t.unnested(t.Key, 1, "q", "k", true), t.columnList("t."), t.from, strings.Join(match, " AND "))
	var a arena
	err := s.raw(ctx, func(conn *pgconn.PgConn) error {
		for start := 0; start < len(keys); start += readKeysMost {
			part := keys[start:min(start+readKeysMost, len(keys))]
			err := query(ctx, conn, sql, t.arrays(t.Key, part), func(values [][]byte) error {
				out[start+int(binary.BigEndian.Uint64(values[0]))-1] = a.keep(values[1:])
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return out, s.failed("read by key", t, err)
}

// digestSeed is the seed of move.Digest.
const digestSeed = "1986097782"

// Digest computes move.Digest in the database.
func (s *Side) Digest(ctx context.Context, table int, r move.Range) (move.Digest, error) {
	t := s.tables[table]
	var exprs []string
	for i := range t.cols {
		exprs = append(exprs, t.cols[i].hashed(s.utf8))
	}
	var c conditions
	c.within(t, r)
	// OFFSET keeps the hash from being computed for each of the sums.
	sql := fmt.Sprintf(`SELECT count(*)::text::bytea, COALESCE(sum(h), 0)::text::bytea, COALESCE(bit_xor(h), 0) FROM (
		SELECT hash_record_extended(ROW(int8send(hash_record_extended(ROW(%s), %[2]s))), %[2]s) AS h FROM %[3]s%[4]s OFFSET 0) x`,
		strings.Join(exprs, ", "), digestSeed, t.from, c.where())
	var d move.Digest
	err := s.raw(ctx, func(conn *pgconn.PgConn) error {
		return query(ctx, conn, sql, c.args, func(v [][]byte) error {
			var err error
			if d.Rows, err = strconv.ParseInt(string(v[0]), 10, 64); err != nil {
				return err
			}
			sum, ok := new(big.Int).SetString(string(v[1]), 10)
			if !ok {
				return fmt.Errorf("a sum of hashes came as %q", v[1])
			}
			mask := new(big.Int).SetUint64(1<<64 - 1)
			d.Sum = [2]uint64{mask.And(mask, sum).Uint64(), binary.BigEndian.Uint64(v[2])}
			return nil
		})
	})
	return d, s.failed("hash", t, err)
}

// Rows estimates a table's size as the planner does: rows for each page when
// last analysed, times the pages of now.
func (s *Side) Rows(ctx context.Context, table int) (int64, error) {
	t := s.tables[table]
	var n int64
	err := s.pool.QueryRow(ctx, `SELECT COALESCE(sum(CASE WHEN c.relpages > 0 AND c.reltuples >= 0 THEN c.reltuples / c.relpages ELSE 60 END
		* (pg_relation_size(c.oid) / current_setting('block_size')::int)), 0)::int8
		FROM pg_class c WHERE c.relkind = 'r' AND c.oid IN (SELECT $1::oid UNION SELECT relid FROM pg_partition_tree($1::oid))`, t.oid).Scan(&n)
	return n, s.failed("estimate", t, err)
}

// Order names the key's order. Collations with a version order alike only in
// that version.
func (s *Side) Order(table int) string {
	t := s.tables[table]
	var parts []string
	for _, i := range t.Key {
		c := &t.cols[i]
		part := c.base
		if c.collation != "" {
			part += " " + c.collation
		}
		parts = append(parts, part)
	}
	return "postgresql " + strings.Join(parts, ", ")
}
