package cqlwire

import (
	"net/netip"
	"strings"
)

// EventType is a kind of event that clients register for.
type EventType string

// The event types.
const (
	EventTopologyChange EventType = "TOPOLOGY_CHANGE"
	EventStatusChange   EventType = "STATUS_CHANGE"
	EventSchemaChange   EventType = "SCHEMA_CHANGE"
)

// Register is the REGISTER request.
type Register struct {
	Types []EventType
}

// Append writes the body.
func (m *Register) Append(dst []byte) []byte {
	dst = AppendShort(dst, len(m.Types))
	for _, t := range m.Types {
		dst = AppendString(dst, string(t))
	}
	return dst
}

// Decode reads the body; names may be in lower case.
func (m *Register) Decode(body []byte) error {
	r := NewReader(body)
	m.Types = nil
	for _, name := range r.StringList() {
		t := EventType(strings.ToUpper(name))
		switch t {
		case EventTopologyChange, EventStatusChange, EventSchemaChange:
			m.Types = append(m.Types, t)
		default:
			r.fail(protocolErrorf("Invalid value '%s' for Type", name))
		}
	}
	return r.Err()
}

// SchemaChange is a schema change, in an EVENT and in a RESULT.
type SchemaChange struct {
	Change   string // CREATED, UPDATED, DROPPED
	Target   string // KEYSPACE, TABLE, TYPE, FUNCTION, AGGREGATE
	Keyspace string
	Name     string   // "" for KEYSPACE
	ArgTypes []string // FUNCTION, AGGREGATE
}

func (c *SchemaChange) append(dst []byte) []byte {
	dst = AppendString(AppendString(AppendString(dst, c.Change), c.Target), c.Keyspace)
	switch c.Target {
	case "KEYSPACE":
		return dst
	case "FUNCTION", "AGGREGATE":
		return AppendStringList(AppendString(dst, c.Name), c.ArgTypes)
	}
	return AppendString(dst, c.Name)
}

func (c *SchemaChange) read(r *Reader) {
	*c = SchemaChange{Change: r.String(), Target: r.String(), Keyspace: r.String()}
	if c.Target != "KEYSPACE" {
		c.Name = r.String()
	}
	if c.Target == "FUNCTION" || c.Target == "AGGREGATE" {
		c.ArgTypes = r.StringList()
	}
}

// Event is the EVENT message.
type Event struct {
	Type   EventType
	Schema SchemaChange   // SCHEMA_CHANGE
	Change string         // TOPOLOGY_CHANGE: NEW_NODE, REMOVED_NODE; STATUS_CHANGE: UP, DOWN
	Node   netip.AddrPort // TOPOLOGY_CHANGE, STATUS_CHANGE
}

// Append writes the body.
func (m *Event) Append(dst []byte) []byte {
	dst = AppendString(dst, string(m.Type))
	if m.Type == EventSchemaChange {
		return m.Schema.append(dst)
	}
	return AppendInet(AppendString(dst, m.Change), m.Node)
}

// Decode reads the body.
func (m *Event) Decode(body []byte) error {
	r := NewReader(body)
	*m = Event{Type: EventType(r.String())}
	if m.Type == EventSchemaChange {
		m.Schema.read(&r)
	} else {
		m.Change, m.Node = r.String(), r.Inet()
	}
	return r.Err()
}
