package exec

import (
	"varve/internal/schema"
)

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
