package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
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
	plain := dial(t, s)
	plain.send(cqlwire.OpOptions, 1, 0, nil)
	if r, err := plain.tryRecv(); err == nil {
		t.Errorf("plain text answered by %s", r.Opcode)
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
