package store

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"varve/internal/cqltype"
	"varve/internal/schema"
)

// TokenRange is a range of partitions in token order. After and From, when
// set, start past or at a partition (paging).
type TokenRange struct {
	StartToken, EndToken         int64
	StartInclusive, EndInclusive bool
	StartUnbounded, EndUnbounded bool
	From                         *Key // start at this partition, inclusive
	After                        *Key // start after this partition
}

// Range reads partitions in token order. firstSlices, when not nil, replaces
// q.Slices for the first partition returned when it is r.From (paging inside it).
func (v *View) Range(t *schema.Table, tr TokenRange, q RowQuery, firstSlices []Slice) *Rows {
	r := v.newRows(t)
	r.reset(q)
	r.ranged = true
	r.rng = tr
	r.slices, r.err = r.encodeSlices(r.slices[:0], q.Slices)
	if firstSlices != nil && tr.From != nil && r.err == nil {
		r.first, r.err = r.encodeSlices([]suffixRange{}, firstSlices)
		r.firstKey = *tr.From
	}
	return r
}

// bounds are the range's first key and the key past it, and the first and last shard.
func (r *Rows) bounds() (lower, upper []byte, first, last int, ok bool) {
	s, tr := r.v.s, &r.rng
	lower = appendTablePrefix(nil, r.t.PhysID, familyRow)
	upper = prefixEnd(lower)
	last = len(s.shards) - 1
	if !tr.StartUnbounded {
		start := tr.StartToken
		if !tr.StartInclusive {
			if start == math.MaxInt64 {
				return nil, nil, 0, 0, false
			}
			start++
		}
		lower = appendToken(lower, start)
		first = s.shardOf(start)
	}
	// Where paging goes on lies in the range as a rule, but need not.
	if k := tr.From; k != nil {
		from := appendPartition(nil, r.t.PhysID, familyRow, *k)
		if bytes.Compare(from, lower) > 0 {
			lower, first = from, s.shardOf(k.Token)
		}
	}
	if k := tr.After; k != nil {
		from := append(appendPartition(nil, r.t.PhysID, familyRow, *k), suffixEnd)
		if bytes.Compare(from, lower) > 0 {
			lower, first = from, s.shardOf(k.Token)
		}
	}
	if !tr.EndUnbounded {
		last = s.shardOf(tr.EndToken)
		end := tr.EndToken
		if !tr.EndInclusive || end < math.MaxInt64 {
			if tr.EndInclusive {
				end++
			}
			upper = appendToken(appendTablePrefix(nil, r.t.PhysID, familyRow), end)
		}
	}
	return lower, upper, first, last, bytes.Compare(lower, upper) < 0
}

// nextInRange is NextPartition of a range scan.
func (r *Rows) nextInRange() bool {
	if !r.started {
		r.started = true
		lower, upper, first, last, ok := r.bounds()
		if !ok {
			return false
		}
		r.rangeLo, r.rangeHi, r.lastShard = lower, upper, last
		r.sh = r.v.s.shards[first]
		if !r.openRange() {
			return false
		}
	} else if r.it == nil || !r.skipRest() {
		return false
	}
	for {
		if !r.it.Valid() {
			if err := r.it.Error(); err != nil {
				return r.fail(err)
			}
			if r.sh.idx >= r.lastShard {
				return false
			}
			r.noteRunEnd()
			r.release()
			r.sh = r.v.s.shards[r.sh.idx+1]
			if !r.openRange() {
				return false
			}
			continue
		}
		if r.hasSpans {
			jumped, ok := r.jumpPartitions()
			if !ok {
				return false
			}
			if jumped {
				continue
			}
		}
		if !r.enter() {
			return false
		}
		if r.beginPartition() {
			return true
		}
		if r.err != nil || !r.skipRest() {
			return false
		}
	}
}

// openRange opens a shard's iterator and goes to its first key in the range.
func (r *Rows) openRange() bool {
	if !r.open() {
		return false
	}
	if r.heads {
		it, err := r.v.take(r.sh)
		if err != nil {
			return r.fail(err)
		}
		lo := appendTablePrefix(nil, r.t.PhysID, familyHead)
		it.SetBounds(lo, prefixEnd(lo))
		r.headIt, r.headAt = it, false
	}
	r.it.SetBounds(r.rangeLo, r.rangeHi)
	r.it.First()
	return true
}

// skipRest goes past the current partition.
func (r *Rows) skipRest() bool {
	r.key = append(append(r.key[:0], r.prefix...), suffixEnd)
	if !r.it.Valid() || bytes.Compare(r.it.Key(), r.key) < 0 {
		r.it.SeekGE(r.key)
	}
	if err := r.it.Error(); err != nil {
		return r.fail(err)
	}
	return true
}

// jumpPartitions passes a dead span at the start of a partition; it may end in
// a later one.
func (r *Rows) jumpPartitions() (jumped, ok bool) {
	key := r.it.Key()
	if !r.spanSet || (r.span != nil && alias(key) >= r.span.hi) {
		part := &r.tbl.parts[r.sh.idx]
		r.span = part.spans.next(key, r.v.shards[r.sh.idx].epoch, r.v.o.NowSec)
		r.spanSet = true
	}
	x := r.span
	if x == nil || alias(key) < x.lo || r.v.o.CountAll {
		return false, true
	}
	st := r.v.o.Stats
	st.Jumped += x.rows
	st.JumpTombs += x.tombs
	st.Spans++
	r.noteRunEnd()
	r.key = append(r.key[:0], x.hi...)
	r.it.SeekGE(r.key)
	return true, true
}

// enter makes the partition at the iterator the current one. A jump may have
// ended inside a partition: its static row is then dead, as the span says.
func (r *Rows) enter() bool {
	key := r.it.Key()
	n, buf, err := partitionLen(r.t, key, r.compBuf)
	r.compBuf = buf
	if err != nil || n >= len(key) {
		return r.fail(fmt.Errorf("%w: %x", errKeyShape, key))
	}
	r.prefix = append(r.prefix[:0], key[:n]...)
	r.k = Key{Token: tokenOf(key[tablePrefixBytes:]), enc: r.prefix[tablePrefixBytes+tokenBytes:]}
	r.comps = r.comps[:0]
	r.cur = r.slices
	if r.first != nil {
		if r.k.Equal(r.firstKey) {
			r.cur = r.first
		}
		r.first = nil
	}
	if r.heads && !r.joinHead() {
		return false
	}
	r.hasStatic = false
	if key[n] == suffixStatic {
		if !r.q.NoStatic && len(r.t.Static) > 0 && !r.takeStatic() {
			return false
		}
		r.it.Next()
		if err := r.it.Error(); err != nil {
			return r.fail(err)
		}
	}
	r.atNext = true
	return true
}

// joinHead reads the partition's head; where the heads' iterator already
// stands past it there is none.
func (r *Rows) joinHead() bool {
	if r.headAt {
		r.key = append(append(r.key[:0], r.prefix...), suffixEnd)
		r.key[tablePrefixBytes-1] = familyHead
		if !r.headIt.Valid() || bytes.Compare(r.headIt.Key(), r.key) > 0 {
			r.head.none()
			return true
		}
	}
	r.headAt = true
	if err := r.head.reset(r.headIt, r.prefix, r.v.o.Stats); err != nil {
		return r.fail(err)
	}
	return true
}

// describeRow writes a row's key as Cassandra's log does: ((1), 2026-…, 7).
func describeRow(t *schema.Table, k Key, clustering [][]byte) string {
	var b strings.Builder
	b.WriteString("((")
	comps, err := k.Components(t)
	if err == nil {
		for i, c := range comps {
			if i > 0 {
				b.WriteString(", ")
			}
			b.Write(cqltype.FormatLiteral(nil, t.PartitionKey[i].Type, c))
		}
	}
	b.WriteByte(')')
	for i, c := range clustering {
		b.WriteString(", ")
		b.Write(cqltype.FormatLiteral(nil, t.Clustering[i].Type, c))
	}
	b.WriteByte(')')
	return b.String()
}
