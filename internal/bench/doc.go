// Package bench drives any CQL server with single-row statements on a chat
// table and measures latency, closed loop (so many requests in flight) or open
// loop (so many requests a second, latency counted from when each was due, so
// that a stalled server cannot hide its stalls).
package bench
