package cql

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"varve/internal/move"
)

// mirror is what a consumer that keeps rows by key makes of a stream.
type mirror struct {
	rows     map[string]move.Row
	canaries map[string]int64
	at       move.Position
}

func (m *mirror) apply(t *table, e *move.Event) {
	switch e.Op {
	case move.Insert:
		if e.Table == move.CanaryTable {
			n, _ := integer(e.New[1])
			m.canaries[string(e.New[0])] = n
			return
		}
		m.rows[string(move.EncodeRow(nil, t.KeyOf(e.New)))] = e.New.Clone()
	case move.Delete:
		delete(m.rows, string(move.EncodeRow(nil, t.KeyOf(e.Old))))
	case move.DeleteRange:
		for id, r := range m.rows {
			if t.inSpan(t.KeyOf(r), e.Span) {
				delete(m.rows, id)
			}
		}
	case move.Truncate:
		clear(m.rows)
	case move.Commit:
		m.at = e.Position
	}
}

// until applies events until a mark comes.
func (m *mirror) until(w *world, st move.Stream, text string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
	defer cancel()
	for {
		e, err := st.Next(ctx)
		w.must(err)
		if e.Op == move.Mark && e.Text == text {
			return
		}
		m.apply(w.side.tables[0], e)
	}
}

func (w *world) follow() (move.Stream, *mirror) {
	w.Helper()
	start, err := w.side.OpenStream(w.Context(), "back")
	w.must(err)
	again, err := w.side.OpenStream(w.Context(), "back")
	w.must(err)
	if !again.Covers(start) {
		w.Fatal("opened again, the stream begins earlier")
	}
	st, err := w.side.Follow(w.Context(), "back", start)
	w.must(err)
	w.Cleanup(func() { _ = st.Close() })
	return st, &mirror{rows: map[string]move.Row{}, canaries: map[string]int64{}}
}

// check compares the mirror with the table, at a mark.
func (w *world) check(st move.Stream, m *mirror, text string) {
	w.Helper()
	at, err := w.side.Mark(w.Context(), text)
	w.must(err)
	m.until(w, st, text)
	if !st.Heard().Covers(at) {
		w.Fatalf("the mark came at %v and lies at %v", st.Heard(), at)
	}
	want := map[string]move.Row{}
	for _, r := range w.rows() {
		want[string(move.EncodeRow(nil, w.side.tables[0].KeyOf(r)))] = r
	}
	if d := cmp.Diff(want, m.rows); d != "" {
		w.Fatal(text, d)
	}
}

func TestStreamTellsEveryChange(t *testing.T) {
	w := newWorld(t)
	st, m := w.follow()
	insert := `INSERT INTO chat.messages (room, seq, body) VALUES (?, ?, ?)`
	for room := range 3 {
		for seq := range 6 {
			w.exec(insert, room, seq, "hello")
		}
	}
	w.check(st, m, "inserts")
	for _, cql := range []string{
		`UPDATE chat.messages SET body = 'edited', read_at = 5000 WHERE room = 0 AND seq = 1`,
		`DELETE body FROM chat.messages WHERE room = 0 AND seq = 2`,
		`DELETE FROM chat.messages WHERE room = 0 AND seq = 3`,
		`INSERT INTO chat.messages (room, seq, body) VALUES (0, 9, 'lwt') IF NOT EXISTS`,
		`DELETE FROM chat.messages WHERE room = 1 AND seq > 1 AND seq <= 3`,
		`DELETE FROM chat.messages WHERE room = 2 AND seq < 2`,
		`BEGIN BATCH DELETE FROM chat.messages WHERE room = 2; INSERT INTO chat.messages (room, seq, body) VALUES (5, 5, 'batch'); APPLY BATCH`,
		`UPDATE chat.messages USING TIMESTAMP 1 SET body = 'too late' WHERE room = 0 AND seq = 1`,
	} {
		w.exec(cql)
		w.check(st, m, cql)
	}
	w.must(w.side.Canary(t.Context(), "back", 42))
	w.exec(`TRUNCATE chat.messages`)
	w.exec(insert, 7, 7, "after")
	w.check(st, m, "truncate")
	if m.canaries["back"] != 42 {
		t.Fatal(m.canaries)
	}
	st.Confirm(m.at)
	held, left, err := w.side.Retained(t.Context(), "back")
	w.must(err)
	if held < 0 || left <= 0 {
		t.Fatal(held, left)
	}
}

// The move's own writes do not come back.
func TestStreamLeavesOutTheMovesOwnWrites(t *testing.T) {
	w := newWorld(t)
	st, m := w.follow()
	wr := w.writer()
	w.apply(wr, time.Now(), move.Event{Op: move.Insert, New: row(1, 1, "moved", -1)}, move.Event{Op: move.Insert, New: row(1, 2, "moved", -1)})
	w.must(wr.Copy(t.Context(), 0, []move.Row{row(1, 3, "copied", -1)}, nil))
	w.must(wr.Commit(t.Context(), move.Position{1}, nil))
	w.exec(`INSERT INTO chat.messages (room, seq, body) VALUES (9, 9, 'by the app')`)
	_, err := w.side.Mark(t.Context(), "end")
	w.must(err)
	m.until(w, st, "end")
	if len(m.rows) != 1 {
		t.Fatal(m.rows)
	}
}

func TestStreamEndsWhenChangesAreLost(t *testing.T) {
	w := newWorld(t)
	st, _ := w.follow()
	w.exec(`INSERT INTO chat.messages (room, seq, body) VALUES (1, 1, 'x')`)
	w.exec(`ALTER TABLE chat.messages WITH cdc = false`)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		_, err := st.Next(ctx)
		if errors.Is(err, move.ErrStreamLost) {
			break
		}
		w.must(err)
	}
}

func TestRowsThatExpireStopTheStream(t *testing.T) {
	w := newWorld(t)
	st, _ := w.follow()
	w.exec(`INSERT INTO chat.messages (room, seq, body) VALUES (1, 1, 'x') USING TTL 100`)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		if _, err := st.Next(ctx); err != nil {
			if !strings.Contains(err.Error(), "TTL 100") {
				t.Fatal(err)
			}
			return
		}
	}
}

func TestFence(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	const write = `INSERT INTO chat.messages (room, seq, body) VALUES (1, 1, 'x')`
	w.must(w.side.InstallFence(ctx))
	w.exec(write)
	w.must(w.side.RaiseFence(ctx, 5, time.Second, time.Minute))
	if err := w.app.Query(write).ExecContext(ctx); !isFenced(err) {
		t.Fatalf("a write passes the fence: %v", err)
	}
	wr := w.writer()
	w.apply(wr, time.Now(), move.Event{Op: move.Insert, New: row(1, 2, "by the move", -1)})
	w.must(wr.Commit(ctx, move.Position{1}, nil))
	if err := w.side.LiftFence(ctx, 4); !errors.Is(err, move.ErrFenceGeneration) {
		t.Fatalf("an old generation lifts the fence: %v", err)
	}
	w.must(w.side.LiftFence(ctx, 5))
	w.exec(write)
	w.must(w.side.RaiseFence(ctx, 6, time.Second, time.Minute))
	w.must(w.side.KeepFence(ctx, 6))
	if err := w.side.RaiseFence(ctx, 5, time.Second, time.Minute); !errors.Is(err, move.ErrFenceGeneration) {
		t.Fatalf("an old generation raises the fence: %v", err)
	}
	if err := w.app.Query(write).ExecContext(ctx); !isFenced(err) {
		t.Fatalf("a write passes the kept fence: %v", err)
	}
	w.must(w.side.LiftFence(ctx, 8)) // raised by a mover that is gone
	w.exec(write)
	if err := w.side.RaiseFence(ctx, 7, time.Second, time.Minute); !errors.Is(err, move.ErrFenceGeneration) {
		t.Fatalf("the fence was lifted under a later generation and raised under an older: %v", err)
	}
	w.must(w.side.RemoveFence(ctx))
	w.exec(write)
}

// A fence that nobody makes permanent is gone after its deadline, and can't be
// made permanent then.
func TestFenceLiftsItself(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	w.must(w.side.RaiseFence(ctx, 5, time.Second, 50*time.Millisecond))
	for w.app.Query(`INSERT INTO chat.messages (room, seq, body) VALUES (1, 1, 'x')`).ExecContext(ctx) != nil {
		w.must(ctx.Err())
	}
	if err := w.side.KeepFence(ctx, 5); !errors.Is(err, move.ErrFenceDown) {
		t.Fatalf("a fence that lapsed was made permanent: %v", err)
	}
	if err := w.side.KeepFence(ctx, 6); !errors.Is(err, move.ErrFenceDown) {
		t.Fatalf("a fence of an earlier generation was made permanent: %v", err)
	}
}

// A table that is closed to applications still gets its stream.
func TestStreamOpensBehindTheFence(t *testing.T) {
	w := newWorld(t)
	w.must(w.side.RaiseFence(t.Context(), 1, time.Second, time.Minute))
	w.must(w.side.KeepFence(t.Context(), 1))
	st, m := w.follow()
	w.must(w.side.LiftFence(t.Context(), 1))
	w.exec(`INSERT INTO chat.messages (room, seq, body) VALUES (1, 1, 'x')`)
	w.check(st, m, "behind")
	w.must(w.side.RaiseFence(t.Context(), 2, time.Second, time.Minute))
	w.must(w.side.DropStream(t.Context(), "back"))
	w.must(w.side.RemoveFence(t.Context()))
	w.exec(`INSERT INTO chat.messages (room, seq, body) VALUES (1, 2, 'x')`)
}
