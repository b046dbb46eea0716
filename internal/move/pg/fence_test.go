package pg

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"varve/internal/move"
)

const fenced = `
	CREATE TABLE parent (k int PRIMARY KEY);
	CREATE TABLE a (k int PRIMARY KEY, v text, p int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE);
	CREATE TABLE pt (k int PRIMARY KEY, v text) PARTITION BY RANGE (k);
	CREATE TABLE pt1 PARTITION OF pt FOR VALUES FROM (0) TO (10);
	INSERT INTO parent VALUES (1), (2); INSERT INTO a VALUES (1, 'v', 1), (2, 'v', 2); INSERT INTO pt VALUES (1, 'v')`

// session is one connection to a database.
func (d *db) session() *pgconn.PgConn {
	d.t.Helper()
	conn, err := pgconn.Connect(context.Background(), d.c.URL(d.name))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func run1(conn *pgconn.PgConn, sql string) error {
	_, err := conn.Exec(context.Background(), sql).ReadAll()
	return err
}

func newFence(t *testing.T, part move.Part) (*db, *Side) {
	t.Helper()
	d := newDB(t, fenced)
	s := d.open("m")
	maps := []move.TableMap{{From: "a"}, {From: "pt"}}
	tables, f, err := s.Bind(ctx(t), move.Origin, maps, nil)
	noStops(t, f, err)
	if part == move.Target {
		_, f, err = s.Bind(ctx(t), move.Target, maps, tables)
		noStops(t, f, err)
	}
	check(t, s.InstallFence(ctx(t)))
	check(t, s.InstallFence(ctx(t)))
	return d, s
}

// writes are every way to change a moved table.
var writes = []string{
	"INSERT INTO a VALUES (100)",
	"UPDATE a SET v = 'x'",
	"UPDATE a SET v = 'x' WHERE false",
	"DELETE FROM a",
	"INSERT INTO a VALUES (1) ON CONFLICT (k) DO UPDATE SET v = 'x'",
	"TRUNCATE a",
	"DELETE FROM parent WHERE k = 1",
	"UPDATE parent SET k = 11 WHERE k = 1",
	"TRUNCATE parent CASCADE",
	"MERGE INTO a USING (VALUES (1)) n(k) ON a.k = n.k WHEN MATCHED THEN UPDATE SET v = 'x'",
	"WITH w AS (INSERT INTO a VALUES (101) RETURNING k) SELECT * FROM w",
	"INSERT INTO pt VALUES (2)",
	"INSERT INTO pt1 VALUES (2)",
	"UPDATE pt1 SET v = 'x'",
	"TRUNCATE pt1",
	"SET session_replication_role = replica; INSERT INTO a VALUES (100)",
	"DO $$ BEGIN EXECUTE 'DELETE FROM a'; END $$",
}

func TestFenceRefusesEveryWrite(t *testing.T) {
	for _, part := range []move.Part{move.Origin, move.Target} {
		t.Run(part.String(), func(t *testing.T) {
			d, s := newFence(t, part)
			before := d.exec("SELECT count(*) FROM a, pt")
			try := func(fencedNow bool) {
				t.Helper()
				for _, sql := range writes {
					conn := d.session()
					err := run1(conn, "BEGIN; "+sql)
					if refused := state(err) == FencedState; refused != fencedNow || err != nil && !refused {
						t.Errorf("%s: %v, fence up: %v", sql, err, fencedNow)
					}
					conn.Close(ctx(t))
				}
				conn := d.session()
				check(t, run1(conn, "BEGIN"))
				_, err := conn.CopyFrom(ctx(t), strings.NewReader("77\tcopied\t\\N\n"), "COPY a FROM STDIN")
				if refused := state(err) == FencedState; refused != fencedNow || err != nil && !refused {
					t.Errorf("COPY: %v, fence up: %v", err, fencedNow)
				}
				conn.Close(ctx(t))
			}
			try(false)
			check(t, s.RaiseFence(ctx(t), 5, time.Second, time.Minute))
			try(true)
			if _, err := d.session().Exec(ctx(t), "SELECT * FROM a").ReadAll(); err != nil {
				t.Errorf("reading: %v", err)
			}
			if err := run1(d.session(), "SET varve_move.pass = 'm'; INSERT INTO a VALUES (100); DELETE FROM a WHERE k = 100"); err != nil {
				t.Errorf("the move's own writer: %v", err)
			}
			if err := run1(d.session(), "SET varve_move.pass = 'n'; INSERT INTO a VALUES (100)"); state(err) != FencedState {
				t.Errorf("another move's writer: %v", err)
			}
			check(t, s.KeepFence(ctx(t), 5))
			try(true)
			if err := s.LiftFence(ctx(t), 4); !errors.Is(err, move.ErrFenceGeneration) {
				t.Errorf("lifted by an earlier generation: %v", err)
			}
			if err := s.RaiseFence(ctx(t), 4, time.Second, time.Minute); !errors.Is(err, move.ErrFenceGeneration) {
				t.Errorf("raised by an earlier generation: %v", err)
			}
			try(true)
			check(t, s.LiftFence(ctx(t), 5))
			try(false)
			if after := d.exec("SELECT count(*) FROM a, pt"); after != before {
				t.Errorf("%s rows, %s before", after, before)
			}
			check(t, s.RemoveFence(ctx(t)))
			check(t, s.RemoveFence(ctx(t)))
			try(false)
			if n := d.exec("SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'varve%'"); n != "0" {
				t.Errorf("%s triggers left", n)
			}
		})
	}
}

// TestFenceAndOldSnapshots: a transaction that began before the fence was
// raised, at every isolation level, holds it up if it has written and is
// refused if it has not.
func TestFenceAndOldSnapshots(t *testing.T) {
	for _, level := range []string{"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"} {
		t.Run(level, func(t *testing.T) {
			d, s := newFence(t, move.Origin)
			late, writer := d.session(), d.session()
			check(t, run1(late, "BEGIN ISOLATION LEVEL "+level+"; SELECT * FROM a; SELECT * FROM varve_move.fence_m_origin"))
			check(t, run1(writer, "BEGIN ISOLATION LEVEL "+level+"; UPDATE a SET v = 'under way' WHERE k = 1"))
			if err := s.RaiseFence(ctx(t), 1, 100*time.Millisecond, time.Minute); !errors.Is(err, move.ErrFenceBusy) {
				t.Fatalf("with a writer under way: %v", err)
			}
			if err := run1(d.session(), "INSERT INTO a VALUES (3)"); err != nil {
				t.Errorf("after a fence that was not raised: %v", err)
			}
			raised := make(chan error, 1)
			go func() { raised <- s.RaiseFence(context.WithoutCancel(t.Context()), 1, 20*time.Second, time.Minute) }()
			check(t, run1(writer, "UPDATE a SET v = 'done' WHERE k = 2; COMMIT"))
			check(t, <-raised)
			if err := run1(late, "UPDATE a SET v = 'late' WHERE k = 1"); state(err) != FencedState {
				t.Errorf("a write of an older snapshot: %v", err)
			}
			if got := d.exec("SELECT string_agg(v, ',' ORDER BY k) FROM a WHERE k < 3"); got != "under way,done" {
				t.Error(got)
			}
		})
	}
}

// TestFenceWaitsForPrepared: a prepared transaction is a writer under way.
func TestFenceWaitsForPrepared(t *testing.T) {
	d, s := newFence(t, move.Origin)
	d.exec("BEGIN; UPDATE a SET v = 'prepared'; PREPARE TRANSACTION 'x'")
	if err := s.RaiseFence(ctx(t), 1, 100*time.Millisecond, time.Minute); !errors.Is(err, move.ErrFenceBusy) {
		t.Errorf("%v", err)
	}
	long := must(s.Long(ctx(t), 0))(t)
	if len(long) == 0 {
		t.Error("not told as long")
	}
	d.exec("COMMIT PREPARED 'x'")
	check(t, s.RaiseFence(ctx(t), 1, time.Second, time.Minute))
}

// TestFenceLiftsItself: past its deadline the fence is down for good, and
// neither kept nor switched by.
func TestFenceLiftsItself(t *testing.T) {
	d, s := newFence(t, move.Origin)
	check(t, s.RaiseFence(ctx(t), 1, time.Second, 300*time.Millisecond))
	if err := run1(d.session(), "INSERT INTO a VALUES (3)"); state(err) != FencedState {
		t.Errorf("before the deadline: %v", err)
	}
	check(t, pause(ctx(t), 350*time.Millisecond))
	if err := s.KeepFence(ctx(t), 1); !errors.Is(err, move.ErrFenceDown) {
		t.Errorf("kept after its deadline: %v", err)
	}
	if err := run1(d.session(), "INSERT INTO a VALUES (3)"); err != nil {
		t.Errorf("after the deadline: %v", err)
	}
	if got := d.exec("SELECT last_value FROM varve_move.fence_m_origin"); got != "0" {
		t.Errorf("not down for good: %s", got)
	}
	// The target is canonical: past the deadline the row keeps the fence.
	check(t, s.RaiseFence(ctx(t), 2, time.Second, 50*time.Millisecond))
	older := d.session()
	check(t, run1(older, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM a"))
	d.exec("UPDATE varve_move.fences SET canonical = 'target'")
	check(t, pause(ctx(t), 100*time.Millisecond))
	for range 2 {
		if err := run1(d.session(), "INSERT INTO a VALUES (4)"); state(err) != FencedState {
			t.Errorf("with the target canonical: %v", err)
		}
		check(t, s.LiftFence(ctx(t), 2))
	}
	if err := run1(older, "INSERT INTO a VALUES (4)"); state(err) != "40001" {
		t.Errorf("a snapshot from before the switch: %v", err)
	}
	d.exec("UPDATE varve_move.fences SET canonical = 'origin'")
	older.Close(ctx(t))
	if err := run1(d.session(), "INSERT INTO a VALUES (4)"); err != nil {
		t.Errorf("after the way back: %v", err)
	}
}

// TestFenceUnderLoad: with many writers, no write that was acknowledged after
// RaiseFence returned is there, and none that was refused.
func TestFenceUnderLoad(t *testing.T) {
	d, s := newFence(t, move.Origin)
	type result struct{ done []int }
	results := make(chan result)
	stop := make(chan struct{})
	const writers = 6
	for w := range writers {
		conn := d.session()
		go func() {
			var r result
			for i := 0; ; i++ {
				select {
				case <-stop:
					results <- r
					return
				default:
				}
				k := 1000 + w*1_000_000 + i
				if run1(conn, fmt.Sprintf("INSERT INTO a VALUES (%d)", k)) == nil {
					r.done = append(r.done, k)
				}
			}
		}()
	}
	var counts []string
	for gen := int64(1); gen <= 5; gen++ {
		check(t, pause(ctx(t), 30*time.Millisecond))
		check(t, s.RaiseFence(ctx(t), gen, 10*time.Second, time.Minute))
		before := d.exec("SELECT count(*) FROM a")
		check(t, pause(ctx(t), 30*time.Millisecond))
		if after := d.exec("SELECT count(*) FROM a"); after != before {
			t.Errorf("%s rows when the fence was up, %s later", before, after)
		}
		counts = append(counts, before)
		check(t, s.LiftFence(ctx(t), gen))
	}
	close(stop)
	total := 2
	for range writers {
		total += len((<-results).done)
	}
	if got := d.exec("SELECT count(*) FROM a"); got != fmt.Sprint(total) {
		t.Errorf("%s rows, %d acknowledged", got, total)
	}
	if counts[0] == counts[4] {
		t.Error("nothing was written in between")
	}
}

// TestNewPartition: a partition made after the fence was installed is fenced
// when it is raised.
func TestNewPartition(t *testing.T) {
	d, s := newFence(t, move.Origin)
	d.exec("CREATE TABLE pt2 PARTITION OF pt FOR VALUES FROM (10) TO (20)")
	check(t, s.RaiseFence(ctx(t), 1, time.Second, time.Minute))
	if err := run1(d.session(), "INSERT INTO pt2 VALUES (11)"); state(err) != FencedState {
		t.Errorf("%v", err)
	}
}
