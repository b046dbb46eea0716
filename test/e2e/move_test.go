package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"varve/internal/move/pg/pgtest"
)

const messagesSQL = `
CREATE TABLE messages (
  id uuid PRIMARY KEY, room_id bigint NOT NULL, seq bigint NOT NULL, sender_id bigint NOT NULL, client_msg_id uuid,
  body text NOT NULL, created_at timestamptz NOT NULL, read_at timestamptz, edited_at timestamptz);
CREATE INDEX ON messages (room_id, seq);
CREATE UNIQUE INDEX ON messages (sender_id, client_msg_id) WHERE client_msg_id IS NOT NULL`

// chatWriter is one app connection's worth of chat: it writes to the side that
// takes writes, and remembers what was acknowledged.
type chatWriter struct {
	n     int
	urls  [2]string
	conns [2]*pgx.Conn
	side  int
	rows  map[string]string // id to body, as acknowledged; "" for deleted
	ids   []string
	most  time.Duration // longest time from a first try to its success
	done  int
}

// write runs a statement on the side that takes it. A refusal by the fence
// goes to the other side; any other error is the test's.
func (w *chatWriter) write(ctx context.Context, sql string, args ...any) error {
	began := time.Now()
	for {
		if w.conns[w.side] == nil {
			c, err := pgx.Connect(ctx, w.urls[w.side])
			if err != nil {
				return err
			}
			w.conns[w.side] = c
		}
		_, err := w.conns[w.side].Exec(ctx, sql, args...)
		var pe *pgconn.PgError
		if err == nil {
			w.most = max(w.most, time.Since(began))
			w.done++
			return nil
		}
		if !errors.As(err, &pe) || pe.Code != "VM001" {
			return err
		}
		if time.Since(began) > 20*time.Second {
			return fmt.Errorf("no side takes writes: %w", err)
		}
		w.side = 1 - w.side
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

func (w *chatWriter) step(ctx context.Context, i int) error {
	r := rand.IntN(10)
	switch {
	case r < 5 || len(w.ids) == 0:
		id := fmt.Sprintf("%08x-%04x-4000-8000-%012x", rand.Uint32(), w.n, i)
		body := fmt.Sprintf("message %d of %d %s", i, w.n, strings.Repeat("x", rand.IntN(200)))
		if i%50 == 0 {
			body += strings.Repeat(fmt.Sprint(rand.Uint64()), 300) // kept out of line
		}
		err := w.write(ctx, `INSERT INTO messages VALUES ($1, $2, $3, $4, NULL, $5, now())`, id, w.n, i, w.n, body)
		if err == nil {
			w.rows[id] = body
			w.ids = append(w.ids, id)
		}
		return err
	case r < 8:
		id := w.ids[rand.IntN(len(w.ids))]
		return w.write(ctx, `UPDATE messages SET read_at = now() WHERE id = $1`, id)
	case r < 9:
		id, body := w.ids[rand.IntN(len(w.ids))], fmt.Sprintf("edited %d", i)
		err := w.write(ctx, `UPDATE messages SET body = $2, edited_at = now() WHERE id = $1`, id, body)
		if err == nil && w.rows[id] != "" {
			w.rows[id] = body
		}
		return err
	}
	id := w.ids[rand.IntN(len(w.ids))]
	err := w.write(ctx, `DELETE FROM messages WHERE id = $1`, id)
	if err == nil {
		w.rows[id] = ""
	}
	return err
}

// moveTest runs the command with one move file.
type moveTest struct {
	t       *testing.T
	bin     string
	file    string
	cluster *pgtest.Cluster
	dbs     [2]string
	runner  *exec.Cmd
	log     *syncBuffer
}

func (m *moveTest) command(args ...string) (string, error) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, m.bin, append([]string{"move"}, args...)...).CombinedOutput()
	return string(out), err
}

func (m *moveTest) must(args ...string) {
	m.t.Helper()
	out, err := m.command(args...)
	if err != nil {
		m.t.Fatalf("varve move %s: %v\n%s\nmover:\n%s", strings.Join(args, " "), err, out, m.log.String())
	}
	m.t.Logf("varve move %s\n%s", strings.Join(args, " "), out)
}

func (m *moveTest) run() {
	m.t.Helper()
	m.runner = exec.Command(m.bin, "move", "run", m.file)
	m.runner.Stdout, m.runner.Stderr = m.log, m.log
	if err := m.runner.Start(); err != nil {
		m.t.Fatal(err)
	}
}

func (m *moveTest) kill() {
	m.t.Helper()
	_ = m.runner.Process.Signal(syscall.SIGKILL)
	_ = m.runner.Wait()
}

// reach waits until the move is in a state.
func (m *moveTest) reach(want string) {
	m.t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	for {
		got := m.cluster.Exec(m.t, m.dbs[0], "SELECT state, trouble FROM varve_move.moves")
		at, trouble, _ := strings.Cut(got, "|")
		if at == want && trouble == "" {
			return
		}
		if trouble != "" || time.Now().After(deadline) {
			m.t.Fatalf("the move is %s, wanted %s\nmover:\n%s", got, want, m.log.String())
		}
		select {
		case <-m.t.Context().Done():
			m.t.Fatal("the test ended")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// TestMovePostgres moves a chat's messages from one PostgreSQL to another and
// back and over again while they are written, with the mover killed on the
// way. Nothing acknowledged may be lost and both sides must end equal.
func TestMovePostgres(t *testing.T) {
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	c := pgtest.Shared(t)
	m := &moveTest{t: t, bin: bin, cluster: c, log: &syncBuffer{new: make(chan struct{}, 1)}, file: filepath.Join(t.TempDir(), "move.yaml")}
	for i := range m.dbs {
		m.dbs[i] = c.Database(t)
		c.Exec(t, m.dbs[i], messagesSQL)
	}
	c.Exec(t, m.dbs[0], `INSERT INTO messages SELECT md5(i::text)::uuid, i % 100, i / 100, i % 7, md5(i || 'c')::uuid, 'message ' || i, now()
		FROM generate_series(1, 20000) i; ANALYZE messages`)
	text := fmt.Sprintf(`
name: chat
origin: {postgres: "%s"}
target: {postgres: "%s"}
tables:
  - from: public.messages
    rules:
      - {name: numbers, unique: [room_id, seq, sender_id]}
      - {name: read after sent, check: "read_at IS NULL OR read_at >= created_at"}
budgets: {baseline: 500ms, copy_latency: 50, min_rate: 2000, lag: 5s, deadline: 10s, patience: 2s, quiet_reads: 100ms}
`, c.URL(m.dbs[0]), c.URL(m.dbs[1]))
	if err := os.WriteFile(m.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	writers := make([]*chatWriter, 4)
	failures := make(chan error, len(writers))
	halt := make(chan struct{})
	for n := range writers {
		w := &chatWriter{n: 1000 + n, urls: [2]string{c.URL(m.dbs[0]), c.URL(m.dbs[1])}, rows: map[string]string{}}
		writers[n] = w
		wg.Go(func() {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for i := 1; ; i++ {
				select {
				case <-halt:
					for _, c := range w.conns {
						if c != nil {
							_ = c.Close(context.WithoutCancel(ctx))
						}
					}
					return
				case <-tick.C:
				}
				if err := w.step(ctx, i); err != nil {
					failures <- fmt.Errorf("writer %d: %w", n, err)
					return
				}
			}
		})
	}

	m.must("plan", m.file)
	m.must("start", m.file)
	m.run()
	defer func() { m.kill() }()
	m.reach("copying")
	m.kill()
	m.run()
	m.reach("verified")
	m.must("cutover", "--skip-shadow", m.file)
	m.reach("cut_over")
	m.kill()
	m.run()
	m.must("rollback", m.file)
	m.reach("rolled_back")
	m.must("cutover", "--skip-shadow", m.file)
	m.reach("cut_over")
	close(halt)
	wg.Wait()
	select {
	case err := <-failures:
		t.Fatal(err)
	default:
	}

	m.compare(writers)
	m.must("verify", m.file)
	m.must("finish", "--ignore-reads", m.file)
	m.compare(writers)
	// Origin stays closed to writers; nothing else is left.
	for i, triggers := range []string{"2", "0"} {
		left := c.Exec(t, m.dbs[i], `SELECT (SELECT count(*) FROM pg_replication_slots WHERE database = current_database()),
			(SELECT count(*) FROM pg_publication), (SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal)`)
		if left != "0|0|"+triggers {
			t.Errorf("left on side %d: slots, publications, triggers %s", i, left)
		}
	}
}

// compare checks both sides against each other and against what was
// acknowledged.
func (m *moveTest) compare(writers []*chatWriter) {
	t := m.t
	t.Helper()
	const sum = `SELECT count(*), sum(hash_record_extended(messages, 1)) FROM messages`
	deadline := time.Now().Add(30 * time.Second)
	for {
		a, b := m.cluster.Exec(t, m.dbs[0], sum), m.cluster.Exec(t, m.dbs[1], sum)
		if a == b {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the sides differ: %s and %s\nmover:\n%s", a, b, m.log.String())
		}
		select {
		case <-t.Context().Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	there := map[string]string{}
	for line := range strings.SplitSeq(m.cluster.Exec(t, m.dbs[1], "SELECT id, body FROM messages WHERE sender_id >= 1000"), "\n") {
		id, body, _ := strings.Cut(line, "|")
		there[id] = body
	}
	acknowledged := 0
	for _, w := range writers {
		for id, body := range w.rows {
			if there[id] != body {
				t.Errorf("message %s of writer %d: %.40q acknowledged, %.40q there", id, w.n, body, there[id])
			}
			if body != "" {
				acknowledged++
			}
		}
		t.Logf("writer %d: %d writes, the longest took %s", w.n, w.done, w.most)
	}
	if acknowledged != len(there) && !(acknowledged == 0 && len(there) == 1) {
		t.Errorf("%d messages acknowledged, %d there", acknowledged, len(there))
	}
}
