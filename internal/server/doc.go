// Package server speaks CQL to clients: listeners, TLS, connections, login,
// events, and back-pressure. It carries frames between sockets and a Backend
// (exec.Engine) and knows no CQL.
//
// # How a request is run
//
// Server time goes to wake-ups and system calls, not to decoding, so a
// connection avoids both. The goroutine that reads a connection (it holds the
// reader's role) also executes what it reads, one request after another, and
// flushes the answers with one write when its buffer holds no further request.
// Three ways lead out of that line, so that nobody waits for a slow neighbour:
//
//  1. A write that is applied but not yet durable goes to the connection's
//     commit queue; one goroutine waits for the queue's commits in order and
//     answers them together. The reader goes on at once.
//  2. A request still running when the monitor has seen it twice (1 to 2 ms)
//     loses the reader's role: another goroutine reads on with a fresh buffer,
//     and the first one answers when it is done and ends.
//  3. A statement known to be slow is given a goroutine of its own.
//
// # Invariants
//
//  1. Only the holder of the reader's role touches conn.r and what it owns.
//     The role changes hands only by a compare-and-swap on conn.exec while it
//     is odd (executing).
//  2. A request's body aliases a buffer that nobody writes to until the
//     request is answered.
//  3. conn.refs counts the goroutines that work for a connection; the last one
//     closes it. A connection is in Server.conns until then.
//  4. Every queue has a bound: requests in flight, their bytes (by client
//     address and in all), response bytes in the making (as far as they can
//     be foreseen) and response bytes queued. At a bound the reader
//     stops reading, or refuses requests where the client asked for that.
//
// # Lock order
//
// Server.mu, then outbox.mu or commitQueue.mu; neither of the last two is held
// while taking another lock.
package server
