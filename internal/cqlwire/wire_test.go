package cqlwire

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"varve/internal/cqltype"
)

var versions = []Version{V3, V4, V5}

// message is what tests need of every message type.
type message struct {
	name   string
	encode func(v Version) []byte
	decode func(v Version, body []byte) (any, error)
	want   any
	since  Version
}

func sampleColumns() []ColumnSpec {
	udt := &cqltype.Type{
		Kind: cqltype.KindUDT, Keyspace: "chat", Name: "pair",
		FieldNames: []string{"a", "b"},
		Elems:      []*cqltype.Type{cqltype.Int, cqltype.ListOf(cqltype.Text)},
	}
	col := func(name string, t *cqltype.Type) ColumnSpec {
		return ColumnSpec{Keyspace: "chat", Table: "messages", Name: name, Type: t}
	}
	return []ColumnSpec{
		col("id", cqltype.Timeuuid),
		col("body", cqltype.Text),
		col("tags", cqltype.MapOf(cqltype.Text, cqltype.SetOf(cqltype.Inet))),
		col("pair", udt),
		col("both", cqltype.TupleOf(cqltype.Bigint, cqltype.Boolean)),
	}
}

func sampleParams(v Version) QueryParams {
	p := QueryParams{
		Consistency:       LocalQuorum,
		SerialConsistency: LocalSerial,
		Values:            []Value{{Bytes: []byte("x")}, {}, {Bytes: []byte{}}},
		SkipMetadata:      true,
		PageSize:          50,
		PagingState:       []byte{1, 2, 3},
		HasTimestamp:      true,
		Timestamp:         1700000000000000,
	}
	if v >= V4 {
		p.Values = append(p.Values, Value{Unset: true})
	}
	if v >= V5 {
		p.Keyspace, p.HasNow, p.NowInSeconds = "chat", true, 1700000000
	}
	return p
}

func sampleErrors() []*Error {
	failures := []Failure{
		{Addr: netip.MustParseAddr("127.0.0.1"), Code: 1},
		{Addr: netip.MustParseAddr("2001:db8::1"), Code: 0},
	}
	return []*Error{
		{Code: ErrServer, Message: "boom"},
		{Code: ErrUnavailable, Message: "no", Consistency: Quorum, Required: 2, Received: 1},
		{Code: ErrReadTimeout, Message: "slow", Consistency: One, Received: 0, Required: 1, DataPresent: true},
		{Code: ErrWriteTimeout, Message: "slow", Consistency: One, Received: 0, Required: 1, WriteType: "SIMPLE"},
		{Code: ErrWriteTimeout, Message: "cas", Consistency: Serial, Required: 1, WriteType: "CAS", Contentions: 7},
		{Code: ErrReadFailure, Message: "failed", Consistency: LocalOne, Required: 1, Failures: failures},
		{Code: ErrWriteFailure, Message: "failed", Consistency: LocalOne, Required: 1, Failures: failures, WriteType: "BATCH"},
		{Code: ErrFunctionFailure, Message: "f", Keyspace: "ks", Function: "fn", ArgTypes: []string{"int", "text"}},
		{Code: ErrCASUnknown, Message: "cas", Consistency: Serial, Received: 1, Required: 2},
		{Code: ErrAlreadyExists, Message: "exists", Keyspace: "ks", Table: "t"},
		{Code: ErrUnprepared, Message: "unprepared", StatementID: []byte("0123456789abcdef")},
		{Code: ErrInvalid, Message: "invalid"},
	}
}

// sampleMessages lists one or more of every message. Those that look
// different in older versions are wanted from the version they came with.
func sampleMessages(v Version) []message {
	params := sampleParams(v)
	named := QueryParams{
		Consistency: One, Values: []Value{{Bytes: []byte("v")}, {}}, Names: []string{"k", "c"},
	}
	query := Query{Text: []byte("SELECT * FROM t WHERE k = ?"), Params: params}
	queryNamed := Query{Text: []byte("SELECT 1"), Params: named}
	prepare := Prepare{Text: "SELECT 1"}
	execute := Execute{ID: []byte("0123456789abcdef"), Params: params}
	prepared := Prepared{ID: []byte("0123456789abcdef"), Variables: sampleColumns()[:2], Columns: sampleColumns()}
	rows := RowsHeader{Columns: sampleColumns()[:2], PagingState: []byte("next"), Count: 1}
	cells := AppendBytes(AppendBytes(nil, make([]byte, 16)), nil)
	wantRows := Rows{Columns: rows.Columns, ColumnCount: 2, PagingState: []byte("next"), Count: 1, Data: cells}
	if v >= V4 {
		prepared.PartitionKey = []int{1, 0}
	}
	if v >= V5 {
		prepare.Keyspace = "chat"
		execute.ResultMetadataID = []byte("fedcba9876543210")
		prepared.ResultMetadataID = []byte("fedcba9876543210")
		rows.NewMetadataID = []byte("fedcba9876543210")
		wantRows.NewMetadataID = rows.NewMetadataID
	}
	batch := Batch{Type: BatchUnlogged, Statements: []BatchStatement{
		{Text: []byte("INSERT")},
		{ID: []byte("0123456789abcdef"), Values: []Value{{Bytes: []byte("x")}, {}}},
	}, Params: QueryParams{Consistency: All, HasTimestamp: true, Timestamp: -5}}
	change := SchemaChange{Change: "CREATED", Target: "TABLE", Keyspace: "ks", Name: "t"}
	keyspaceChange := SchemaChange{Change: "DROPPED", Target: "KEYSPACE", Keyspace: "ks"}
	function := SchemaChange{Change: "DROPPED", Target: "FUNCTION", Keyspace: "ks", Name: "f", ArgTypes: []string{"int"}}
	status := Event{Type: EventStatusChange, Change: "UP", Node: netip.MustParseAddrPort("[::1]:9042")}
	schemaEvent := Event{Type: EventSchemaChange, Schema: change}
	startup := Startup{Options: map[string]string{OptCQLVersion: "3.0.0", OptCompression: "lz4"}}
	supported := Supported{Options: map[string][]string{OptCompression: {"snappy", "lz4"}, OptCQLVersion: {"3.4.7"}}}
	register := Register{Types: []EventType{EventSchemaChange, EventTopologyChange}}

	result := func(name string, enc func(v Version) []byte, want Result) message {
		return message{name: name, encode: enc, want: want, decode: func(v Version, b []byte) (any, error) {
			var m Result
			err := m.Decode(v, b)
			return m, err
		}}
	}
	list := []message{
		{
			name: "startup", want: startup, encode: func(Version) []byte { return startup.Append(nil) },
			decode: func(_ Version, b []byte) (any, error) { var m Startup; err := m.Decode(b); return m, err },
		},
		{
			name: "supported", want: supported, encode: func(Version) []byte { return supported.Append(nil) },
			decode: func(_ Version, b []byte) (any, error) { var m Supported; err := m.Decode(b); return m, err },
		},
		{
			name: "authenticate", want: Authenticate{Class: PasswordAuthenticator},
			encode: func(Version) []byte { return (&Authenticate{Class: PasswordAuthenticator}).Append(nil) },
			decode: func(_ Version, b []byte) (any, error) { var m Authenticate; err := m.Decode(b); return m, err },
		},
		{
			name: "auth token", want: AuthToken{Token: AppendPlain(nil, "u", "p")},
			encode: func(Version) []byte { return (&AuthToken{Token: AppendPlain(nil, "u", "p")}).Append(nil) },
			decode: func(_ Version, b []byte) (any, error) { var m AuthToken; err := m.Decode(b); return m, err },
		},
		{
			name: "query", want: query, encode: func(v Version) []byte { return query.Append(nil, v) },
			decode: func(v Version, b []byte) (any, error) { var m Query; err := m.Decode(v, b); return m, err },
		},
		{
			name: "query named", want: queryNamed, encode: func(v Version) []byte { return queryNamed.Append(nil, v) },
			decode: func(v Version, b []byte) (any, error) { var m Query; err := m.Decode(v, b); return m, err },
		},
		{
			name: "prepare", want: prepare, encode: func(v Version) []byte { return prepare.Append(nil, v) },
			decode: func(v Version, b []byte) (any, error) { var m Prepare; err := m.Decode(v, b); return m, err },
		},
		{
			name: "execute", want: execute, encode: func(v Version) []byte { return execute.Append(nil, v) },
			decode: func(v Version, b []byte) (any, error) { var m Execute; err := m.Decode(v, b); return m, err },
		},
		{
			name: "batch", want: batch, encode: func(v Version) []byte { return batch.Append(nil, v) },
			decode: func(v Version, b []byte) (any, error) { var m Batch; err := m.Decode(v, b); return m, err },
		},
		{
			name: "register", want: register, encode: func(Version) []byte { return register.Append(nil) },
			decode: func(_ Version, b []byte) (any, error) { var m Register; err := m.Decode(b); return m, err },
		},
		{
			name: "event status", want: status, encode: func(Version) []byte { return status.Append(nil) },
			decode: func(_ Version, b []byte) (any, error) { var m Event; err := m.Decode(b); return m, err },
		},
		{
			name: "event schema", want: schemaEvent, encode: func(Version) []byte { return schemaEvent.Append(nil) },
			decode: func(_ Version, b []byte) (any, error) { var m Event; err := m.Decode(b); return m, err },
		},
		result("void", func(Version) []byte { return AppendVoid(nil) }, Result{Kind: ResultVoid}),
		result("set keyspace", func(Version) []byte { return AppendSetKeyspace(nil, "ks") },
			Result{Kind: ResultSetKeyspace, Keyspace: "ks"}),
		result("schema change table", func(Version) []byte { return AppendSchemaChange(nil, &change) },
			Result{Kind: ResultSchemaChange, Schema: change}),
		result("schema change keyspace", func(Version) []byte { return AppendSchemaChange(nil, &keyspaceChange) },
			Result{Kind: ResultSchemaChange, Schema: keyspaceChange}),
		result("schema change function", func(Version) []byte { return AppendSchemaChange(nil, &function) },
			Result{Kind: ResultSchemaChange, Schema: function}),
		result("prepared", func(v Version) []byte { return prepared.Append(nil, v) },
			Result{Kind: ResultPrepared, Prepared: prepared}),
		result("rows", func(v Version) []byte { return append(AppendRowsHeader(nil, v, &rows), cells...) },
			Result{Kind: ResultRows, Rows: wantRows}),
	}
	for _, e := range sampleErrors() {
		list = append(list, message{
			name: "error " + e.Message, encode: func(v Version) []byte { return e.Append(nil, v) }, want: *e, since: V5,
			decode: func(v Version, b []byte) (any, error) { var m Error; err := m.Decode(v, b); return m, err },
		})
	}
	return list
}

var cmpOptions = cmp.Options{
	cmpopts.IgnoreUnexported(Batch{}),
	cmpopts.IgnoreFields(Error{}, "NumFailures"),
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
	cmp.Comparer(func(a, b *cqltype.Type) bool { return a.Equal(b) }),
}

func TestRoundTrip(t *testing.T) {
	for _, v := range versions {
		for _, m := range sampleMessages(v) {
			t.Run(v.String()+" "+m.name, func(t *testing.T) {
				got, err := m.decode(v, m.encode(v))
				if err != nil {
					t.Fatal(err)
				}
				if v < m.since {
					return // only that it can be read back
				}
				if d := cmp.Diff(m.want, got, cmpOptions); d != "" {
					t.Fatal(d)
				}
			})
		}
	}
}

// TestTruncated cuts every message at every byte: whatever is left is refused
// or understood, and never panics.
func TestTruncated(t *testing.T) {
	for _, v := range versions {
		for _, m := range sampleMessages(v) {
			body := m.encode(v)
			refused := 0
			for n := range len(body) {
				if _, err := m.decode(v, body[:n:n]); err != nil {
					refused++
				}
			}
			if refused == 0 {
				t.Errorf("%s %s: no truncation was refused", v, m.name)
			}
		}
	}
}

// TestCountsDoNotAllocate sends counts and lengths that the body cannot hold.
func TestCountsDoNotAllocate(t *testing.T) {
	huge := []byte{0x7F, 0xFF, 0xFF, 0xFF}
	bodies := map[string][]byte{
		"query text":   huge,
		"query values": append(AppendLongString(nil, "q"), 0, 1, 1, 0xFF, 0xFF, 0, 0, 0, 1, 'x'),
		"value length": append(append(AppendLongString(nil, "q"), 0, 1, 1, 0, 1), huge...),
	}
	for name, body := range bodies {
		var q Query
		before := testing.AllocsPerRun(10, func() {
			if err := q.Decode(V4, body); err == nil {
				t.Errorf("%s: accepted", name)
			}
		})
		if before > 6 || cap(q.Params.Values) > 16 {
			t.Errorf("%s: %v allocations, room for %d values", name, before, cap(q.Params.Values))
		}
	}
	var a AuthToken
	if err := a.Decode(huge); err == nil {
		t.Error("token of 2 GiB accepted")
	}
}

func TestHeaderErrors(t *testing.T) {
	for _, c := range []struct {
		h    Header
		want string
	}{
		{Header{Version: 66, Opcode: OpOptions}, "Invalid or unsupported protocol version (66); supported versions are (3/v3, 4/v4, 5/v5)"},
		{Header{Version: V4, Opcode: 32}, "Unknown opcode 32"},
		{Header{Version: V4, Opcode: OpResult}, "Wrong protocol direction (expected RESPONSE, got REQUEST) for opcode 8 (RESULT)"},
		{Header{Version: V4, Response: true, Opcode: OpOptions}, "Wrong protocol direction (expected REQUEST, got RESPONSE) for opcode 5 (OPTIONS)"},
		{Header{Version: V4, Response: true, Opcode: OpResult}, "Wrong protocol direction (expected REQUEST, got RESPONSE) for opcode 8 (RESULT)"},
		{Header{Version: V5, Opcode: OpExecute}, ""},
	} {
		got := ""
		if err := c.h.CheckRequest(); err != nil {
			got = err.Message
		}
		if got != c.want {
			t.Errorf("%+v: got %q, want %q", c.h, got, c.want)
		}
	}
}

func TestDecodePlain(t *testing.T) {
	for _, c := range []struct{ token, user, password, err string }{
		{"\x00cassandra\x00secret", "cassandra", "secret", ""},
		{"authz\x00u\x00p", "u", "p", ""},
		{"u\x00p", "u", "p", ""},
		{"", "", "", "Authentication ID must not be null"},
		{"\x00\x00p", "", "", "Authentication ID must not be null"},
		{"\x00u\x00", "", "", "Password must not be null"},
	} {
		u, p, err := DecodePlain([]byte(c.token))
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%q: got error %v, want %s", c.token, err, c.err)
			}
			continue
		}
		if err != nil || u != c.user || p != c.password {
			t.Errorf("%q: got %q %q %v", c.token, u, p, err)
		}
	}
}

func TestClipKeepsCharacters(t *testing.T) {
	long := make([]byte, 0, maxString+2)
	for len(long) < maxString-1 {
		long = append(long, 'a')
	}
	long = append(long, "é"...)
	r := NewReader(AppendString(nil, string(long)))
	if got := r.String(); r.Err() != nil || len(got) != maxString-1 {
		t.Fatalf("got %d bytes, %v", len(got), r.Err())
	}
}
