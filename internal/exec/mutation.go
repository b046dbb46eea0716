package exec

import (
	"varve/internal/schema"
	"varve/internal/store"
)

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
	named      target           // what is known already
	size       int              // as batch_size_warn_threshold counts it

	pending         []pendingCell // of lists, in the row being changed
	entries         [][]byte      // scratch: values of index entries
	compsBuf, ckBuf [4][]byte
}

// target is what a statement changes, evaluated ahead of its changes. Key
// terms such as now() must not be evaluated twice: they would name a partition
// that is not held, or a row that no condition was checked on.
type target struct {
	keys []store.Key // nil: not known yet
	row  [][]byte    // the one row's clustering; nil: not known yet, or no row
}

// minTimestamp is the one value that stands for no timestamp.
const minTimestamp = -1 << 63

// times evaluates the statement's timestamp and TTL.
func (mu *mutation) times() error {
	m, x := mu.m, mu.x
	mu.ts, mu.ttl = x.timestamp, m.t.Options.DefaultTTL
	if m.timestamp != nil {
		if err := x.ensure(FlagUserTimestamps, ""); err != nil {
			return err
		}
		v, err := m.timestamp.eval(x)
		switch {
		case err != nil:
			return err
		case v.Unset:
		case len(v.Bytes) == 0:
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
	if err := mu.partitionKey(); err != nil {
		return err
	}
	if m.ck != nil || len(m.t.Clustering) == 0 {
		ck, err := mu.clusteringKey()
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

// partitionKey evaluates the partition's key.
func (mu *mutation) partitionKey() (err error) {
	if mu.named.keys != nil {
		mu.key = mu.named.keys[0]
		mu.comps, err = mu.key.Components(mu.m.t)
	} else {
		if mu.comps, err = mu.keyValues(mu.compsBuf[:0], mu.m.t.PartitionKey, mu.m.pk); err != nil {
			return err
		}
		mu.key, err = keyOf(mu.m.t, mu.comps)
	}
	if err == nil && mu.onKey != nil {
		mu.onKey(mu.key)
	}
	return err
}

// clusteringKey evaluates the row's clustering.
func (mu *mutation) clusteringKey() ([][]byte, error) {
	if mu.named.row != nil {
		return mu.named.row, nil
	}
	return mu.keyValues(mu.ckBuf[:0], mu.m.t.Clustering, mu.m.ck)
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
	if len(comps) == 1 && len(comps[0]) == 0 {
		return store.Key{}, invalidf("Key may not be empty")
	}
	if err := checkKeySize(comps); err != nil {
		return store.Key{}, err
	}
	k, err := store.KeyOf(t, comps)
	if err != nil {
		return k, invalidf("%s", err.Error())
	}
	return k, nil
}

const maxKeyBytes = 65535

// checkKeySize refuses partition keys over 64 KiB. As in Cassandra, it is the
// values alone that are looked at first, then what they take together in a key.
func checkKeySize(comps [][]byte) error {
	if err := checkClusteringSize(comps); err != nil || len(comps) == 1 {
		return err
	}
	size := 0
	for _, c := range comps {
		size += len(c) + 3
	}
	if size > maxKeyBytes {
		return invalidf("Key length of %d is longer than maximum of %d", size, maxKeyBytes)
	}
	return nil
}

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
	m := mu.m
	keys, err := m.targetKeys(mu)
	if err != nil {
		return err
	}
	slices, rows, err := mu.whereSlices()
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

// whereSlices evaluates what WHERE names of each partition.
func (mu *mutation) whereSlices() (slices []store.Slice, rows bool, err error) {
	if len(mu.named.row) > 0 {
		b := store.Bound{Prefix: mu.named.row, Inclusive: true}
		return []store.Slice{{Start: b, End: b}}, true, nil
	}
	return mu.m.where.slices(mu.x)
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
