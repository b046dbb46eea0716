// Package schema holds keyspaces, tables, types, indexes and roles as
// immutable snapshots: a reader takes the current one from an atomic pointer
// and never locks; a change builds the next one, persists it, then swaps it in.
package schema
