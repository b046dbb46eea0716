package server

import (
	"math"
	"sync/atomic"
	"time"
)

// monitorTick is how often the monitor looks at the requests that readers are
// executing; one that it sees twice loses the reader's role.
const monitorTick = time.Millisecond

// monitorIdleTicks is after how many looks at nothing the monitor goes to
// sleep until a reader wakes it.
const monitorIdleTicks = 50

// numSlots bounds the readers that execute at one time; a reader that finds no
// slot gives its requests goroutines of their own. A power of two.
const numSlots = 256

// slotProbes is how many slots a reader tries.
const slotProbes = 8

// monitor watches readers while they execute, so that a slow request does not
// hold up those behind it on its connection.
type monitor struct {
	slots  [numSlots]atomic.Pointer[conn]
	asleep atomic.Bool
	wake   chan struct{}
	seen   [numSlots]sighting // the monitor's own
}

type sighting struct {
	c    *conn
	exec uint64
}

// enter puts a connection under watch and returns its slot, or -1.
func (m *monitor) enter(c *conn) int {
	for i := range uint64(slotProbes) {
		n := int((c.id + i*67) % numSlots)
		if m.slots[n].CompareAndSwap(nil, c) {
			if m.asleep.Load() && m.asleep.CompareAndSwap(true, false) {
				m.wake <- struct{}{}
			}
			return n
		}
	}
	return -1
}

func (m *monitor) leave(slot int) { m.slots[slot].Store(nil) }

func (m *monitor) run(stop <-chan struct{}) {
	ticker := time.NewTicker(monitorTick)
	defer ticker.Stop()
	idle := 0
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		if m.look() {
			idle = 0
			continue
		}
		if idle++; idle < monitorIdleTicks {
			continue
		}
		idle = 0
		ticker.Stop()
		m.asleep.Store(true)
		if m.look() && m.asleep.CompareAndSwap(true, false) {
			ticker.Reset(monitorTick)
			continue
		}
		select {
		case <-stop:
			return
		case <-m.wake:
		}
		ticker.Reset(monitorTick)
	}
}

// look visits the slots once and reports whether any is in use.
func (m *monitor) look() (busy bool) {
	for i := range m.slots {
		c := m.slots[i].Load()
		if c == nil {
			m.seen[i].c = nil
			continue
		}
		busy = true
		exec := c.exec.Load()
		if s := &m.seen[i]; s.c == c && s.exec == exec && exec&1 == 1 {
			c.steal(exec)
		}
		m.seen[i] = sighting{c, exec}
	}
	return busy
}

// numCosts is the size of the table of slow statements; a power of two.
const numCosts = 1024

// Scores of the table of slow statements: a slow run adds slowScore, a quick
// one takes one off, and a statement with at least detachScore is given a
// goroutine of its own. A single slow run may be the machine's doing, so two
// are needed, and slowRun is well above what a point read takes: on a busy
// machine, goroutines of their own were measured to double a read's cost.
const (
	slowScore    = 8
	detachScore  = slowScore + slowScore/2
	maxSlowScore = 64
	slowRun      = time.Millisecond
)

// Sizes of answers, in bytes. Until a slow statement was answered once, it is
// taken for one with unknownAnswer; quick ones with less than notedAnswer are not noted.
const (
	unknownAnswer = 512 << 10
	notedAnswer   = 64 << 10
)

// costs remembers which statements (by a hash) were slow lately, and how large
// their answers were. Colliding hashes cost a goroutine too many or some
// concurrency, nothing else.
type costs [numCosts]struct {
	score  atomic.Uint32
	answer atomic.Uint32 // bytes; 0: unknown
}

func (t *costs) slow(hash uint32) bool { return t[hash%numCosts].score.Load() >= detachScore }

// answerBytes is how large the next answer is expected to be.
func (t *costs) answerBytes(hash uint32) int64 {
	if n := t[hash%numCosts].answer.Load(); n > 0 {
		return int64(n)
	}
	return unknownAnswer
}

// answered notes an answer of n bytes: large ones at once, smaller ones little by little.
func (t *costs) answered(hash uint32, n int64) {
	p := &t[hash%numCosts].answer
	old := p.Load()
	p.Store(max(uint32(min(n, math.MaxUint32)), old-old/8, 1))
}

func (t *costs) observe(hash uint32, d time.Duration) {
	p := &t[hash%numCosts].score
	score := p.Load()
	switch {
	case d >= slowRun:
		p.Store(min(score+slowScore, maxSlowScore))
	case score > 0:
		p.Store(score - 1)
	}
}
