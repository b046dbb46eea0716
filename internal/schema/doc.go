// Package schema holds keyspaces, tables, types, indexes and roles as
// immutable snapshots: a reader takes the current one from an atomic pointer
// and never locks; a change builds the next one, persists it, then swaps it in.
//
// What always holds:
//
//  1. A snapshot and everything in it never changes. Objects that a change does
//     not touch are shared by the old and the new snapshot, so that a plan can
//     tell by a pointer whether its table is still the same.
//  2. A change is one atomic save of records, then the swap, then events, in
//     order, under Catalog's one mutex. What was not saved is never seen.
//  3. Physical ids of tables and indexes are never given out twice, nor are the
//     ids of a table's columns; a column that is dropped and added again under
//     its name keeps its id, and its older cells stay gone by time.
//  4. System keyspaces are made from system.cql at every start and are not
//     stored, but for the replication of those that may be altered.
//  5. The schema version depends on the content of keyspaces alone: it differs
//     after each change of them and is the same after a restart.
//
// Rules and texts of refusals are Cassandra 5.0's; files under testdata hold
// what a real 5.0.9 answered.
package schema
