package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// ErrNoServer says that nothing listens on the socket.
var ErrNoServer = errors.New("no server answers")

// Client makes administration calls over a server's Unix socket.
type Client struct {
	socket string
	http   *http.Client
}

// NewClient returns a client for the socket at path.
func NewClient(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		name, done, err := shortened(path)
		if err != nil {
			return nil, err
		}
		defer done()
		return new(net.Dialer).DialContext(ctx, "unix", name)
	}
	return &Client{socket: path, http: &http.Client{Transport: &http.Transport{DialContext: dial}}}
}

// Call makes one call: GET where req is nil, POST otherwise. resp may be nil.
func (c *Client) Call(ctx context.Context, path string, req, resp any) error {
	body, err := c.open(ctx, path, req)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	if resp == nil {
		return nil
	}
	if err := json.NewDecoder(body).Decode(resp); err != nil {
		return fmt.Errorf("answer of %s: %w", path, err)
	}
	return nil
}

func (c *Client) open(ctx context.Context, path string, req any) (io.ReadCloser, error) {
	method, payload := http.MethodGet, io.Reader(nil)
	if req != nil {
		text, err := json.Marshal(req)
		if err != nil {
			return nil, err
		}
		method, payload = http.MethodPost, bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://varve"+path, payload)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" {
			return nil, fmt.Errorf("%w on %s (is it running, and with this --data?): %w", ErrNoServer, c.socket, op.Err)
		}
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer func() { _ = resp.Body.Close() }()
	var e errorBody
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil || e.Error == "" {
		return nil, fmt.Errorf("%s answered %s", path, resp.Status)
	}
	if e.Bad {
		return nil, fmt.Errorf("%w: %s", ErrBadRequest, strings.TrimPrefix(e.Error, ErrBadRequest.Error()+": "))
	}
	return nil, errors.New(e.Error)
}

// Copy makes one GET call and copies its answer to w.
func (c *Client) Copy(ctx context.Context, path string, w io.Writer) error {
	body, err := c.open(ctx, path, nil)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	_, err = io.Copy(w, body)
	return err
}

// Stream makes one call whose answer is a line of JSON for each step; f is
// called with each until the answer ends. The last line may carry an error.
func (c *Client) Stream(ctx context.Context, path string, req any, f func(Progress)) error {
	body, err := c.open(ctx, path, req)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	dec := json.NewDecoder(body)
	for {
		var p Progress
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return fmt.Errorf("%s ended without a result: the server stopped", path)
		} else if err != nil {
			return fmt.Errorf("answer of %s: %w", path, err)
		}
		if p.Error != "" {
			return errors.New(p.Error)
		}
		f(p)
		if p.Finished {
			return nil
		}
	}
}

// Progress is one step of a long call.
type Progress struct {
	Done, Total int64 // bytes
	Finished    bool
	Result      json.RawMessage `json:",omitempty"`
	Error       string          `json:",omitempty"`
}
