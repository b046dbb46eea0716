package move

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"strings"
)

func int8Of(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// memStream reads a memDB's log.
type memStream struct {
	s     *memSide
	name  string
	at    uint64
	queue []Event
}

func (s *memSide) Follow(ctx context.Context, stream string, after Position) (Stream, error) {
	if err := s.call(ctx, "follow"); err != nil {
		return nil, err
	}
	defer s.lock()()
	first, ok := s.db.streams[stream]
	if !ok || len(after) != 1 || after[0]+1 < first {
		return nil, fmt.Errorf("stream %s after %s: %w", stream, after, ErrStreamLost)
	}
	return &memStream{s: s, name: stream, at: after[0]}, nil
}

func (m *memStream) Next(ctx context.Context) (*Event, error) {
	for {
		if len(m.queue) > 0 {
			e := m.queue[0]
			m.queue = m.queue[1:]
			return &e, nil
		}
		if err := m.s.call(ctx, "next"); err != nil {
			return nil, err
		}
		m.s.db.mu.Lock()
		news := m.s.db.news
		_, there := m.s.db.streams[m.name]
		ok := there && m.fillLocked()
		m.s.db.mu.Unlock()
		if !there {
			return nil, ErrStreamLost
		}
		if ok {
			continue
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-news:
		}
	}
}

// fillLocked queues the events of the next entry that is this stream's.
func (m *memStream) fillLocked() bool {
	for int(m.at) < len(m.s.db.log) {
		tx := &m.s.db.log[m.at]
		m.at++
		p := Position{tx.at}
		switch {
		case tx.isMark:
			m.queue = append(m.queue, Event{Op: Mark, Text: tx.mark, Position: p})
			return true
		case tx.mover:
			continue
		}
		m.queue = append(m.queue, Event{Op: Begin, Time: tx.time})
		for i := range tx.changes {
			m.queue = append(m.queue, *tx.changes[i].Clone())
		}
		m.queue = append(m.queue, Event{Op: Commit, Position: p, Time: tx.time})
		return true
	}
	return false
}

func (m *memStream) Ready() bool {
	m.s.db.mu.Lock()
	defer m.s.db.mu.Unlock()
	return len(m.queue) > 0 || m.fillLocked()
}

func (m *memStream) Confirm(p Position) {
	m.s.db.mu.Lock()
	defer m.s.db.mu.Unlock()
	if first, ok := m.s.db.streams[m.name]; ok && len(p) == 1 {
		m.s.db.streams[m.name] = max(first, p[0]+1)
	}
}

func (m *memStream) Heard() Position { return Position{m.at} }
func (m *memStream) Close() error    { return nil }

// memWriter collects what it is told and does all of it with Commit.
type memWriter struct {
	s       *memSide
	st      *memWriterState
	epoch   int
	applied Position
	ops     []func(db *memDB, log *[]Event) error
	lost    int
}

func (w *memWriter) Applied() Position { return w.applied }
func (w *memWriter) Stamp() int64      { return 0 }

func (w *memWriter) Progress(ctx context.Context, prefix string) (map[string]string, error) {
	if err := w.s.call(ctx, "progress"); err != nil {
		return nil, err
	}
	defer w.s.lock()()
	out := map[string]string{}
	for k, v := range w.st.progress {
		if strings.HasPrefix(k, prefix) {
			out[k] = v
		}
	}
	return out, nil
}

func (w *memWriter) Apply(ctx context.Context, e *Event) error {
	if err := w.s.call(ctx, "apply"); err != nil {
		return err
	}
	if e.Table == CanaryTable {
		name, n := string(e.New[0]), int64(binary.BigEndian.Uint64(e.New[1]))
		w.ops = append(w.ops, func(db *memDB, _ *[]Event) error { db.canary[name] = n; return nil })
		return nil
	}
	e = e.Clone()
	if w.s.plant == plantLoseDeletes && e.Op == Delete {
		if w.lost++; w.lost%3 == 0 {
			return nil
		}
	}
	w.ops = append(w.ops, func(db *memDB, log *[]Event) error {
		rows := db.tables[e.Table]
		if e.Op == Insert || e.Op == Update {
			if db.refuses != nil {
				if err := db.refuses(e.Table, e.New); err != nil {
					return &RowError{Table: e.Table, Err: err}
				}
			}
			was := rows[memKey(e.New)]
			if e.Old != nil {
				was = rows[memKey(e.Old)]
			}
			if was == nil && len(e.Unchanged) > 0 {
				if e.Old != nil {
					// The old row is gone from origin, whatever is known of it here.
					delete(rows, memKey(e.Old))
				}
				return nil
			}
		}
		db.applyLocked(e)
		*log = append(*log, *e)
		return nil
	})
	return nil
}

func (w *memWriter) Copy(ctx context.Context, table int, rows []Row, _ Position) error {
	if err := w.s.call(ctx, "copy"); err != nil {
		return err
	}
	w.ops = append(w.ops, func(db *memDB, log *[]Event) error {
		for _, r := range rows {
			if _, there := db.tables[table][memKey(r)]; there {
				continue
			}
			e := Event{Op: Insert, Table: table, New: r.Clone()}
			db.applyLocked(&e)
			*log = append(*log, e)
		}
		return nil
	})
	return nil
}

func (w *memWriter) Repair(ctx context.Context, table int, keys, rows []Row) error {
	if err := w.s.call(ctx, "repair"); err != nil {
		return err
	}
	w.ops = append(w.ops, func(db *memDB, log *[]Event) error {
		for i, r := range rows {
			e := Event{Op: Delete, Table: table, Old: keys[i].Clone()}
			if r != nil {
				e = Event{Op: Insert, Table: table, New: r.Clone()}
				if db.refuses != nil {
					if err := db.refuses(table, r); err != nil {
						return &RowError{Table: table, Err: err}
					}
				}
			}
			db.applyLocked(&e)
			*log = append(*log, e)
		}
		return nil
	})
	return nil
}

func (w *memWriter) Commit(ctx context.Context, p Position, progress map[string]string) error {
	if err := w.s.call(ctx, "commit"); err != nil {
		return err
	}
	if err := w.commitLocked(p, progress); err != nil {
		return err
	}
	return w.s.call(ctx, "commit") // a moment between the effect and the answer
}

func (w *memWriter) commitLocked(p Position, progress map[string]string) error {
	defer w.s.lock()()
	db := w.s.db
	if w.epoch != w.st.epoch {
		return ErrWriterLost
	}
	saved := make([]map[string]Row, len(db.tables))
	for i := range saved {
		if db.refuses != nil {
			saved[i] = maps.Clone(db.tables[i])
		}
	}
	var log []Event
	for _, op := range w.ops {
		if err := op(db, &log); err != nil {
			db.tables = saved
			return err
		}
	}
	w.ops = nil
	if len(log) > 0 {
		db.appendLocked(memTx{mover: true, changes: log})
	}
	w.st.applied, w.applied = p, p
	for k, v := range progress {
		if v == "" {
			delete(w.st.progress, k)
			continue
		}
		w.st.progress[k] = v
	}
	return nil
}

func (w *memWriter) Close(context.Context) error { return nil }
