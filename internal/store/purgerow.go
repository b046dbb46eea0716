package store

// purged is what is left of a row's value.
type purged uint8

const (
	purgedNothing purged = iota // the row stays as it is
	purgedPart                  // the rest was written to dst
	purgedAll                   // nothing is left
)

// tombs sums up the tombstones, and what expires, that a purge had to leave.
type tombs struct {
	left     int64
	earliest int64 // local deletion time of the oldest one
	expiring int64 // expiry of the first cell that has a value to lose; 0: none
}

// expires takes in a cell whose value goes some time after it has expired.
func (t *tombs) expires(ldt int64) {
	if t.expiring == 0 || ldt < t.expiring {
		t.expiring = ldt
	}
}

// worthValue is how long a value must be for its cell to become a tombstone
// before it is purged.
const worthValue = 16

func (t *tombs) keep(ldt int64) {
	if t.left == 0 || ldt < t.earliest {
		t.earliest = ldt
	}
	t.left++
}

// purgeRow appends what must be kept of a row to dst. Parts go that the
// partition's head covers (del; the head stays) and tombstones and expired
// cells older than gcBefore, as in Cassandra: local deletion time < gcBefore.
// Cells that expired before the time expired lose their values: they become
// tombstones, as they do in Cassandra's compactions.
func purgeRow(dst, v []byte, del, gcBefore, expired int64, left *tombs) ([]byte, purged) {
	var h rowHeader
	rest, ok := decodeHeader(v, &h)
	if !ok {
		return dst, purgedNothing
	}
	changed := false
	out := rowHeader{flags: rowVersion, delTS: noDeletion}
	if h.hasMarker() {
		switch {
		case h.base <= del, h.flags&rowMarkerTTL != 0 && h.markerExpiry < gcBefore:
			changed = true
		default:
			out.flags |= h.flags & (rowHasBase | rowHasMarker | rowMarkerTTL)
			out.base, out.markerTTL, out.markerExpiry = h.base, h.markerTTL, h.markerExpiry
			if h.flags&rowMarkerTTL != 0 {
				left.keep(h.markerExpiry)
			}
		}
	}
	if h.flags&rowHasDeletion != 0 {
		if h.delTS <= del || h.delLDT < gcBefore {
			changed = true
		} else {
			out.flags |= rowHasDeletion
			out.delTS, out.delLDT = h.delTS, h.delLDT
			left.keep(h.delLDT)
		}
	}
	var w rowWriter
	w.begin(dst, out)
	kept := false
	var c cell
	for len(rest) > 0 {
		if rest, ok = nextCell(rest, h.base, &c); !ok {
			return dst, purgedNothing
		}
		if c.col != keyColumn {
			if c.ts <= del || (c.flags&(cellTomb|cellClear|cellExpiring) != 0 && c.ldt < gcBefore) {
				changed = true
				continue
			}
			kept = true
			if c.flags&cellExpiring != 0 && len(c.value) >= worthValue {
				if c.ldt < expired {
					c.flags = c.flags&^cellExpiring | cellTomb
					c.ttl, c.value = 0, nil
					changed = true
				} else {
					left.expires(c.ldt)
				}
			}
			if c.flags&(cellTomb|cellClear|cellExpiring) != 0 {
				left.keep(c.ldt)
			}
		}
		w.add(&c)
	}
	switch {
	case !changed:
		return dst, purgedNothing
	case !kept && out.flags == rowVersion:
		return dst, purgedAll
	}
	return w.end(), purgedPart
}
