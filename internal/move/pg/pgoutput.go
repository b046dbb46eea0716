package pg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// The messages of pgoutput, protocol version 1, as PostgreSQL's documentation
// ("Logical Replication Message Formats") lays them out. Everything points
// into the message's bytes.

var errCut = errors.New("a message of the stream is cut off")

// reader takes fields off a message; after a missing byte all fields are zero
// and err is set.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b) {
		r.err = errCut
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) u8() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) text() string {
	for i, c := range r.b {
		if c == 0 {
			s := string(r.b[:i])
			r.b = r.b[i+1:]
			return s
		}
	}
	r.err = errCut
	return ""
}

// time reads microseconds since 2000.
func (r *reader) time() time.Time {
	return time.UnixMicro(int64(r.u64()) + epoch2000).UTC()
}

const epoch2000 = 946684800_000000

type relation struct {
	id           uint32
	schema, name string
	identity     byte // d: key, n: nothing, f: full, i: index
	columns      []relationColumn
}

type relationColumn struct {
	key      bool
	name     string
	typ      uint32
	modifier int32
}

func readRelation(b []byte) (*relation, error) {
	r := reader{b: b}
	rel := &relation{id: r.u32(), schema: r.text(), name: r.text(), identity: r.u8()}
	if rel.schema == "" {
		rel.schema = "pg_catalog" // pgoutput leaves its name out
	}
	n := int(r.u16())
	if r.err != nil || n*10 > len(r.b) {
		return nil, errCut
	}
	for range n {
		rel.columns = append(rel.columns, relationColumn{
			key: r.u8()&1 != 0, name: r.text(), typ: r.u32(), modifier: int32(r.u32()),
		})
	}
	if r.err != nil {
		return nil, r.err
	}
	return rel, nil
}

// A tuple's values: nil is NULL, and toasted marks a value left as it was.
type tuple struct {
	values  [][]byte
	toasted []bool
}

// read takes a tuple of the relation.
func (t *tuple) read(r *reader, rel *relation) error {
	n := int(r.u16())
	if r.err != nil {
		return r.err
	}
	if n != len(rel.columns) {
		return fmt.Errorf("a row of %s.%s has %d columns and its table %d", rel.schema, rel.name, n, len(rel.columns))
	}
	t.values, t.toasted = t.values[:0], t.toasted[:0]
	for i := range n {
		var v []byte
		toasted := false
		switch kind := r.u8(); kind {
		case 'n':
		case 'u':
			toasted = true
		case 'b':
			if v = r.take(int(int32(r.u32()))); v == nil {
				v = []byte{}
			}
		case 't':
			return fmt.Errorf("column %s of %s.%s came as text: its type has no binary form", rel.columns[i].name, rel.schema, rel.name)
		default:
			if r.err == nil {
				return fmt.Errorf("a value of %s.%s is of kind %q", rel.schema, rel.name, kind)
			}
		}
		if r.err != nil {
			return r.err
		}
		t.values, t.toasted = append(t.values, v), append(t.toasted, toasted)
	}
	return nil
}

// logicalMessage is what pg_logical_emit_message wrote.
type logicalMessage struct {
	transactional bool
	lsn           uint64
	prefix        string
	content       []byte
}

func readMessage(b []byte) (logicalMessage, error) {
	r := reader{b: b}
	m := logicalMessage{transactional: r.u8()&1 != 0, lsn: r.u64(), prefix: r.text()}
	m.content = r.take(int(int32(r.u32())))
	return m, r.err
}
