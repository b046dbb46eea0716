package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"varve/internal/move"
)

func TestMoveUsage(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("name: chat\nnmae: chat\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args string
		code int
	}{
		{"move frobnicate", 2},
		{"move cutover", 2},
		{"move cutover --force " + bad, 2},
		{"move switch-reads " + bad, 2},
		{"move switch-reads " + bad + " 101", 2},
		{"move plan " + bad + " more", 2},
		{"move plan " + bad, 1},
		{"move run " + bad + ".absent", 1},
	} {
		if code := Main(strings.Fields(tt.args)); code != tt.code {
			t.Errorf("%s: exit code %d, want %d", tt.args, code, tt.code)
		}
	}
}

func TestMoveStatusPrints(t *testing.T) {
	measured := 12.0
	s := &moveStatus{
		Record: &move.Record{
			Move: "chat", State: move.Copying, Generation: 3, Trouble: "the slot is gone", Loaded: time.Unix(100, 0),
			Budgets: []move.Budget{
				{Name: "app write p95", Rule: "1.5 times the 4 ms before", Limit: 6, Unit: "ms", Measured: &measured},
				{Name: "shadow reads compared", Limit: 1000, Unit: "comparisons", Least: true},
			},
			Live: move.Live{
				At: time.Unix(99, 0), Rate: 10, Limit: 20, Remaining: 90,
				Tables: []move.TableLive{{Table: "public.m", Rows: 1000, Copied: 100}},
				Flows:  []move.FlowLive{{Stream: "chat_fwd", Lag: -1, Position: "5", Refill: 2}},
			},
		},
		Differences: []move.Difference{{Kind: move.Missing, Shown: "id=7"}}, DifferenceCount: 1,
	}
	var b strings.Builder
	s.print(&b, false)
	for _, want := range []string{
		"chat: copying, generation 3; origin is right, 0% of the reads", "none runs", "STOPPED   the slot is gone",
		"100 of about 1000 rows copied", "10 rows/s, 20 allowed, 1m30s left", "lag unknown", "2 rows to fill", "missing   id=7",
		"app write p95: at most 6 ms (1.5 times the 4 ms before): 12 ms, MISSED",
		"shadow reads compared: at least 1000 comparisons", "1 differences",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("status lacks %q:\n%s", want, b.String())
		}
	}
}
