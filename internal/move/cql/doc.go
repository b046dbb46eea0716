// Package cql is a CQL store as a side of a move: Varve, whose change feed and
// table fence (docs/design/change-feed.md) it uses. Rows are written with
// timestamps folded from the source's commit times, so that a replay writes
// the same cells again and changes nothing.
package cql
