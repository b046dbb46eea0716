package cli

import (
	"bytes"
	"testing"
	"time"
)

func TestProgressText(t *testing.T) {
	p := &progress{unit: "rows"}
	for _, tc := range []struct {
		count, done, total int64
		want               string
	}{
		{1000, 250, 1000, "1000 rows, 100/s, 25%, 30s left"},
		{1000, 1000, 1000, "1000 rows, 100/s, 100%, 0s left"},
		{1000, 0, 0, "1000 rows, 100/s"},
	} {
		if got := p.text(tc.count, tc.done, tc.total, 10*time.Second); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
	p.resumed(500, 500)
	if got, want := p.text(600, 600, 1000, 10*time.Second), "600 rows, 10/s, 60%, 40s left"; got != want {
		t.Errorf("resumed: got %q, want %q", got, want)
	}
}

// On a terminal one line is rewritten, and a shorter text covers a longer one.
func TestProgressOnTerminal(t *testing.T) {
	var out bytes.Buffer
	p := &progress{w: &out, terminal: true, unit: "rows", start: time.Now().Add(-time.Hour)}
	p.show(1_000_000, 1, 10)
	p.show(2, 2, 10) // too soon
	p.finish(5)
	if got, want := out.String(), "\r1000000 rows, 278/s, 10%, 9h0m0s left\r5 rows, 0/s, done in 1h0m0s          \n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
