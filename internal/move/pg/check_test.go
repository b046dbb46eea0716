package pg

import (
	"fmt"
	"strings"
	"testing"

	"varve/internal/move"
	"varve/internal/move/pg/pgtest"
)

// found tells whether a finding matches, and its mending statements.
func found(findings []move.Finding, stops bool, text string) ([]string, bool) {
	for _, f := range findings {
		if f.Stops == stops && strings.Contains(f.Object+": "+f.What, text) {
			return f.Mend, true
		}
	}
	return nil, false
}

func stopping(findings []move.Finding) []string {
	var out []string
	for _, f := range findings {
		if f.Stops {
			out = append(out, f.Object+": "+f.What)
		}
	}
	return out
}

// TestCheckTables: what is wrong with a table is found, and gone once the
// statements that come with it were run.
func TestCheckTables(t *testing.T) {
	d := newDB(t, "")
	for _, c := range []struct {
		name, sql string
		part      move.Part
		stops     bool
		want      string
		key       []string
		mended    bool // by the first statement
	}{
		{"other key", "CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b int NOT NULL, UNIQUE (a, b))", move.Origin, true, "does not tell the key", []string{"a", "b"}, true},
		{
			"other key on a partition", "CREATE TABLE t (id int, a int, b int NOT NULL, PRIMARY KEY (id, a), UNIQUE (a, b)) PARTITION BY LIST (a); CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1)",
			move.Origin, true, "public.t1: its replica identity does not tell",
			[]string{"a", "b"},
			true,
		},
		{"identity nothing", "CREATE TABLE t (id int PRIMARY KEY); ALTER TABLE t REPLICA IDENTITY NOTHING", move.Origin, true, "does not tell the key", nil, true},
		{"identity full", "CREATE TABLE t (id int PRIMARY KEY); ALTER TABLE t REPLICA IDENTITY FULL", move.Origin, false, "logs the whole old row", nil, false},
		{"unlogged", "CREATE UNLOGGED TABLE t (id int PRIMARY KEY)", move.Origin, true, "not logged", nil, true},
		{"always trigger", `CREATE TABLE t (id int PRIMARY KEY); CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
			CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f(); ALTER TABLE t ENABLE ALWAYS TRIGGER g`, move.Target, true, "trigger g fires", nil, true},
		{"foreign key", "CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE t (id int PRIMARY KEY REFERENCES p)", move.Target, false, "is not checked", nil, false},
		{"cascade", "CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE t (id int PRIMARY KEY REFERENCES p ON DELETE CASCADE)", move.Origin, false, "with those of public.p", nil, false},
		{"inheritance", "CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE k () INHERITS (t)", move.Origin, true, "public.k inherits", nil, false},
		{"rules", "CREATE TABLE t (id int PRIMARY KEY); CREATE RULE r AS ON INSERT TO t DO ALSO NOTHING", move.Target, true, "rewrite rules", nil, false},
		{"rows", "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)", move.Target, false, "has rows", nil, false},
		{"retention", "CREATE TABLE t (id int PRIMARY KEY)", move.Origin, false, "max_slot_wal_keep_size: it is unlimited", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d.reset(t, c.sql)
			look := func() []move.Finding {
				s := d.open("m")
				maps := []move.TableMap{{From: "t", Key: c.key}}
				tables, f, err := s.Bind(ctx(t), move.Origin, maps, nil)
				noStops(t, f, err)
				if c.part == move.Target {
					_, f, err = s.Bind(ctx(t), move.Target, maps, tables)
					noStops(t, f, err)
				}
				return must(s.Check(ctx(t), c.part))(t)
			}
			findings := look()
			mend, ok := found(findings, c.stops, c.want)
			if !ok {
				t.Fatalf("not found in %+v", findings)
			}
			if !c.mended {
				return
			}
			d.exec(mend[0])
			if left := stopping(look()); len(left) > 0 {
				t.Errorf("after %s: %q", mend[0], left)
			}
		})
	}
}

// TestBindFindings: what cannot be mapped is said, with the column.
func TestBindFindings(t *testing.T) {
	from, to := newDB(t, ""), newDB(t, "")
	for _, c := range []struct {
		name, from, to, want string
		m                    move.TableMap
	}{
		{"no table", "", "", "there is no such table", move.TableMap{}},
		{"view", "CREATE VIEW t AS SELECT 1 AS k", "", "it is not a table", move.TableMap{}},
		{"no key", "CREATE TABLE t (k int)", "", "no primary key", move.TableMap{}},
		{"nullable key", "CREATE TABLE t (k int UNIQUE)", "", "public.t.k: a column of the key may be NULL", move.TableMap{Key: []string{"k"}}},
		{"key not unique", "CREATE TABLE t (id int PRIMARY KEY, k int NOT NULL)", "", "no unique index holds just", move.TableMap{Key: []string{"k"}}},
		{"partly unique", "CREATE TABLE t (id int PRIMARY KEY, k int NOT NULL); CREATE UNIQUE INDEX ON t (k) WHERE id > 1", "", "no unique index", move.TableMap{Key: []string{"k"}}},
		{"composite", "CREATE TYPE c AS (a int); CREATE TABLE t (k int PRIMARY KEY, v c)", "", "t.v: values of row types", move.TableMap{}},
		{"own array", "CREATE TYPE e AS ENUM ('a'); CREATE TABLE t (k int PRIMARY KEY, v e[])", "", "t.v: arrays of a type of one's own", move.TableMap{}},
		{"regclass", "CREATE TABLE t (k int PRIMARY KEY, v regclass)", "", "holds numbers of this database", move.TableMap{}},
		{"array key", "CREATE TABLE t (k int[] PRIMARY KEY)", "", "cannot be of the key", move.TableMap{}},
		{"wrong name", "CREATE TABLE t (k int PRIMARY KEY)", "", "t.nope: the move file names a column", move.TableMap{Ignore: []string{"nope"}}},
		{"no column", "CREATE TABLE t (k int PRIMARY KEY, v text)", "CREATE TABLE t (k int PRIMARY KEY)", "t.v: the target's table has no such column", move.TableMap{}},
		{"narrower", "CREATE TABLE t (k int PRIMARY KEY, v bigint)", "CREATE TABLE t (k int PRIMARY KEY, v int)", "t.v: type integer does not hold", move.TableMap{}},
		{"shorter", "CREATE TABLE t (k int PRIMARY KEY, v text)", "CREATE TABLE t (k int PRIMARY KEY, v varchar(9))", "does not hold", move.TableMap{}},
		{"rounded", "CREATE TABLE t (k int PRIMARY KEY, v timestamptz)", "CREATE TABLE t (k int PRIMARY KEY, v timestamptz(0))", "does not hold", move.TableMap{}},
		{"other zone", "CREATE TABLE t (k int PRIMARY KEY, v timestamptz)", "CREATE TABLE t (k int PRIMARY KEY, v timestamp)", "does not hold", move.TableMap{}},
		{"json", "CREATE TABLE t (k int PRIMARY KEY, v json)", "CREATE TABLE t (k int PRIMARY KEY, v jsonb)", "does not hold", move.TableMap{}},
		{"no enum", "CREATE TYPE e AS ENUM ('a'); CREATE TABLE t (k int PRIMARY KEY, v e)", "CREATE TABLE t (k int PRIMARY KEY, v text)", "is not known here", move.TableMap{}},
		{"extra column", "CREATE TABLE t (k int PRIMARY KEY)", "CREATE TABLE t (k int PRIMARY KEY, v int NOT NULL)", "t.v: the target's column has no counterpart", move.TableMap{}},
		{"generated here", "CREATE TABLE t (k int PRIMARY KEY, v int GENERATED ALWAYS AS (k) STORED)", "CREATE TABLE t (k int PRIMARY KEY, v int)", "let the target compute it", move.TableMap{}},
		{"generated there", "CREATE TABLE t (k int PRIMARY KEY, v int)", "CREATE TABLE t (k int PRIMARY KEY, v int GENERATED ALWAYS AS (k) STORED)", "the target computes this column", move.TableMap{}},
		{"target's key", "CREATE TABLE t (k int PRIMARY KEY)", "CREATE TABLE t (k int)", "no unique index", move.TableMap{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			from.reset(t, c.from)
			s := from.open("m")
			c.m.From, c.m.To = "t", "t"
			maps := []move.TableMap{c.m}
			tables, findings, err := s.Bind(ctx(t), move.Origin, maps, nil)
			check(t, err)
			if c.to != "" {
				noStops(t, findings, nil)
				to.reset(t, c.to)
				_, findings, err = to.open("m").Bind(ctx(t), move.Target, maps, tables)
				check(t, err)
			}
			if _, ok := found(findings, true, c.want); !ok {
				t.Errorf("%+v", findings)
			}
		})
	}
}

// TestCheckServer: a server that is not set up for it.
func TestCheckServer(t *testing.T) {
	c := pgtest.New(t, "wal_level=replica", "max_replication_slots=0", "max_slot_wal_keep_size=100MB")
	c.Exec(t, "postgres", "CREATE TABLE t (k int PRIMARY KEY)")
	s := openSide(t, c.URL("postgres"), "m")
	bind(t, s, nil, move.TableMap{From: "t"})
	findings := must(s.Check(ctx(t), move.Origin))(t)
	for _, want := range []struct {
		stops bool
		text  string
	}{{true, "wal_level: it is replica"}, {true, "no replication slot is free"}, {false, "max_slot_wal_keep_size: it is 100.0 MB"}} {
		if _, ok := found(findings, want.stops, want.text); !ok {
			t.Errorf("%q not found in %+v", want.text, findings)
		}
	}
}

// TestWithoutSuperuser: a role gets every right that it needs by running the
// statements of the findings, and no more, and can then do all of a move.
func TestWithoutSuperuser(t *testing.T) {
	schema := "CREATE TABLE t (k bigint PRIMARY KEY, v text); CREATE TABLE parent (k bigint PRIMARY KEY); ALTER TABLE t ADD FOREIGN KEY (k) REFERENCES parent; " +
		"CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()"
	from, to := newDB(t, schema), newDB(t, schema)
	for _, d := range []*db{from, to} {
		d.exec("CREATE ROLE owner_%[1]s; CREATE ROLE mover_%[1]s LOGIN; ALTER TABLE t OWNER TO owner_%[1]s; ALTER TABLE parent OWNER TO owner_%[1]s", d.name)
	}
	t.Cleanup(func() {
		for _, d := range []*db{from, to} {
			d.c.Exec(t, d.name, fmt.Sprintf("DROP OWNED BY mover_%[1]s CASCADE", d.name))
			d.c.Exec(t, d.name, fmt.Sprintf("DROP OWNED BY owner_%[1]s CASCADE", d.name))
		}
	})
	maps := []move.TableMap{{From: "t"}}
	open := func() (src, dst *Side) {
		src = openSide(t, from.c.URLAs("mover_"+from.name, from.name), "m")
		dst = openSide(t, to.c.URLAs("mover_"+to.name, to.name), "m")
		bind(t, src, dst, maps...)
		return src, dst
	}
	src, dst := open()
	for part, s := range []*Side{src, dst} {
		d := []*db{from, to}[part]
		findings := must(s.Check(ctx(t), move.Part(part)))(t)
		if len(stopping(findings)) < 3 {
			t.Errorf("%s: %+v", move.Part(part), findings)
		}
		for _, f := range findings {
			if f.Stops {
				d.exec(f.Mend[0])
			}
		}
	}
	src, dst = open()
	for part, s := range []*Side{src, dst} {
		if left := stopping(must(s.Check(ctx(t), move.Part(part)))(t)); len(left) > 0 {
			t.Fatalf("left: %q", left)
		}
		check(t, s.InstallFence(ctx(t)))
	}
	st := follow(t, src, "out")
	back := follow(t, dst, "back")
	w := must(dst.Write(ctx(t), "out"))(t)
	defer w.Close(ctx(t))
	from.exec("INSERT INTO parent VALUES (1), (2); INSERT INTO t VALUES (1, 'v')")
	must(src.Mark(ctx(t), "x"))(t)
	pump(t, st, w, "x")
	check(t, w.Copy(ctx(t), 0, []move.Row{{int8Value(2), []byte("copied")}}, nil))
	check(t, w.Commit(ctx(t), move.Position{1}, nil))
	check(t, src.RaiseFence(ctx(t), 1, 1e9, 1e10))
	if err := run1(from.session(), "UPDATE t SET v = 'w'"); state(err) != FencedState {
		t.Errorf("%v", err)
	}
	check(t, src.LiftFence(ctx(t), 1))
	if got := to.exec("SELECT string_agg(k || v, ',' ORDER BY k) FROM t"); got != "1v,2copied" {
		t.Error(got)
	}
	to.exec("INSERT INTO parent VALUES (3); INSERT INTO t VALUES (3, 'app')")
	expect(t, dst, back, "begin", `insert new 3 "app"`, "commit")
	for _, s := range []*Side{src, dst} {
		check(t, s.DropStream(ctx(t), "out"))
		check(t, s.DropStream(ctx(t), "back"))
		check(t, s.RemoveFence(ctx(t)))
		check(t, s.Remove(ctx(t)))
	}
}

func TestCounters(t *testing.T) {
	schema := `CREATE SEQUENCE shared; CREATE TABLE t (k bigserial PRIMARY KEY, i int GENERATED ALWAYS AS IDENTITY, n bigint DEFAULT nextval('shared'), "Odd" int)`
	from, to := newDB(t, schema), newDB(t, schema)
	src, dst := from.open("m"), to.open("m")
	bind(t, src, dst, move.TableMap{From: "t"})
	if c := must(src.Counters(ctx(t)))(t); len(c) != 0 {
		t.Errorf("unused sequences: %v", c)
	}
	from.exec(`INSERT INTO t ("Odd") SELECT generate_series(1, 10)`)
	to.exec("SELECT setval('shared', 500)")
	c := must(src.Counters(ctx(t)))(t)
	if len(c) != 3 {
		t.Errorf("%v", c)
	}
	check(t, dst.RaiseCounters(ctx(t), c))
	check(t, dst.RaiseCounters(ctx(t), c))
	if got := to.exec(`INSERT INTO t ("Odd") VALUES (1) RETURNING k, i, n`); got != "11|11|501" {
		t.Error(got)
	}
}

func TestScans(t *testing.T) {
	d := newDB(t, messages)
	s := d.open("m")
	bind(t, s, nil, messagesMap)
	reader := d.session()
	check(t, run1(reader, "BEGIN; SELECT * FROM messages"))
	_, who, err := s.Scans(ctx(t))
	check(t, err)
	if len(who) != 1 || !strings.Contains(who[0], "public.messages") {
		t.Errorf("%q", who)
	}
	check(t, run1(reader, "COMMIT"))
	if _, who, err = s.Scans(ctx(t)); err != nil || len(who) != 0 {
		t.Errorf("%q %v", who, err)
	}
}

func TestCheckRule(t *testing.T) {
	d := newDB(t, messages+"; "+fill(50)+"; UPDATE messages SET seq = 1 WHERE room_id = 3 AND seq IN (2, 3)")
	s := d.open("m")
	tables, f, err := s.Bind(ctx(t), move.Origin, []move.TableMap{messagesMap}, nil)
	noStops(t, f, err)
	keys := must(s.CheckRule(ctx(t), &move.Rule{Name: "u", Unique: []int{1, 2}}, 100))(t)
	if len(keys) != 3 {
		t.Errorf("%d rows share a room and number", len(keys))
	}
	e, err := move.ParseExpr("read_at IS NULL OR read_at > created_at", &tables[0])
	check(t, err)
	d.exec("UPDATE messages SET read_at = created_at - interval '1 s' WHERE sender_id < 3")
	if keys = must(s.CheckRule(ctx(t), &move.Rule{Name: "c", Check: e}, 100))(t); len(keys) != 2 {
		t.Errorf("%d rows break the rule", len(keys))
	}
}
