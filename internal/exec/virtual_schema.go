package exec

import (
	"context"
	"maps"
	"slices"

	"varve/internal/cqltype"
	"varve/internal/schema"
)

var schemaVirtualTables = []VirtualTable{
	{Keyspace: "system_schema", Name: "keyspaces", Rows: keyspaceRows},
	{Keyspace: "system_schema", Name: "tables", Rows: tableRows},
	{Keyspace: "system_schema", Name: "columns", Rows: columnRows},
	{Keyspace: "system_schema", Name: "dropped_columns", Rows: droppedColumnRows},
	{Keyspace: "system_schema", Name: "types", Rows: typeRows},
	{Keyspace: "system_schema", Name: "indexes", Rows: indexRows},
	{Keyspace: "system_virtual_schema", Name: "keyspaces", Rows: virtualKeyspaceRows},
	{Keyspace: "system_virtual_schema", Name: "tables", Rows: virtualTableRows},
	{Keyspace: "system_virtual_schema", Name: "columns", Rows: virtualColumnRows},
}

// eachKeyspace visits the keyspaces that clients know as virtual, or the others.
func eachKeyspace(snap *schema.Snapshot, virtual bool, f func(*schema.Keyspace)) {
	for _, k := range sortedKeyspaces(snap) {
		if k.Virtual == virtual {
			f(k)
		}
	}
}

func eachTable(snap *schema.Snapshot, virtual bool, f func(*schema.Table)) {
	eachKeyspace(snap, virtual, func(k *schema.Keyspace) {
		for _, t := range sortedTables(k) {
			f(t)
		}
	})
}

func keyspaceRows(_ context.Context, e *Engine, _ *Session) ([][][]byte, error) {
	snap := e.opts.Catalog.Snapshot()
	v := newVirtualRows(snap, "system_schema", "keyspaces")
	eachKeyspace(snap, false, func(k *schema.Keyspace) {
		v.next().text("keyspace_name", k.Name).boolean("durable_writes", k.DurableWrites).
			set("replication", textMap(k.Replication))
	})
	return v.rows, nil
}

func virtualKeyspaceRows(_ context.Context, e *Engine, _ *Session) ([][][]byte, error) {
	snap := e.opts.Catalog.Snapshot()
	v := newVirtualRows(snap, "system_virtual_schema", "keyspaces")
	eachKeyspace(snap, true, func(k *schema.Keyspace) { v.next().text("keyspace_name", k.Name) })
	return v.rows, nil
}

func tableRows(_ context.Context, e *Engine, _ *Session) ([][][]byte, error) {
	snap := e.opts.Catalog.Snapshot()
	v := newVirtualRows(snap, "system_schema", "tables")
	eachTable(snap, false, func(t *schema.Table) {
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
	})
	return v.rows, nil
}

func extensionMap(m map[string][]byte) []byte {
	var elems [][]byte
	for _, k := range slices.Sorted(maps.Keys(m)) {
		elems = append(elems, textValue(k), m[k])
	}
	return cqltype.AppendCollection(nil, cqltype.MapOf(cqltype.Text, cqltype.Blob), elems)
}

func virtualTableRows(_ context.Context, e *Engine, _ *Session) ([][][]byte, error) {
	snap := e.opts.Catalog.Snapshot()
	v := newVirtualRows(snap, "system_virtual_schema", "tables")
	eachTable(snap, true, func(t *schema.Table) {
		v.next().text("keyspace_name", t.Keyspace).text("table_name", t.Name).text("comment", t.Comment)
	})
	return v.rows, nil
}

func columnRows(_ context.Context, e *Engine, _ *Session) ([][][]byte, error) {
	return columnsOf(e.opts.Catalog.Snapshot(), "system_schema", false), nil
}

func virtualColumnRows(_ context.Context, e *Engine, _ *Session) ([][][]byte, error) {
	return columnsOf(e.opts.Catalog.Snapshot(), "system_virtual_schema", true), nil
}

func columnsOf(snap *schema.Snapshot, keyspace string, virtual bool) [][][]byte {
	v := newVirtualRows(snap, keyspace, "columns")
	eachTable(snap, virtual, func(t *schema.Table) {
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
	})
	return v.rows
}

func droppedColumnRows(_ context.Context, e *Engine, _ *Session) ([][][]byte, error) {
	snap := e.opts.Catalog.Snapshot()
	v := newVirtualRows(snap, "system_schema", "dropped_columns")
	eachTable(snap, false, func(t *schema.Table) {
		for _, c := range t.Dropped {
			v.next().text("keyspace_name", t.Keyspace).text("table_name", t.Name).text("column_name", c.Name).
				set("dropped_time", timestampValue(c.DroppedAt/1000)).
				text("kind", c.Kind.String()).text("type", c.Type.String())
		}
	})
	return v.rows, nil
}

func typeRows(_ context.Context, e *Engine, _ *Session) ([][][]byte, error) {
	snap := e.opts.Catalog.Snapshot()
	v := newVirtualRows(snap, "system_schema", "types")
	for _, k := range sortedKeyspaces(snap) {
		for _, t := range sortedTypes(k) {
			types := make([]string, len(t.Elems))
			for i, f := range t.Elems {
				types[i] = f.String()
			}
			v.next().text("keyspace_name", k.Name).text("type_name", t.Name).
				set("field_names", textList(t.FieldNames)).set("field_types", textList(types))
		}
	}
	return v.rows, nil
}

func indexRows(_ context.Context, e *Engine, _ *Session) ([][][]byte, error) {
	snap := e.opts.Catalog.Snapshot()
	v := newVirtualRows(snap, "system_schema", "indexes")
	eachTable(snap, false, func(t *schema.Table) {
		for _, x := range t.Indexes {
			v.next().text("keyspace_name", t.Keyspace).text("table_name", t.Name).text("index_name", x.Name).
				text("kind", string(x.Kind)).set("options", textMap(x.Options))
		}
	})
	return v.rows, nil
}
