package shell

// maxHistory is how many lines are remembered.
const maxHistory = 1000

// History remembers the lines typed, for a term.Terminal; not empty ones, and
// no answers to the shell's own questions.
type History struct {
	shell *Shell
	lines []string
}

// History returns a new history for lines typed into the shell.
func (s *Shell) History() *History { return &History{shell: s} }

// Add remembers a line.
func (h *History) Add(line string) {
	if line == "" || h.shell.answering || (len(h.lines) > 0 && h.lines[len(h.lines)-1] == line) {
		return
	}
	if len(h.lines) == maxHistory {
		h.lines = append(h.lines[:0], h.lines[1:]...)
	}
	h.lines = append(h.lines, line)
}

// Len is the number of lines remembered.
func (h *History) Len() int { return len(h.lines) }

// At returns a line, the newest for 0.
func (h *History) At(i int) string { return h.lines[len(h.lines)-1-i] }
