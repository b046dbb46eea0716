package server

import "sync"

// commitQueue holds the answers of a connection whose writes are applied but
// not yet durable. One goroutine at a time, started when needed, waits for the
// commits in order; as they share group commits, it seldom waits for more than
// the first.
type commitQueue struct {
	mu      sync.Mutex
	waiting []answer
	spare   []answer
	running bool
}

// add queues an answer; kick must follow.
func (q *commitQueue) add(a answer) {
	q.mu.Lock()
	q.waiting = append(q.waiting, a)
	q.mu.Unlock()
}

// kick sees to it that somebody waits for what is queued. The caller holds a
// reference to the connection.
func (q *commitQueue) kick(c *conn) {
	q.mu.Lock()
	start := !q.running && len(q.waiting) > 0
	if start {
		q.running = true
	}
	q.mu.Unlock()
	if start {
		c.refs.Add(1)
		go q.run(c)
	}
}

func (q *commitQueue) take() []answer {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch := q.waiting
	q.waiting, q.spare = q.spare[:0], nil
	q.running = len(batch) > 0
	return batch
}

func (q *commitQueue) run(c *conn) {
	defer c.release()
	for {
		batch := q.take()
		if len(batch) == 0 {
			return
		}
		for i := range batch {
			c.settle(&batch[i])
		}
		c.out.flush()
		c.inflight.release(int64(len(batch)))
		clear(batch)
		q.mu.Lock()
		q.spare = batch
		q.mu.Unlock()
	}
}

// settle waits for one answer's commit and sends it.
func (c *conn) settle(a *answer) {
	err := c.awaitCommit(a)
	if c.send(*a, err) >= flushBytes {
		c.out.flush()
	}
}

func (c *conn) awaitCommit(a *answer) (err error) {
	defer c.recoverPanic("commit", &err)
	return c.srv.waitCommit(a.res.Commit)
}
