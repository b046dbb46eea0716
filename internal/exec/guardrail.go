package exec

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"varve/internal/cqlwire"
)

// Guardrail is one of Cassandra 5.0's guardrails with a warn and a fail threshold.
type Guardrail uint8

// The guardrails with thresholds, in the order of their names.
const (
	GuardCollectionSize Guardrail = iota
	GuardColumnValueSize
	GuardColumnsPerTable
	GuardFieldsPerUDT
	GuardInSelectCartesianProduct
	GuardItemsPerCollection
	GuardKeyspaces
	GuardPageSize
	GuardPartitionKeysInSelect
	GuardPartitionSize
	GuardPartitionTombstones
	GuardSecondaryIndexesPerTable
	GuardTables
	GuardVectorDimensions
	guardCount
)

// GuardFlag is one of Cassandra 5.0's guardrails that forbid a feature.
type GuardFlag uint8

// The guardrails that forbid a feature, in the order of their settings' names.
const (
	FlagAllowFiltering GuardFlag = iota
	FlagAlterTable
	FlagDropKeyspace
	FlagDropTruncateTable
	FlagGroupBy
	FlagNonPartitionRestrictedIndexQuery
	FlagReadBeforeWriteListOperations
	FlagSecondaryIndexes
	FlagSimpleStrategy
	FlagUncompressedTables
	FlagUserTimestamps
	FlagVectorType
	flagCount
)

// guardText is a guardrail's name and its words, which are Cassandra's: warn
// and fail are formats of what, value and threshold.
type guardText struct{ name, warn, fail, reason string }

func sameText(name, format, reason string) guardText {
	return guardText{
		name: name, reason: reason,
		warn: strings.Replace(format, "LEVEL", "warning", 1), fail: strings.Replace(format, "LEVEL", "failure", 1),
	}
}

var guardTexts = [guardCount]guardText{
	GuardCollectionSize:  sameText("collection_size", "Detected collection %[1]s of size %[2]d, this exceeds the LEVEL threshold of %[3]d.", ""),
	GuardColumnValueSize: sameText("column_value_size", "Value of column '%[1]s' has size %[2]d, this exceeds the LEVEL threshold of %[3]d.", ""),
	GuardColumnsPerTable: {
		name: "columns_per_table",
		warn: "The table %[1]s has %[2]d columns, this exceeds the warning threshold of %[3]d.",
		fail: "Tables cannot have more than %[3]d columns, but %[2]d provided for table %[1]s",
	},
	GuardFieldsPerUDT: {
		name: "fields_per_udt",
		warn: "The user type %[1]s has %[2]d columns, this exceeds the warning threshold of %[3]d.",
		fail: "User types cannot have more than %[3]d columns, but %[2]d provided for user type %[1]s.",
	},
	GuardInSelectCartesianProduct: {
		name: "in_select_cartesian_product",
		warn: "The cartesian product of the IN restrictions on %[1]s produces %[2]d values, this exceeds warning threshold of %[3]d.",
		fail: "Aborting query because the cartesian product of the IN restrictions on %[1]s produces %[2]d values, " +
			"this exceeds fail threshold of %[3]d.",
	},
	GuardItemsPerCollection: sameText("items_per_collection", "Detected collection %[1]s with %[2]d items, this exceeds the LEVEL threshold of %[3]d.", ""),
	GuardKeyspaces: {
		name: "keyspaces",
		warn: "Creating keyspace %[1]s, current number of keyspaces %[2]d exceeds warning threshold of %[3]d.",
		fail: "Cannot have more than %[3]d keyspaces, aborting the creation of keyspace %[1]s",
	},
	GuardPageSize: {
		name: "page_size",
		warn: "Query for table %[1]s with page size %[2]d exceeds warning threshold of %[3]d.",
		fail: "Aborting query for table %[1]s, page size %[2]d exceeds fail threshold of %[3]d.",
	},
	GuardPartitionKeysInSelect: {
		name: "partition_keys_in_select",
		warn: "Query with partition keys in IN clause on table %[1]s, with number of partition keys %[2]d exceeds warning threshold of %[3]d.",
		fail: "Aborting query with partition keys in IN clause on table %[1]s, number of partition keys %[2]d exceeds fail threshold of %[3]d.",
	},
	GuardPartitionSize: sameText("partition_size", "Partition %[1]s has size %[2]d, this exceeds the LEVEL threshold of %[3]d.",
		"Too large partitions can cause performance problems."),
	GuardPartitionTombstones: sameText("partition_tombstones", "Partition %[1]s has %[2]d tombstones, this exceeds the LEVEL threshold of %[3]d.",
		"Partitions with too many tombstones can cause performance problems."),
	GuardSecondaryIndexesPerTable: {
		name: "secondary_indexes_per_table",
		warn: "Creating secondary index %[1]s, current number of indexes %[2]d exceeds warning threshold of %[3]d.",
		fail: "Tables cannot have more than %[3]d secondary indexes, aborting the creation of secondary index %[1]s",
	},
	GuardTables: {
		name: "tables",
		warn: "Creating table %[1]s, current number of tables %[2]d exceeds warning threshold of %[3]d.",
		fail: "Cannot have more than %[3]d tables, aborting the creation of table %[1]s",
	},
	GuardVectorDimensions: sameText("vector_dimensions", "%[1]s has a vector of %[2]d dimensions, this exceeds the LEVEL threshold of %[3]d.", ""),
}

var flagTexts = [flagCount]struct{ setting, name, feature, reason string }{
	FlagAllowFiltering: {
		"allow_filtering_enabled", "allow_filtering", "Querying with ALLOW FILTERING",
		"ALLOW FILTERING can potentially visit all the data in the table and have unpredictable performance.",
	},
	FlagAlterTable:        {"alter_table_enabled", "alter_table", "ALTER TABLE changing columns", ""},
	FlagDropKeyspace:      {"drop_keyspace_enabled", "drop_keyspace_enabled", "DROP KEYSPACE functionality", ""},
	FlagDropTruncateTable: {"drop_truncate_table_enabled", "drop_truncate_table_enabled", "DROP and TRUNCATE TABLE functionality", ""},
	FlagGroupBy:           {"group_by_enabled", "group_by", "GROUP BY functionality", ""},
	FlagNonPartitionRestrictedIndexQuery: {
		"non_partition_restricted_index_query_enabled", "non_partition_restricted_index_query_enabled", "Non-partition key restricted query",
		"Executing a query on secondary indexes without partition key restriction might degrade performance",
	},
	FlagReadBeforeWriteListOperations: {
		"read_before_write_list_operations_enabled", "read_before_write_list_operations", "List operation requiring read before write", "",
	},
	FlagSecondaryIndexes:   {"secondary_indexes_enabled", "secondary_indexes", "Creating secondary indexes", ""},
	FlagSimpleStrategy:     {"simplestrategy_enabled", "simplestrategy", "SimpleStrategy", ""},
	FlagUncompressedTables: {"uncompressed_tables_enabled", "uncompressed_tables_enabled", "Uncompressed table", ""},
	FlagUserTimestamps:     {"user_timestamps_enabled", "user_timestamps", "User provided timestamps (USING TIMESTAMP)", ""},
	FlagVectorType:         {"vector_type_enabled", "vector_type_enabled", "usage of the vector type", ""},
}

// Name is the guardrail's name; its settings are that with _warn_threshold and _fail_threshold.
func (g Guardrail) Name() string { return guardTexts[g].name }

// Setting is the name of the flag's setting.
func (f GuardFlag) Setting() string { return flagTexts[f].setting }

// AllGuardrails and AllGuardFlags list what there is.
func AllGuardrails() []Guardrail { return upTo(guardCount) }

// AllGuardFlags lists the guardrails that forbid a feature.
func AllGuardFlags() []GuardFlag { return upTo(flagCount) }

func upTo[T ~uint8](n T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = T(i)
	}
	return out
}

// Guardrails are the live thresholds and flags. Without any nothing is looked at.
type Guardrails struct {
	armed     atomic.Bool
	warn      [guardCount]atomic.Int64 // 0 or less: off
	fail      [guardCount]atomic.Int64
	forbidden [flagCount]atomic.Bool

	mu     sync.Mutex
	logged map[string]time.Time // messages by when they were logged last
}

// Set sets a guardrail's thresholds, counts or bytes; 0 or less turns one off.
func (g *Guardrails) Set(which Guardrail, warn, fail int64) {
	g.warn[which].Store(warn)
	g.fail[which].Store(fail)
	g.arm()
}

// Get returns a guardrail's thresholds.
func (g *Guardrails) Get(which Guardrail) (warn, fail int64) {
	return g.warn[which].Load(), g.fail[which].Load()
}

// Allow says whether a feature may be used.
func (g *Guardrails) Allow(f GuardFlag, allowed bool) {
	g.forbidden[f].Store(!allowed)
	g.arm()
}

func (g *Guardrails) arm() {
	on := false
	for i := range g.warn {
		on = on || g.warn[i].Load() > 0 || g.fail[i].Load() > 0
	}
	for i := range g.forbidden {
		on = on || g.forbidden[i].Load()
	}
	g.armed.Store(on)
}

// over says whether a value exceeds a guardrail's thresholds, and which.
func (g *Guardrails) over(which Guardrail, value int64) (threshold int64, failed, warned bool) {
	if t := g.fail[which].Load(); t > 0 && value > t {
		return t, true, false
	}
	if t := g.warn[which].Load(); t > 0 && value > t {
		return t, false, true
	}
	return 0, false, false
}

// message words a violation as Cassandra does.
func (g Guardrail) message(what string, value, threshold int64, failed bool) string {
	t := &guardTexts[g]
	format := t.warn
	if failed {
		format = t.fail
	}
	return decorate(t.name, fmt.Sprintf(format, what, value, threshold), t.reason)
}

// Bytes says that the guardrail's values are sizes.
func (g Guardrail) Bytes() bool {
	return g == GuardCollectionSize || g == GuardColumnValueSize || g == GuardPartitionSize
}

func decorate(name, message, reason string) string {
	text := "Guardrail " + name + " violated: " + message
	if reason == "" {
		return text
	}
	if strings.HasSuffix(message, ".") {
		return text + " " + reason
	}
	return text + ". " + reason
}

// Cassandra logs an equal violation once in ten minutes.
const (
	guardLogPeriod = 10 * time.Minute
	guardLogKept   = 1000
)

// mayLog says whether a message was not logged lately.
func (g *Guardrails) mayLog(message string, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if last, ok := g.logged[message]; ok && now.Sub(last) < guardLogPeriod {
		return false
	}
	if g.logged == nil || len(g.logged) >= guardLogKept {
		g.logged = map[string]time.Time{}
	}
	g.logged[message] = now
	return true
}

// guards says that some guardrail is set.
func (x *execution) guards() bool { return x.e.opts.Limits.Guardrails.armed.Load() }

// guard checks a value: over the fail threshold it is an error, over the other a warning.
func (x *execution) guard(g Guardrail, value int64, what string) error {
	rails := &x.e.opts.Limits.Guardrails
	if !rails.armed.Load() {
		return nil
	}
	threshold, failed, warned := rails.over(g, value)
	if !failed && !warned || x.exempt() {
		return nil
	}
	return x.violated(g.message(what, value, threshold, failed), failed)
}

// ensure refuses a feature that is forbidden; feature "" is the flag's own name for it.
func (x *execution) ensure(f GuardFlag, feature string) error {
	rails := &x.e.opts.Limits.Guardrails
	if !rails.armed.Load() || !rails.forbidden[f].Load() || x.exempt() {
		return nil
	}
	t := &flagTexts[f]
	if feature == "" {
		feature = t.feature
	}
	return x.violated(decorate(t.name, feature+" is not allowed", t.reason), true)
}

// exempt: superusers are, as in Cassandra. Where nobody logs in guardrails hold
// for everyone; Cassandra would then apply none, whatever was set.
func (x *execution) exempt() bool {
	return x.e.opts.Auth && isSuperuser(x.e.opts.Catalog.Snapshot(), x.s.Role, 0)
}

// violated warns the client, the log and the trace, and makes the error of a failure.
func (x *execution) violated(message string, failed bool) error {
	root := x
	if x.root != nil {
		root = x.root
	}
	if !slices.Contains(root.warnings, message) {
		root.warnings = append(root.warnings, message)
	}
	x.trace.Event("%s", message)
	if x.e.opts.Limits.Guardrails.mayLog(message, x.e.opts.Clock()) {
		if failed {
			x.e.opts.Logger.Error(message)
		} else {
			x.e.opts.Logger.Warn(message)
		}
	}
	if failed {
		return &cqlwire.Error{Code: cqlwire.ErrInvalid, Message: message}
	}
	return nil
}
