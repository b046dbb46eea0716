// Package cqltype holds CQL's types and values: binary and text forms,
// comparison, JSON, and order-preserving keys.
//
// A value is its binary form ([]byte, as on the wire); nil is null. Nothing
// here keeps a decoded copy, so that a row passes from disk to socket as bytes.
package cqltype
