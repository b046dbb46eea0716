package exec

import (
	"context"
	"encoding/binary"
	"slices"
	"strconv"

	"varve/internal/cqltype"
	"varve/internal/schema"
)

// What system.local tells beside the node's own description.
const (
	cqlVersion      = "3.4.7"
	protocolVersion = "5"
	partitioner     = "org.apache.cassandra.dht.Murmur3Partitioner"
	storagePort     = 7000
)

var systemVirtualTables = []VirtualTable{
	{Keyspace: "system", Name: "local", Rows: localRows},
	{Keyspace: "system", Name: "size_estimates", Parts: &virtualParts{perTable: true, keep: userTable, rows: sizeEstimates}},
	{Keyspace: "system", Name: "table_estimates", Parts: &virtualParts{perTable: true, keep: userTable, rows: tableEstimates}},
	{Keyspace: "system", Name: "IndexInfo", Rows: indexInfoRows},
	{Keyspace: "system", Name: "prepared_statements", Rows: preparedRows},
}

func localRows(_ context.Context, e *Engine, _ *Session) ([][][]byte, error) {
	snap, node := e.opts.Catalog.Snapshot(), &e.opts.Node
	v := newVirtualRows(snap, "system", "local").next()
	tokens := make([]string, len(node.Tokens))
	for i, t := range node.Tokens {
		tokens[i] = strconv.FormatInt(t, 10)
	}
	addr := inetBytes(node.Address.Addr())
	v.text("key", "local").text("bootstrapped", "COMPLETED").
		text("cluster_name", node.ClusterName).text("cql_version", cqlVersion).
		text("data_center", node.Datacenter).text("rack", node.Rack).
		text("release_version", node.ReleaseVersion).text("native_protocol_version", protocolVersion).
		text("partitioner", partitioner).
		set("broadcast_address", addr).int("broadcast_port", storagePort).
		set("listen_address", addr).int("listen_port", storagePort).
		set("rpc_address", addr).int("rpc_port", int32(node.Address.Port())).
		uuid("host_id", node.HostID).uuid("schema_version", snap.Version).
		int("gossip_generation", int32(e.started.Unix())).
		set("tokens", textSet(tokens))
	return v.rows, nil
}

// tokenRanges are the ranges that the node's tokens cut the ring into, each
// exclusive at its start and inclusive at its end.
func tokenRanges(tokens []int64) [][2]int64 {
	ranges := make([][2]int64, 0, len(tokens)+1)
	for i, t := range tokens {
		from := tokens[len(tokens)-1]
		if i > 0 {
			from = tokens[i-1]
		}
		ranges = append(ranges, [2]int64{from, t})
	}
	return ranges
}

// minToken stands for both ends of the ring in estimates.
const minToken = -1 << 63

// estimateRanges are tokenRanges without one that wraps: clients such as Spark
// read estimates as plain intervals.
func estimateRanges(tokens []int64) (ranges [][2]int64, share []float64) {
	if len(tokens) == 0 {
		return [][2]int64{{minToken, minToken}}, []float64{1}
	}
	last, first := tokens[len(tokens)-1], tokens[0]
	ranges = append(ranges, tokenRanges(tokens)[1:]...)
	ranges = append(ranges, [2]int64{last, minToken}, [2]int64{minToken, first})
	for _, r := range ranges {
		// Unsigned difference is right across the whole ring, its ends included.
		share = append(share, float64(uint64(r[1])-uint64(r[0]))/(1<<64))
	}
	return ranges, share
}

func userTable(_ *schema.Keyspace, t *schema.Table) bool { return !t.Virtual && !t.System }

func eachEstimate(e *Engine, t *schema.Table, f func(r [2]int64, meanSize, partitions int64)) error {
	st, err := e.opts.Store.TableStats(t)
	if err != nil {
		return err
	}
	mean := int64(0)
	if st.Partitions > 0 {
		mean = st.TotalBytes / st.Partitions
	}
	ranges, share := estimateRanges(e.opts.Node.Tokens)
	for i, r := range ranges {
		f(r, mean, int64(float64(st.Partitions)*share[i]))
	}
	return nil
}

func sizeEstimates(_ context.Context, e *Engine, v *virtualRows, _ *schema.Keyspace, t *schema.Table) error {
	return eachEstimate(e, t, func(r [2]int64, mean, partitions int64) {
		v.next().text("keyspace_name", t.Keyspace).text("table_name", t.Name).
			text("range_start", strconv.FormatInt(r[0], 10)).text("range_end", strconv.FormatInt(r[1], 10)).
			bigint("mean_partition_size", mean).bigint("partitions_count", partitions)
	})
}

func tableEstimates(_ context.Context, e *Engine, v *virtualRows, _ *schema.Keyspace, t *schema.Table) error {
	return eachEstimate(e, t, func(r [2]int64, mean, partitions int64) {
		// One node is primary for the whole ring, so both kinds are alike.
		for _, kind := range []string{"local_primary", "primary"} {
			v.next().text("keyspace_name", t.Keyspace).text("table_name", t.Name).text("range_type", kind).
				text("range_start", strconv.FormatInt(r[0], 10)).text("range_end", strconv.FormatInt(r[1], 10)).
				bigint("mean_partition_size", mean).bigint("partitions_count", partitions)
		}
	})
}

// indexInfoRows lists built indexes; table_name holds the keyspace, as in Cassandra.
func indexInfoRows(_ context.Context, e *Engine, _ *Session) ([][][]byte, error) {
	snap := e.opts.Catalog.Snapshot()
	v := newVirtualRows(snap, "system", "IndexInfo")
	for _, k := range sortedKeyspaces(snap) {
		for _, t := range sortedTables(k) {
			for _, x := range t.Indexes {
				if !x.Building {
					v.next().text("table_name", k.Name).text("index_name", x.Name)
				}
			}
		}
	}
	return v.rows, nil
}

func preparedRows(_ context.Context, e *Engine, _ *Session) ([][][]byte, error) {
	v := newVirtualRows(e.opts.Catalog.Snapshot(), "system", "prepared_statements")
	e.cache.each(func(ps *Prepared) {
		v.next().set("prepared_id", slices.Clone(ps.ID)).text("query_string", ps.Text)
		if ps.Keyspace != "" {
			v.text("logged_keyspace", ps.Keyspace)
		}
	})
	return v.rows, nil
}

func timestampValue(millis int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(millis)) }

// literalText is a value as CQL text, for tables that show keys.
func literalText(t *cqltype.Type, b []byte) string {
	return string(cqltype.FormatLiteral(nil, t, b))
}
