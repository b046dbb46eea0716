package exec

import (
	"context"
	"fmt"

	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
)

// appendIndexValues appends what an index holds of one cell of its column:
// path is nil for single-cell columns.
func appendIndexValues(dst [][]byte, x *schema.Index, path, value []byte) [][]byte {
	t := x.Column.Type
	if !t.IsCollection() || x.Target == "full" || x.Target == "" && !t.IsMultiCell() {
		return append(dst, value)
	}
	if !t.IsMultiCell() {
		return appendFrozenValues(dst, x, value)
	}
	return append(dst, elementValue(x, path, value))
}

// elementValue is what an index holds of one element: lists have no key, sets
// no value.
func elementValue(x *schema.Index, key, value []byte) []byte {
	switch x.Target {
	case "keys":
		return key
	case "entries":
		return cqltype.AppendTuple(nil, [][]byte{key, value})
	}
	if x.Column.Type.Kind == cqltype.KindSet {
		return key
	}
	return value
}

func appendFrozenValues(dst [][]byte, x *schema.Index, value []byte) [][]byte {
	elems, err := cqltype.SplitCollection(x.Column.Type, value)
	if err != nil {
		return dst
	}
	for i := 0; i < len(elems); i++ {
		switch x.Column.Type.Kind {
		case cqltype.KindMap:
			dst = append(dst, elementValue(x, elems[i], elems[i+1]))
			i++
		case cqltype.KindSet:
			dst = append(dst, elems[i])
		default:
			dst = append(dst, elems[i])
		}
	}
	return dst
}

// rowIndexValues appends what an index holds of the row at hand.
func rowIndexValues(dst [][]byte, x *schema.Index, r *rowContext) [][]byte {
	c := x.Column
	if c.Type.IsMultiCell() {
		row := r.of(c)
		if row == nil {
			return dst
		}
		r.cells = row.Elements(r.cells[:0], c)
		for i := range r.cells {
			dst = appendIndexValues(dst, x, r.cells[i].Path, r.cells[i].Value)
		}
		return dst
	}
	v := r.column(c)
	if v == nil {
		return dst
	}
	return appendIndexValues(dst, x, nil, v)
}

// holdsIndexValue reports that the row at hand has the value now, so that an
// index entry for it is not stale.
func holdsIndexValue(dst [][]byte, x *schema.Index, r *rowContext, value []byte) bool {
	t := x.ValueType()
	for _, v := range rowIndexValues(dst[:0], x, r) {
		if cqltype.Compare(t, v, value) == 0 {
			return true
		}
	}
	return false
}

// buildChunk is how many rows' entries go into one batch while an index is built.
const buildChunk = 500

// buildIndex writes entries for all rows that are in the table. Writes that go
// on meanwhile make their own; an entry made twice is one entry.
func (e *Engine) buildIndex(ctx context.Context, t *schema.Table, x *schema.Index) error {
	now := e.opts.Clock().Unix()
	var stats store.ReadStats
	view := e.opts.Store.View(store.ReadOptions{NowSec: now, Stats: &stats})
	static := x.Column.Kind == schema.Static
	rows := view.Range(t, store.TokenRange{StartUnbounded: true, EndUnbounded: true},
		store.RowQuery{NoStatic: !static && x.Column.Kind != schema.PartitionKey, StaticOnly: static}, nil)
	err := e.fillIndex(ctx, t, x, rows, now)
	if cerr := rows.Close(); err == nil {
		err = cerr
	}
	if cerr := view.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("build index %s: %w", x.Name, err)
	}
	return nil
}

func (e *Engine) fillIndex(ctx context.Context, t *schema.Table, x *schema.Index, rows *store.Rows, now int64) error {
	f := indexFiller{e: e, ctx: ctx, t: t, x: x, now: now}
	f.row.t = t
	for rows.NextPartition() {
		f.key = rows.Key()
		f.row.key, f.row.static, f.row.row = rows.KeyComponents(), nil, nil
		if x.Column.Kind == schema.Static {
			f.row.static = rows.Static()
			if err := f.add(nil); err != nil {
				return err
			}
			continue
		}
		// A partition may be a static row alone, to which its key's entry points.
		if x.Column.Kind == schema.PartitionKey && rows.Static() != nil {
			if err := f.add(nil); err != nil {
				return err
			}
		}
		for rows.Next() {
			f.row.row = rows.Row()
			if err := f.add(f.row.row.Clustering()); err != nil {
				return err
			}
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return f.flush()
}

// indexFiller collects entries into batches.
type indexFiller struct {
	e    *Engine
	ctx  context.Context // of the build, which this value does not outlive
	t    *schema.Table
	x    *schema.Index
	now  int64
	key  store.Key
	row  rowContext
	vals [][]byte
	b    *store.Batch
	n    int
}

// add writes entries of the row at hand; clustering nil: of its static row.
func (f *indexFiller) add(clustering [][]byte) error {
	f.vals = rowIndexValues(f.vals[:0], f.x, &f.row)
	if len(f.vals) == 0 {
		return nil
	}
	if f.b == nil {
		f.b = f.e.opts.Store.NewBatch(f.now)
	}
	if clustering == nil && len(f.t.Clustering) == 0 {
		clustering = [][]byte{}
	}
	rb := f.b.Row(f.t, f.key, clustering)
	for _, v := range f.vals {
		rb.Index(f.x, v)
	}
	if f.n++; f.n < buildChunk {
		return nil
	}
	return f.flush()
}

func (f *indexFiller) flush() error {
	if f.b == nil {
		return nil
	}
	if err := f.ctx.Err(); err != nil {
		f.b.Discard()
		return err
	}
	c, err := f.e.opts.Store.Apply(f.ctx, f.b, false)
	f.b, f.n = nil, 0
	if err != nil {
		return err
	}
	return c.Wait()
}
