package exec

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"varve/internal/cqlwire"
	"varve/internal/schema"
)

// judge is a Cassandra that the statements of testdata are checked against. It
// speaks protocol version 4, which needs no segments.
type judge struct {
	conn     net.Conn
	warnings []string // of the last answer
}

const judgeKeyspace = "varve_judge"

func newJudge(t testing.TB, addr string) *judge {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	j := &judge{conn: conn}
	if _, err := j.send(cqlwire.OpStartup, cqlwire.AppendStringMap(nil, map[string]string{"CQL_VERSION": "3.0.0"})); err != nil {
		t.Fatal(err)
	}
	for _, s := range [...]string{
		"DROP KEYSPACE IF EXISTS " + judgeKeyspace,
		"CREATE KEYSPACE " + judgeKeyspace + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"USE " + judgeKeyspace,
	} {
		if _, err := j.query(s, &Params{Consistency: cqlwire.One}); err != nil {
			t.Fatal(err)
		}
	}
	return j
}

// send makes a request and decodes its answer.
func (j *judge) send(op cqlwire.Opcode, body []byte) (*cqlwire.Result, error) {
	frame := cqlwire.BeginRequest(nil, 4, 0, 1, op)
	frame = append(frame, body...)
	cqlwire.EndFrame(frame, 0)
	if _, err := j.conn.Write(frame); err != nil {
		return nil, err
	}
	head := make([]byte, cqlwire.HeaderSize)
	if _, err := io.ReadFull(j.conn, head); err != nil {
		return nil, err
	}
	h := cqlwire.DecodeHeader(head)
	msg := make([]byte, h.Length)
	if _, err := io.ReadFull(j.conn, msg); err != nil {
		return nil, err
	}
	var extras cqlwire.Extras
	msg, err := extras.Decode(h.Flags, msg)
	if err != nil {
		return nil, err
	}
	j.warnings = extras.Warnings
	switch h.Opcode {
	case cqlwire.OpError:
		e := &cqlwire.Error{}
		if err := e.Decode(4, msg); err != nil {
			return nil, err
		}
		e.Message = strings.ReplaceAll(e.Message, judgeKeyspace, "ks")
		return nil, e
	case cqlwire.OpResult:
		r := &cqlwire.Result{}
		return r, r.Decode(4, msg)
	}
	return &cqlwire.Result{}, nil
}

func wireParams(p *Params) cqlwire.QueryParams {
	return cqlwire.QueryParams{
		Consistency: p.Consistency, SerialConsistency: p.SerialConsistency, Values: p.Values, Names: p.Names,
		PageSize: int32(p.PageSize), PagingState: p.PagingState, HasTimestamp: p.HasTimestamp, Timestamp: p.Timestamp,
	}
}

func (j *judge) judged(r *cqlwire.Result, err error) (*Result, error) {
	if err != nil {
		return nil, err
	}
	res := &Result{
		Kind: r.Kind, Columns: r.Rows.Columns, Count: r.Rows.Count, Data: r.Rows.Data, PagingState: r.Rows.PagingState,
		Keyspace: r.Keyspace,
	}
	for _, w := range j.warnings {
		res.Warnings = append(res.Warnings, strings.ReplaceAll(w, judgeKeyspace, "ks"))
	}
	if r.Kind == cqlwire.ResultSchemaChange {
		res.Change = &schema.Event{Change: r.Schema.Change, Target: r.Schema.Target, Name: r.Schema.Name}
	}
	return res, nil
}

func (j *judge) query(text string, p *Params) (*Result, error) {
	q := cqlwire.Query{Text: []byte(text), Params: wireParams(p)}
	return j.judged(j.send(cqlwire.OpQuery, q.Append(nil, 4)))
}

func (j *judge) prepare(text string) (*Prepared, error) {
	q := cqlwire.Prepare{Text: text}
	r, err := j.send(cqlwire.OpPrepare, q.Append(nil, 4))
	if err != nil {
		return nil, err
	}
	return &Prepared{
		ID: r.Prepared.ID, Variables: r.Prepared.Variables, PartitionKeyIdx: r.Prepared.PartitionKey,
		ResultColumns: r.Prepared.Columns,
	}, nil
}

func (j *judge) execute(ps *Prepared, p *Params) (*Result, error) {
	q := cqlwire.Execute{ID: ps.ID, Params: wireParams(p)}
	return j.judged(j.send(cqlwire.OpExecute, q.Append(nil, 4)))
}

func (j *judge) use(string) {}

// advance waits: the judge's clock is the real one.
func (j *judge) advance(t testing.TB, d time.Duration) {
	t.Logf("waiting %s for the judge's clock", d)
	<-time.After(d)
}
