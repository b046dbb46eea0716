package cql

import (
	"context"
	"fmt"
	"slices"
	"time"

	"varve/internal/move"
)

// record is one row of varve.changes, as far as a consumer without timestamps
// needs it: which rows are touched. What they hold is read from the table.
type record struct {
	feed             *feed
	shard            int
	position         int64
	first            int64
	size             int64
	operation        string
	ttl              *int
	origin           string
	written          time.Time
	partition        []raw
	clustering       []raw
	start, end       []raw
	startIn, endIn   bool
	static           bool
	columns          map[string]raw
	hasStart, hasEnd bool
}

const recordColumns = `position, batch_first, batch_size, operation, is_static, ttl, origin, written_at, partition_key, clustering,
	range_start, range_start_inclusive, range_end, range_end_inclusive, columns`

// poll takes what is new in all feeds, in whole batches, and queues it as one
// transaction.
func (st *stream) poll(ctx context.Context) error {
	states := make([]*feedState, len(st.feeds))
	for i := range st.feeds {
		var err error
		if states[i], err = st.side.feedState(ctx, &st.feeds[i]); err != nil {
			return err
		}
	}
	var all []record
	next := slices.Clone(st.at)
	for shard := range states[0].complete {
		found, upTo, err := st.shard(ctx, states, shard)
		if err != nil {
			return err
		}
		all = append(all, found...)
		next[shard] = max(next[shard], uint64(upTo))
	}
	if err := st.events(ctx, all, next); err != nil {
		return err
	}
	st.at = next
	st.mu.Lock()
	st.heard = slices.Clone(next)
	st.mu.Unlock()
	st.readyMarks()
	return nil
}

// shard reads one shard's records of all tables, by position, and returns the
// position up to which they are whole.
func (st *stream) shard(ctx context.Context, states []*feedState, shard int) ([]record, int64, error) {
	// complete is looked up once: tables asked later may know of more.
	upTo := states[0].complete[shard]
	after := int64(st.at[shard])
	var all []record
	for i := range st.feeds {
		if states[i].last[shard] <= after {
			continue
		}
		found, err := st.table(ctx, &st.feeds[i], shard, after, upTo)
		if err != nil {
			return nil, 0, err
		}
		if len(found) == pollRecords {
			upTo = cut(found)
		}
		all = append(all, found...)
	}
	all = slices.DeleteFunc(all, func(r record) bool { return r.position > upTo })
	slices.SortFunc(all, func(a, b record) int { return int(a.position - b.position) })
	return all, max(upTo, after), nil
}

// cut returns the last position before the batch that a full page may have
// torn. A batch larger than a page is taken as far as it goes.
func cut(found []record) int64 {
	last := found[len(found)-1]
	if before := last.first - 1; last.position < last.first+last.size-1 && before >= found[0].position {
		return before
	}
	return last.position
}

func (st *stream) table(ctx context.Context, f *feed, shard int, after, upTo int64) ([]record, error) {
	iter := st.side.session.Query(`SELECT `+recordColumns+` FROM varve.changes
		WHERE keyspace_name = ? AND table_name = ? AND shard = ? AND position > ? AND position <= ? LIMIT ?`,
		f.keyspace, f.name, shard, after, upTo, pollRecords).PageSize(pollRecords).IterContext(ctx)
	var out []record
	for {
		r := record{feed: f, shard: shard}
		var origin *string
		var startIn, endIn *bool
		var columns map[string][]byte
		var partition, clustering, start, end [][]byte
		if !iter.Scan(&r.position, &r.first, &r.size, &r.operation, &r.static, &r.ttl, &origin, &r.written, &partition, &clustering,
			&start, &startIn, &end, &endIn, &columns) {
			break
		}
		r.partition, r.clustering, r.start, r.end = raws(partition), raws(clustering), raws(start), raws(end)
		r.hasStart, r.hasEnd = start != nil, end != nil
		r.startIn, r.endIn = startIn != nil && *startIn, endIn != nil && *endIn
		if origin != nil {
			r.origin = *origin
		}
		if f.marks {
			r.columns = map[string]raw{}
			for k, v := range columns {
				r.columns[k] = v
			}
		}
		out = append(out, r)
	}
	if err := iter.Close(); err != nil {
		if isGap(err) {
			return nil, fmt.Errorf("stream %s: %w: %w", st.name, err, move.ErrStreamLost)
		}
		return nil, fmt.Errorf("read the change feed of %s.%s: %w", f.keyspace, f.name, err)
	}
	return out, nil
}

func raws(b [][]byte) []raw {
	out := make([]raw, len(b))
	for i, v := range b {
		out[i] = v
	}
	return out
}

// events queues the records' changes as one transaction that ends at next. The
// move's own changes are left out; the position goes on for them all the same.
func (st *stream) events(ctx context.Context, records []record, next move.Position) error {
	if len(records) == 0 {
		return nil
	}
	last := records[len(records)-1].written
	changes := []move.Event{{Op: move.Begin, Time: last}}
	rows := map[int]*touched{}
	for i := range records {
		r := &records[i]
		if r.feed.marks {
			if err := st.takeMark(r); err != nil {
				return err
			}
			continue
		}
		if r.origin == st.side.pass {
			continue
		}
		if r.ttl != nil {
			return fmt.Errorf("%s.%s: a row was written with TTL %d at position %d; rows that expire cannot be mirrored",
				r.feed.keyspace, r.feed.name, *r.ttl, r.position)
		}
		ev, err := st.change(r, rows)
		if err != nil {
			return err
		}
		changes = append(changes, ev...)
	}
	live, err := st.readBack(ctx, rows)
	if err != nil {
		return err
	}
	changes = append(changes, live...)
	st.queue = append(st.queue, changes...)
	st.queue = append(st.queue, move.Event{Op: move.Commit, Time: last, Position: slices.Clone(next)})
	return nil
}

// touched are the keys of one table that a poll must read back.
type touched struct {
	keys  []move.Row
	seen  map[string]bool
	spans []move.KeySpan
}

func (t *touched) add(key move.Row) {
	id := string(move.EncodeRow(nil, key))
	if !t.seen[id] {
		t.seen[id] = true
		t.keys = append(t.keys, key)
	}
}

// change gives the events that a record stands for by itself, and notes the
// rows to read back.
func (st *stream) change(r *record, rows map[int]*touched) ([]move.Event, error) {
	to, ok := rows[r.feed.table]
	if !ok {
		to = &touched{seen: map[string]bool{}}
		rows[r.feed.table] = to
	}
	if r.operation == "truncate" {
		return []move.Event{{Op: move.Truncate, Table: r.feed.table}}, nil
	}
	if r.feed.table == move.CanaryTable {
		to.add(move.Row{r.partition[0]})
		return nil, nil
	}
	if r.static {
		return nil, nil
	}
	t := st.side.tables[r.feed.table]
	prefix, err := t.toPG(t.partition, r.partition)
	if err != nil {
		return nil, err
	}
	switch r.operation {
	case "delete_partition":
		span := move.KeySpan{Prefix: prefix}
		to.spans = append(to.spans, span)
		return []move.Event{{Op: move.DeleteRange, Table: r.feed.table, Span: &span}}, nil
	case "delete_range":
		span, err := t.span(r, prefix)
		if err != nil {
			return nil, err
		}
		to.spans = append(to.spans, *span)
		return []move.Event{{Op: move.DeleteRange, Table: r.feed.table, Span: span}}, nil
	}
	cluster, err := t.toPG(t.cluster[:len(r.clustering)], r.clustering)
	if err != nil {
		return nil, err
	}
	to.add(append(prefix, cluster...))
	return nil, nil
}

// span turns the bounds of a range deletion into one over keys. Bounds of
// several columns that differ in more than the last one are widened: rows that
// live are read back and written again.
func (t *table) span(r *record, prefix move.Row) (*move.KeySpan, error) {
	start, err := t.toPG(t.cluster[:len(r.start)], r.start)
	if err != nil {
		return nil, err
	}
	end, err := t.toPG(t.cluster[:len(r.end)], r.end)
	if err != nil {
		return nil, err
	}
	same := 0
	for same < len(start) && same < len(end) && string(start[same]) == string(end[same]) {
		same++
	}
	span := &move.KeySpan{Prefix: append(slices.Clone(prefix), start[:same]...)}
	if same == len(t.cluster) || same == len(start) && same == len(end) {
		return span, nil
	}
	compare := orders[t.Columns[t.cluster[same]].Type.OID]
	type edge struct {
		value []byte
		open  bool
	}
	var edges []edge
	for _, b := range []struct {
		row move.Row
		in  bool
	}{{start, r.startIn}, {end, r.endIn}} {
		if len(b.row) > same {
			edges = append(edges, edge{b.row[same], !b.in && len(b.row) == same+1})
		} else {
			edges = append(edges, edge{})
		}
	}
	// In a descending column the start is the greater value.
	low, high := edges[0], edges[1]
	if low.value != nil && high.value != nil && compare(low.value, high.value) > 0 || t.descending[same] && (low.value == nil) != (high.value == nil) {
		low, high = high, low
	}
	span.From, span.FromValue, span.FromOpen = low.value, low.value != nil, low.open
	span.To, span.ToValue, span.ToOpen = high.value, high.value != nil, high.open
	return span, nil
}

// readBack reads the touched rows as they are now: they hold at least what
// the records tell, and a later record brings what a later write changes.
func (st *stream) readBack(ctx context.Context, rows map[int]*touched) ([]move.Event, error) {
	// Deletions come first, so that a unique value can go over to another row.
	var gone, out []move.Event
	for table, to := range rows {
		if table == move.CanaryTable {
			canaries, err := st.canaries(ctx, to.keys)
			if err != nil {
				return nil, err
			}
			out = append(out, canaries...)
			continue
		}
		found, err := st.side.ReadKeys(ctx, table, to.keys)
		if err != nil {
			return nil, err
		}
		t := st.side.tables[table]
		for i, row := range found {
			if row == nil {
				gone = append(gone, move.Event{Op: move.Delete, Table: table, Old: t.wide(to.keys[i]), Partial: true})
			} else {
				out = append(out, move.Event{Op: move.Insert, Table: table, New: row})
			}
		}
		for i := range to.spans {
			var after move.Row
			for {
				live, err := st.side.ReadSpan(ctx, table, to.spans[i], after, readPage)
				if err != nil {
					return nil, err
				}
				for _, row := range live {
					after = t.KeyOf(row)
					out = append(out, move.Event{Op: move.Insert, Table: table, New: row})
				}
				if len(live) < readPage {
					break
				}
			}
		}
	}
	return append(gone, out...), nil
}

func (st *stream) canaries(ctx context.Context, keys []move.Row) ([]move.Event, error) {
	var out []move.Event
	for _, key := range keys {
		n, err := st.side.ReadCanary(ctx, string(key[0]))
		if err != nil {
			return nil, err
		}
		out = append(out, move.Event{Op: move.Insert, Table: move.CanaryTable, New: move.Row{key[0], big8(n)}})
	}
	return out, nil
}

// wide spreads a key's values over a row of all columns.
func (t *table) wide(key move.Row) move.Row {
	row := make(move.Row, len(t.Columns))
	for i, c := range t.Key {
		row[c] = key[i]
	}
	return row
}

func (st *stream) takeMark(r *record) error {
	content, ok := r.columns["content"]
	if !ok {
		return nil // a mark being cleared away
	}
	needs, err := move.ParsePosition(string(r.columns["needs"]))
	if err != nil {
		return fmt.Errorf("mark at %d: %w", r.position, err)
	}
	st.marks = append(st.marks, mark{text: string(content), needs: needs})
	return nil
}

// readyMarks queues the marks whose positions have been read everywhere.
func (st *stream) readyMarks() {
	st.marks = slices.DeleteFunc(st.marks, func(m mark) bool {
		if !st.at.Covers(m.needs) {
			return false
		}
		st.queue = append(st.queue, move.Event{Op: move.Mark, Text: m.text, Position: slices.Clone(st.at), Time: time.Now()})
		return true
	})
}
