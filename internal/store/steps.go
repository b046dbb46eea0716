package store

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// stepper lets tests decide which of several goroutines takes the next step of
// the protocol of docs/design/dead-spans.md. Every access to what goroutines
// share there is announced before it is made: locks by acquire, all else by step.
type stepper interface {
	// acquire takes a lock when it is the goroutine's turn.
	acquire(l *rwLock, exclusive bool)
	// release is called just before a lock is released.
	release(l *rwLock)
	step(o shared, write bool)
	// broken reports that a rule of the protocol is to be broken, so that a
	// test can prove that this would be found.
	broken(r rule) bool
}

// shared is something that the protocol's goroutines share besides locks.
type shared uint8

const (
	sharedData  shared = iota // the committed state
	sharedEpoch               // the shard's epoch
	sharedBusy                // a table's counts of spans and intents
	sharedHeads               // a table's flag that it has head deletions
)

// rule is a rule of the protocol that a test can have broken.
type rule uint8

const (
	ruleNone            rule = iota
	ruleEpochChecked         // R3: a reader uses no span newer than its view
	ruleEpochFirst           // R1 comes before R2
	ruleViewFirst            // P1 comes before P2
	ruleDrained              // P1 waits for the writers under way
	ruleLockedPublish        // P3 to P7 are under the exclusive stripe
	ruleDirtyCut             // P4 cuts what was written meanwhile
	ruleDeadRaised           // P4 keeps tombstones written meanwhile
	ruleEpochRaised          // P5 and P6
	ruleCutFirst             // W4 comes before W5
	ruleTombstoneRaised      // W4 raises a span's newest deletion
	ruleRecordsOrdered       // spanMu is held from the map's change to the commit
	rulePurgeChecked         // a purge looks whether the span is still the same
	ruleCutRecorded          // a cut's record is in the batch of the write
	ruleSpanClipped          // P2 takes in a span only within the scan's bounds
)

// step announces a step to the tests that decide on the order of steps.
func (s *Store) step(o shared, write bool) {
	if s.steps != nil {
		s.steps.step(o, write)
	}
}

// keeps reports that a rule is kept: always, but in tests.
func (s *Store) keeps(r rule) bool { return s.steps == nil || !s.steps.broken(r) }

// brokenEpoch breaks the rules about epochs that a test wants broken.
func (v *View) brokenEpoch(sh *shard, epoch uint64) uint64 {
	switch {
	case v.s.steps.broken(ruleEpochFirst):
		v.s.step(sharedEpoch, false)
		return sh.epoch.Load()
	case v.s.steps.broken(ruleEpochChecked):
		return ^uint64(0)
	}
	return epoch
}

// coalesceBroken is coalesce with the view opened before the scan is
// announced. It proves to a test of the order of steps that this would be found.
func (sh *shard) coalesceBroken(t *task, cur, lo, hi []byte) error {
	m, set := &t.tbl.parts[sh.idx].spans, t.stripes()
	sc, err := sh.newScan(t.tbl, lo, hi)
	if err != nil {
		return err
	}
	in := sh.announce(m, &set, lo, hi)
	_, err = sc.walk(cur, t.hi)
	err = errors.Join(err, sc.close())
	sh.lock(&set)
	defer sh.unlock(&set)
	m.finish(in)
	return errors.Join(err, sh.publish(t.tbl, sc.runs, in))
}

// commitBroken is commitGuarded with the spans cut after the commit, their
// records in a batch of their own.
func (sh *shard) commitBroken(pb *pebble.Batch, b *Batch) (*pebble.Batch, error) {
	records := sh.db.NewBatch()
	if !sh.s.keeps(ruleCutFirst) {
		err := errors.Join(sh.commit(pb, b), sh.keepSpans(records, b), sh.write(records, pebble.NoSync))
		return pb, errors.Join(err, records.Close())
	}
	err := errors.Join(sh.keepSpans(records, b), sh.commit(pb, b), sh.write(records, pebble.NoSync))
	return pb, errors.Join(err, records.Close())
}
