// Package cli is the command line: one file a command. It wires the other
// packages together and holds no logic of theirs.
package cli
