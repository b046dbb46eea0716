package pg

import (
	"context"
	"testing"
	"time"

	"varve/internal/move"
	"varve/internal/move/pg/pgtest"
)

// TestMarkWaitsForHiddenCommits: a transaction whose commit lies in the log
// before a mark, and which others do not see yet because its standby has not
// answered, holds the mark up; one that merely runs does not.
func TestMarkWaitsForHiddenCommits(t *testing.T) {
	c := pgtest.New(t)
	c.Exec(t, "postgres", "CREATE TABLE a (k int PRIMARY KEY)")
	d := &db{t, c, "postgres"}
	s := openSide(t, c.URL("postgres"), "m")
	bind(t, s, nil, move.TableMap{From: "a"})
	st := follow(t, s, "out")
	running := d.session()
	check(t, run1(running, "BEGIN; INSERT INTO a VALUES (1)"))
	began := time.Now()
	must(s.Mark(ctx(t), "while one runs"))(t)
	t.Logf("a mark beside a running transaction took %s", time.Since(began))

	hidden := d.session()
	d.exec("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	d.exec("SELECT pg_reload_conf()")
	for run1(hidden, "DO $$ BEGIN IF current_setting('synchronous_standby_names') = '' THEN RAISE 'not yet'; END IF; END $$") != nil {
		check(t, pause(ctx(t), 10*time.Millisecond))
	}
	committed := make(chan error, 1)
	go func() { committed <- run1(hidden, "INSERT INTO a VALUES (2)") }()
	// The stream has its commit, and readers do not see it.
	expect(t, s, st, "mark while one runs", "begin", "insert new 2", "commit")
	keys := []move.Row{{[]byte{0, 0, 0, 2}}}
	if rows := must(s.ReadKeys(ctx(t), 0, keys))(t); rows[0] != nil {
		t.Fatal("the commit is visible already")
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := s.Mark(short, "too early"); err == nil {
		t.Fatal("a mark does not wait for what lies before it")
	}
	marked := make(chan error, 1)
	go func() {
		_, err := s.Mark(context.WithoutCancel(t.Context()), "in time")
		marked <- err
	}()
	select {
	case err := <-marked:
		t.Fatalf("the mark did not wait (%v)", err)
	case <-time.After(100 * time.Millisecond):
	}
	local := d.session()
	check(t, run1(local, "ALTER SYSTEM RESET synchronous_standby_names"))
	check(t, run1(local, "SELECT pg_reload_conf()"))
	check(t, <-marked)
	if rows := must(s.ReadKeys(ctx(t), 0, keys))(t); rows[0] == nil {
		t.Error("a read after the mark does not see what lies before it")
	}
	check(t, <-committed)
	check(t, run1(running, "ROLLBACK"))
}

func TestSnapshotSees(t *testing.T) {
	const epoch = 5 << 32
	s := must(parseSnapshot("21474836500:21474836510:21474836500,21474836505"))(t) // 5<<32 + 20 .. 30
	if s.xmin != epoch+20 || s.xmax != epoch+30 {
		t.Fatal(s)
	}
	for xid, want := range map[uint32]bool{19: true, 20: false, 21: true, 25: false, 29: true, 30: false, 31: false, 1<<32 - 5: true} {
		if s.sees(xid) != want {
			t.Errorf("sees(%d) = %v", xid, !want)
		}
	}
	if !s.runsBefore(epoch+21) || s.runsBefore(epoch+20) {
		t.Error("runsBefore")
	}
	for _, bad := range []string{"", "1:2", "x:1:", "1:x:", "1:2:x"} {
		if _, err := parseSnapshot(bad); err == nil {
			t.Errorf("%q parses", bad)
		}
	}
}
