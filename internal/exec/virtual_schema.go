package exec

import (
	"context"
	"maps"
	"slices"

	"varve/internal/cqltype"
	"varve/internal/schema"
)

var schemaVirtualTables = []VirtualTable{
	{Keyspace: "system_schema", Name: "keyspaces", Parts: &virtualParts{keep: clientReal, rows: keyspaceRow}},
	{Keyspace: "system_schema", Name: "tables", Parts: &virtualParts{perTable: true, keep: clientReal, rows: tableRow}},
	{Keyspace: "system_schema", Name: "columns", Parts: &virtualParts{perTable: true, keep: clientReal, rows: columnRows}},
	{Keyspace: "system_schema", Name: "dropped_columns", Parts: &virtualParts{perTable: true, keep: clientReal, rows: droppedColumnRows}},
	{Keyspace: "system_schema", Name: "types", Parts: &virtualParts{keep: anyKeyspace, rows: typeRows}},
	{Keyspace: "system_schema", Name: "indexes", Parts: &virtualParts{perTable: true, keep: clientReal, rows: indexRows}},
	{Keyspace: "system_virtual_schema", Name: "keyspaces", Parts: &virtualParts{keep: clientVirtual, rows: virtualKeyspaceRow}},
	{Keyspace: "system_virtual_schema", Name: "tables", Parts: &virtualParts{perTable: true, keep: clientVirtual, rows: virtualTableRow}},
	{Keyspace: "system_virtual_schema", Name: "columns", Parts: &virtualParts{perTable: true, keep: clientVirtual, rows: columnRows}},
}

func keyspaceRow(_ context.Context, _ *Engine, v *virtualRows, k *schema.Keyspace, _ *schema.Table) error {
	v.next().text("keyspace_name", k.Name).boolean("durable_writes", k.DurableWrites).
		set("replication", textMap(k.Replication))
	return nil
}

func virtualKeyspaceRow(_ context.Context, _ *Engine, v *virtualRows, k *schema.Keyspace, _ *schema.Table) error {
	v.next().text("keyspace_name", k.Name)
	return nil
}

func tableRow(_ context.Context, _ *Engine, v *virtualRows, _ *schema.Keyspace, t *schema.Table) error {
	o := &t.Options
	flags := []string{"compound"}
	if t.Counter {
		flags = append(flags, "counter")
	}
	v.next().text("keyspace_name", t.Keyspace).text("table_name", t.Name).uuid("id", t.ID).
		set("flags", textSet(flags)).
		text("additional_write_policy", o.AdditionalWritePolicy).
		double("bloom_filter_fp_chance", o.BloomFilterFPChance).
		set("caching", textMap(o.Caching)).text("comment", o.Comment).
		set("compaction", textMap(o.Compaction)).set("compression", textMap(o.Compression)).
		double("crc_check_chance", o.CRCCheckChance).double("dclocal_read_repair_chance", 0).
		int("default_time_to_live", o.DefaultTTL).set("extensions", extensionMap(o.Extensions)).
		int("gc_grace_seconds", o.GCGraceSeconds).
		int("max_index_interval", o.MaxIndexInterval).
		int("memtable_flush_period_in_ms", o.MemtableFlushPeriodInMS).
		int("min_index_interval", o.MinIndexInterval).text("read_repair", o.ReadRepair).
		double("read_repair_chance", 0).text("speculative_retry", o.SpeculativeRetry)
	// Cassandra leaves these at null for their defaults, and cdc always
	// while change data capture is off for the node.
	if !o.AllowAutoSnapshot {
		v.boolean("allow_auto_snapshot", false)
	}
	if !o.IncrementalBackups {
		v.boolean("incremental_backups", false)
	}
	if o.Memtable != "default" {
		v.text("memtable", o.Memtable)
	}
	return nil
}

func extensionMap(m map[string][]byte) []byte {
	var elems [][]byte
	for _, k := range slices.Sorted(maps.Keys(m)) {
		elems = append(elems, textValue(k), m[k])
	}
	return cqltype.AppendCollection(nil, cqltype.MapOf(cqltype.Text, cqltype.Blob), elems)
}

func virtualTableRow(_ context.Context, _ *Engine, v *virtualRows, _ *schema.Keyspace, t *schema.Table) error {
	v.next().text("keyspace_name", t.Keyspace).text("table_name", t.Name).text("comment", t.Comment)
	return nil
}

func columnRows(_ context.Context, _ *Engine, v *virtualRows, _ *schema.Keyspace, t *schema.Table) error {
	for _, c := range t.ByID {
		if c == nil {
			continue
		}
		order, position := "none", int32(-1)
		switch c.Kind {
		case schema.PartitionKey:
			position = int32(c.Position)
		case schema.Clustering:
			order, position = "asc", int32(c.Position)
			if c.Desc {
				order = "desc"
			}
		}
		v.next().text("keyspace_name", t.Keyspace).text("table_name", t.Name).text("column_name", c.Name).
			text("clustering_order", order).text("column_name_bytes", c.Name).
			text("kind", c.Kind.String()).int("position", position).text("type", c.Type.String())
	}
	return nil
}

func droppedColumnRows(_ context.Context, _ *Engine, v *virtualRows, _ *schema.Keyspace, t *schema.Table) error {
	for _, c := range t.Dropped {
		v.next().text("keyspace_name", t.Keyspace).text("table_name", t.Name).text("column_name", c.Name).
			set("dropped_time", timestampValue(c.DroppedAt/1000)).
			text("kind", c.Kind.String()).text("type", c.Type.String())
	}
	return nil
}

func typeRows(_ context.Context, _ *Engine, v *virtualRows, k *schema.Keyspace, _ *schema.Table) error {
	for _, t := range sortedTypes(k) {
		types := make([]string, len(t.Elems))
		for i, f := range t.Elems {
			types[i] = f.String()
		}
		v.next().text("keyspace_name", k.Name).text("type_name", t.Name).
			set("field_names", textList(t.FieldNames)).set("field_types", textList(types))
	}
	return nil
}

func indexRows(_ context.Context, _ *Engine, v *virtualRows, _ *schema.Keyspace, t *schema.Table) error {
	for _, x := range t.Indexes {
		v.next().text("keyspace_name", t.Keyspace).text("table_name", t.Name).text("index_name", x.Name).
			text("kind", string(x.Kind)).set("options", textMap(x.Options))
	}
	return nil
}
