package server

import (
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"varve/internal/cql"
	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/exec"
	"varve/internal/schema"
	"varve/internal/store"
)

// fake is a backend that does what a statement's first word says.
type fake struct {
	auth     bool
	password string

	mu       sync.Mutex
	prepared map[string]*exec.Prepared
	watchers []func(schema.Event)
	gates    map[string]chan struct{}

	running   atomic.Int64 // statements being executed
	heavyPeak atomic.Int64 // the most of them that a "heavy" one saw
	cancelled atomic.Int64 // statements whose context ended
	released  atomic.Int64
	waited    atomic.Int64 // commits waited for
	onCommit  func()       // runs in each wait
}

// heavyAnswer is the size of the answer to "heavy", in bytes.
const heavyAnswer = 600_000

func newFake() *fake {
	return &fake{prepared: map[string]*exec.Prepared{}, gates: map[string]chan struct{}{}}
}

// gate returns the channel that "block name" waits for.
func (f *fake) gate(name string) chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.gates[name]
	if g == nil {
		g = make(chan struct{})
		f.gates[name] = g
	}
	return g
}

func (f *fake) wait(*store.Commit) error {
	f.waited.Add(1)
	if f.onCommit != nil {
		f.onCommit()
	}
	return nil
}

var blobColumn = []cqlwire.ColumnSpec{{Keyspace: "ks", Table: "t", Name: "v", Type: cqltype.Blob}}

func (f *fake) rows(cells ...[]byte) *exec.Result {
	var data []byte
	for _, c := range cells {
		data = cqlwire.AppendBytes(data, c)
	}
	id := md5.Sum([]byte("blob"))
	return &exec.Result{
		Kind: cqlwire.ResultRows, Columns: blobColumn, Count: len(cells), Data: data, MetadataID: id[:],
		Release: func() { f.released.Add(1) },
	}
}

func (f *fake) Query(ctx context.Context, s *exec.Session, text string, p *exec.Params) (*exec.Result, error) {
	f.running.Add(1)
	defer f.running.Add(-1)
	word, rest, _ := strings.Cut(text, " ")
	switch word {
	case "void":
		return &exec.Result{Kind: cqlwire.ResultVoid}, nil
	case "commit":
		return &exec.Result{Kind: cqlwire.ResultVoid, Commit: &store.Commit{}}, nil
	case "values":
		cells := make([][]byte, 0, len(p.Values))
		for _, v := range p.Values {
			b := v.Bytes
			if v.Unset {
				b = []byte("unset")
			}
			cells = append(cells, b)
		}
		return f.rows(cells...), nil
	case "count":
		return f.rows([]byte(strconv.Itoa(len(p.Values)))), nil
	case "session":
		return f.rows([]byte(fmt.Sprintf("%s/%s/%d/%s", s.Keyspace, s.Role, s.ProtocolVersion, p.Keyspace))), nil
	case "move":
		return f.rows([]byte(p.Move)), nil
	case "outcome": // columns that depend on the outcome, as a conditional update has
		res := f.rows([]byte("x"))
		res.MetadataID = nil
		return res, nil
	case "heavy": // a large answer after a while, or once its gate is open
		f.heavyPeak.Store(max(f.heavyPeak.Load(), f.running.Load()))
		var open <-chan struct{}
		if gate := strings.TrimSpace(rest); gate != "" {
			open = f.gate(gate)
		} else {
			closed := make(chan struct{})
			time.AfterFunc(2*slowRun, func() { close(closed) })
			open = closed
		}
		select {
		case <-open:
			return f.rows(make([]byte, heavyAnswer)), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	case "big":
		n, _ := strconv.Atoi(rest)
		return f.rows(make([]byte, n)), nil
	case "page":
		res := f.rows([]byte(strconv.Itoa(p.PageSize)), p.PagingState)
		res.PagingState = []byte("next page")
		return res, nil
	case "warn":
		res := f.rows([]byte("x"))
		res.Warnings = strings.Split(rest, ",")
		return res, nil
	case "trace":
		res := f.rows([]byte(strconv.FormatBool(p.Tracing)))
		res.TraceID = &schema.UUID{1, 2, 3}
		return res, nil
	case "use":
		return &exec.Result{Kind: cqlwire.ResultSetKeyspace, Keyspace: rest}, nil
	case "create":
		e := schema.Event{Change: "CREATED", Target: "TABLE", Keyspace: "ks", Name: rest}
		f.mu.Lock()
		watchers := f.watchers
		f.mu.Unlock()
		for _, w := range watchers {
			w(e)
		}
		return &exec.Result{Kind: cqlwire.ResultSchemaChange, Change: &e}, nil
	case "block":
		select {
		case <-f.gate(rest):
			return f.rows([]byte(rest)), nil
		case <-ctx.Done():
			f.cancelled.Add(1)
			return nil, ctx.Err()
		}
	case "spin":
		d, _ := time.ParseDuration(rest)
		for end := time.Now().Add(d); time.Now().Before(end); {
			continue
		}
		return f.rows([]byte("spun")), nil
	case "panic":
		panic("the fake was told to")
	case "broken":
		return &exec.Result{Kind: 99}, nil
	case "fail":
		return nil, &cqlwire.Error{
			Code: cqlwire.ErrReadFailure, Message: rest, Consistency: cqlwire.LocalOne, Required: 1,
			Warnings: []string{"careful"},
		}
	case "plainfail":
		return nil, errors.New(rest)
	}
	return nil, &cqlwire.Error{Code: cqlwire.ErrSyntax, Message: "line 1:0 no viable alternative at input '" + word + "'"}
}

func (f *fake) Prepare(_ context.Context, s *exec.Session, text, keyspace string) (*exec.Prepared, error) {
	if strings.HasPrefix(text, "bad") {
		return nil, &cqlwire.Error{Code: cqlwire.ErrSyntax, Message: "bad"}
	}
	id := md5.Sum([]byte(s.Keyspace + keyspace + text))
	meta := md5.Sum([]byte("blob"))
	ps := &exec.Prepared{
		ID: id[:], Text: text, Keyspace: keyspace,
		Variables:       []cqlwire.ColumnSpec{{Keyspace: "ks", Table: "t", Name: "k", Type: cqltype.Int}},
		PartitionKeyIdx: []int{0},
		ResultColumns:   blobColumn, ResultMetadataID: meta[:],
	}
	f.mu.Lock()
	f.prepared[string(id[:])] = ps
	f.mu.Unlock()
	return ps, nil
}

// setColumnsChanged marks a prepared statement, as the engine does when its columns are new.
func (f *fake) setColumnsChanged(id []byte, changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.prepared[string(id)]
	f.prepared[string(id)] = &exec.Prepared{
		ID: old.ID, Text: old.Text, Keyspace: old.Keyspace,
		Variables: old.Variables, PartitionKeyIdx: old.PartitionKeyIdx,
		ResultColumns: old.ResultColumns, ResultMetadataID: old.ResultMetadataID, ColumnsChanged: changed,
	}
}

func (f *fake) Lookup(_ context.Context, _ *exec.Session, id []byte) (*exec.Prepared, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ps := f.prepared[string(id)]; ps != nil {
		return ps, nil
	}
	return nil, &cqlwire.Error{Code: cqlwire.ErrUnprepared, Message: "unprepared", StatementID: append([]byte(nil), id...)}
}

func (f *fake) Execute(ctx context.Context, s *exec.Session, ps *exec.Prepared, p *exec.Params) (*exec.Result, error) {
	return f.Query(ctx, s, ps.Text, p)
}

func (f *fake) Batch(ctx context.Context, s *exec.Session, kind cql.BatchKind, items []exec.BatchItem, p *exec.Params) (*exec.Result, error) {
	var cells [][]byte
	for _, it := range items {
		cells = append(cells, []byte(fmt.Sprintf("%d/%s/%x/%d", kind, it.Text, it.ID, len(it.Values))))
	}
	return f.rows(cells...), nil
}

func (f *fake) Login(_ context.Context, user, password string) (string, error) {
	if user == "panic" {
		panic("login")
	}
	if password != f.password {
		return "", &cqlwire.Error{
			Code:    cqlwire.ErrBadCredentials,
			Message: fmt.Sprintf("Provided username %s and/or password are incorrect", user),
		}
	}
	return user, nil
}

func (f *fake) Auth() bool { return f.auth }

func (f *fake) Subscribe(w func(schema.Event)) {
	f.mu.Lock()
	f.watchers = append(f.watchers, w)
	f.mu.Unlock()
}
