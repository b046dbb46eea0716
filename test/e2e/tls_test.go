package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// authority signs certificates for 127.0.0.1.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T, dir, name string) *authority {
	t.Helper()
	a := &authority{t: t, file: filepath.Join(dir, name+".pem")}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	a.issue(a.cert, a.file, filepath.Join(dir, name+".key"))
	return a
}

// issue signs tmpl with a key of its own and writes both.
func (a *authority) issue(tmpl *x509.Certificate, certFile, keyFile string) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if a.key == nil {
		a.key = key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	if tmpl == a.cert {
		if a.cert, err = x509.ParseCertificate(der); err != nil {
			a.t.Fatal(err)
		}
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "EC PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
}

func (a *authority) leaf(dir, name string, serial int64) (certFile, keyFile string) {
	a.t.Helper()
	certFile, keyFile = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
	a.issue(&x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, certFile, keyFile)
	return certFile, keyFile
}

func clientTLS(t *testing.T, ca, cert, key string) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "127.0.0.1"}
	cfg.RootCAs.AppendCertsFromPEM(text)
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return cfg
}

// Both ports ask for certificates of clients; a renewed certificate comes with
// SIGHUP and leaves open connections as they are.
func TestMutualTLS(t *testing.T) {
	dir := t.TempDir()
	ca, stranger := newAuthority(t, dir, "ca"), newAuthority(t, dir, "stranger")
	serverCert, serverKey := ca.leaf(dir, "server", 2)
	clientCert, clientKey := ca.leaf(dir, "client", 3)
	strangeCert, strangeKey := stranger.leaf(dir, "strange", 4)
	var args []string
	for _, port := range []string{"cql_tls", "http_tls"} {
		for _, kv := range []string{"certificate=" + serverCert, "key=" + serverKey, "client_ca=" + ca.file, "require_client_auth=true"} {
			args = append(args, "--set", port+"."+kv)
		}
	}
	s := start(t, filepath.Join(dir, "d"), args...)

	sess, err := s.trySession(func(c *gocql.ClusterConfig) {
		c.SslOpts = &gocql.SslOptions{Config: clientTLS(t, ca.file, clientCert, clientKey)}
	})
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, sess, makeKeyspace)
	for name, cfg := range map[string]*gocql.SslOptions{
		"no certificate":         {Config: clientTLS(t, ca.file, "", "")},
		"a stranger's":           {Config: clientTLS(t, ca.file, strangeCert, strangeKey)},
		"no TLS":                 nil,
		"trusts only a stranger": {Config: clientTLS(t, stranger.file, clientCert, clientKey)},
	} {
		if other, err := s.trySession(func(c *gocql.ClusterConfig) { c.SslOpts = cfg }); err == nil {
			other.Close()
			t.Errorf("a client with %s is let in", name)
		}
	}
	if !strings.Contains(s.log.String(), "a client without TLS came to a CQL port with TLS") {
		t.Errorf("no hint in the log:\n%s", s.log)
	}

	get := func(cfg *tls.Config, scheme string) (string, error) {
		tr := &http.Transport{TLSClientConfig: cfg}
		defer tr.CloseIdleConnections()
		resp, err := (&http.Client{Transport: tr}).Get(scheme + "://" + s.http + "/healthz")
		if err != nil {
			return "", err
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
	if body, err := get(clientTLS(t, ca.file, clientCert, clientKey), "https"); err != nil || body != "ok\n" {
		t.Errorf("health over TLS: %q %v", body, err)
	}
	if body, err := get(clientTLS(t, ca.file, strangeCert, strangeKey), "https"); err == nil {
		t.Errorf("health for a stranger: %q", body)
	}
	if body, err := get(nil, "http"); err != nil || !strings.Contains(body, "HTTPS") {
		t.Errorf("plain HTTP is answered with %q %v", body, err)
	}

	serial := func(addr string) int64 {
		c, err := tls.Dial("tcp", addr, clientTLS(t, ca.file, clientCert, clientKey))
		if err != nil {
			return -1
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if a, b := serial(s.addr), serial(s.http); a != 2 || b != 2 {
		t.Fatalf("serials %d and %d before the renewal", a, b)
	}
	ca.leaf(dir, "server", 7)
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return serial(s.addr) == 7 && serial(s.http) == 7 })
	mustExec(t, sess, `CREATE TABLE chat.m (k int PRIMARY KEY)`)
	if n := strings.Count(s.log.String(), "TLS certificates reloaded"); n != 2 {
		t.Errorf("%d reloads in the log\n%s", n, s.log)
	}
}
