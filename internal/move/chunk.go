package move

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// errVoid says that a chunk's rows were thrown away and have to be read again.
var errVoid = errors.New("the rows have to be read again")

type chunkKind uint8

const (
	chunkRange  chunkKind = iota // rows after the frontier, to be copied
	chunkReread                  // rows by key, to be copied
	chunkRepair                  // rows by key, to be made as they are in the source
)

// chunk is a set of rows read from the source between two marks, which the
// flow writes when it comes to the second, without those that changed between
// the marks.
type chunk struct {
	kind   chunkKind
	id     string
	table  int
	keys   []rowID // of a chunk by key
	after  []byte  // where a range begins: the frontier must still be there
	upto   frontier
	rows   []Row // of a chunk by key one for each key, nil for none
	refill bool  // the keys are those of refused changes

	open  bool // between its marks; this and the rest under the flow's mutex
	noted map[string]struct{}
	void  bool // void
	again []rowID
	over  bool
	done  chan error // receives once
}

func (c *chunk) end(err error) {
	if !c.over {
		c.over = true
		c.done <- err
	}
}

// send marks, reads and marks again; then the chunk's done channel tells when
// its rows are durable on the sink.
func (f *flow) send(ctx context.Context, c *chunk, read func(ctx context.Context) error) error {
	c.noted, c.done = map[string]struct{}{}, make(chan error, 1)
	f.mu.Lock()
	f.number++
	c.id = strconv.FormatInt(f.number, 10)
	f.chunks[c.id] = c
	f.mu.Unlock()
	err := func() error {
		if _, err := f.from.Mark(ctx, f.text("low", c.id)); err != nil {
			return fmt.Errorf("mark %s: %w", f.stream, err)
		}
		if err := read(ctx); err != nil {
			return err
		}
		if _, err := f.from.Mark(ctx, f.text("high", c.id)); err != nil {
			return fmt.Errorf("mark %s: %w", f.stream, err)
		}
		return nil
	}()
	if err != nil {
		f.mu.Lock()
		delete(f.chunks, c.id)
		f.mu.Unlock()
	}
	return err
}

// wait returns how the chunk ended.
func (c *chunk) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-c.done:
		return err
	}
}

// sendKeys reads rows by key and waits until they are written. It returns the
// keys that changed meanwhile.
func (f *flow) sendKeys(ctx context.Context, kind chunkKind, table int, ids []rowID, refill bool) ([]rowID, error) {
	keys := make([]Row, len(ids))
	for i, id := range ids {
		key, err := f.row(id)
		if err != nil {
			return nil, err
		}
		keys[i] = key
	}
	c := &chunk{kind: kind, table: table, keys: ids, refill: refill}
	err := f.send(ctx, c, func(ctx context.Context) error {
		rows, err := f.from.ReadKeys(ctx, table, keys)
		if err == nil && len(rows) != len(keys) {
			err = fmt.Errorf("%d rows for %d keys", len(rows), len(keys))
		}
		if err != nil {
			return fmt.Errorf("read rows of %s by key: %w", f.tables[table].Name, err)
		}
		f.mu.Lock()
		c.rows = rows
		f.mu.Unlock()
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := c.wait(ctx); err != nil {
		return nil, err
	}
	return c.again, nil
}

// low opens a chunk: from here on changed keys are noted.
func (x *session) low(id string) {
	x.f.mu.Lock()
	defer x.f.mu.Unlock()
	if c := x.f.chunks[id]; c != nil {
		c.open = true
	}
}

// void throws away what open chunks of the table have read.
func (x *session) void(table int) {
	x.f.mu.Lock()
	defer x.f.mu.Unlock()
	for _, c := range x.f.chunks {
		if c.table == table && c.open {
			c.void = true
		}
	}
}

// high writes a chunk's rows.
func (x *session) high(ctx context.Context, id string) error {
	f := x.f
	f.mu.Lock()
	c := f.chunks[id]
	if c != nil && (!c.open || c.void || c.kind == chunkRange && !x.isNext(c)) {
		delete(f.chunks, id)
		c.end(errVoid)
		c = nil
	}
	f.mu.Unlock()
	if c == nil {
		return nil
	}
	if err := x.write(ctx, c); err != nil {
		x.ended = append(x.ended, c)
		return x.blame(fmt.Errorf("write rows of %s: %w", f.tables[c.table].Name, err))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	c.open = false
	x.finish(c)
	x.ended = append(x.ended, c)
	return nil
}

// isNext reports whether the range begins where the copy of its table has come
// to; the caller holds the flow's mutex.
func (x *session) isNext(c *chunk) bool {
	at, ok := x.copied[c.table]
	if !ok {
		at = x.f.copied[c.table]
	}
	return !at.done && string(at.key) == string(c.after)
}

// write hands the chunk's rows to the writer, all but those noted.
func (x *session) write(ctx context.Context, c *chunk) error {
	f := x.f
	t := &f.tables[c.table]
	if c.kind == chunkRepair {
		var keys, rows []Row
		for i, id := range c.keys {
			if _, noted := c.noted[id.key]; noted {
				continue
			}
			key, err := f.row(id)
			if err != nil {
				return err
			}
			keys, rows = append(keys, key), append(rows, c.rows[i])
			f.log.key(id)
		}
		if len(keys) == 0 {
			return nil
		}
		return x.w.Repair(ctx, c.table, keys, rows)
	}
	var rows []Row
	var buf []byte
	for _, r := range c.rows {
		if r == nil {
			continue
		}
		buf = buf[:0]
		for _, k := range t.Key {
			buf = EncodeRow(buf, r[k:k+1])
		}
		if _, noted := c.noted[string(buf)]; !noted {
			rows = append(rows, r)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	f.mu.Lock()
	asOf := f.asOf
	f.mu.Unlock()
	return x.w.Copy(ctx, c.table, rows, asOf)
}

// finish puts down what is done with the chunk; the caller holds the flow's
// mutex.
func (x *session) finish(c *chunk) {
	if c.kind == chunkRange {
		if x.copied == nil {
			x.copied = map[int]frontier{}
		}
		x.copied[c.table] = c.upto
		x.progress["copied/"+strconv.Itoa(c.table)] = c.upto.String()
		return
	}
	var written []rowID
	for _, id := range c.keys {
		if _, noted := c.noted[id.key]; noted {
			c.again = append(c.again, id)
			continue
		}
		written = append(written, id)
		if c.kind == chunkReread {
			x.rereadDone(id)
		}
	}
	if c.refill {
		x.forget(written)
	}
}

// String is the form kept in progress.
func (fr frontier) String() string {
	if fr.done {
		return fmt.Sprintf("done %d", fr.rows)
	}
	return fmt.Sprintf("at %d %s", fr.rows, base64.StdEncoding.EncodeToString(fr.key))
}

func parseFrontier(s string) (frontier, error) {
	word, rest, _ := strings.Cut(s, " ")
	number, text, _ := strings.Cut(rest, " ")
	rows, err := strconv.ParseInt(number, 10, 64)
	if err != nil || word != "done" && word != "at" {
		return frontier{}, errors.New("neither done nor a key")
	}
	if word == "done" {
		return frontier{done: true, rows: rows}, nil
	}
	key, err := base64.StdEncoding.DecodeString(text)
	return frontier{key: key, rows: rows}, err
}

// formatIDs writes a line for each row: its table and key.
func formatIDs(ids []rowID) string {
	var b strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&b, "%d %s\n", id.table, base64.StdEncoding.EncodeToString([]byte(id.key)))
	}
	return b.String()
}

func parseIDs(s string) ([]rowID, error) {
	var out []rowID
	for line := range strings.Lines(s) {
		number, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		table, err := strconv.Atoi(number)
		if err != nil {
			return nil, err
		}
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, err
		}
		out = append(out, rowID{table, string(key)})
	}
	return out, nil
}
