package exec

import (
	"bytes"
	"context"
	"errors"
	"sort"
	"time"

	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
)

const (
	// maxStale bounds the stale entries that one read removes.
	maxStale = 128
	// maxSortedEntries bounds the entries of an index range that are put in
	// token order, which grouping by partition needs.
	maxSortedEntries = 1_000_000
)

// indexRead is a read through an index.
type indexRead struct {
	x       *schema.Index
	driver  *restriction
	entry   store.IndexEntry
	onlyRow []store.Slice // the slice of the entry's row
	slices  []store.Slice // what clustering restrictions allow; nil: all
	tokens  store.TokenRange
	values  [][]byte // scratch
	sorted  bool     // entries are put in token order
	// passed is a partition of which an earlier page returned all it may.
	passed *store.Key
	stale  []store.IndexEntry
}

// mark notes the entry at hand in a page's state.
func (ir *indexRead) mark(s *pageState) {
	s.hasIndex = true
	s.indexValue = bytes.Clone(ir.entry.Value)
	s.index = ir.x.PhysID
	s.static = ir.static()
	s.valueOrder = ir.driver.op == restrictSlice && !ir.sorted
}

func (ir *indexRead) static() bool { return ir.x.Column.Kind == schema.Static }

// chooseIndex picks the restriction to read the index of: equalities before
// CONTAINS before ranges.
func (w *where) chooseIndex() (x *schema.Index, r *restriction) {
	best := -1
	for _, f := range append(append(append([]*restriction(nil), w.other...), w.clustering...), w.partition...) {
		if f == nil {
			continue
		}
		rank := 0
		switch f.op {
		case restrictEq:
			rank = 3
		case restrictContains:
			rank = 2
		case restrictSlice:
			rank = 1
		}
		for _, i := range w.t.Indexes {
			if rank <= best {
				break
			}
			for _, c := range f.cols {
				if i.Column == c && indexSupports(i, f) {
					x, r, best = i, f, rank
				}
			}
		}
	}
	return x, r
}

// bounds are the values to look for.
func (ir *indexRead) bounds(x *execution) (q store.IndexQuery, err error) {
	f := boundFilter{r: ir.driver}
	if err := f.bind(x); err != nil {
		return q, err
	}
	one := func(v []byte) store.IndexQuery {
		return store.IndexQuery{Lo: v, Hi: v, LoInclusive: true, HiInclusive: true}
	}
	switch ir.driver.op {
	case restrictEq:
		for i, c := range ir.driver.cols {
			if c == ir.x.Column {
				return one(f.eq[i]), nil
			}
		}
	case restrictContains:
		switch ir.x.Target {
		case "keys":
			return one(f.keys[0]), nil
		case "entries":
			return one(cqltype.AppendTuple(nil, f.entries[0][:])), nil
		}
		return one(f.contains[0]), nil
	}
	q.Lo, q.Hi = f.lo, f.hi
	q.LoInclusive = ir.driver.lo != nil && ir.driver.lo.inclusive
	q.HiInclusive = ir.driver.hi != nil && ir.driver.hi.inclusive
	return q, nil
}

// readIndex reads rows through an index. Entries are hints: each row is
// checked, and entries that do not hold any more are removed.
func (r *selectRun) readIndex(ctx context.Context) error {
	w := r.plan.where
	for _, fs := range [...][]boundFilter{r.keyFilters, r.staticFilters, r.rowFilters} {
		if err := checkIndexable(fs); err != nil {
			return err
		}
	}
	ir, err := r.pickIndex()
	if err != nil {
		return err
	}
	r.index = ir
	q, err := ir.bounds(r.x)
	if err != nil {
		return err
	}
	empty := false
	if ir.tokens, empty, err = r.tokenBounds(); err != nil {
		return err
	}
	if w.wholeKey() {
		if err := w.appendKeys(r.x, &r.sc); err != nil {
			return err
		}
		q.Partition = &r.sc.keys[0]
	}
	all, _, err := w.appendSlices(r.x, &r.sc)
	if err != nil {
		return err
	}
	if !all {
		if ir.slices = r.sc.slices; len(ir.slices) == 0 {
			empty = true
		}
	}
	if empty {
		return r.closeGroups()
	}
	r.x.trace.Event("Executing read on %s.%s using index %s", r.plan.table.Keyspace, r.plan.table.Name, ir.x.Name)
	if s := r.resume; s != nil && s.valueOrder && s.index != ir.x.PhysID {
		return errPagingState
	}
	if ir.driver.op == restrictSlice && r.needsTokenOrder() {
		ir.sorted = true
		err = r.readSorted(ctx, q)
	} else {
		err = r.readEntries(ctx, q)
	}
	if err == errFull {
		err = nil
	} else if err == nil {
		err = r.closeGroups()
	}
	r.removeStale()
	return err
}

// needsTokenOrder: partitions must come one after another, or the pages before
// came from a read in token order (the index is younger than they are).
func (r *selectRun) needsTokenOrder() bool {
	s := r.resume
	return r.plan.groupBy || r.perLimit != noLimit || (s != nil && s.key != nil && !s.valueOrder)
}

func (r *selectRun) readEntries(ctx context.Context, q store.IndexQuery) error {
	ir, t := r.index, r.plan.table
	if s := r.resume; s != nil && s.key != nil {
		k, err := store.KeyOf(t, s.key)
		if err != nil {
			return errPagingState
		}
		if err := r.resumeEntries(ctx, &q, s, k); err != nil {
			return err
		}
	}
	it := r.view.Index(t, ir.x, q)
	err := r.eachEntry(ctx, it)
	if cerr := it.Close(); err == nil {
		err = cerr
	}
	return err
}

// resumeEntries sets q to go on where the page before ended. That may have
// been a read of another kind, if the index was made meanwhile: entries of one
// value are in token order as rows are.
func (r *selectRun) resumeEntries(ctx context.Context, q *store.IndexQuery, s *pageState, k store.Key) error {
	ir := r.index
	after := &store.IndexEntry{Value: q.Lo, Key: k, Clustering: s.clustering}
	if s.hasIndex && s.index == ir.x.PhysID {
		after.Value = s.indexValue
	}
	if s.done && len(s.clustering) == 0 {
		ir.passed = &k
	}
	if ir.static() {
		after.Clustering = nil
		if !s.done {
			// The page ended inside the entry's partition: go on there first.
			ir.entry = store.IndexEntry{Value: after.Value, Key: k}
			if err := r.readEntry(ctx, s.clustering); err != nil {
				return err
			}
			ir.passed = &k
		}
	} else if after.Clustering == nil {
		after.Clustering = [][]byte{}
		if len(r.plan.table.Clustering) > 0 {
			after.Clustering = nil // the partition's first entry; passed leaves out the rest
		}
	}
	q.After = after
	return nil
}

func (r *selectRun) eachEntry(ctx context.Context, it *store.IndexIter) error {
	ir := r.index
	for n := 0; ; n++ {
		if n%64 == 63 {
			if err := r.checkTime(ctx); err != nil {
				return r.shortIndexPage(err)
			}
		}
		if !it.Next() {
			return nil
		}
		ir.entry = it.Entry()
		if ir.passed != nil && ir.passed.Equal(ir.entry.Key) {
			continue
		}
		if err := r.readEntry(ctx, nil); err != nil {
			return err
		}
	}
}

// shortIndexPage ends a page at the deadline, past the entry at hand.
func (r *selectRun) shortIndexPage(err error) error {
	if !errors.Is(err, store.ErrDeadline) || !r.paging || r.plan.grouped {
		return err
	}
	e := &r.index.entry
	key, kerr := e.Key.Components(r.plan.table)
	if kerr != nil {
		return kerr
	}
	var ck [][]byte
	if e.Clustering != nil {
		ck = copyAll(make([][]byte, 0, len(e.Clustering)), e.Clustering)
	}
	r.next = r.pageAt(key, ck, r.index.static() || len(ck) == 0, r.perLeft)
	return errFull
}

// checkTime ends an index read at its deadline.
func (r *selectRun) checkTime(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !r.deadline.IsZero() && time.Now().After(r.deadline) {
		return store.ErrDeadline
	}
	return nil
}

// readSorted reads a range of the index with its entries in token order.
func (r *selectRun) readSorted(ctx context.Context, q store.IndexQuery) error {
	ir, t := r.index, r.plan.table
	var entries []store.IndexEntry
	it := r.view.Index(t, ir.x, q)
	for it.Next() {
		if len(entries)%64 == 63 {
			if err := r.checkTime(ctx); err != nil {
				return errors.Join(err, it.Close())
			}
		}
		if len(entries) == maxSortedEntries {
			_ = it.Close()
			return invalidf("The index range holds more than %d entries, too many to be grouped by partition",
				maxSortedEntries)
		}
		entries = append(entries, cloneEntry(it.Entry()))
	}
	if err := it.Close(); err != nil {
		return err
	}
	order := func(a, b *store.IndexEntry) int {
		if a.Key.Token != b.Key.Token {
			if a.Key.Token < b.Key.Token {
				return -1
			}
			return 1
		}
		if !a.Key.Equal(b.Key) {
			return compareKeys(t, a.Key, b.Key)
		}
		return comparePrefix(t.Clustering, a.Clustering, b.Clustering)
	}
	sort.SliceStable(entries, func(i, j int) bool { return order(&entries[i], &entries[j]) < 0 })
	var from *store.IndexEntry
	if s := r.resume; s != nil && s.key != nil {
		k, err := store.KeyOf(t, s.key)
		if err != nil {
			return errPagingState
		}
		from = &store.IndexEntry{Value: s.indexValue, Key: k, Clustering: s.clustering}
	}
	for i := range entries {
		var inside [][]byte // the row behind which a page ended in the entry's partition
		if from != nil {
			n := order(&entries[i], from)
			if n < 0 || (n == 0 && (r.resume.done || !ir.static() && from.Clustering != nil)) {
				continue
			}
			if n == 0 && ir.static() {
				inside = from.Clustering
			}
		}
		if i%64 == 0 {
			if err := r.checkTime(ctx); err != nil {
				return err
			}
		}
		ir.entry = entries[i]
		if err := r.readEntry(ctx, inside); err != nil {
			return err
		}
	}
	return nil
}

// compareKeys orders two keys of one token as the store does: by their values.
func compareKeys(t *schema.Table, a, b store.Key) int {
	x, err := a.Components(t)
	if err != nil {
		return -1
	}
	y, err := b.Components(t)
	if err != nil {
		return 1
	}
	return comparePrefix(t.PartitionKey, x, y)
}

func cloneEntry(e store.IndexEntry) store.IndexEntry {
	c := store.IndexEntry{Value: bytes.Clone(e.Value), Key: e.Key.Clone()}
	if e.Clustering != nil {
		c.Clustering = copyAll(make([][]byte, 0, len(e.Clustering)), e.Clustering)
	}
	return c
}

// readEntry reads the row that the entry at hand points to, or, for a static
// column, its partition's rows past from.
func (r *selectRun) readEntry(ctx context.Context, from [][]byte) error {
	ir, sp := r.index, r.plan
	e := &ir.entry
	if !inRange(&ir.tokens, e.Key.Token) {
		return nil
	}
	keyOnly := !ir.static() && e.Clustering == nil && len(sp.table.Clustering) > 0
	q := store.RowQuery{NoStatic: !sp.readStatic && !ir.static() && !keyOnly}
	switch {
	case keyOnly:
		return r.readKeyEntry(q)
	case ir.static():
		q.Slices = ir.slices
		if from != nil {
			q.Slices = slicesAfter(sp.table, ir.slices, from, false)
		}
	case len(sp.table.Clustering) > 0:
		if ir.slices != nil && !inSlices(sp.table, ir.slices, e.Clustering) {
			return nil
		}
		b := store.Bound{Prefix: e.Clustering, Inclusive: true}
		ir.onlyRow = append(ir.onlyRow[:0], store.Slice{Start: b, End: b})
		q.Slices = ir.onlyRow
	}
	rows := r.view.Partition(sp.table, e.Key, q)
	err := r.scanEntry(rows, from != nil)
	if cerr := rows.Close(); err == nil {
		err = cerr
	}
	return err
}

// readKeyEntry takes in the static row that an entry of an index on the
// partition key points to, when the partition has no other rows: those have
// entries of their own.
func (r *selectRun) readKeyEntry(q store.RowQuery) error {
	ir, sp, c := r.index, r.plan, &r.ctx
	rows := r.view.Partition(sp.table, ir.entry.Key, q)
	found := rows.NextPartition()
	if found {
		c.key, c.row, c.static = rows.KeyComponents(), nil, rows.Static()
	}
	more := found && rows.Next()
	var err error
	switch {
	case !found && rows.Err() == nil:
		r.noteStale()
	case found && !more && rows.Err() == nil && sp.staticRow && c.static != nil &&
		passes(c, r.keyFilters) && passes(c, r.staticFilters):
		r.partition = copyAll(r.partition, c.key)
		r.perLeft = r.perLimit
		err = r.take()
	}
	if cerr := rows.Close(); err == nil {
		err = cerr
	}
	return err
}

// scanEntry takes in what readEntry found.
func (r *selectRun) scanEntry(rows *store.Rows, resumed bool) error {
	ir, sp, c := r.index, r.plan, &r.ctx
	if !rows.NextPartition() {
		if rows.Err() == nil {
			r.noteStale()
		}
		return rows.Err()
	}
	c.key = rows.KeyComponents()
	r.lastTok, r.tokenSet = ir.entry.Key.Token, true
	c.row, c.static = nil, nil
	if sp.readStatic || ir.static() {
		c.static = rows.Static()
	}
	if !sameComponents(c.key, r.partition) {
		r.partition = copyAll(r.partition, c.key)
		r.perLeft = r.perLimit
		if s := r.resume; s != nil && s.perPartition >= 0 && sameComponents(c.key, s.key) {
			r.perLeft = min(r.perLimit, s.perPartition)
		}
	}
	if ir.static() {
		if !holdsIndexValue(ir.values, ir.x, c, ir.entry.Value) {
			r.noteStale()
			return nil
		}
		return r.scanPartition(rows, resumed)
	}
	if !rows.Next() {
		if rows.Err() == nil {
			r.noteStale()
		}
		return rows.Err()
	}
	c.row = rows.Row()
	if !holdsIndexValue(ir.values, ir.x, c, ir.entry.Value) {
		r.noteStale()
		return nil
	}
	if !passes(c, r.keyFilters) || !passes(c, r.staticFilters) || !passes(c, r.rowFilters) {
		return nil
	}
	if r.perLeft <= 0 && !r.group.open {
		return nil
	}
	return r.take()
}

func (r *selectRun) noteStale() {
	if ir := r.index; len(ir.stale) < maxStale {
		ir.stale = append(ir.stale, cloneEntry(ir.entry))
	}
}

// removeStale removes the stale entries met, each only if a look at the row
// under its partition's lock still finds it so.
func (r *selectRun) removeStale() {
	ir, t := r.index, r.plan.table
	now := r.x.nowSec
	for _, e := range ir.stale {
		still := func(v *store.View) bool { return EntryIsStale(v, t, ir.x, e) }
		if r.x.p.HasNow && now > r.x.e.opts.Clock().Unix() {
			return // a read in the client's own future proves nothing
		}
		if err := r.st.RemoveStaleEntry(t, ir.x, e, still); err != nil {
			r.x.e.opts.Logger.Warn("remove stale index entry", "index", ir.x.Name, "error", err)
			return
		}
	}
}

// EntryIsStale looks an entry's row up: it reports that the row is dead in the
// view or has another value. The store's sweeper asks this as well (store.Options).
func EntryIsStale(v *store.View, t *schema.Table, x *schema.Index, e store.IndexEntry) bool {
	static := x.Column.Kind == schema.Static
	if x.Column.Kind == schema.PartitionKey && e.Clustering == nil && len(t.Clustering) > 0 {
		rows := v.Partition(t, e.Key, store.RowQuery{})
		found := rows.NextPartition()
		return rows.Close() == nil && !found
	}
	q := store.RowQuery{NoStatic: !static, StaticOnly: static}
	if !static && len(t.Clustering) > 0 {
		b := store.Bound{Prefix: e.Clustering, Inclusive: true}
		q.Slices = []store.Slice{{Start: b, End: b}}
	}
	rows := v.Partition(t, e.Key, q)
	c := rowContext{t: t}
	stale := true
	if rows.NextPartition() {
		c.key = rows.KeyComponents()
		if static {
			c.static = rows.Static()
		} else if rows.Next() {
			c.row = rows.Row()
		}
		if c.static != nil || c.row != nil {
			stale = !holdsIndexValue(nil, x, &c, e.Value)
		}
	}
	// An entry is kept when its row could not be read.
	return rows.Close() == nil && stale
}

// inSlices reports that a row lies in one of the slices.
func inSlices(t *schema.Table, slices []store.Slice, ck [][]byte) bool {
	for i := range slices {
		s := &slices[i]
		lo := comparePrefix(t.Clustering, ck, s.Start.Prefix)
		hi := comparePrefix(t.Clustering, ck, s.End.Prefix)
		if (lo > 0 || (lo == 0 && s.Start.Inclusive)) && (hi < 0 || (hi == 0 && s.End.Inclusive)) {
			return true
		}
	}
	return false
}
