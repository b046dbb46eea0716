package exec

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"sort"
	"strings"

	"varve/internal/cqltype"
	"varve/internal/store"
)

// takeGrouped takes the row at hand into its group, closing the one before
// it when that is complete.
func (r *selectRun) takeGrouped() error {
	sp, c, g := r.plan, &r.ctx, &r.group
	if g.open {
		same, err := sp.sameGroup(g, c)
		if err != nil {
			return err
		}
		if !same {
			if err := r.closeGroup(); err != nil {
				return err
			}
		}
	}
	if !g.open {
		// A group past the partition's limit is not begun. The rows of the
		// last one allowed were all taken in before this row came.
		if r.perLeft <= 0 {
			return nil
		}
		if err := sp.startGroup(g, c); err != nil {
			return err
		}
		r.perLeft--
		if r.sorter != nil {
			g.sortKeys = r.sorter.keys(c)
		}
	}
	r.live++
	if err := sp.addRow(c); err != nil {
		return err
	}
	if r.paging {
		r.last.key = copyAll(r.last.key, c.key)
		r.last.static = c.row == nil && c.virt == nil
		r.last.clustering = copyAll(r.last.clustering, c.clustering())
		r.last.perLeft = r.perLeft
	}
	return nil
}

// closeGroup gives the open group out as a result row.
func (r *selectRun) closeGroup() error {
	g := &r.group
	g.open = false
	if r.sorter != nil {
		return r.sorter.add(r, g.sortKeys)
	}
	b, err := r.plan.encode(r.data.b, &r.ctx)
	if err != nil {
		return err
	}
	r.data.b = b
	r.count++
	r.limit--
	r.pageLeft--
	if r.limit <= 0 {
		return errFull
	}
	if r.pageLeft <= 0 || (r.paging && len(b) >= pageBytes) {
		done := r.last.static || r.last.perLeft <= 0 || len(r.plan.table.Clustering) == 0
		var ck [][]byte
		if n := len(r.last.clustering); n > 0 && (!done || r.index != nil) {
			ck = copyAll(make([][]byte, 0, n), r.last.clustering)
		}
		r.next = r.pageAt(copyAll(nil, r.last.key), ck, done, r.last.perLeft)
		return errFull
	}
	if len(b) > maxResultBytes {
		return resultTooLarge()
	}
	return nil
}

// closeGroups ends the last group when there are no more rows, and gives the
// one row of aggregates over nothing.
func (r *selectRun) closeGroups() error {
	sp := r.plan
	if !sp.grouped {
		return nil
	}
	g := &r.group
	if !g.open {
		if sp.groupBy {
			return nil
		}
		c := &r.ctx
		c.key, c.row, c.static, c.virt = nil, nil, nil, nil
		if err := sp.startGroup(g, c); err != nil {
			return err
		}
	}
	// A full page says that there may be more even when it is the last, as in
	// Cassandra: clients go by the number of rows.
	if err := r.closeGroup(); err != nil && err != errFull {
		return err
	}
	if !sp.groupBy {
		r.next = nil
	}
	return nil
}

// encodeJSON appends a row as one JSON text.
func (sp *selectPlan) encodeJSON(b []byte, c *rowContext) ([]byte, error) {
	start := len(b)
	b = append(b, 0, 0, 0, 0, '{')
	for i, s := range sp.selectors {
		v, err := s.eval(c)
		if err != nil {
			return b, err
		}
		if i > 0 {
			b = append(b, ", "...)
		}
		name := sp.names[i]
		if name != strings.ToLower(name) {
			name = `"` + name + `"`
		}
		b = cqltype.AppendJSON(b, cqltype.Text, []byte(name))
		b = append(b, ": "...)
		b = cqltype.AppendJSON(b, s.typ(), v)
	}
	b = append(b, '}')
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b, nil
}

// rowSorter keeps encoded rows of several partitions until all are there and
// can be put in order.
type rowSorter struct {
	cols []ordering
	rows []sortedRow
	size int
}

type sortedRow struct {
	keys [][]byte
	data []byte
}

func newRowSorter(cols []ordering) *rowSorter { return &rowSorter{cols: cols} }

// takeSorted keeps the row at hand for sorting.
func (r *selectRun) takeSorted() error {
	r.perLeft--
	return r.sorter.add(r, r.sorter.keys(&r.ctx))
}

// keys are the values that the row at hand is sorted by.
func (s *rowSorter) keys(c *rowContext) [][]byte {
	keys := make([][]byte, len(s.cols))
	for i, o := range s.cols {
		keys[i] = bytes.Clone(c.column(o.c))
	}
	return keys
}

// add keeps the row or group at hand.
func (s *rowSorter) add(r *selectRun, keys [][]byte) error {
	b, err := r.plan.encode(nil, &r.ctx)
	if err != nil {
		return err
	}
	for _, k := range keys {
		s.size += len(k)
	}
	if s.size += len(b); s.size > maxResultBytes {
		return resultTooLarge()
	}
	s.rows = append(s.rows, sortedRow{keys: keys, data: b})
	return nil
}

func (s *rowSorter) less(a, b *sortedRow) bool {
	for i, o := range s.cols {
		x, y := a.keys[i], b.keys[i]
		n := 0
		switch {
		case x == nil && y == nil:
		case x == nil:
			n = -1
		case y == nil:
			n = 1
		default:
			n = cqltype.Compare(o.c.Type, x, y)
		}
		if o.desc {
			n = -n
		}
		if n != 0 {
			return n < 0
		}
	}
	return false
}

// flush puts the first limit rows in order into the answer.
func (s *rowSorter) flush(r *selectRun) {
	sort.SliceStable(s.rows, func(i, j int) bool { return s.less(&s.rows[i], &s.rows[j]) })
	n := int64(len(s.rows))
	if r.limit != noLimit {
		n = min(n, r.limit)
	}
	for _, row := range s.rows[:n] {
		r.data.b = append(r.data.b, row.data...)
	}
	r.count = int(n)
}

// tokenBounds evaluates the restrictions on the token. empty: no token can meet them.
func (r *selectRun) tokenBounds() (tr store.TokenRange, empty bool, err error) {
	tr = store.TokenRange{StartUnbounded: true, EndUnbounded: true}
	w := r.plan.where
	if w.token == nil {
		return tr, false, nil
	}
	if w.token.op == restrictEq {
		v, err := r.token(w.token.eq)
		if err != nil {
			return tr, false, err
		}
		// Cassandra takes the least token, which no key has, for "no bound".
		if v == math.MinInt64 {
			return tr, false, nil
		}
		return store.TokenRange{StartToken: v, EndToken: v, StartInclusive: true, EndInclusive: true}, false, nil
	}
	if b := w.token.lo; b != nil {
		if tr.StartToken, err = r.token(b.v); err != nil {
			return tr, false, err
		}
		tr.StartUnbounded, tr.StartInclusive = tr.StartToken == math.MinInt64, b.inclusive
	}
	if b := w.token.hi; b != nil {
		if tr.EndToken, err = r.token(b.v); err != nil {
			return tr, false, err
		}
		tr.EndUnbounded, tr.EndInclusive = tr.EndToken == math.MinInt64, b.inclusive
	}
	if !tr.StartUnbounded && !tr.EndUnbounded {
		empty = tr.StartToken > tr.EndToken ||
			(tr.StartToken == tr.EndToken && !(tr.StartInclusive && tr.EndInclusive))
	}
	return tr, empty, nil
}

func (r *selectRun) token(o *operand) (int64, error) {
	v, err := o.elems[0].eval(r.x)
	if err != nil {
		return 0, err
	}
	if v.Unset {
		return 0, invalidf("Invalid unset value for column partition key token")
	}
	if len(v.Bytes) != 8 {
		return 0, invalidf("Invalid null token value")
	}
	return int64(binary.BigEndian.Uint64(v.Bytes)), nil
}

func inRange(tr *store.TokenRange, token int64) bool {
	if !tr.StartUnbounded && (token < tr.StartToken || (token == tr.StartToken && !tr.StartInclusive)) {
		return false
	}
	return tr.EndUnbounded || token < tr.EndToken || (token == tr.EndToken && tr.EndInclusive)
}

// keysInToken keeps the keys that meet the restriction on the token.
func (r *selectRun) keysInToken(keys []store.Key) ([]store.Key, error) {
	tr, empty, err := r.tokenBounds()
	if err != nil || empty {
		return nil, err
	}
	n := 0
	for _, k := range keys {
		if inRange(&tr, k.Token) {
			keys[n] = k
			n++
		}
	}
	return keys[:n], nil
}

// readRange reads partitions in token order.
func (r *selectRun) readRange(ctx context.Context) error {
	sp := r.plan
	tr, empty, err := r.tokenBounds()
	if err != nil {
		return err
	}
	all, _, err := sp.where.appendSlices(r.x, &r.sc)
	if err != nil {
		return err
	}
	slices := r.sc.slices
	if all {
		slices = nil
	} else if len(slices) == 0 {
		empty = true
	}
	if empty {
		return r.closeGroups()
	}
	var firstSlices []store.Slice
	resumed := false
	if r.resume != nil && r.resume.key != nil {
		k, err := store.KeyOf(sp.table, r.resume.key)
		if err != nil {
			return errPagingState
		}
		if r.resume.done {
			tr.After = &k
		} else {
			tr.From = &k
			resumed = true
			if r.resume.clustering != nil {
				firstSlices = slicesAfter(sp.table, slices, r.resume.clustering, false)
			}
		}
	}
	if r.x.trace != nil {
		r.x.trace.Event("Executing seq scan across the token range of %s", sp.table.Name)
	}
	rows := r.view.Range(sp.table, tr, r.query(slices), firstSlices)
	err = r.scan(ctx, rows, false, resumed)
	if cerr := rows.Close(); err == nil {
		err = cerr
	}
	if err == errFull {
		return nil
	}
	if err != nil {
		return err
	}
	return r.closeGroups()
}
