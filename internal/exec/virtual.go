package exec

import (
	"context"
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"varve/internal/cqltype"
	"varve/internal/schema"
)

// VirtualTable answers reads of a table that is not stored: system.local,
// system_schema.*, system_views.* and the like. Definitions are in the
// schema snapshot with Virtual set; rows come from here.
type VirtualTable struct {
	Keyspace, Name string
	// Rows returns all rows, each one value a column in the order of
	// the table's partition key, clustering, static, regular columns (binary
	// form, nil null; multi-cell columns as a whole collection value). The
	// executor sorts, restricts, and pages them as it does stored rows.
	Rows func(ctx context.Context, e *Engine, s *Session) ([][][]byte, error)
	// Parts, where set, takes the place of Rows.
	Parts *virtualParts
	// Scan, where set, takes the place of Rows: it emits the rows of one
	// partition in order, from where they are asked for, until emit fails.
	Scan func(ctx context.Context, scan *virtualScan, emit func(row [][]byte) error) error
	// Change carries out a modification of one row; nil: the table is read only.
	// It checks the session's permissions itself.
	Change func(ctx context.Context, x *execution, c *virtualChange) error
}

var allVirtualTables = slices.Concat(
	systemVirtualTables, schemaVirtualTables, viewsVirtualTables, authVirtualTables, emptyVirtualTables, feedVirtualTables,
	deadVirtualTables, metricVirtualTables,
)

// virtualTables lists every virtual table.
func virtualTables() []VirtualTable { return allVirtualTables }

// virtualRows collects rows of a virtual table by column name.
type virtualRows struct {
	index map[string]int
	width int
	rows  [][][]byte
	row   [][]byte
}

// newVirtualRows starts the rows of a table, which must be in the snapshot.
func newVirtualRows(snap *schema.Snapshot, keyspace, name string) *virtualRows {
	t := snap.Table(keyspace, name)
	v := &virtualRows{index: map[string]int{}}
	for _, c := range slices.Concat(t.PartitionKey, t.Clustering, t.Static, t.Regular) {
		v.index[c.Name] = v.width
		v.width++
	}
	return v
}

// next starts a row; its columns are null until set.
func (v *virtualRows) next() *virtualRows {
	v.row = make([][]byte, v.width)
	v.rows = append(v.rows, v.row)
	return v
}

// set sets a column. A name that the table does not have is a mistake in the
// program and panics with its index.
func (v *virtualRows) set(column string, value []byte) *virtualRows {
	i, ok := v.index[column]
	if !ok {
		panic("BUG: no column " + column + " in a virtual table")
	}
	v.row[i] = value
	return v
}

func (v *virtualRows) text(column, value string) *virtualRows { return v.set(column, textValue(value)) }

func (v *virtualRows) int(column string, n int32) *virtualRows {
	return v.set(column, intBytes(n))
}

func (v *virtualRows) bigint(column string, n int64) *virtualRows {
	return v.set(column, bigintBytes(n))
}

func (v *virtualRows) double(column string, f float64) *virtualRows {
	return v.set(column, binary.BigEndian.AppendUint64(nil, math.Float64bits(f)))
}

func (v *virtualRows) boolean(column string, b bool) *virtualRows {
	return v.set(column, boolValue(b))
}

func (v *virtualRows) uuid(column string, id schema.UUID) *virtualRows {
	return v.set(column, slices.Clone(id[:]))
}

// textValue is a text's binary form; an empty text is not null.
func textValue(s string) []byte {
	b := make([]byte, len(s))
	copy(b, s)
	return b
}

func boolValue(b bool) []byte {
	if b {
		return []byte{1}
	}
	return []byte{0}
}

var (
	textListType = cqltype.ListOf(cqltype.Text)
	textSetType  = cqltype.SetOf(cqltype.Text)
	textMapType  = cqltype.MapOf(cqltype.Text, cqltype.Text)
)

func textList(items []string) []byte { return textCollection(textListType, items) }

// textSet is a set's binary form; items are sorted in place.
func textSet(items []string) []byte {
	slices.Sort(items)
	return textCollection(textSetType, items)
}

func textCollection(t *cqltype.Type, items []string) []byte {
	elems := make([][]byte, len(items))
	for i, s := range items {
		elems[i] = textValue(s)
	}
	return cqltype.AppendCollection(nil, t, elems)
}

func textMap(m map[string]string) []byte {
	elems := make([][]byte, 0, 2*len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		elems = append(elems, textValue(k), textValue(m[k]))
	}
	return cqltype.AppendCollection(nil, textMapType, elems)
}

// sortedKeyspaces and sortedTables give a fixed order to what is made from maps.
func sortedKeyspaces(s *schema.Snapshot) []*schema.Keyspace {
	out := make([]*schema.Keyspace, 0, len(s.Keyspaces))
	for _, name := range slices.Sorted(maps.Keys(s.Keyspaces)) {
		out = append(out, s.Keyspaces[name])
	}
	return out
}

func sortedTables(k *schema.Keyspace) []*schema.Table {
	out := make([]*schema.Table, 0, len(k.Tables))
	for _, name := range slices.Sorted(maps.Keys(k.Tables)) {
		out = append(out, k.Tables[name])
	}
	return out
}

func sortedTypes(k *schema.Keyspace) []*cqltype.Type {
	out := make([]*cqltype.Type, 0, len(k.Types))
	for _, name := range slices.Sorted(maps.Keys(k.Types)) {
		out = append(out, k.Types[name])
	}
	return out
}

// noRows answers for tables of things that one node never has.
func noRows(context.Context, *Engine, *Session) ([][][]byte, error) { return nil, nil }

// emptyVirtualTables describe peers, repairs, streams, views and functions.
// There are none, and tools that ask must be told so rather than refused.
var emptyVirtualTables = func() []VirtualTable {
	var out []VirtualTable
	for keyspace, names := range map[string][]string{
		"system": {
			"available_ranges", "available_ranges_v2", "built_views", "paxos_repair_history", "peer_events",
			"peer_events_v2", "peers", "peers_v2", "repairs", "transferred_ranges", "transferred_ranges_v2",
			"view_builds_in_progress",
		},
		"system_schema": {"aggregates", "column_masks", "functions", "triggers", "views"},
		"system_auth":   {"cidr_groups", "cidr_permissions", "identity_to_role", "network_permissions"},
		"system_distributed": {
			"parent_repair_history", "partition_denylist", "repair_history", "view_build_status",
		},
		"system_views": {"internode_inbound", "internode_outbound", "pending_hints", "streaming"},
	} {
		for _, name := range names {
			out = append(out, VirtualTable{Keyspace: keyspace, Name: name, Rows: noRows})
		}
	}
	return out
}()
