package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhy asks a running server about a partition, as text and as JSON, and
// checks that a wrong question says what is wrong with it.
func TestWhy(t *testing.T) {
	data := filepath.Join(t.TempDir(), "d")
	s := start(t, data)
	sess := s.session()
	mustExec(t, sess, makeKeyspace)
	mustExec(t, sess, `CREATE TABLE chat.m (ch int, at timestamp, id int, body text, PRIMARY KEY (ch, at, id)) WITH CLUSTERING ORDER BY (at DESC, id DESC)`)
	for i := range 200 {
		mustExec(t, sess, `INSERT INTO chat.m (ch, at, id, body) VALUES (5, '2026-09-01', ?, 'x')`, i)
	}
	mustExec(t, sess, `DELETE FROM chat.m WHERE ch = 5 AND at = '2026-09-01' AND id < 20`)
	out := mustRun(t, "why", "chat.m", "5", "--data", data)
	for _, want := range []string{"chat.m, partition 5", "Live rows          180,", "1 range deletions kept", "Page, first rows   50 live", "What to change"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if n := strings.Count(out, "\n"); n > 24 {
		t.Errorf("%d lines do not fit a screen", n)
	}
	out = mustRun(t, "why", "chat.m", "5", "at >= '2026-09-01' AND at < '2026-09-02'", "--data", data, "--json", "--rows", "10")
	var a struct {
		LiveRows int64
		Stopped  bool
		GoOn     string
	}
	if err := json.Unmarshal([]byte(out), &a); err != nil || a.LiveRows != 10 || !a.Stopped || a.GoOn == "" {
		t.Errorf("%v: %+v of %s", err, a, out)
	}
	for args, want := range map[string]string{
		"chat.m|'x'":        "Invalid STRING constant",
		"chat.no|5":         "table no does not exist",
		"chat.m|5|id = 1":   "cannot be restricted",
		"chat.m|5|body='x'": "RANGE is on the clustering columns (at, id) of chat.m, not on body",
		"chat.m":            "got 1 arguments",
	} {
		out, err := run(t, append(append([]string{"why"}, strings.Split(args, "|")...), "--data", data)...)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, %s", args, err, out)
		}
	}
}
