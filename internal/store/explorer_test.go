package store

import (
	"fmt"
	"slices"
	"strings"
)

// Explorer runs goroutines one step at a time, in every order that matters.
// It is a stepper: a goroutine that it started stops before each step and goes
// on when it is chosen. Orders that differ only in steps that do not touch the
// same thing are tried once (sleep sets).
type Explorer struct {
	// Broken is the rule that is broken, if any.
	Broken rule
	// Follow is a schedule to repeat instead of exploring.
	Follow []int
	// BetweenSteps is called after each step, while every goroutine stands still.
	BetweenSteps func()

	Runs      int // executions to the end
	Redundant int // executions given up because they would repeat another
	Steps     int // of the longest execution
	Writes    int // to data, in the execution at hand

	stack   []*choice
	threads []*explored
	cur     *explored
	parked  chan struct{}
	focus   map[*rwLock]string
}

// ExploredRun is one execution: its threads, and what judges its end.
type ExploredRun struct {
	Threads []func(*ExploredThread) error
	Check   func() error
	// Locks are the partitions whose stripes threads may contend for.
	Stripes []Key
	Store   *Store
	Phys    uint32
}

// ExploredThread is told when its batch is committed and when its view is fixed.
type ExploredThread struct {
	Committing func()
	Viewing    func()
	Writing    func() // before every change of the committed state, its batch's included
	// Pause lets the others take steps.
	Pause func()
}

type explored struct {
	ExploredThread
	id      int
	resume  chan struct{}
	next    access // what it is about to do
	touched []access
	done    bool
	err     error
}

// sharedNothing is touched by a step that only lets others go first.
const sharedNothing = sharedHeads + 1

// access is what a step touches: a lock or something shared.
type access struct {
	lock  *rwLock
	what  shared
	write bool
}

func (a access) conflicts(b access) bool {
	return a.lock == b.lock && (a.lock != nil || a.what == b.what) && (a.write || b.write)
}

func conflict(a, b []access) bool {
	return slices.ContainsFunc(a, func(x access) bool {
		return slices.ContainsFunc(b, x.conflicts)
	})
}

// choice is a point of an execution at which a thread was chosen.
type choice struct {
	enabled []int
	chosen  int
	sleep   map[int][]access // threads whose next step was tried elsewhere
	tried   map[int][]access // threads tried here, with what their step touched
}

func (e *Explorer) broken(r rule) bool { return e.Broken == r }

func (e *Explorer) park(a access) {
	t := e.cur
	t.next = a
	e.parked <- struct{}{}
	<-t.resume
	t.touched = append(t.touched, a)
}

func (e *Explorer) acquire(l *rwLock, exclusive bool) {
	if e.cur == nil {
		if !l.try(exclusive) {
			panic("a lock is held outside of the explored threads")
		}
		return
	}
	if _, ok := e.focus[l]; !ok && l.try(exclusive) {
		return
	}
	e.park(access{lock: l, write: exclusive})
	if !l.try(exclusive) {
		panic("a thread was chosen whose lock is held")
	}
	e.noteCounts(l, exclusive)
}

// noteCounts notes that the counts, which are read without the map's lock, may
// change under it.
func (e *Explorer) noteCounts(l *rwLock, exclusive bool) {
	if exclusive && e.focus[l] == "map" {
		e.cur.touched = append(e.cur.touched, access{what: sharedBusy, write: true})
	}
}

func (e *Explorer) release(l *rwLock) {
	if e.cur != nil {
		if _, ok := e.focus[l]; ok {
			exclusive := l.state.Load()&lockExclusive != 0
			e.cur.touched = append(e.cur.touched, access{lock: l, write: exclusive})
			e.noteCounts(l, exclusive)
		}
	}
}

func (e *Explorer) step(o shared, write bool) {
	if e.cur == nil {
		return
	}
	t := e.cur
	e.park(access{what: o, write: write})
	if o == sharedData && write {
		e.Writes++
		if t.Writing != nil {
			t.Writing()
		}
	}
	if o == sharedData && write && t.Committing != nil {
		t.Committing()
	}
	if o == sharedData && !write && t.Viewing != nil {
		t.Viewing()
	}
}

func (t *explored) enabled() bool {
	if t.done {
		return false
	}
	l := t.next.lock
	if l == nil {
		return true
	}
	s := l.state.Load()
	return s == 0 || !t.next.write && s&lockExclusive == 0
}

// Explore executes what newRun makes until every order was tried, or once where
// there is a schedule to follow. The error is the first execution's that failed.
func (e *Explorer) Explore(newRun func() (*ExploredRun, error)) error {
	e.parked = make(chan struct{})
	for {
		r, err := newRun()
		if err == nil {
			err = e.execute(r)
		}
		if err != nil || e.Follow != nil || !e.backtrack() {
			return err
		}
	}
}

// backtrack turns to the last choice with something left to try.
func (e *Explorer) backtrack() bool {
	for len(e.stack) > 0 {
		c := e.stack[len(e.stack)-1]
		for _, id := range c.enabled {
			if c.tried[id] == nil && c.sleep[id] == nil {
				c.chosen = id
				return true
			}
		}
		e.stack = e.stack[:len(e.stack)-1]
	}
	return false
}

func (e *Explorer) execute(r *ExploredRun) error {
	e.Writes = 0
	e.start(r)
	redundant := false
	var trace []string
	for depth := 0; ; depth++ {
		enabled := e.runnable()
		if len(enabled) == 0 {
			break
		}
		if redundant {
			e.advance(e.threads[enabled[0]])
			continue
		}
		c := e.at(depth, enabled)
		if c == nil {
			redundant = true
			e.Redundant++
			e.advance(e.threads[enabled[0]])
			continue
		}
		if !slices.Equal(c.enabled, enabled) {
			return fmt.Errorf("execution %d is not repeatable: %v, then %v may run at step %d\n%s",
				e.Runs, c.enabled, enabled, depth, strings.Join(trace, "\n"))
		}
		t := e.threads[c.chosen]
		trace = append(trace, fmt.Sprintf("%3d thread %d %s", depth, t.id, e.name(t.next)))
		e.advance(t)
		c.tried[t.id] = append([]access{}, t.touched...)
		if e.BetweenSteps != nil {
			e.BetweenSteps()
		}
		e.Steps = max(e.Steps, depth+1)
	}
	e.cur = nil
	err := e.finish()
	if err == nil && !redundant {
		e.Runs++
		err = r.Check()
	}
	if err != nil {
		return fmt.Errorf("%w\nschedule:\n%s", err, strings.Join(trace, "\n"))
	}
	return nil
}

// start runs every thread up to its first step.
func (e *Explorer) start(r *ExploredRun) {
	e.focus = map[*rwLock]string{}
	if r.Store != nil {
		e.focusOn(r)
	}
	e.threads = nil
	for i, f := range r.Threads {
		t := &explored{id: i, resume: make(chan struct{})}
		t.Pause = func() { e.park(access{what: sharedNothing}) }
		e.threads = append(e.threads, t)
		go func() {
			<-t.resume
			t.err = f(&t.ExploredThread)
			t.done = true
			e.parked <- struct{}{}
		}()
		e.advance(t)
	}
}

// focusOn names the locks that the threads of a run contend for.
func (e *Explorer) focusOn(r *ExploredRun) {
	e.focus[&r.Store.passMu] = "pass"
	for _, sh := range r.Store.shards {
		e.focus[&sh.spanMu] = "spanMu"
		e.focus[&r.Store.tableByID(r.Phys).parts[sh.idx].spans.mu] = "map"
	}
	for i, k := range r.Stripes {
		sh := r.Store.shards[r.Store.shardOf(k.Token)]
		e.focus[&sh.stripes[stripeOf(k.Token)]] = fmt.Sprintf("stripe %d", i)
	}
}

func (e *Explorer) advance(t *explored) {
	t.touched = t.touched[:0]
	e.cur = t
	t.resume <- struct{}{}
	<-e.parked
}

func (e *Explorer) runnable() (ids []int) {
	for _, t := range e.threads {
		if t.enabled() {
			ids = append(ids, t.id)
		}
	}
	return ids
}

// at is the choice at a depth; a new one unless this execution repeats the
// beginning of the last. It is nil where everything that may run was tried.
func (e *Explorer) at(depth int, enabled []int) *choice {
	if depth < len(e.stack) {
		return e.stack[depth]
	}
	if depth < len(e.Follow) {
		return e.push(&choice{enabled: enabled, chosen: e.Follow[depth]})
	}
	c := &choice{enabled: enabled, chosen: -1, sleep: map[int][]access{}, tried: map[int][]access{}}
	if depth > 0 {
		p := e.stack[depth-1]
		did := p.tried[p.chosen]
		for _, from := range []map[int][]access{p.sleep, p.tried} {
			for id, a := range from {
				if id != p.chosen && !conflict(a, did) {
					c.sleep[id] = a
				}
			}
		}
	}
	for _, id := range enabled {
		if c.sleep[id] == nil {
			c.chosen = id
			return e.push(c)
		}
	}
	return nil
}

func (e *Explorer) push(c *choice) *choice {
	if c.tried == nil {
		c.sleep, c.tried = map[int][]access{}, map[int][]access{}
	}
	e.stack = append(e.stack, c)
	return c
}

// Schedule is the order of the execution at hand.
func (e *Explorer) Schedule() (ids []int) {
	for _, c := range e.stack {
		ids = append(ids, c.chosen)
	}
	return ids
}

// finish collects the threads' errors; one that still waits is in a deadlock.
func (e *Explorer) finish() error {
	for _, t := range e.threads {
		if !t.done {
			return fmt.Errorf("thread %d waits for ever for %s", t.id, e.name(t.next))
		}
		if t.err != nil {
			return fmt.Errorf("thread %d: %w", t.id, t.err)
		}
	}
	return nil
}

func (e *Explorer) name(a access) string {
	how := map[bool]string{false: "reads", true: "writes"}[a.write]
	if a.lock != nil {
		return map[bool]string{false: "locks shared ", true: "locks "}[a.write] + e.focus[a.lock]
	}
	return how + " " + [...]string{"data", "epoch", "counts", "heads flag", "nothing"}[a.what]
}
