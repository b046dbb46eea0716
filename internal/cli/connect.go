package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"varve/internal/upstream"
)

// connection holds the flags of commands that connect as a CQL client.
type connection struct {
	address, user, passwordFile, ca string
	useTLS                          bool
}

func (c *connection) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.address, "host", "127.0.0.1:9042", "the server's address, host or host:port")
	f.StringVarP(&c.user, "user", "u", "", "user name, where the server asks for a login")
	f.StringVar(&c.passwordFile, "password-file", "", "file with the password; without it, the environment's CQLPASSWORD is taken")
	f.BoolVar(&c.useTLS, "tls", false, "encrypt the connection")
	f.StringVar(&c.ca, "tls-ca", "", "PEM file of the authority that signed the server's certificate; implies --tls")
}

func (c *connection) dial(ctx context.Context) (*upstream.Conn, error) {
	if _, _, err := net.SplitHostPort(c.address); err != nil {
		c.address = net.JoinHostPort(strings.Trim(c.address, "[]"), "9042")
	}
	if c.user != "" && c.passwordFile == "" && os.Getenv("CQLPASSWORD") == "" {
		return nil, usageError("user %s needs a password: give --password-file or set CQLPASSWORD", c.user)
	}
	o := upstream.Options{Address: c.address, Username: c.user, Password: os.Getenv("CQLPASSWORD")}
	if c.passwordFile != "" {
		text, err := os.ReadFile(c.passwordFile)
		if err != nil {
			return nil, fmt.Errorf("read password: %w", err)
		}
		o.Password = strings.TrimRight(string(text), "\r\n")
	}
	if c.useTLS || c.ca != "" {
		host, _, err := net.SplitHostPort(c.address)
		if err != nil {
			return nil, err
		}
		o.TLS = &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
		if c.ca != "" {
			pem, err := os.ReadFile(c.ca)
			if err != nil {
				return nil, fmt.Errorf("read CA: %w", err)
			}
			o.TLS.RootCAs = x509.NewCertPool()
			if !o.TLS.RootCAs.AppendCertsFromPEM(pem) {
				return nil, errors.New("the file given with --tls-ca holds no PEM certificate")
			}
		}
	}
	return upstream.Dial(ctx, o)
}
