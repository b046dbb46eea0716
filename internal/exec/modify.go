package exec

import (
	"context"

	"varve/internal/cql"
	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/schema"
	"varve/internal/store"
)

type modifyKind uint8

const (
	insertKind modifyKind = iota
	updateKind
	deleteKind
)

// modifyPlan is a planned INSERT, UPDATE or DELETE.
type modifyPlan struct {
	t              *schema.Table
	kind           modifyKind
	timestamp, ttl term // nil: not given

	// The rows: by where, or (the common case) by one term a key column.
	// With pk set and ck nil the statement is on the partition alone.
	pk, ck []term
	where  *where

	// Changes, in order of column id, as the store likes them best.
	statics, regulars []operation
	// staticOnly: changes and conditions are on static columns only, and no row is named.
	staticOnly bool
	json       *jsonInsert
	cond       *conditions // nil: unconditional
	reads      bool        // some operation must see the row first
	keyIndexes []*schema.Index
}

// planModify plans an INSERT, UPDATE or DELETE.
func (p *planner) planModify(st cql.Statement) (*modifyPlan, error) {
	var (
		m   *modifyPlan
		err error
	)
	switch st := st.(type) {
	case *cql.Insert:
		m, err = p.planInsert(st)
	case *cql.Update:
		m, err = p.planUpdate(st)
	case *cql.Delete:
		m, err = p.planDelete(st)
	default:
		return nil, invalidf("Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.")
	}
	if err != nil {
		return nil, err
	}
	return m, m.settle()
}

// modifyTable finds the table of a modification.
func (p *planner) modifyTable(n cql.Name) (*schema.Table, error) {
	t, err := p.lookupTable(n)
	if err != nil {
		return nil, err
	}
	if t.Virtual {
		return nil, invalidf("Modification is not supported by table %s.%s", t.Keyspace, t.Name)
	}
	p.keyspace = t.Keyspace // user types in terms are those of the table's keyspace
	p.keyTypes = make([]*cqltype.Type, len(t.PartitionKey))
	for i, c := range t.PartitionKey {
		p.keyTypes[i] = c.Type
	}
	return t, nil
}

// settle checks a plan as a whole and orders its operations.
func (m *modifyPlan) settle() error {
	if m.t.Counter {
		switch {
		case m.timestamp != nil:
			return invalidf("Cannot provide custom timestamp for counter updates")
		case m.ttl != nil:
			return invalidf("Cannot provide custom TTL for counter updates")
		case m.cond != nil:
			return invalidf("Conditional updates are not supported on counter tables")
		}
	}
	if m.cond != nil && m.timestamp != nil {
		return invalidf("Cannot provide custom timestamp for conditional updates")
	}
	sortOperations(m.statics)
	sortOperations(m.regulars)
	for _, ops := range [...][]operation{m.statics, m.regulars} {
		for i := range ops {
			m.reads = m.reads || ops[i].kind.reads()
			ops[i].indexes = indexesOn(m.t, ops[i].col)
		}
	}
	for _, x := range m.t.Indexes {
		if x.Column.Kind == schema.PartitionKey || x.Column.Kind == schema.Clustering {
			m.keyIndexes = append(m.keyIndexes, x)
		}
	}
	return nil
}

// planUsing plans USING TIMESTAMP and TTL.
func (p *planner) planUsing(t *schema.Table, u cql.Using) (ts, ttl term, err error) {
	spec := cqlwire.ColumnSpec{Keyspace: t.Keyspace, Table: t.Name}
	if u.Timestamp != nil {
		if ts, err = p.term(u.Timestamp, part(spec, "[timestamp]", cqltype.Bigint)); err != nil {
			return nil, nil, err
		}
	}
	if u.TTL != nil {
		if ttl, err = p.term(u.TTL, part(spec, "[ttl]", cqltype.Int)); err != nil {
			return nil, nil, err
		}
	}
	return ts, ttl, nil
}

// simpleKey plans relations that are one equality a key column, which is what
// nearly all modifications have. ok is false for any other WHERE.
func (p *planner) simpleKey(t *schema.Table, rels []cql.Relation) (pk, ck []term, ok bool, err error) {
	exprs := make([]cql.Expr, len(t.PartitionKey)+len(t.Clustering))
	if len(rels) != len(exprs) && len(rels) != len(t.PartitionKey) {
		return nil, nil, false, nil
	}
	for i := range rels {
		r := &rels[i]
		if r.Op != cql.Eq || r.Tuple || r.Token || r.Key != nil {
			return nil, nil, false, nil
		}
		c := t.Columns[r.Columns[0]]
		if c == nil || (c.Kind != schema.PartitionKey && c.Kind != schema.Clustering) {
			return nil, nil, false, nil
		}
		at := c.Position
		if c.Kind == schema.Clustering {
			at += len(t.PartitionKey)
		}
		if at >= len(rels) || exprs[at] != nil {
			return nil, nil, false, nil
		}
		exprs[at] = r.Value
	}
	if pk, err = p.keyTerms(t, t.PartitionKey, exprs); err != nil {
		return nil, nil, true, err
	}
	if len(rels) > len(t.PartitionKey) {
		ck, err = p.keyTerms(t, t.Clustering, exprs[len(t.PartitionKey):])
	}
	return pk, ck, true, err
}

func (p *planner) keyTerms(t *schema.Table, cols []*schema.Column, exprs []cql.Expr) ([]term, error) {
	terms := make([]term, len(cols))
	for i, c := range cols {
		v, err := p.term(exprs[i], specOf(t, c))
		if err != nil {
			return nil, err
		}
		terms[i] = v
	}
	return terms, nil
}

// planRows plans WHERE.
func (m *modifyPlan) planRows(p *planner, rels []cql.Relation, kind string) error {
	pk, ck, ok, err := p.simpleKey(m.t, rels)
	if err != nil {
		return err
	}
	if ok && (ck == nil || !m.staticOnly) && (ck != nil || len(m.t.Clustering) == 0 || m.staticOnly || m.kind == deleteKind) {
		m.pk, m.ck = pk, ck
		return nil
	}
	m.where, err = p.whereOf(m.t, rels, whereOptions{kind: kind, staticOnly: m.staticOnly})
	return err
}

// namesRows reports that the statement restricts rows of a partition, not only the partition.
func (m *modifyPlan) namesRows() bool {
	if m.where != nil {
		return len(m.where.clustering) > 0
	}
	return m.ck != nil
}

// changesRows reports that regular rows are changed, static ones apart.
func (m *modifyPlan) changesRows() bool { return len(m.t.Clustering) == 0 || m.namesRows() }

// mutation is one modification being added to a batch.
type mutation struct {
	x    *execution
	m    *modifyPlan
	b    *store.Batch
	view *store.View // prior state, for operations that read; else nil
	ts   int64
	ttl  int32

	key        store.Key
	comps      [][]byte // the partition key's components
	clustering [][]byte // of the row being changed; nil for the static row
	rb         *store.RowBuilder
	json       map[string]value // INSERT JSON's values by column; null where not given
	onKey      func(store.Key)  // told of each partition; may be nil
	size       int              // as batch_size_warn_threshold counts it

	pending         []pendingCell // of lists, in the row being changed
	entries         [][]byte      // scratch: values of index entries
	compsBuf, ckBuf [4][]byte
}

// minTimestamp is the one value that stands for no timestamp.
const minTimestamp = -1 << 63

// times evaluates the statement's timestamp and TTL.
func (mu *mutation) times() error {
	m, x := mu.m, mu.x
	mu.ts, mu.ttl = x.timestamp, m.t.Options.DefaultTTL
	if m.timestamp != nil {
		v, err := m.timestamp.eval(x)
		switch {
		case err != nil:
			return err
		case v.Unset:
		case v.Bytes == nil || len(v.Bytes) == 0:
			return invalidf("Invalid null value of timestamp")
		default:
			mu.ts = bigintOf(v.Bytes)
		}
	}
	if mu.ts == minTimestamp {
		return invalidf("Out of bound timestamp, must be in [%d, %d]", int64(minTimestamp)+1, int64(1<<63-1))
	}
	if m.ttl == nil {
		return nil
	}
	v, err := m.ttl.eval(x)
	switch {
	case err != nil:
		return err
	case v.Unset:
		return nil
	case len(v.Bytes) == 0:
		mu.ttl = 0
		return nil
	}
	mu.ttl = intOf(v.Bytes)
	if mu.ttl < 0 {
		return invalidf("A TTL must be greater or equal to 0, but was %d", mu.ttl)
	}
	if mu.ttl > maxTTL {
		return invalidf("ttl is too large. requested (%d) maximum (%d)", mu.ttl, maxTTL)
	}
	return nil
}

// maxTTL is 20 years, Cassandra's limit.
const maxTTL = 20 * 365 * 24 * 60 * 60

// add puts the statement's changes into the batch.
func (mu *mutation) add() error {
	m := mu.m
	if m.json != nil {
		if err := m.json.parse(mu); err != nil {
			return err
		}
	}
	if m.where != nil {
		return mu.addWhere()
	}
	if err := mu.simpleKey(); err != nil {
		return err
	}
	if m.ck != nil || len(m.t.Clustering) == 0 {
		ck, err := mu.keyValues(mu.ckBuf[:0], m.t.Clustering, m.ck)
		if err != nil {
			return err
		}
		if err := checkClusteringSize(ck); err != nil {
			return err
		}
		mu.clustering = ck
		return mu.addRow()
	}
	return mu.addPartition()
}

// simpleKey evaluates the partition's key.
func (mu *mutation) simpleKey() (err error) {
	if mu.comps, err = mu.keyValues(mu.compsBuf[:0], mu.m.t.PartitionKey, mu.m.pk); err != nil {
		return err
	}
	mu.key, err = keyOf(mu.m.t, mu.comps)
	if err == nil && mu.onKey != nil {
		mu.onKey(mu.key)
	}
	return err
}

// keyValues evaluates the values of key columns, which must be there.
func (mu *mutation) keyValues(dst [][]byte, cols []*schema.Column, terms []term) ([][]byte, error) {
	for i, t := range terms {
		v, err := t.eval(mu.x)
		if err != nil {
			return nil, err
		}
		if v.Unset {
			return nil, invalidf("Invalid unset value for column %s", cols[i].Name)
		}
		if v.Bytes == nil {
			return nil, invalidf("Invalid null value in condition for column %s", cols[i].Name)
		}
		dst = append(dst, v.Bytes)
	}
	return dst, nil
}

// keyOf makes a partition's key, with Cassandra's limits.
func keyOf(t *schema.Table, comps [][]byte) (store.Key, error) {
	size := len(comps[0])
	if len(comps) == 1 {
		if size == 0 {
			return store.Key{}, invalidf("Key may not be empty")
		}
	} else {
		size = 0
		for _, c := range comps {
			size += len(c) + 3
		}
	}
	if size > maxKeyBytes {
		return store.Key{}, invalidf("Key length of %d is longer than maximum of %d", size, maxKeyBytes)
	}
	k, err := store.KeyOf(t, comps)
	if err != nil {
		return k, invalidf("%s", err.Error())
	}
	return k, nil
}

const maxKeyBytes = 65535

// checkClusteringSize refuses clustering values over 64 KiB in all.
func checkClusteringSize(ck [][]byte) error {
	size := 0
	for _, c := range ck {
		size += len(c)
	}
	if size > maxKeyBytes {
		return invalidf("Key length of %d is longer than maximum of %d", size, maxKeyBytes)
	}
	return nil
}

// addRow changes one row, and the partition's static row where the statement says so.
func (mu *mutation) addRow() error {
	m := mu.m
	if m.kind == deleteKind && len(m.regulars) == 0 && len(m.statics) == 0 {
		mu.startRow(mu.clustering)
		mu.rb.Delete(mu.ts)
		return nil
	}
	if len(m.regulars) > 0 || m.kind == insertKind {
		mu.startRow(mu.clustering)
		if m.kind == insertKind {
			mu.rb.Marker(mu.ts, mu.ttl)
		}
		if err := mu.apply(m.regulars); err != nil {
			return err
		}
		if m.keyIndexes != nil && m.kind != deleteKind {
			if err := mu.indexKey(); err != nil {
				return err
			}
		}
	}
	return mu.addStatic()
}

// startRow goes to another row of the batch.
func (mu *mutation) startRow(clustering [][]byte) {
	mu.pending = mu.pending[:0]
	mu.rb = mu.b.Row(mu.m.t, mu.key, clustering)
	mu.size += rowBytes
	for _, c := range clustering {
		mu.size += len(c)
	}
}

func (mu *mutation) addStatic() error {
	if len(mu.m.statics) == 0 {
		return nil
	}
	clustering := mu.clustering
	mu.clustering = nil
	mu.startRow(nil)
	err := mu.apply(mu.m.statics)
	if err == nil && mu.m.keyIndexes != nil && mu.m.kind != deleteKind {
		err = mu.indexKey()
	}
	mu.clustering = clustering
	return err
}

// addPartition carries out a statement that names a partition and no rows.
func (mu *mutation) addPartition() error {
	m := mu.m
	if len(m.regulars) > 0 {
		return invalidf("Range deletions are not supported for specific columns")
	}
	if len(m.statics) > 0 {
		return mu.addStatic()
	}
	mu.b.DeletePartition(m.t, mu.key, mu.ts)
	return nil
}

// addWhere carries out a statement whose rows WHERE names in a wider form.
func (mu *mutation) addWhere() error {
	m, w := mu.m, mu.m.where
	keys, err := w.keys(mu.x)
	if err != nil {
		return err
	}
	slices, rows, err := w.slices(mu.x)
	if err != nil {
		return err
	}
	for _, k := range keys {
		mu.key = k
		if mu.onKey != nil {
			mu.onKey(k)
		}
		if m.keyIndexes != nil {
			if mu.comps, err = k.Components(m.t); err != nil {
				return err
			}
		}
		if !m.namesRows() && (len(m.t.Clustering) > 0 || len(slices) > 0) {
			if err := mu.addPartition(); err != nil {
				return err
			}
			continue
		}
		if len(m.t.Clustering) == 0 {
			mu.clustering = mu.ckBuf[:0]
			if err := mu.addRow(); err != nil {
				return err
			}
			continue
		}
		if err := mu.addSlices(slices, rows); err != nil {
			return err
		}
	}
	return nil
}

func (mu *mutation) addSlices(slices []store.Slice, rows bool) error {
	m := mu.m
	for _, s := range slices {
		if rows {
			if err := checkClusteringSize(s.Start.Prefix); err != nil {
				return err
			}
			mu.clustering = s.Start.Prefix
			if err := mu.addRow(); err != nil {
				return err
			}
			continue
		}
		if len(m.regulars) > 0 || len(m.statics) > 0 {
			return invalidf("Range deletions are not supported for specific columns")
		}
		mu.b.DeleteRange(m.t, mu.key, s, mu.ts)
		mu.size += deletionBytes
	}
	return nil
}

// run carries out the statement on its own.
func (m *modifyPlan) run(ctx context.Context, x *execution) (*Result, error) {
	if m.cond != nil {
		return m.runConditional(ctx, x)
	}
	if err := m.checkLevel(x); err != nil {
		return nil, err
	}
	writeType := "SIMPLE"
	if m.t.Counter {
		writeType = "COUNTER"
	}
	if x.trace != nil {
		x.trace.Event("Determining replicas for mutation")
		x.trace.Stage(writeThread)
	}
	if m.reads {
		return m.runReading(ctx, x)
	}
	b := x.e.opts.Store.NewBatch(x.nowSec)
	mu := mutations.Get().(*mutation)
	mu.x, mu.m, mu.b = x, m, b
	err := mu.times()
	if err == nil {
		err = mu.add()
	}
	mu.release()
	if err == nil {
		err = x.checkSize(m.t, b)
	}
	if err != nil {
		b.Discard()
		return nil, err
	}
	return x.apply(ctx, b, false, writeType)
}

// writeResult is a write's answer, with room for its commit.
type writeResult struct {
	Result
	commit store.Commit
}

// apply applies a batch and makes the answer of an unconditional write.
func (x *execution) apply(ctx context.Context, b *store.Batch, logged bool, writeType string) (*Result, error) {
	if x.trace != nil {
		x.trace.Event("Appending to commitlog")
		x.trace.Event("Adding to memtable")
	}
	r := &writeResult{}
	c, err := x.e.opts.Store.Apply(ctx, b, logged)
	if err != nil {
		return nil, writeError(err, x.p.Consistency, writeType)
	}
	r.commit = c
	r.Kind = cqlwire.ResultVoid
	r.Commit = &r.commit
	return &r.Result, nil
}

func (m *modifyPlan) checkLevel(x *execution) error {
	if m.t.Counter && x.p.Consistency == cqlwire.Any {
		return invalidf("Consistency level ANY is not yet supported for counter table %s", m.t.Name)
	}
	if m.t.Counter && (x.p.Consistency == cqlwire.Serial || x.p.Consistency == cqlwire.LocalSerial) {
		return invalidf("Counter operations are inherently non-serializable")
	}
	if m.reads && x.p.Consistency == cqlwire.Any {
		return invalidf("Write operation require a read but consistency ANY is not supported on reads")
	}
	return checkWrite(x.p.Consistency)
}

// checkSize refuses a write that is larger than one may be.
func (x *execution) checkSize(t *schema.Table, b *store.Batch) error {
	limit := x.e.opts.Limits.MaxValueBytes.Load()
	if size := int64(b.Size()); size > limit {
		return invalidf("Rejected an oversized mutation (%d/%d) for keyspace: %s. Top keys are: %s.", size, limit, t.Keyspace, t.Name)
	}
	return nil
}

// targetKeys are the partitions that a statement changes.
func (m *modifyPlan) targetKeys(mu *mutation) ([]store.Key, error) {
	if m.where != nil {
		return m.where.keys(mu.x)
	}
	if m.json != nil {
		if err := m.json.parse(mu); err != nil {
			return nil, err
		}
	}
	if err := mu.simpleKey(); err != nil {
		return nil, err
	}
	return []store.Key{mu.key}, nil
}

// runReading carries out operations that must see the row before they change
// it, with the partitions held.
func (m *modifyPlan) runReading(ctx context.Context, x *execution) (*Result, error) {
	mu := &mutation{x: x, m: m}
	keys, err := m.targetKeys(mu)
	if err != nil {
		return nil, err
	}
	ctx, cancel := x.writeDeadline(ctx)
	defer cancel()
	l, err := x.e.opts.Store.Lock(ctx, m.t, keys...)
	if err != nil {
		return nil, writeError(err, x.p.Consistency, "SIMPLE")
	}
	defer l.Unlock()
	b := x.e.opts.Store.NewBatch(x.nowSec)
	var stats store.ReadStats
	view := x.e.opts.Store.View(store.ReadOptions{NowSec: x.nowSec, Stats: &stats})
	mu.b, mu.view = b, view
	if err = mu.times(); err == nil {
		err = mu.add()
	}
	if cerr := view.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = x.checkSize(m.t, b)
	}
	if err != nil {
		b.Discard()
		return nil, err
	}
	r := &writeResult{}
	c, err := l.Apply(ctx, b)
	if err != nil {
		return nil, writeError(err, x.p.Consistency, "SIMPLE")
	}
	r.commit = c
	r.Kind = cqlwire.ResultVoid
	r.Commit = &r.commit
	return &r.Result, nil
}

// writeDeadline bounds how long a write waits for its partitions.
func (x *execution) writeDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return withTimeout(ctx, x.e.opts.Limits.WriteTimeoutMillis.Load())
}
