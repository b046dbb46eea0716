package cqlwire

import "math"

// Query flags (specification section 4.1.4).
const (
	queryValues       = 0x01
	querySkipMetadata = 0x02
	queryPageSize     = 0x04
	queryPagingState  = 0x08
	querySerial       = 0x10
	queryTimestamp    = 0x20
	queryNames        = 0x40
	queryKeyspace     = 0x80
	queryNowInSeconds = 0x100
	firstV5QueryFlag  = queryKeyspace
	prepareKeyspace   = 0x01
	minValidTimestamp = math.MinInt64 + 1
)

// Value is a bound value. Unset differs from null (nil Bytes).
type Value struct {
	Bytes []byte
	Unset bool
}

// QueryParams are the parameters of QUERY, EXECUTE and BATCH.
type QueryParams struct {
	Consistency       Consistency
	SerialConsistency Consistency // 0: not given, which means SERIAL
	Values            []Value
	Names             []string // parallel to Values, or nil
	SkipMetadata      bool
	PageSize          int32 // 0: not given
	PagingState       []byte
	HasTimestamp      bool
	Timestamp         int64 // microseconds
	Keyspace          string
	HasNow            bool
	NowInSeconds      int32
}

func (p *QueryParams) flags(v Version) uint32 {
	var f uint32
	set := func(on bool, bit uint32) {
		if on {
			f |= bit
		}
	}
	set(len(p.Values) > 0, queryValues)
	set(p.SkipMetadata, querySkipMetadata)
	set(p.PageSize > 0, queryPageSize)
	set(p.PagingState != nil, queryPagingState)
	set(p.SerialConsistency != 0, querySerial)
	set(p.HasTimestamp, queryTimestamp)
	set(len(p.Names) > 0, queryNames)
	if v >= V5 {
		set(p.Keyspace != "", queryKeyspace)
		set(p.HasNow, queryNowInSeconds)
	}
	return f
}

func appendFlags(dst []byte, v Version, f uint32) []byte {
	if v >= V5 {
		return AppendInt(dst, int32(f))
	}
	return append(dst, byte(f))
}

func (r *Reader) flags(v Version) uint32 {
	if v >= V5 {
		return uint32(r.Int())
	}
	return uint32(r.Byte())
}

// append writes the parameters. Keyspace and NowInSeconds exist since version 5.
func (p *QueryParams) append(dst []byte, v Version) []byte {
	f := p.flags(v)
	dst = appendFlags(AppendConsistency(dst, p.Consistency), v, f)
	if f&queryValues != 0 {
		dst = AppendShort(dst, len(p.Values))
		for i, val := range p.Values {
			if f&queryNames != 0 {
				dst = AppendString(dst, p.Names[i])
			}
			dst = AppendValue(dst, val)
		}
	}
	return p.appendOptions(dst, f)
}

func (p *QueryParams) appendOptions(dst []byte, f uint32) []byte {
	if f&queryPageSize != 0 {
		dst = AppendInt(dst, p.PageSize)
	}
	if f&queryPagingState != 0 {
		dst = AppendBytes(dst, p.PagingState)
	}
	if f&querySerial != 0 {
		dst = AppendConsistency(dst, p.SerialConsistency)
	}
	if f&queryTimestamp != 0 {
		dst = AppendLong(dst, p.Timestamp)
	}
	if f&queryKeyspace != 0 {
		dst = AppendString(dst, p.Keyspace)
	}
	if f&queryNowInSeconds != 0 {
		dst = AppendInt(dst, p.NowInSeconds)
	}
	return dst
}

// read decodes the parameters in place, reusing p.Values; byte slices alias the body.
func (p *QueryParams) read(r *Reader, v Version) {
	values := p.Values[:0]
	*p = QueryParams{Consistency: r.Consistency(), Values: values}
	f := r.flags(v)
	if v < V5 {
		f &= firstV5QueryFlag - 1
	}
	if f&queryValues != 0 {
		if f&queryNames != 0 {
			p.readNamed(r, v)
		} else {
			p.Values = r.Values(p.Values, v)
		}
	}
	p.SkipMetadata = f&querySkipMetadata != 0
	if f&^(queryValues|querySkipMetadata) != 0 {
		p.readOptions(r, f)
	}
}

func (p *QueryParams) readNamed(r *Reader, v Version) {
	n := r.count(r.Short(), 6)
	p.Names = make([]string, 0, n)
	for range n {
		p.Names = append(p.Names, r.String())
		p.Values = append(p.Values, r.Value(v))
		if r.err != nil {
			return
		}
	}
}

func (p *QueryParams) readOptions(r *Reader, f uint32) {
	if f&queryPageSize != 0 {
		p.PageSize = r.Int()
	}
	if f&queryPagingState != 0 {
		p.PagingState = r.Bytes()
	}
	if f&querySerial != 0 {
		p.SerialConsistency = r.Consistency()
	}
	if f&queryTimestamp != 0 {
		p.HasTimestamp, p.Timestamp = true, r.Long()
		if r.err == nil && p.Timestamp < minValidTimestamp {
			r.fail(protocolErrorf("Out of bound timestamp, must be in [%d, %d] (got %d)",
				int64(minValidTimestamp), int64(math.MaxInt64), p.Timestamp))
		}
	}
	if f&queryKeyspace != 0 {
		p.Keyspace = r.String()
	}
	if f&queryNowInSeconds != 0 {
		p.HasNow, p.NowInSeconds = true, r.Int()
	}
}

// Query is the QUERY request. Text aliases the body once decoded.
type Query struct {
	Text   []byte
	Params QueryParams
}

// Append writes the body.
func (m *Query) Append(dst []byte, v Version) []byte {
	dst = append(AppendInt(dst, int32(len(m.Text))), m.Text...)
	return m.Params.append(dst, v)
}

// Decode reads the body, reusing m's slices.
func (m *Query) Decode(v Version, body []byte) error {
	r := NewReader(body)
	m.Text = r.LongStringBytes()
	m.Params.read(&r, v)
	return r.Err()
}
