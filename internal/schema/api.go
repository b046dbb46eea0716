package schema

import (
	"context"
	"errors"

	"varve/internal/cql"
	"varve/internal/cqltype"
)

var errUnwritten = errors.New("unwritten")

// Record is one persisted object of the catalogue.
type Record struct {
	Key   string // "ks/<name>", "table/<ks>/<name>", "type/…", "role/<name>", "ids"
	Value []byte // nil deletes
}

// Storage keeps the catalogue's records; the store implements it. Save
// returns once all records are durable, together or not at all.
type Storage interface {
	LoadRecords(ctx context.Context) ([]Record, error)
	SaveRecords(ctx context.Context, records []Record) error
}

// Event is a schema change as drivers are told of it.
type Event struct {
	Change   string // CREATED, UPDATED, DROPPED
	Target   string // KEYSPACE, TABLE, TYPE
	Keyspace string
	Name     string // "" for KEYSPACE
}

// Result tells what a DDL statement did.
type Result struct {
	Event    *Event // nil when nothing changed (IF NOT EXISTS)
	Warnings []string
	// Dropped and Truncated list tables and indexes whose data the caller
	// removes from the store once the change is durable; Built lists indexes
	// to be filled from existing rows.
	Dropped        []*Table
	DroppedIndexes []*Index
	Built          []*Index
	BuiltTable     *Table
}

// Catalog owns the current snapshot.
type Catalog struct {
	// unexported; see catalog.go
	catalogState
}

type catalogState struct{}

// Open loads the catalogue (an empty store gets the system keyspaces and the
// default superuser) and publishes its first snapshot.
func Open(ctx context.Context, st Storage) (*Catalog, error) { panic(errUnwritten) }

// Snapshot returns the current snapshot; never nil.
func (c *Catalog) Snapshot() *Snapshot { panic(errUnwritten) }

// Subscribe calls f after each change, in order, with the new snapshot in place.
func (c *Catalog) Subscribe(f func(Event)) { panic(errUnwritten) }

// Apply carries out one DDL statement (keyspace, table, type, index) in the
// given session keyspace. Errors are *Error with the protocol's code and Cassandra's text.
func (c *Catalog) Apply(ctx context.Context, sessionKeyspace string, st cql.Statement) (*Result, error) {
	panic(errUnwritten)
}

// ResolveType turns a written type into a Type, looking user types up in ks.
func (s *Snapshot) ResolveType(ks string, ref cql.TypeRef) (*cqltype.Type, error) {
	panic(errUnwritten)
}

// ErrorKind is the protocol error a schema error becomes.
type ErrorKind uint8

// The kinds of schema error.
const (
	Invalid       ErrorKind = iota // 0x2200
	ConfigError                    // 0x2300
	AlreadyExists                  // 0x2400
	Unauthorized                   // 0x2100
	Syntax                         // 0x2000
)

// Error is a refused schema change, with the text Cassandra gives.
type Error struct {
	Kind            ErrorKind
	Msg             string
	Keyspace, Table string // AlreadyExists
}

// Error implements error.
func (e *Error) Error() string { return e.Msg }

// DescribeTable returns the CREATE TABLE statement (indexes follow it, each on
// its own), as Cassandra's DESCRIBE does.
func DescribeTable(t *Table, internals bool) string { panic(errUnwritten) }

// DescribeKeyspace returns the CREATE KEYSPACE statement alone.
func DescribeKeyspace(k *Keyspace) string { panic(errUnwritten) }

// DescribeType returns CREATE TYPE.
func DescribeType(t *cqltype.Type) string { panic(errUnwritten) }

// DescribeIndex returns CREATE INDEX.
func DescribeIndex(t *Table, x *Index) string { panic(errUnwritten) }
