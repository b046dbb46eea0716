package cli

import (
	"log/slog"
	"net"

	"golang.org/x/crypto/bcrypt"

	"varve/internal/config"
	"varve/internal/exec"
	"varve/internal/schema"
	"varve/internal/server"
	"varve/internal/store"
)

func storeOptions(c *config.Config, log *slog.Logger, tables func() []*schema.Table) store.Options {
	o := store.Options{
		DataDirs: c.DataDirectories, JournalDirs: c.JournalDirectories,
		SyncPeriod: c.SyncPeriod, CacheBytes: int64(c.CacheSize), MemtableBytes: int64(c.MemtableSize),
		SpanBytes: int64(c.SpanSize), ReclaimRate: int64(c.ReclaimRate),
		FeedBytes: int64(c.CDCTableSpace), FeedDrop: !c.CDCBlockWrites, Logger: log, Tables: tables,
		EntryStale: exec.EntryIsStale,
	}
	if c.Durability == "periodic" {
		o.Durability = store.Periodic
	}
	return o
}

func serverOptions(c *config.Config, engine *exec.Engine, l net.Listener, log *slog.Logger) server.Options {
	return server.Options{
		Backend: engine, Logger: log, TLS: tlsOptions(c.CQLTLS),
		Listen:              []server.Listen{{Address: c.CQL, Listener: l, TLS: c.CQLTLS.Enabled()}},
		MaxConnections:      int(c.NativeTransportMaxConcurrentConnections),
		MaxConnectionsPerIP: int(c.NativeTransportMaxConcurrentConnectionsPerIP),
		MaxFrameBytes:       int(c.NativeTransportMaxFrameSize),
	}
}

// tlsOptions is nil where TLS is off.
func tlsOptions(t config.TLS) *server.TLSOptions {
	if !t.Enabled() {
		return nil
	}
	return &server.TLSOptions{CertFile: t.Certificate, KeyFile: t.Key, ClientCAFile: t.ClientCA, RequireClientCert: t.RequireClientAuth}
}

// warnDefaults says what an operator should change before others can reach the server.
func warnDefaults(c *config.Config, log *slog.Logger, catalog *schema.Catalog) {
	if c.Auth == "password" {
		r := catalog.Snapshot().Roles["cassandra"]
		if r != nil && r.Superuser && bcrypt.CompareHashAndPassword([]byte(r.SaltedHash), []byte("cassandra")) == nil {
			log.Warn("the superuser cassandra still has its first password; change it with ALTER ROLE, or make another superuser and drop it")
		}
		return
	}
	if host, _, err := net.SplitHostPort(c.CQL); err == nil && !net.ParseIP(host).IsLoopback() {
		log.Warn("everyone who reaches this address may do everything; auth: password asks for a login", "cql", c.CQL)
	}
}
