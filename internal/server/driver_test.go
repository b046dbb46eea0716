package server

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/apache/cassandra-gocql-driver/v2/lz4"
	"github.com/apache/cassandra-gocql-driver/v2/snappy"

	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/exec"
)

// node is a fake that a driver takes for a whole cluster.
type node struct{ *fake }

func (n *node) Query(ctx context.Context, s *exec.Session, text string, p *exec.Params) (*exec.Result, error) {
	switch {
	case strings.HasPrefix(text, "SELECT schema_version FROM system.local"):
		return localRow("schema_version"), nil
	case strings.Contains(text, "system.local"):
		return localRow(""), nil
	case strings.Contains(text, "system."), strings.Contains(text, "system_schema."):
		return &exec.Result{Kind: cqlwire.ResultRows, Columns: localRow("").Columns}, nil
	case strings.HasPrefix(text, "SELECT v"):
		return n.fake.Query(ctx, s, "values", p)
	case strings.HasPrefix(text, "INSERT"):
		return n.fake.Query(ctx, s, "commit", p)
	}
	return n.fake.Query(ctx, s, text, p)
}

func (n *node) Execute(ctx context.Context, s *exec.Session, ps *exec.Prepared, p *exec.Params) (*exec.Result, error) {
	return n.Query(ctx, s, ps.Text, p)
}

// localRow is system.local's row, or one column of it.
func localRow(only string) *exec.Result {
	ip := net.IPv4(127, 0, 0, 1).To4()
	id := bytes.Repeat([]byte{0x11}, 16)
	tokens := cqltype.SetOf(cqltype.Text)
	row := []struct {
		name string
		typ  *cqltype.Type
		cell []byte
	}{
		{"key", cqltype.Text, []byte("local")},
		{"cluster_name", cqltype.Text, []byte("Test Cluster")},
		{"data_center", cqltype.Text, []byte("datacenter1")},
		{"rack", cqltype.Text, []byte("rack1")},
		{"release_version", cqltype.Text, []byte("5.0.9")},
		{"partitioner", cqltype.Text, []byte("org.apache.cassandra.dht.Murmur3Partitioner")},
		{"broadcast_address", cqltype.Inet, ip},
		{"rpc_address", cqltype.Inet, ip},
		{"host_id", cqltype.UUID, id},
		{"schema_version", cqltype.UUID, id},
		{"tokens", tokens, append([]byte{0, 0, 0, 1, 0, 0, 0, 1}, '0')},
	}
	res := &exec.Result{Kind: cqlwire.ResultRows, Count: 1}
	for _, c := range row {
		if only != "" && c.name != only {
			continue
		}
		res.Columns = append(res.Columns, cqlwire.ColumnSpec{Keyspace: "system", Table: "local", Name: c.name, Type: c.typ})
		res.Data = cqlwire.AppendBytes(res.Data, c.cell)
	}
	return res
}

// TestGocql lets a real driver negotiate, log in, prepare and query.
func TestGocql(t *testing.T) {
	f := &node{newFake()}
	f.auth, f.password = true, "secret"
	s := startBackend(t, f, f.wait, nil)
	for _, c := range []struct {
		name       string
		version    int
		compressor gocql.Compressor
	}{
		{"negotiated", 0, nil},
		{"v3", 3, nil},
		{"v4", 4, nil},
		{"v4 snappy", 4, snappy.SnappyCompressor{}},
		{"v4 lz4", 4, lz4.LZ4Compressor{}},
		{"v5", 5, nil},
		{"v5 lz4", 5, lz4.LZ4Compressor{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl := gocql.NewCluster(s.Addrs()[0].String())
			cl.ProtoVersion, cl.Compressor = c.version, c.compressor
			cl.Authenticator = gocql.PasswordAuthenticator{Username: "ann", Password: "secret"}
			cl.DisableInitialHostLookup = true
			cl.Timeout, cl.ConnectTimeout = patience, patience
			db, err := cl.CreateSession()
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			useSession(t, db)
			for _, i := range s.Clients() {
				if i.Username != "ann" || (c.version > 0 && i.Protocol != c.version) || (c.version == 0 && i.Protocol != 5) {
					t.Errorf("%+v", i)
				}
			}
		})
		eventually(t, "closed", func() bool { return s.Metrics.Connections.Load() == 0 })
	}
}

func useSession(t *testing.T, db *gocql.Session) {
	t.Helper()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 20 {
				k := g*1000 + i
				if err := db.Query("INSERT INTO t (k) VALUES (?)", k).Exec(); err != nil {
					t.Error(err)
					return
				}
				var v []byte
				err := db.Query("SELECT v FROM t WHERE k = ?", k).Scan(&v)
				if want := []byte{0, 0, byte(k >> 8), byte(k)}; err != nil || !bytes.Equal(v, want) {
					t.Errorf("got %x, want %x, %v", v, want, err)
					return
				}
			}
		})
	}
	wg.Wait()
	var v []byte
	if err := db.Query("big 400000").Scan(&v); err != nil || len(v) != 400_000 {
		t.Errorf("%d bytes, %v", len(v), err)
	}
	err := db.Query("fail too bad").Exec()
	if err == nil || !strings.Contains(fmt.Sprint(err), "too bad") && !strings.Contains(fmt.Sprint(err), "timed out") {
		t.Errorf("got %v", err)
	}
}
