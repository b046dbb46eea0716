package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
)

// A row's value, and every merge operand, has this form:
//
//	header   u8: 0x20 | hasBase | hasMarker | markerTTL | hasDeletion | hasExtras
//	base     i64 little endian, when hasBase: the marker's timestamp or, without a marker, some cell's
//	marker   uvarint ttl, uvarint expiry, when markerTTL
//	deletion i64 timestamp, uvarint local deletion time, when hasDeletion
//	cells    sorted by (column, deletion before elements, path), each once
//
// and a cell is
//
//	flags    u8
//	column   uvarint
//	ts       i64 little endian, when cellTS (otherwise the base)
//	ttl, expiry  uvarints, when cellExpiring; local deletion time, a uvarint, when cellTomb or cellClear
//	path     uvarint length and bytes, when cellPath
//	value    uvarint length and bytes, unless cellTomb or cellClear
//
// hasExtras says that some cell is more than a plain live value, so that a
// reader that meets a row without it need not look at cells to count tombstones.
// A first byte outside 0x20..0x3f belongs to another version (see merge.go).
const (
	rowVersion     = 0x20
	rowVersionMask = 0xe0

	rowHasBase     = 0x01
	rowHasMarker   = 0x02
	rowMarkerTTL   = 0x04
	rowHasDeletion = 0x08
	rowHasExtras   = 0x10

	cellTomb     = 0x01
	cellExpiring = 0x02
	cellTS       = 0x04
	cellPath     = 0x08
	cellClear    = 0x10 // deletion of a whole multi-cell column
	cellCounter  = 0x20 // a counter's value or tombstone: other rules of merging
	cellDelta    = 0x40 // a counter's increment; only in batches that are not applied yet
	cellExtras   = cellTomb | cellExpiring | cellClear | cellPath
	cellUnknown  = 0x80

	// keyColumn holds key components as they were written, where their key form loses
	// something (1.0 against 1.00); such cells make nothing live and are never shadowed.
	keyColumn = math.MaxUint16

	// noDeletion is a deletion timestamp that deletes nothing.
	noDeletion = math.MinInt64

	maxHeaderBytes = 1 + 8 + 5 + 10 + 8 + 10
)

// rowHeader is what stands before a row's cells.
type rowHeader struct {
	flags        byte
	base         int64 // marker's timestamp when hasMarker
	markerTTL    int32
	markerExpiry int64
	delTS        int64 // noDeletion without one
	delLDT       int64
}

func (h *rowHeader) hasMarker() bool { return h.flags&rowHasMarker != 0 }

// markerLive reports that the marker keeps the row alive at now, del being the
// newest deletion that covers the row.
func (h *rowHeader) markerLive(del, now int64) bool {
	return h.flags&rowHasMarker != 0 && h.base > del && (h.flags&rowMarkerTTL == 0 || now < h.markerExpiry)
}

// cell is one decoded cell; path and value alias the row.
type cell struct {
	col   uint16
	flags byte
	ttl   int32
	ts    int64
	ldt   int64 // expiry of an expiring cell, local deletion time of a tombstone
	path  []byte
	value []byte
}

func (c *cell) dead(del, now int64) bool {
	return c.flags&(cellTomb|cellClear) != 0 || c.ts <= del || (c.flags&cellExpiring != 0 && now >= c.ldt)
}

// decodeHeader reads a row's header; rest is its cells. ok is false for
// anything that is not a well-formed row of this version.
func decodeHeader(b []byte, h *rowHeader) (rest []byte, ok bool) {
	*h = rowHeader{delTS: noDeletion}
	if len(b) == 0 || b[0]&rowVersionMask != rowVersion {
		return nil, false
	}
	h.flags = b[0]
	b = b[1:]
	if h.flags&rowHasBase != 0 {
		if len(b) < 8 {
			return nil, false
		}
		h.base = int64(binary.LittleEndian.Uint64(b))
		b = b[8:]
	} else if h.flags&(rowHasMarker|rowMarkerTTL) != 0 {
		return nil, false
	}
	if h.flags&rowMarkerTTL != 0 {
		if h.flags&rowHasMarker == 0 {
			return nil, false
		}
		ttl, n := binary.Uvarint(b)
		if n <= 0 || ttl > math.MaxInt32 {
			return nil, false
		}
		expiry, m := binary.Uvarint(b[n:])
		if m <= 0 {
			return nil, false
		}
		h.markerTTL, h.markerExpiry = int32(ttl), int64(expiry)
		b = b[n+m:]
	}
	if h.flags&rowHasDeletion != 0 {
		if len(b) < 8 {
			return nil, false
		}
		h.delTS = int64(binary.LittleEndian.Uint64(b))
		ldt, n := binary.Uvarint(b[8:])
		if n <= 0 {
			return nil, false
		}
		h.delLDT = int64(ldt)
		b = b[8+n:]
	}
	return b, true
}

// nextCell reads the cell at the start of b (which is not empty).
func nextCell(b []byte, base int64, c *cell) (rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, false
	}
	c.flags = b[0]
	if c.flags&cellUnknown != 0 {
		return nil, false
	}
	c.path, c.value, c.ttl, c.ldt, c.ts = nil, nil, 0, 0, base
	if b[1] < 0x80 {
		c.col = uint16(b[1])
		b = b[2:]
	} else {
		col, n := binary.Uvarint(b[1:])
		if n <= 0 || col > math.MaxUint16 {
			return nil, false
		}
		c.col = uint16(col)
		b = b[1+n:]
	}
	if c.flags&cellTS != 0 {
		if len(b) < 8 {
			return nil, false
		}
		c.ts = int64(binary.LittleEndian.Uint64(b))
		b = b[8:]
	}
	if c.flags&(cellExpiring|cellTomb|cellClear) != 0 {
		if c.flags&cellExpiring != 0 {
			if c.flags&(cellTomb|cellClear) != 0 {
				return nil, false
			}
			ttl, n := binary.Uvarint(b)
			if n <= 0 || ttl > math.MaxInt32 {
				return nil, false
			}
			c.ttl = int32(ttl)
			b = b[n:]
		}
		ldt, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, false
		}
		c.ldt = int64(ldt)
		b = b[n:]
	}
	if c.flags&cellPath != 0 {
		if c.path, b, ok = cutBytes(b); !ok {
			return nil, false
		}
	}
	if c.flags&(cellTomb|cellClear) == 0 {
		if c.value, b, ok = cutBytes(b); !ok {
			return nil, false
		}
	}
	return b, true
}

// cutBytes reads a uvarint length and as many bytes.
func cutBytes(b []byte) (v, rest []byte, ok bool) {
	if len(b) > 0 && b[0] < 0x80 {
		n := int(b[0])
		if n > len(b)-1 {
			return nil, nil, false
		}
		return b[1 : 1+n : 1+n], b[1+n:], true
	}
	l, n := binary.Uvarint(b)
	if n <= 0 || l > uint64(len(b)-n) {
		return nil, nil, false
	}
	end := n + int(l)
	return b[n:end:end], b[end:], true
}

func appendBytes(dst, v []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(v)))
	return append(dst, v...)
}

// appendCell writes a cell; the timestamp is left out when it is the base.
func appendCell(dst []byte, c *cell, base int64) []byte {
	flags := c.flags &^ cellTS
	if c.ts != base {
		flags |= cellTS
	}
	dst = append(dst, flags)
	if c.col < 0x80 {
		dst = append(dst, byte(c.col))
	} else {
		dst = binary.AppendUvarint(dst, uint64(c.col))
	}
	if flags&cellTS != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(c.ts))
	}
	if flags&cellExpiring != 0 {
		dst = binary.AppendUvarint(dst, uint64(uint32(c.ttl)))
	}
	if flags&(cellExpiring|cellTomb|cellClear) != 0 {
		dst = binary.AppendUvarint(dst, uint64(c.ldt))
	}
	if flags&cellPath != 0 {
		dst = appendBytes(dst, c.path)
	}
	if flags&(cellTomb|cellClear) == 0 {
		dst = appendBytes(dst, c.value)
	}
	return dst
}

// appendHeader writes a header whose flags are complete.
func appendHeader(dst []byte, h *rowHeader) []byte {
	dst = append(dst, h.flags)
	if h.flags&rowHasBase != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(h.base))
	}
	if h.flags&rowMarkerTTL != 0 {
		dst = binary.AppendUvarint(dst, uint64(uint32(h.markerTTL)))
		dst = binary.AppendUvarint(dst, uint64(h.markerExpiry))
	}
	if h.flags&rowHasDeletion != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(h.delTS))
		dst = binary.AppendUvarint(dst, uint64(h.delLDT))
	}
	return dst
}

// comparePlace orders cells as they are stored: by column, a column's deletion
// before its elements, elements by path.
func comparePlace(a, b *cell) int {
	if a.col != b.col {
		return cmp.Compare(a.col, b.col)
	}
	if x, y := a.flags&cellClear, b.flags&cellClear; x != y {
		return cmp.Compare(y, x)
	}
	return bytes.Compare(a.path, b.path)
}

// wellFormed reports that b is a row of this version from end to end, with its
// cells in order.
func wellFormed(b []byte) bool {
	var h rowHeader
	rest, ok := decodeHeader(b, &h)
	if !ok || (len(rest) > 0 && h.flags&rowHasBase == 0) {
		return false
	}
	var cells [2]cell
	for i := 0; len(rest) > 0; i++ {
		c := &cells[i&1]
		if rest, ok = nextCell(rest, h.base, c); !ok {
			return false
		}
		if i > 0 && comparePlace(&cells[(i-1)&1], c) >= 0 {
			return false
		}
	}
	return true
}
