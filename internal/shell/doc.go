// Package shell is an interactive CQL prompt for machines without Python:
// statements over several lines, history, paging, tracing.
package shell
