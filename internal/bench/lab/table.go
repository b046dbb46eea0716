package lab

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// Table is printed as Markdown with aligned columns. Its last column is a
// verdict where Verdicts is set.
type Table struct {
	Title string
	Head  []string
	rows  [][]string
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.rows = append(t.rows, cells) }

// Len is the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// WriteTo writes the table.
func (t *Table) WriteTo(w io.Writer) (int64, error) {
	widths := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	if t.Title != "" {
		fmt.Fprintf(&b, "### %s\n\n", t.Title)
	}
	line := func(row []string) {
		for i, cell := range row {
			fmt.Fprintf(&b, "| %s%s ", cell, strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)))
		}
		b.WriteString("|\n")
	}
	line(t.Head)
	for _, n := range widths {
		fmt.Fprintf(&b, "| %s ", strings.Repeat("-", n))
	}
	b.WriteString("|\n")
	for _, row := range t.rows {
		line(row)
	}
	b.WriteString("\n")
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}

// Micros writes a duration as microseconds or, from 10 ms, as milliseconds.
func Micros(d time.Duration) string {
	if d >= 10*time.Millisecond {
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.0f µs", float64(d)/1e3)
}

// MB writes bytes as megabytes.
func MB(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// Machine says what this runs on, for the head of a report.
func Machine() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	model, n := "unknown processor", 0
	for line := range strings.Lines(string(text)) {
		switch name, rest, _ := strings.Cut(line, ":"); strings.TrimSpace(name) {
		case "model name":
			model = strings.TrimSpace(rest)
		case "processor":
			n++
		}
	}
	return fmt.Sprintf("%d cores (%s)", n, model)
}

// Splice replaces what lies between "<!-- NAME:begin -->" and "<!-- NAME:end -->" in a file.
func Splice(path, name, text string) error {
	doc, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := "<!-- "+name+":begin -->", "<!-- "+name+":end -->"
	pre, rest, ok1 := strings.Cut(string(doc), begin)
	_, post, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		return fmt.Errorf("%s has no place between %s and %s", path, begin, end)
	}
	return os.WriteFile(path, []byte(pre+begin+"\n\n"+strings.TrimSpace(text)+"\n\n"+end+post), 0o644)
}
