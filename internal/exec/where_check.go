package exec

import (
	"strings"

	"varve/internal/cqltype"
	"varve/internal/schema"
)

const needsFilteringText = "Cannot execute this query as it might involve data filtering and thus may have unpredictable performance. " +
	"If you want to execute this query despite the performance unpredictability, use ALLOW FILTERING"

// check applies the rules on the clause as a whole, in Cassandra's order, and
// decides what is left to filtering.
func (w *where) check() error {
	selects := w.kind == "SELECT"
	clusteringIndexed := false
	if selects {
		clusteringIndexed = w.anyIndexed(w.clustering)
		w.indexed = clusteringIndexed || w.anyIndexed(w.partition) || w.anyIndexed(w.other)
	}
	if err := w.checkPartition(selects); err != nil {
		return err
	}
	if w.usesIndex || w.partitionNeedsFiltering() {
		w.filter(w.partition...)
		w.judged = append(w.judged, w.filtered...)
	}
	if w.staticOnly && len(w.clustering) > 0 {
		if selects {
			return invalidf("Cannot restrict clustering columns when selecting only static columns")
		}
		return invalidf("Invalid restrictions on clustering columns since the %s statement modifies only static columns",
			w.kind)
	}
	if err := w.checkClustering(); err != nil {
		return err
	}
	if w.keyRange && clusteringIndexed {
		w.usesIndex = true
	}
	if w.usesIndex || w.clusteringNeedsFiltering() {
		w.filterClustering()
		w.judged = append(w.judged, w.clustering...)
	}
	if len(w.other) > 0 {
		if !selects {
			return invalidf("Non PRIMARY KEY columns found in where clause: %s ", columnNames(w.other))
		}
		if w.indexed {
			w.usesIndex = true
		} else if !w.allowFiltering && !w.t.Virtual {
			return invalidf("%s", needsFilteringText)
		}
		w.filter(w.other...)
		w.judged = append(w.judged, w.other...)
	}
	if w.usesIndex && w.keyIn() {
		return invalidf("Select on indexed columns and with IN clause for the PRIMARY KEY are not supported")
	}
	return nil
}

func (w *where) filter(rs ...*restriction) {
	for _, r := range rs {
		if r != nil {
			w.filtered = append(w.filtered, r)
		}
	}
}

// filterClustering files those clustering restrictions under filtering that
// slices do not carry out, or that an index may serve.
func (w *where) filterClustering() {
	pos := 0
	for _, r := range w.clustering {
		if r.op == restrictContains || r.first().Position != pos || w.supported(r) {
			w.filtered = append(w.filtered, r)
			if r.op == restrictContains || r.first().Position != pos {
				continue
			}
		}
		if r.op != restrictSlice {
			pos = r.last().Position + 1
		}
	}
}

func (w *where) checkPartition(selects bool) error {
	if !selects {
		if w.token != nil {
			return invalidf("The token function cannot be used in WHERE clauses for %s statements", w.kind)
		}
		var missing []string
		for i, r := range w.partition {
			if r == nil {
				missing = append(missing, w.t.PartitionKey[i].Name)
			}
		}
		if missing != nil {
			return invalidf("Some partition key parts are missing: %s", strings.Join(missing, ", "))
		}
		for _, r := range w.partition {
			if r.op == restrictSlice {
				return invalidf("Only EQ and IN relation are supported on the partition key (unless you use the token() function) for %s statements",
					w.kind)
			}
		}
		return nil
	}
	// A whole key beside a token names partitions all the same.
	if w.token != nil && !w.wholeKey() {
		w.keyRange = true
	}
	if w.partitionEmpty() {
		w.keyRange = true
		w.usesIndex = w.indexed
	}
	if w.partitionNeedsFiltering() {
		if !w.allowFiltering && !w.indexed && !w.t.Virtual {
			return invalidf("%s", needsFilteringText)
		}
		w.keyRange = true
		w.usesIndex = w.indexed
	}
	return nil
}

func (w *where) partitionEmpty() bool {
	for _, r := range w.partition {
		if r != nil {
			return false
		}
	}
	return true
}

// partitionNeedsFiltering: some columns of the partition key are restricted,
// but not so that they name partitions.
func (w *where) partitionNeedsFiltering() bool {
	if w.partitionEmpty() {
		return false
	}
	for _, r := range w.partition {
		if r == nil || r.op == restrictSlice || r.op == restrictContains {
			return true
		}
	}
	return false
}

// wholeKey: all columns of the partition key are given by = or IN.
func (w *where) wholeKey() bool { return !w.partitionEmpty() && !w.partitionNeedsFiltering() }

// keyIn: some column of the partition key is restricted by IN.
func (w *where) keyIn() bool {
	for _, r := range w.partition {
		if r != nil && r.op == restrictIn {
			return true
		}
	}
	return false
}

func (w *where) checkClustering() error {
	if w.kind == "UPDATE" {
		return w.checkFullClustering()
	}
	for _, r := range w.clustering {
		if r.op == restrictContains && !w.indexed && !w.allowFiltering {
			return invalidf("Clustering columns can only be restricted with CONTAINS with a secondary index or filtering")
		}
	}
	if !w.clusteringNeedsFiltering() {
		return nil
	}
	if w.indexed {
		w.usesIndex = true
		return nil
	}
	if w.allowFiltering || w.t.Virtual {
		return nil
	}
	i := 0
	for _, r := range w.clustering {
		for _, c := range r.cols {
			if want := w.t.Clustering[i]; c != want {
				return invalidf("PRIMARY KEY column \"%s\" cannot be restricted as preceding column \"%s\" is not restricted",
					c.Name, want.Name)
			}
			i++
		}
	}
	return nil
}

func (w *where) checkFullClustering() error {
	restricted := map[*schema.Column]bool{}
	for _, r := range w.clustering {
		if r.op == restrictSlice {
			return invalidf("Slice restrictions are not supported on the clustering columns in %s statements", w.kind)
		}
		for _, c := range r.cols {
			restricted[c] = true
		}
	}
	if w.staticOnly {
		return nil
	}
	var missing []string
	for _, c := range w.t.Clustering {
		if !restricted[c] {
			missing = append(missing, c.Name)
		}
	}
	if missing != nil {
		return invalidf("Some clustering keys are missing: %s", strings.Join(missing, ", "))
	}
	return nil
}

// clusteringNeedsFiltering: some restriction is past a gap or a slice, or is a CONTAINS.
func (w *where) clusteringNeedsFiltering() bool {
	pos := 0
	for _, r := range w.clustering {
		if r.op == restrictContains || r.first().Position != pos {
			return true
		}
		if r.op != restrictSlice {
			pos = r.last().Position + 1
		}
	}
	return false
}

func columnNames(rs []*restriction) string {
	names := make([]string, len(rs))
	for i, r := range rs {
		names[i] = r.first().Name
	}
	return strings.Join(names, ", ")
}

// needsAllowFiltering: not every filtered restriction is served by the
// indexes, so that a range or index read would pass over rows.
func (w *where) needsAllowFiltering() bool {
	if len(w.judged) > 0 && !w.indexesServe(w.judged) {
		return true
	}
	return len(w.judged) == 0 && len(w.clustering) > 0
}

// indexesServe reports that one index (or the SAI indexes together) serves all restrictions.
func (w *where) indexesServe(rs []*restriction) bool {
	var group []*schema.Index
	for _, x := range w.t.Indexes {
		if x.IsSAI() {
			group = append(group, x)
			continue
		}
		if servesAll([]*schema.Index{x}, rs) {
			return true
		}
	}
	return group != nil && servesAll(group, rs)
}

func servesAll(group []*schema.Index, rs []*restriction) bool {
	for _, r := range rs {
		if !serves(group, r) {
			return false
		}
	}
	return true
}

// serves reports that a group of indexes carries out the whole restriction.
func serves(group []*schema.Index, r *restriction) bool {
	for _, c := range r.cols {
		found := false
		for _, x := range group {
			found = found || (x.Column == c && indexSupports(x, r))
		}
		if !found {
			return false
		}
	}
	if group[0].IsSAI() {
		return true
	}
	return len(r.contains)+len(r.containsKey)+len(r.entries) <= 1
}

func (w *where) anyIndexed(rs []*restriction) bool {
	for _, r := range rs {
		if r != nil && w.supported(r) {
			return true
		}
	}
	return false
}

// supported reports that some index can serve the restriction, maybe in part.
func (w *where) supported(r *restriction) bool {
	for _, x := range w.t.Indexes {
		for _, c := range r.cols {
			if x.Column == c && indexSupports(x, r) {
				return true
			}
		}
	}
	return false
}

// indexSupports reports whether an index can find the rows of a restriction on
// its column. One that is still being filled finds none.
func indexSupports(x *schema.Index, r *restriction) bool {
	if x.Building {
		return false // rows from before it may have no entry yet
	}
	if x.Building {
		return false
	}
	switch r.op {
	case restrictEq:
		return x.Target == "" || x.Target == "full" || (x.Target == "values" && !x.Column.Type.IsCollection())
	case restrictSlice:
		return x.IsSAI() && !r.multi && saiRanges(x.ValueType()) && (x.Target == "" || !x.Column.Type.IsCollection())
	case restrictContains:
		switch x.Target {
		case "keys":
			return len(r.containsKey) > 0
		case "entries":
			return len(r.entries) > 0
		case "values", "":
			return len(r.contains) > 0 && x.Column.Type.IsCollection()
		}
	}
	return false
}

// saiRanges reports whether a storage-attached index on t answers ranges:
// types that it keeps as terms, not numbers, answer equality only.
func saiRanges(t *cqltype.Type) bool {
	switch t.Kind {
	case cqltype.KindText, cqltype.KindAscii, cqltype.KindBoolean, cqltype.KindUUID, cqltype.KindBlob,
		cqltype.KindList, cqltype.KindSet, cqltype.KindMap, cqltype.KindTuple, cqltype.KindUDT, cqltype.KindVector:
		return false
	}
	return true
}
