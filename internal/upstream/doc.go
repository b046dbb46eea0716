// Package upstream is the client side of CQL: a multiplexed connection that
// the command line's tools use, and that a front before a real cluster will.
// It speaks protocol version 4, which every server since Cassandra 2.2 knows.
package upstream
