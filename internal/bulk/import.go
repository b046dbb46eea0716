package bulk

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"

	"varve/internal/cqltype"
	"varve/internal/cqlwire"
	"varve/internal/upstream"
)

// ImportOptions say how to import.
type ImportOptions struct {
	Table       Table
	Header      bool             // the first record names the columns
	Concurrency int              // requests in flight; the default is 128
	Checkpoint  func(Done) error // called, in order, as more records from the start are safely stored
	Rejected    func(Reject) error
	Progress    func(rows, bytes, total int64)
	TotalBytes  int64 // for Progress; 0: not known
	// Resume goes on after an earlier import's last checkpoint.
	Resume Done
}

// Done is how far an import came: every record that ends before Bytes is
// stored or rejected.
type Done struct {
	Bytes    int64
	Records  int64
	Rejected int64
}

// Reject is a record that was not stored.
type Reject struct {
	Line   int
	Record []string
	Reason string
}

// chunkRecords is how many records are acknowledged together.
const chunkRecords = 512

type chunk struct {
	records    [][]string
	lines      []int
	end        int64 // input offset after the last record
	pending    int   // records without an outcome yet
	rejects    int64
	unreadable int64 // of them, those that are no CSV records at all
}

// Import stores a CSV's records. Records that cannot be stored (a field that
// does not fit its type, a refusal by the server) go to Rejected and do not
// end the import; a lost connection does.
func Import(ctx context.Context, c *upstream.Conn, r io.Reader, o ImportOptions) (Done, error) {
	if o.Concurrency <= 0 {
		o.Concurrency = 128
	}
	im := &importer{o: o, conn: c, done: o.Resume, slots: make(chan struct{}, o.Concurrency)}
	in := csv.NewReader(r)
	in.ReuseRecord = false
	if o.Header {
		head, err := in.Read()
		if err != nil {
			return im.done, fmt.Errorf("read header: %w", err)
		}
		if len(o.Table.Columns) == 0 {
			im.o.Table.Columns = head
		}
	}
	if err := im.prepare(ctx); err != nil {
		return im.done, err
	}
	in.FieldsPerRecord = -1 // a wrong count rejects the record, not the import
	if err := im.skip(in); err != nil {
		return im.done, err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return im.feed(ctx, g, in) })
	err := g.Wait()
	return im.done, err
}

type importer struct {
	o     ImportOptions
	conn  *upstream.Conn
	st    *upstream.Statement
	types []*cqltype.Type
	slots chan struct{}

	mu     sync.Mutex
	chunks []*chunk // in input order, the first not yet whole
	done   Done
}

func (im *importer) prepare(ctx context.Context) error {
	sel, err := im.o.Table.resolve(ctx, im.conn)
	if err != nil {
		return fmt.Errorf("find table %s: %w", im.o.Table.quoted(), err)
	}
	im.types = typesOf(sel.Columns)
	if im.st, err = im.conn.Prepare(ctx, im.o.Table.insert()); err != nil {
		return fmt.Errorf("prepare insert into %s: %w", im.o.Table.quoted(), err)
	}
	return nil
}

// skip passes over the records of an earlier import.
func (im *importer) skip(in *csv.Reader) error {
	for in.InputOffset() < im.o.Resume.Bytes {
		var bad *csv.ParseError
		if _, err := in.Read(); errors.Is(err, io.EOF) {
			return fmt.Errorf("the input ends at byte %d, before the checkpoint at %d: is it the same file?",
				in.InputOffset(), im.o.Resume.Bytes)
		} else if err != nil && !errors.As(err, &bad) {
			return err
		}
	}
	return nil
}

func (im *importer) feed(ctx context.Context, g *errgroup.Group, in *csv.Reader) error {
	for {
		ck, eof, err := im.readChunk(in)
		if err != nil {
			return err
		}
		if len(ck.records) > 0 || ck.rejects > 0 {
			im.mu.Lock()
			im.chunks = append(im.chunks, ck)
			im.mu.Unlock()
		}
		for i := range ck.records {
			select {
			case im.slots <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
			g.Go(func() error {
				defer func() { <-im.slots }()
				return im.store(ctx, ck, i)
			})
		}
		if len(ck.records) == 0 {
			if err := im.advance(ck, 0); err != nil {
				return err
			}
		}
		if eof {
			return nil
		}
	}
}

func (im *importer) readChunk(in *csv.Reader) (*chunk, bool, error) {
	ck := &chunk{}
	for len(ck.records) < chunkRecords {
		rec, err := in.Read()
		if errors.Is(err, io.EOF) {
			return ck, true, nil
		}
		var bad *csv.ParseError
		if errors.As(err, &bad) {
			ck.rejects++
			ck.unreadable++
			ck.end = in.InputOffset()
			if err := im.reject(Reject{Line: bad.StartLine, Record: rec, Reason: err.Error()}); err != nil {
				return nil, false, err
			}
			continue
		}
		if err != nil {
			return nil, false, fmt.Errorf("read CSV: %w", err)
		}
		line, _ := in.FieldPos(0)
		ck.records, ck.lines = append(ck.records, rec), append(ck.lines, line)
		ck.pending++
		ck.end = in.InputOffset()
	}
	return ck, false, nil
}

func (im *importer) store(ctx context.Context, ck *chunk, i int) error {
	rec := ck.records[i]
	reason, err := im.send(ctx, rec)
	if err != nil {
		return fmt.Errorf("line %d: %w", ck.lines[i], err)
	}
	if reason != "" {
		if err := im.reject(Reject{Line: ck.lines[i], Record: rec, Reason: reason}); err != nil {
			return err
		}
		im.mu.Lock()
		ck.rejects++
		im.mu.Unlock()
	}
	return im.advance(ck, 1)
}

// send stores one record; a reason tells why it never will be.
func (im *importer) send(ctx context.Context, rec []string) (reason string, err error) {
	if len(rec) != len(im.types) {
		return fmt.Sprintf("%d fields for %d columns", len(rec), len(im.types)), nil
	}
	values := make([]cqlwire.Value, len(rec))
	for i, field := range rec {
		b, err := parseField(im.types[i], field)
		if err != nil {
			return fmt.Sprintf("column %s: %v", im.o.Table.Columns[i], err), nil
		}
		values[i] = cqlwire.Value{Bytes: b}
	}
	_, err = im.conn.Execute(ctx, im.st, upstream.Params{Consistency: cqlwire.LocalOne, Values: values})
	var refused *cqlwire.Error
	if errors.As(err, &refused) && refused.Code == cqlwire.ErrInvalid {
		return refused.Message, nil
	}
	return "", err
}

func (im *importer) reject(r Reject) error {
	im.mu.Lock()
	defer im.mu.Unlock()
	if im.o.Rejected == nil {
		return nil
	}
	return im.o.Rejected(r)
}

// advance counts finished records of ck and moves the checkpoint over chunks
// that are whole.
func (im *importer) advance(ck *chunk, n int) error {
	im.mu.Lock()
	defer im.mu.Unlock()
	ck.pending -= n
	moved := false
	for len(im.chunks) > 0 && im.chunks[0].pending == 0 {
		first := im.chunks[0]
		im.chunks = im.chunks[1:]
		im.done.Bytes = first.end
		im.done.Records += int64(len(first.records)) + first.unreadable
		im.done.Rejected += first.rejects
		moved = true
	}
	if !moved {
		return nil
	}
	if im.o.Progress != nil {
		im.o.Progress(im.done.Records, im.done.Bytes, im.o.TotalBytes)
	}
	if im.o.Checkpoint == nil {
		return nil
	}
	return im.o.Checkpoint(im.done)
}
