package exec

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"varve/internal/cqlfunc"
	"varve/internal/cqlwire"
	"varve/internal/schema"
	"varve/internal/store"
)

const (
	// maxResultBytes bounds the answer to a read without paging.
	maxResultBytes = 256 << 20
	// pageBytes ends a page early, however few rows it has.
	pageBytes = 32 << 20
	// keptBytes is the largest buffer kept for the next read.
	keptBytes = 1 << 20
)

const noLimit = math.MaxInt64

// dataBuffer holds an answer's rows until the server has sent them.
type dataBuffer struct {
	b       []byte
	release func()
}

var dataBuffers sync.Pool

func newDataBuffer() *dataBuffer {
	if d, ok := dataBuffers.Get().(*dataBuffer); ok {
		return d
	}
	d := &dataBuffer{}
	d.release = func() {
		if cap(d.b) <= keptBytes {
			d.b = d.b[:0]
			dataBuffers.Put(d)
		}
	}
	return d
}

// selectRun is one run of a SELECT. Runs are pooled: their buffers serve again.
type selectRun struct {
	plan *selectPlan
	x    *execution
	st   *store.Store
	view *store.View
	// stats and opts are the read's counts and bounds.
	stats store.ReadStats
	sc    whereScratch
	ctx   rowContext

	keyFilters, staticFilters, rowFilters []boundFilter

	limit    int64 // rows or groups still allowed in all
	perLimit int64 // in one partition
	perLeft  int64 // in this partition
	pageLeft int64 // in this page
	paging   bool
	count    int
	data     *dataBuffer

	at int // of the partition being read, among the keys

	group  groupState
	sorter *rowSorter
	resume *pageState
	next   *pageState // where the page ended; nil: the read is complete
	last   lastRow
	index  *indexRead
	// partition is the key of the partition that the last index entry was in.
	partition [][]byte
	live      int64
	// lastTok is the token of the partition read last, in reads of ranges.
	lastTok  int64
	tokenSet bool
	deadline time.Time
}

// lastRow is the place of the last row taken in.
type lastRow struct {
	key        [][]byte
	clustering [][]byte
	static     bool
	perLeft    int64
}

var selectRuns = sync.Pool{New: func() any { return new(selectRun) }}

// run carries the SELECT out.
func (sp *selectPlan) run(ctx context.Context, x *execution) (*Result, error) {
	if err := checkRead(x.p.Consistency); err != nil {
		return nil, err
	}
	r := selectRuns.Get().(*selectRun)
	defer r.free()
	r.plan, r.x = sp, x
	r.ctx.x, r.ctx.t = x, sp.table
	if err := r.begin(); err != nil {
		return nil, err
	}
	if err := r.read(ctx); err != nil {
		return nil, r.failed(err)
	}
	return r.finish()
}

// checkRead refuses consistency levels that a read cannot have or that one
// replica cannot meet.
func checkRead(cl cqlwire.Consistency) error {
	if cl == cqlwire.Any {
		return invalidf("ANY ConsistencyLevel is only supported for writes")
	}
	return checkLevel(cl)
}

func (r *selectRun) free() {
	if r.view != nil {
		// The read is over, and its own error has been seen.
		_ = r.view.Close()
	}
	r.sc.reset()
	if r.data != nil {
		r.data.release()
	}
	c := &r.ctx
	clear(c.cells[:cap(c.cells)])
	clear(c.elems[:cap(c.elems)])
	*r = selectRun{sc: r.sc, ctx: rowContext{cells: c.cells[:0], elems: c.elems[:0]}}
	selectRuns.Put(r)
}

// begin evaluates limits, filters and the paging state.
func (r *selectRun) begin() (err error) {
	sp, x := r.plan, r.x
	if r.limit, err = evalLimit(x, sp.limit); err != nil {
		return err
	}
	if r.perLimit, err = evalLimit(x, sp.perPartition); err != nil {
		return err
	}
	if r.keyFilters, err = bindFilters(x, sp.keyFilters); err != nil {
		return err
	}
	if r.staticFilters, err = bindFilters(x, sp.staticFilters); err != nil {
		return err
	}
	if r.rowFilters, err = bindFilters(x, sp.rowFilters); err != nil {
		return err
	}
	if sp.grouped {
		r.startAggregates()
	}
	r.pageLeft = noLimit
	if x.p.PageSize > 0 && !(sp.grouped && !sp.groupBy) {
		r.paging = true
		r.pageLeft = int64(x.p.PageSize)
		if r.resume, err = decodePage(sp.table, x.p.PagingState); err != nil {
			return err
		}
	}
	if sp.sorted {
		if r.paging {
			return invalidf("Cannot page queries with both ORDER BY and a IN restriction on the partition key; " +
				"you must either remove the ORDER BY or the IN and sort client side, or disable paging for this query")
		}
		r.sorter = newRowSorter(sp.sortCols)
	}
	if r.resume != nil && r.resume.remaining >= 0 {
		r.limit = min(r.limit, r.resume.remaining)
	}
	r.perLeft = r.perLimit
	r.data = newDataBuffer()
	return nil
}

func (r *selectRun) startAggregates() {
	sp := r.plan
	r.ctx.slots = make([][]byte, len(sp.slots))
	r.ctx.aggs = make([]cqlfunc.State, len(sp.aggs))
	for i, a := range sp.aggs {
		r.ctx.aggs[i] = a.agg.New()
	}
	switch w := sp.where; {
	case w.partitionEmpty() && w.token == nil:
		r.x.warnings = append(r.x.warnings, "Aggregation query used without partition key")
	case w.keyIn():
		r.x.warnings = append(r.x.warnings, "Aggregation query used on multiple partition keys (IN restriction)")
	}
}

// evalLimit is a limit's value; noLimit when there is none.
func evalLimit(x *execution, t term) (int64, error) {
	if t == nil {
		return noLimit, nil
	}
	v, err := t.eval(x)
	if err != nil {
		return 0, err
	}
	if v.Unset {
		return noLimit, nil
	}
	if v.Bytes == nil {
		return 0, invalidf("Invalid null value of limit")
	}
	if len(v.Bytes) != 4 {
		return 0, invalidf("Invalid limit value")
	}
	n := int32(uint32(v.Bytes[0])<<24 | uint32(v.Bytes[1])<<16 | uint32(v.Bytes[2])<<8 | uint32(v.Bytes[3]))
	if n <= 0 {
		return 0, invalidf("LIMIT must be strictly positive")
	}
	return int64(n), nil
}

// openView takes the state that the whole read sees.
func (r *selectRun) openView() {
	l := r.x.e.opts.Limits
	timeout := l.ReadTimeoutMillis.Load()
	if r.plan.where.keyRange || r.plan.where.usesIndex {
		timeout = l.RangeTimeoutMillis.Load()
	}
	if timeout > 0 {
		r.deadline = time.Now().Add(time.Duration(timeout) * time.Millisecond)
	}
	o := store.ReadOptions{
		NowSec: r.x.nowSec, FailAfter: l.TombstoneFail.Load(), CountAll: l.TombstonesAll.Load(), Stats: &r.stats,
	}
	if !r.plan.where.usesIndex {
		// Reads through an index watch the time between entries themselves.
		o.Deadline = r.deadline
	}
	r.view = r.st.View(o)
	r.x.trace.Stage(readThread)
}

// read takes all rows of the page in.
func (r *selectRun) read(ctx context.Context) error {
	sp := r.plan
	r.st = r.x.e.opts.Store
	switch {
	case sp.virtual != nil:
		return r.readVirtual(ctx)
	case sp.where.usesIndex:
		r.openView()
		return r.readIndex(ctx)
	case sp.where.keyRange:
		r.openView()
		return r.readRange(ctx)
	}
	return r.readKeys(ctx)
}

// errFull ends the read early: the page or a limit is full.
var errFull = errors.New("enough rows")

func (r *selectRun) query(slices []store.Slice) store.RowQuery {
	sp := r.plan
	return store.RowQuery{
		Slices: slices, Reverse: sp.reversed, StaticOnly: sp.distinct, NoStatic: !sp.readStatic && !sp.distinct,
	}
}

// readKeys reads the partitions that WHERE names.
func (r *selectRun) readKeys(ctx context.Context) error {
	w := r.plan.where
	if err := w.appendKeys(r.x, &r.sc); err != nil {
		return err
	}
	keys := r.sc.keys
	all, _, err := w.appendSlices(r.x, &r.sc)
	if err != nil {
		return err
	}
	slices := r.sc.slices
	if all {
		slices = nil
	} else if len(slices) == 0 {
		return r.closeGroups()
	}
	if w.token != nil {
		if keys, err = r.keysInToken(keys); err != nil {
			return err
		}
	}
	lock, err := r.serialLock(ctx, keys)
	if err != nil {
		return err
	}
	if lock != nil {
		defer lock.Unlock()
	}
	r.openView()
	if err := r.scanKeys(ctx, keys, slices); err != nil {
		return err
	}
	if lock != nil {
		return lock.Sync()
	}
	return nil
}

// serialLock keeps writers of the partition out while a SERIAL read goes on.
func (r *selectRun) serialLock(ctx context.Context, keys []store.Key) (*store.Lock, error) {
	switch r.x.p.Consistency {
	case cqlwire.Serial, cqlwire.LocalSerial:
	default:
		return nil, nil
	}
	if len(keys) > 1 {
		return nil, invalidf("SERIAL/LOCAL_SERIAL consistency may only be requested for one partition at a time")
	}
	if len(keys) == 0 {
		return nil, nil
	}
	return r.st.Lock(ctx, r.plan.table, keys...)
}

func (r *selectRun) scanKeys(ctx context.Context, keys []store.Key, slices []store.Slice) error {
	sp := r.plan
	first := 0
	var from [][]byte
	if r.resume != nil && r.resume.key != nil {
		var err error
		if first, err = r.resumeAt(keys); err != nil {
			return err
		}
		from = r.resume.clustering
	}
	single := len(keys) == 1 && len(r.sc.comps) == len(sp.table.PartitionKey)
	for i := first; i < len(keys); i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.at = i
		q := r.query(slices)
		resumed := i == first && r.resume != nil && r.resume.key != nil
		if resumed {
			if from != nil {
				q.Slices = slicesAfter(sp.table, slices, from, sp.reversed)
			}
		}
		if r.x.trace != nil {
			r.x.trace.Event("Executing single-partition query on %s", sp.table.Name)
		}
		rows := r.view.Partition(sp.table, keys[i], q)
		err := r.scan(ctx, rows, single, resumed)
		if cerr := rows.Close(); err == nil {
			err = cerr
		}
		if err == nil || err == errFull {
			r.report(nil)
		}
		if err == errFull {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return r.closeGroups()
}

// resumeAt finds the partition at which the page starts.
func (r *selectRun) resumeAt(keys []store.Key) (int, error) {
	k, err := store.KeyOf(r.plan.table, r.resume.key)
	if err != nil {
		return 0, errPagingState
	}
	for i := range keys {
		if !keys[i].Equal(k) {
			continue
		}
		if r.resume.done {
			r.resume.key = nil
			return i + 1, nil
		}
		return i, nil
	}
	return 0, errPagingState
}

// scan takes the rows of one iterator in. single: it has one partition, whose
// key is in the run's buffers; resumed: an earlier page began the partition
// at which this one starts, unless it has gone since.
func (r *selectRun) scan(ctx context.Context, rows *store.Rows, single, resumed bool) error {
	c, sp := &r.ctx, r.plan
	for rows.NextPartition() {
		if single {
			c.key = r.sc.comps
		} else {
			c.key = rows.KeyComponents()
			r.lastTok, r.tokenSet = rows.Key().Token, true
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		c.row, c.static = nil, nil
		if sp.readStatic {
			c.static = rows.Static()
		}
		r.perLeft = r.perLimit
		begun := resumed && sameComponents(c.key, r.resume.key)
		if begun && r.resume.perPartition >= 0 {
			r.perLeft = min(r.perLimit, r.resume.perPartition)
		}
		resumed = false
		if err := r.scanPartition(rows, begun); err != nil {
			return err
		}
	}
	if !single {
		// Partitions without a live row were passed, but read all the same.
		r.lastTok, r.tokenSet = rows.Key().Token, true
	}
	return r.stopped(rows.Err(), rows)
}

func (r *selectRun) scanPartition(rows *store.Rows, resumed bool) error {
	c, sp := &r.ctx, r.plan
	if !passes(c, r.keyFilters) || !passes(c, r.staticFilters) {
		return nil
	}
	if sp.distinct {
		return r.take()
	}
	any := false
	for (r.perLeft > 0 || r.group.open) && rows.Next() {
		c.row = rows.Row()
		if len(r.rowFilters) > 0 && !passes(c, r.rowFilters) {
			continue
		}
		any = true
		if err := r.take(); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return r.stopped(err, rows)
	}
	c.row = nil
	if !any && !resumed && sp.staticRow && c.static != nil {
		return r.take()
	}
	return nil
}

// stopped deals with what ended an iterator: at the deadline a paged read
// gives what it has and says from where to go on.
func (r *selectRun) stopped(err error, rows *store.Rows) error {
	if !errors.Is(err, store.ErrDeadline) || !r.paging || r.plan.grouped {
		return err
	}
	k, ck, ok := rows.Position()
	if !ok {
		return err
	}
	comps, kerr := k.Components(r.plan.table)
	if kerr != nil {
		return kerr
	}
	if r.count == 0 && r.resume != nil && sameComponents(comps, r.resume.key) && sameComponents(ck, r.resume.clustering) {
		return err // no step forward: another page would not get further
	}
	if ck != nil {
		ck = copyAll(nil, ck)
	}
	r.next = r.pageAt(copyAll(nil, comps), ck, false, r.perLeft)
	return errFull
}

// take takes the row at hand into the answer. errFull says that the read is over.
func (r *selectRun) take() error {
	if r.plan.grouped {
		return r.takeGrouped()
	}
	r.live++
	if r.sorter != nil {
		return r.takeSorted()
	}
	if err := r.encodeRow(); err != nil {
		return err
	}
	r.count++
	r.limit--
	r.perLeft--
	r.pageLeft--
	if r.limit <= 0 {
		return errFull
	}
	if r.pageLeft <= 0 || (r.paging && len(r.data.b) >= pageBytes) {
		r.endPage()
		return errFull
	}
	if len(r.data.b) > maxResultBytes {
		return resultTooLarge()
	}
	return nil
}

func resultTooLarge() error {
	return invalidf("The result is larger than %d bytes; use paging or a LIMIT", maxResultBytes)
}

// endPage notes the row at hand as the page's last.
func (r *selectRun) endPage() {
	c := &r.ctx
	done := r.perLeft <= 0 || r.plan.distinct || (c.row == nil && c.virt == nil) || len(r.plan.table.Clustering) == 0
	var ck [][]byte
	if !done || r.index != nil {
		ck = copyClustering(c)
	}
	if done && r.lastKey() {
		return
	}
	r.next = r.pageAt(copyAll(nil, c.key), ck, done, r.perLeft)
}

// lastKey: the partition being read is the last of those named.
func (r *selectRun) lastKey() bool {
	w := r.plan.where
	return r.plan.virtual == nil && !w.keyRange && !w.usesIndex && r.at == len(r.sc.keys)-1
}

// copyClustering copies the clustering of the row at hand; nil when it has none.
func copyClustering(c *rowContext) [][]byte {
	ck := c.clustering()
	if len(ck) == 0 {
		return nil
	}
	return copyAll(make([][]byte, 0, len(ck)), ck)
}

func (r *selectRun) pageAt(key, clustering [][]byte, done bool, perLeft int64) *pageState {
	s := &pageState{key: key, clustering: clustering, done: done, remaining: -1, perPartition: -1}
	if r.limit != noLimit {
		s.remaining = r.limit
	}
	if r.perLimit != noLimit {
		s.perPartition = perLeft
	}
	if r.index != nil {
		r.index.mark(s)
	}
	return s
}

// encodeRow appends the row at hand to the answer.
func (r *selectRun) encodeRow() error {
	sp, c := r.plan, &r.ctx
	if sp.plain != nil && c.virt == nil {
		r.data.b = r.encodePlain(r.data.b)
		return nil
	}
	b, err := sp.encode(r.data.b, c)
	if err != nil {
		return err
	}
	r.data.b = b
	return nil
}

// encodePlain is the hot path: columns straight from the store's row.
func (r *selectRun) encodePlain(b []byte) []byte {
	c := &r.ctx
	for _, col := range r.plan.plain {
		var v []byte
		switch col.Kind {
		case schema.PartitionKey:
			v = c.key[col.Position]
		case schema.Clustering:
			if c.row != nil {
				v = c.row.Clustering()[col.Position]
			}
		case schema.Static:
			if c.static != nil {
				v = c.static.Value(col)
			}
		default:
			if c.row != nil {
				v = c.row.Value(col)
			}
		}
		b = appendCell(b, v)
	}
	return b
}

// encode appends a row of any selection.
func (sp *selectPlan) encode(b []byte, c *rowContext) ([]byte, error) {
	if sp.json {
		return sp.encodeJSON(b, c)
	}
	for _, s := range sp.selectors {
		v, err := s.eval(c)
		if err != nil {
			return b, err
		}
		b = appendCell(b, v)
	}
	return b, nil
}
