package exec

import (
	"context"
	"time"

	"varve/internal/schema"
	"varve/internal/store"
)

// metricVirtualTables are Cassandra's tables of figures by table, as far as the
// figures exist. They count since the start, where Cassandra forgets slowly.
var metricVirtualTables = []VirtualTable{
	metricTable("local_read_latency", func(d *store.TableDistributions) *store.Distribution { return &d.ReadLatency }, true),
	metricTable("local_write_latency", func(d *store.TableDistributions) *store.Distribution { return &d.WriteLatency }, true),
	metricTable("tombstones_per_read", func(d *store.TableDistributions) *store.Distribution { return &d.Walked }, false),
	metricTable("rows_per_read", func(d *store.TableDistributions) *store.Distribution { return &d.Rows }, false),
	{Keyspace: "system_views", Name: "max_partition_size", Parts: &virtualParts{perTable: true, keep: storedTable, rows: maxPartitionRow}},
}

func metricTable(name string, of func(*store.TableDistributions) *store.Distribution, latency bool) VirtualTable {
	rows := func(_ context.Context, e *Engine, v *virtualRows, _ *schema.Keyspace, t *schema.Table) error {
		all := e.opts.Store.TableDistributions(t)
		d := of(&all)
		unit, suffix := 1.0, ""
		if latency {
			unit, suffix = float64(time.Millisecond), "_ms"
		}
		v.next().text("keyspace_name", t.Keyspace).text("table_name", t.Name).bigint("count", d.Count).
			double("max"+suffix, float64(d.Max)/unit).double("p50th"+suffix, float64(d.P50)/unit).double("p99th"+suffix, float64(d.P99)/unit)
		if latency {
			v.double("per_second", float64(d.Count)/max(1, time.Since(e.begun).Seconds()))
		}
		return nil
	}
	return VirtualTable{Keyspace: "system_views", Name: name, Parts: &virtualParts{perTable: true, keep: storedTable, rows: rows}}
}

// maxPartitionRow shows a table's largest partition, 0 below a mebibyte.
func maxPartitionRow(ctx context.Context, e *Engine, v *virtualRows, _ *schema.Keyspace, t *schema.Table) error {
	large, err := e.opts.Store.LargePartitions(ctx, t, 1<<20, 1, nil)
	if err != nil {
		return err
	}
	size := int64(0)
	if len(large) > 0 {
		size = large[0].Bytes
	}
	v.next().text("keyspace_name", t.Keyspace).text("table_name", t.Name).bigint("mebibytes", size>>20)
	return nil
}
