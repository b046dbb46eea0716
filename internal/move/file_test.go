package move

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestParseFile(t *testing.T) {
	f, err := ParseFile([]byte(testFile))
	if err != nil {
		t.Fatal(err)
	}
	if f.Tables[1].To != "public.rooms" || f.Budgets.CopyLatency != 1.5 || f.Budgets.Deadline != 2*time.Second {
		t.Errorf("defaults: %+v", f)
	}
	rules, err := f.rules(testTables())
	if err != nil || len(rules) != 1 || rules[0].Name != "public.messages: numbered" {
		t.Errorf("rules: %v, %v", rules, err)
	}
}

func TestParseFileRefuses(t *testing.T) {
	const tables = "tables: [{from: public.a}]\n"
	const pg = `origin: {postgres: "postgres://h/d"}` + "\n"
	const to = `target: {postgres: "postgres://t/d"}` + "\n"
	for _, tt := range []struct{ text, want string }{
		{"name: a\n" + pg + to + tables + "tabels: []\n", "line 5: field tabels not found"},
		{"name: A\n" + pg + to + tables, `name "A"`},
		{"name: a\n" + to + tables, "origin: needs either postgres or varve"},
		{"name: a\norigin: {varve: {hosts: [h]}}\n" + to + tables, "only PostgreSQL can be left"},
		{"name: a\norigin: {postgres: \"postgres://u:secret@h/d\"}\n" + to + tables, "has a password"},
		{"name: a\norigin: {postgres: \"host=h password=secret\"}\n" + to + tables, "has a password"},
		{"name: a\n" + pg + "target: {varve: {}}\n" + tables, "varve needs hosts"},
		{"name: a\n" + pg + to + "tables: []\n", "0 tables"},
		{"name: a\n" + pg + to + "tables: [{from: messages}]\n", `"messages" is not schema.table`},
		{"name: a\n" + pg + to + "tables: [{from: public.a}, {from: public.a}]\n", "named twice"},
		{"name: a\n" + pg + to + "tables: [{from: public.a, rules: [{name: x}]}]\n", "either unique or check"},
		{"name: a\n" + pg + to + tables + "budgets: {copy_latency: 0.5}\n", "copy_latency 0.5: at least 1"},
		{"name: a\n" + pg + to + tables + "budgets: {min_rate: 10, max_rate: 5}\n", "below min_rate"},
		{"name: a\n" + pg + to + tables + "budgets: {deadline: 100ms, patience: 1s}\n", "four times the patience"},
		{"", "EOF"},
	} {
		_, err := ParseFile([]byte(tt.text))
		if err == nil || !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
		}
	}
}
