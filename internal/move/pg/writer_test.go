package pg

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"varve/internal/move"
)

// pump applies events until a mark comes, and commits.
func pump(t *testing.T, st move.Stream, w move.Writer, until string) {
	t.Helper()
	for {
		e := must(st.Next(ctx(t)))(t)
		if e.Op == move.Mark {
			if e.Text == until {
				check(t, w.Commit(ctx(t), e.Position, nil))
				st.Confirm(e.Position)
				return
			}
			continue
		}
		check(t, w.Apply(ctx(t), e))
	}
}

// pair is two databases with a stream between them.
type pair struct {
	t        *testing.T
	from, to *db
	src, dst *Side
	st       move.Stream
	w        move.Writer
}

func newPair(t *testing.T, sqlFrom, sqlTo string, maps ...move.TableMap) *pair {
	t.Helper()
	p := &pair{t: t, from: newDB(t, sqlFrom), to: newDB(t, sqlTo)}
	p.src, p.dst = p.from.open("m"), p.to.open("m")
	bind(t, p.src, p.dst, maps...)
	p.st = follow(t, p.src, "out")
	p.w = must(p.dst.Write(ctx(t), "out"))(t)
	t.Cleanup(func() { p.w.Close(t.Context()) })
	return p
}

func (p *pair) sync() {
	p.t.Helper()
	must(p.src.Mark(ctx(p.t), "sync"))(p.t)
	pump(p.t, p.st, p.w, "sync")
}

// same compares what a query gives on both sides.
func (p *pair) same(sql string) {
	p.t.Helper()
	if a, b := p.from.exec(sql), p.to.exec(sql); a != b {
		p.t.Errorf("%s\norigin:\n%s\ntarget:\n%s", sql, a, b)
	}
}

// TestApply: every kind of change arrives, with every type.
func TestApply(t *testing.T) {
	schema := allTypes[:strings.Index(allTypes, "INSERT")] + `
		CREATE TABLE a (k int PRIMARY KEY, v text, big text);
		ALTER TABLE a ALTER big SET STORAGE EXTERNAL;
		CREATE TABLE f (id int PRIMARY KEY, room int NOT NULL, seq int NOT NULL, big text, UNIQUE (room, seq));
		ALTER TABLE f ALTER big SET STORAGE EXTERNAL; ALTER TABLE f REPLICA IDENTITY FULL;
		CREATE TABLE g (k int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED);
		CREATE TABLE p (k int PRIMARY KEY, v text) PARTITION BY RANGE (k);
		CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
		CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20);
		CREATE TABLE only_key (a int, b text, PRIMARY KEY (a, b));
		CREATE TABLE child (k int PRIMARY KEY REFERENCES a);`
	p := newPair(t, schema, schema, move.TableMap{From: "t"}, move.TableMap{From: "a"}, move.TableMap{From: "f", Key: []string{"room", "seq"}},
		move.TableMap{From: "g"}, move.TableMap{From: "p"}, move.TableMap{From: "only_key"}, move.TableMap{From: "child"})
	for _, sql := range []string{
		allTypes[strings.Index(allTypes, "INSERT"):],
		"UPDATE t SET tx = 'new', ia = '{9}' WHERE k < 3; DELETE FROM t WHERE k = 3",
		"INSERT INTO a SELECT i, 'v' || i, repeat('b', 5000) FROM generate_series(1, 1200) i",
		"UPDATE a SET v = 'w' WHERE k % 3 = 0",
		"UPDATE a SET k = k + 10000, v = 'moved' WHERE k % 5 = 0; DELETE FROM a WHERE k % 7 = 0",
		"INSERT INTO a VALUES (1, '', '') ON CONFLICT (k) DO UPDATE SET v = 'x'; DELETE FROM a WHERE k = 2; INSERT INTO a VALUES (2, 'again', '')",
		"INSERT INTO f VALUES (1, 1, 1, repeat('b', 5000)), (2, 1, 2, repeat('b', 5000)); UPDATE f SET seq = seq + 10; UPDATE f SET id = 9 WHERE id = 1",
		"INSERT INTO g (a) SELECT i FROM generate_series(1, 10) i; UPDATE g SET a = 100 WHERE k = 1",
		"INSERT INTO p SELECT i, 'v' FROM generate_series(0, 19) i; UPDATE p SET k = 19 - k, v = 'w' WHERE false; DELETE FROM p WHERE k = 19; UPDATE p SET k = 19 WHERE k = 1",
		"INSERT INTO only_key VALUES (1, 'a'), (2, 'b'); UPDATE only_key SET b = 'c' WHERE a = 2",
		"INSERT INTO child SELECT k FROM a; DELETE FROM child WHERE k % 2 = 0",
		"BEGIN; DELETE FROM only_key; INSERT INTO only_key VALUES (7, 'x'); ROLLBACK",
	} {
		p.from.exec(sql)
		p.sync()
		for _, table := range []string{"t", "a", "f", "g", "p", "only_key", "child"} {
			p.same("SELECT * FROM " + table + " x ORDER BY x::text")
		}
	}
	p.from.exec("TRUNCATE a, child; INSERT INTO a VALUES (5, 'after', NULL)")
	p.sync()
	p.same("SELECT * FROM a")
	p.same("SELECT count(*) FROM child")
	for i := range p.src.tables {
		a, b := must(p.src.Digest(ctx(t), i, move.Range{}))(t), must(p.dst.Digest(ctx(t), i, move.Range{}))(t)
		if a != b {
			t.Errorf("table %d: digests %v and %v", i, a, b)
		}
	}
}

// TestApplyIsRightEitherWay: changes of rows that the copy has or has not
// brought yet.
func TestApplyIsRightEitherWay(t *testing.T) {
	schema := `CREATE TABLE a (k int PRIMARY KEY, v text, big text); ALTER TABLE a ALTER big SET STORAGE EXTERNAL`
	p := newPair(t, schema, schema, move.TableMap{From: "a"})
	// 1 to 3 were there before, 2 has been copied.
	p.from.exec("ALTER TABLE a DISABLE TRIGGER ALL; INSERT INTO a SELECT i, 'v', repeat('b', 5000) FROM generate_series(1, 9) i")
	must(p.src.Mark(ctx(t), "start"))(t)
	for e := must(p.st.Next(ctx(t)))(t); e.Op != move.Mark; e = must(p.st.Next(ctx(t)))(t) {
	}
	p.to.exec("INSERT INTO a VALUES (2, 'v', repeat('b', 5000)), (13, 'copied later', 'x'), (14, 'copied later', 'x'), (4, 'v', repeat('b', 5000))")
	p.from.exec(`UPDATE a SET v = 'w' WHERE k <= 2; DELETE FROM a WHERE k = 5;
		UPDATE a SET k = 13 WHERE k = 3; UPDATE a SET k = 14, v = 'm' WHERE k = 4; UPDATE a SET k = 16, big = 's' WHERE k = 6; UPDATE a SET big = 'small' WHERE k = 7`)
	p.sync()
	// An update that left a value out writes only what it knows, and only where
	// there is a row.
	want := "2|w|5000\n7|v|5\n13|v|1\n14|m|1\n16|v|1"
	if got := p.to.exec("SELECT k, v, length(big) FROM a ORDER BY k"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestCopy(t *testing.T) {
	for _, c := range []struct{ name, to string }{
		{"plain", `CREATE TABLE t (k bigint PRIMARY KEY, v text UNIQUE, n int)`},
		{"wider", `CREATE TABLE t (k numeric PRIMARY KEY, v varchar UNIQUE, n bigint)`},
		{"constant", `CREATE TABLE t (k bigint PRIMARY KEY, v text UNIQUE, n int, tenant text NOT NULL)`},
		{"array", `CREATE TABLE t (k bigint PRIMARY KEY, v text UNIQUE, n int, a int[])`},
		{"array wider", `CREATE TABLE t (k bigint PRIMARY KEY, v text UNIQUE, n bigint, a int[])`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := move.TableMap{From: "t"}
			from := `CREATE TABLE t (k bigint PRIMARY KEY, v text, n int)`
			if strings.HasPrefix(c.name, "array") {
				from = `CREATE TABLE t (k bigint PRIMARY KEY, v text, n int, a int[])`
			}
			if c.name == "constant" {
				m.Constants = map[string]string{"tenant": "it's"}
			}
			p := newPair(t, from, c.to, m)
			p.from.exec("INSERT INTO t SELECT i, CASE WHEN i % 5 > 0 THEN 'v' || i END, CASE WHEN i % 3 > 0 THEN i END FROM generate_series(1, 3000) i")
			rows := readAll(t, p.src, 0, move.Range{})
			check(t, p.w.Copy(ctx(t), 0, rows[:1000], nil))
			check(t, p.w.Commit(ctx(t), move.Position{1}, map[string]string{"copy/0": "a"}))
			p.to.exec("UPDATE t SET v = 'newer' WHERE k = 7")
			// Again, and more: what is there stays.
			check(t, p.w.Copy(ctx(t), 0, rows[:2000], nil))
			check(t, p.w.Copy(ctx(t), 0, rows[1900:], nil))
			check(t, p.w.Copy(ctx(t), 0, rows[2900:], nil))
			check(t, p.w.Commit(ctx(t), move.Position{2}, map[string]string{"copy/0": "", "copy/1": "b", "x": "y"}))
			if v := p.to.exec("SELECT v FROM t WHERE k = 7"); v != "newer" {
				t.Errorf("a row that was there became %s", v)
			}
			p.to.exec("UPDATE t SET v = 'v7' WHERE k = 7")
			if a, b := must(p.src.Digest(ctx(t), 0, move.Range{}))(t), must(p.dst.Digest(ctx(t), 0, move.Range{}))(t); a != b {
				t.Errorf("digests %v and %v", a, b)
			}
			if c.name == "constant" && p.to.exec("SELECT DISTINCT tenant FROM t") != "it's" {
				t.Error("constant not written")
			}
			got := must(p.w.Progress(ctx(t), "copy/"))(t)
			if len(got) != 1 || got["copy/1"] != "b" {
				t.Errorf("progress %v", got)
			}
			// A row that another constraint refuses is named.
			err := p.w.Copy(ctx(t), 0, []move.Row{append(move.Row{int8Value(9999), []byte("v1")}, rows[0][2:]...)}, nil)
			if err == nil {
				err = p.w.Commit(ctx(t), move.Position{3}, nil)
			}
			var re *move.RowError
			if !errors.As(err, &re) || re.Table != 0 || !strings.Contains(err.Error(), "(v)=(v1)") {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestRowErrorNamesTheKey(t *testing.T) {
	p := newPair(t, `CREATE TABLE t (k bigint PRIMARY KEY, v text)`, `CREATE TABLE t (k bigint PRIMARY KEY, v text CHECK (v <> 'bad'))`, move.TableMap{From: "t"})
	p.from.exec("INSERT INTO t VALUES (41, 'bad')")
	must(p.src.Mark(ctx(t), "x"))(t)
	var err error
	for err == nil {
		e := must(p.st.Next(ctx(t)))(t)
		if e.Op == move.Mark {
			err = p.w.Commit(ctx(t), e.Position, nil)
			break
		}
		err = p.w.Apply(ctx(t), e)
	}
	var re *move.RowError
	if !errors.As(err, &re) || !strings.Contains(err.Error(), "public.t (k=41)") {
		t.Errorf("%v", err)
	}
	if err := p.w.Commit(ctx(t), move.Position{9}, nil); err == nil {
		t.Error("a failed writer commits")
	}
}

func TestRepair(t *testing.T) {
	schema := `CREATE TABLE t (k bigint PRIMARY KEY, v text UNIQUE)`
	p := newPair(t, schema, schema, move.TableMap{From: "t"})
	p.to.exec("INSERT INTO t VALUES (1, 'a'), (2, 'wrong'), (9, 'c')")
	p.from.exec("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
	var keys []move.Row
	for _, k := range []int64{2, 3, 9} {
		keys = append(keys, move.Row{int8Value(k)})
	}
	check(t, p.w.Repair(ctx(t), 0, keys, must(p.src.ReadKeys(ctx(t), 0, keys))(t)))
	check(t, p.w.Commit(ctx(t), move.Position{1}, nil))
	p.same("SELECT * FROM t ORDER BY k")
}

// TestWriterTakesOver: a writer opened later ends the one before, whose
// uncommitted work is gone and whose locks are free.
func TestWriterTakesOver(t *testing.T) {
	schema := `CREATE TABLE t (k bigint PRIMARY KEY, v text)`
	p := newPair(t, schema, schema, move.TableMap{From: "t"})
	row := func(k int64) *move.Event {
		return &move.Event{Op: move.Insert, New: move.Row{int8Value(k), []byte("v")}}
	}
	check(t, p.w.Apply(ctx(t), row(1)))
	check(t, p.w.Commit(ctx(t), move.Position{77}, nil))
	check(t, p.w.Apply(ctx(t), row(2)))
	first := p.w.(*writer)
	check(t, first.flushRun(ctx(t)))
	check(t, first.send(ctx(t))) // in a transaction on the server, with a lock on row 2
	second := must(p.dst.Write(ctx(t), "out"))(t)
	defer second.Close(ctx(t))
	if got := second.Applied().String(); got != "77" {
		t.Errorf("applied %s", got)
	}
	check(t, second.Apply(ctx(t), row(2)))
	check(t, second.Commit(ctx(t), move.Position{78}, nil))
	if err := p.w.Commit(ctx(t), move.Position{99}, nil); err == nil {
		t.Error("the first writer commits")
	}
	if got := p.to.exec("SELECT count(*), max(a.position) FROM t, varve_move.applied a"); got != "2|78" {
		t.Error(got)
	}
}

// TestWriterEpoch: a writer whose session could not be ended is stopped by its
// epoch.
func TestWriterEpoch(t *testing.T) {
	schema := `CREATE TABLE t (k bigint PRIMARY KEY, v text)`
	p := newPair(t, schema, schema, move.TableMap{From: "t"})
	check(t, p.w.Apply(ctx(t), &move.Event{Op: move.Insert, New: move.Row{int8Value(1), nil}}))
	p.to.exec("UPDATE varve_move.applied SET epoch = epoch + 1, pid = 1")
	if err := p.w.Commit(ctx(t), move.Position{99}, nil); !errors.Is(err, move.ErrWriterLost) {
		t.Errorf("%v", err)
	}
	if got := p.to.exec("SELECT count(*) FROM t"); got != "0" {
		t.Errorf("%s rows", got)
	}
}

// TestMirrorDoesNotLoop: what the writer wrote is not in its own side's
// stream, with a replication origin and without.
func TestMirrorDoesNotLoop(t *testing.T) {
	for _, origin := range []bool{true, false} {
		t.Run(fmt.Sprint(origin), func(t *testing.T) {
			schema := `CREATE TABLE t (k bigint PRIMARY KEY, v text)`
			p := newPair(t, schema, schema, move.TableMap{From: "t"})
			back := follow(t, p.dst, "back")
			if !p.w.(*writer).marked {
				t.Fatal("the writer has no replication origin")
			}
			if !origin {
				p.w.(*writer).marked = false
				if _, err := p.w.(*writer).conn.Exec(ctx(t), "SELECT pg_replication_origin_session_reset()").ReadAll(); err != nil {
					t.Fatal(err)
				}
			}
			p.from.exec("INSERT INTO t VALUES (1, 'from origin')")
			p.sync()
			p.to.exec("INSERT INTO t VALUES (2, 'from the app')")
			expect(t, p.dst, back, "begin", `insert new 2 "from the app"`, "commit")
			if got := p.to.exec("SELECT count(*) FROM pg_replication_origin_status WHERE external_id = 'varve_m_out'"); got != "1" && origin {
				t.Errorf("the writer's commits carry no origin")
			}
		})
	}
}

// TestCommitTimes: commits that carry a replication origin carry each its own
// time.
func TestCommitTimes(t *testing.T) {
	schema := `CREATE TABLE t (k bigint PRIMARY KEY)`
	p := newPair(t, schema, schema, move.TableMap{From: "t"})
	// Read as a stream of another move, which does not leave them out.
	other := p.to.open("other")
	bind(t, other, nil, move.TableMap{From: "t"})
	ost := follow(t, other, "o")
	var times []time.Time
	for k := range int64(2) {
		check(t, p.w.Apply(ctx(t), &move.Event{Op: move.Insert, New: move.Row{int8Value(k + 10)}}))
		check(t, p.w.Commit(ctx(t), move.Position{uint64(k) + 200}, nil))
		check(t, pause(ctx(t), 20*time.Millisecond))
		for e := must(ost.Next(ctx(t)))(t); ; e = must(ost.Next(ctx(t)))(t) {
			if e.Op == move.Commit {
				times = append(times, e.Time)
				break
			}
		}
	}
	if !times[1].After(times[0]) {
		t.Errorf("commits at %v", times)
	}
}
