package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, err := run(t, args...)
	if err != nil {
		t.Fatalf("varve %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func TestExportAndImport(t *testing.T) {
	dir := t.TempDir()
	s := start(t, filepath.Join(dir, "d"))
	sess := s.session()
	mustExec(t, sess, makeKeyspace)
	const columns = `k int, c timestamp, t text, n decimal, b blob, l list<int>, m map<text, int>, f frozen<tuple<int, text>>, u uuid, PRIMARY KEY (k, c)`
	mustExec(t, sess, `CREATE TABLE chat.a (`+columns+`)`)
	mustExec(t, sess, `CREATE TABLE chat.b (`+columns+`)`)
	for k := range 3000 {
		mustExec(t, sess, `INSERT INTO chat.a (k, c, t, n, b, l, m, f, u) VALUES (?, '2026-09-01 22:00:00.123+0000', 'a "quoted",
 line', -1.50, 0x00ff, [3, 1], {'x': 1}, (7, null), 0f14d0ab-9605-4a62-a9e4-5ed26688389b)`, k)
	}
	mustExec(t, sess, `INSERT INTO chat.a (k, c) VALUES (-1, 0)`)
	file := filepath.Join(dir, "a.csv")
	mustRun(t, "export", "chat.a", file, "--host", s.addr, "--header")
	out := mustRun(t, "import", "chat.b", file, "--host", s.addr, "--header")
	if !strings.Contains(out, "3001 records stored, 0 rejected") {
		t.Fatal(out)
	}
	again := filepath.Join(dir, "b.csv")
	mustRun(t, "export", "chat.b", again, "--host", s.addr, "--header")
	one, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	two, err := os.ReadFile(again)
	if err != nil {
		t.Fatal(err)
	}
	if string(one) != string(two) {
		t.Fatal("the table exported, imported and exported again is not the same")
	}
}

func TestImportRejectsAndGoesOn(t *testing.T) {
	dir := t.TempDir()
	s := start(t, filepath.Join(dir, "d"))
	sess := s.session()
	mustExec(t, sess, makeKeyspace)
	mustExec(t, sess, `CREATE TABLE chat.n (k int PRIMARY KEY, v int)`)
	file := filepath.Join(dir, "n.csv")
	var csv strings.Builder
	for k := range 2000 {
		switch k {
		case 5:
			csv.WriteString("5,five\n")
		case 700:
			csv.WriteString("700,1,2\n")
		case 900:
			csv.WriteString(",1\n")
		default:
			fmt.Fprintf(&csv, "%d,%d\n", k, k)
		}
	}
	if err := os.WriteFile(file, []byte(csv.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, "import", "chat.n", file, "--host", s.addr)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("an import with rejected records ends with %v, want exit code 3", err)
	}
	if !strings.Contains(out, "1997 records stored, 3 rejected") {
		t.Fatal(out)
	}
	rejected, err := os.ReadFile(file + ".rejected")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"6,", "five", "701,3 fields for 2 columns", "901,"} {
		if !strings.Contains(string(rejected), want) {
			t.Errorf("%q is not in the rejected records:\n%s", want, rejected)
		}
	}
	// What was rejected once is no news of the next import.
	good := filepath.Join(dir, "good.csv")
	for name, text := range map[string]string{good: "1,1\n", good + ".rejected": "old\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mustRun(t, "import", "chat.n", good, "--host", s.addr)
	if _, err := os.Stat(good + ".rejected"); !os.IsNotExist(err) {
		t.Errorf("an import that rejected nothing leaves the file of an earlier one: %v", err)
	}
	// A checkpoint from an interrupted run is taken up: only the rest is sent.
	mustExec(t, sess, `TRUNCATE chat.n`)
	half := len(csv.String()[:strings.Index(csv.String(), "1000,")])
	state := fmt.Sprintf(`{"Table":"chat.n","Size":%d,"Bytes":%d,"Records":1000,"Rejected":3,"RejectedBytes":%d}`, csv.Len(), half, len(rejected)-4)
	if err := os.WriteFile(file+".import", []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := run(t, "import", "chat.n", file, "--host", s.addr); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("the rest of an import that rejected records: %v %s", err, out)
	}
	if again, err := os.ReadFile(file + ".rejected"); err != nil || string(again) != string(rejected) {
		t.Errorf("the records rejected before the checkpoint are gone: %q, %v", again, err)
	}
	var n int
	if err := sess.Query(`SELECT count(*) FROM chat.n`).ScanContext(context.Background(), &n); err != nil || n != 1000 {
		t.Fatalf("%d rows after resuming in the middle, %v", n, err)
	}
	if _, err := os.Stat(file + ".import"); !os.IsNotExist(err) {
		t.Errorf("the checkpoint of a finished import is still there: %v", err)
	}
	if out, err := run(t, "import", "chat.nope", file, "--host", s.addr); err == nil || !strings.Contains(out, "nope") {
		t.Errorf("import into a missing table: %v %s", err, out)
	}
}

func TestBackupAndRestore(t *testing.T) {
	dir := t.TempDir()
	data, backups := filepath.Join(dir, "d"), filepath.Join(dir, "backups")
	s := start(t, data)
	sess := s.session()
	mustExec(t, sess, makeKeyspace)
	mustExec(t, sess, `CREATE TABLE chat.m (k int PRIMARY KEY, v text)`)
	for k := range 200 {
		mustExec(t, sess, `INSERT INTO chat.m (k, v) VALUES (?, 'before')`, k)
	}
	mustRun(t, "backup", "create", backups, "one", "--data", data)
	mustExec(t, sess, `INSERT INTO chat.m (k, v) VALUES (0, 'after')`)
	if out := mustRun(t, "backup", "list", backups); !strings.Contains(out, "one") {
		t.Fatal(out)
	}
	mustRun(t, "backup", "verify", backups, "one")
	if out, err := run(t, "backup", "create", backups, "one", "--data", data); err == nil {
		t.Fatalf("a second backup of the same name is made: %s", out)
	}
	if out, err := run(t, "backup", "restore", backups, "one", "--data", data); err == nil {
		t.Fatalf("a restore over a store in use is made: %s", out)
	}
	sess.Close()
	if err := s.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	restored := filepath.Join(dir, "r")
	mustRun(t, "backup", "restore", backups, "one", "--data", restored)
	s = start(t, restored)
	sess = s.session()
	var v string
	var n int
	ctx := context.Background()
	if err := sess.Query(`SELECT v FROM chat.m WHERE k = 0`).ScanContext(ctx, &v); err != nil || v != "before" {
		t.Fatalf("row 0 is %q after the restore, %v", v, err)
	}
	if err := sess.Query(`SELECT count(*) FROM chat.m`).ScanContext(ctx, &n); err != nil || n != 200 {
		t.Fatalf("%d rows after the restore, %v", n, err)
	}
	// A backup kept inside the store would go with it, and be copied by the next.
	if err := os.Symlink(restored, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, inside := range []string{restored, filepath.Join(restored, "sub", "backups"), filepath.Join(dir, "link", "b")} {
		if out, err := run(t, "backup", "create", inside, "two", "--data", restored); err == nil || !strings.Contains(out, "is inside") {
			t.Errorf("a backup into %s: %v %s", inside, err, out)
		}
	}
	// One changed byte is found.
	changed := false
	err := filepath.Walk(filepath.Join(backups, "one"), func(path string, info os.FileInfo, err error) error {
		if err != nil || changed || info.IsDir() || info.Size() < 100 || strings.HasSuffix(path, ".json") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text[len(text)/2] ^= 1
		changed = true
		return os.WriteFile(path, text, 0o600)
	})
	if err != nil || !changed {
		t.Fatal(err, changed)
	}
	if out, err := run(t, "backup", "verify", backups, "one"); err == nil || !strings.Contains(out, "damaged") {
		t.Fatalf("a changed byte is not found: %v %s", err, out)
	}
}

func TestShell(t *testing.T) {
	s := start(t, filepath.Join(t.TempDir(), "d"))
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "shell", "--host", s.addr)
	cmd.Stdin = strings.NewReader(makeKeyspace + `;
		CREATE TABLE chat.m (k int PRIMARY KEY, v text);
		INSERT INTO chat.m (k, v)
		VALUES (1, 'semi;colon'); BEGIN BATCH INSERT INTO chat.m (k, v) VALUES (2, 'x'); INSERT INTO chat.m (k, v) VALUES (3, 'y'); APPLY BATCH;
		SELECT k, v FROM chat.m WHERE k IN (1, 2, 3);
CONSISTENCY LOCAL_QUORUM
TRACING ON
		SELECT k FROM chat.m WHERE k = 1;
		DESCRIBE TABLE chat.m;
`)
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"semi;colon", "(3 rows)", "consistency level is LOCAL_QUORUM", "live rows", "CREATE TABLE chat.m (\n    k int PRIMARY KEY,\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	cmd = exec.Command(path, "shell", "--host", s.addr)
	cmd.Stdin = strings.NewReader("SELEC;\n")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "line 1:0") {
		t.Errorf("a failed statement: %v %s", err, out)
	}
}

// -e and -f as in cqlsh: several statements and commands on a line, comments,
// the last semicolon left out.
func TestShellRunsStatementsAndFiles(t *testing.T) {
	dir := t.TempDir()
	s := start(t, filepath.Join(dir, "d"))
	mustRun(t, "shell", "--host", s.addr, "-e", makeKeyspace+`; CREATE TABLE chat.m (k int PRIMARY KEY, v text)`)
	out := mustRun(t, "shell", "--host", s.addr, "-k", "chat", "-e",
		"INSERT INTO m (k, v) VALUES (1, 'a;b'); CONSISTENCY QUORUM; EXPAND ON; SELECT * FROM m; -- done\nSHOW VERSION; SHOW HOST; SERIAL CONSISTENCY")
	for _, want := range []string{
		"consistency level is QUORUM", "@ Row 1", " v | a;b", "(1 rows)", "[Cassandra 5.0.9 | CQL spec 3.4.7 | Native protocol v5]",
		"Connected to Test Cluster at " + s.addr, "serial consistency level is SERIAL",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	out = mustRun(t, "shell", "--host", s.addr, "-e", "TRACING ON; SELECT * FROM chat.m")
	traced := mustRun(t, "shell", "--host", s.addr, "-e", "SELECT session_id FROM system_traces.sessions")
	id := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`).FindString(traced)
	if again := mustRun(t, "shell", "--host", s.addr, "-e", "SHOW SESSION "+id); !strings.Contains(again, "activity") || !strings.Contains(out, "activity") {
		t.Errorf("session %s: %s", id, again)
	}

	inner, outer := filepath.Join(dir, "inner.cql"), filepath.Join(dir, "outer.cql")
	for name, text := range map[string]string{
		inner: "/* two\n rows; */ INSERT INTO chat.m (k, v)\n VALUES (2, 'x'); INSERT INTO chat.m (k) VALUES (3);\nEXIT\nnot reached;\n",
		outer: "SOURCE '" + inner + "'\nDESCRIBE KEYSPACES\nSELECT count(*) FROM chat.m;\n-- the end\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out := mustRun(t, "shell", "--host", s.addr, "-f", outer); !strings.Contains(out, "system_schema") || !strings.Contains(out, "     3\n") {
		t.Error(out)
	}
	loop := filepath.Join(dir, "loop.cql")
	if err := os.WriteFile(loop, []byte("SOURCE '"+loop+"';"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ want, flag, text string }{
		{"files run one another", "-f", loop},
		{"no such file", "-f", filepath.Join(dir, "none")},
		{"no such file", "-e", "SOURCE '/none'"},
		{"in single quotes", "-e", "SOURCE x"},
		{"SHOW takes", "-e", "SHOW ME"},
		{"line 1:0", "-e", "SELEC; SHOW VERSION"},
		{"incomplete statement", "-f", writeFile(t, filepath.Join(dir, "half.cql"), "SELECT 1")},
		{"is no serial consistency level", "-e", "SERIAL CONSISTENCY ONE"},
	} {
		if out, err := run(t, "shell", "--host", s.addr, tc.flag, tc.text); err == nil || !strings.Contains(out, tc.want) {
			t.Errorf("%s: %v, %q not in %s", tc.text, err, tc.want, out)
		}
	}
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestBenchRunsEveryOperation(t *testing.T) {
	s := start(t, filepath.Join(t.TempDir(), "d"))
	if out, err := run(t, "bench", "--host", s.addr); err == nil || !strings.Contains(out, "varve bench --schema makes the table") {
		t.Errorf("without its table: %v %s", err, out)
	}
	mustRun(t, "bench", "--host", s.addr, "--schema")
	for _, op := range []string{"insert", "read", "page", "mixed", "delete"} {
		out := mustRun(t, "bench", "--host", s.addr, "--op", op, "--n", "2000", "--rows", "2000", "--channels", "20")
		if !strings.Contains(out, "errors 0") {
			t.Errorf("%s: %s", op, out)
		}
	}
}
