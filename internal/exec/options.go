package exec

import (
	"log/slog"
	"net/netip"
	"time"

	"varve/internal/schema"
	"varve/internal/store"
)

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
