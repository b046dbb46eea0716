package exec

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/crypto/bcrypt"

	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/schema"
	"varve/internal/store"
)

// newAdminEngine opens an engine on an empty store in memory.
func newAdminEngine(t testing.TB, auth bool) *Engine {
	t.Helper()
	ctx := context.Background()
	clock := newTestClock()
	st, err := store.Open(ctx, store.Options{DataDirs: []string{"data"}, FS: vfs.NewMem(), Clock: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	cat, err := schema.Open(ctx, st)
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(Options{Store: st, Catalog: cat, Clock: clock.Now, Auth: auth, Node: Node{
		ClusterName: "Test Cluster", Datacenter: "datacenter1", Rack: "rack1", ReleaseVersion: "5.0.9",
		HostID: st.HostID(), Address: netip.MustParseAddrPort("127.0.0.1:9042"), Tokens: []int64{-100, 5, 300},
	}})
	if err != nil {
		t.Fatal(err)
	}
	e.passwords.cost = bcrypt.MinCost
	t.Cleanup(func() {
		if err := errors.Join(e.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	return e
}

// TestAdmin runs the files under testdata/admin, whose output is that of a
// real Cassandra 5.0.9 with PasswordAuthenticator and CassandraAuthorizer
// (files without "off" in their name) or without. A directive "as USER" is one
// statement of that user; "login" is a name and a password; "varve" is "as"
// where Varve differs on purpose.
func TestAdmin(t *testing.T) {
	for _, name := range []string{"roles", "grants", "off", "describe", "system", "dropped"} {
		t.Run(name, func(t *testing.T) {
			e := newAdminEngine(t, name == "roles" || name == "grants")
			sessions := map[string]*Session{}
			datadriven.RunTest(t, "testdata/admin/"+name, func(t *testing.T, d *datadriven.TestData) string {
				if d.Cmd == "login" {
					user, password, _ := strings.Cut(d.Input, " ")
					_, err := e.Login(context.Background(), user, password)
					return adminOutcome(nil, err)
				}
				user := ""
				if len(d.CmdArgs) > 0 {
					user = d.CmdArgs[0].Key
				}
				s := sessions[user]
				if s == nil {
					s = &Session{ProtocolVersion: 5, Role: user}
					sessions[user] = s
				}
				return adminOutcome(settled(e.Query(context.Background(), s, d.Input, &Params{Consistency: cqlwire.One})))
			})
		})
	}
}

// adminOutcome shows a result as the golden files do.
func adminOutcome(res *Result, err error) string {
	var refused *cqlwire.Error
	switch {
	case errors.As(err, &refused):
		return fmt.Sprintf("error %04x %s\n", int32(refused.Code), refused.Message)
	case err != nil:
		return "unexpected error: " + err.Error() + "\n"
	case res == nil:
		return "ok\n"
	}
	var b strings.Builder
	for _, w := range res.Warnings {
		b.WriteString("warning: " + w + "\n")
	}
	if res.Kind != cqlwire.ResultRows {
		return b.String() + "ok\n"
	}
	names := make([]string, len(res.Columns))
	for i, c := range res.Columns {
		names[i] = c.Name
	}
	b.WriteString(strings.Join(names, " | ") + "\n")
	data := res.Data
	for range res.Count {
		cells := make([]string, len(res.Columns))
		for i, c := range res.Columns {
			var cell []byte
			cell, data = nextCell(data)
			cells[i] = shownCell(c.Type, cell)
		}
		b.WriteString(strings.Join(cells, " | ") + "\n")
	}
	return b.String()
}

func shownCell(t *cqltype.Type, b []byte) string {
	switch {
	case b == nil:
		return "null"
	case t.Kind == cqltype.KindText:
		return string(b)
	}
	return string(cqltype.FormatLiteral(nil, t, b))
}

// nextCell takes one cell off the front of a result's data.
func nextCell(data []byte) (cell, rest []byte) {
	n := int32(binary.BigEndian.Uint32(data))
	if data = data[4:]; n < 0 {
		return nil, data
	}
	return data[:n:n], data[n:]
}
