package cli

import (
	"fmt"
	"log/slog"
	"net"

	"varve/internal/config"
	"varve/internal/console"
	"varve/internal/server"
)

// doors are the server's ports. Clients that come before the server serves
// wait in their queues.
type doors struct {
	cql  net.Listener
	http net.Listener // nil: none
	web  *console.Web
}

func openDoors(c *config.Config, log *slog.Logger) (_ *doors, err error) {
	d := &doors{web: &console.Web{Logger: log}}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if t := tlsOptions(c.CQLTLS); t != nil {
		// Read once more when the server is made; what matters here is that they can be.
		if _, err := server.LoadTLS(*t, nil); err != nil {
			return nil, fmt.Errorf("cql_tls: %w", err)
		}
	}
	if d.cql, err = server.ListenTCP(c.CQL); err != nil {
		return nil, fmt.Errorf("listen for CQL on %s: %w", c.CQL, err)
	}
	if c.HTTP != "" {
		if d.http, err = d.web.Listen(c.HTTP, tlsOptions(c.HTTPTLS)); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *doors) httpAddress() string {
	if d.http == nil {
		return ""
	}
	return d.http.Addr().String()
}

// close closes what is open; listeners that were served are closed already.
func (d *doors) close() {
	for _, l := range []net.Listener{d.cql, d.http} {
		if l != nil {
			_ = l.Close()
		}
	}
}
