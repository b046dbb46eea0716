// Package lint holds tests that keep the house rules: which package may import
// which, how long files and functions may be, what tests must not do. It has
// no code of its own.
package lint
