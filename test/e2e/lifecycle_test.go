package e2e

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const makeKeyspace = `CREATE KEYSPACE IF NOT EXISTS chat WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`

func TestRestartKeepsEverything(t *testing.T) {
	data := filepath.Join(t.TempDir(), "d")
	s := start(t, data)
	sess := s.session()
	mustExec(t, sess, makeKeyspace)
	mustExec(t, sess, `CREATE TABLE chat.m (k int, c int, v text, PRIMARY KEY (k, c))`)
	for c := range 100 {
		mustExec(t, sess, `INSERT INTO chat.m (k, c, v) VALUES (1, ?, ?)`, c, fmt.Sprint(c))
	}
	sess.Close()
	if err := s.stop(syscall.SIGTERM); err != nil {
		t.Fatalf("SIGTERM: %v\n%s", err, s.log)
	}
	if _, err := os.Stat(filepath.Join(data, "admin.sock")); !os.IsNotExist(err) {
		t.Errorf("the admin socket is still there after a clean stop: %v", err)
	}
	s = start(t, data)
	var n int
	if err := s.session().Query(`SELECT count(*) FROM chat.m WHERE k = 1`).ScanContext(context.Background(), &n); err != nil || n != 100 {
		t.Fatalf("%d rows after a restart, %v", n, err)
	}
}

func TestMetricsAndHealth(t *testing.T) {
	s := start(t, filepath.Join(t.TempDir(), "d"))
	sess := s.session()
	mustExec(t, sess, `SELECT * FROM system.local`)
	for path, want := range map[string]string{"/healthz": "ok", "/metrics": "varve_requests_total"} {
		resp, err := http.Get("http://" + s.http + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s %v, %q not in\n%s", path, resp.Status, err, want, body)
		}
	}
	checkExposition(t, "http://"+s.http+"/metrics")
	for _, path := range []string{"/v1/info", "/v1/flush", "/debug/pprof/"} {
		resp, err := http.Get("http://" + s.http + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s is served on the open port: %s", path, resp.Status)
		}
	}
}

// checkExposition wants every metric explained, and of the type that its name says.
func checkExposition(t *testing.T, url string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"varve_store_tombstones_walked_total ", "varve_store_tombstones_jumped_total ", "varve_store_compactions_total ",
		"varve_store_journal_sync_seconds_count ", "varve_connections ", `varve_request_seconds_count{kind="query"}`,
		`varve_statement_seconds_count{statement="select"}`,
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("there is no %s", want)
		}
	}
	help := map[string]string{}
	for line := range strings.Lines(string(body)) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 4)
		switch {
		case f[0] != "#" || len(f) < 3 || !strings.HasPrefix(f[2], "varve_"):
		case f[1] == "HELP" && len(f) == 4:
			help[f[2]] = f[3]
		case f[1] == "TYPE":
			if help[f[2]] == "" {
				t.Errorf("%s is not explained: one of the store's needs a line in storeHelp (internal/console)", f[2])
			}
			if counter := strings.HasSuffix(f[2], "_total"); counter != (f[3] == "counter") || f[3] == "untyped" {
				t.Errorf("%s is a %s", f[2], f[3])
			}
		}
	}
}

func TestUsageErrors(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("cql: 127.0.0.1:0\nnative_port: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"serve", "--config", bad}, `line 2: there is no setting "native_port"`},
		{[]string{"serve", "--set", "no_such=1"}, `there is no setting "no_such"`},
		{[]string{"serve", "--frobnicate"}, "unknown flag"},
		{[]string{"serve", "extra"}, "unexpected argument"},
		{[]string{"nodetool", "--data", dir, "status"}, "no server answers on"},
		{[]string{"nodetool", "repair"}, `unknown command "repair"`},
		{[]string{"backup", "frobnicate"}, `unknown command "frobnicate"`},
		{[]string{"backup", "list", filepath.Join(dir, "nowhere")}, "there is no directory"},
		{[]string{"serve", "--data", dir, "--cql", "127.0.0.1:0", "--http", ""}, "is not empty (bad.yaml)"},
	} {
		out, err := run(t, tc.args...)
		if err == nil || !strings.Contains(out, tc.want) {
			t.Errorf("%v: %v, %q not in %q", tc.args, err, tc.want, out)
		}
	}
	if out, err := run(t, "version"); err != nil || !strings.HasPrefix(out, "varve ") {
		t.Errorf("version: %q %v", out, err)
	}
}

func TestSecondServerOnTheSameDataIsRefused(t *testing.T) {
	data := filepath.Join(t.TempDir(), "d")
	start(t, data)
	out, err := run(t, "serve", "--data", data, "--cql", "127.0.0.1:0", "--http", "")
	if err == nil || !strings.Contains(out, data) {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestNodetool(t *testing.T) {
	data := filepath.Join(t.TempDir(), "d")
	s := start(t, data)
	sess := s.session()
	mustExec(t, sess, makeKeyspace)
	mustExec(t, sess, `CREATE TABLE chat.m (k int PRIMARY KEY, v text)`)
	mustExec(t, sess, `INSERT INTO chat.m (k, v) VALUES (1, 'x')`)
	for _, tc := range []struct{ args, want string }{
		{"status", "UN  127.0.0.1"},
		{"info", "Native Transport active: true"},
		{"info", " / no limit\n"},
		{"version", "ReleaseVersion: 5.0"},
		{"describecluster", "Name: Test Cluster"},
		{"flush chat", ""},
		{"compact chat m", ""},
		{"tablestats chat.m", "Table: m"},
		{"snapshot -t one chat", "Snapshot directory: one"},
		{"listsnapshots", "one           chat          m                  1"}, // 1.… KiB of its own
		{"clearsnapshot -t one", "Requested clearing snapshot(s) for [all keyspaces] with snapshot name [one]"},
		{"clearsnapshot --all", "for [all keyspaces] with [all snapshots]"},
		{"listsnapshots", "There are no snapshots"},
		{"settombstonethresholds 5 10", ""},
		{"gettombstonethresholds", "tombstone_failure_threshold: 10"},
		{"statusautocompaction", "running"},
		{"disableautocompaction", ""},
		{"statusautocompaction", "not running"},
		{"enableautocompaction", ""},
	} {
		out, err := run(t, append([]string{"nodetool", "--data", data}, strings.Fields(tc.args)...)...)
		if err != nil || !strings.Contains(out, tc.want) {
			t.Errorf("nodetool %s: %v, %q not in\n%s", tc.args, err, tc.want, out)
		}
	}
	for _, tc := range []struct{ args, want string }{
		{"flush nope", "Keyspace [nope] does not exist."},
		{"tablestats chat.nope", "nope"},
		{"settombstonethresholds x y", "is not a number"},
		{"clearsnapshot", "specify snapshot name or --all"},
		{"clearsnapshot -t one --all", "specify only one of"},
		{"clearsnapshot -t gone", "There is no snapshot gone."},
		{"clearsnapshot -t one chat", `unexpected argument "chat"`},
		{"info chat", `unexpected argument "chat"`},
		{"snapshot -t ../../evil", "snapshot name"},
	} {
		out, err := run(t, append([]string{"nodetool", "--data", data}, strings.Fields(tc.args)...)...)
		if err == nil || !strings.Contains(out, tc.want) {
			t.Errorf("nodetool %s: %v, %q not in\n%s", tc.args, err, tc.want, out)
		}
	}
	info, err := os.Stat(filepath.Join(data, "admin.sock"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("admin socket: %v %v", info.Mode(), err)
	}
}

// Every acknowledged write is there after a kill at a random moment.
func TestKillLosesNothingAcknowledged(t *testing.T) {
	data := filepath.Join(t.TempDir(), "d")
	const writers, rounds = 8, 4
	acked := map[[2]int]int{}
	var mu sync.Mutex
	next := make([]int, writers)
	for round := range rounds {
		s := start(t, data)
		sess := s.session()
		if round == 0 {
			mustExec(t, sess, makeKeyspace)
			mustExec(t, sess, `CREATE TABLE chat.m (k int, c int, v int, PRIMARY KEY (k, c))`)
			mustExec(t, sess, `CREATE TABLE chat.other (k int, c int, v int, PRIMARY KEY (k, c))`)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for ctx.Err() == nil {
					c := next[w]
					next[w]++
					// Half of the writes are logged batches over two tables.
					var err error
					if c%2 == 0 {
						err = sess.Query(`INSERT INTO chat.m (k, c, v) VALUES (?, ?, ?)`, w, c, round).ExecContext(ctx)
					} else {
						err = sess.Query(`BEGIN BATCH INSERT INTO chat.m (k, c, v) VALUES (?, ?, ?);
							INSERT INTO chat.other (k, c, v) VALUES (?, ?, ?); APPLY BATCH`, w, c, round, w, c, round).ExecContext(ctx)
					}
					if err != nil {
						return
					}
					mu.Lock()
					acked[[2]int{w, c}] = round
					mu.Unlock()
				}
			})
		}
		// The kill comes once enough was acknowledged, at a count that differs from round to round.
		want := len(acked) + 200 + rand.IntN(800)
		waitFor(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(acked) >= want })
		_ = s.stop(syscall.SIGKILL)
		cancel()
		wg.Wait()
		sess.Close()
	}
	s := start(t, data)
	sess := s.session()
	got := map[[2]int]int{}
	var w, c, v int
	it := sess.Query(`SELECT k, c, v FROM chat.m`).IterContext(context.Background())
	for it.Scan(&w, &c, &v) {
		got[[2]int{w, c}] = v
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	for key, round := range acked {
		if v, ok := got[key]; !ok || v != round {
			t.Fatalf("row %v, acknowledged in round %d, is %d, %v after the kills", key, round, v, ok)
		}
	}
	// A logged batch is whole: an odd row is in both tables or in neither.
	it = sess.Query(`SELECT k, c, v FROM chat.other`).IterContext(context.Background())
	both := 0
	for it.Scan(&w, &c, &v) {
		if _, ok := got[[2]int{w, c}]; !ok {
			t.Errorf("batch row %d,%d is in one table only", w, c)
		}
		both++
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	odd := 0
	for key := range got {
		odd += key[1] % 2
	}
	if odd != both {
		t.Errorf("%d odd rows in one table, %d in the other", odd, both)
	}
	t.Logf("%d rows acknowledged over %d kills, %d found", len(acked), rounds, len(got))
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(60 * time.Second); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("not reached within 60 s")
		}
	}
}
