package pg

import (
	"fmt"
	"testing"

	"varve/internal/move"
)

func readAll(t *testing.T, s *Side, table int, r move.Range) []move.Row {
	t.Helper()
	var out []move.Row
	for {
		rows := must(s.Read(ctx(t), table, r, 100))(t)
		out = append(out, rows...)
		if len(rows) < 100 {
			return out
		}
		r.From = s.tables[table].KeyOf(rows[len(rows)-1])
	}
}

// TestSplit: the ranges of any key cover each row once, in order, and are of
// about the size asked for, analysed or not.
func TestSplit(t *testing.T) {
	d := newDB(t, "")
	for _, c := range []struct{ name, sql string }{
		{"uuid", `CREATE TABLE t (k uuid PRIMARY KEY); INSERT INTO t SELECT md5(i::text)::uuid FROM generate_series(1, 5000) i`},
		{"grown uuid", `CREATE TABLE t (k uuid PRIMARY KEY); INSERT INTO t SELECT ('1' || substr(md5(i::text), 2))::uuid FROM generate_series(1, 3000) i;
			ANALYZE t; INSERT INTO t SELECT ('f' || substr(md5(i::text), 2))::uuid FROM generate_series(1, 3000) i;
			INSERT INTO t SELECT ('0' || substr(md5(i::text), 2))::uuid FROM generate_series(1, 3000) i`},
		{"bigint", `CREATE TABLE t (k bigint PRIMARY KEY); INSERT INTO t SELECT (i - 2500) * 1000000000000 FROM generate_series(1, 5000) i`},
		{"smallint", `CREATE TABLE t (k smallint PRIMARY KEY); INSERT INTO t SELECT i - 2500 FROM generate_series(1, 5000) i`},
		{"skewed integer", `CREATE TABLE t (k integer PRIMARY KEY); INSERT INTO t SELECT i * i FROM generate_series(1, 5000) i`},
		{"text", `CREATE TABLE t (k text PRIMARY KEY); INSERT INTO t SELECT md5(i::text) FROM generate_series(1, 5000) i`},
		{"two columns", `CREATE TABLE t (a bigint, b text, PRIMARY KEY (a, b)); INSERT INTO t SELECT i % 7, i::text FROM generate_series(1, 5000) i`},
		{"empty", `CREATE TABLE t (k uuid PRIMARY KEY)`},
		{"one", `CREATE TABLE t (k uuid PRIMARY KEY); INSERT INTO t VALUES (md5('')::uuid)`},
	} {
		for _, analyse := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", c.name, analyse), func(t *testing.T) {
				d.t = t
				d.exec("DROP TABLE IF EXISTS t")
				d.exec(c.sql)
				if analyse && c.name != "grown uuid" {
					d.exec("ANALYZE t")
				}
				s := d.open("m")
				bind(t, s, nil, move.TableMap{From: "t"})
				ranges := must(s.Split(ctx(t), 0, 250))(t)
				var total int
				var whole move.Digest
				for i, r := range ranges {
					rows := readAll(t, s, 0, r)
					total += len(rows)
					if len(rows) > 1000 {
						t.Errorf("range %d has %d rows", i, len(rows))
					}
					whole.Merge(must(s.Digest(ctx(t), 0, r))(t))
				}
				want := d.exec("SELECT count(*) FROM t")
				if fmt.Sprint(total) != want || whole.Rows != int64(total) {
					t.Errorf("%d rows read, %d hashed, %s in the table", total, whole.Rows, want)
				}
				if most := total/100 + 2; len(ranges) > most {
					t.Errorf("%d ranges for %d rows", len(ranges), total)
				}
				if all := must(s.Digest(ctx(t), 0, move.Range{}))(t); all != whole {
					t.Errorf("whole %v, parts %v", all, whole)
				}
			})
		}
	}
}

const allTypes = `
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE DOMAIN name_t AS varchar(40) CHECK (value <> 'x');
CREATE TABLE t (
  k bigint PRIMARY KEY, i2 smallint, i4 integer, b boolean, f4 real, f8 double precision, n numeric, n2 numeric(10,2),
  c char(5), v varchar(10), tx text, by bytea, u uuid, d date, ti time(3), tz timetz, ts timestamp, tt timestamptz(3), iv interval,
  j json, jb jsonb, ia integer[], ta text[], ua uuid[], e mood, dn name_t, r int4range, ip inet, mac macaddr, bt bit(5), vb varbit,
  oc "char", x xml, pt point, ts2 tsvector);
INSERT INTO t VALUES
 (1, 1, 2, true, 1.5, -0.0, 1.50, 3.10, 'ab', 'vc', 'text', '\x00ff', md5('1')::uuid, '2020-02-03', '12:00:01.5', '12:00+02', '2020-01-01 01:02:03.4',
  '2020-01-01 01:02:03.456+02', '1 month 2 days 3 s', '{"a": 1}', '{"a": 1.0}', '{1,NULL,3}', '{a,""}', ARRAY[md5('x')::uuid], 'glad', 'nm', '[1,5)',
  '10.0.0.0/8', '08:00:2b:01:02:03', B'10101', B'101', 'q', '<a/>', '(1,2)', 'a b'),
 (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
 (3, 0, 0, false, 'NaN', 'Infinity', 'NaN', 0, '', '', '', '', md5('3')::uuid, 'infinity', '00:00', '00:00+00', '-infinity', 'infinity', '0', 'null', 'null',
  '{}', '{}', '{}', 'sad', '', 'empty', '::1', '00:00:00:00:00:00', B'00000', B'', '', '', '(0,0)', '')`

// TestDigest: the database's digest of rows of every type is the one made
// here of what it returns.
func TestDigest(t *testing.T) {
	d := newDB(t, allTypes)
	s := d.open("m")
	bind(t, s, nil, move.TableMap{From: "t"})
	rows := readAll(t, s, 0, move.Range{})
	if len(rows) != 3 {
		t.Fatalf("%d rows", len(rows))
	}
	for i, r := range rows {
		var want move.Digest
		want.Add(r)
		rng := move.Range{To: s.tables[0].KeyOf(r)}
		if i > 0 {
			rng.From = s.tables[0].KeyOf(rows[i-1])
		}
		if got := must(s.Digest(ctx(t), 0, rng))(t); got != want {
			t.Errorf("row %d: %v in the database, %v here", i+1, got, want)
		}
	}
}

// TestDigestNotices: values that change places between rows change the digest.
func TestDigestNotices(t *testing.T) {
	d := newDB(t, `CREATE TABLE t (k int PRIMARY KEY, v text, n numeric); INSERT INTO t VALUES (1, 'a', 1.0), (2, 'b', 1.0)`)
	s := d.open("m")
	bind(t, s, nil, move.TableMap{From: "t"})
	before := must(s.Digest(ctx(t), 0, move.Range{}))(t)
	for _, sql := range []string{
		`UPDATE t SET v = CASE v WHEN 'a' THEN 'b' ELSE 'a' END`,
		`UPDATE t SET n = 1.00 WHERE k = 1`,
		`UPDATE t SET v = NULL WHERE k = 1`,
		`DELETE FROM t WHERE k = 1`,
	} {
		d.exec(sql)
		after := must(s.Digest(ctx(t), 0, move.Range{}))(t)
		if after == before {
			t.Errorf("%s does not show", sql)
		}
		before = after
	}
}

func TestReadKeys(t *testing.T) {
	d := newDB(t, `CREATE TABLE t (a bigint, b text, v text, PRIMARY KEY (a, b)); INSERT INTO t SELECT i % 7, i::text, 'v' || i FROM generate_series(0, 2999) i`)
	s := d.open("m")
	bind(t, s, nil, move.TableMap{From: "t"})
	var keys []move.Row
	for i := range 2500 {
		keys = append(keys, move.Row{int8Value(int64(i % 7)), []byte(fmt.Sprint(i))})
	}
	keys = append(keys, move.Row{int8Value(1), []byte("0")}, keys[3])
	rows := must(s.ReadKeys(ctx(t), 0, keys))(t)
	for i, r := range rows[:2500] {
		if r == nil || string(r[2]) != fmt.Sprint("v", i) {
			t.Fatalf("key %d gives %q", i, r)
		}
	}
	if rows[2500] != nil || string(rows[2501][2]) != "v3" {
		t.Errorf("%q", rows[2500:])
	}
}

func TestReadSpan(t *testing.T) {
	d := newDB(t, `CREATE TABLE t (a bigint, b bigint, PRIMARY KEY (a, b)); INSERT INTO t SELECT i / 10, i % 10 FROM generate_series(0, 99) i`)
	s := d.open("m")
	bind(t, s, nil, move.TableMap{From: "t"})
	five := move.Row{int8Value(5)}
	for _, c := range []struct {
		span  move.KeySpan
		after move.Row
		want  int
	}{
		{move.KeySpan{Prefix: five}, nil, 10},
		{move.KeySpan{Prefix: five, From: int8Value(3), To: int8Value(6)}, nil, 4},
		{move.KeySpan{Prefix: five, From: int8Value(3), To: int8Value(6), FromOpen: true, ToOpen: true}, nil, 2},
		{move.KeySpan{Prefix: five}, move.Row{int8Value(5), int8Value(7)}, 2},
		{move.KeySpan{From: int8Value(8)}, nil, 20},
	} {
		if rows := must(s.ReadSpan(ctx(t), 0, c.span, c.after, 100))(t); len(rows) != c.want {
			t.Errorf("%+v: %d rows", c.span, len(rows))
		}
	}
}
