package exec

import (
	"context"
	"os"
	"runtime"
	"strings"

	"varve/internal/schema"
)

var viewsVirtualTables = []VirtualTable{
	{Keyspace: "system_views", Name: "settings", Rows: settingRows},
	{Keyspace: "system_views", Name: "system_properties", Rows: propertyRows},
	{Keyspace: "system_views", Name: "clients", Rows: clientRows},
	{Keyspace: "system_views", Name: "caches", Rows: cacheRows},
	{Keyspace: "system_views", Name: "disk_usage", Parts: &virtualParts{perTable: true, keep: storedTable, rows: diskUsageRow}},
}

func settingRows(_ context.Context, e *Engine, _ *Session) ([][][]byte, error) {
	v := newVirtualRows(e.opts.Catalog.Snapshot(), "system_views", "settings")
	if e.opts.Settings != nil {
		for _, s := range e.opts.Settings() {
			v.next().text("name", s.Name).text("value", s.Value)
		}
	}
	return v.rows, nil
}

// propertyRows tells of the process what Cassandra tells of its Java machine.
func propertyRows(_ context.Context, e *Engine, _ *Session) ([][][]byte, error) {
	v := newVirtualRows(e.opts.Catalog.Snapshot(), "system_views", "system_properties")
	dir, err := os.Getwd()
	if err != nil {
		dir = ""
	}
	for _, p := range [][2]string{
		{"os.name", runtime.GOOS}, {"os.arch", runtime.GOARCH}, {"user.dir", dir}, {"go.version", runtime.Version()},
	} {
		v.next().text("name", p[0]).text("value", p[1])
	}
	return v.rows, nil
}

func clientRows(_ context.Context, e *Engine, _ *Session) ([][][]byte, error) {
	v := newVirtualRows(e.opts.Catalog.Snapshot(), "system_views", "clients")
	if e.opts.Clients == nil {
		return nil, nil
	}
	for _, c := range e.opts.Clients() {
		user := c.Username
		if user == "" {
			user = "anonymous"
		}
		addr := c.Addr.Addr().Unmap()
		v.next().set("address", inetBytes(addr)).int("port", int32(c.Addr.Port())).
			text("hostname", addr.String()).text("username", user).text("connection_stage", strings.ToLower(c.Stage)).
			int("protocol_version", int32(c.Protocol)).bigint("request_count", c.Requests).
			boolean("ssl_enabled", c.SSL).set("client_options", textMap(c.ClientOptions))
		for column, s := range map[string]string{
			"driver_name": c.DriverName, "driver_version": c.DriverVersion, "keyspace_name": c.Keyspace,
			"ssl_cipher_suite": c.SSLCipher, "ssl_protocol": c.SSLProtocol,
		} {
			if s != "" {
				v.text(column, s)
			}
		}
	}
	return v.rows, nil
}

// cacheRows shows the block cache, the only cache there is. "chunks" is what
// Cassandra calls its cache of file blocks.
func cacheRows(_ context.Context, e *Engine, _ *Session) ([][][]byte, error) {
	m := e.opts.Store.Metrics()
	v := newVirtualRows(e.opts.Catalog.Snapshot(), "system_views", "caches")
	hits, misses := m["block_cache_hits_total"], m["block_cache_misses_total"]
	v.next().text("name", "chunks").bigint("size_bytes", int64(m["block_cache_bytes"])).
		bigint("hit_count", int64(hits)).bigint("request_count", int64(hits+misses))
	if hits+misses > 0 {
		v.double("hit_ratio", hits/(hits+misses))
	}
	return v.rows, nil
}

func diskUsageRow(_ context.Context, e *Engine, v *virtualRows, _ *schema.Keyspace, t *schema.Table) error {
	st, err := e.opts.Store.TableStats(t)
	if err != nil {
		return err
	}
	v.next().text("keyspace_name", t.Keyspace).text("table_name", t.Name).
		bigint("mebibytes", (st.TotalBytes+(1<<20)-1)>>20)
	return nil
}

func eachStored(snap *schema.Snapshot, f func(*schema.Table) error) error {
	for _, k := range sortedKeyspaces(snap) {
		for _, t := range sortedTables(k) {
			if t.Virtual {
				continue
			}
			if err := f(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// literalsText writes key values as CQL, one alone or several in parentheses.
func literalsText(cols []*schema.Column, values [][]byte) string {
	texts := make([]string, 0, len(values))
	for i, b := range values {
		texts = append(texts, literalText(cols[i].Type, b))
	}
	if len(texts) == 1 {
		return texts[0]
	}
	return "(" + strings.Join(texts, ", ") + ")"
}
