package cql

import "strconv"

func itoa(n int) string { return strconv.Itoa(n) }

// nodes hands out the commonest nodes from small chunks, one allocation for
// several. A chunk is never grown, so that pointers into it stay.
type nodes struct {
	literals []Literal
	marks    []Marker
	columns  []Column
	names    []string
	chunk    int
}

const (
	firstChunk = 4
	maxChunk   = 64
)

// room is the size of the next chunk: chunks double as statements prove long.
func (n *nodes) room() int {
	if n.chunk = min(n.chunk*2, maxChunk); n.chunk == 0 {
		n.chunk = firstChunk
	}
	return n.chunk
}

func (n *nodes) literal() *Literal {
	if len(n.literals) == cap(n.literals) {
		n.literals = make([]Literal, 0, n.room())
	}
	n.literals = n.literals[:len(n.literals)+1]
	return &n.literals[len(n.literals)-1]
}

func (n *nodes) marker() *Marker {
	if len(n.marks) == cap(n.marks) {
		n.marks = make([]Marker, 0, n.room())
	}
	n.marks = n.marks[:len(n.marks)+1]
	return &n.marks[len(n.marks)-1]
}

func (n *nodes) column(name string) *Column {
	if len(n.columns) == cap(n.columns) {
		n.columns = make([]Column, 0, n.room())
	}
	n.columns = append(n.columns, Column{name})
	return &n.columns[len(n.columns)-1]
}

// one returns a slice of one name, of capacity one.
func (n *nodes) one(name string) []string {
	if len(n.names) == cap(n.names) {
		n.names = make([]string, 0, n.room())
	}
	n.names = append(n.names, name)
	i := len(n.names)
	return n.names[i-1 : i : i]
}
