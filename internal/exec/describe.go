package exec

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"varve/internal/cql"
	"varve/internal/cqltype"
	"varve/internal/schema"
)

// element is one described thing.
type element struct {
	keyspace, kind, name, text string
}

var (
	listingNames = []string{"keyspace_name", "type", "name"}
	elementNames = []string{"keyspace_name", "type", "name", "create_statement"}
)

// describe answers DESCRIBE, which clients leave to the server since Cassandra
// 4.0. The whole answer is one page.
func (a *adminRun) describe(st *cql.Describe) (*Result, error) {
	d := describer{snap: a.e.opts.Catalog.Snapshot(), keyspace: a.keyspace, internals: st.Internals}
	switch st.What {
	case "cluster":
		return a.describeCluster(), nil
	case "keyspaces", "tables", "types", "functions", "aggregates":
		elements, err := d.listing(st.What)
		if err != nil {
			return nil, err
		}
		t := newResultTable("system", "describe", listingNames, cqltype.Text, cqltype.Text, cqltype.Text)
		for _, el := range elements {
			t.row(textValue(el.keyspace), textValue(el.kind), textValue(el.name))
		}
		return t.res, nil
	}
	elements, err := d.elements(st)
	if err != nil {
		return nil, err
	}
	t := newResultTable("system", "describe", elementNames, cqltype.Text, cqltype.Text, cqltype.Text, cqltype.Text)
	for _, el := range elements {
		t.row(textValue(el.keyspace), textValue(el.kind), textValue(el.name), textValue(el.text))
	}
	return t.res, nil
}

// describeCluster answers DESCRIBE CLUSTER; with a user's keyspace in use it
// shows which node owns which range.
func (a *adminRun) describeCluster() *Result {
	node := &a.e.opts.Node
	names := []string{"cluster", "partitioner", "snitch"}
	types := []*cqltype.Type{cqltype.Text, cqltype.Text, cqltype.Text}
	cells := [][]byte{
		textValue(node.ClusterName), textValue(partitioner[strings.LastIndexByte(partitioner, '.')+1:]),
		textValue("DynamicEndpointSnitch"),
	}
	if k := a.e.opts.Catalog.Snapshot().Keyspaces[a.keyspace]; k != nil && !k.System {
		owned := cqltype.MapOf(cqltype.Text, textListType)
		owner := textList([]string{"/" + node.Address.Addr().String() + ":" + strconv.Itoa(storagePort)})
		tokens := make([]string, len(node.Tokens))
		for i, t := range node.Tokens {
			tokens[i] = strconv.FormatInt(t, 10)
		}
		slices.Sort(tokens)
		var elems [][]byte
		for _, t := range tokens {
			elems = append(elems, textValue(t), owner)
		}
		names, types = append(names, "range_ownership"), append(types, owned)
		cells = append(cells, cqltype.AppendCollection(nil, owned, elems))
	}
	t := newResultTable("system", "describe", names, types...)
	t.row(cells...)
	return t.res
}

type describer struct {
	snap      *schema.Snapshot
	keyspace  string // of the session
	internals bool
}

// byName orders as DESCRIBE does: without regard to case.
func byName(a, b element) int {
	return cmp.Or(
		strings.Compare(strings.ToLower(a.name), strings.ToLower(b.name)),
		strings.Compare(a.name, b.name),
	)
}

func (d *describer) find(ks string) (*schema.Keyspace, error) {
	k := d.snap.Keyspaces[ks]
	if k == nil {
		return nil, invalidf("'%s' not found in keyspaces", ks)
	}
	return k, nil
}

// listing lists names: of all keyspaces, or of what the session's holds.
func (d *describer) listing(what string) ([]element, error) {
	keyspaces := sortedKeyspaces(d.snap)
	if d.keyspace != "" && what != "keyspaces" {
		k, err := d.find(d.keyspace)
		if err != nil {
			return nil, err
		}
		keyspaces = []*schema.Keyspace{k}
	}
	var out []element
	for _, k := range keyspaces {
		ks := cqltype.MaybeQuote(k.Name)
		var part []element
		switch what {
		case "keyspaces":
			part = append(part, element{keyspace: ks, kind: "keyspace", name: k.Name})
		case "tables":
			for _, t := range k.Tables {
				part = append(part, element{keyspace: ks, kind: "table", name: t.Name})
			}
		case "types":
			for _, t := range k.Types {
				part = append(part, element{keyspace: ks, kind: "type", name: t.Name})
			}
		}
		slices.SortFunc(part, byName)
		out = append(out, part...)
	}
	for i := range out {
		out[i].name = cqltype.MaybeQuote(out[i].name)
	}
	return out, nil
}

// elements describes what st names with the statements that make it.
func (d *describer) elements(st *cql.Describe) ([]element, error) {
	switch st.What {
	case "schema", "full schema":
		var out []element
		for _, k := range sortedKeyspaces(d.snap) {
			if st.What == "full schema" || !k.System {
				out = append(out, d.wholeKeyspace(k, false)...)
			}
		}
		return out, nil
	case "any":
		return d.any(st.Name)
	}
	ks := st.Name.Keyspace
	if ks == "" {
		ks = d.keyspace
	}
	if ks == "" {
		return nil, invalidf("No keyspace specified and no current keyspace")
	}
	k, err := d.find(ks)
	if err != nil {
		return nil, err
	}
	if st.What == "keyspace" {
		return d.wholeKeyspace(k, st.Only), nil
	}
	return d.named(k, st.What, st.Name.Name)
}

// any finds what a bare name means: a keyspace, then a table, then an index.
func (d *describer) any(n cql.Name) ([]element, error) {
	ks := n.Keyspace
	if ks == "" {
		if k := d.snap.Keyspaces[n.Name]; k != nil {
			return d.wholeKeyspace(k, false), nil
		}
		if ks = d.keyspace; ks == "" {
			ks = n.Name
		}
	}
	k, err := d.find(ks)
	if err != nil {
		return nil, err
	}
	if k.Tables[n.Name] != nil {
		return d.named(k, "table", n.Name)
	}
	if _, x := k.FindIndex(n.Name); x != nil {
		return d.named(k, "index", n.Name)
	}
	return nil, invalidf("'%s' not found in keyspace '%s'", n.Name, ks)
}

func (d *describer) named(k *schema.Keyspace, what, name string) ([]element, error) {
	switch what {
	case "table":
		if t := k.Tables[name]; t != nil {
			return d.table(t), nil
		}
		return nil, invalidf("Table '%s' not found in keyspace '%s'", name, k.Name)
	case "type":
		if t := k.Types[name]; t != nil {
			return []element{describeType(t)}, nil
		}
		return nil, invalidf("User defined type '%s' not found in '%s'", name, k.Name)
	case "index":
		if t, x := k.FindIndex(name); x != nil {
			return []element{describeIndex(t, x)}, nil
		}
		return nil, invalidf("Table for existing index '%s' not found in '%s'", name, k.Name)
	case "function":
		return nil, invalidf("User defined function '%s' not found in '%s'", name, k.Name)
	case "aggregate":
		return nil, invalidf("User defined aggregate '%s' not found in '%s'", name, k.Name)
	case "materialized view":
		return nil, invalidf("Materialized view '%s' not found in '%s'", name, k.Name)
	}
	return nil, invalidf("Cannot describe %s", what)
}

// wholeKeyspace describes a keyspace and, unless only itself is wanted, its
// types, each after those it is made of, and its tables with their indexes.
func (d *describer) wholeKeyspace(k *schema.Keyspace, only bool) []element {
	ks := cqltype.MaybeQuote(k.Name)
	out := []element{{keyspace: ks, kind: "keyspace", name: ks, text: schema.DescribeKeyspace(k)}}
	if only {
		return out
	}
	seen := map[string]bool{}
	var add func(t *cqltype.Type)
	add = func(t *cqltype.Type) {
		for _, e := range t.Elems {
			add(e)
		}
		if t.Kind == cqltype.KindUDT && !seen[t.Name] {
			seen[t.Name] = true
			out = append(out, describeType(k.Types[t.Name]))
		}
	}
	for _, t := range sortedTypes(k) {
		add(t)
	}
	tables := sortedTables(k)
	slices.SortStableFunc(tables, func(a, b *schema.Table) int {
		return byName(element{name: a.Name}, element{name: b.Name})
	})
	for _, t := range tables {
		out = append(out, d.table(t)...)
	}
	return out
}

func (d *describer) table(t *schema.Table) []element {
	out := []element{{
		keyspace: cqltype.MaybeQuote(t.Keyspace), kind: "table", name: cqltype.MaybeQuote(t.Name),
		text: schema.DescribeTable(t, d.internals),
	}}
	for _, x := range t.Indexes {
		out = append(out, describeIndex(t, x))
	}
	slices.SortStableFunc(out[1:], byName)
	return out
}

func describeType(t *cqltype.Type) element {
	return element{
		keyspace: cqltype.MaybeQuote(t.Keyspace), kind: "type", name: cqltype.MaybeQuote(t.Name),
		text: schema.DescribeType(t),
	}
}

func describeIndex(t *schema.Table, x *schema.Index) element {
	return element{
		keyspace: cqltype.MaybeQuote(t.Keyspace), kind: "index", name: cqltype.MaybeQuote(x.Name),
		text: schema.DescribeIndex(t, x),
	}
}
