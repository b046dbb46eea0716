// Package servertest runs a whole Varve server on a store in memory, for tests
// of what speaks CQL to it.
package servertest

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"varve/internal/exec"
	"varve/internal/schema"
	"varve/internal/server"
	"varve/internal/store"
)

// Start runs a server of one shard until the test ends and returns its
// address.
func Start(t testing.TB) string {
	t.Helper()
	ctx := context.Background()
	var opened atomic.Pointer[schema.Catalog]
	st, err := store.Open(ctx, store.Options{
		DataDirs: []string{"data"}, FS: vfs.NewMem(),
		Tables: func() []*schema.Table {
			c := opened.Load()
			if c == nil {
				return nil
			}
			return c.Snapshot().StoredTables()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := schema.Open(ctx, st)
	if err != nil {
		t.Fatal(err)
	}
	opened.Store(catalog)
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	engine, err := exec.New(exec.Options{Store: st, Catalog: catalog, Node: exec.Node{
		ClusterName: "Test Cluster", Datacenter: "datacenter1", Rack: "rack1", ReleaseVersion: "5.0.9",
		HostID: st.HostID(), Address: netip.MustParseAddrPort(listener.Addr().String()), Tokens: []int64{0},
	}})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(server.Options{Backend: engine, Listen: []server.Listen{{Address: listener.Addr().String(), Listener: listener}}})
	if err != nil {
		t.Fatal(err)
	}
	srv.Serve()
	t.Cleanup(func() {
		ending, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if err := errors.Join(srv.Close(ending), engine.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}
