package cqlwire

// Prepare is the PREPARE request.
type Prepare struct {
	Text     string
	Keyspace string // version 5
}

// Append writes the body.
func (m *Prepare) Append(dst []byte, v Version) []byte {
	dst = AppendLongString(dst, m.Text)
	if v < V5 {
		return dst
	}
	if m.Keyspace == "" {
		return AppendInt(dst, 0)
	}
	return AppendString(AppendInt(dst, prepareKeyspace), m.Keyspace)
}

// Decode reads the body.
func (m *Prepare) Decode(v Version, body []byte) error {
	r := NewReader(body)
	*m = Prepare{Text: r.LongString()}
	if v >= V5 && r.Int()&prepareKeyspace != 0 {
		m.Keyspace = r.String()
	}
	return r.Err()
}

// Execute is the EXECUTE request. Byte slices alias the body once decoded.
type Execute struct {
	ID               []byte
	ResultMetadataID []byte // version 5: the result columns the client knows
	Params           QueryParams
}

// Append writes the body.
func (m *Execute) Append(dst []byte, v Version) []byte {
	dst = AppendShortBytes(dst, m.ID)
	if v >= V5 {
		dst = AppendShortBytes(dst, m.ResultMetadataID)
	}
	return m.Params.append(dst, v)
}

// Decode reads the body, reusing m's slices; it does not allocate but for
// named values and a keyspace.
func (m *Execute) Decode(v Version, body []byte) error {
	r := NewReader(body)
	m.ID = r.ShortBytes()
	m.ResultMetadataID = nil
	if v >= V5 {
		m.ResultMetadataID = r.ShortBytes()
	}
	m.Params.read(&r, v)
	return r.Err()
}
