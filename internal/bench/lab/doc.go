// Package lab is what the programs under bench/ stand on: it starts, kills and
// watches real servers (Varve's binary, or a Cassandra through a script), talks
// to them over one CQL connection, samples latencies and prints tables.
//
// A server is always a process of its own, so that memory, CPU and a kill are
// the operating system's, not this program's account of them.
package lab
