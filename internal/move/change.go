package move

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// errUnfollowable marks changes that do not tell what is needed to follow them.
var errUnfollowable = errors.New("the stream cannot be followed")

// change applies one change of a row, a span or a table.
func (x *session) change(ctx context.Context, e *Event) error {
	f := x.f
	if e.Table == CanaryTable {
		return x.canary(ctx, e)
	}
	if e.Table < 0 || e.Table >= len(f.tables) {
		return fmt.Errorf("%w: a change of table %d, which is not of this move", errUnfollowable, e.Table)
	}
	if !f.open.Load() {
		f.mu.Lock()
		f.breaches++
		f.mu.Unlock()
	}
	if err := x.tell(e); err != nil {
		return err
	}
	if !f.open.Load() {
		return nil
	}
	x.count()
	if err := x.w.Apply(ctx, e); err != nil {
		return fmt.Errorf("apply a change of %s: %w", f.tables[e.Table].Name, err)
	}
	return nil
}

func (x *session) count() {
	if x.changes == 0 {
		x.since = time.Now()
	}
	x.changes++
}

// tell notes the change's keys with the open chunks and the touched keys.
func (x *session) tell(e *Event) error {
	f := x.f
	switch e.Op {
	case Truncate:
		x.void(e.Table)
		f.log.lose(e.Table)
		return nil
	case DeleteRange:
		if e.Span == nil {
			return fmt.Errorf("%w: a deletion of a range without its bounds", errUnfollowable)
		}
		x.void(e.Table)
		return f.log.span(e.Table, *e.Span)
	}
	partial := f.complete(e)
	ids, moved, err := f.idsOf(e)
	if err != nil {
		return err
	}
	for _, id := range ids {
		f.log.key(id)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	noted := false
	for _, c := range f.chunks {
		if c.table == e.Table && c.open {
			noted = true
			for _, id := range ids {
				c.noted[id.key] = struct{}{}
			}
		}
	}
	// The row may not be here to be updated, or not under its old key, and no
	// later range has it.
	if partial && (noted || moved) && (!f.copied[e.Table].done || len(f.rereads) > 0) {
		x.reread(ids[len(ids)-1])
	}
	if partial {
		x.spreadRefill(ids)
	}
	return nil
}

// spreadRefill adds a row to those to be filled when the change that tells it
// only in part builds on one of them; the caller holds the flow's mutex.
func (x *session) spreadRefill(ids []rowID) {
	f, last := x.f, ids[len(ids)-1]
	if _, known := f.refill[last]; known {
		return
	}
	for _, id := range ids {
		if _, ok := f.refill[id]; ok {
			name := "refill/row/" + last.hex()
			f.refill[last] = name
			x.progress[name] = formatIDs([]rowID{last})
			return
		}
	}
}

// complete takes unchanged values from the old row where the source told it whole,
// and reports whether the event still leaves out values that the sink does not
// compute itself.
func (f *flow) complete(e *Event) bool {
	if len(e.Unchanged) == 0 {
		return false
	}
	if e.Old != nil && !e.Partial {
		for _, c := range e.Unchanged {
			e.New[c] = e.Old[c]
		}
		e.Unchanged = e.Unchanged[:0]
		return false
	}
	return slices.ContainsFunc(e.Unchanged, func(c int) bool { return !f.tables[e.Table].Columns[c].Generated })
}

// idsOf returns the rows that a change wrote, the new one last, and whether it
// changed the key.
func (f *flow) idsOf(e *Event) (ids []rowID, moved bool, err error) {
	t := &f.tables[e.Table]
	if e.Op != Delete {
		if e.New == nil {
			return nil, false, fmt.Errorf("%w: a change of %s without its row", errUnfollowable, t.Name)
		}
		for _, c := range t.Key {
			if slices.Contains(e.Unchanged, c) {
				return nil, false, fmt.Errorf("%w: a change of %s leaves out key column %s, which REPLICA IDENTITY FULL would tell",
					errUnfollowable, t.Name, t.Columns[c].Name)
			}
		}
	}
	if e.Old != nil {
		ids = append(ids, idOf(e.Table, t.KeyOf(e.Old)))
	}
	if e.Op == Delete {
		if len(ids) == 0 {
			return nil, false, fmt.Errorf("%w: a deletion from %s does not tell its key", errUnfollowable, t.Name)
		}
		return ids, false, nil
	}
	id := idOf(e.Table, t.KeyOf(e.New))
	if len(ids) == 1 && ids[0] == id {
		return ids, false, nil
	}
	return append(ids, id), len(ids) == 1, nil
}

func idOf(table int, key Row) rowID { return rowID{table, string(EncodeRow(nil, key))} }

// row decodes the id's key.
func (f *flow) row(id rowID) (Row, error) {
	key, _, err := DecodeRow([]byte(id.key), len(f.tables[id.table].Key))
	return key, err
}

// reread puts a key on the list of those that the copier reads once more; the
// caller holds the flow's mutex.
func (x *session) reread(id rowID) {
	if _, ok := x.f.rereads[id]; ok {
		return
	}
	x.f.rereads[id] = struct{}{}
	x.progress["reread/"+id.hex()] = formatIDs([]rowID{id})
}

func (x *session) rereadDone(id rowID) {
	if _, ok := x.f.rereads[id]; ok {
		delete(x.f.rereads, id)
		x.progress["reread/"+id.hex()] = ""
	}
}

// commitHeld applies a transaction of a careful session, or keeps its keys to
// be filled if the sink has refused it before.
func (x *session) commitHeld(ctx context.Context) error {
	f := x.f
	held := x.held
	x.held = nil
	at := x.position.String()
	f.mu.Lock()
	poisoned := f.poison[at]
	f.mu.Unlock()
	if poisoned {
		return x.keepForFill(ctx, at, held)
	}
	for _, e := range held {
		if err := x.change(ctx, e); err != nil {
			return x.poisoned(at, err)
		}
	}
	if err := x.commit(ctx); err != nil {
		return x.poisoned(at, err)
	}
	if !x.s.Ready() {
		f.mu.Lock()
		f.careful = len(f.poison) > 0
		x.careful = f.careful
		f.mu.Unlock()
	}
	return nil
}

func (x *session) poisoned(at string, err error) error {
	var refused *RowError
	if errors.As(err, &refused) {
		x.f.mu.Lock()
		x.f.poison[at] = true
		x.f.mu.Unlock()
	}
	return err
}

// keepForFill commits a transaction's position without its changes, and their
// keys with it.
func (x *session) keepForFill(ctx context.Context, at string, held []*Event) error {
	f := x.f
	var ids []rowID
	seen := map[rowID]bool{}
	for _, e := range held {
		if e.Table == CanaryTable {
			continue
		}
		if err := x.tell(e); err != nil {
			return err
		}
		if e.Op == Truncate || e.Op == DeleteRange {
			return fmt.Errorf("the sink refuses to empty a range or all of %s", f.tables[e.Table].Name)
		}
		more, _, err := f.idsOf(e)
		if err != nil {
			return err
		}
		f.mu.Lock()
		for _, id := range more {
			if _, known := f.refill[id]; !known && !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
		f.mu.Unlock()
	}
	name := "refill/" + at
	if len(ids) > 0 {
		x.progress[name] = formatIDs(ids)
	}
	if err := x.commit(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		f.refill[id] = name
	}
	delete(f.poison, at)
	f.logger.Warn("the sink refused a transaction, its rows are to be filled", "position", at, "rows", len(ids))
	return nil
}

// forget takes filled rows off the progress, whose entries hold several.
func (x *session) forget(ids []rowID) {
	f := x.f
	filled := make(map[rowID]bool, len(x.filled)+len(ids))
	for _, id := range x.filled {
		filled[id] = true
	}
	left := map[string][]rowID{} // of the entries that lose rows
	for _, id := range ids {
		if name, ok := f.refill[id]; ok && !filled[id] {
			filled[id] = true
			x.filled = append(x.filled, id)
			left[name] = nil
		}
	}
	for id, name := range f.refill {
		if rest, ok := left[name]; ok && !filled[id] {
			left[name] = append(rest, id)
		}
	}
	for name, rest := range left {
		x.progress[name] = formatIDs(rest)
	}
}

// hex is the id in a form for names.
func (id rowID) hex() string { return strconv.Itoa(id.table) + "/" + fmt.Sprintf("%x", id.key) }
