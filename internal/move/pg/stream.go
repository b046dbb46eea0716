package pg

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"varve/internal/move"
)

// stream turns a receiver's messages into events. Its methods but Confirm,
// Heard and Close belong to one goroutine.
type stream struct {
	side *Side
	r    *receiver
	beat *heartbeat

	batch []byte // taken from the receiver; events point into it
	rest  []byte // of batch

	rels  map[uint32]*bound
	tx    transaction
	ready []move.Event // decoded and not yet returned
	next  int

	tuples   [2]tuple
	old, new move.Row
	events   [4]move.Event
	told     uint64 // what heard becomes when all that is ready was returned
	heard    atomic.Uint64
	failed   error
	closed   atomic.Bool
}

// bound is a relation of the stream as a table of the move.
type bound struct {
	rel   *relation
	table int   // index, move.CanaryTable, or unmoved
	width int   // of a Row
	place []int // for each column of the relation its place in a Row, or -1
	never []int // places that the stream never tells
	key   []int
	// whole says that old rows that are called whole are so: those of a
	// partition follow the partition's replica identity, not the root's.
	whole bool
}

const unmoved = -2

type transaction struct {
	open, told, own bool
	time            time.Time
}

// Next returns the next event.
func (st *stream) Next(ctx context.Context) (*move.Event, error) {
	for !st.Ready() {
		if err := st.fill(ctx); err != nil {
			return nil, err
		}
	}
	if st.next < len(st.ready) {
		e := &st.ready[st.next]
		st.next++
		return e, nil
	}
	return nil, st.failed
}

// Ready reports whether Next would not wait. It decodes what was received until
// that makes an event: keepalives and what is left out make none, and whoever
// held back a commit because of them would wait for the next event.
func (st *stream) Ready() bool {
	for st.next >= len(st.ready) && st.failed == nil {
		st.heard.Store(max(st.heard.Load(), st.told))
		if len(st.rest) == 0 {
			if !st.r.waiting() {
				return false
			}
			st.batch = st.r.swap(st.batch)
			st.rest = st.batch
		}
		st.ready, st.next = st.events[:0], 0
		if err := st.frame(); err != nil {
			// What the message began must not be taken for whole.
			st.ready, st.failed = nil, err
		}
	}
	return true
}

// fill waits for the receiver.
func (st *stream) fill(ctx context.Context) error {
	for {
		if st.r.waiting() {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-st.r.notify:
		case <-st.r.done:
			if !st.r.waiting() {
				return st.side.streamError(st.r.err)
			}
		}
	}
}

// frame decodes the next frame of the batch.
func (st *stream) frame() error {
	n := int(binary.BigEndian.Uint32(st.rest))
	kind, payload := st.rest[4], st.rest[frameHeader:frameHeader+n]
	st.rest = st.rest[frameHeader+n:]
	if kind == frameKeepalive {
		if !st.tx.open {
			st.hear(binary.BigEndian.Uint64(payload))
		}
		return nil
	}
	if len(payload) == 0 {
		return errCut
	}
	return st.message(payload[0], payload[1:])
}

func (st *stream) hear(lsn uint64) {
	st.told = max(st.told, lsn)
}

func (st *stream) message(kind byte, b []byte) error {
	r := &reader{b: b}
	switch kind {
	case 'B':
		_ = r.u64() // the commit's place
		st.tx = transaction{open: true, time: r.time()}
		return r.err
	case 'C':
		_ = r.u8()
		_ = r.u64()
		end := r.u64()
		if r.err != nil {
			return r.err
		}
		if st.tx.told {
			st.put(move.Event{Op: move.Commit, Position: move.Position{end}, Time: st.tx.time})
		}
		st.tx = transaction{}
		st.hear(end)
		return nil
	case 'O':
		_ = r.u64()
		if strings.HasPrefix(r.text(), st.side.originPrefix()) {
			st.tx.own = true
		}
		return r.err
	case 'R':
		return st.relation(b)
	case 'M':
		return st.logical(b)
	case 'I', 'U', 'D':
		if st.tx.own {
			return nil
		}
		return st.change(kind, r)
	case 'T':
		if st.tx.own {
			return nil
		}
		return st.truncate(r)
	case 'Y':
		return nil
	}
	return fmt.Errorf("the source sent a message of kind %q", kind)
}

// put makes an event ready, after its transaction's beginning.
func (st *stream) put(e move.Event) {
	if e.Op != move.Mark && e.Op != move.Commit && !st.tx.told {
		st.tx.told = true
		st.ready = append(st.ready, move.Event{Op: move.Begin, Time: st.tx.time})
	}
	st.ready = append(st.ready, e)
}

func (st *stream) logical(b []byte) error {
	m, err := readMessage(b)
	switch {
	case err != nil:
		return err
	case m.transactional && m.prefix == st.side.ownPrefix():
		st.tx.own = true
	case !m.transactional && m.prefix == st.side.markPrefix():
		_, text, _ := strings.Cut(string(m.content), "\n")
		// One past its beginning: a stream begun there does not send it again.
		st.hear(m.lsn + 1)
		st.put(move.Event{Op: move.Mark, Position: move.Position{m.lsn + 1}, Text: text})
	}
	return nil
}

func (st *stream) bound(r *reader) (*bound, error) {
	id := r.u32()
	b := st.rels[id]
	if b == nil && r.err == nil {
		return nil, fmt.Errorf("the source sent a row of relation %d, which it did not describe", id)
	}
	return b, r.err
}

func (st *stream) change(kind byte, r *reader) error {
	b, err := st.bound(r)
	if err != nil || b.table == unmoved {
		return err
	}
	e := move.Event{Table: b.table}
	part := r.u8()
	if part == 'K' || part == 'O' {
		if err := st.tuples[0].read(r, b.rel); err != nil {
			return err
		}
		e.Partial = part == 'K' || !b.whole
		st.old, _ = b.row(st.old, &st.tuples[0])
		e.Old = st.old
		for _, i := range b.key {
			if e.Old[i] == nil {
				return fmt.Errorf("%w: the replica identity of %s.%s or of one of its partitions does not tell column %s of the key",
					move.ErrSchemaChanged, b.rel.schema, b.rel.name, b.rel.columns[slices.Index(b.place, i)].name)
			}
		}
		if kind == 'U' {
			part = r.u8()
		}
	}
	switch {
	case kind == 'D' && e.Old != nil:
		e.Op = move.Delete
	case kind == 'I' && part == 'N', kind == 'U' && part == 'N':
		if err := st.tuples[1].read(r, b.rel); err != nil {
			return err
		}
		st.new, e.Unchanged = b.row(st.new, &st.tuples[1])
		e.New = st.new
		e.Op = move.Insert
		if kind == 'U' {
			e.Op = move.Update
			st.settle(&e, b)
		}
	default:
		return fmt.Errorf("the source sent a change of kind %q without a row it can be told by: "+
			"%s.%s has replica identity NOTHING", kind, b.rel.schema, b.rel.name)
	}
	st.put(e)
	return nil
}

// settle takes values that the update left alone from the old row, where that
// is whole, and leaves the old row out where the key is the same.
func (st *stream) settle(e *move.Event, b *bound) {
	if e.Old == nil {
		return
	}
	if !e.Partial {
		left := e.Unchanged[:0]
		for _, i := range e.Unchanged {
			if slices.Contains(b.never, i) {
				left = append(left, i)
				continue
			}
			e.New[i] = e.Old[i]
		}
		e.Unchanged = left
	}
	for _, i := range b.key {
		if slices.Contains(e.Unchanged, i) {
			// A key that was not sent again is the old one.
			e.New[i] = e.Old[i]
			e.Unchanged = slices.DeleteFunc(e.Unchanged, func(c int) bool { return c == i })
		}
	}
	for _, i := range b.key {
		if string(e.Old[i]) != string(e.New[i]) {
			return
		}
	}
	e.Old, e.Partial = nil, false
}

// row puts a tuple's values into the order of the table's columns.
func (b *bound) row(dst move.Row, t *tuple) (row move.Row, unchanged []int) {
	dst = dst[:0]
	for range b.width {
		dst = append(dst, nil)
	}
	for i, place := range b.place {
		if place < 0 {
			continue
		}
		dst[place] = t.values[i]
		if t.toasted[i] {
			unchanged = append(unchanged, place)
		}
	}
	return dst, append(unchanged, b.never...)
}

func (st *stream) truncate(r *reader) error {
	n := int(r.u32())
	_ = r.u8()
	if r.err != nil || n > len(r.b)/4 {
		return errCut
	}
	for range n {
		b, err := st.bound(r)
		if err != nil {
			return err
		}
		if b.table >= 0 {
			st.put(move.Event{Op: move.Truncate, Table: b.table})
		}
	}
	return nil
}

// Confirm tells the source what is durable on the other side.
func (st *stream) Confirm(p move.Position) {
	if len(p) == 0 {
		return
	}
	for {
		was := st.r.confirmed.Load()
		if p[0] <= was || st.r.confirmed.CompareAndSwap(was, p[0]) {
			return
		}
	}
}

// Heard returns the position up to which every change has been returned.
func (st *stream) Heard() move.Position { return move.Position{st.heard.Load()} }

// Close ends the stream.
func (st *stream) Close() error {
	if st.closed.Swap(true) {
		return nil
	}
	st.beat.close()
	st.r.close()
	st.side.mu.Lock()
	delete(st.side.streams, st)
	st.side.mu.Unlock()
	return nil
}

// streamError says which side's stream ended. Whether the slot was lost, the
// next start finds out.
func (s *Side) streamError(err error) error {
	if errors.Is(err, errStreamClosed) {
		return err
	}
	return fmt.Errorf("the stream of %s broke off: %w", s.name, err)
}

// heartbeat writes marks without content.
type heartbeat struct {
	stop context.CancelFunc
	done chan struct{}
}

func (s *Side) startHeartbeat() *heartbeat {
	ctx, cancel := context.WithCancel(context.Background())
	h := &heartbeat{stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(h.done)
		tick := time.NewTicker(s.opt.Heartbeat)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if _, err := s.Now(ctx); err != nil && ctx.Err() == nil {
				s.opt.Log.Warn("heartbeat not written", "side", s.name, "error", err)
			}
		}
	}()
	return h
}

func (h *heartbeat) close() {
	h.stop()
	<-h.done
}
