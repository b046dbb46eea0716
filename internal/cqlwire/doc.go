// Package cqlwire is the CQL native protocol, versions 3 to 5: frames,
// segments, compression and messages. It turns bytes into structs and back,
// checks every length before it allocates, and knows no CQL.
package cqlwire
