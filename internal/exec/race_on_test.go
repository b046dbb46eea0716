//go:build race

package exec

// raceEnabled: the race detector makes sync.Pool drop what it is given at
// random, so that counts of allocations mean nothing.
const raceEnabled = true
