package exec

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"varve/internal/cql"
	"varve/internal/cqlwire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func one() *Params { return &Params{Consistency: cqlwire.One} }

func boundInt(n int32) cqlwire.Value { return cqlwire.Value{Bytes: intBytes(n)} }

func boundText(s string) cqlwire.Value { return cqlwire.Value{Bytes: []byte(s)} }

// chatInsert is a prepared INSERT of the shape that chat stores have, with its values.
func chatInsert(t testing.TB, te *testEngine) (*Prepared, *Params) {
	te.exec(t, `CREATE TABLE messages (channel_id int, sent_at timestamp, message_id bigint, body text, sender text,
		PRIMARY KEY ((channel_id), sent_at, message_id)) WITH CLUSTERING ORDER BY (sent_at DESC, message_id DESC)`)
	ps := te.prepared(t, "INSERT INTO messages (channel_id, sent_at, message_id, body, sender) VALUES (?, ?, ?, ?, ?)")
	p := one()
	p.Values = []cqlwire.Value{
		boundInt(1),
		{Bytes: bigintBytes(1_767_225_600_000)},
		{Bytes: bigintBytes(1)},
		boundText(strings.Repeat("x", 80)), boundText("somebody"),
	}
	return ps, p
}

// TestInsertAllocs keeps the cost of the statement that matters most: what is
// left are the answer, the key, and what the store needs to commit.
func TestInsertAllocs(t *testing.T) {
	te := newTestEngine(t)
	ps, p := chatInsert(t, te)
	n := uint64(0)
	allocs := testing.AllocsPerRun(2000, func() {
		n++
		binary.BigEndian.PutUint64(p.Values[2].Bytes, n)
		if _, err := te.execute(ps, p); err != nil {
			t.Fatal(err)
		}
	})
	if limit := 6.0; allocs > limit {
		t.Errorf("a prepared INSERT makes %.1f allocations, more than %.0f", allocs, limit)
	}
}

func BenchmarkPreparedInsert(b *testing.B) {
	te := newTestEngine(b)
	ps, p := chatInsert(b, te)
	b.ReportAllocs()
	n := uint64(0)
	for b.Loop() {
		n++
		binary.BigEndian.PutUint64(p.Values[2].Bytes, n)
		if _, err := te.execute(ps, p); err != nil {
			b.Fatal(err)
		}
	}
}

func wantCode(t *testing.T, err error, code cqlwire.ErrorCode) {
	t.Helper()
	var we *cqlwire.Error
	if !errors.As(err, &we) || we.Code != code {
		t.Fatalf("got %v, want code %#x", err, code)
	}
}

func TestPrepareOnce(t *testing.T) {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE t (k int PRIMARY KEY, v int)")
	a, b := te.prepared(t, "SELECT * FROM t WHERE k = ?"), te.prepared(t, "SELECT * FROM t WHERE k = ?")
	if a != b {
		t.Error("the same text in the same keyspace was prepared twice")
	}
	// The id depends on the keyspace only where the meaning does.
	other := &Session{ProtocolVersion: 5, Keyspace: "system"}
	full, err := te.Prepare(context.Background(), other, "SELECT * FROM ks.t", "")
	if err != nil {
		t.Fatal(err)
	}
	if again := te.prepared(t, "SELECT * FROM ks.t"); again != full {
		t.Error("a statement with its keyspace in it was prepared twice")
	}
	if _, err := te.Prepare(context.Background(), other, "SELECT * FROM t WHERE k = ?", ""); err == nil {
		t.Error("a statement was found under another keyspace")
	}
	got, err := te.Lookup(context.Background(), te.session, a.ID)
	if err != nil || got != a {
		t.Errorf("Lookup = %v, %v", got, err)
	}
	_, err = te.Lookup(context.Background(), te.session, make([]byte, 16))
	wantCode(t, err, cqlwire.ErrUnprepared)
	_, err = te.Lookup(context.Background(), te.session, []byte("short"))
	wantCode(t, err, cqlwire.ErrUnprepared)
}

func TestPreparedEviction(t *testing.T) {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE t (k int PRIMARY KEY, v int)")
	te.Limits().MaxPrepared.Store(10)
	kept := te.prepared(t, "SELECT * FROM t WHERE k = 0")
	var last *Prepared
	for i := range 100 {
		last = te.prepared(t, fmt.Sprintf("SELECT * FROM t WHERE k = %d", i))
		if _, err := te.Lookup(context.Background(), te.session, kept.ID); err != nil {
			t.Fatalf("a statement in use was evicted after %d others", i)
		}
		if n := te.cache.count(); n > 10 {
			t.Fatalf("%d statements are kept", n)
		}
	}
	if _, err := te.Lookup(context.Background(), te.session, last.ID); err != nil {
		t.Error("the newest statement was evicted")
	}
	te.Limits().MaxPreparedBytes.Store(3 * last.bytes)
	te.prepared(t, "SELECT v FROM t")
	if te.cache.bytes > 3*last.bytes {
		t.Errorf("%d bytes are kept", te.cache.bytes)
	}
	te.Limits().MaxPreparedBytes.Store(100)
	_, err := te.prepare("SELECT k FROM t")
	wantCode(t, err, cqlwire.ErrInvalid)
}

func TestPreparedAfterSchemaChange(t *testing.T) {
	te := newTestEngine(t)
	ctx := context.Background()
	te.exec(t, "CREATE TABLE t (k int PRIMARY KEY, v int)")
	te.exec(t, "CREATE TABLE u (k int PRIMARY KEY, v int)")
	sel := te.prepared(t, "SELECT * FROM t")
	ins := te.prepared(t, "INSERT INTO t (k, v) VALUES (?, ?)")
	te.exec(t, "ALTER TABLE u ADD w int")
	if got, err := te.Lookup(ctx, te.session, sel.ID); err != nil || got != sel {
		t.Fatalf("a change of another table: %v, %v", got, err)
	}
	te.exec(t, "ALTER TABLE t ADD w int")
	for range 2 {
		_, err := te.Lookup(ctx, te.session, sel.ID)
		wantCode(t, err, cqlwire.ErrUnprepared)
	}
	if got, err := te.Lookup(ctx, te.session, ins.ID); err != nil || got == ins || got.ColumnsChanged {
		t.Errorf("the INSERT was not planned anew: %v, %v", got, err)
	}
	again := te.prepared(t, "SELECT * FROM t")
	if len(again.ResultColumns) != 3 || bytes.Equal(again.ResultMetadataID, sel.ResultMetadataID) {
		t.Errorf("the columns after ALTER TABLE are %v", again.ResultColumns)
	}
	if sel.ColumnsChanged || !again.ColumnsChanged {
		t.Errorf("the columns changed: %t before, %t after", sel.ColumnsChanged, again.ColumnsChanged)
	}
	te.exec(t, "ALTER TABLE t WITH comment = 'another plan, the same columns'")
	got, err := te.Lookup(ctx, te.session, sel.ID)
	if err != nil || got == again || !got.ColumnsChanged {
		t.Errorf("a change of a comment: %v, %v", got, err)
	}

	te.exec(t, "DROP TABLE t")
	_, err = te.Lookup(ctx, te.session, ins.ID)
	wantCode(t, err, cqlwire.ErrUnprepared)
}

func TestStatementTooLong(t *testing.T) {
	te := newTestEngine(t)
	te.Limits().MaxStatementBytes.Store(100)
	text := "SELECT * FROM t WHERE k = '" + strings.Repeat("x", 100) + "'"
	_, err := te.query(text, one())
	wantCode(t, err, cqlwire.ErrInvalid)
	_, err = te.prepare(text)
	wantCode(t, err, cqlwire.ErrInvalid)
}

func TestTooManyMarkers(t *testing.T) {
	te := newTestEngine(t)
	_, err := te.prepare("SELECT * FROM t WHERE k IN (?" + strings.Repeat(",?", cql.MaxMarkers) + ")")
	wantCode(t, err, cqlwire.ErrInvalid)
}

func TestOversizedKeysAndValues(t *testing.T) {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE t (k text PRIMARY KEY, v text)")
	te.exec(t, "CREATE TABLE two (a text, b text, c text, PRIMARY KEY ((a, b), c))")
	te.exec(t, "CREATE INDEX t_v ON t (v)")
	long := strings.Repeat("x", 65535)
	for _, c := range []struct {
		text   string
		values []string
		want   string
	}{
		{"INSERT INTO t (k) VALUES (?)", []string{long}, ""},
		{"INSERT INTO t (k) VALUES (?)", []string{long + "x"}, "Key length of 65536 is longer than maximum of 65535"},
		{"DELETE FROM t WHERE k = ?", []string{""}, "Key may not be empty"},
		{"INSERT INTO two (a, b, c) VALUES (?, 'b', 'c')", []string{long[:65528]}, ""},
		{"INSERT INTO two (a, b, c) VALUES (?, 'b', 'c')", []string{long[:65529]}, "Key length of 65536 is longer than maximum of 65535"},
		{"INSERT INTO two (a, b, c) VALUES (?, ?, 'c')", []string{long, "xx"}, "Key length of 65537 is longer than maximum of 65535"},
		{"SELECT * FROM two WHERE a = ? AND b = ?", []string{long, "xx"}, "Key length of 65537 is longer than maximum of 65535"},
		{"INSERT INTO two (a, b, c) VALUES ('', '', ?)", []string{long}, ""},
		{"INSERT INTO two (a, b, c) VALUES ('', '', ?)", []string{long + "x"}, "Key length of 65536 is longer than maximum of 65535"},
		{"INSERT INTO t (k, v) VALUES ('a', ?)", []string{long[1:]}, ""},
		{
			"INSERT INTO t (k, v) VALUES ('a', ?)",
			[]string{long},
			"Cannot index value of size 65535 for index t_v on ks.t(v) (maximum allowed size=65535)",
		},
	} {
		p := one()
		for _, v := range c.values {
			p.Values = append(p.Values, boundText(v))
		}
		got := ""
		if _, err := te.execute(te.prepared(t, c.text), p); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s with %d bytes: %q, want %q", c.text, len(c.values[0]), got, c.want)
		}
	}
	te.Limits().MaxValueBytes.Store(1000)
	p := one()
	p.Values = []cqlwire.Value{boundText(long[:2000])}
	_, err := te.execute(te.prepared(t, "INSERT INTO t (k, v) VALUES ('b', ?)"), p)
	wantCode(t, err, cqlwire.ErrInvalid)
	if res := te.exec(t, "SELECT * FROM t WHERE k = 'b'"); res.Count != 0 {
		t.Error("an oversized mutation was applied")
	}
}

func TestProtocolBatch(t *testing.T) {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE t (k int PRIMARY KEY, v int)")
	ins := te.prepared(t, "INSERT INTO t (k, v) VALUES (?, ?)")
	sel := te.prepared(t, "SELECT * FROM t")
	ctx := context.Background()
	batch := func(kind cql.BatchKind, items ...BatchItem) (*Result, error) {
		return settled(te.Batch(ctx, te.session, kind, items, one()))
	}
	both := []BatchItem{
		{ID: ins.ID, Values: []cqlwire.Value{boundInt(1), boundInt(10)}},
		{Text: "UPDATE t SET v = ? WHERE k = 2", Values: []cqlwire.Value{boundInt(20)}},
	}
	if _, err := batch(cql.LoggedBatch, both...); err != nil {
		t.Fatal(err)
	}
	if res := te.exec(t, "SELECT * FROM t"); res.Count != 2 {
		t.Errorf("%d rows after the batch", res.Count)
	}
	if _, err := batch(cql.UnloggedBatch); err != nil {
		t.Errorf("an empty batch: %v", err)
	}
	_, err := batch(cql.LoggedBatch, BatchItem{ID: sel.ID})
	wantCode(t, err, cqlwire.ErrInvalid)
	_, err = batch(cql.LoggedBatch, BatchItem{ID: make([]byte, 16)})
	wantCode(t, err, cqlwire.ErrUnprepared)
	_, err = batch(cql.LoggedBatch, BatchItem{ID: ins.ID, Values: []cqlwire.Value{boundInt(1)}})
	if err == nil || err.Error() != "There were 2 markers(?) in CQL but 1 bound variables" {
		t.Errorf("too few values: %v", err)
	}
	res, err := batch(cql.LoggedBatch, BatchItem{Text: "INSERT INTO t (k) VALUES (1) IF NOT EXISTS"})
	if err != nil || res.Count != 1 || len(res.Columns) != 3 {
		t.Errorf("a batch with a condition: %v, %v", res, err)
	}
}

// TestConditionalCounter runs increments by compare-and-set from several
// goroutines: none may be lost.
func TestConditionalCounter(t *testing.T) {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE t (k int PRIMARY KEY, v int)")
	te.exec(t, "INSERT INTO t (k, v) VALUES (1, 0)")
	const workers, each = 4, 25
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				for v := int32(0); ; {
					res, err := te.query(fmt.Sprintf("UPDATE t SET v = %d WHERE k = 1 IF v = %d", v+1, v), one())
					if err != nil {
						t.Error(err)
						return
					}
					if res.Data[4] == 1 {
						break
					}
					v = int32(binary.BigEndian.Uint32(res.Data[9:]))
				}
			}
		})
	}
	wg.Wait()
	res := te.exec(t, "SELECT v FROM t WHERE k = 1")
	if got := binary.BigEndian.Uint32(res.Data[4:]); got != workers*each {
		t.Errorf("%d increments are there of %d", got, workers*each)
	}
}

// TestConditionBeatsFuture: a conditional update supersedes what it saw, even
// where that has a timestamp in the future.
func TestConditionBeatsFuture(t *testing.T) {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE t (k int PRIMARY KEY, v int)")
	te.exec(t, "INSERT INTO t (k, v) VALUES (1, 1) USING TIMESTAMP 9000000000000000")
	te.exec(t, "UPDATE t SET v = 2 WHERE k = 1 IF v = 1")
	if res := te.exec(t, "SELECT v FROM t WHERE k = 1"); !bytes.Equal(res.Data[4:], intBytes(2)) {
		t.Errorf("v = %x", res.Data[4:])
	}
	te.exec(t, "INSERT INTO t (k, v) VALUES (2, 1) USING TIMESTAMP 9223372036854775807")
	_, err := te.query("UPDATE t SET v = 2 WHERE k = 2 IF v = 1", one())
	if err == nil {
		t.Error("an update that cannot take effect was accepted")
	}
}
