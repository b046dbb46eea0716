package pg

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"varve/internal/move"
	"varve/internal/move/pg/pgtest"
)

// next returns the next event, described.
func next(t *testing.T, s *Side, st move.Stream) string {
	t.Helper()
	e := must(st.Next(ctx(t)))(t)
	return describeEvent(s, e)
}

func describeEvent(s *Side, e *move.Event) string {
	names := []string{"begin", "insert", "update", "delete", "delete range", "truncate", "commit", "mark"}
	out := names[e.Op]
	show := func(r move.Row) string {
		var parts []string
		for i, v := range r {
			typ := "text"
			if e.Table >= 0 {
				typ = s.tables[e.Table].cols[i].typ
			}
			parts = append(parts, showValue(typ, v))
		}
		return strings.Join(parts, " ")
	}
	if e.Old != nil {
		out += " old " + show(e.Old)
		if e.Partial {
			out += " partial"
		}
	}
	if e.New != nil {
		out += " new " + show(e.New)
	}
	if len(e.Unchanged) > 0 {
		out += fmt.Sprint(" unchanged ", e.Unchanged)
	}
	if e.Op == move.Mark {
		out += " " + e.Text
	}
	return out
}

func follow(t *testing.T, s *Side, name string) move.Stream {
	t.Helper()
	p := must(s.OpenStream(ctx(t), name))(t)
	st := must(s.Follow(ctx(t), name, p))(t)
	t.Cleanup(func() { st.Close() })
	return st
}

func expect(t *testing.T, s *Side, st move.Stream, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := next(t, s, st); got != w {
			t.Fatalf("got  %s\nwant %s", got, w)
		}
	}
}

// TestEvents: every kind of change as the contract says it.
func TestEvents(t *testing.T) {
	big := strings.Repeat("x", 10)
	d := newDB(t, `
		CREATE TABLE a (k int PRIMARY KEY, v text, big text);
		ALTER TABLE a ALTER big SET STORAGE EXTERNAL;
		CREATE TABLE f (id int PRIMARY KEY, room int NOT NULL, seq int NOT NULL, big text, UNIQUE (room, seq));
		ALTER TABLE f ALTER big SET STORAGE EXTERNAL; ALTER TABLE f REPLICA IDENTITY FULL;
		CREATE TABLE g (k int PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED);
		CREATE TABLE p (k int PRIMARY KEY, v text) PARTITION BY RANGE (k);
		CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
		CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20);
		CREATE TABLE other (k int)`)
	s := d.open("m")
	bind(t, s, nil, move.TableMap{From: "a"}, move.TableMap{From: "f", Key: []string{"room", "seq"}}, move.TableMap{From: "g"}, move.TableMap{From: "p"})
	st := follow(t, s, "out")
	expectTx := func(sql string, want ...string) {
		t.Helper()
		d.exec(sql)
		expect(t, s, st, append(append([]string{"begin"}, want...), "commit")...)
	}
	expectTx("INSERT INTO a VALUES (1, 'one', NULL), (2, '', repeat('x', 10))",
		`insert new 1 "one" NULL`, `insert new 2 "" "`+big+`"`)
	expectTx("UPDATE a SET v = 'eins' WHERE k = 1", `update new 1 "eins" NULL`)
	expectTx("UPDATE a SET k = 3 WHERE k = 1", `update old 1 NULL NULL partial new 3 "eins" NULL`)
	expectTx("UPDATE a SET big = repeat('x', 10000) WHERE k = 3; UPDATE a SET v = 'w' WHERE k = 3; UPDATE a SET k = 4 WHERE k = 3",
		`update new 3 "eins" "`+strings.Repeat("x", 80)+`"...`, `update new 3 "w" NULL unchanged [2]`,
		`update old 3 NULL NULL partial new 4 "w" NULL unchanged [2]`)
	expectTx("DELETE FROM a WHERE k = 2", `delete old 2 NULL NULL partial`)
	expectTx("INSERT INTO f VALUES (1, 1, 1, repeat('y', 10000))", `insert new 1 1 1 "`+strings.Repeat("y", 80)+`"...`)
	expectTx("UPDATE f SET id = 2", `update new 2 1 1 "`+strings.Repeat("y", 80)+`"...`)
	expectTx("UPDATE f SET seq = 2", `update old 2 1 1 "`+strings.Repeat("y", 80)+`"... new 2 1 2 "`+strings.Repeat("y", 80)+`"...`)
	expectTx("DELETE FROM f", `delete old 2 1 2 "`+strings.Repeat("y", 80)+`"...`)
	expectTx("INSERT INTO g VALUES (1, 5); UPDATE g SET a = 6", `insert new 1 5 NULL unchanged [2]`, `update new 1 6 NULL unchanged [2]`)
	expectTx("INSERT INTO p VALUES (1, 'v'); UPDATE p SET v = 'w'; UPDATE p SET k = 11",
		`insert new 1 "v"`, `update new 1 "w"`, `delete old 1 NULL partial`, `insert new 11 "w"`)
	expectTx("TRUNCATE a, other", "truncate")
	d.exec("INSERT INTO other VALUES (1)") // nothing that moves
	d.exec("BEGIN; INSERT INTO a VALUES (9, '', ''); ROLLBACK")
	must(s.Mark(ctx(t), "here"))(t)
	expect(t, s, st, "mark here")
	expectTx("BEGIN; SAVEPOINT x; INSERT INTO a VALUES (9, '', ''); ROLLBACK TO x; INSERT INTO a VALUES (10, '', ''); COMMIT", `insert new 10 "" ""`)
	check(t, s.Canary(ctx(t), "out", 7))
	expect(t, s, st, "begin", "insert new \"out\" \"\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\a\"", "commit")
	if n := must(s.ReadCanary(ctx(t), "out"))(t); n != 7 {
		t.Errorf("canary %d", n)
	}
}

// TestResume: a stream begun after a position sends what lies after it, once,
// and its position is confirmed to the slot.
func TestResume(t *testing.T) {
	d := newDB(t, `CREATE TABLE a (k int PRIMARY KEY)`)
	s := d.open("m")
	bind(t, s, nil, move.TableMap{From: "a"})
	start := must(s.OpenStream(ctx(t), "out"))(t)
	if again := must(s.OpenStream(ctx(t), "out"))(t); again[0] != start[0] {
		t.Errorf("opened at %v, then at %v", start, again)
	}
	d.exec("INSERT INTO a VALUES (1); INSERT INTO a VALUES (2)")
	d.exec("INSERT INTO a VALUES (3)")
	must(s.Mark(ctx(t), "m1"))(t)
	d.exec("INSERT INTO a VALUES (4)")
	st := must(s.Follow(ctx(t), "out", start))(t)
	expect(t, s, st, "begin", "insert new 1", "insert new 2")
	e := must(st.Next(ctx(t)))(t)
	first := e.Position
	check(t, st.Close())
	// The first reader is still there when the second comes.
	st = must(s.Follow(ctx(t), "out", first))(t)
	st2 := must(s.Follow(ctx(t), "out", first))(t)
	if _, err := st.Next(ctx(t)); err == nil {
		expect(t, s, st, "insert new 3", "commit", "mark m1", "begin", "insert new 4", "commit")
		_, err = st.Next(ctx(t))
		if err == nil {
			t.Error("the stream that was overtaken goes on")
		}
	}
	check(t, st.Close())
	expect(t, s, st2, "begin", "insert new 3", "commit")
	e = must(st2.Next(ctx(t)))(t)
	if e.Op != move.Mark {
		t.Fatal(describeEvent(s, e))
	}
	mark := e.Position
	st2.Confirm(mark)
	check(t, st2.Close())
	st3 := must(s.Follow(ctx(t), "out", mark))(t)
	defer st3.Close()
	expect(t, s, st3, "begin", "insert new 4", "commit")
	if _, err := s.Follow(ctx(t), "out", first); !errors.Is(err, move.ErrStreamLost) {
		t.Errorf("following from before what was confirmed: %v", err)
	}
}

// TestStreamLost: nothing is ever passed over silently.
func TestStreamLost(t *testing.T) {
	d := newDB(t, "")
	for name, sql := range map[string]string{
		"dropped":  "SELECT pg_drop_replication_slot('varve_m_out')",
		"remade":   "SELECT pg_drop_replication_slot('varve_m_out'); INSERT INTO a VALUES (1); SELECT pg_create_logical_replication_slot('varve_m_out', 'pgoutput')",
		"read":     "INSERT INTO a VALUES (1); SELECT pg_replication_slot_advance('varve_m_out', pg_current_wal_lsn())",
		"timeline": "UPDATE varve_move.streams SET timeline = timeline + 1",
		"system":   "UPDATE varve_move.streams SET system = '1'",
		"forgot":   "DELETE FROM varve_move.streams",
	} {
		t.Run(name, func(t *testing.T) {
			d.reset(t, `CREATE TABLE a (k int PRIMARY KEY)`)
			s := d.open("m")
			bind(t, s, nil, move.TableMap{From: "a"})
			p := must(s.OpenStream(ctx(t), "out"))(t)
			for _, part := range strings.Split(sql, "; ") {
				d.exec(part)
			}
			if _, err := s.Follow(ctx(t), "out", p); !errors.Is(err, move.ErrStreamLost) {
				t.Errorf("follow: %v", err)
			}
			if _, err := s.OpenStream(ctx(t), "out"); err == nil && name != "remade" && name != "read" {
				t.Error("opened again")
			}
			check(t, s.DropStream(ctx(t), "out"))
			check(t, s.DropStream(ctx(t), "out"))
			must(s.OpenStream(ctx(t), "out"))(t)
			check(t, s.DropStream(ctx(t), "out"))
		})
	}
}

func TestStreamFromTheFuture(t *testing.T) {
	d := newDB(t, `CREATE TABLE a (k int PRIMARY KEY)`)
	s := d.open("m")
	bind(t, s, nil, move.TableMap{From: "a"})
	p := must(s.OpenStream(ctx(t), "out"))(t)
	if _, err := s.Follow(ctx(t), "out", move.Position{p[0] + 1<<40}); !errors.Is(err, move.ErrStreamLost) {
		t.Errorf("follow: %v", err)
	}
}

// TestSchemaChanged: a change of a moved table's columns is told by name.
func TestSchemaChanged(t *testing.T) {
	d := newDB(t, "")
	for sql, want := range map[string]string{
		"ALTER TABLE a ADD c int":                            "column c of public.a was added",
		"ALTER TABLE a DROP v":                               "column v of public.a went away",
		"ALTER TABLE a RENAME v TO w":                        "column v of public.a went away",
		"ALTER TABLE a ALTER v TYPE varchar(10)":             "column v of public.a changed its type",
		"ALTER TABLE a REPLICA IDENTITY USING INDEX a_other": "no longer tells column k",
		"ALTER TABLE a DROP ignored":                         "",
		"ALTER TABLE a ALTER ignored TYPE text":              "",
		"ALTER TABLE a ADD UNIQUE (v)":                       "",
	} {
		t.Run(sql, func(t *testing.T) {
			d.reset(t, `CREATE TABLE a (k int PRIMARY KEY, v text, other int NOT NULL, ignored int); CREATE UNIQUE INDEX a_other ON a (other)`)
			s := d.open("m")
			bind(t, s, nil, move.TableMap{From: "a", Ignore: []string{"ignored"}})
			st := follow(t, s, "out")
			d.exec("INSERT INTO a VALUES (1, 'v', 1)")
			expect(t, s, st, "begin", `insert new 1 "v" 1`, "commit")
			d.exec(sql)
			d.exec("INSERT INTO a (k, other) VALUES (2, 2)")
			if want == "" {
				expect(t, s, st, "begin", `insert new 2 NULL 2`, "commit")
				return
			}
			_, err := st.Next(ctx(t))
			if !errors.Is(err, move.ErrSchemaChanged) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestSlowConsumer: the server is answered while nobody takes events, and what
// waits in memory is bounded.
func TestSlowConsumer(t *testing.T) {
	d := newDB(t, `CREATE TABLE a (k int PRIMARY KEY, v text)`)
	d.exec("ALTER DATABASE %s SET wal_sender_timeout = '2s'", d.name)
	s := d.open("m")
	bind(t, s, nil, move.TableMap{From: "a"})
	st := follow(t, s, "out")
	const n = 40000
	d.exec("INSERT INTO a SELECT i, repeat('v', 1000) FROM generate_series(1, %d) i", n)
	r := st.(*stream).r
	deadline := time.After(4500 * time.Millisecond)
	for done := false; !done; {
		select {
		case <-deadline:
			done = true
		case <-r.done:
			t.Fatal(r.err)
		}
	}
	r.mu.Lock()
	held := len(r.queue)
	r.mu.Unlock()
	if held > queueBytes+1<<20 {
		t.Errorf("%d bytes wait", held)
	}
	for i := range n + 2 {
		e, err := st.Next(ctx(t))
		if err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
		if i == n+1 && e.Op != move.Commit {
			t.Errorf("ends with %s", describeEvent(s, e))
		}
	}
}

// TestNowIsHeard: a stream comes to hear of Now's position though nothing is
// written.
func TestNowIsHeard(t *testing.T) {
	d := newDB(t, `CREATE TABLE a (k int PRIMARY KEY)`)
	s := d.open("m")
	bind(t, s, nil, move.TableMap{From: "a"})
	st := follow(t, s, "out")
	d.exec("INSERT INTO a VALUES (1)")
	p := must(s.Now(ctx(t)))(t)
	expect(t, s, st, "begin", "insert new 1")
	if st.Heard().Covers(p) {
		t.Error("heard before it was said")
	}
	expect(t, s, st, "commit", "mark ")
	go st.Next(t.Context())
	for wait := time.Millisecond; !st.Heard().Covers(p); wait *= 2 {
		if wait > 10*time.Second {
			t.Fatalf("heard %v, wanted %v", st.Heard(), p)
		}
		check(t, pause(ctx(t), wait))
	}
}

// TestRestart: a server that crashes ends the stream and the writer with
// errors; both go on after it from what was committed, with nothing lost and
// nothing twice.
func TestRestart(t *testing.T) {
	c := pgtest.New(t)
	for _, name := range []string{"a", "b"} {
		c.Exec(t, "postgres", "CREATE DATABASE "+name)
		c.Exec(t, name, "CREATE TABLE t (k int PRIMARY KEY)")
	}
	var src, dst *Side
	open := func() { // as a mover that begins again does
		src, dst = openSide(t, c.URL("a"), "m"), openSide(t, c.URL("b"), "m")
		bind(t, src, dst, move.TableMap{From: "t"})
	}
	open()
	start := must(src.OpenStream(ctx(t), "out"))(t)
	written := 0
	for range 3 {
		w := must(dst.Write(ctx(t), "out"))(t)
		after := w.Applied()
		if len(after) == 0 {
			after = start
		}
		st := must(src.Follow(ctx(t), "out", after))(t)
		for range 5 {
			written++
			c.Exec(t, "a", fmt.Sprintf("INSERT INTO t VALUES (%d)", written))
		}
		must(src.Mark(ctx(t), "x"))(t)
		pump(t, st, w, "x")
		written++
		c.Exec(t, "a", fmt.Sprintf("INSERT INTO t VALUES (%d)", written))
		expect(t, src, st, "begin", fmt.Sprintf("insert new %d", written))
		check(t, w.Apply(ctx(t), &move.Event{Op: move.Insert, New: move.Row{{0, 0, 0, byte(written)}}}))
		c.Kill()
		for {
			if _, err := st.Next(ctx(t)); err != nil {
				break
			}
		}
		if err := w.Commit(ctx(t), move.Position{1 << 60}, nil); err == nil {
			t.Fatal("committed into a server that is gone")
		}
		check(t, st.Close())
		_ = w.Close(ctx(t))
		check(t, c.Start())
		open()
	}
	w := must(dst.Write(ctx(t), "out"))(t)
	defer w.Close(ctx(t))
	st := must(src.Follow(ctx(t), "out", w.Applied()))(t)
	must(src.Mark(ctx(t), "end"))(t)
	pump(t, st, w, "end")
	if got := c.Exec(t, "b", "SELECT count(*), max(k) FROM t"); got != fmt.Sprintf("%[1]d|%[1]d", written) {
		t.Errorf("%s of %d rows", got, written)
	}
}
