package bulk

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

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

// A chunk is what is acknowledged together: it is closed at so many records or
// bytes of text.
const (
	chunkRecords = 512
	chunkBytes   = 1 << 20
)

// maxAhead bounds the chunks in memory: behind a record that gets no answer
// the input waits.
const maxAhead = 32

// maxRecordBytes bounds one record of the input; only a quote that is not
// closed makes a longer one than any server takes.
const maxRecordBytes = 32 << 20

// answerTime is how long a record's answer is waited for.
const answerTime = time.Minute

// limitedInput fails once a record has taken more than most bytes.
type limitedInput struct {
	r          io.Reader
	left, most int64
}

// Read implements io.Reader.
func (l *limitedInput) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("a record is longer than %d bytes: is a quote not closed?", l.most)
	}
	n, err := l.r.Read(p)
	l.left -= int64(n)
	return n, err
}

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
	im := newImporter(o, c, r)
	in := im.in
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
	if err := im.skip(); err != nil {
		return im.done, err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return im.feed(ctx, g) })
	err := g.Wait()
	return im.done, err
}

type importer struct {
	o     ImportOptions
	conn  *upstream.Conn
	st    *upstream.Statement
	types []*cqltype.Type
	limit *limitedInput
	in    *csv.Reader // of limit
	slots chan struct{}
	ahead chan struct{} // holds one for each of chunks
	// put stores one record; a reason tells why it never will be. It is send but in tests.
	put func(ctx context.Context, rec []string) (reason string, err error)

	mu     sync.Mutex
	chunks []*chunk // in input order, the first not yet whole
	done   Done
}

func newImporter(o ImportOptions, c *upstream.Conn, r io.Reader) *importer {
	if o.Concurrency <= 0 {
		o.Concurrency = 128
	}
	im := &importer{
		o: o, conn: c, done: o.Resume, slots: make(chan struct{}, o.Concurrency), ahead: make(chan struct{}, maxAhead),
		limit: &limitedInput{r: r, left: maxRecordBytes, most: maxRecordBytes},
	}
	im.in, im.put = csv.NewReader(im.limit), im.send
	return im
}

// read returns the next record and the input's offset after it.
func (im *importer) read() (rec []string, end int64, err error) {
	im.limit.left = im.limit.most
	rec, err = im.in.Read()
	return rec, im.in.InputOffset(), err
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
func (im *importer) skip() error {
	for im.in.InputOffset() < im.o.Resume.Bytes {
		var bad *csv.ParseError
		if _, end, err := im.read(); errors.Is(err, io.EOF) {
			return fmt.Errorf("the input ends at byte %d, before the checkpoint at %d: is it the same file?", end, im.o.Resume.Bytes)
		} else if err != nil && !errors.As(err, &bad) {
			return err
		}
	}
	return nil
}

func (im *importer) feed(ctx context.Context, g *errgroup.Group) error {
	for {
		select {
		case im.ahead <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		ck, eof, err := im.readChunk()
		if err != nil {
			return err
		}
		im.mu.Lock()
		im.chunks = append(im.chunks, ck)
		im.mu.Unlock()
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

func (im *importer) readChunk() (*chunk, bool, error) {
	ck := &chunk{end: im.in.InputOffset()}
	for start := ck.end; len(ck.records) < chunkRecords && ck.end-start < chunkBytes; {
		rec, end, err := im.read()
		if errors.Is(err, io.EOF) {
			return ck, true, nil
		}
		var bad *csv.ParseError
		if errors.As(err, &bad) {
			ck.rejects++
			ck.unreadable++
			ck.end = end
			if err := im.reject(Reject{Line: bad.StartLine, Record: rec, Reason: err.Error()}); err != nil {
				return nil, false, err
			}
			continue
		}
		if err != nil {
			return nil, false, fmt.Errorf("read CSV: %w", err)
		}
		line, _ := im.in.FieldPos(0)
		ck.records, ck.lines = append(ck.records, rec), append(ck.lines, line)
		ck.pending++
		ck.end = end
	}
	return ck, false, nil
}

func (im *importer) store(ctx context.Context, ck *chunk, i int) error {
	rec := ck.records[i]
	reason, err := im.put(ctx, rec)
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
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, fmt.Errorf("no answer within %v", answerTime))
	defer cancel()
	_, err = im.conn.Execute(ctx, im.st, upstream.Params{Consistency: cqlwire.LocalOne, Values: values})
	var refused *cqlwire.Error
	if errors.As(err, &refused) && refused.Code == cqlwire.ErrInvalid {
		return refused.Message, nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = context.Cause(ctx)
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
		<-im.ahead
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
