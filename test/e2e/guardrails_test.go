package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGuardrailsLive sets guardrails and settings on a running server, by the
// commands of Cassandra's nodetool, and sees them hold and shown.
func TestGuardrailsLive(t *testing.T) {
	data := filepath.Join(t.TempDir(), "d")
	s := start(t, data, "--set", "page_size_warn_threshold=4000")
	sess := s.session()
	mustExec(t, sess, makeKeyspace)
	mustExec(t, sess, `CREATE TABLE chat.m (k int PRIMARY KEY, v text)`)
	nodetool := func(args ...string) string {
		return mustRun(t, append([]string{"nodetool", "--data", data}, args...)...)
	}
	if out := nodetool("getguardrailsconfig", "page_size_threshold"); out != "[-1, 4000]\n" {
		t.Errorf("%q", out)
	}
	nodetool("setguardrailsconfig", "column_value_size_threshold", "10B", "null")
	if err := sess.Query(`INSERT INTO chat.m (k, v) VALUES (1, 'eleven bytes')`).Exec(); err == nil ||
		!strings.Contains(err.Error(), "Guardrail column_value_size violated: Value of column 'v' has size 12, this exceeds the failure threshold of 10.") {
		t.Errorf("%v", err)
	}
	nodetool("setguardrailsconfig", "column_value_size_threshold", "null", "null")
	mustExec(t, sess, `INSERT INTO chat.m (k, v) VALUES (1, 'eleven bytes')`)
	nodetool("setguardrailsconfig", "page_size_threshold", "-1", "-1")
	nodetool("setguardrailsconfig", "group_by_enabled", "false")
	all := nodetool("getguardrailsconfig", "--expand")
	for _, want := range []string{"page_size_warn_threshold", "group_by_enabled", "partition_size_fail_threshold"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %s in %s", want, all)
		}
	}
	nodetool("settings", "slow_query_log_timeout", "20ms")
	var v string
	if err := sess.Query(`SELECT value FROM system_views.settings WHERE name = 'slow_query_log_timeout'`).Scan(&v); err != nil || v != "20ms" {
		t.Errorf("settings shows %q, %v", v, err)
	}
	for args, want := range map[string]string{
		"setguardrailsconfig|tables_threshold|5|9": "The warn threshold 9 for tables_warn_threshold should be lower than the fail threshold 5",
		"setguardrailsconfig|tables_threshold|0|5": "0 is not allowed",
		"setguardrailsconfig|nothing|5":            "Guardrail nothing not found.",
		"setguardrailsconfig|tables_threshold|5":   "tables_threshold is expecting 2 argument values. Getting 1 instead.",
		"settings|cql|127.0.0.1:1":                 "cannot be set while the server runs",
		"settings|nope|1":                          "there is no setting",
		"settings|tombstone_warn_threshold|-5":     "tombstone_warn_threshold",
	} {
		out, err := run(t, append([]string{"nodetool", "--data", data}, strings.Split(args, "|")...)...)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v %s", args, err, out)
		}
	}
	if out := nodetool("getguardrailsconfig", "tables_threshold"); out != "[-1, -1]\n" {
		t.Errorf("a refused setting was kept: %s", out)
	}
	file := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(file, []byte("cql: 127.0.0.1:0\ntables_warn_threshold: 9\ntables_fail_threshold: 5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := run(t, "serve", "--config", file, "--data", filepath.Join(t.TempDir(), "e")); err == nil || !strings.Contains(out, "line 2: tables_warn_threshold") {
		t.Errorf("%v %s", err, out)
	}
}
