package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Guardrails are Cassandra 5.0's guardrails that Varve has, by their names in
// cassandra.yaml, and all off by default as there.
type Guardrails struct {
	KeyspacesWarnThreshold                Count `yaml:"keyspaces_warn_threshold"`
	KeyspacesFailThreshold                Count `yaml:"keyspaces_fail_threshold"`
	TablesWarnThreshold                   Count `yaml:"tables_warn_threshold"`
	TablesFailThreshold                   Count `yaml:"tables_fail_threshold"`
	ColumnsPerTableWarnThreshold          Count `yaml:"columns_per_table_warn_threshold"`
	ColumnsPerTableFailThreshold          Count `yaml:"columns_per_table_fail_threshold"`
	SecondaryIndexesPerTableWarnThreshold Count `yaml:"secondary_indexes_per_table_warn_threshold"`
	SecondaryIndexesPerTableFailThreshold Count `yaml:"secondary_indexes_per_table_fail_threshold"`
	FieldsPerUDTWarnThreshold             Count `yaml:"fields_per_udt_warn_threshold"`
	FieldsPerUDTFailThreshold             Count `yaml:"fields_per_udt_fail_threshold"`
	VectorDimensionsWarnThreshold         Count `yaml:"vector_dimensions_warn_threshold"`
	VectorDimensionsFailThreshold         Count `yaml:"vector_dimensions_fail_threshold"`
	PageSizeWarnThreshold                 Count `yaml:"page_size_warn_threshold"`
	PageSizeFailThreshold                 Count `yaml:"page_size_fail_threshold"`
	PartitionKeysInSelectWarnThreshold    Count `yaml:"partition_keys_in_select_warn_threshold"`
	PartitionKeysInSelectFailThreshold    Count `yaml:"partition_keys_in_select_fail_threshold"`
	InSelectCartesianProductWarnThreshold Count `yaml:"in_select_cartesian_product_warn_threshold"`
	InSelectCartesianProductFailThreshold Count `yaml:"in_select_cartesian_product_fail_threshold"`
	ItemsPerCollectionWarnThreshold       Count `yaml:"items_per_collection_warn_threshold"`
	ItemsPerCollectionFailThreshold       Count `yaml:"items_per_collection_fail_threshold"`
	CollectionSizeWarnThreshold           Size  `yaml:"collection_size_warn_threshold"`
	CollectionSizeFailThreshold           Size  `yaml:"collection_size_fail_threshold"`
	ColumnValueSizeWarnThreshold          Size  `yaml:"column_value_size_warn_threshold"`
	ColumnValueSizeFailThreshold          Size  `yaml:"column_value_size_fail_threshold"`
	PartitionSizeWarnThreshold            Size  `yaml:"partition_size_warn_threshold"`
	PartitionSizeFailThreshold            Size  `yaml:"partition_size_fail_threshold"`
	PartitionTombstonesWarnThreshold      Count `yaml:"partition_tombstones_warn_threshold"`
	PartitionTombstonesFailThreshold      Count `yaml:"partition_tombstones_fail_threshold"`

	AllowFilteringEnabled                   bool `yaml:"allow_filtering_enabled"`
	AlterTableEnabled                       bool `yaml:"alter_table_enabled"`
	DropKeyspaceEnabled                     bool `yaml:"drop_keyspace_enabled"`
	DropTruncateTableEnabled                bool `yaml:"drop_truncate_table_enabled"`
	GroupByEnabled                          bool `yaml:"group_by_enabled"`
	NonPartitionRestrictedIndexQueryEnabled bool `yaml:"non_partition_restricted_index_query_enabled"`
	ReadBeforeWriteListOperationsEnabled    bool `yaml:"read_before_write_list_operations_enabled"`
	SecondaryIndexesEnabled                 bool `yaml:"secondary_indexes_enabled"`
	SimpleStrategyEnabled                   bool `yaml:"simplestrategy_enabled"`
	UncompressedTablesEnabled               bool `yaml:"uncompressed_tables_enabled"`
	UserTimestampsEnabled                   bool `yaml:"user_timestamps_enabled"`
	VectorTypeEnabled                       bool `yaml:"vector_type_enabled"`
}

// defaultGuardrails has every threshold off and every feature allowed.
func defaultGuardrails() Guardrails {
	var g Guardrails
	walk(reflect.ValueOf(&g).Elem(), "", func(_ string, v reflect.Value) {
		switch p := v.Addr().Interface().(type) {
		case *Count:
			*p = -1
		case *bool:
			*p = true
		}
	})
	return g
}

// Threshold returns a guardrail's thresholds, counts or bytes; 0 or less is off.
// ok is false for a name that is no guardrail's.
func (g *Guardrails) Threshold(name string) (warn, fail int64, ok bool) {
	walk(reflect.ValueOf(g).Elem(), "", func(key string, v reflect.Value) {
		switch key {
		case name + "_warn_threshold":
			warn, ok = v.Int(), true
		case name + "_fail_threshold":
			fail = v.Int()
		}
	})
	return warn, fail, ok
}

// Allowed says whether a feature may be used; ok is false for a name that is no flag's.
func (g *Guardrails) Allowed(setting string) (allowed, ok bool) {
	walk(reflect.ValueOf(g).Elem(), "", func(key string, v reflect.Value) {
		if key == setting && v.Kind() == reflect.Bool {
			allowed, ok = v.Bool(), true
		}
	})
	return allowed, ok
}

// check refuses warn thresholds that are not under their fail thresholds, in cassandra.yaml's words.
func (g *Guardrails) check(bad func(key, format string, args ...any)) {
	walk(reflect.ValueOf(g).Elem(), "", func(key string, v reflect.Value) {
		name, ok := strings.CutSuffix(key, "_warn_threshold")
		if !ok {
			return
		}
		warn, fail, _ := g.Threshold(name)
		if warn > 0 && fail > 0 && fail < warn {
			_, failText, _ := g.texts(name)
			bad(key, "The warn threshold %v for %s should be lower than the fail threshold %s", v.Interface(), key, failText)
		}
	})
}

// texts are a guardrail's thresholds as they are written.
func (g *Guardrails) texts(name string) (warn, fail string, ok bool) {
	walk(reflect.ValueOf(g).Elem(), "", func(key string, v reflect.Value) {
		switch key {
		case name + "_warn_threshold":
			warn, ok = fmt.Sprint(v.Interface()), true
		case name + "_fail_threshold":
			fail = fmt.Sprint(v.Interface())
		}
	})
	return warn, fail, ok
}

// Count is a threshold: a positive number, or -1 for none.
type Count int64

// setText reads a count.
func (c *Count) setText(s string) error {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 32)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not a whole number up to 2147483647", s)
	case n == 0:
		return fmt.Errorf("0 is not allowed; if attempting to disable use -1")
	case n < -1:
		return fmt.Errorf("negative values are not allowed, outside of -1 which disables the guardrail")
	}
	*c = Count(n)
	return nil
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (c *Count) UnmarshalYAML(n *yaml.Node) error { return setNode(c, n) }

// Size is a threshold in bytes, or null for none.
type Size int64

// setText reads a size; "" and null turn it off.
func (z *Size) setText(s string) error {
	if s = strings.TrimSpace(s); s == "" || s == "null" || s == "~" {
		*z = 0
		return nil
	}
	b, err := ParseBytes(s)
	if err != nil {
		return err
	}
	if b == 0 {
		return fmt.Errorf("0 is not allowed; if attempting to disable use an empty value")
	}
	*z = Size(b)
	return nil
}

// String writes the size as it is set.
func (z Size) String() string {
	if z <= 0 {
		return "null"
	}
	return Bytes(z).String()
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (z *Size) UnmarshalYAML(n *yaml.Node) error { return setNode(z, n) }

// setNode reads a scalar and puts its line before the error.
func setNode(v interface{ setText(string) error }, n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: one value is wanted", n.Line)
	}
	if err := v.setText(n.Value); err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	return nil
}
