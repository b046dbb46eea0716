package exec

import (
	"context"
	"strings"
	"time"

	"varve/internal/cql"
	"varve/internal/cqltype"
	"varve/internal/schema"
	"varve/internal/store"
)

// WhyRequest asks what a partition holds and what reading it costs.
type WhyRequest struct {
	// Table is a table's name with its keyspace, as in CQL.
	Table string
	// Key is the partition key as CQL literals: 'a', 5, or (1, 'x') for several columns.
	Key string
	// Range is what stands after WHERE on clustering columns; "": all rows.
	Range string
	// MaxRows and MaxTime bound the walk; 0: a million rows, ten seconds.
	MaxRows int64
	MaxTime time.Duration
}

// WhyAnswer is what Why found. Times are seconds since the epoch.
type WhyAnswer struct {
	Table, Key, Range string
	Now               int64
	GCGraceSeconds    int64
	TombstoneWarn     int64
	TombstoneFail     int64
	*store.Explanation
	// GoOn is the Range at which to go on after a bound ended the walk; "" when it cannot be written.
	GoOn string
	// Returns tells when what takes which space back; Advice what to change.
	Returns, Advice []string
}

// Bounds of a Why.
const (
	whyRows    = 1_000_000
	whyMaxRows = 100_000_000
	whyTime    = 10 * time.Second
	whyMaxTime = 10 * time.Minute
	whyPage    = 50
	whyText    = 64 << 10
)

// Why explains one partition, or a range of its rows: what is alive, what is
// dead and why, what a page costs, and when the space comes back.
func (e *Engine) Why(ctx context.Context, r WhyRequest) (*WhyAnswer, error) {
	if len(r.Table)+len(r.Key)+len(r.Range) > whyText {
		return nil, invalidf("table, key and range are longer than %d bytes", whyText)
	}
	if r.MaxRows < 0 || r.MaxRows > whyMaxRows || r.MaxTime < 0 || r.MaxTime > whyMaxTime {
		return nil, invalidf("the walk's bounds go from 1 to %d rows and to %s", whyMaxRows, whyMaxTime)
	}
	snap := e.opts.Catalog.Snapshot()
	sp, err := planWhy(snap, &r)
	if err != nil {
		return nil, err
	}
	x := e.begin(&Session{}, &Params{}, nil, nil)
	defer x.end()
	// Bounded by MaxTime; schema changes do not wait for it: the rows of a table dropped meanwhile are not there any more.
	var sc whereScratch
	if err := sp.where.appendKeys(x, &sc); err != nil {
		return nil, err
	}
	slices, _, err := sp.where.slices(x)
	if err != nil {
		return nil, err
	}
	if slices != nil && len(slices) == 0 {
		return nil, invalidf("the range %q holds no row: its start lies past its end", r.Range)
	}
	o := store.ExplainOptions{NowSec: x.nowSec, Slices: slices, MaxRows: r.MaxRows, PageRows: whyPage}
	if o.MaxRows == 0 {
		o.MaxRows = whyRows
	}
	if r.MaxTime == 0 {
		r.MaxTime = whyTime
	}
	o.Deadline = time.Now().Add(r.MaxTime)
	ex, err := e.opts.Store.Explain(ctx, sp.table, sc.keys[0], o)
	if err != nil {
		return nil, err
	}
	l := e.opts.Limits
	a := &WhyAnswer{
		Table: sp.table.Keyspace + "." + sp.table.Name, Key: literalsText(sp.table.PartitionKey, sc.comps), Range: r.Range,
		Now: x.nowSec, GCGraceSeconds: int64(sp.table.Options.GCGraceSeconds),
		TombstoneWarn: l.TombstoneWarn.Load(), TombstoneFail: l.TombstoneFail.Load(), Explanation: ex,
	}
	a.GoOn = goOn(sp.table, ex.StoppedAt, slices)
	a.Returns = a.returns()
	a.Advice = a.advice(sp.table)
	return a, nil
}

// planWhy makes the SELECT that reads what is asked about.
func planWhy(snap *schema.Snapshot, r *WhyRequest) (*selectPlan, error) {
	sel, err := parseWhere(r.Table, "x = 0", "TABLE")
	if err != nil {
		return nil, err
	}
	p := &planner{snap: snap}
	if sel.Table.Keyspace == "" {
		return nil, invalidf("table %s needs its keyspace, as in keyspace.%s", r.Table, r.Table)
	}
	t, err := p.lookupTable(sel.Table)
	if err != nil {
		return nil, err
	}
	if t.Virtual {
		return nil, invalidf("table %s.%s is not stored: its rows are made when it is read", t.Keyspace, t.Name)
	}
	where, err := keyRelations(t, r)
	if err != nil {
		return nil, err
	}
	if r.Range != "" {
		ranges, err := parseWhere(r.Table, r.Range, "RANGE")
		if err != nil {
			return nil, err
		}
		for i := range ranges.Where {
			if err := checkClusteringOnly(t, &ranges.Where[i]); err != nil {
				return nil, err
			}
		}
		where = append(where, ranges.Where...)
	}
	return p.planSelect(&cql.Select{Table: sel.Table, Where: where})
}

// parseWhere parses text as the whole of what follows WHERE.
func parseWhere(table, text, what string) (*cql.Select, error) {
	parsed, err := cql.Parse("SELECT * FROM " + table + " WHERE " + text)
	if err != nil {
		return nil, invalidf("%s: %v", what, err)
	}
	sel, ok := parsed.Stmt.(*cql.Select)
	if !ok || len(sel.GroupBy)+len(sel.OrderBy) > 0 || sel.PerPartitionLimit != nil || sel.Limit != nil || sel.AllowFiltering {
		return nil, invalidf("%s takes conditions alone, not %q", what, text)
	}
	if len(parsed.Markers) > 0 {
		return nil, invalidf("%s takes values, not bind markers", what)
	}
	return sel, nil
}

// keyRelations are the equalities that name the partition.
func keyRelations(t *schema.Table, r *WhyRequest) ([]cql.Relation, error) {
	form := keyForm(t)
	parsed, err := parseWhere(r.Table, "x = "+r.Key, "KEY")
	if err != nil {
		return nil, invalidf("KEY %s is not the partition key of %s.%s, which is written as %s: %v",
			r.Key, t.Keyspace, t.Name, form, err)
	}
	wrong := invalidf("KEY %s is not the partition key of %s.%s, which is written as %s", r.Key, t.Keyspace, t.Name, form)
	if len(parsed.Where) != 1 {
		return nil, wrong
	}
	values := []cql.Expr{parsed.Where[0].Value}
	if len(t.PartitionKey) > 1 {
		tuple, ok := values[0].(*cql.TupleLit)
		if !ok || len(tuple.Elems) != len(t.PartitionKey) {
			return nil, wrong
		}
		values = tuple.Elems
	}
	var out []cql.Relation
	for i, c := range t.PartitionKey {
		out = append(out, cql.Relation{Columns: []string{c.Name}, Op: cql.Eq, Value: values[i]})
	}
	return out, nil
}

// keyForm shows how a partition key is written: (id int, day date).
func keyForm(t *schema.Table) string {
	cols := make([]string, len(t.PartitionKey))
	for i, c := range t.PartitionKey {
		cols[i] = c.Name + " " + c.Type.String()
	}
	if len(cols) == 1 {
		return cols[0]
	}
	return "(" + strings.Join(cols, ", ") + ")"
}

func checkClusteringOnly(t *schema.Table, rel *cql.Relation) error {
	for _, name := range rel.Columns {
		c := t.Columns[name]
		if c == nil {
			return undefinedColumn(t, name)
		}
		if c.Kind != schema.Clustering || rel.Token || rel.Key != nil {
			var names []string
			for _, c := range t.Clustering {
				names = append(names, c.Name)
			}
			if len(names) == 0 {
				return invalidf("RANGE is on clustering columns, and %s.%s has none", t.Keyspace, t.Name)
			}
			return invalidf("RANGE is on the clustering columns (%s) of %s.%s, not on %s",
				strings.Join(names, ", "), t.Keyspace, t.Name, name)
		}
	}
	return nil
}

// goOn writes the rest of the last slice, past a row, as conditions. Where
// ascending and descending columns are mixed there is no single condition.
func goOn(t *schema.Table, at [][]byte, slices []store.Slice) string {
	if len(at) == 0 || len(slices) > 1 {
		return ""
	}
	desc := t.Clustering[0].Desc
	for _, c := range t.Clustering {
		if c.Desc != desc {
			return ""
		}
	}
	after, before := ">", "<"
	if desc {
		after, before = "<", ">"
	}
	text := clusteringText(t, at, after)
	if len(slices) == 1 && len(slices[0].End.Prefix) > 0 {
		if slices[0].End.Inclusive {
			before += "="
		}
		text += " AND " + clusteringText(t, slices[0].End.Prefix, before)
	}
	return text
}

// clusteringText is a bound as CQL: c > 5, or (a, b) > (1, 2) where the table
// has several clustering columns, since both ends of a slice must be of one form.
func clusteringText(t *schema.Table, values [][]byte, op string) string {
	names, literals := make([]string, len(values)), make([]string, len(values))
	for i, v := range values {
		names[i], literals[i] = cqltype.MaybeQuote(t.Clustering[i].Name), literalText(t.Clustering[i].Type, v)
	}
	if len(t.Clustering) == 1 {
		return names[0] + " " + op + " " + literals[0]
	}
	return "(" + strings.Join(names, ", ") + ") " + op + " (" + strings.Join(literals, ", ") + ")"
}
