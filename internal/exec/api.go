package exec

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"varve/internal/cql"
	"varve/internal/cqlwire"
	"varve/internal/schema"
	"varve/internal/store"
)

var errUnwritten = errors.New("unwritten")

// Options configure an Engine.
type Options struct {
	Store   *store.Store
	Catalog *schema.Catalog
	Logger  *slog.Logger
	Clock   func() time.Time
	Node    Node
	Limits  *Limits // live settings; nil: defaults
	// Auth asks for login and permissions (PasswordAuthenticator and
	// CassandraAuthorizer); without it everyone may do everything.
	Auth bool
	// Clients lists connected clients for system_views.clients; may be nil.
	Clients func() []ClientInfo
	// Settings lists the configuration for system_views.settings; may be nil.
	Settings func() []Setting
}

// Node is how this node presents itself to clients.
type Node struct {
	ClusterName    string // "Test Cluster"
	Datacenter     string // "datacenter1"
	Rack           string // "rack1"
	ReleaseVersion string // "5.0.9"
	HostID         schema.UUID
	Address        netip.AddrPort // told to clients as rpc_address and native_port
	Tokens         []int64        // sorted
}

// Setting is one row of system_views.settings.
type Setting struct{ Name, Value string }

// ClientInfo is one row of system_views.clients.
type ClientInfo struct {
	Addr           netip.AddrPort
	Username       string
	Keyspace       string
	Protocol       int
	Stage          string
	DriverName     string
	DriverVersion  string
	Requests       int64
	SSL            bool
	SSLCipher      string
	SSLProtocol    string
	ClientOptions  map[string]string
	ConnectedSince time.Time
}

// Engine executes statements. All methods may be called concurrently.
type Engine struct{ engineState }

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
}

// Result is a statement's outcome. Kind is a cqlwire.Result… constant.
type Result struct {
	Kind int

	// Rows. Data holds Count rows in wire form: each cell i32 length (-1: null) and bytes.
	Columns     []cqlwire.ColumnSpec
	MetadataID  []byte // v5 result metadata id (16 bytes)
	Count       int
	Data        []byte
	PagingState []byte // nil: no more pages
	// MetadataChanged: the prepared statement's result columns are no longer
	// those that were announced under MetadataID given by the client (v5).

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

	preparedState
}

// BatchItem is one statement of a protocol batch: Text or ID.
type BatchItem struct {
	Text   string
	ID     []byte // prepared; nil for Text
	Values []cqlwire.Value
	Names  []string
}

// New builds an engine and creates what the system keyspaces need.
func New(o Options) (*Engine, error) { panic(errUnwritten) }

// Close waits for background work (traces being written).
func (e *Engine) Close() error { panic(errUnwritten) }

// Query parses and runs one statement.
func (e *Engine) Query(ctx context.Context, s *Session, text string, p *Params) (*Result, error) {
	panic(errUnwritten)
}

// Prepare parses and plans one statement and remembers it.
func (e *Engine) Prepare(ctx context.Context, s *Session, text, keyspace string) (*Prepared, error) {
	panic(errUnwritten)
}

// Lookup finds a prepared statement, planned anew where the schema changed
// since; an Unprepared error when it is unknown.
func (e *Engine) Lookup(ctx context.Context, s *Session, id []byte) (*Prepared, error) {
	panic(errUnwritten)
}

// Execute runs a prepared statement.
func (e *Engine) Execute(ctx context.Context, s *Session, ps *Prepared, p *Params) (*Result, error) {
	panic(errUnwritten)
}

// Batch runs a protocol BATCH.
func (e *Engine) Batch(ctx context.Context, s *Session, kind cql.BatchKind, items []BatchItem, p *Params) (*Result, error) {
	panic(errUnwritten)
}

// Login checks a password and returns the role's name as Session.Role wants it.
func (e *Engine) Login(ctx context.Context, user, password string) (string, error) {
	panic(errUnwritten)
}

// Auth reports whether clients must log in.
func (e *Engine) Auth() bool { panic(errUnwritten) }

// Limits returns the live settings.
func (e *Engine) Limits() *Limits { panic(errUnwritten) }

// Subscribe calls f after each schema change.
func (e *Engine) Subscribe(f func(schema.Event)) { panic(errUnwritten) }
