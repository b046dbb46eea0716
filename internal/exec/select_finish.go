package exec

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/store"
)

// finish makes the answer of a read that went well.
func (r *selectRun) finish() (*Result, error) {
	sp := r.plan
	if r.sorter != nil {
		r.sorter.flush(r)
	}
	if w := sp.where; w.keyRange || w.usesIndex {
		r.report(nil)
	}
	r.x.trace.Stage(requestThread)
	res := &Result{
		Kind: cqlwire.ResultRows, Columns: sp.columns, Count: r.count, Data: r.data.b, Release: r.data.release,
	}
	if r.next != nil {
		res.PagingState = r.next.encode(sp.table)
	}
	r.data = nil
	return res, nil
}

// counted is the number of tombstones that the thresholds are about.
func (r *selectRun) counted() int64 {
	if r.x.e.opts.Limits.TombstonesAll.Load() {
		return r.stats.Walked + r.stats.JumpTombs
	}
	return r.stats.Walked
}

// report traces what was read and warns, in the answer and in the log, of many
// tombstones. failed is the error of a read that gave up on them. A read of
// several named partitions is reported for each, and counts each by itself.
func (r *selectRun) report(failed *store.TombstoneError) {
	if r.plan.virtual != nil {
		return
	}
	x := r.x
	r.noteWalk()
	n := r.counted()
	if failed != nil {
		n = max(n, failed.Count)
	}
	warn := x.e.opts.Limits.TombstoneWarn.Load()
	over := warn > 0 && n > warn
	if x.trace != nil {
		text := fmt.Sprintf("Read %d live rows and %d tombstone cells", r.live, n)
		if over {
			text += " (see tombstone_warn_threshold)"
		}
		x.trace.Event("%s", text)
		x.trace.Event("%d live, %d tombstones walked, %d jumped in %d spans",
			r.live, r.stats.Walked, r.stats.Jumped, r.stats.Spans)
	}
	if over {
		text := fmt.Sprintf("Read %d live rows and %d tombstone cells for query %.*s; token %d "+
			"(see tombstone_warn_threshold)",
			r.live, n, maxQueryText, r.queryText(), r.lastToken(failed))
		x.warnings = append(x.warnings, text)
		x.e.opts.Logger.Warn(text)
	}
	r.total.Add(&r.stats)
	r.live, r.stats = 0, store.ReadStats{}
}

// maxQueryText bounds a query's text in a warning, as in Cassandra.
const maxQueryText = 512

// lastToken is the token of the partition read last.
func (r *selectRun) lastToken(failed *store.TombstoneError) int64 {
	switch {
	case failed != nil:
		return failed.Token
	case r.tokenSet:
		return r.lastTok
	case len(r.sc.keys) > 0:
		return r.sc.keys[max(0, min(r.at, len(r.sc.keys)-1))].Token
	}
	return 0
}

// failed turns the error that ended a read into the one that the client gets.
func (r *selectRun) failed(err error) error {
	var tomb *store.TombstoneError
	switch {
	case errors.As(err, &tomb):
		return r.tooManyTombstones(tomb)
	case errors.Is(err, store.ErrDeadline), errors.Is(err, context.DeadlineExceeded):
		r.report(nil)
		return &cqlwire.Error{
			Code: cqlwire.ErrReadTimeout, Message: "Operation timed out - received only 0 responses.",
			Consistency: r.x.p.Consistency, Required: 1, Warnings: r.x.warnings,
		}
	}
	return err
}

// loopback is the address that replicas of an unknown address are given.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

func (r *selectRun) tooManyTombstones(t *store.TombstoneError) error {
	x := r.x
	if x.trace != nil {
		x.trace.Event("Scanned over %d tombstones for query %s; query aborted (see tombstone_failure_threshold)",
			x.e.opts.Limits.TombstoneFail.Load(), r.queryText())
	}
	r.report(t)
	x.e.opts.Logger.Error(fmt.Sprintf("Scanned over %d tombstones during query '%s' "+
		"(last scanned row token was %d and partion key was (%s)); query aborted",
		t.Count, r.queryText(), t.Token, r.lastKeyText(t)))
	x.trace.Stage(requestThread)
	x.trace.Event("Failed; received 0 of 1 responses")
	addr := x.e.opts.Node.Address.Addr()
	if !addr.IsValid() || addr.IsUnspecified() {
		addr = loopback
	}
	return &cqlwire.Error{
		Code: cqlwire.ErrReadFailure,
		Message: fmt.Sprintf("Operation failed - received 0 responses and 1 failures: READ_TOO_MANY_TOMBSTONES from /%s:%d",
			addr, storagePort),
		Warnings:    x.warnings,
		Consistency: x.p.Consistency,
		Required:    1,
		Failures:    []cqlwire.Failure{{Addr: addr, Code: 1}},
	}
}

// lastKeyText is the last row scanned: its partition key in parentheses, then
// its clustering.
func (r *selectRun) lastKeyText(t *store.TombstoneError) string {
	tab := r.plan.table
	comps, err := t.LastKey.Components(tab)
	if err != nil {
		return ""
	}
	text := make([]string, len(comps))
	for i, c := range comps {
		text[i] = plainText(tab.PartitionKey[i].Type, c)
	}
	s := "(" + strings.Join(text, ", ") + ")"
	for i, c := range t.LastRow {
		s += ", " + plainText(tab.Clustering[i].Type, c)
	}
	return s
}

// plainText is a value as Cassandra logs it: a literal without its quotes.
func plainText(t *cqltype.Type, b []byte) string {
	s := string(cqltype.FormatLiteral(nil, t, b))
	if n := len(s); n >= 2 && s[0] == '\'' && s[n-1] == '\'' {
		return strings.ReplaceAll(s[1:n-1], "''", "'")
	}
	return s
}
