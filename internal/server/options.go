package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"time"

	"varve/internal/cql"
	"varve/internal/exec"
	"varve/internal/schema"
)

// Backend executes what clients ask for; *exec.Engine is one. Arguments belong
// to the server again once a method has returned: nothing of them, the bytes
// of bound values included, may be kept.
type Backend interface {
	Query(ctx context.Context, s *exec.Session, text string, p *exec.Params) (*exec.Result, error)
	Prepare(ctx context.Context, s *exec.Session, text, keyspace string) (*exec.Prepared, error)
	Lookup(ctx context.Context, s *exec.Session, id []byte) (*exec.Prepared, error)
	Execute(ctx context.Context, s *exec.Session, ps *exec.Prepared, p *exec.Params) (*exec.Result, error)
	Batch(ctx context.Context, s *exec.Session, kind cql.BatchKind, items []exec.BatchItem, p *exec.Params) (*exec.Result, error)
	Login(ctx context.Context, user, password string) (string, error)
	Auth() bool
	Subscribe(f func(schema.Event))
}

var _ Backend = (*exec.Engine)(nil)

// Listen is one address to listen on.
type Listen struct {
	// Address is host:port; port 0 picks a free one (Server.Addrs tells which).
	Address string
	// TLS asks for an encrypted connection; Options.TLS must be set.
	TLS bool
	// Listener is used instead of Address where it is not nil. The server closes it.
	Listener net.Listener
}

// Options configure a Server.
type Options struct {
	// Backend executes requests. Required.
	Backend Backend
	// Listen lists the addresses; at least one.
	Listen []Listen
	// TLS names certificate files for listeners with TLS.
	TLS *TLSOptions
	// Logger takes what operators should see. The default discards it.
	Logger *slog.Logger

	// MaxConnections bounds concurrent connections
	// (native_transport_max_concurrent_connections). The default, -1, is no bound.
	MaxConnections int
	// MaxConnectionsPerIP bounds those of one client address
	// (native_transport_max_concurrent_connections_per_ip). The default, -1, is no bound.
	MaxConnectionsPerIP int
	// MaxFrameBytes bounds a request (native_transport_max_frame_size). The default is 16 MiB.
	MaxFrameBytes int
	// MaxHandshakeFrameBytes bounds a request before the client has logged in. The default is 64 KiB.
	MaxHandshakeFrameBytes int
	// MaxInFlight bounds the writes of one connection that await their commit.
	// The default is 1024.
	MaxInFlight int
	// MaxExecuting bounds the requests of one connection that are executed at
	// the same time. The default is 128 (native_transport_max_threads).
	MaxExecuting int
	// MaxInFlightBytesPerIP bounds the bytes of requests being executed for one
	// client address (native_transport_max_request_data_in_flight_per_ip). The default is 64 MiB.
	MaxInFlightBytesPerIP int64
	// MaxInFlightBytes bounds them for all clients
	// (native_transport_max_request_data_in_flight). The default is 256 MiB.
	MaxInFlightBytes int64
	// MaxQueuedBytes bounds the response bytes one connection has not taken
	// yet; beyond it, nothing more is read from it. As much again may be in the
	// making. One response may exceed it. The default is 16 MiB.
	MaxQueuedBytes int
	// WriteTimeout closes a connection whose client has taken no byte for so
	// long although responses wait. The default is 30 s.
	WriteTimeout time.Duration
	// HandshakeTimeout closes a connection that is not ready for requests
	// after so long. The default, 0, is never.
	HandshakeTimeout time.Duration
	// IdleTimeout closes a connection on which nothing arrived for so long
	// (native_transport_idle_timeout). The default, 0, is never.
	IdleTimeout time.Duration
	// LoginConcurrency bounds how many passwords are checked at once, because
	// that costs CPU time by design. The default is half the processors, at least one.
	LoginConcurrency int
}

// Defaults fills in what is not set.
func (o *Options) Defaults() {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&o.MaxConnections, -1)
	def(&o.MaxConnectionsPerIP, -1)
	def(&o.MaxFrameBytes, 16<<20)
	def(&o.MaxHandshakeFrameBytes, 64<<10)
	def(&o.MaxInFlight, 1024)
	def(&o.MaxExecuting, 128)
	def(&o.MaxQueuedBytes, 16<<20)
	def(&o.LoginConcurrency, max(1, runtime.GOMAXPROCS(0)/2))
	if o.MaxInFlightBytesPerIP == 0 {
		o.MaxInFlightBytesPerIP = 64 << 20
	}
	if o.MaxInFlightBytes == 0 {
		o.MaxInFlightBytes = 256 << 20
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = 30 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Validate reports the first option that makes no sense.
func (o *Options) Validate() error {
	switch {
	case o.Backend == nil:
		return errors.New("server: no backend")
	case len(o.Listen) == 0:
		return errors.New("server: no address to listen on")
	case o.MaxFrameBytes < 1<<10 || o.MaxFrameBytes > 256<<20:
		return fmt.Errorf("server: maximum frame size of %d bytes is not between 1 KiB and 256 MiB", o.MaxFrameBytes)
	case o.MaxHandshakeFrameBytes < 1<<10 || o.MaxHandshakeFrameBytes > o.MaxFrameBytes:
		return fmt.Errorf("server: maximum handshake frame size of %d bytes is not between 1 KiB and the maximum frame size",
			o.MaxHandshakeFrameBytes)
	case o.MaxInFlight < 1 || o.MaxInFlight > 1<<15:
		return fmt.Errorf("server: %d requests in flight is not between 1 and 32768", o.MaxInFlight)
	case o.MaxExecuting < 1 || o.MaxExecuting > 1<<15:
		return fmt.Errorf("server: %d concurrent requests is not between 1 and 32768", o.MaxExecuting)
	case o.MaxInFlightBytes < 1 || o.MaxInFlightBytesPerIP < 1:
		return errors.New("server: the limits on bytes in flight must be positive")
	case o.MaxQueuedBytes < 1<<10:
		return errors.New("server: the limit on queued response bytes is below 1 KiB")
	case o.WriteTimeout < 0 || o.HandshakeTimeout < 0 || o.IdleTimeout < 0:
		return errors.New("server: negative timeout")
	case o.LoginConcurrency < 1:
		return errors.New("server: login concurrency must be positive")
	}
	for _, l := range o.Listen {
		if l.TLS && o.TLS == nil {
			return fmt.Errorf("server: %s wants TLS, but no certificate is configured", l.Address)
		}
		if l.Address == "" && l.Listener == nil {
			return errors.New("server: empty listen address")
		}
	}
	return nil
}
