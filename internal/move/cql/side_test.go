package cql

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/google/go-cmp/cmp"

	"varve/internal/move"
	"varve/internal/servertest"
)

// origin is the table of the tests as PostgreSQL would describe it.
var origin = move.Table{
	Schema: "public", Name: "messages",
	Columns: []move.Column{
		{Name: "room", Type: move.Type{OID: oidInt8, Name: "bigint"}},
		{Name: "seq", Type: move.Type{OID: oidInt4, Name: "integer"}},
		{Name: "body", Type: move.Type{OID: oidText, Name: "text"}},
		{Name: "read_at", Type: move.Type{OID: oidTimestamptz, Name: "timestamp(3) with time zone"}},
	},
	Key: []int{0, 1},
}

var mapped = []move.TableMap{{From: "public.messages", To: "chat.messages", Key: []string{"room", "seq"}}}

const createTable = `CREATE TABLE chat.messages (room bigint, seq int, body text, read_at timestamp, PRIMARY KEY ((room), seq))
	WITH CLUSTERING ORDER BY (seq DESC)`

// row makes a row; readAt below 0 is null.
func row(room int64, seq int32, body string, readAt int64) move.Row {
	r := move.Row{big8(room), big8(int64(seq))[4:], []byte(body), nil}
	if readAt >= 0 {
		r[3] = big8(readAt * 1000)
	}
	return r
}

func key(room int64, seq int32) move.Row { return row(room, seq, "", -1)[:2] }

// world is a bound side on a server of its own.
type world struct {
	*testing.T
	side *Side
	app  *gocql.Session // of an application, without the move's token
}

func newWorld(t *testing.T) *world {
	address := servertest.Start(t)
	side, err := Open(t.Context(), Options{Hosts: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, side: side, app: side.session}
	t.Cleanup(func() { _ = side.Close(context.Background()) })
	w.exec(`CREATE KEYSPACE chat WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`)
	w.exec(createTable)
	if _, findings, err := side.Bind(t.Context(), move.Target, mapped, []move.Table{origin}); err != nil || len(findings) > 0 {
		t.Fatal(findings, err)
	}
	if findings, err := side.Check(t.Context(), move.Target); err != nil || len(findings) > 0 {
		t.Fatal(findings, err)
	}
	w.must(side.Prepare(t.Context()))
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) exec(cql string, args ...any) {
	w.Helper()
	w.must(w.app.Query(cql, args...).ExecContext(w.Context()))
}

func (w *world) writer() move.Writer {
	w.Helper()
	wr, err := w.side.Write(w.Context(), "forward")
	w.must(err)
	return wr
}

func (w *world) apply(wr move.Writer, at time.Time, events ...move.Event) {
	w.Helper()
	for _, e := range events {
		// An event's memory is used again by the next one.
		e.Time = at
		e.New, e.Old = e.New.Clone(), e.Old.Clone()
		w.must(wr.Apply(w.Context(), &e))
		for _, r := range []move.Row{e.New, e.Old} {
			for _, v := range r {
				for i := range v {
					v[i] = 0xff
				}
			}
		}
	}
}

// rows are all rows in order.
func (w *world) rows() []move.Row {
	w.Helper()
	w.side.relist(0)
	rows, err := w.side.Read(w.Context(), 0, move.Range{}, 1000)
	w.must(err)
	return rows
}

func (w *world) wantRows(want ...move.Row) {
	w.Helper()
	if d := cmp.Diff(want, w.rows()); d != "" {
		w.Fatal(d)
	}
}

func TestBindRefusesWhatWouldLoseSomething(t *testing.T) {
	address := servertest.Start(t)
	side, err := Open(t.Context(), Options{Hosts: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	defer side.Close(t.Context())
	w := &world{T: t, side: side, app: side.session}
	w.exec(`CREATE KEYSPACE chat WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`)
	for what, ddl := range map[string]string{
		"no table":         "",
		"missing column":   `CREATE TABLE chat.messages (room bigint, seq int, body text, PRIMARY KEY (room, seq))`,
		"narrower type":    `CREATE TABLE chat.messages (room int, seq int, body text, read_at timestamp, PRIMARY KEY (room, seq))`,
		"other key":        `CREATE TABLE chat.messages (room bigint, seq int, body text, read_at timestamp, PRIMARY KEY (seq, room))`,
		"rows that expire": createTable + ` AND default_time_to_live = 60`,
		"static column":    `CREATE TABLE chat.messages (room bigint, seq int, body text static, read_at timestamp, PRIMARY KEY (room, seq))`,
	} {
		w.exec(`DROP TABLE IF EXISTS chat.messages`)
		if ddl != "" {
			w.exec(ddl)
		}
		_, findings, err := side.Bind(t.Context(), move.Target, mapped, []move.Table{origin})
		if err != nil || len(findings) == 0 || !findings[0].Stops {
			t.Errorf("%s: %+v, %v", what, findings, err)
		}
		if what == "no table" {
			w.exec(findings[0].Mend[0])
			side.tables = nil
			if _, findings, err := side.Bind(t.Context(), move.Target, mapped, []move.Table{origin}); err != nil || len(findings) > 0 {
				t.Errorf("the suggested table does not fit: %+v, %v", findings, err)
			}
		}
	}
}

// A copy that comes late changes nothing that a change wrote, and brings back
// nothing that one deleted, whatever is sent twice.
func TestCopyLosesAgainstChanges(t *testing.T) {
	w := newWorld(t)
	wr := w.writer()
	at := time.Now()
	for range 2 {
		w.apply(wr, at, move.Event{Op: move.Insert, New: row(1, 1, "new", -1)},
			move.Event{Op: move.Update, New: row(1, 2, "edited", -1)},
			move.Event{Op: move.Delete, Old: row(1, 3, "", -1), Partial: true})
		w.must(wr.Copy(t.Context(), 0, []move.Row{row(1, 1, "old", 7), row(1, 2, "old", 7), row(1, 3, "old", 7), row(1, 4, "copied", 7)}, nil))
		w.must(wr.Commit(t.Context(), move.Position{9}, map[string]string{"copy:0": "done"}))
		// The insert tells nothing of read_at, as it was null then; the copied value
		// is from a later change that is yet to come.
		w.wantRows(row(1, 1, "new", 7), row(1, 2, "edited", -1), row(1, 4, "copied", 7))
	}
	progress, err := wr.Progress(t.Context(), "copy:")
	w.must(err)
	if d := cmp.Diff(map[string]string{"copy:0": "done"}, progress); d != "" {
		t.Error(d)
	}
}

// Within a transaction the order of changes counts, also of a row that is
// deleted and inserted again, and of keys that change.
func TestOrderInsideATransaction(t *testing.T) {
	w := newWorld(t)
	wr := w.writer()
	at := time.Now().Add(-time.Hour) // a clock behind
	w.apply(wr, at, move.Event{Op: move.Insert, New: row(1, 1, "a", 5)}, move.Event{Op: move.Insert, New: row(1, 2, "b", 5)})
	w.must(wr.Commit(t.Context(), move.Position{1}, nil))
	w.apply(wr, at, move.Event{Op: move.Delete, Old: row(1, 1, "", -1), Partial: true}, move.Event{Op: move.Insert, New: row(1, 1, "again", -1)},
		// The key changes and the body is a large value that the update leaves out.
		move.Event{Op: move.Update, Old: key(1, 2).Clone(), Partial: true, New: move.Row{big8(1), big8(20)[4:], nil, big8(6000)}, Unchanged: []int{2}})
	w.must(wr.Commit(t.Context(), move.Position{2}, nil))
	w.wantRows(row(1, 1, "again", -1), row(1, 20, "b", 6))
	w.apply(wr, at, move.Event{Op: move.Update, Old: row(1, 20, "b", 6), New: row(1, 20, "b", -1)})
	w.must(wr.Commit(t.Context(), move.Position{3}, nil))
	w.wantRows(row(1, 1, "again", -1), row(1, 20, "b", -1))
	w.apply(wr, at, move.Event{Op: move.Truncate}, move.Event{Op: move.Insert, New: row(2, 1, "after", -1)})
	w.must(wr.Commit(t.Context(), move.Position{4}, nil))
	w.wantRows(row(2, 1, "after", -1))
}

// A replay from the position gives the same stamps, so that what it writes
// again does not beat what came after it.
func TestReplayGivesEqualStamps(t *testing.T) {
	w := newWorld(t)
	wr := w.writer()
	at := time.Now()
	w.must(wr.Commit(t.Context(), move.Position{1}, nil))
	first := move.Event{Op: move.Insert, New: row(1, 1, "one", -1)}
	w.apply(wr, at, first)
	w.must(wr.(*writer).flush(t.Context())) // and dies before the commit
	stamp := wr.Stamp()

	again := w.writer()
	if got := again.Applied(); !got.Covers(move.Position{1}) || len(got) != 1 {
		t.Fatal(got)
	}
	w.apply(again, at, first)
	if again.Stamp() != stamp {
		t.Fatalf("stamp %d, was %d", again.Stamp(), stamp)
	}
	w.must(again.Commit(t.Context(), move.Position{2}, nil))
	if err := wr.Commit(t.Context(), move.Position{3}, nil); !errors.Is(err, move.ErrWriterLost) {
		t.Fatalf("the replaced writer commits: %v", err)
	}
	other, err := w.side.Write(t.Context(), "second")
	w.must(err)
	if other.Stamp() <= again.Stamp() {
		t.Fatal("a second move's stamps do not begin above the first's")
	}
}

func TestRepairWins(t *testing.T) {
	w := newWorld(t)
	wr := w.writer()
	// An application's clock was an hour ahead of this one... as far as the move's
	// own stamps go.
	w.apply(wr, time.Now().Add(time.Hour), move.Event{Op: move.Insert, New: row(1, 1, "wrong", 5)}, move.Event{Op: move.Insert, New: row(1, 2, "extra", 5)})
	w.must(wr.Commit(t.Context(), move.Position{1}, nil))
	w.must(wr.Repair(t.Context(), 0, []move.Row{key(1, 1), key(1, 2), key(1, 3)}, []move.Row{row(1, 1, "right", -1), nil, row(1, 3, "missing", -1)}))
	w.must(wr.Commit(t.Context(), move.Position{2}, nil))
	w.wantRows(row(1, 1, "right", -1), row(1, 3, "missing", -1))
	w.apply(wr, time.Now(), move.Event{Op: move.Update, New: row(1, 1, "later", -1)})
	w.must(wr.Commit(t.Context(), move.Position{3}, nil))
	w.wantRows(row(1, 1, "later", -1), row(1, 3, "missing", -1))
}

func TestValuesThatDoNotFitAreRowErrors(t *testing.T) {
	w := newWorld(t)
	bad := row(1, 1, "x", 1)
	bad[3] = big8(1) // a microsecond
	err := w.writer().Apply(t.Context(), &move.Event{Op: move.Insert, New: bad})
	var re *move.RowError
	if !errors.As(err, &re) {
		t.Fatalf("%v", err)
	}
}

// Ranges in PostgreSQL's order cover every row once, whatever the store's own
// order is, and digests add up.
func TestRangesCoverAll(t *testing.T) {
	w := newWorld(t)
	wr := w.writer()
	var all []move.Row
	for room := int64(-3); room < 4; room++ {
		for seq := range int32(5) {
			all = append(all, row(room, seq-2, fmt.Sprint(room, seq), -1))
		}
	}
	w.must(wr.Copy(t.Context(), 0, all, nil))
	w.wantRows(all...)
	ranges, err := w.side.Split(t.Context(), 0, 7)
	w.must(err)
	ranges = append(ranges[:1:1], move.Range{From: ranges[0].To, To: key(1, 0)}, move.Range{From: key(1, 0), To: key(1, 1)}, move.Range{From: key(1, 1)})
	var got []move.Row
	var whole, parts move.Digest
	for _, row := range all {
		whole.Add(row)
	}
	for _, r := range ranges {
		rows, err := w.side.Read(t.Context(), 0, r, 1000)
		w.must(err)
		got = append(got, rows...)
		d, err := w.side.Digest(t.Context(), 0, r)
		w.must(err)
		parts.Merge(d)
	}
	if d := cmp.Diff(all, got); d != "" || parts != whole {
		t.Fatal(d, parts, whole)
	}
	first, err := w.side.Read(t.Context(), 0, move.Range{From: key(0, -2)}, 3)
	w.must(err)
	if d := cmp.Diff([]move.Row{row(0, -1, "0 1", -1), row(0, 0, "0 2", -1), row(0, 1, "0 3", -1)}, first); d != "" {
		t.Fatal(d)
	}
	found, err := w.side.ReadKeys(t.Context(), 0, []move.Row{key(9, 9), key(3, 2)})
	w.must(err)
	if found[0] != nil || !found[1].Equal(row(3, 2, "3 4", -1)) {
		t.Fatal(found)
	}
	if n, err := w.side.Rows(t.Context(), 0); err != nil || n != int64(len(all)) {
		t.Fatal(n, err)
	}
}

func TestDuplicatesAreFound(t *testing.T) {
	w := newWorld(t)
	w.must(w.writer().Copy(t.Context(), 0, []move.Row{row(1, 1, "same", -1), row(1, 2, "other", -1), row(2, 1, "same", -1), row(3, 1, "same", 4)}, nil))
	keys, err := w.side.CheckRule(t.Context(), &move.Rule{Name: "body once", Unique: []int{2}}, 10)
	w.must(err)
	if d := cmp.Diff([]move.Row{key(1, 1), key(2, 1), key(3, 1)}, keys); d != "" {
		t.Fatal(d)
	}
	keys, err = w.side.CheckRule(t.Context(), &move.Rule{Name: "read once", Unique: []int{2, 3}}, 10)
	w.must(err)
	if len(keys) > 0 {
		t.Fatal("rows with nulls count as equal:", keys)
	}
}

func TestRowsThatBreakARuleAreFound(t *testing.T) {
	w := newWorld(t)
	w.must(w.writer().Copy(t.Context(), 0, []move.Row{row(1, 1, "fine", 7), row(1, 2, "unread", -1), row(2, 0, "zero", 7)}, nil))
	check, err := move.ParseExpr("seq > 0 AND read_at IS NOT NULL", &w.side.tables[0].Table)
	w.must(err)
	keys, err := w.side.CheckRule(t.Context(), &move.Rule{Name: "read", Check: check}, 10)
	w.must(err)
	if d := cmp.Diff([]move.Row{key(1, 2), key(2, 0)}, keys); d != "" {
		t.Fatal(d)
	}
}

// What the source commits after an application wrote here, as after a
// rollback, wins over that.
func TestChangesHaveTheirCommitTime(t *testing.T) {
	w := newWorld(t)
	wr := w.writer()
	w.apply(wr, time.Now(), move.Event{Op: move.Insert, New: row(1, 1, "first", -1)})
	w.must(wr.Commit(t.Context(), move.Position{1}, nil))
	w.exec(`UPDATE chat.messages SET body = 'by the app' WHERE room = 1 AND seq = 1`)
	w.apply(wr, time.Now().Add(time.Second), move.Event{Op: move.Update, New: row(1, 1, "later", -1)})
	w.must(wr.Commit(t.Context(), move.Position{2}, nil))
	w.wantRows(row(1, 1, "later", -1))
}
