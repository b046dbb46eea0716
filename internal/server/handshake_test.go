package server

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"varve/internal/cqlwire"
)

func TestOptions(t *testing.T) {
	s := start(t, newFake(), nil)
	for _, v := range []cqlwire.Version{cqlwire.V3, cqlwire.V4, cqlwire.V5} {
		c := dial(t, s)
		c.v = v
		check := func() {
			t.Helper()
			c.send(cqlwire.OpOptions, 12, 0, nil)
			r := c.recv()
			var m cqlwire.Supported
			if err := m.Decode(r.body); err != nil {
				t.Fatal(err)
			}
			want := map[string][]string{
				"CQL_VERSION": {"3.4.7"}, "COMPRESSION": {"snappy", "lz4"}, "PROTOCOL_VERSIONS": {"3/v3", "4/v4", "5/v5"},
			}
			if d := cmp.Diff(want, m.Options); d != "" || r.Stream != 12 || r.Version != v {
				t.Errorf("%+v: %s", r.Header, d)
			}
		}
		check()
		c.startup()
		check()
	}
}

// TestVersionNegotiation: a version that is not spoken is refused in one that is.
func TestVersionNegotiation(t *testing.T) {
	s := start(t, newFake(), nil)
	const supported = "supported versions are (3/v3, 4/v4, 5/v5)"
	for _, v := range []cqlwire.Version{6, 66, 127} {
		c := dial(t, s)
		c.v = v
		c.send(cqlwire.OpOptions, 3, cqlwire.FlagBeta, nil)
		r := c.recv()
		c.wantError(r, cqlwire.ErrProtocol, fmt.Sprintf("Invalid or unsupported protocol version (%d); %s", v, supported))
		if r.Version != cqlwire.V5 || r.Stream != 3 {
			t.Errorf("%+v", r.Header)
		}
		c.wantClosed()
	}
	for _, v := range []byte{1, 2} {
		c := dial(t, s)
		c.write([]byte{v, 0, 9, byte(cqlwire.OpOptions), 0, 0, 0, 0})
		b := make([]byte, 200)
		_ = c.nc.SetReadDeadline(time.Now().Add(patience))
		n, err := c.nc.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		if b[0] != v|0x80 || b[2] != 9 || b[3] != byte(cqlwire.OpError) {
			t.Errorf("header % x", b[:8])
		}
		var e cqlwire.Error
		want := fmt.Sprintf("Invalid or unsupported protocol version (%d); %s", v, supported)
		if err := e.Decode(cqlwire.V3, b[8:n]); err != nil || e.Message != want {
			t.Errorf("%v %q", err, e.Message)
		}
		c.wantClosed()
	}
	c := dial(t, s)
	c.write([]byte("GET / HTTP/1.1\r\n\r\n"))
	c.wantError(c.recv(), cqlwire.ErrProtocol, "Invalid or unsupported protocol version (71); "+supported)
	c.wantClosed()
}

func TestStartupRefusals(t *testing.T) {
	s := start(t, newFake(), nil)
	for _, c := range []struct {
		v       cqlwire.Version
		options map[string]string
		want    string
	}{
		{4, map[string]string{}, "Missing value CQL_VERSION in STARTUP message"},
		{
			4,
			map[string]string{"CQL_VERSION": "2.0.0"},
			"CQL version 2.0.0 is not supported by the binary protocol (supported version are >= 3.0.0)",
		},
		{4, map[string]string{"CQL_VERSION": "abc"}, "Invalid version value: abc"},
		{4, map[string]string{"CQL_VERSION": "3.0.0", "COMPRESSION": "ZIP"}, "Unknown compression algorithm: zip"},
		{
			5,
			map[string]string{"CQL_VERSION": "3.0.0", "COMPRESSION": "snappy"},
			"Snappy compression is not supported in protocol V5",
		},
	} {
		d := dial(t, s)
		d.v = c.v
		d.send(cqlwire.OpStartup, 2, 0, (&cqlwire.Startup{Options: c.options}).Append(nil))
		d.wantError(d.recv(), cqlwire.ErrProtocol, c.want)
		d.startup() // another try is allowed
		d.ask("void")
	}
	d := dial(t, s)
	d.send(cqlwire.OpStartup, 2, 0, (&cqlwire.Startup{Options: map[string]string{"cql_version": "3.4.7"}}).Append(nil))
	if r := d.recv(); r.Opcode != cqlwire.OpReady {
		t.Errorf("lower case option: %s", r.Opcode)
	}
}

func TestUnexpectedMessages(t *testing.T) {
	s := start(t, newFake(), nil)
	for _, v := range []cqlwire.Version{cqlwire.V4, cqlwire.V5} {
		for _, op := range []cqlwire.Opcode{cqlwire.OpQuery, cqlwire.OpRegister, cqlwire.OpAuthResponse, cqlwire.OpCredentials} {
			c := dial(t, s)
			c.v = v
			c.send(op, 4, 0, c.queryBody("void", cqlwire.QueryParams{}))
			c.wantError(c.recv(), cqlwire.ErrProtocol, fmt.Sprintf("Unexpected message %s, expecting STARTUP or OPTIONS", op))
			c.wantClosed()
		}
	}
	c := ready(t, s, cqlwire.V4)
	c.send(cqlwire.OpStartup, 4, 0, (&cqlwire.Startup{}).Append(nil))
	c.wantError(c.recv(), cqlwire.ErrProtocol, "Unexpected message STARTUP, the connection is already initialized")
	c.send(cqlwire.OpAuthResponse, 4, 0, (&cqlwire.AuthToken{}).Append(nil))
	if r := c.recv(); r.Opcode != cqlwire.OpAuthSuccess {
		t.Error(r.Opcode)
	}
	c.ask("void")
}

func TestLogin(t *testing.T) {
	s := start(t, &fake{auth: true, password: "secret"}, nil)
	for _, v := range []cqlwire.Version{cqlwire.V3, cqlwire.V4, cqlwire.V5} {
		c := dial(t, s)
		c.v = v
		r := c.tryStartup()
		var a cqlwire.Authenticate
		if err := a.Decode(r.body); err != nil || r.Opcode != cqlwire.OpAuthenticate || a.Class != cqlwire.PasswordAuthenticator {
			t.Fatalf("%s %+v %v", r.Opcode, a, err)
		}
		login := func(token []byte) reply {
			c.send(cqlwire.OpAuthResponse, 8, 0, (&cqlwire.AuthToken{Token: token}).Append(nil))
			return c.recv()
		}
		c.query(1, "void", cqlwire.QueryParams{})
		c.wantError(c.recv(), cqlwire.ErrProtocol, "Unexpected message QUERY, expecting SASL_RESPONSE")
		c.wantError(login(cqlwire.AppendPlain(nil, "ann", "guess")), cqlwire.ErrBadCredentials,
			"Provided username ann and/or password are incorrect")
		c.wantError(login(nil), cqlwire.ErrBadCredentials, "Authentication ID must not be null")
		c.wantError(login(cqlwire.AppendPlain(nil, "panic", "x")), cqlwire.ErrServer, "Internal error: login")
		if r := login(cqlwire.AppendPlain(nil, "ann", "secret")); r.Opcode != cqlwire.OpAuthSuccess || r.Stream != 8 {
			t.Fatal(r.Opcode)
		}
		if got := cells(t, c.ask("session"))[0]; got != fmt.Sprintf("/ann/%d/", v) {
			t.Error(got)
		}
		c.send(cqlwire.OpAuthResponse, 8, 0, (&cqlwire.AuthToken{}).Append(nil))
		c.wantError(c.recv(), cqlwire.ErrProtocol, "Unexpected message AUTH_RESPONSE, the client has logged in")
	}
	if ok, bad := s.Metrics.AuthSuccess.Load(), s.Metrics.AuthFailure.Load(); ok != 3 || bad != 9 {
		t.Errorf("%d logins, %d failures counted", ok, bad)
	}
}

func TestEvents(t *testing.T) {
	s := start(t, newFake(), nil)
	inAllDialects(t, s, func(t *testing.T, c *client) {
		c.send(cqlwire.OpRegister, 2, 0, (&cqlwire.Register{Types: []cqlwire.EventType{"FOO"}}).Append(nil))
		c.wantError(c.recv(), cqlwire.ErrProtocol, "Invalid value 'FOO' for Type")
		types := []cqlwire.EventType{"schema_change", cqlwire.EventStatusChange}
		c.send(cqlwire.OpRegister, 2, 0, (&cqlwire.Register{Types: types}).Append(nil))
		if r := c.recv(); r.Opcode != cqlwire.OpReady {
			t.Fatal(r.Opcode)
		}
		other := ready(t, s, cqlwire.V4)
		other.ask("create thing")
		node := netip.MustParseAddrPort("127.0.0.1:9042")
		want := cqlwire.Event{Type: cqlwire.EventSchemaChange, Schema: cqlwire.SchemaChange{
			Change: "CREATED", Target: "TABLE", Keyspace: "ks", Name: "thing",
		}}
		c.wantEvent(want)
		s.NotifyTopology("NEW_NODE", node) // not registered for
		s.NotifyStatus("UP", node)
		c.wantEvent(cqlwire.Event{Type: cqlwire.EventStatusChange, Change: "UP", Node: node})
		other.ask("void")
	})
}

func (c *client) wantEvent(want cqlwire.Event) {
	c.t.Helper()
	r := c.recv()
	var e cqlwire.Event
	if err := e.Decode(r.body); err != nil || r.Opcode != cqlwire.OpEvent || r.Stream != -1 {
		c.t.Fatalf("%+v %v", r.Header, err)
	}
	if d := cmp.Diff(want, e, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); d != "" {
		c.t.Fatal(d)
	}
}

// TestLazyListenerIsHungUp: events never wait for a client that does not read.
func TestLazyListenerIsHungUp(t *testing.T) {
	s := start(t, newFake(), func(o *Options) { o.MaxQueuedBytes = 4 << 10 })
	lazy := ready(t, s, cqlwire.V4)
	_ = lazy.nc.(*net.TCPConn).SetReadBuffer(4 << 10)
	lazy.send(cqlwire.OpRegister, 2, 0, (&cqlwire.Register{Types: []cqlwire.EventType{cqlwire.EventStatusChange}}).Append(nil))
	lazy.recv()
	node := netip.MustParseAddrPort("127.0.0.1:9042")
	eventually(t, "hung up", func() bool {
		for range 1000 {
			s.NotifyStatus("UP", node)
		}
		return s.Metrics.SlowClients.Load() > 0
	})
	eventually(t, "gone", func() bool { return s.Metrics.Connections.Load() == 0 })
}

func TestConnectionLimits(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"Exceeded maximum native connection limit of 3":        func(o *Options) { o.MaxConnections = 3 },
		"Exceeded maximum native connection limit per ip of 3": func(o *Options) { o.MaxConnectionsPerIP = 3 },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, newFake(), change)
			var in []*client
			for range 3 {
				in = append(in, ready(t, s, cqlwire.V5))
			}
			for _, v := range []cqlwire.Version{cqlwire.V3, cqlwire.V5} {
				c := dial(t, s)
				c.v = v
				c.send(cqlwire.OpOptions, 17, 0, nil)
				r := c.recv()
				c.wantError(r, cqlwire.ErrOverloaded, name)
				if r.Version != v || r.Stream != 17 {
					t.Errorf("%+v", r.Header)
				}
				c.wantClosed()
			}
			in[0].nc.Close()
			eventually(t, "one gone", func() bool { return s.Metrics.Connections.Load() == 2 })
			ready(t, s, cqlwire.V4).ask("void")
			in[1].ask("void")
		})
	}
}

// TestConnectionFlood opens far more connections than are allowed.
func TestConnectionFlood(t *testing.T) {
	s := start(t, newFake(), func(o *Options) { o.MaxConnections = 10 })
	resident := ready(t, s, cqlwire.V5)
	var flood []net.Conn
	for range 300 {
		nc, err := net.Dial("tcp", s.Addrs()[0].String())
		if err != nil {
			t.Fatal(err)
		}
		flood = append(flood, nc)
	}
	resident.ask("void")
	eventually(t, "refused", func() bool { return s.Metrics.ConnectionsRefused.Load() == 291 })
	if n := s.Metrics.Connections.Load(); n != 10 {
		t.Errorf("%d connections", n)
	}
	for _, nc := range flood {
		nc.Close()
	}
	eventually(t, "gone", func() bool { return s.Metrics.Connections.Load() == 1 })
	resident.ask("void")
}

func TestTimeouts(t *testing.T) {
	t.Run("handshake", func(t *testing.T) {
		s := start(t, newFake(), func(o *Options) { o.HandshakeTimeout = 300 * time.Millisecond })
		c, quiet := ready(t, s, cqlwire.V5), dial(t, s)
		quiet.wantClosed()
		c.ask("void")
	})
	t.Run("idle", func(t *testing.T) {
		s := start(t, newFake(), func(o *Options) { o.IdleTimeout = 300 * time.Millisecond })
		ready(t, s, cqlwire.V5).wantClosed()
	})
	t.Run("half a large request", func(t *testing.T) {
		s := start(t, newFake(), func(o *Options) { o.WriteTimeout = 300 * time.Millisecond })
		c := ready(t, s, cqlwire.V4)
		b := c.frame(cqlwire.OpQuery, 1, 0, make([]byte, 1<<20))
		c.write(b[:1<<19])
		c.wantClosed()
		eventually(t, "released", func() bool { return s.bytes.used.Load() == 0 })
	})
}
