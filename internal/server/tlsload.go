package server

import (
	"crypto/tls"
	"log/slog"
)

// LoadTLS reads the certificates for a listener of another protocol, with the
// same reloading as the CQL listeners have. A nil logger discards.
func LoadTLS(o TLSOptions, log *slog.Logger) (*tls.Config, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c, err := newCertificates(o, log)
	if err != nil {
		return nil, err
	}
	return c.config(), nil
}
