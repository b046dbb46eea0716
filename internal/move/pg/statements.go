package pg

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"varve/internal/move"
)

func int8Value(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// stored are the columns that are written: all but those the database
// computes.
func (t *table) stored() []int {
	var out []int
	for i := range t.Columns {
		if !t.Columns[i].Generated {
			out = append(out, i)
		}
	}
	return out
}

// plainOnly leaves out the columns that the database computes.
func (t *table) plainOnly(columns []int) []int {
	return slices.DeleteFunc(slices.Clone(columns), func(i int) bool { return t.Columns[i].Generated })
}

// written are a row's values for the stored columns.
func (t *table) written(row move.Row) [][]byte {
	if !slices.ContainsFunc(t.Columns, func(c move.Column) bool { return c.Generated }) {
		return row
	}
	var out [][]byte
	for _, i := range t.stored() {
		out = append(out, row[i])
	}
	return out
}

// values is a VALUES of one row of parameters.
func (t *table) values() string {
	var params []string
	for n, i := range t.stored() {
		params = append(params, t.cols[i].param(n+1))
	}
	for _, c := range t.constants {
		params = append(params, c.value)
	}
	return "VALUES (" + strings.Join(params, ", ") + ")"
}

// selected is a SELECT of rows from one array for each column.
func (t *table) selected() string {
	var exprs []string
	stored := t.stored()
	for n, i := range stored {
		exprs = append(exprs, t.native(i, "q.c"+strconv.Itoa(n+1)))
	}
	for _, c := range t.constants {
		exprs = append(exprs, c.value)
	}
	return "SELECT " + strings.Join(exprs, ", ") + " FROM " + t.unnested(stored, 1, "q", "c", false)
}

func (t *table) columnArrays(rows []move.Row) [][]byte {
	var out [][]byte
	for _, i := range t.stored() {
		out = append(out, appendArray(nil, t.cols[i].typOID, rows, i))
	}
	return out
}

// insert is the beginning of an INSERT.
func (t *table) insert() string {
	var names []string
	for _, i := range t.stored() {
		names = append(names, t.cols[i].quoted)
	}
	for _, c := range t.constants {
		names = append(names, c.quoted)
	}
	// Identity columns keep the value that comes.
	return fmt.Sprintf("INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE ", t.ident, strings.Join(names, ", "))
}

// upsert inserts rows or replaces those that are there.
func (t *table) upsert(source string) string {
	var sets []string
	for _, i := range t.stored() {
		if !slices.Contains(t.Key, i) {
			sets = append(sets, fmt.Sprintf("%[1]s = excluded.%[1]s", t.cols[i].quoted))
		}
	}
	action := "DO NOTHING"
	if len(sets) > 0 {
		action = "DO UPDATE SET " + strings.Join(sets, ", ")
	}
	return t.insert() + source + " ON CONFLICT (" + t.keyList("") + ") " + action
}

// absentOnly inserts rows that are not there.
func (t *table) absentOnly(source string) string {
	return t.insert() + source + " ON CONFLICT (" + t.keyList("") + ") DO NOTHING"
}

// partial updates the row of a key with the values that changed.
func (t *table) partial(row move.Row, unchanged []int, key move.Row) (string, [][]byte) {
	var c conditions
	var sets []string
	for i := range t.cols {
		if !slices.Contains(unchanged, i) && !t.Columns[i].Generated {
			sets = append(sets, t.cols[i].quoted+" = "+c.param(&t.cols[i], row[i]))
		}
	}
	c.key(t, "=", key)
	return "UPDATE " + t.from + " SET " + strings.Join(sets, ", ") + c.where(), c.args
}

// unless adds to a statement the condition that no row has the key.
func (t *table) unless(sql string, args [][]byte, key move.Row) (string, [][]byte) {
	c := conditions{args: args}
	c.key(t, "=", key)
	return fmt.Sprintf("%s AND NOT EXISTS (SELECT FROM %s%s)", sql, t.from, c.where()), c.args
}

// show writes a key for people.
func (t *table) show(key move.Row) string {
	var parts []string
	for n, i := range t.Key {
		if n < len(key) {
			parts = append(parts, t.Columns[i].Name+"="+showValue(t.cols[i].typ, key[n]))
		}
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

func showValue(typ string, v []byte) string {
	switch {
	case v == nil:
		return "NULL"
	case typ == "uuid" && len(v) == 16:
		return fmt.Sprintf("%x-%x-%x-%x-%x", v[:4], v[4:6], v[6:8], v[8:10], v[10:])
	case typ == "bigint" && len(v) == 8:
		return strconv.FormatInt(int64(binary.BigEndian.Uint64(v)), 10)
	case typ == "integer" && len(v) == 4:
		return strconv.FormatInt(int64(int32(binary.BigEndian.Uint32(v))), 10)
	case typ == "smallint" && len(v) == 2:
		return strconv.FormatInt(int64(int16(binary.BigEndian.Uint16(v))), 10)
	case typ == "timestamp with time zone" && len(v) == 8:
		return time.UnixMicro(int64(binary.BigEndian.Uint64(v)) + epoch2000).UTC().Format("2006-01-02T15:04:05.999999Z")
	case strings.HasPrefix(typ, "character") || typ == "text" || typ == "bpchar" || typ == "name":
		if len(v) > 80 {
			return strconv.Quote(string(v[:80])) + "..."
		}
		return strconv.Quote(string(v))
	}
	if len(v) > 40 {
		v = v[:40]
	}
	return `\x` + hex.EncodeToString(v)
}
