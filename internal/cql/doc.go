// Package cql turns CQL text into a syntax tree and back. It knows the
// grammar of Cassandra 5.0 and nothing of schemas: names are not resolved,
// types are references, and constants keep their text.
package cql
