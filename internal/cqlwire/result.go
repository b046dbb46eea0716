package cqlwire

import (
	"crypto/md5"

	"varve/internal/cqltype"
)

// Result kinds, as on the wire.
const (
	ResultVoid         = 1
	ResultRows         = 2
	ResultSetKeyspace  = 3
	ResultPrepared     = 4
	ResultSchemaChange = 5
)

// Rows metadata flags.
const (
	rowsGlobalSpec      = 0x0001
	rowsHasMorePages    = 0x0002
	rowsNoMetadata      = 0x0004
	rowsMetadataChanged = 0x0008
)

// ColumnSpec describes one column of a result or one bind variable.
type ColumnSpec struct {
	Keyspace, Table, Name string
	Type                  *cqltype.Type
}

// ResultMetadataID identifies a list of result columns, so that two lists
// differ where their names or types do.
func ResultMetadataID(columns []ColumnSpec) [16]byte {
	var buf []byte
	for i := range columns {
		c := &columns[i]
		buf = AppendString(AppendString(AppendString(buf, c.Keyspace), c.Table), c.Name)
		buf = AppendString(buf, c.Type.String())
	}
	return md5.Sum(buf)
}

// AppendVoid writes a void RESULT body.
func AppendVoid(dst []byte) []byte { return AppendInt(dst, ResultVoid) }

// AppendSetKeyspace writes a RESULT body that answers USE.
func AppendSetKeyspace(dst []byte, keyspace string) []byte {
	return AppendString(AppendInt(dst, ResultSetKeyspace), keyspace)
}

// AppendSchemaChange writes a RESULT body that answers a DDL statement.
func AppendSchemaChange(dst []byte, c *SchemaChange) []byte {
	return c.append(AppendInt(dst, ResultSchemaChange))
}

// RowsHeader is what precedes the rows of a RESULT.
type RowsHeader struct {
	Columns       []ColumnSpec
	PagingState   []byte // nil: last page
	NoMetadata    bool   // leave the columns out
	NewMetadataID []byte // version 5: the columns are not those the client named; overrides NoMetadata
	Count         int    // rows
}

// AppendRowsHeader writes a RESULT body up to its rows, whose cells ([bytes]
// each, row by row) are to be appended by the caller. It does not allocate
// where dst has room.
func AppendRowsHeader(dst []byte, v Version, h *RowsHeader) []byte {
	dst = AppendInt(dst, ResultRows)
	var flags int32
	changed := v >= V5 && h.NewMetadataID != nil
	noMetadata := h.NoMetadata && !changed
	global := sameTable(h.Columns)
	if global {
		flags |= rowsGlobalSpec
	}
	if h.PagingState != nil {
		flags |= rowsHasMorePages
	}
	if noMetadata {
		flags |= rowsNoMetadata
	}
	if changed {
		flags |= rowsMetadataChanged
	}
	dst = AppendInt(AppendInt(dst, flags), int32(len(h.Columns)))
	if h.PagingState != nil {
		dst = AppendBytes(dst, h.PagingState)
	}
	if changed {
		dst = AppendShortBytes(dst, h.NewMetadataID)
	}
	if !noMetadata {
		dst = appendColumns(dst, v, h.Columns, global)
	}
	return AppendInt(dst, int32(h.Count))
}

func sameTable(columns []ColumnSpec) bool {
	for i := 1; i < len(columns); i++ {
		if columns[i].Table != columns[0].Table || columns[i].Keyspace != columns[0].Keyspace {
			return false
		}
	}
	return len(columns) > 0
}

func appendColumns(dst []byte, v Version, columns []ColumnSpec, global bool) []byte {
	if global {
		dst = AppendString(AppendString(dst, columns[0].Keyspace), columns[0].Table)
	}
	for i := range columns {
		c := &columns[i]
		if !global {
			dst = AppendString(AppendString(dst, c.Keyspace), c.Table)
		}
		dst = AppendType(AppendString(dst, c.Name), v, c.Type)
	}
	return dst
}

// Prepared is the RESULT that answers PREPARE.
type Prepared struct {
	ID               []byte
	ResultMetadataID []byte // version 5
	PartitionKey     []int  // version 4: indexes of Variables that make up the partition key
	Variables        []ColumnSpec
	Columns          []ColumnSpec // of the result; none for statements without rows
}

// Append writes the RESULT body.
func (m *Prepared) Append(dst []byte, v Version) []byte {
	dst = AppendShortBytes(AppendInt(dst, ResultPrepared), m.ID)
	if v >= V5 {
		dst = AppendShortBytes(dst, m.ResultMetadataID)
	}
	var flags int32
	global := sameTable(m.Variables)
	if global {
		flags |= rowsGlobalSpec
	}
	dst = AppendInt(AppendInt(dst, flags), int32(len(m.Variables)))
	if v >= V4 {
		dst = AppendInt(dst, int32(len(m.PartitionKey)))
		for _, i := range m.PartitionKey {
			dst = AppendShort(dst, i)
		}
	}
	dst = appendColumns(dst, v, m.Variables, global)
	if len(m.Columns) == 0 {
		return AppendInt(AppendInt(dst, rowsNoMetadata), 0)
	}
	flags = 0
	global = sameTable(m.Columns)
	if global {
		flags |= rowsGlobalSpec
	}
	dst = AppendInt(AppendInt(dst, flags), int32(len(m.Columns)))
	return appendColumns(dst, v, m.Columns, global)
}

// Rows is a decoded RESULT of rows. Byte slices alias the body.
type Rows struct {
	Columns       []ColumnSpec // nil where the server left them out
	ColumnCount   int
	PagingState   []byte
	NewMetadataID []byte
	Count         int
	Data          []byte // the cells
}

// Row splits the next row's cells off data, appending them to dst; null is nil.
func (m *Rows) Row(dst [][]byte, data []byte) (cells [][]byte, rest []byte, err error) {
	r := NewReader(data)
	for range m.ColumnCount {
		dst = append(dst, r.Bytes())
		if r.err != nil {
			return nil, nil, r.err
		}
	}
	return dst, r.buf, nil
}

// Result is a decoded RESULT. Which of the parts is set depends on Kind.
type Result struct {
	Kind     int
	Rows     Rows
	Keyspace string
	Prepared Prepared
	Schema   SchemaChange
}

// Decode reads a RESULT body.
func (m *Result) Decode(v Version, body []byte) error {
	r := NewReader(body)
	*m = Result{Kind: int(r.Int())}
	if r.err != nil {
		return r.err
	}
	switch m.Kind {
	case ResultVoid:
	case ResultRows:
		m.Rows.read(&r, v)
	case ResultSetKeyspace:
		m.Keyspace = r.String()
	case ResultPrepared:
		m.Prepared.read(&r, v)
	case ResultSchemaChange:
		m.Schema.read(&r)
	default:
		r.fail(protocolErrorf("Unknown result kind %d", m.Kind))
	}
	return r.Err()
}

// minColumn is a column's least size in bytes: an empty name and a type.
const minColumn = 2 + 2

func (m *Rows) read(r *Reader, v Version) {
	flags := r.Int()
	n := int(r.Int())
	m.ColumnCount = n
	if flags&rowsHasMorePages != 0 {
		m.PagingState = r.Bytes()
	}
	if v >= V5 && flags&rowsMetadataChanged != 0 {
		m.NewMetadataID = r.ShortBytes()
	}
	if flags&rowsNoMetadata == 0 {
		m.Columns = r.columns(n, flags&rowsGlobalSpec != 0)
	}
	m.Count = int(r.Int())
	if r.err == nil && (n < 0 || m.Count < 0 || (n > 0 && m.Count > len(r.buf)/4/n)) {
		r.fail(errShort)
		return
	}
	m.Data = r.buf
}

func (r *Reader) columns(n int, global bool) []ColumnSpec {
	var ks, table string
	if global {
		ks, table = r.String(), r.String()
	}
	n = r.count(n, minColumn)
	columns := make([]ColumnSpec, 0, n)
	for range n {
		c := ColumnSpec{Keyspace: ks, Table: table}
		if !global {
			c.Keyspace, c.Table = r.String(), r.String()
		}
		c.Name = r.String()
		c.Type = r.Type()
		if r.err != nil {
			return nil
		}
		columns = append(columns, c)
	}
	return columns
}

func (m *Prepared) read(r *Reader, v Version) {
	m.ID = r.ShortBytes()
	if v >= V5 {
		m.ResultMetadataID = r.ShortBytes()
	}
	flags := r.Int()
	n := int(r.Int())
	if v >= V4 {
		for range r.count(int(r.Int()), 2) {
			m.PartitionKey = append(m.PartitionKey, r.Short())
		}
	}
	m.Variables = r.columns(n, flags&rowsGlobalSpec != 0)
	flags = r.Int()
	n = int(r.Int())
	if flags&rowsHasMorePages != 0 {
		r.Bytes()
	}
	if flags&rowsNoMetadata == 0 {
		m.Columns = r.columns(n, flags&rowsGlobalSpec != 0)
	}
}

// Extras are what may precede a response's message (specification section 4).
type Extras struct {
	TraceID  *[16]byte
	Warnings []string
	Payload  map[string][]byte
}

// Flags returns the header flags that announce the extras to a client of v;
// versions before 4 know of neither warnings nor payloads.
func (x *Extras) Flags(v Version) (f Flags) {
	if x.TraceID != nil {
		f |= FlagTracing
	}
	if v >= V4 && len(x.Warnings) > 0 {
		f |= FlagWarning
	}
	if v >= V4 && len(x.Payload) > 0 {
		f |= FlagPayload
	}
	return f
}

// Append writes those of the extras that f announces.
func (x *Extras) Append(dst []byte, f Flags) []byte {
	if f&FlagTracing != 0 {
		dst = append(dst, x.TraceID[:]...)
	}
	if f&FlagWarning != 0 {
		dst = AppendStringList(dst, x.Warnings)
	}
	if f&FlagPayload != 0 {
		dst = AppendBytesMap(dst, x.Payload)
	}
	return dst
}

// Decode reads the extras of a response with header flags f and returns the message.
func (x *Extras) Decode(f Flags, body []byte) (message []byte, err error) {
	r := NewReader(body)
	*x = Extras{}
	if f&FlagTracing != 0 {
		id := r.UUID()
		x.TraceID = &id
	}
	if f&FlagWarning != 0 {
		x.Warnings = r.StringList()
	}
	if f&FlagPayload != 0 {
		x.Payload = r.BytesMap()
	}
	return r.buf, r.Err()
}

// CutPayload returns a request's message behind its custom payload, and what
// the payload has under key, aliasing the body; nil when it has nothing.
func CutPayload(body []byte, key string) (value, message []byte, err error) {
	r := NewReader(body)
	for range r.count(r.Short(), 6) {
		k, v := r.StringBytes(), r.Bytes()
		if r.err != nil {
			return nil, nil, r.err
		}
		if string(k) == key {
			value = v
		}
	}
	return value, r.buf, r.Err()
}

// SplitFrame returns the first whole frame of b (header and body) and what
// follows; ok is false when b holds less than one.
func SplitFrame(b []byte) (h Header, body, rest []byte, ok bool) {
	if len(b) < HeaderSize {
		return h, nil, b, false
	}
	h = DecodeHeader(b)
	if uint64(len(b)-HeaderSize) < uint64(h.Length) {
		return h, nil, b, false
	}
	end := HeaderSize + int(h.Length)
	return h, b[HeaderSize:end:end], b[end:], true
}
