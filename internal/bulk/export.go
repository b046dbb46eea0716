package bulk

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"

	"varve/internal/cqlwire"
	"varve/internal/upstream"
)

// ExportOptions say what to export.
type ExportOptions struct {
	Table    Table
	Header   bool
	PageSize int                            // rows a page; the default is 1000
	Progress func(rows, bytes, total int64) // total is 0: not known
}

// Export writes a whole table as CSV, in token order.
func Export(ctx context.Context, c *upstream.Conn, w io.Writer, o ExportOptions) (rows int64, err error) {
	st, err := o.Table.resolve(ctx, c)
	if err != nil {
		return 0, fmt.Errorf("read table %s: %w", o.Table.quoted(), err)
	}
	if o.PageSize <= 0 {
		o.PageSize = 1000
	}
	types := typesOf(st.Columns)
	out := &countingWriter{w: w}
	enc := csv.NewWriter(out)
	if o.Header {
		if err := enc.Write(o.Table.Columns); err != nil {
			return 0, err
		}
	}
	record, field := make([]string, len(types)), []byte(nil)
	var cells [][]byte
	p := upstream.Params{Consistency: cqlwire.LocalOne, PageSize: o.PageSize}
	for {
		res, err := c.Execute(ctx, st, p)
		if err != nil {
			return rows, fmt.Errorf("read table %s after %d rows: %w", o.Table.quoted(), rows, err)
		}
		data := res.Rows.Data
		for range res.Rows.Count {
			if cells, data, err = res.Rows.Row(cells[:0], data); err != nil {
				return rows, fmt.Errorf("decode row: %w", err)
			}
			for i, v := range cells {
				if field, err = appendField(field[:0], types[i], v); err != nil {
					return rows, err
				}
				record[i] = string(field)
			}
			if err := enc.Write(record); err != nil {
				return rows, err
			}
			rows++
		}
		enc.Flush()
		if err := enc.Error(); err != nil {
			return rows, fmt.Errorf("write CSV: %w", err)
		}
		if o.Progress != nil {
			o.Progress(rows, out.n, 0)
		}
		if res.Rows.PagingState == nil {
			return rows, nil
		}
		p.PagingState = append([]byte(nil), res.Rows.PagingState...)
	}
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
