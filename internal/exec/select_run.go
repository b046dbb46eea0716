package exec

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"varve/internal/cqlfunc"
	"varve/internal/cqlwire"
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
	// stats are the counts of what is not reported yet, total those of the rest.
	stats, total store.ReadStats

	sc  whereScratch
	ctx rowContext

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
		r.stats.Add(&r.total) // the store keeps a table's figures by whole reads
		r.x.reads.Add(&r.stats)
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
	if x.guards() {
		if err := sp.guard(x); err != nil {
			return err
		}
	}
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
		if !r.resume.fits(sp.table) {
			return errPagingState
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
