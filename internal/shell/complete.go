package shell

import (
	"context"
	"sort"
	"strings"
	"time"

	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/upstream"
)

// completeTime bounds the look for names.
const completeTime = 2 * time.Second

var firstWords = strings.Fields("ALTER BEGIN CONSISTENCY CREATE DELETE DESCRIBE DROP EXIT EXPAND GRANT HELP INSERT LIST " +
	"PAGING QUIT REVOKE SELECT SERIAL SHOW SOURCE TRACING TRUNCATE UPDATE USE")

var laterWords = strings.Fields("ALLOW AND APPLY AS ASC BATCH BY CLUSTERING CONTAINS COUNTER DESC DISTINCT EXISTS " +
	"FILTERING FROM GROUP IF IN INDEX INTO JSON KEY KEYSPACE KEYSPACES LIMIT LOGGED NOT NULL ON ORDER PARTITION PER " +
	"PRIMARY REPLICATION ROLE SET STATIC TABLE TABLES TIMESTAMP TOKEN TTL TYPE UNLOGGED USING VALUES WHERE WITH WRITETIME")

// nextWords are what may follow a word that leaves few choices.
var nextWords = map[string][]string{
	"INSERT": {"INTO"}, "BEGIN": {"BATCH", "COUNTER", "UNLOGGED"}, "SHOW": {"HOST", "SESSION", "VERSION"}, "SERIAL": {"CONSISTENCY"},
	"TRACING": {"OFF", "ON"}, "PAGING": {"OFF", "ON"}, "EXPAND": {"OFF", "ON"}, "ALLOW": {"FILTERING"},
	"CREATE":      {"INDEX", "KEYSPACE", "ROLE", "TABLE", "TYPE"},
	"DROP":        {"INDEX", "KEYSPACE", "ROLE", "TABLE", "TYPE"},
	"ALTER":       {"KEYSPACE", "ROLE", "TABLE", "TYPE"},
	"CONSISTENCY": strings.Fields("ALL ANY EACH_QUORUM LOCAL_ONE LOCAL_QUORUM LOCAL_SERIAL ONE QUORUM SERIAL THREE TWO"),
	"DESCRIBE":    strings.Fields("CLUSTER FULL INDEX KEYSPACE KEYSPACES SCHEMA TABLE TABLES TYPE TYPES"),
}

// names finds names of the schema: keyspaces where ks is "", tables where
// table is "", else columns.
type names func(ks, table string) []string

// Complete is a term.Terminal's AutoCompleteCallback. Tab extends the word at
// the cursor as far as it is certain, or lists what it may become.
func (s *Shell) Complete(line string, pos int, key rune) (string, int, bool) {
	if key != '\t' {
		return "", 0, false
	}
	word, choices := completions(s.pending.String()+line[:pos], s.keyspace, s.lookUp)
	if len(choices) == 0 {
		return line, pos, true
	}
	grown := commonPrefix(choices)
	if len(choices) == 1 && !strings.HasSuffix(grown, ".") {
		grown += " "
	}
	if len(choices) > 1 && len(grown) <= len(word) {
		s.printf("%s\n", strings.Join(choices, "  "))
		return line, pos, true
	}
	at := pos - len(word)
	return line[:at] + grown + line[pos:], at + len(grown), true
}

// completions returns the word at the end of text and what it may become.
func completions(text, keyspace string, find names) (word string, choices []string) {
	if statements, rest := split(text); len(statements) > 0 {
		text = rest
	}
	if strings.Count(text, "'")%2 == 1 {
		return "", nil // in a string
	}
	start := len(text)
	for start > 0 && isNameByte(text[start-1]) {
		start--
	}
	word = text[start:]
	before := nameWords(text[:start])
	last := ""
	if len(before) > 0 {
		last = strings.ToUpper(before[len(before)-1])
	}
	switch {
	case last == "":
		choices = keywords(word, firstWords)
	case last == "USE" || last == "KEYSPACE":
		choices = quoted("", find("", ""))
	case last == "FROM" || last == "INTO" || last == "UPDATE" || last == "TABLE" || last == "TRUNCATE":
		choices = tableNames(word, keyspace, find)
	case nextWords[last] != nil:
		choices = keywords(word, nextWords[last])
	default:
		choices = append(columnNames(before, keyspace, find), keywords(word, laterWords)...)
	}
	return word, matching(word, choices)
}

func tableNames(word, keyspace string, find names) []string {
	if ks, _, ok := strings.Cut(word, "."); ok {
		return quoted(ks+".", find(unquoted(ks), ""))
	}
	choices := quoted("", find("", ""))
	for i := range choices {
		choices[i] += "."
	}
	if keyspace != "" {
		choices = append(choices, quoted("", find(keyspace, ""))...)
	}
	return choices
}

// columnNames are those of the table that the statement names.
func columnNames(before []string, keyspace string, find names) []string {
	for i, w := range before[:len(before)-1] {
		switch strings.ToUpper(w) {
		case "FROM", "INTO", "UPDATE", "TABLE":
			table := before[i+1]
			if ks, name, ok := strings.Cut(table, "."); ok {
				keyspace, table = unquoted(ks), name
			}
			if keyspace == "" {
				return nil
			}
			return quoted("", find(keyspace, unquoted(table)))
		}
	}
	return nil
}

func isNameByte(c byte) bool {
	return c == '_' || c == '.' || c == '"' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

func nameWords(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r >= 0x80 || !isNameByte(byte(r)) })
}

// unquoted is the name that a word of CQL stands for.
func unquoted(word string) string {
	if n := len(word); n >= 2 && word[0] == '"' && word[n-1] == '"' {
		return strings.ReplaceAll(word[1:n-1], `""`, `"`)
	}
	return strings.ToLower(word)
}

// keywords are spelled as the word is: small where it begins small.
func keywords(word string, list []string) []string {
	out := append([]string(nil), list...)
	if word != "" && word[0] >= 'a' && word[0] <= 'z' {
		for i := range out {
			out[i] = strings.ToLower(out[i])
		}
	}
	return out
}

func quoted(prefix string, list []string) []string {
	out := make([]string, len(list))
	for i, n := range list {
		out[i] = prefix + cqltype.MaybeQuote(n)
	}
	return out
}

func matching(word string, list []string) []string {
	var out []string
	for _, c := range list {
		if len(c) >= len(word) && strings.EqualFold(c[:len(word)], word) {
			out = append(out, c)
		}
	}
	sort.Strings(out)
	return out
}

func commonPrefix(list []string) string {
	p := list[0]
	for _, s := range list[1:] {
		for !strings.HasPrefix(s, p) {
			p = p[:len(p)-1]
		}
	}
	return p
}

// lookUp asks the server for names, of virtual keyspaces too. Without an
// answer there is nothing to complete.
func (s *Shell) lookUp(ks, table string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), completeTime)
	defer cancel()
	what, where := "keyspace_name", ".keyspaces"
	p := upstream.Params{Consistency: cqlwire.One}
	if ks != "" {
		what, where = "table_name", ".tables WHERE keyspace_name = ?"
		p.Values = append(p.Values, cqlwire.Value{Bytes: []byte(ks)})
	}
	if table != "" {
		what, where = "column_name", ".columns WHERE keyspace_name = ? AND table_name = ?"
		p.Values = append(p.Values, cqlwire.Value{Bytes: []byte(table)})
	}
	var out []string
	for _, schema := range []string{"system_schema", "system_virtual_schema"} {
		res, err := s.Conn.Query(ctx, "SELECT "+what+" FROM "+schema+where, p)
		if err != nil {
			continue // an older server has no virtual ones
		}
		var cells [][]byte
		data := res.Rows.Data
		for range res.Rows.Count {
			if cells, data, err = res.Rows.Row(cells[:0], data); err != nil {
				return out
			}
			out = append(out, string(cells[0]))
		}
	}
	return out
}
