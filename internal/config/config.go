package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Config is everything that can be set. Names are cassandra.yaml's where it
// has the same setting.
type Config struct {
	// ClusterName is shown to clients; the default is "Test Cluster".
	ClusterName string `yaml:"cluster_name"`
	// Datacenter and Rack are shown to clients; the defaults are datacenter1 and rack1.
	Datacenter string `yaml:"datacenter"`
	Rack       string `yaml:"rack"`

	// DataDirectories hold the data, one shard each; the default is one, varve-data.
	DataDirectories []string `yaml:"data_directories"`
	// JournalDirectories hold the journals, one for each data directory; by
	// default journals lie with the data.
	JournalDirectories []string `yaml:"journal_directories"`

	// CQL is the address that CQL clients connect to; the default is 127.0.0.1:9042.
	CQL string `yaml:"cql"`
	// HTTP is the address of metrics and health; the default is 127.0.0.1:9180, "" turns it off.
	HTTP string `yaml:"http"`
	// BroadcastAddress is told to clients as this node's address, for containers
	// and for 0.0.0.0; by default it is the CQL address.
	BroadcastAddress string `yaml:"broadcast_address"`

	// Durability is "durable" (a write is answered once it is synced; the
	// default) or "periodic" (answered at once, synced every sync_period, as
	// Cassandra's default: a crash of the machine loses up to that much).
	Durability string `yaml:"durability"`
	// SyncPeriod of periodic durability; the default is 10s.
	SyncPeriod time.Duration `yaml:"sync_period"`

	// Auth is "none" (everyone may do everything, the default) or "password".
	Auth string `yaml:"auth"`

	// CacheSize is the block cache; the default is 256MiB.
	CacheSize Bytes `yaml:"cache_size"`
	// MemtableSize is the size at which a memtable is flushed; the default is 32MiB.
	MemtableSize Bytes `yaml:"memtable_size"`
	// SpanSize bounds the memory that dead spans take; the default is 64MiB.
	SpanSize Bytes `yaml:"span_size"`
	// ReclaimRate bounds how many bytes a second compactions rewrite that are made
	// for dead rows; the default is 32MiB.
	ReclaimRate Bytes `yaml:"reclaim_rate"`
	// CDCTableSpace bounds the change feed of each table with cdc = true; the default is 4GiB.
	CDCTableSpace Bytes `yaml:"cdc_table_space"`
	// CDCBlockWrites refuses writes while a feed is full of what a consumer has
	// not confirmed, true by default as in Cassandra; false drops the oldest.
	CDCBlockWrites bool `yaml:"cdc_block_writes"`
	// MemoryLimit is the size the process tries to stay under (Go's soft
	// memory limit); 0, the default, sets none.
	MemoryLimit Bytes `yaml:"memory_limit"`

	// TombstoneWarnThreshold and TombstoneFailureThreshold are Cassandra's,
	// 1000 and 100000 by default; they count what TombstonesCounted says:
	// "walked" (tombstones a read stepped over, the default) or "all".
	TombstoneWarnThreshold    int64  `yaml:"tombstone_warn_threshold"`
	TombstoneFailureThreshold int64  `yaml:"tombstone_failure_threshold"`
	TombstonesCounted         string `yaml:"tombstones_counted"`

	// BatchSizeWarnThreshold and BatchSizeFailThreshold are 5KiB and 50KiB by default.
	BatchSizeWarnThreshold Bytes `yaml:"batch_size_warn_threshold"`
	BatchSizeFailThreshold Bytes `yaml:"batch_size_fail_threshold"`
	// ReadRequestTimeout, RangeRequestTimeout and WriteRequestTimeout are 5s, 10s and 2s by default.
	ReadRequestTimeout  time.Duration `yaml:"read_request_timeout"`
	RangeRequestTimeout time.Duration `yaml:"range_request_timeout"`
	WriteRequestTimeout time.Duration `yaml:"write_request_timeout"`
	// SlowQueryLogTimeout: statements that take longer are logged; the default is 500ms, 0 turns it off.
	SlowQueryLogTimeout time.Duration `yaml:"slow_query_log_timeout"`

	// NativeTransportMaxConcurrentConnections limits connections; -1, the default, does not.
	NativeTransportMaxConcurrentConnections int64 `yaml:"native_transport_max_concurrent_connections"`
	// NativeTransportMaxConcurrentConnectionsPerIP limits connections of one address; -1 by default.
	NativeTransportMaxConcurrentConnectionsPerIP int64 `yaml:"native_transport_max_concurrent_connections_per_ip"`
	// NativeTransportMaxFrameSize is the longest request; the default is 16MiB.
	NativeTransportMaxFrameSize Bytes `yaml:"native_transport_max_frame_size"`

	// CQLTLS and HTTPTLS turn on TLS where a certificate is given.
	CQLTLS  TLS `yaml:"cql_tls"`
	HTTPTLS TLS `yaml:"http_tls"`

	// Guardrails warn of, or refuse, what hurts later.
	Guardrails `yaml:",inline"`

	// LogLevel is debug, info (the default), warn or error; LogFormat is text (the default) or json.
	LogLevel  string `yaml:"log_level"`
	LogFormat string `yaml:"log_format"`

	// lines are where the file sets what, for errors.
	lines map[string]string
}

// TLS names the files of one listener's TLS; they are read again when they change.
type TLS struct {
	// Certificate and Key are PEM files; both or neither.
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
	// ClientCA, a PEM file, makes the listener ask for client certificates signed by it.
	ClientCA string `yaml:"client_ca"`
	// RequireClientAuth refuses clients without a certificate; false by default.
	RequireClientAuth bool `yaml:"require_client_auth"`
}

// Enabled reports whether TLS is on.
func (t TLS) Enabled() bool { return t.Certificate != "" }

// Default returns the defaults.
func Default() *Config {
	return &Config{
		ClusterName: "Test Cluster", Datacenter: "datacenter1", Rack: "rack1",
		DataDirectories: []string{"varve-data"},
		CQL:             "127.0.0.1:9042", HTTP: "127.0.0.1:9180",
		Durability: "durable", SyncPeriod: 10 * time.Second, Auth: "none",
		CacheSize: 256 << 20, MemtableSize: 32 << 20, SpanSize: 64 << 20, ReclaimRate: 32 << 20, CDCTableSpace: 4 << 30, CDCBlockWrites: true,
		TombstoneWarnThreshold: 1000, TombstoneFailureThreshold: 100_000, TombstonesCounted: "walked",
		BatchSizeWarnThreshold: 5 << 10, BatchSizeFailThreshold: 50 << 10,
		ReadRequestTimeout: 5 * time.Second, RangeRequestTimeout: 10 * time.Second,
		WriteRequestTimeout: 2 * time.Second, SlowQueryLogTimeout: 500 * time.Millisecond,
		NativeTransportMaxConcurrentConnections:      -1,
		NativeTransportMaxConcurrentConnectionsPerIP: -1,
		NativeTransportMaxFrameSize:                  16 << 20,
		Guardrails:                                   defaultGuardrails(),
		LogLevel:                                     "info", LogFormat: "text",
	}
}

// LoadFile reads a YAML file over c. Keys that Config lacks are refused with their line.
func (c *Config) LoadFile(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	return c.LoadYAML(path, text)
}

// LoadYAML reads YAML text over c; name stands for it in errors.
func (c *Config) LoadYAML(name string, text []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(c); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("configuration %s: %w", name, plainYAMLError(err))
	}
	c.noteLines(name, text)
	if err := dec.Decode(new(Config)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("configuration %s: a second YAML document follows; put everything in one", name)
	}
	return nil
}

// noteLines keeps where the file sets each key.
func (c *Config) noteLines(name string, text []byte) {
	var doc yaml.Node
	if yaml.Unmarshal(text, &doc) != nil || len(doc.Content) == 0 {
		return
	}
	if c.lines == nil {
		c.lines = map[string]string{}
	}
	root := doc.Content[0]
	for i := 0; i+1 < len(root.Content); i += 2 {
		c.lines[root.Content[i].Value] = fmt.Sprintf("%s line %d", name, root.Content[i].Line)
	}
}

var unknownKey = regexp.MustCompile(`field (\S+) not found in type \S+`)

// plainYAMLError words the decoder's refusals without Go's types.
func plainYAMLError(err error) error {
	var te *yaml.TypeError
	if !errors.As(err, &te) {
		return err
	}
	lines := make([]string, len(te.Errors))
	for i, e := range te.Errors {
		lines[i] = unknownKey.ReplaceAllString(e, `there is no setting "$1" here`)
	}
	return errors.New(strings.Join(lines, "; "))
}

// Validate checks what can be checked without opening anything.
func (c *Config) Validate() error {
	var errs []error
	bad := func(key, format string, args ...any) {
		if line := c.lines[key]; line != "" {
			key = line + ": " + key
		}
		errs = append(errs, fmt.Errorf("%s: "+format, append([]any{key}, args...)...))
	}
	oneOf := func(key, v string, allowed ...string) {
		for _, a := range allowed {
			if v == a {
				return
			}
		}
		bad(key, "%q is not one of %q", v, allowed)
	}
	if len(c.DataDirectories) == 0 {
		bad("data_directories", "at least one directory is needed")
	}
	if n := len(c.JournalDirectories); n != 0 && n != len(c.DataDirectories) {
		bad("journal_directories", "%d given for %d data directories; give one for each, or none",
			n, len(c.DataDirectories))
	}
	if _, err := netip.ParseAddrPort(c.CQL); err != nil {
		bad("cql", "%q is not an address such as 127.0.0.1:9042", c.CQL)
	}
	if _, err := netip.ParseAddrPort(c.HTTP); err != nil && c.HTTP != "" {
		bad("http", "%q is not an address such as 127.0.0.1:9180", c.HTTP)
	}
	if c.BroadcastAddress != "" {
		if _, err := c.Broadcast(); err != nil {
			bad("broadcast_address", "%v", err)
		}
	}
	oneOf("durability", c.Durability, "durable", "periodic")
	oneOf("auth", c.Auth, "none", "password")
	oneOf("tombstones_counted", c.TombstonesCounted, "walked", "all")
	oneOf("log_level", c.LogLevel, "debug", "info", "warn", "error")
	oneOf("log_format", c.LogFormat, "text", "json")
	c.Guardrails.check(bad)
	for key, n := range map[string]int64{
		"tombstone_warn_threshold": c.TombstoneWarnThreshold, "tombstone_failure_threshold": c.TombstoneFailureThreshold,
	} {
		if n < 0 {
			bad(key, "%d is no count of tombstones; 0 turns it off", n)
		}
	}
	if c.SyncPeriod <= 0 {
		bad("sync_period", "%v must be positive", c.SyncPeriod)
	}
	if c.MemtableSize < 1<<20 {
		bad("memtable_size", "%v is under 1MiB", c.MemtableSize)
	}
	if c.ReclaimRate < 64<<10 {
		bad("reclaim_rate", "%v a second is under 64KiB", c.ReclaimRate)
	}
	if c.CDCTableSpace < 1<<20 {
		bad("cdc_table_space", "%v is under 1MiB", c.CDCTableSpace)
	}
	if c.NativeTransportMaxFrameSize < 1<<10 || c.NativeTransportMaxFrameSize > 256<<20 {
		bad("native_transport_max_frame_size", "%v is not between 1KiB and 256MiB", c.NativeTransportMaxFrameSize)
	}
	for key, t := range map[string]TLS{"cql_tls": c.CQLTLS, "http_tls": c.HTTPTLS} {
		if (t.Certificate == "") != (t.Key == "") {
			bad(key, "certificate and key belong together; one is missing")
		}
		if t.Certificate == "" && (t.ClientCA != "" || t.RequireClientAuth) {
			bad(key, "client_ca and require_client_auth need a certificate and a key")
		}
		if t.RequireClientAuth && t.ClientCA == "" {
			bad(key, "require_client_auth needs client_ca")
		}
	}
	return errors.Join(errs...)
}

// Broadcast is the address and port told to clients.
func (c *Config) Broadcast() (netip.AddrPort, error) {
	listen, err := netip.ParseAddrPort(c.CQL)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("parse cql address: %w", err)
	}
	if c.BroadcastAddress == "" {
		if listen.Addr().IsUnspecified() {
			return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), listen.Port()), nil
		}
		return listen, nil
	}
	if ap, err := netip.ParseAddrPort(c.BroadcastAddress); err == nil {
		return ap, nil
	}
	a, err := netip.ParseAddr(c.BroadcastAddress)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is not an IP address, with or without a port", c.BroadcastAddress)
	}
	return netip.AddrPortFrom(a, listen.Port()), nil
}

// AdminSocket is the path of the Unix socket that admin commands use.
func (c *Config) AdminSocket() string { return filepath.Join(c.DataDirectories[0], "admin.sock") }
