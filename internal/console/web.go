package console

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"varve/internal/exec"
	"varve/internal/server"
	"varve/internal/store"
)

// Web serves /metrics and /healthz, and nothing else.
type Web struct {
	Store   *store.Store
	Engine  *exec.Engine
	Server  *server.Server
	Version string
	// Logger takes what operators should see; nil discards.
	Logger *slog.Logger

	certs *server.Certificates
}

// Listen opens the address, with TLS where t is not nil.
func (w *Web) Listen(addr string, t *server.TLSOptions) (net.Listener, error) {
	l, err := server.ListenTCP(addr)
	if err != nil {
		return nil, fmt.Errorf("listen for HTTP on %s: %w", addr, err)
	}
	if t == nil {
		return l, nil
	}
	if w.certs, err = server.LoadTLS(*t, w.Logger); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("http_tls: %w", err)
	}
	return tls.NewListener(l, w.certs.Config()), nil
}

// ReloadTLS reads the certificates again, where there are any.
func (w *Web) ReloadTLS() {
	if w.certs != nil {
		w.certs.Reload()
	}
}

// Serve answers until ctx ends.
func (w *Web) Serve(ctx context.Context, l net.Listener) error {
	reg := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &metrics{w},
	} {
		if err := reg.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(rw, "ok")
	})
	return serve(ctx, l, mux, w.Logger)
}
