package store

import (
	"encoding/binary"
	"slices"

	"varve/internal/cqltype"
	"varve/internal/schema"
)

// Cell is one live cell.
type Cell struct {
	Path      []byte // multi-cell columns only
	Value     []byte
	Timestamp int64
	TTL       int32 // 0: none
	Expiry    int64 // seconds; 0: none
}

// Row is one live row, reconciled. Its slices alias the iterator's buffers.
type Row struct {
	t      *schema.Table
	suffix []byte
	cells  []byte
	hdr    rowHeader
	del    int64 // newest deletion of the partition's head that covers the row
	now    int64
	lossy  bool

	clustering [][]byte // decoded on demand
	decoded    bool
	arena      []byte

	// Where the next look-up may start: columns below after lie before rest.
	rest  []byte
	after uint16
}

func (r *Row) set(suffix, cells []byte) {
	r.suffix, r.cells = suffix, cells
	r.decoded = false
	r.rest, r.after = cells, 0
}

// Clustering are the row's clustering values in binary form; nil for a static row.
func (r *Row) Clustering() [][]byte {
	if r.suffix[0] == suffixStatic {
		return nil
	}
	if !r.decoded {
		r.decoded = true
		var err error
		r.clustering, r.arena, err = decodeSuffix(r.clustering[:0], r.arena[:0], r.t, r.suffix)
		if err != nil {
			// The key was checked when it was written; what cannot be decoded is shown empty.
			for len(r.clustering) < len(r.t.Clustering) {
				r.clustering = append(r.clustering, []byte{})
			}
		}
		if r.clustering == nil {
			r.clustering = [][]byte{}
		}
		if r.lossy {
			for i := range r.clustering {
				if v := r.keptComponent(uint16(i)); v != nil {
					r.clustering[i] = v
				}
			}
		}
	}
	return r.clustering
}

// keptComponent is a key component as it was written, where its key form does not tell.
func (r *Row) keptComponent(i uint16) []byte {
	rest := r.cells
	var c cell
	for ok := true; len(rest) > 0; {
		if rest, ok = nextCell(rest, r.hdr.base, &c); !ok {
			return nil
		}
		if c.col == keyColumn && len(c.path) == 2 && binary.BigEndian.Uint16(c.path) == i {
			return c.value
		}
	}
	return nil
}

// Marker is the row marker, when it is live.
func (r *Row) Marker() (c Cell, ok bool) {
	if !r.hdr.markerLive(r.del, r.now) {
		return Cell{}, false
	}
	return Cell{Timestamp: r.hdr.base, TTL: r.hdr.markerTTL, Expiry: r.hdr.markerExpiry}, true
}

// newest is the largest timestamp in the row, of anything live or dead. It is
// not ok when the row is malformed, which whoever decodes its cells reports.
func (r *Row) newest() (ts int64, ok bool) {
	ts = r.hdr.delTS
	if r.hdr.hasMarker() {
		ts = max(ts, r.hdr.base)
	}
	var c cell
	for rest := r.cells; len(rest) > 0; {
		if rest, ok = nextCell(rest, r.hdr.base, &c); !ok {
			return 0, false
		}
		if c.col != keyColumn {
			ts = max(ts, c.ts)
		}
	}
	return ts, true
}

// find looks a simple column's cell up, live or not.
func (r *Row) find(col uint16, c *cell) bool {
	rest := r.rest
	if col < r.after {
		rest = r.cells
	}
	for len(rest) > 0 {
		next, ok := nextCell(rest, r.hdr.base, c)
		if !ok {
			return false
		}
		if c.col >= col {
			r.rest, r.after = rest, col
			return c.col == col
		}
		rest = next
	}
	return false
}

// Cell is a simple column's live cell.
func (r *Row) Cell(c *schema.Column) (out Cell, ok bool) {
	var x cell
	if !r.find(c.ID, &x) || x.dead(r.del, r.now) || c.Drops(x.ts) {
		return Cell{}, false
	}
	return x.export(), true
}

func (c *cell) export() Cell {
	out := Cell{Path: c.path, Value: c.value, Timestamp: c.ts}
	if c.flags&cellExpiring != 0 {
		out.TTL, out.Expiry = c.ttl, c.ldt
	}
	return out
}

// Value is a simple column's live value, nil when there is none: the hot path.
func (r *Row) Value(c *schema.Column) []byte {
	var x cell
	if !r.find(c.ID, &x) || x.dead(r.del, r.now) || c.Drops(x.ts) {
		return nil
	}
	return x.value
}

// Elements appends a multi-cell column's live cells to dst in the order
// Cassandra returns them (lists by timeuuid, sets and maps by key, UDTs by field).
func (r *Row) Elements(dst []Cell, c *schema.Column) []Cell {
	var x cell
	if !r.find(c.ID, &x) {
		return dst
	}
	from := len(dst)
	rest := r.rest
	for len(rest) > 0 {
		var ok bool
		if rest, ok = nextCell(rest, r.hdr.base, &x); !ok || x.col != c.ID {
			break
		}
		if !x.dead(r.del, r.now) && !c.Drops(x.ts) {
			dst = append(dst, x.export())
		}
	}
	sortElements(dst[from:], c.Type)
	return dst
}

// SortCells puts a multi-cell column's cells into the order that Elements gives them.
func SortCells(cells []Cell, t *cqltype.Type) { sortElements(cells, t) }

// sortElements puts elements, which are stored by the bytes of their paths,
// into the order of their type.
func sortElements(cells []Cell, t *cqltype.Type) {
	if len(cells) < 2 {
		return
	}
	path := cqltype.Timeuuid
	switch t.Kind {
	case cqltype.KindSet, cqltype.KindMap:
		path = t.Elems[0]
	case cqltype.KindUDT:
		return
	}
	less := func(a, b Cell) int { return cqltype.Compare(path, a.Path, b.Path) }
	if !slices.IsSortedFunc(cells, less) {
		slices.SortStableFunc(cells, less)
	}
}
