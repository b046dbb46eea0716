package cqlwire

// BatchType is a BATCH's kind.
type BatchType uint8

// The batch types.
const (
	BatchLogged   BatchType = 0
	BatchUnlogged BatchType = 1
	BatchCounter  BatchType = 2
)

// BatchStatement is one statement of a BATCH: text, or a prepared one's id.
type BatchStatement struct {
	Text   []byte
	ID     []byte // nil: Text
	Values []Value
}

// Batch is the BATCH request. Byte slices alias the body once decoded. Values
// cannot be named in it: the flag that says so follows them (CASSANDRA-10246).
type Batch struct {
	Type       BatchType
	Statements []BatchStatement
	Params     QueryParams

	values []Value // backs Statements[].Values
}

// Append writes the body.
func (m *Batch) Append(dst []byte, v Version) []byte {
	dst = AppendShort(append(dst, byte(m.Type)), len(m.Statements))
	for _, s := range m.Statements {
		if s.ID != nil {
			dst = AppendShortBytes(append(dst, 1), s.ID)
		} else {
			dst = append(AppendInt(append(dst, 0), int32(len(s.Text))), s.Text...)
		}
		dst = AppendValues(dst, s.Values)
	}
	return m.Params.append(dst, v)
}

// Decode reads the body, reusing m's slices.
func (m *Batch) Decode(v Version, body []byte) error {
	r := NewReader(body)
	m.Type = BatchType(r.Byte())
	n := r.count(r.Short(), 1) // each has at least its kind
	m.Statements, m.values = m.Statements[:0], m.values[:0]
	for range n {
		m.Statements = append(m.Statements, m.readStatement(&r, v))
		if r.err != nil {
			return r.err
		}
	}
	m.Params.read(&r, v)
	if r.err == nil && m.Type > BatchCounter {
		r.fail(protocolErrorf("Invalid BATCH message type %d", m.Type))
	}
	return r.Err()
}

func (m *Batch) readStatement(r *Reader, v Version) (s BatchStatement) {
	switch kind := r.Byte(); {
	case r.err != nil:
		return s
	case kind == 0:
		s.Text = r.LongStringBytes()
	case kind == 1:
		s.ID = r.ShortBytes()
		if s.ID == nil && r.err == nil {
			s.ID = []byte{}
		}
	default:
		r.fail(protocolErrorf("Invalid query kind in BATCH messages. Must be 0 or 1 but got %d", kind))
		return s
	}
	start := len(m.values)
	m.values = r.Values(m.values, v)
	s.Values = m.values[start:len(m.values):len(m.values)]
	return s
}
