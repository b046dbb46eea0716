package server

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"varve/internal/cqlwire"
)

// authority issues certificates for a test.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
	file string
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir(), pool: x509.NewCertPool()}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	a.key = key
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	a.file = filepath.Join(a.dir, "ca.pem")
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

func writePEM(t *testing.T, name, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// issue writes a certificate and key for 127.0.0.1 into dir.
func (a *authority) issue(dir, name string, serial int64) (certFile, keyFile string) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
	writePEM(a.t, certFile, "CERTIFICATE", der)
	writePEM(a.t, keyFile, "EC PRIVATE KEY", keyDER)
	return certFile, keyFile
}

func dialTLS(t *testing.T, s *Server, cfg *tls.Config) (*client, error) {
	t.Helper()
	nc, err := net.Dial("tcp", s.Addrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	tc := tls.Client(nc, cfg)
	t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(patience))
	if err := tc.Handshake(); err != nil {
		return nil, err
	}
	return newClient(t, tc, cqlwire.V5), nil
}

func TestTLS(t *testing.T) {
	a := newAuthority(t, "ca")
	cert, key := a.issue(a.dir, "server", 2)
	s := start(t, newFake(), func(o *Options) {
		o.Listen[0].TLS = true
		o.TLS = &TLSOptions{CertFile: cert, KeyFile: key, ReloadInterval: time.Nanosecond}
	})
	c, err := dialTLS(t, s, &tls.Config{RootCAs: a.pool, ServerName: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	c.startup()
	c.ask("big 300000")
	if i := s.Clients()[0]; !i.SSL || i.SSLProtocol != "TLSv1.3" || i.SSLCipher == "" {
		t.Errorf("%+v", i)
	}
	if _, err := dialTLS(t, s, &tls.Config{RootCAs: a.pool, ServerName: "127.0.0.1", MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 accepted")
	}
	// A client without TLS is told so, in CQL and of its version, and no more.
	for _, v := range []cqlwire.Version{cqlwire.V3, cqlwire.V5, 66} {
		nc, err := net.Dial("tcp", s.Addrs()[0].String())
		if err != nil {
			t.Fatal(err)
		}
		plain := newClient(t, nc, v)
		plain.send(cqlwire.OpOptions, 7, 0, nil)
		if r := plain.recv(); r.Version != min(v, cqlwire.MaxVersion) || r.Stream != 7 || r.Opcode != cqlwire.OpError || !bytes.Contains(r.body, []byte("encrypted connections only")) {
			t.Errorf("plain text answered by %+v", r)
		}
		if _, err := plain.tryRecv(); err == nil {
			t.Error("the connection goes on")
		}
		nc.Close()
	}
	for _, junk := range []string{"GET / HTTP/1.0\r\n\r\n", "\x04\x00\x00\x00\x07\x00\x00\x00\x00", "\x84\x00\x00\x00\x05\x00\x00\x00\x00"} {
		nc, err := net.Dial("tcp", s.Addrs()[0].String())
		if err != nil {
			t.Fatal(err)
		}
		_ = nc.SetDeadline(time.Now().Add(patience))
		_, _ = nc.Write([]byte(junk))
		if b, _ := io.ReadAll(nc); bytes.Contains(b, []byte("encrypted")) {
			t.Errorf("%q is answered with %q", junk, b)
		}
		nc.Close()
	}

	serial := func() int64 {
		t.Helper()
		c, err := dialTLS(t, s, &tls.Config{RootCAs: a.pool, ServerName: "127.0.0.1"})
		if err != nil {
			t.Fatal(err)
		}
		return c.nc.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if n := serial(); n != 2 {
		t.Fatalf("serial %d", n)
	}
	if err := os.WriteFile(cert, []byte("half written"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := serial(); n != 2 {
		t.Fatalf("serial %d while the file is broken", n)
	}
	a.issue(a.dir, "server", 3)
	if n := serial(); n != 3 {
		t.Fatalf("serial %d after renewal", n)
	}
	c.ask("void")
}

func TestClientCertificates(t *testing.T) {
	a, stranger := newAuthority(t, "ca"), newAuthority(t, "stranger")
	cert, key := a.issue(a.dir, "server", 2)
	s := start(t, newFake(), func(o *Options) {
		o.Listen[0].TLS = true
		o.TLS = &TLSOptions{CertFile: cert, KeyFile: key, ClientCAFile: a.file, RequireClientCert: true}
	})
	try := func(from *authority) error {
		cfg := &tls.Config{RootCAs: a.pool, ServerName: "127.0.0.1"}
		if from != nil {
			certFile, keyFile := from.issue(from.dir, "client", 9)
			pair, err := tls.LoadX509KeyPair(certFile, keyFile)
			if err != nil {
				t.Fatal(err)
			}
			cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
		c, err := dialTLS(t, s, cfg)
		if err != nil {
			return err
		}
		_, _ = c.nc.Write(c.frame(cqlwire.OpOptions, 1, 0, nil))
		_, err = c.tryRecv()
		return err
	}
	if err := try(a); err != nil {
		t.Error(err)
	}
	if err := try(nil); err == nil {
		t.Error("client without certificate accepted")
	}
	if err := try(stranger); err == nil {
		t.Error("client with a stranger's certificate accepted")
	}
}

// A session begun before the authorities changed is not resumed after.
func TestClientAuthorityWithdrawn(t *testing.T) {
	a, next := newAuthority(t, "ca"), newAuthority(t, "next")
	cert, key := a.issue(a.dir, "server", 2)
	clients := filepath.Join(t.TempDir(), "clients.pem")
	copyFile := func(from string) {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(clients, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	copyFile(a.file)
	s := start(t, newFake(), func(o *Options) {
		o.Listen[0].TLS = true
		o.TLS = &TLSOptions{CertFile: cert, KeyFile: key, ClientCAFile: clients, RequireClientCert: true, ReloadInterval: time.Hour}
	})
	certFile, keyFile := a.issue(a.dir, "client", 9)
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &tls.Config{
		RootCAs: a.pool, ServerName: "127.0.0.1", Certificates: []tls.Certificate{pair}, ClientSessionCache: tls.NewLRUClientSessionCache(4),
	}
	try := func() (*client, error) {
		c, err := dialTLS(t, s, cfg)
		if err != nil {
			return nil, err
		}
		_, _ = c.nc.Write(c.frame(cqlwire.OpOptions, 1, 0, nil))
		_, err = c.tryRecv()
		return c, err
	}
	first, err := try()
	if err != nil {
		t.Fatal(err)
	}
	copyFile(next.file)
	if _, err := try(); err != nil {
		t.Fatalf("before the reload: %v", err)
	}
	s.ReloadTLS()
	if _, err := try(); err == nil {
		t.Error("a client of a withdrawn authority is let in")
	}
	first.startup()
	first.ask("void")
}

// A TLS client on a plain port is one line in the log, however often it comes.
func TestEncryptedClientOnPlainPort(t *testing.T) {
	var log lockedBuffer
	s := start(t, newFake(), func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	for range 3 {
		if _, err := dialTLS(t, s, &tls.Config{InsecureSkipVerify: true}); err == nil {
			t.Fatal("TLS on a plain port")
		}
	}
	if n := strings.Count(log.String(), "came with TLS to a CQL port without it"); n != 1 {
		t.Errorf("%d hints in\n%s", n, log.String())
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestTLSOptions(t *testing.T) {
	a := newAuthority(t, "ca")
	cert, key := a.issue(a.dir, "server", 2)
	for name, o := range map[string]TLSOptions{
		"nothing":     {},
		"no such":     {CertFile: "nowhere.pem", KeyFile: key},
		"mixed up":    {CertFile: key, KeyFile: cert},
		"no CA":       {CertFile: cert, KeyFile: key, RequireClientCert: true},
		"empty CA":    {CertFile: cert, KeyFile: key, ClientCAFile: key},
		"old version": {CertFile: cert, KeyFile: key, MinVersion: tls.VersionTLS10},
	} {
		opts := Options{Backend: newFake(), Listen: []Listen{{Address: "127.0.0.1:0", TLS: true}}, TLS: &o}
		if s, err := New(opts); err == nil {
			t.Errorf("%s: accepted", name)
			for _, l := range s.listeners {
				l.Close()
			}
		}
	}
}
