package exec

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
)

// feedVirtualTables are what consumers of change feeds and movers read and
// write; docs/design/change-feed.md describes every column. Whoever may read a
// table may read its feed, and no more is asked for.
var feedVirtualTables = []VirtualTable{
	{Keyspace: "varve", Name: "changes", Scan: scanChanges},
	{Keyspace: "varve", Name: "feeds", Parts: readableParts(feedRows)},
	{Keyspace: "varve", Name: "feed_consumers", Parts: readableParts(feedConsumerRows), Change: changeFeedConsumer},
	{Keyspace: "varve", Name: "fences", Parts: readableParts(fenceRow), Change: changeFence},
}

// readableParts makes rows table by table, of those that the session may read.
func readableParts(rows func(x *execution, v *virtualRows, t *schema.Table) error) *virtualParts {
	return &virtualParts{
		perTable: true, keep: storedTable,
		rowsFor: func(x *execution, v *virtualRows, t *schema.Table) error {
			if x.e.authorize(x.s, "SELECT", t) != nil {
				return nil
			}
			return rows(x, v, t)
		},
	}
}

// selfGuarded are the tables of keyspace varve that check permissions on the
// table that a row is about.
var selfGuarded = map[string]bool{"changes": true, "feeds": true, "feed_consumers": true, "fences": true}

// tableOfRow finds the table that a row of a virtual table is about, and
// checks that the session has the permissions on it.
func (e *Engine) tableOfRow(s *Session, keyspace, table []byte, permissions ...string) (*schema.Table, error) {
	t := e.opts.Catalog.Snapshot().Table(string(keyspace), string(table))
	if t == nil {
		return nil, invalidf("table %s.%s does not exist", keyspace, table)
	}
	if t.Virtual {
		return nil, invalidf("table %s.%s is not stored", keyspace, table)
	}
	for _, p := range permissions {
		if err := e.authorize(s, p, t); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// feedError words what the store says of a feed or a fence.
func feedError(err error) error {
	var fenced *store.FencedError
	var full *store.FeedFullError
	if err == nil || errors.As(err, &fenced) || errors.As(err, &full) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return invalidf("%s", err.Error())
}

func scanChanges(ctx context.Context, scan *virtualScan, emit func([][]byte) error) error {
	t, err := scan.e.tableOfRow(scan.s, scan.key[0], scan.key[1], "SELECT")
	if err != nil {
		return err
	}
	q := store.FeedQuery{Table: t, Shard: int(intOf(scan.key[2])), After: -1, Upto: math.MaxInt64}
	if b := scan.slice.Start; len(b.Prefix) > 0 {
		q.After = max(bigintOf(b.Prefix[0]), 0)
		if b.Inclusive {
			q.After = max(q.After-1, 0)
		}
	}
	if b := scan.slice.End; len(b.Prefix) > 0 {
		if q.Upto = bigintOf(b.Prefix[0]); !b.Inclusive && q.Upto > math.MinInt64 {
			q.Upto--
		}
	}
	c := changeRows{
		scan: scan, t: t,
		v: newVirtualRows(scan.e.opts.Catalog.Snapshot(), "varve", "changes"),
	}
	var failed error
	err = scan.e.opts.Store.ReadFeed(ctx, q, func(r *store.FeedRecord) (bool, error) {
		row, err := c.row(r)
		if err != nil {
			return false, err
		}
		failed = emit(row)
		return failed == nil, nil
	})
	if failed != nil {
		return failed
	}
	return feedError(err)
}

// changeRows makes rows of varve.changes.
type changeRows struct {
	scan  *virtualScan
	t     *schema.Table
	v     *virtualRows
	cells []store.FeedCell
}

var (
	blobListType = cqltype.ListOf(cqltype.Blob)
	blobMapType  = cqltype.MapOf(cqltype.Text, cqltype.Blob)
)

func (c *changeRows) blobs(column string, values [][]byte) {
	if values != nil {
		c.v.set(column, cqltype.AppendCollection(nil, blobListType, values))
	}
}

func (c *changeRows) row(r *store.FeedRecord) ([][]byte, error) {
	v := c.v
	v.rows = v.rows[:0]
	v.next()
	copy(v.row, c.scan.key)
	v.bigint("position", r.Position).bigint("batch_first", r.BatchFirst).int("batch_size", int32(r.BatchSize)).
		boolean("is_static", r.Static()).boolean("replayed", r.Replayed).bigint("timestamp", r.Timestamp()).
		set("written_at", timestampValue(floorMillis(r.Written)))
	if len(r.Origin) > 0 {
		v.text("origin", string(r.Origin))
	}
	if ts, ok := r.Deletion(); ok {
		v.bigint("deletion_timestamp", ts)
	}
	switch r.Kind {
	case store.FeedTruncate:
		v.text("operation", "truncate")
		return v.row, nil
	case store.FeedPartition:
		v.text("operation", "delete_partition")
	case store.FeedRange:
		v.text("operation", "delete_range")
		if err := c.bounds(r); err != nil {
			return nil, err
		}
	}
	key, err := r.Key()
	if err != nil {
		return nil, err
	}
	c.blobs("partition_key", key)
	if r.Kind != store.FeedRow {
		return v.row, nil
	}
	clustering, err := r.Clustering()
	if err != nil {
		return nil, err
	}
	c.blobs("clustering", clustering)
	c.rowChange(r, key, clustering)
	return v.row, nil
}

// floorMillis turns microseconds into milliseconds.
func floorMillis(micros int64) int64 {
	ms := micros / 1000
	if micros%1000 < 0 {
		ms--
	}
	return ms
}

func (c *changeRows) bounds(r *store.FeedRecord) error {
	sl, err := r.Slice()
	if err != nil {
		return err
	}
	if sl.Start.Prefix == nil {
		sl.Start.Prefix = [][]byte{}
	}
	if sl.End.Prefix == nil {
		sl.End.Prefix = [][]byte{}
	}
	c.blobs("range_start", sl.Start.Prefix)
	c.blobs("range_end", sl.End.Prefix)
	c.v.boolean("range_start_inclusive", sl.Start.Inclusive).boolean("range_end_inclusive", sl.End.Inclusive)
	return nil
}

// rowChange fills what tells of the change of one row.
func (c *changeRows) rowChange(r *store.FeedRecord, key, clustering [][]byte) {
	v := c.v
	c.cells = r.AppendCells(c.cells[:0])
	operation, ttl := "update", int32(0)
	if m, ok := r.Marker(); ok {
		operation, ttl = "insert", m.TTL
		v.bigint("marker_timestamp", m.Timestamp)
		if m.TTL > 0 {
			v.int("marker_ttl", m.TTL).bigint("marker_expiry", m.Expiry)
		}
	} else if _, deletes := r.Deletion(); deletes && len(c.cells) == 0 {
		operation = "delete"
	}
	for i := range c.cells {
		ttl = max(ttl, c.cells[i].TTL)
	}
	v.text("operation", operation)
	if ttl > 0 {
		v.int("ttl", ttl)
	}
	need := c.scan.need
	if need["cells"] && len(c.cells) > 0 {
		v.set("cells", c.exactCells())
	}
	if !need["columns"] && !need["deleted"] && !need["changed"] && !need["row"] {
		return
	}
	s := sumUp(c.cells)
	if len(s.columns) > 0 {
		v.set("columns", cqltype.AppendCollection(nil, blobMapType, s.columns))
	}
	if len(s.deleted) > 0 {
		v.set("deleted", textSet(s.deleted))
	}
	if len(s.changed) > 0 {
		v.set("changed", textSet(s.changed))
	}
	if operation != "delete" && need["row"] {
		v.set("row", c.rowJSON(key, clustering, &s))
	}
}

// changeSummary tells of a row's columns what was done to them as a whole.
type changeSummary struct {
	columns [][]byte // names and values, in turn
	typed   []*schema.Column
	deleted []string
	changed []string
}

// sumUp goes over a record's cells, in which those of a column lie together.
func sumUp(cells []store.FeedCell) (s changeSummary) {
	slices.SortStableFunc(cells, func(a, b store.FeedCell) int { return int(a.Column.ID) - int(b.Column.ID) })
	var ctx rowContext
	for len(cells) > 0 {
		col := cells[0].Column
		n := 1
		for n < len(cells) && cells[n].Column == col {
			n++
		}
		s.add(&ctx, col, cells[:n])
		cells = cells[n:]
	}
	// A map's value is in the order of its keys.
	order := make([]int, len(s.typed))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cqltype.Compare(cqltype.Text, s.columns[2*a], s.columns[2*b]) })
	columns, typed := make([][]byte, 0, len(s.columns)), make([]*schema.Column, 0, len(s.typed))
	for _, i := range order {
		columns, typed = append(columns, s.columns[2*i], s.columns[2*i+1]), append(typed, s.typed[i])
	}
	s.columns, s.typed = columns, typed
	return s
}

func (s *changeSummary) add(ctx *rowContext, col *schema.Column, cells []store.FeedCell) {
	if !col.Type.IsMultiCell() {
		last := &cells[len(cells)-1]
		if last.Op == store.FeedSet {
			s.columns, s.typed = append(s.columns, []byte(col.Name), last.Value), append(s.typed, col)
			return
		}
		s.deleted = append(s.deleted, col.Name)
		return
	}
	cleared := int64(math.MinInt64)
	var live []store.Cell
	whole := false
	for i := range cells {
		if cells[i].Op == store.FeedClear {
			whole, cleared = true, max(cleared, cells[i].Timestamp)
		}
	}
	for i := range cells {
		switch cells[i].Op {
		case store.FeedSet:
			whole = whole && cells[i].Timestamp > cleared
			live = append(live, cells[i].Cell)
		case store.FeedDelete:
			whole = false
		}
	}
	switch {
	case !whole:
		s.changed = append(s.changed, col.Name)
	case len(live) == 0:
		s.deleted = append(s.deleted, col.Name)
	default:
		store.SortCells(live, col.Type)
		s.columns, s.typed = append(s.columns, []byte(col.Name), ctx.join(col.Type, live)), append(s.typed, col)
	}
}

// rowJSON writes the row as INSERT JSON takes it.
func (c *changeRows) rowJSON(key, clustering [][]byte, s *changeSummary) []byte {
	b := []byte{'{'}
	field := func(name string, t *cqltype.Type, v []byte) {
		if len(b) > 1 {
			b = append(b, ", "...)
		}
		b = cqltype.AppendJSONName(b, name)
		b = append(b, ": "...)
		b = cqltype.AppendJSON(b, t, v)
	}
	for i, v := range key {
		field(c.t.PartitionKey[i].Name, c.t.PartitionKey[i].Type, v)
	}
	for i, v := range clustering {
		field(c.t.Clustering[i].Name, c.t.Clustering[i].Type, v)
	}
	for i, col := range s.typed {
		field(col.Name, col.Type, s.columns[2*i+1])
	}
	for _, name := range s.deleted {
		field(name, c.t.Columns[name].Type, nil)
	}
	return append(b, '}')
}

var cellOps = [...][]byte{store.FeedSet: []byte("set"), store.FeedDelete: []byte("delete"), store.FeedClear: []byte("clear")}

var cellListType = cqltype.ListOf(cqltype.Blob) // lists of anything look alike on the wire

// exactCells writes every cell as a tuple: column, what was done, path, value, timestamp, TTL, expiry.
func (c *changeRows) exactCells() []byte {
	elems := make([][]byte, 0, len(c.cells))
	for i := range c.cells {
		x := &c.cells[i]
		fields := [7][]byte{
			[]byte(x.Column.Name), cellOps[x.Op], x.Path, nil, binary.BigEndian.AppendUint64(nil, uint64(x.Timestamp)), nil, nil,
		}
		if x.Op == store.FeedSet {
			fields[3] = x.Value
		}
		if x.TTL > 0 {
			fields[5], fields[6] = intBytes(x.TTL), bigintBytes(x.Expiry)
		}
		elems = append(elems, cqltype.AppendTuple(nil, fields[:]))
	}
	return cqltype.AppendCollection(nil, cellListType, elems)
}

// eachFeed calls f for a table's feed in each shard.
func (e *Engine) eachFeed(t *schema.Table, f func(*store.FeedInfo)) error {
	if !t.Options.CDC {
		return nil
	}
	infos, err := e.opts.Store.FeedInfo(t)
	for i := range infos {
		f(&infos[i])
	}
	return err
}

func feedRows(x *execution, v *virtualRows, t *schema.Table) error {
	return x.e.eachFeed(t, func(f *store.FeedInfo) {
		v.next().text("keyspace_name", t.Keyspace).text("table_name", t.Name).int("shard", int32(f.Shard)).
			bigint("begins_after", f.Begins).bigint("last", f.Last).bigint("complete", f.Complete).bigint("bytes", f.Bytes).
			bigint("limit_bytes", f.Limit).boolean("block_writes", f.Block).bigint("dropped", f.Dropped)
		if len(f.Consumers) > 0 {
			var elems [][]byte
			for _, c := range f.Consumers {
				elems = append(elems, []byte(c.Name), bigintBytes(c.Position))
			}
			v.set("consumers", cqltype.AppendCollection(nil, blobMapType, elems))
		}
	})
}

func feedConsumerRows(x *execution, v *virtualRows, t *schema.Table) error {
	return x.e.eachFeed(t, func(f *store.FeedInfo) {
		for _, c := range f.Consumers {
			v.next().text("keyspace_name", t.Keyspace).text("table_name", t.Name).text("consumer", c.Name).int("shard", int32(f.Shard)).
				bigint("position", c.Position).set("updated_at", timestampValue(floorMillis(c.Updated))).boolean("lost", c.Lost)
		}
	})
}

// writable refuses to write columns other than those named.
func (c *virtualChange) writable(t string, names ...string) error {
	for name := range c.set {
		if !slices.Contains(names, name) {
			return invalidf("Column %s of table %s can't be written", name, t)
		}
	}
	return nil
}

func changeFeedConsumer(_ context.Context, x *execution, c *virtualChange) error {
	// MODIFY: a consumer that stands still stops the table's writers in the end.
	t, err := x.e.tableOfRow(x.s, c.key["keyspace_name"], c.key["table_name"], "SELECT", "MODIFY")
	if err != nil {
		return err
	}
	if err := c.writable("varve.feed_consumers", "position"); err != nil {
		return err
	}
	st, shard, name := x.e.opts.Store, int(intOf(c.key["shard"])), string(c.key["consumer"])
	if c.kind == deleteKind {
		_, err := st.DropFeedConsumer(t, shard, name)
		return feedError(err)
	}
	p := store.FeedPosition{Shard: shard, Name: name, Position: -1, Known: c.kind == updateKind}
	if v := c.set["position"]; v != nil {
		if p.Position = bigintOf(v); p.Position < 0 {
			return invalidf("position %d is negative", p.Position)
		}
	} else if c.kind == updateKind {
		return invalidf("UPDATE of varve.feed_consumers needs a position")
	}
	return feedError(st.SetFeedConsumer(t, p))
}
