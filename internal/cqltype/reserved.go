package cqltype

import "strings"

// reservedWords are the words that cannot be identifiers unless quoted.
var reservedWords = func() map[string]struct{} {
	const words = `add allow alter and apply asc authorize batch begin by columnfamily create delete desc describe
		drop entries execute from full grant if in index infinity insert into is keyspace limit materialized modify
		nan norecursive not null of on or order primary rename revoke schema select set table to token truncate
		unlogged update use using view where with`
	m := make(map[string]struct{})
	for _, w := range strings.Fields(words) {
		m[w] = struct{}{}
	}
	return m
}()

// IsReservedWord reports whether word, in any case, is reserved in CQL and so
// cannot be an identifier without quotes.
func IsReservedWord(word string) bool {
	_, ok := reservedWords[strings.ToLower(word)]
	return ok
}

// MaybeQuote returns a CQL identifier, double-quoted where it must be
// (reserved word, or not [a-z][a-z0-9_]*).
func MaybeQuote(name string) string {
	if plainIdentifier(name) && !IsReservedWord(name) {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

func plainIdentifier(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return name != ""
}
