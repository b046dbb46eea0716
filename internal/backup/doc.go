// Package backup makes copies of a whole store that can be trusted: it
// creates, lists, verifies and restores backups. It builds on the store's
// checkpoints and knows nothing of what is in their files.
//
// A backup is the directory <dir>/<name>:
//
//	manifest.json   what the backup is: times, store, every file's size and SHA-256
//	shards/<n>/…    the checkpoint of shard n
//
// Invariants:
//
//  1. A backup shares no file with the store: what the checkpoint linked is
//     copied.
//  2. A directory with a manifest is whole: it is written under another name,
//     synced, the manifest last, and renamed.
//  3. A restore writes into empty directories only and checks every byte on
//     its way. Its targets bear a mark, with which no store opens, until all is
//     there and synced.
package backup
