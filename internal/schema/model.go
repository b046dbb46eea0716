package schema

import (
	"varve/internal/cqltype"
)

// ColumnKind is a column's place in the primary key.
type ColumnKind uint8

// The kinds of column.
const (
	PartitionKey ColumnKind = iota
	Clustering
	Static
	Regular
)

// Column is one column of a table.
type Column struct {
	ID       uint16 // physical id, unique in the table for ever; a column dropped and added again keeps it
	Name     string
	Kind     ColumnKind
	Position int  // among the partition key or clustering columns; 0 otherwise
	Desc     bool // clustering order
	Type     *cqltype.Type
	// DroppedAt is when a column that is there again was dropped, in
	// microseconds; its cells of that time and before are gone. 0: never.
	DroppedAt int64
}

// Drops reports that a cell written at ts went with an earlier drop of the column.
func (c *Column) Drops(ts int64) bool { return c.DroppedAt != 0 && ts <= c.DroppedAt }

// IndexKind tells how an index is asked for.
type IndexKind string

// The kinds of index, as system_schema.indexes names them.
const (
	IndexComposites IndexKind = "COMPOSITES" // CREATE INDEX
	IndexKeys       IndexKind = "KEYS"
	IndexCustom     IndexKind = "CUSTOM" // USING 'sai' and USING 'StorageAttachedIndex'
)

// Index is a local secondary index.
type Index struct {
	Name    string
	PhysID  uint32 // its own physical table id in the store
	Kind    IndexKind
	Column  *Column
	Target  string            // "", "values", "keys", "entries", "full"
	Options map[string]string // as written, "target" and "class_name" included as in system_schema.indexes
	Class   string            // "" or "StorageAttachedIndex"
	// Building: rows written before the index was made may lack entries, so
	// that reads must not use it yet.
	Building bool
}

// IsSAI reports an index made with USING 'sai'.
func (x *Index) IsSAI() bool { return x.Class != "" }

// ValueType is the type of what the index holds of a row: the column's own
// for plain and full targets, an element's, a key's, or (entries) a tuple of
// key and value.
func (x *Index) ValueType() *cqltype.Type {
	t := x.Column.Type
	switch x.Target {
	case "keys":
		return t.Elems[0]
	case "values":
		return t.Elems[len(t.Elems)-1]
	case "entries":
		return cqltype.TupleOf(t.Elems[0], t.Elems[1])
	}
	return t
}

// Table is a table's definition. All slices are in their final order and
// nothing is changed after the table is in a snapshot.
type Table struct {
	ID       UUID
	PhysID   uint32 // prefix of the table's keys in the store; never used twice
	Keyspace string
	Name     string

	PartitionKey []*Column
	Clustering   []*Column
	Static       []*Column // by name
	Regular      []*Column // by name
	Columns      map[string]*Column
	ByID         []*Column // by Column.ID; nil where an id was dropped

	Options TableOptions
	Indexes []*Index        // by name
	Dropped []DroppedColumn // by name, for system_schema.dropped_columns
	Counter bool            // holds counters
	Virtual bool            // answered by the server, not stored
	System  bool            // in a system keyspace
	Comment string          // description of virtual tables
}

// HasDropped reports that rows may hold cells that Gone is true of.
func (t *Table) HasDropped() bool { return len(t.Dropped) > 0 }

// Gone reports that a cell of a column id, written at ts, went with a drop of its column.
func (t *Table) Gone(id uint16, ts int64) bool {
	if int(id) >= len(t.ByID) {
		return false
	}
	c := t.ByID[id]
	return c == nil || c.Drops(ts)
}

// DroppedColumn remembers a column that was dropped.
type DroppedColumn struct {
	ID        uint16
	Name      string
	Kind      ColumnKind
	Type      *cqltype.Type
	DroppedAt int64 // microseconds since the epoch
}

// TableOptions are the options of CREATE TABLE … WITH, as Cassandra 5.0 names
// them. Those without a meaning here are kept and described back. The JSON
// names are part of the catalogue's stored form.
type TableOptions struct {
	AdditionalWritePolicy   string            `json:"additional_write_policy"`
	AllowAutoSnapshot       bool              `json:"allow_auto_snapshot"`
	BloomFilterFPChance     float64           `json:"bloom_filter_fp_chance"`
	Caching                 map[string]string `json:"caching"`
	CDC                     bool              `json:"cdc"`
	Comment                 string            `json:"comment"`
	Compaction              map[string]string `json:"compaction"`
	Compression             map[string]string `json:"compression"`
	CRCCheckChance          float64           `json:"crc_check_chance"`
	DefaultTTL              int32             `json:"default_time_to_live"` // seconds
	Extensions              map[string][]byte `json:"extensions,omitempty"`
	GCGraceSeconds          int32             `json:"gc_grace_seconds"`
	IncrementalBackups      bool              `json:"incremental_backups"`
	MaxIndexInterval        int32             `json:"max_index_interval"`
	MemtableFlushPeriodInMS int32             `json:"memtable_flush_period_in_ms"`
	Memtable                string            `json:"memtable"`
	MinIndexInterval        int32             `json:"min_index_interval"`
	ReadRepair              string            `json:"read_repair"`
	SpeculativeRetry        string            `json:"speculative_retry"`
}

// Keyspace is a keyspace's definition.
type Keyspace struct {
	Name          string
	Replication   map[string]string // with the full class name, as system_schema.keyspaces shows it
	DurableWrites bool
	Tables        map[string]*Table
	Types         map[string]*cqltype.Type // user types, not frozen
	Virtual       bool
	System        bool // cannot be altered or dropped
}

// Role is a role with its grants.
type Role struct {
	Name       string
	Superuser  bool
	Login      bool
	SaltedHash string              // bcrypt, as in system_auth.roles; "" without a password
	MemberOf   []string            // roles granted to this one, sorted
	Grants     map[string][]string // resource name as in Cassandra ("data/ks/table", "roles/x") to permissions, sorted
	Options    map[string]string
}

// Snapshot is one version of everything. It is immutable.
type Snapshot struct {
	Version   UUID // derived from the content of keyspaces, as system.local shows it
	Keyspaces map[string]*Keyspace
	Roles     map[string]*Role
}

// StoredTables returns the tables that the store keeps: all but virtual ones,
// in no order.
func (s *Snapshot) StoredTables() []*Table {
	var out []*Table
	for _, ks := range s.Keyspaces {
		for _, t := range ks.Tables {
			if !t.Virtual {
				out = append(out, t)
			}
		}
	}
	return out
}

// Table looks a table up; nil when there is none.
func (s *Snapshot) Table(keyspace, name string) *Table {
	if ks := s.Keyspaces[keyspace]; ks != nil {
		return ks.Tables[name]
	}
	return nil
}
