package upstream

import (
	"context"
	"fmt"

	"varve/internal/cqlwire"
)

// Params are a request's parameters.
type Params struct {
	Consistency       cqlwire.Consistency
	SerialConsistency cqlwire.Consistency // 0: SERIAL
	Values            []cqlwire.Value
	PageSize          int
	PagingState       []byte
	Trace             bool
}

// Result is an answer with what came beside it.
type Result struct {
	cqlwire.Result
	Warnings []string
	TraceID  *[16]byte
}

// Statement is a prepared statement.
type Statement struct{ cqlwire.Prepared }

// Query runs CQL text.
func (c *Conn) Query(ctx context.Context, text string, p Params) (*Result, error) {
	q := cqlwire.Query{Text: []byte(text), Params: p.wire()}
	return c.result(ctx, cqlwire.OpQuery, func(dst []byte) []byte { return q.Append(dst, version) }, p.Trace)
}

// Prepare prepares CQL text.
func (c *Conn) Prepare(ctx context.Context, text string) (*Statement, error) {
	m := cqlwire.Prepare{Text: text}
	r, err := c.result(ctx, cqlwire.OpPrepare, func(dst []byte) []byte { return m.Append(dst, version) }, false)
	if err != nil {
		return nil, err
	}
	if r.Kind != cqlwire.ResultPrepared {
		return nil, fmt.Errorf("the server answered PREPARE with a result of kind %d", r.Kind)
	}
	return &Statement{r.Prepared}, nil
}

// Execute runs a prepared statement.
func (c *Conn) Execute(ctx context.Context, st *Statement, p Params) (*Result, error) {
	m := cqlwire.Execute{ID: st.ID, Params: p.wire()}
	return c.result(ctx, cqlwire.OpExecute, func(dst []byte) []byte { return m.Append(dst, version) }, p.Trace)
}

func (p *Params) wire() cqlwire.QueryParams {
	return cqlwire.QueryParams{
		Consistency: p.Consistency, SerialConsistency: p.SerialConsistency, Values: p.Values,
		PageSize: int32(p.PageSize), PagingState: p.PagingState,
	}
}

func (c *Conn) result(ctx context.Context, op cqlwire.Opcode, body func([]byte) []byte, trace bool) (*Result, error) {
	h, raw, err := c.call(ctx, op, body, trace)
	if err != nil {
		return nil, err
	}
	if h.Opcode != cqlwire.OpResult {
		return nil, fmt.Errorf("the server answered %v with %v", op, h.Opcode)
	}
	var x cqlwire.Extras
	msg, err := x.Decode(h.Flags, raw)
	if err != nil {
		return nil, fmt.Errorf("decode RESULT: %w", err)
	}
	r := &Result{Warnings: x.Warnings, TraceID: x.TraceID}
	if err := r.Result.Decode(version, msg); err != nil {
		return nil, fmt.Errorf("decode RESULT: %w", err)
	}
	return r, nil
}
