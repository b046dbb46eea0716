package pg

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"varve/internal/move"
)

// Split cuts a table into ranges of about n rows. For keys of one number or
// uuid the histogram that ANALYZE keeps says where; before its first bound and
// after its last, and for other keys, the index is walked n entries at a time.
func (s *Side) Split(ctx context.Context, table, n int) ([]move.Range, error) {
	t := s.tables[table]
	n = max(n, 1)
	var bounds []move.Row
	err := s.raw(ctx, func(conn *pgconn.PgConn) error {
		guessed, err := s.guess(ctx, conn, t, table, n)
		if err != nil {
			return err
		}
		if len(guessed) == 0 {
			bounds, err = walk(ctx, conn, t, n, move.Range{})
			return err
		}
		head, err := walk(ctx, conn, t, n, move.Range{To: guessed[0]})
		if err != nil {
			return err
		}
		tail, err := walk(ctx, conn, t, n, move.Range{From: guessed[len(guessed)-1]})
		if err != nil {
			return err
		}
		bounds = append(append(head, guessed...), tail...)
		return nil
	})
	if err != nil {
		return nil, s.failed("split", t, err)
	}
	ranges := make([]move.Range, 0, len(bounds)+1)
	var from move.Row
	for _, b := range bounds {
		ranges = append(ranges, move.Range{From: from, To: b})
		from = b
	}
	return append(ranges, move.Range{From: from}), nil
}

// walk returns the key of every n-th row of a range.
func walk(ctx context.Context, conn *pgconn.PgConn, t *table, n int, r move.Range) ([]move.Row, error) {
	var out []move.Row
	var a arena
	for {
		var c conditions
		c.within(t, r)
		var last move.Row
		sql := fmt.Sprintf("SELECT %s FROM %s%s ORDER BY %s OFFSET %d LIMIT 1", t.keyColumns(), t.from, c.where(), t.keyList(""), n-1)
		err := query(ctx, conn, sql, c.args, func(v [][]byte) error {
			last = a.keep(v)
			return nil
		})
		if err != nil || last == nil {
			return out, err
		}
		out = append(out, last)
		r.From = last
	}
}

// guess makes bounds from the key's histogram, none where there is no use in
// it.
func (s *Side) guess(ctx context.Context, conn *pgconn.PgConn, t *table, index, n int) ([]move.Row, error) {
	if len(t.Key) != 1 {
		return nil, nil
	}
	c := &t.cols[t.Key[0]]
	if c.typ != c.base || numberOf(c.base, make([]byte, 16)) == nil {
		return nil, nil
	}
	total, err := s.Rows(ctx, index)
	if err != nil || total < int64(2*n) {
		return nil, err
	}
	var stats []move.Row
	var a arena
	sql := fmt.Sprintf(`SELECT b FROM pg_stats s, unnest(s.histogram_bounds::text::%s[]) b
		WHERE schemaname = $1::name AND tablename = $2::name AND attname = $3::name AND inherited = $4 ORDER BY b`, c.base)
	inherited := []byte{0}
	if t.kind == "p" {
		inherited[0] = 1
	}
	err = query(ctx, conn, sql, [][]byte{[]byte(t.Schema), []byte(t.Name), []byte(t.Columns[t.Key[0]].Name), inherited}, func(v [][]byte) error {
		stats = append(stats, a.keep(v))
		return nil
	})
	if err != nil || len(stats) < 2 {
		return nil, err
	}
	return interpolate(c.base, stats, float64(total)/float64(len(stats)-1), n), nil
}

// interpolate walks buckets of equal numbers of rows and sets a bound wherever
// n rows have gathered.
func interpolate(base string, stats []move.Row, perBucket float64, n int) []move.Row {
	var out []move.Row
	gathered := 0.0
	for i := 0; i+1 < len(stats); i++ {
		low, high := *numberOf(base, stats[i][0]), *numberOf(base, stats[i+1][0])
		for at := 0.0; ; {
			need := (float64(n) - gathered) / perBucket // as a share of the bucket
			if at+need > 1 {
				gathered += (1 - at) * perBucket
				break
			}
			at += need
			gathered = 0
			bound := low + uint64(at*float64(high-low))
			if len(out) > 0 && bound <= *numberOf(base, out[len(out)-1][0]) {
				continue
			}
			out = append(out, move.Row{valueOf(base, bound)})
		}
	}
	return out
}

// numberOf maps a value of a type whose order is that of numbers to one, a
// uuid by its first half; nil for other types.
func numberOf(base string, v []byte) *uint64 {
	var n uint64
	switch base {
	case "uuid":
		n = binary.BigEndian.Uint64(v)
	case "bigint":
		n = binary.BigEndian.Uint64(v) ^ 1<<63
	case "integer":
		n = uint64(binary.BigEndian.Uint32(v) ^ 1<<31)
	case "smallint":
		n = uint64(binary.BigEndian.Uint16(v) ^ 1<<15)
	default:
		return nil
	}
	return &n
}

func valueOf(base string, n uint64) []byte {
	switch base {
	case "uuid":
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, n), 0)
	case "bigint":
		return binary.BigEndian.AppendUint64(nil, n^1<<63)
	case "integer":
		return binary.BigEndian.AppendUint32(nil, uint32(n)^1<<31)
	}
	return binary.BigEndian.AppendUint16(nil, uint16(n)^1<<15)
}
