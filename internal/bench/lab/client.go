package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"varve/internal/cqlwire"
	"varve/internal/upstream"
)

// Client is a connection that prepares each text once. Its methods may be
// called concurrently.
type Client struct {
	conn *upstream.Conn

	mu       sync.Mutex
	prepared map[string]*upstream.Statement
}

// Dial connects, trying for as long as the context lasts: a server that was
// just started may say that it is ready before this process hears of it.
func Dial(ctx context.Context, addr string) (*Client, error) {
	for {
		c, err := upstream.Dial(ctx, upstream.Options{Address: addr})
		if err == nil {
			return &Client{conn: c, prepared: map[string]*upstream.Statement{}}, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w (%w)", err, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Int, Bigint, Text and Null are bound values.
func Int(v int32) cqlwire.Value {
	return cqlwire.Value{Bytes: binary.BigEndian.AppendUint32(nil, uint32(v))}
}

func Bigint(v int64) cqlwire.Value {
	return cqlwire.Value{Bytes: binary.BigEndian.AppendUint64(nil, uint64(v))}
}
func Text(s string) cqlwire.Value { return cqlwire.Value{Bytes: append([]byte{}, s...)} }

// Do runs a text without values, as DDL.
func (c *Client) Do(ctx context.Context, text string) error {
	if _, err := c.conn.Query(ctx, text, upstream.Params{Consistency: cqlwire.LocalOne}); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return nil
}

// Prepare prepares a text, once.
func (c *Client) Prepare(ctx context.Context, text string) (*upstream.Statement, error) {
	c.mu.Lock()
	st := c.prepared[text]
	c.mu.Unlock()
	if st != nil {
		return st, nil
	}
	st, err := c.conn.Prepare(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", text, err)
	}
	c.mu.Lock()
	c.prepared[text] = st
	c.mu.Unlock()
	return st, nil
}

// Exec prepares and executes a text with values.
func (c *Client) Exec(ctx context.Context, text string, values ...cqlwire.Value) (*upstream.Result, error) {
	return c.Page(ctx, text, 0, nil, values...)
}

// Page is Exec with a page size (0: all rows in one) and a paging state.
func (c *Client) Page(ctx context.Context, text string, size int, state []byte, values ...cqlwire.Value) (*upstream.Result, error) {
	st, err := c.Prepare(ctx, text)
	if err != nil {
		return nil, err
	}
	p := upstream.Params{Consistency: cqlwire.LocalOne, Values: values, PageSize: size, PagingState: state}
	r, err := c.conn.Execute(ctx, st, p)
	var ce *cqlwire.Error
	if errors.As(err, &ce) && ce.Code == cqlwire.ErrUnprepared {
		c.mu.Lock()
		delete(c.prepared, text)
		c.mu.Unlock()
		if st, err = c.Prepare(ctx, text); err != nil {
			return nil, err
		}
		r, err = c.conn.Execute(ctx, st, p)
	}
	return r, err
}

// Rows runs a read and returns the cells of all its rows, page by page of the given size.
func (c *Client) Rows(ctx context.Context, text string, size int, values ...cqlwire.Value) (rows [][][]byte, err error) {
	var state []byte
	for {
		r, err := c.Page(ctx, text, size, state, values...)
		if err != nil {
			return rows, err
		}
		if rows, err = appendRows(rows, r); err != nil {
			return rows, err
		}
		if state = r.Rows.PagingState; state == nil {
			return rows, nil
		}
	}
}

func appendRows(rows [][][]byte, r *upstream.Result) ([][][]byte, error) {
	data := r.Rows.Data
	for range r.Rows.Count {
		cells, rest, err := r.Rows.Row(nil, data)
		if err != nil {
			return rows, fmt.Errorf("decode row: %w", err)
		}
		rows, data = append(rows, cells), rest
	}
	return rows, nil
}

// Many runs n statements over the connection, so many in flight, and returns
// how long they took. at gives the values of the i-th.
func (c *Client) Many(ctx context.Context, inFlight, n int, text string, at func(i int) []cqlwire.Value) (time.Duration, error) {
	if _, err := c.Prepare(ctx, text); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range inFlight {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if _, err := c.Exec(ctx, text, at(i)...); err != nil {
					cancel(fmt.Errorf("%s: %w", text, err))
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start), context.Cause(ctx)
}

// Read is what a traced read tells of itself: what it stepped over, what it
// jumped (Varve alone), and the server's own time.
type Read struct {
	Live, Walked, Jumped, Spans int
	Took                        time.Duration
	Warnings                    []string
	Summary                     string
}

// Both servers' trace lines; Cassandra's counts cells, one for a row's deletion.
var (
	varveLine     = regexp.MustCompile(`(\d+) live, (\d+) tombstones walked, (\d+) jumped in (\d+) spans`)
	cassandraLine = regexp.MustCompile(`Read (\d+) live rows and (\d+) tombstone cells`)
)

// Trace runs a read with tracing and returns what its trace says.
func (c *Client) Trace(ctx context.Context, text string, values ...cqlwire.Value) (Read, error) {
	st, err := c.Prepare(ctx, text)
	if err != nil {
		return Read{}, err
	}
	r, err := c.conn.Execute(ctx, st, upstream.Params{Consistency: cqlwire.LocalOne, Values: values, Trace: true})
	if err != nil {
		return Read{}, err
	}
	if r.TraceID == nil {
		return Read{}, fmt.Errorf("the server did not trace %s", text)
	}
	out := Read{Warnings: r.Warnings}
	id := cqlwire.Value{Bytes: r.TraceID[:]}
	// Traces are written in the background.
	for range 500 {
		rows, err := c.Rows(ctx, "SELECT duration FROM system_traces.sessions WHERE session_id = ?", 0, id)
		if err != nil {
			return out, err
		}
		if len(rows) == 1 && len(rows[0][0]) == 4 {
			out.Took = time.Duration(binary.BigEndian.Uint32(rows[0][0])) * time.Microsecond
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	events, err := c.Rows(ctx, "SELECT activity FROM system_traces.events WHERE session_id = ?", 0, id)
	if err != nil {
		return out, err
	}
	for _, e := range events {
		out.note(string(e[0]))
	}
	if out.Summary == "" {
		return out, fmt.Errorf("the trace of %s says nothing of tombstones", text)
	}
	return out, nil
}

func (r *Read) note(activity string) {
	m := varveLine.FindStringSubmatch(activity)
	if m == nil {
		m = cassandraLine.FindStringSubmatch(activity)
	}
	if m == nil {
		return
	}
	r.Summary = m[0]
	for i, to := range []*int{&r.Live, &r.Walked, &r.Jumped, &r.Spans} {
		if i+1 < len(m) {
			*to, _ = strconv.Atoi(m[i+1])
		}
	}
}
