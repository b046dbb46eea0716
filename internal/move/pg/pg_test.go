package pg

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"varve/internal/move"
	"varve/internal/move/pg/pgtest"
)

func TestMain(m *testing.M) {
	code := pgtest.Main(m)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

const messages = `
CREATE TABLE messages (
  id uuid PRIMARY KEY,
  room_id bigint NOT NULL,
  seq bigint NOT NULL,
  sender_id bigint NOT NULL,
  client_msg_id uuid,
  body text NOT NULL,
  created_at timestamptz NOT NULL,
  read_at timestamptz);
CREATE INDEX ON messages (room_id, seq);
CREATE UNIQUE INDEX messages_idem ON messages (sender_id, client_msg_id) WHERE client_msg_id IS NOT NULL`

// fill inserts n messages, the i-th in room i % 10.
func fill(n int) string {
	return fmt.Sprintf(`INSERT INTO messages SELECT md5(i::text)::uuid, i %% 10, i / 10, i, NULL, 'message ' || i, now(), NULL
		FROM generate_series(1, %d) i`, n)
}

// db is a database of the shared cluster.
type db struct {
	t    testing.TB
	c    *pgtest.Cluster
	name string
}

func newDB(t testing.TB, sql string) *db {
	t.Helper()
	c := pgtest.Shared(t)
	d := &db{t, c, c.Database(t)}
	if sql != "" {
		d.exec(sql)
	}
	return d
}

func (d *db) exec(sql string, args ...any) string {
	d.t.Helper()
	if len(args) > 0 {
		sql = fmt.Sprintf(sql, args...)
	}
	return d.c.Exec(d.t, d.name, sql)
}

// reset gives the database to another test case: making one takes longer than
// most cases.
func (d *db) reset(t testing.TB, sql string) {
	t.Helper()
	d.t = t
	d.exec(`SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid();
		SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()`)
	d.exec(`DROP SCHEMA public CASCADE; DROP SCHEMA IF EXISTS varve_move CASCADE; CREATE SCHEMA public`)
	for _, name := range strings.Fields(d.exec("SELECT pubname FROM pg_publication")) {
		d.exec("DROP PUBLICATION " + name)
	}
	if sql != "" {
		d.exec(sql)
	}
}

func (d *db) open(moveName string) *Side {
	d.t.Helper()
	return openSide(d.t, d.c.URL(d.name), moveName)
}

func openSide(t testing.TB, url, moveName string) *Side {
	t.Helper()
	s, err := Open(context.Background(), Options{URL: url, Move: moveName, Heartbeat: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

// bind binds sides of equal tables and fails on findings that stop.
func bind(t testing.TB, from, to *Side, maps ...move.TableMap) {
	t.Helper()
	tables, findings, err := from.Bind(ctx(t), move.Origin, maps, nil)
	noStops(t, findings, err)
	if to != nil {
		_, findings, err = to.Bind(ctx(t), move.Target, maps, tables)
		noStops(t, findings, err)
	}
}

func noStops(t testing.TB, findings []move.Finding, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if f.Stops {
			t.Fatalf("%s: %s; mend: %s", f.Object, f.What, strings.Join(f.Mend, "; "))
		}
	}
}

func ctx(t testing.TB) context.Context {
	c, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return c
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var messagesMap = move.TableMap{From: "public.messages", To: "public.messages"}
