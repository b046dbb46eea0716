package schema

import (
	"cmp"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"

	"varve/internal/cqltype"
)

// quoteText writes a text constant.
func quoteText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// mapText writes a map of options with its keys sorted.
func mapText(m map[string]string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, key := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quoteText(key) + ": " + quoteText(m[key]))
	}
	b.WriteByte('}')
	return b.String()
}

// ReplicationText writes replication options as DESCRIBE does: class first
// and, for Cassandra's own strategies, without its package.
func ReplicationText(m map[string]string) string {
	b := "{'class': " + quoteText(strings.TrimPrefix(m["class"], strategyPackage))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if key != "class" {
			b += ", " + quoteText(key) + ": " + quoteText(m[key])
		}
	}
	return b + "}"
}

// DescribeKeyspace returns the CREATE KEYSPACE statement alone.
func DescribeKeyspace(k *Keyspace) string {
	name := cqltype.MaybeQuote(k.Name)
	if k.Virtual {
		return "/*\nWarning: Keyspace " + name + " is a virtual keyspace and cannot be recreated with CQL.\n" +
			"Structure, for reference:\nVIRTUAL KEYSPACE " + name + ";\n*/"
	}
	return "CREATE KEYSPACE " + name + " WITH replication = " + ReplicationText(k.Replication) +
		"  AND durable_writes = " + strconv.FormatBool(k.DurableWrites) + ";"
}

// DescribeType returns CREATE TYPE.
func DescribeType(t *cqltype.Type) string {
	var b strings.Builder
	b.WriteString("CREATE TYPE " + cqltype.MaybeQuote(t.Keyspace) + "." + cqltype.MaybeQuote(t.Name) + " (\n")
	for i, f := range t.FieldNames {
		if i > 0 {
			b.WriteString(",\n")
		}
		b.WriteString("    " + cqltype.MaybeQuote(f) + " " + t.Elems[i].String())
	}
	b.WriteString("\n);")
	return b.String()
}

// DescribeIndex returns CREATE INDEX.
func DescribeIndex(t *Table, x *Index) string {
	var b strings.Builder
	b.WriteString("CREATE ")
	if x.Kind == IndexCustom {
		b.WriteString("CUSTOM ")
	}
	b.WriteString("INDEX " + cqltype.MaybeQuote(x.Name) + " ON " + t.quotedName() + " (" + x.Options["target"] + ")")
	if x.Kind != IndexCustom {
		b.WriteByte(';')
		return b.String()
	}
	b.WriteString(" USING " + quoteText(x.Options["class_name"]))
	options := maps.Clone(x.Options)
	delete(options, "target")
	delete(options, "class_name")
	if len(options) > 0 {
		b.WriteString(" WITH OPTIONS = " + mapText(options))
	}
	b.WriteByte(';')
	return b.String()
}

func (t *Table) quotedName() string {
	return cqltype.MaybeQuote(t.Keyspace) + "." + cqltype.MaybeQuote(t.Name)
}

// DescribeTable returns the CREATE TABLE statement (indexes follow it, each on
// its own), as Cassandra's DESCRIBE does. internals adds the table's id and
// the statements that recreate dropped columns.
func DescribeTable(t *Table, internals bool) string {
	var b strings.Builder
	if t.ClientVirtual() {
		b.WriteString("/*\nWarning: Table " + t.quotedName() + " is a virtual table and cannot be recreated with CQL.\n" +
			"Structure, for reference:\nVIRTUAL TABLE ")
	} else {
		b.WriteString("CREATE TABLE ")
	}
	b.WriteString(t.quotedName() + " (\n")
	t.writeColumns(&b, internals)
	b.WriteString("\n) WITH ")
	if internals {
		b.WriteString("ID = " + t.ID.String() + "\n    AND ")
	}
	if len(t.Clustering) > 0 {
		b.WriteString("CLUSTERING ORDER BY (")
		for i, c := range t.Clustering {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(cqltype.MaybeQuote(c.Name) + orderText(c.Desc))
		}
		b.WriteString(")\n    AND ")
	}
	if t.ClientVirtual() {
		b.WriteString("comment = " + quoteText(t.Comment) + ";\n*/")
	} else {
		t.Options.write(&b)
		b.WriteByte(';')
	}
	if internals {
		t.writeDropped(&b)
	}
	return b.String()
}

// ClientVirtual reports a table of a keyspace that clients see as virtual;
// Table.Virtual is about where our rows come from.
func (t *Table) ClientVirtual() bool { return virtualKeyspaces[t.Keyspace] }

func orderText(desc bool) string {
	if desc {
		return " DESC"
	}
	return " ASC"
}

func (t *Table) writeColumns(b *strings.Builder, internals bool) {
	cols := t.columnsInOrder()
	dropped := t.droppedInOrder()
	if internals {
		// A column that was dropped and added again is shown as it was, and
		// dropped and added by the statements that follow.
		cols = slices.DeleteFunc(cols, func(c *Column) bool {
			return slices.ContainsFunc(dropped, func(d DroppedColumn) bool { return d.Name == c.Name })
		})
	}
	single := len(t.PartitionKey) == 1 && len(t.Clustering) == 0
	lines := make([]string, 0, len(cols)+2)
	for _, c := range cols {
		line := "    " + cqltype.MaybeQuote(c.Name) + " " + c.Type.String()
		if c.Kind == Static {
			line += " static"
		}
		if single && c.Kind == PartitionKey {
			line += " PRIMARY KEY"
		}
		lines = append(lines, line)
	}
	if internals {
		for _, c := range dropped {
			line := "    " + cqltype.MaybeQuote(c.Name) + " " + c.Type.String()
			if c.Kind == Static {
				line += " static"
			}
			lines = append(lines, line)
		}
	}
	if !single {
		lines = append(lines, "    PRIMARY KEY ("+t.keyText()+")")
	}
	b.WriteString(strings.Join(lines, ",\n"))
}

// droppedInOrder lists dropped columns in the order in which they were dropped.
func (t *Table) droppedInOrder() []DroppedColumn {
	return slices.SortedStableFunc(slices.Values(t.Dropped), func(a, b DroppedColumn) int {
		return cmp.Compare(a.DroppedAt, b.DroppedAt)
	})
}

func (t *Table) keyText() string {
	names := func(cols []*Column) string {
		out := make([]string, len(cols))
		for i, c := range cols {
			out[i] = cqltype.MaybeQuote(c.Name)
		}
		return strings.Join(out, ", ")
	}
	key := names(t.PartitionKey)
	if len(t.PartitionKey) > 1 {
		key = "(" + key + ")"
	}
	if len(t.Clustering) > 0 {
		key += ", " + names(t.Clustering)
	}
	return key
}

// writeDropped writes the statements that make the table know its dropped columns again.
func (t *Table) writeDropped(b *strings.Builder) {
	for _, c := range t.droppedInOrder() {
		b.WriteString("\nALTER TABLE " + t.quotedName() + " DROP " + cqltype.MaybeQuote(c.Name) +
			" USING TIMESTAMP " + strconv.FormatInt(c.DroppedAt, 10) + ";")
		if again := t.Columns[c.Name]; again != nil {
			b.WriteString("\nALTER TABLE " + t.quotedName() + " ADD " + cqltype.MaybeQuote(c.Name) + " " + again.Type.String())
			if again.Kind == Static {
				b.WriteString(" static")
			}
			b.WriteByte(';')
		}
	}
}

func (o *TableOptions) write(b *strings.Builder) {
	extensions := make(map[string]string, len(o.Extensions))
	for k, v := range o.Extensions {
		extensions[k] = "0x" + hex.EncodeToString(v)
	}
	extText := "{"
	for i, k := range slices.Sorted(maps.Keys(extensions)) {
		if i > 0 {
			extText += ", "
		}
		extText += quoteText(k) + ": " + extensions[k]
	}
	extText += "}"
	number := func(n int32) string { return strconv.FormatInt(int64(n), 10) }
	b.WriteString(strings.Join([]string{
		"additional_write_policy = " + quoteText(o.AdditionalWritePolicy),
		"allow_auto_snapshot = " + strconv.FormatBool(o.AllowAutoSnapshot),
		"bloom_filter_fp_chance = " + formatDouble(o.BloomFilterFPChance),
		"caching = " + mapText(o.Caching),
		"cdc = " + strconv.FormatBool(o.CDC),
		"comment = " + quoteText(o.Comment),
		"compaction = " + mapText(o.Compaction),
		"compression = " + mapText(o.Compression),
		"memtable = " + quoteText(o.Memtable),
		"crc_check_chance = " + formatDouble(o.CRCCheckChance),
		"default_time_to_live = " + number(o.DefaultTTL),
		"extensions = " + extText,
		"gc_grace_seconds = " + number(o.GCGraceSeconds),
		"incremental_backups = " + strconv.FormatBool(o.IncrementalBackups),
		"max_index_interval = " + number(o.MaxIndexInterval),
		"memtable_flush_period_in_ms = " + number(o.MemtableFlushPeriodInMS),
		"min_index_interval = " + number(o.MinIndexInterval),
		"read_repair = " + quoteText(o.ReadRepair),
		"speculative_retry = " + quoteText(o.SpeculativeRetry),
	}, "\n    AND "))
}
