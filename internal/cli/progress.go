package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// progress shows how far a long command is: one line rewritten on a terminal,
// a line every ten seconds elsewhere.
type progress struct {
	w        io.Writer
	terminal bool
	unit     string
	start    time.Time
	last     time.Time
	width    int

	count, done int64 // where the work began
}

func newProgress(unit string) *progress {
	return &progress{
		w: os.Stderr, terminal: term.IsTerminal(int(os.Stderr.Fd())), unit: unit, start: time.Now(),
	}
}

// resumed tells that so much had been done before: the rate and the time that
// is left are those of this run.
func (p *progress) resumed(count, done int64) { p.count, p.done = count, done }

// show takes a count (of units) and how far the work is (done of total; total 0: not known).
func (p *progress) show(count, done, total int64) {
	now, every := time.Now(), 10*time.Second
	if p.terminal {
		every = 200 * time.Millisecond
	}
	if now.Sub(p.last) < every || (p.last.IsZero() && now.Sub(p.start) < every) {
		return
	}
	p.last = now
	p.line(count, done, total, "")
}

// finish prints the last line.
func (p *progress) finish(count int64) {
	p.line(count, 0, 0, "done")
	if p.terminal {
		fmt.Fprintln(p.w)
	}
}

func (p *progress) line(count, done, total int64, note string) {
	text := p.text(count, done, total, time.Since(p.start))
	if note != "" {
		text += ", " + note + " in " + time.Since(p.start).Round(10*time.Millisecond).String()
	}
	if !p.terminal {
		fmt.Fprintln(p.w, text)
		return
	}
	fmt.Fprintf(p.w, "\r%-*s", p.width, text)
	p.width = len(text)
}

func (p *progress) text(count, done, total int64, took time.Duration) string {
	text := fmt.Sprintf("%d %s, %.0f/s", count, p.unit, float64(count-p.count)/max(took.Seconds(), 1e-3))
	if total > 0 && done > p.done {
		left := time.Duration(float64(took) * float64(total-done) / float64(done-p.done))
		text += fmt.Sprintf(", %d%%, %s left", done*100/total, left.Round(time.Second))
	}
	return text
}
