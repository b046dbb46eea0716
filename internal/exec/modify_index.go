package exec

import (
	"varve/internal/schema"
)

// maxIndexValueBytes is the size that a value under a plain index must stay below, as in Cassandra.
const maxIndexValueBytes = 65535

// indexesOn are the indexes on a column; nil when there are none.
func indexesOn(t *schema.Table, c *schema.Column) []*schema.Index {
	var out []*schema.Index
	for _, x := range t.Indexes {
		if x.Column == c {
			out = append(out, x)
		}
	}
	return out
}

// indexCell adds the index entries of a cell that was just written.
func (mu *mutation) indexCell(op *operation, path, v []byte) error {
	for _, x := range op.indexes {
		mu.entries = appendIndexValues(mu.entries[:0], x, path, v)
		for _, e := range mu.entries {
			if err := mu.indexValue(x, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// indexKey adds the entries of indexes on key columns for the row being built.
// A static row has entries on the partition key's columns only.
func (mu *mutation) indexKey() error {
	for _, x := range mu.m.keyIndexes {
		var v []byte
		switch c := x.Column; {
		case c.Kind == schema.PartitionKey:
			v = mu.comps[c.Position]
		case mu.clustering == nil:
			continue
		default:
			v = mu.clustering[c.Position]
		}
		mu.entries = appendIndexValues(mu.entries[:0], x, nil, v)
		for _, e := range mu.entries {
			if err := mu.indexValue(x, e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (mu *mutation) indexValue(x *schema.Index, v []byte) error {
	if len(v) >= maxIndexValueBytes {
		if x.IsSAI() {
			return nil // too large to be found by, which SAI allows
		}
		return invalidf("Cannot index value of size %d for index %s on %s.%s(%s) (maximum allowed size=%d)",
			len(v), x.Name, mu.m.t.Keyspace, mu.m.t.Name, x.Column.Name, maxIndexValueBytes)
	}
	mu.rb.Index(x, v)
	return nil
}
