package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// TLSOptions name the certificates of encrypted listeners. The files are
// looked at again while the server runs, so that a renewed certificate needs no restart.
type TLSOptions struct {
	// CertFile and KeyFile are PEM files of the server's certificate (chain) and key. Required.
	CertFile, KeyFile string
	// ClientCAFile is a PEM file of authorities for clients' certificates.
	// Without it, a client's certificate is not asked for.
	ClientCAFile string
	// RequireClientCert refuses clients without a valid certificate (require_client_auth).
	RequireClientCert bool
	// MinVersion is the least TLS version. The default is TLS 1.2.
	MinVersion uint16
	// ReloadInterval is how often, at most, the files are looked at. The default is 10 s.
	ReloadInterval time.Duration
}

// Certificates are a listener's, as they are in their files now. Connections
// keep the ones they began with.
type Certificates struct {
	opts    TLSOptions
	log     *slog.Logger
	current atomic.Pointer[tls.Config]
	checked atomic.Int64 // unix nanoseconds

	mu    sync.Mutex // one reload at a time
	stamp [3]fileStamp
}

type fileStamp struct {
	modified time.Time
	size     int64
}

// LoadTLS reads a listener's certificates. A nil logger discards.
func LoadTLS(o TLSOptions, log *slog.Logger) (*Certificates, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if o.CertFile == "" || o.KeyFile == "" {
		return nil, errors.New("TLS needs a certificate file and a key file")
	}
	if o.RequireClientCert && o.ClientCAFile == "" {
		return nil, errors.New("client certificates cannot be required without a client CA file")
	}
	if o.MinVersion == 0 {
		o.MinVersion = tls.VersionTLS12
	}
	if o.MinVersion < tls.VersionTLS12 {
		return nil, errors.New("TLS before 1.2 is not offered")
	}
	if o.ReloadInterval == 0 {
		o.ReloadInterval = 10 * time.Second
	}
	t := &Certificates{opts: o, log: log}
	stamp, err := t.stampFiles()
	if err != nil {
		return nil, err
	}
	cfg, err := t.load()
	if err != nil {
		return nil, err
	}
	t.stamp = stamp
	t.current.Store(cfg)
	t.checked.Store(time.Now().UnixNano())
	return t, nil
}

// Config returns the configuration for a listener.
func (t *Certificates) Config() *tls.Config {
	return &tls.Config{
		MinVersion: t.opts.MinVersion,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			t.refresh(time.Now())
			return t.current.Load(), nil
		},
	}
}

func (t *Certificates) files() [3]string {
	return [3]string{t.opts.CertFile, t.opts.KeyFile, t.opts.ClientCAFile}
}

func (t *Certificates) stampFiles() (stamps [3]fileStamp, err error) {
	for i, name := range t.files() {
		if name == "" {
			continue
		}
		st, err := os.Stat(name)
		if err != nil {
			return stamps, fmt.Errorf("look at TLS file: %w", err)
		}
		stamps[i] = fileStamp{st.ModTime(), st.Size()}
	}
	return stamps, nil
}

// refresh loads the files again if they have changed and were not looked at lately.
func (t *Certificates) refresh(now time.Time) {
	last := t.checked.Load()
	if now.UnixNano()-last < int64(t.opts.ReloadInterval) || !t.checked.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	t.reload(false)
}

// Reload loads the files again, changed or not. While they cannot be loaded,
// the last good ones stay in use, and the log says so.
func (t *Certificates) Reload() { t.reload(true) }

func (t *Certificates) reload(anyway bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	stamps, err := t.stampFiles()
	if err == nil && stamps == t.stamp && !anyway {
		return
	}
	var cfg *tls.Config
	if err == nil {
		cfg, err = t.load()
	}
	if err != nil {
		t.log.Error("TLS certificates not reloaded; the last ones stay in use", "err", err)
		return
	}
	t.stamp = stamps
	t.current.Store(cfg)
	t.log.Info("TLS certificates reloaded", "cert", t.opts.CertFile)
}

func (t *Certificates) load() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(t.opts.CertFile, t.opts.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("load TLS certificate: %w", err)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: t.opts.MinVersion}
	if t.opts.ClientCAFile == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(t.opts.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("load client CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("load client CA: no certificate in %s", t.opts.ClientCAFile)
	}
	cfg.ClientCAs = pool
	// A resumed session would let in a client whose authority is no longer in the file.
	cfg.SessionTicketsDisabled = true
	cfg.ClientAuth = tls.VerifyClientCertIfGiven
	if t.opts.RequireClientCert {
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return cfg, nil
}
