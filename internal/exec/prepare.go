package exec

import (
	"context"
	"crypto/md5"
	"sync"
	"sync/atomic"

	"varve/internal/cql"
	"varve/internal/cqlwire"
	"varve/internal/schema"
)

// preparedState is what the engine keeps of a prepared statement.
type preparedState struct {
	plan  *planned
	bytes int64       // what it counts for in the cache
	used  atomic.Bool // since the eviction hand last passed
	// outdated: clients have to prepare it again. It stays in the cache so
	// that its successor knows which columns were announced before.
	outdated atomic.Bool
}

type statementID [md5.Size]byte

// statementCache keeps prepared statements. Lookups take no lock; the rest
// happens when a statement is prepared, evicted or planned anew. Eviction
// goes round (the clock algorithm), sparing those used since the last round.
type statementCache struct {
	m sync.Map // statementID to *Prepared

	mu    sync.Mutex
	ring  []*Prepared
	hand  int
	bytes int64
}

func (c *statementCache) get(id []byte) *Prepared {
	if len(id) != md5.Size {
		return nil
	}
	v, ok := c.m.Load(statementID(id))
	if !ok {
		return nil
	}
	ps := v.(*Prepared)
	if !ps.used.Load() {
		ps.used.Store(true)
	}
	return ps
}

// put files ps, in place of one with the same id, and evicts what exceeds the
// limits. ps itself stays.
func (c *statementCache) put(ps *Prepared, maxCount, maxBytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := statementID(ps.ID)
	old, replaced := c.m.Swap(id, ps)
	c.bytes += ps.bytes
	if replaced {
		c.bytes -= old.(*Prepared).bytes
		for i, o := range c.ring {
			if o == old {
				c.ring[i] = ps
			}
		}
	} else {
		c.ring = append(c.ring, ps)
	}
	for len(c.ring) > 1 && (int64(len(c.ring)) > maxCount || c.bytes > maxBytes) {
		c.evictOne(ps)
	}
}

func (c *statementCache) evictOne(keep *Prepared) {
	for {
		if c.hand >= len(c.ring) {
			c.hand = 0
		}
		ps := c.ring[c.hand]
		if ps == keep || ps.used.Swap(false) {
			c.hand++
			continue
		}
		c.drop(c.hand)
		return
	}
}

func (c *statementCache) drop(i int) {
	ps := c.ring[i]
	c.m.Delete(statementID(ps.ID))
	c.bytes -= ps.bytes
	last := len(c.ring) - 1
	c.ring[i] = c.ring[last]
	c.ring[last] = nil
	c.ring = c.ring[:last]
}

// count is the number of statements kept.
func (c *statementCache) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ring)
}

// each calls f for every statement kept.
func (c *statementCache) each(f func(*Prepared)) {
	c.m.Range(func(_, v any) bool {
		f(v.(*Prepared))
		return true
	})
}

// idOf is a statement's id: the MD5 of keyspace and text, as in Cassandra, so
// that an id survives a restart and is the same on any node.
func idOf(keyspace, text string) []byte {
	h := md5.New()
	h.Write([]byte(keyspace))
	h.Write([]byte(text))
	return h.Sum(nil)
}

// Prepare parses and plans one statement and remembers it.
func (e *Engine) Prepare(ctx context.Context, s *Session, text, keyspace string) (*Prepared, error) {
	if keyspace == "" {
		keyspace = s.Keyspace
	}
	snap := e.opts.Catalog.Snapshot()
	for _, ks := range [...]string{"", keyspace} {
		if ps := e.cache.get(idOf(ks, text)); ps != nil && ps.Keyspace == ks && ps.holds(snap) {
			return ps, nil
		}
	}
	ps, err := e.prepare(s, snap, text, keyspace)
	if err != nil {
		return nil, wireError(err)
	}
	if limit := e.opts.Limits.MaxPreparedBytes.Load(); ps.bytes > limit {
		return nil, invalidf("Prepared statement of size %d bytes is larger than allowed maximum of %d MB: %s...",
			ps.bytes, limit>>20, text[:min(len(text), 200)])
	}
	e.remember(ps)
	return ps, nil
}

func (e *Engine) remember(ps *Prepared) {
	if old := e.cache.get(ps.ID); old != nil {
		ps.ColumnsChanged = old.ColumnsChanged || !sameColumns(old.ResultColumns, ps.ResultColumns)
	}
	e.cache.put(ps, e.opts.Limits.MaxPrepared.Load(), e.opts.Limits.MaxPreparedBytes.Load())
}

func (e *Engine) prepare(s *Session, snap *schema.Snapshot, text, keyspace string) (*Prepared, error) {
	if limit := e.opts.Limits.MaxStatementBytes.Load(); limit > 0 && int64(len(text)) > limit {
		return nil, invalidf("Statement of %d bytes is longer than the maximum of %d", len(text), limit)
	}
	parsed, err := cql.Parse(text)
	if err != nil {
		return nil, err
	}
	st, err := e.plan(snap, keyspace, parsed)
	if err != nil {
		return nil, err
	}
	if qualified(parsed.Stmt) {
		keyspace = ""
	}
	metadata := cqlwire.ResultMetadataID(st.columns)
	ps := &Prepared{
		ID: idOf(keyspace, text), Text: text, Keyspace: keyspace,
		Variables: st.variables, PartitionKeyIdx: st.pkIndexes,
		ResultColumns: st.columns, ResultMetadataID: metadata[:], Warnings: st.warnings,
	}
	ps.plan = st
	ps.bytes = statementBytes(ps)
	return ps, nil
}

// statementBytes estimates the memory of a prepared statement: its text, the
// plan, which grows with the text, and its columns.
func statementBytes(ps *Prepared) int64 {
	const base, perColumn, planFactor = 1024, 128, 4
	return base + int64(len(ps.Text))*planFactor + int64(len(ps.Variables)+len(ps.ResultColumns))*perColumn
}

// qualified reports that a statement's meaning does not depend on the session's keyspace.
func qualified(st cql.Statement) bool {
	switch st := st.(type) {
	case *cql.Select:
		return st.Table.Keyspace != ""
	case *cql.Insert:
		return st.Table.Keyspace != ""
	case *cql.Update:
		return st.Table.Keyspace != ""
	case *cql.Delete:
		return st.Table.Keyspace != ""
	}
	return false
}

// holds reports that the plan is right for snap.
func (ps *Prepared) holds(snap *schema.Snapshot) bool { return ps.plan.holds(snap) }

// Lookup finds a prepared statement, planned anew where the schema changed
// since; an Unprepared error when it is unknown, cannot be planned any more,
// or has other variables or columns than its clients were told, as Cassandra
// has it when a table was altered.
func (e *Engine) Lookup(ctx context.Context, s *Session, id []byte) (*Prepared, error) {
	ps := e.cache.get(id)
	if ps == nil || ps.outdated.Load() {
		return nil, unprepared(id)
	}
	snap := e.opts.Catalog.Snapshot()
	if ps.holds(snap) {
		return ps, nil
	}
	next, err := e.prepare(s, snap, ps.Text, ps.Keyspace)
	if err != nil || !sameColumns(ps.Variables, next.Variables) ||
		!sameColumns(ps.ResultColumns, next.ResultColumns) {
		ps.outdated.Store(true)
		return nil, unprepared(id)
	}
	e.remember(next)
	return next, nil
}

func sameColumns(a, b []cqlwire.ColumnSpec) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Name != b[i].Name || !a[i].Type.Equal(b[i].Type) {
			return false
		}
	}
	return true
}
