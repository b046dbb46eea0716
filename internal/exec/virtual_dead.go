package exec

import (
	"context"
	"maps"
	"slices"

	"varve/internal/schema"
)

// deadVirtualTables tell where the dead lie and what reads meet of them.
var deadVirtualTables = []VirtualTable{
	{Keyspace: "varve", Name: "dead_spans", Parts: &virtualParts{perTable: true, keep: storedTable, rows: deadSpanRows}},
	{Keyspace: "varve", Name: "tombstones", Parts: &virtualParts{perTable: true, keep: storedTable, rows: tombstoneRows}},
	{Keyspace: "varve", Name: "large_partitions", Parts: &virtualParts{perTable: true, keep: userTable, rows: largePartitionRows}},
	{Keyspace: "varve", Name: "slow_queries", Rows: slowQueryRows},
}

// maxSpansShown bounds the rows of varve.dead_spans for one table.
const maxSpansShown = 100_000

func deadSpanRows(_ context.Context, e *Engine, v *virtualRows, _ *schema.Keyspace, t *schema.Table) error {
	spans, err := e.opts.Store.Spans(t, nil, maxSpansShown)
	if err != nil {
		return err
	}
	for i := range spans {
		sp := &spans[i]
		key, err := sp.Key.Components(t)
		if err != nil {
			return err
		}
		v.next().text("keyspace_name", t.Keyspace).text("table_name", t.Name).
			text("partition_key", literalsText(t.PartitionKey, key)).
			text("start", literalsText(t.Clustering, sp.Start)).text("end", literalsText(t.Clustering, sp.End)).
			bigint("rows", sp.Rows).bigint("tombstones", sp.Tombstones).boolean("estimated", sp.EstimatedRowCount)
		if sp.NewestDeletion > 0 {
			v.set("newest_deletion", timestampValue(sp.NewestDeletion*1000)).
				set("removable_at", timestampValue(removable(t, sp.NewestDeletion)*1000)).
				text("removed_by", "purge of the span once gc_grace_seconds have passed since its newest deletion")
		} else {
			v.text("removed_by", "purge of the span within seconds: a range or partition deletion covers all of it")
		}
		if sp.LatestExpiry > 0 {
			v.set("latest_expiry", timestampValue(sp.LatestExpiry*1000))
		}
	}
	return nil
}

// removable is when a deletion may go, in seconds.
func removable(t *schema.Table, deleted int64) int64 {
	return deleted + int64(t.Options.GCGraceSeconds)
}

func tombstoneRows(_ context.Context, e *Engine, v *virtualRows, _ *schema.Keyspace, t *schema.Table) error {
	walked := e.walks.of(t.Keyspace, t.Name)
	sums, err := e.spanSums(t)
	if err != nil {
		return err
	}
	row := func(key string) {
		v.next().text("keyspace_name", t.Keyspace).text("table_name", t.Name).text("partition_key", key)
		w, ok := walked[key]
		if !ok {
			v.bigint("walks", 0)
			return
		}
		v.bigint("walks", w.count).bigint("most_walked", w.mostWalk).bigint("most_jumped", w.jumped).
			set("last_walk", timestampValue(w.last.UnixMilli()))
		delete(walked, key)
	}
	for i := range sums {
		s := &sums[i]
		comps, err := s.key.Components(t)
		if err != nil {
			return err
		}
		row(cutText(literalsText(t.PartitionKey, comps), walkKeyMax))
		v.int("spans", s.spans).bigint("dead_rows", s.rows).bigint("covered_rows", s.covered).
			bigint("tombstones", s.tombstones).boolean("estimated", s.estimated)
		if s.newest > 0 {
			v.set("newest_deletion", timestampValue(s.newest*1000)).set("removable_at", timestampValue(removable(t, s.newest)*1000))
		}
		if s.expiry > 0 {
			v.set("latest_expiry", timestampValue(s.expiry*1000))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(walked)) {
		row(key)
		v.int("spans", 0).bigint("dead_rows", 0)
	}
	return nil
}

func largePartitionRows(ctx context.Context, e *Engine, v *virtualRows, _ *schema.Keyspace, t *schema.Table) error {
	least := e.opts.Limits.Guardrails.least(GuardPartitionSize)
	if least <= 0 {
		least = largeByDefault
	}
	large, err := e.opts.Store.LargePartitions(ctx, t, least, largeShown, nil)
	if err != nil {
		return err
	}
	for _, p := range large {
		comps, err := p.Key.Components(t)
		if err != nil {
			return err
		}
		v.next().text("keyspace_name", t.Keyspace).text("table_name", t.Name).
			text("partition_key", literalsText(t.PartitionKey, comps)).bigint("size_bytes", p.Bytes)
	}
	return nil
}
