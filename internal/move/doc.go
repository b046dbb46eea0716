// Package move takes live tables out of one store into another without
// stopping writes: copy, follow, verify, shadow, switch reads, cut over,
// mirror back, roll back. It holds the state machine and the algorithms; the
// stores that take part are behind Side. docs/design/move.md has the reasons.
package move
