// Package pg is PostgreSQL 14 to 17 as a side of a move: its tables, its
// stream of changes by logical decoding, the writer of another side's changes,
// the fence, and the store of the move's state.
//
// Invariants:
//
//  1. Values are PostgreSQL's binary format from the socket to the socket;
//     nothing in between reads them.
//  2. A slot is confirmed only up to what the caller says is durable, and a
//     stream never starts where the slot may have lost changes.
//  3. A writer's rows and its position commit together, and only while no later
//     writer was opened.
//  4. The fence is decided in the database: a mover that is dead, paused or cut
//     off can neither hold writers for ever nor let two sides accept them.
//
// Connections go straight to the server: session settings, replication origins
// and advisory locks do not live through a pooler that shares sessions.
package pg
