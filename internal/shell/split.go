package shell

import "strings"

// split cuts text at the semicolons that end statements, leaving alone those
// in strings, quoted names and comments, and inside BEGIN … APPLY BATCH.
// What follows the last one is rest.
func split(text string) (statements []string, rest string) {
	start, i := 0, 0
	for i < len(text) {
		switch {
		case text[i] == '\'' || text[i] == '"':
			i = past(text, i+1, text[i:i+1])
		case strings.HasPrefix(text[i:], "$$"):
			i = past(text, i+2, "$$")
		case strings.HasPrefix(text[i:], "--") || strings.HasPrefix(text[i:], "//"):
			i, start = pastComment(text, start, i, "\n")
		case strings.HasPrefix(text[i:], "/*"):
			i, start = pastComment(text, start, i, "*/")
		case text[i] == ';':
			st := strings.TrimSpace(text[start:i])
			i++
			if isOpenBatch(st) {
				continue
			}
			if st != "" {
				statements = append(statements, st)
			}
			start = i
		default:
			i++
		}
	}
	return statements, text[start:]
}

// pastComment passes over the comment at i. One before a statement is no part
// of it, once it has ended.
func pastComment(text string, start, i int, end string) (after, newStart int) {
	after = past(text, i+2, end)
	if strings.TrimSpace(text[start:i]) == "" && strings.HasSuffix(text[i+2:after], end) {
		return after, after
	}
	return after, start
}

// isOpenBatch reports a BEGIN … without its APPLY BATCH.
func isOpenBatch(st string) bool {
	words := strings.Fields(strings.ToUpper(st))
	if len(words) == 0 || words[0] != "BEGIN" {
		return false
	}
	n := len(words)
	return n < 2 || words[n-2] != "APPLY" || words[n-1] != "BATCH"
}

// past returns the position after the next end at or after i; the end of text where there is none.
func past(text string, i int, end string) int {
	if j := strings.Index(text[min(i, len(text)):], end); j >= 0 {
		return i + j + len(end)
	}
	return len(text)
}
