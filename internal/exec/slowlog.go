package exec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"varve/internal/cql"
	"varve/internal/schema"
	"varve/internal/store"
)

// The slow log's bounds. Interval and count are Cassandra's
// (cassandra.monitoring_report_interval_ms and cassandra.monitoring_max_operations).
const (
	slowInterval  = 5 * time.Second
	slowPerReport = 50
	slowKept      = 500 // in varve.slow_queries
	slowTextBytes = 4096
	slowKeyBytes  = 512
)

// slowQuery is a statement that took longer than slow_query_log_timeout.
type slowQuery struct {
	started         time.Time
	took            time.Duration
	keyspace, table string // of the first table; "": none
	key             string // of the partition, where the statement names one
	text            string
	client          string
	failed          bool
	reads           store.ReadStats
}

// slowGroup is what the report of an interval says of one statement.
type slowGroup struct {
	last          slowQuery
	count         int64
	sum, min, max time.Duration
	limit         time.Duration
}

// slowLog keeps the newest slow statements and writes them to the log, those of
// one interval together, so that a server in trouble does not drown in its log.
type slowLog struct {
	logger *slog.Logger
	total  atomic.Int64

	mu      sync.Mutex
	kept    []slowQuery // a ring once it is full
	next    int
	groups  map[string]*slowGroup
	dropped int64 // statements that the report has no room for
	wake    chan struct{}
	stop    chan struct{}
	done    sync.WaitGroup
}

func (l *slowLog) start(logger *slog.Logger) {
	l.logger = logger
	l.wake, l.stop = make(chan struct{}, 1), make(chan struct{})
	l.done.Go(l.loop)
}

// close writes what the interval under way has.
func (l *slowLog) close() {
	close(l.stop)
	l.done.Wait()
	l.report()
}

// loop reports an interval after the first slow statement of one; it sleeps while there is none.
func (l *slowLog) loop() {
	for {
		select {
		case <-l.stop:
			return
		case <-l.wake:
		}
		t := time.NewTimer(slowInterval)
		select {
		case <-l.stop:
			t.Stop()
			return
		case <-t.C:
		}
		l.report()
	}
}

func (l *slowLog) add(q slowQuery, limit time.Duration) {
	l.total.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) < slowKept {
		l.kept = append(l.kept, q)
	} else {
		l.kept[l.next] = q
		l.next = (l.next + 1) % slowKept
	}
	g := l.groups[q.text]
	switch {
	case g != nil:
		g.min, g.max = min(g.min, q.took), max(g.max, q.took)
	case len(l.groups) >= slowPerReport:
		l.dropped++
		return
	default:
		g = &slowGroup{min: q.took, max: q.took, limit: limit}
		if l.groups == nil {
			l.groups = map[string]*slowGroup{}
		}
		l.groups[q.text] = g
	}
	g.last = q
	g.count++
	g.sum += q.took
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// report writes the interval's statements to the log, one line each.
func (l *slowLog) report() {
	l.mu.Lock()
	groups, dropped, logger := l.groups, l.dropped, l.logger
	l.groups, l.dropped = nil, 0
	l.mu.Unlock()
	list := make([]*slowGroup, 0, len(groups))
	for _, g := range groups {
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b *slowGroup) int { return a.last.started.Compare(b.last.started) })
	for _, g := range list {
		q := &g.last
		logger.Warn("slow query", "times", g.count, "avg", g.sum/time.Duration(g.count), "min", g.min, "max", g.max,
			"slow_query_log_timeout", g.limit, "table", q.tableName(), "partition", q.key, "failed", q.failed,
			"rows", q.reads.Rows, "walked", q.reads.Walked, "jumped", q.reads.Jumped, "query", q.text)
	}
	if dropped > 0 {
		logger.Warn("slow queries left out of this report", "dropped", dropped, "see", "varve.slow_queries")
	}
}

func (q *slowQuery) tableName() string {
	if q.table == "" {
		return ""
	}
	return q.keyspace + "." + q.table
}

// recent are the statements kept, oldest first.
func (l *slowLog) recent() []slowQuery {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(slices.Clone(l.kept[l.next:]), l.kept[:l.next]...)
}

// slow reports that the execution took longer than slow_query_log_timeout.
func (x *execution) slow(err error) (took, limit time.Duration, ok bool) {
	limit = time.Duration(x.e.opts.Limits.SlowQueryMillis.Load()) * time.Millisecond
	if limit <= 0 {
		return 0, 0, false
	}
	took = time.Since(x.start)
	return took, limit, took >= limit && !errors.Is(err, errStale)
}

// noteSlow files a statement that took too long. It is called while the
// execution still has its values.
func (x *execution) noteSlow(st *planned, err error) {
	took, limit, ok := x.slow(err)
	if !ok {
		return
	}
	text := x.text
	if a, ok := st.run.(*adminPlan); ok {
		text = hidePassword(a.st, text)
	}
	q := x.slowQuery(took, err, text)
	if len(st.tables) > 0 {
		q.keyspace, q.table = st.tables[0].Keyspace, st.tables[0].Name
		q.key = cutText(st.keyText(x), slowKeyBytes)
	}
	x.e.slow.add(q, limit)
}

func (x *execution) slowQuery(took time.Duration, err error, text string) slowQuery {
	q := slowQuery{
		started: x.e.opts.Clock().Add(-took), took: took, text: cutText(text, slowTextBytes), failed: err != nil, reads: x.reads,
	}
	if x.s.Client.IsValid() {
		q.client = x.s.Client.String()
	}
	return q
}

// noteSlow files a batch of the protocol that took too long, under its first statement's table.
func (r *batchRun) noteSlow(err error) {
	took, limit, ok := r.x.slow(err)
	if !ok || len(r.stmts) == 0 {
		return
	}
	first := &r.stmts[0]
	q := r.x.slowQuery(took, err, fmt.Sprintf("BATCH of %d statements, the first on %s.%s", len(r.stmts), first.m.t.Keyspace, first.m.t.Name))
	q.keyspace, q.table = first.m.t.Keyspace, first.m.t.Name
	q.key = cutText((&planned{modify: first.m, tables: []*schema.Table{first.m.t}}).keyText(first.x), slowKeyBytes)
	r.x.e.slow.add(q, limit)
}

var passwordWord = regexp.MustCompile("(?i)password")

// hidePassword drops a role statement's text from the password on, as
// Cassandra's PasswordObfuscator does: logs are read by more people than roles.
func hidePassword(st cql.Statement, text string) string {
	o := optionsOf(st)
	if o == nil || o.Password == nil && o.HashedPassword == nil {
		return text
	}
	end := 0
	if at := passwordWord.FindStringIndex(text); at != nil {
		end = at[1]
	}
	return text[:end] + " *******"
}

// cutText is a copy of the start of a text, cut between characters.
func cutText(s string, limit int) string {
	if len(s) <= limit {
		return strings.Clone(s)
	}
	for limit > 0 && s[limit]&0xc0 == 0x80 {
		limit--
	}
	return s[:limit] + "…"
}

// keyText is the partition that a statement is about, the first one where it names several.
func (st *planned) keyText(x *execution) string {
	var keys []store.Key
	var err error
	switch {
	case st.modify != nil:
		keys, err = st.modify.targetKeys(&mutation{x: x, m: st.modify})
	default:
		sp, ok := st.run.(*selectPlan)
		if !ok || sp.virtual != nil || sp.where.keyRange || sp.where.usesIndex {
			return ""
		}
		var sc whereScratch
		err = sp.where.appendKeys(x, &sc)
		keys = sc.keys
	}
	if err != nil || len(keys) == 0 {
		return ""
	}
	comps, err := keys[0].Components(st.tables[0])
	if err != nil {
		return ""
	}
	text := literalsText(st.tables[0].PartitionKey, comps)
	if len(keys) > 1 {
		text += " and others"
	}
	return text
}

func slowQueryRows(_ context.Context, e *Engine, _ *Session) ([][][]byte, error) {
	v := newVirtualRows(e.opts.Catalog.Snapshot(), "varve", "slow_queries")
	for i, q := range e.slow.recent() {
		v.next().text("keyspace_name", q.keyspace).text("table_name", q.table).
			set("started_at", timestampValue(q.started.UnixMilli())).int("sequence", int32(i)).
			text("partition_key", q.key).text("query", q.text).text("client", q.client).
			double("duration_ms", float64(q.took)/float64(time.Millisecond)).boolean("failed", q.failed).
			bigint("rows", q.reads.Rows).bigint("walked", q.reads.Walked).
			bigint("jumped", q.reads.Jumped).bigint("spans", q.reads.Spans)
	}
	return v.rows, nil
}
