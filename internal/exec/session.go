package exec

import (
	"net/netip"

	"varve/internal/cqlwire"
	"varve/internal/schema"
	"varve/internal/store"
)

// Session is the state of one connection that statements depend on. It is
// owned by its connection; USE changes Keyspace.
type Session struct {
	Keyspace        string
	Role            string // "" before login and where Auth is off (then "anonymous" is shown)
	ProtocolVersion int
	Client          netip.AddrPort
}

// Params are a request's query parameters.
type Params struct {
	Consistency       cqlwire.Consistency
	SerialConsistency cqlwire.Consistency // 0: SERIAL
	Values            []cqlwire.Value
	Names             []string // parallel to Values when values are named
	PageSize          int      // 0 or negative: no paging
	PagingState       []byte
	Timestamp         int64 // default timestamp in microseconds, when HasTimestamp
	HasTimestamp      bool
	NowSec            int64 // when HasNow
	HasNow            bool
	Keyspace          string // v5: overrides the session's
	Tracing           bool
	// Move is the request's varve-move token: a table's fence may let it pass, and change feeds tell it.
	Move string
}

// Result is a statement's outcome. Kind is a cqlwire.Result… constant.
type Result struct {
	Kind int

	// Rows. Data holds Count rows in wire form: each cell i32 length (-1: null) and bytes.
	Columns     []cqlwire.ColumnSpec
	MetadataID  []byte // v5 result metadata id (16 bytes) of an EXECUTE; nil: the columns depend on the outcome
	Count       int
	Data        []byte
	PagingState []byte // nil: no more pages

	Keyspace string // SetKeyspace

	Change *schema.Event // SchemaChange

	Warnings []string
	TraceID  *schema.UUID

	// Commit, when not nil, must be waited for before the result is sent:
	// the write is not durable before.
	Commit *store.Commit

	// Release gives Data back for reuse; the server calls it after encoding. May be nil.
	Release func()
}

// Prepared is a prepared statement. It is immutable and shared.
type Prepared struct {
	ID               []byte // md5 of keyspace and text, as in Cassandra
	Text             string
	Keyspace         string
	Variables        []cqlwire.ColumnSpec
	PartitionKeyIdx  []int // indexes of Variables that make up the partition key; empty when they do not cover it
	ResultColumns    []cqlwire.ColumnSpec
	ResultMetadataID []byte
	// Warnings are sent with the answer to PREPARE.
	Warnings []string
	// ColumnsChanged: the statement was prepared before with other columns.
	// A client before version 5 may still take its results for those, because
	// another client's PREPARE made the id valid again.
	ColumnsChanged bool

	preparedState
}

// BatchItem is one statement of a protocol batch: Text or ID.
type BatchItem struct {
	Text   string
	ID     []byte // prepared; nil for Text
	Values []cqlwire.Value
	Names  []string
}
