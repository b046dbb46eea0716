package server

import (
	"net"
	"net/netip"
)

// ListenTCP listens on host:port. Unlike net.Listen it takes 0.0.0.0 for IPv4
// only: who writes that has not asked for IPv6 to be open too, which [::] is.
func ListenTCP(address string) (net.Listener, error) {
	network := "tcp"
	if ap, err := netip.ParseAddrPort(address); err == nil && ap.Addr().Is4() {
		network = "tcp4"
	}
	return net.Listen(network, address)
}
