// Package console serves HTTP: metrics and health on a TCP address, and the
// administration that `varve nodetool` and `varve backup` use on a Unix socket
// in the data directory. Nothing that changes or reveals data is on TCP.
package console
