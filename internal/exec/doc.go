// Package exec carries out CQL: it binds names and types, checks permissions,
// plans, runs against the store, pages, and traces. Errors leave it as
// *cqlwire.Error with Cassandra's texts.
package exec
