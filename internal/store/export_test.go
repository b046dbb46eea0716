package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"varve/internal/schema"
)

// Rules that a test may have broken.
const (
	RuleNone            = ruleNone
	RuleEpochChecked    = ruleEpochChecked
	RuleEpochFirst      = ruleEpochFirst
	RuleViewFirst       = ruleViewFirst
	RuleDrained         = ruleDrained
	RuleLockedPublish   = ruleLockedPublish
	RuleDirtyCut        = ruleDirtyCut
	RuleSpanClipped     = ruleSpanClipped
	RuleDeadRaised      = ruleDeadRaised
	RuleEpochRaised     = ruleEpochRaised
	RuleCutFirst        = ruleCutFirst
	RuleTombstoneRaised = ruleTombstoneRaised
	RuleRecordsOrdered  = ruleRecordsOrdered
	RuleCutRecorded     = ruleCutRecorded
)

// Rule is a rule of the protocol of dead spans.
type Rule = rule

// UseExplorer makes a store's options those of a test that explores the order of
// steps: spans may be of few rows.
func UseExplorer(o *Options, e *Explorer, spanRows int64) {
	if e != nil {
		o.steps = e
	}
	o.spanRows, o.pieceRows = spanRows, 1
}

// Coalesce looks for dead rows in a partition, or, without a key, in all of the table.
func (s *Store) Coalesce(ctx context.Context, t *schema.Table, k *Key, sweep bool) error {
	tbl := s.tableFor(t)
	for _, sh := range s.shards {
		x := &task{sh: sh, tbl: tbl, sweep: sweep}
		if k == nil {
			x.lo = appendTablePrefix(nil, t.PhysID, familyRow)
			x.hi = prefixEnd(x.lo)
		} else {
			if s.shardOf(k.Token) != sh.idx {
				continue
			}
			x.lo = appendPartition(nil, t.PhysID, familyRow, *k)
			x.prefix = len(x.lo)
			x.hi = append(append([]byte(nil), x.lo...), suffixEnd)
		}
		if err := s.runTask(ctx, x); err != nil {
			return err
		}
	}
	return nil
}

// Purge removes the rows of a table's spans that may go.
func (s *Store) Purge(ctx context.Context, t *schema.Table) error {
	return s.purgeSpans(ctx, s.tableFor(t))
}

// SweepRows purges a table's rows outside spans.
func (s *Store) SweepRows(ctx context.Context, t *schema.Table) error {
	tbl := s.tableFor(t)
	var left tombs
	for _, sh := range s.shards {
		if err := sh.sweepRows(ctx, tbl, s.gcBefore(tbl), false, &left); err != nil {
			return err
		}
	}
	return nil
}

// SweepHeads purges a table's range and partition deletions.
func (s *Store) SweepHeads(ctx context.Context, t *schema.Table) error {
	tbl := s.tableFor(t)
	var left tombs
	for _, sh := range s.shards {
		if err := sh.sweepHeads(ctx, tbl, s.gcBefore(tbl), &left); err != nil {
			return err
		}
	}
	return nil
}

// SpanCount is how many spans a table has.
func (s *Store) SpanCount(t *schema.Table) (n int64) {
	for i := range s.shards {
		n += s.tableFor(t).parts[i].spans.n.Load()
	}
	return n
}

// CheckSpans proves that a table's spans are true of what is stored: every row
// in one is dead, by nothing newer than it says, and the records beside the
// rows are those of the spans in memory.
func (s *Store) CheckSpans(t *schema.Table) error {
	tbl := s.tableFor(t)
	for _, sh := range s.shards {
		if err := sh.checkSpans(tbl); err != nil {
			return err
		}
	}
	return nil
}

func (sh *shard) checkSpans(tbl *table) error {
	records := map[string]*span{}
	prefix := appendTablePrefix(nil, tbl.phys, familySpan)
	it, err := sh.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return err
	}
	for it.First(); it.Valid(); it.Next() {
		x, ok := decodeSpan(it.Key(), it.Value())
		if !ok {
			return errors.Join(fmt.Errorf("record of a span at %x cannot be read", it.Key()), it.Close())
		}
		records[x.lo] = x
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return err
	}
	prev := ""
	for _, c := range tbl.parts[sh.idx].spans.chunks {
		for _, x := range c {
			r := records[x.lo]
			switch {
			case x.lo >= x.hi || x.lo < prev:
				return fmt.Errorf("spans out of order at %x", x.lo)
			case r == nil || r.hi != x.hi || r.newest < x.newest || r.expiry != x.expiry:
				return fmt.Errorf("span %x..%x newest %d: its record is %+v", x.lo, x.hi, x.newest, r)
			case x.epoch > sh.epoch.Load():
				return fmt.Errorf("span %x..%x has an epoch to come", x.lo, x.hi)
			}
			delete(records, x.lo)
			prev = x.hi
			if err := sh.checkSpan(tbl, x); err != nil {
				return err
			}
		}
	}
	for lo, x := range records {
		return fmt.Errorf("record of a span %x..%x of which memory knows nothing", lo, x.hi)
	}
	return nil
}

func (sh *shard) checkSpan(tbl *table, x *span) error {
	sc, err := sh.newScan(tbl, []byte(x.lo), []byte(x.hi))
	if err != nil {
		return err
	}
	sc.now = max(sc.now, x.expiry)
	for valid := sc.it.First(); valid && err == nil; valid = sc.it.Next() {
		var f fate
		if f, err = sc.fate(sc.it.Key()); err != nil {
			break
		}
		switch {
		case f.live:
			err = fmt.Errorf("span %x..%x covers the live row %x", x.lo, x.hi, sc.it.Key())
		case f.newest > x.newest:
			err = fmt.Errorf("span %x..%x may go after %d, its row %x only after %d", x.lo, x.hi, x.newest, sc.it.Key(), f.newest)
		}
	}
	return errors.Join(err, sc.close())
}

// SyncJournals makes all that is committed survive a power cut.
func (s *Store) SyncJournals() error { return s.syncAll() }

// SpanText lists a table's spans.
func (s *Store) SpanText(t *schema.Table) string {
	text := ""
	for i := range s.shards {
		for _, c := range s.tableFor(t).parts[i].spans.chunks {
			for _, x := range c {
				text += fmt.Sprintf("[%x %x %d %d]", x.lo[tablePrefixBytes:], x.hi[tablePrefixBytes:], x.newest, x.rows)
			}
		}
	}
	return text
}

// SharedSteps is a thread that touches one thing n times.
func (e *Explorer) SharedSteps(n, what int, write bool) {
	for range n {
		e.step(shared(what), write)
	}
}
