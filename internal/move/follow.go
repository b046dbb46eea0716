package move

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// How a flow groups what it applies: a commit is due when nothing more is at
// hand, or at these bounds.
const (
	batchChanges = 2000
	batchTime    = 50 * time.Millisecond
	// idleCommit is how old a position may get while only foreign marks pass.
	idleCommit = time.Second
)

// flow follows one side's changes into the other side. It is the only one
// that writes into the sink: copied and repaired rows go through it too, each
// at its place among the changes.
type flow struct {
	stream   string
	other    string // the stream of the opposite direction
	from, to Side
	source   Part    // which of the two from is
	tables   []Table // the sink's
	// lenient keeps refused rows as keys to be filled, so that they hold up
	// nothing; a flow that is not ends with them.
	lenient bool
	// open is when changes are written. While it is not, nobody should be able
	// to make any, and one that comes is a breach of the fence.
	open    atomic.Bool
	touched *touched
	log     *touchLog
	logger  *slog.Logger
	token   int64

	mu       sync.Mutex
	news     chan struct{} // closed and replaced when anything below changes
	applied  Position
	stamp    int64
	running  bool
	marks    map[string]func() // by text: called when committed
	chunks   map[string]*chunk
	number   int64
	copied   map[int]frontier
	asOf     Position
	rereads  map[rowID]struct{}
	refill   map[rowID]string // to the progress entry that keeps it
	lag      time.Duration
	lagAt    time.Time
	changes  int64
	breaches int64
	trouble  string
	careful  bool            // for the next session
	poison   map[string]bool // positions of transactions that the sink refuses
}

// frontier is how far a table's rows are copied.
type frontier struct {
	key  []byte // EncodeRow of the last key, nil before the first
	rows int64
	done bool
}

func newFlow(stream string, source Part, from, to Side, tables []Table, t *touched, token int64, logger *slog.Logger) *flow {
	return &flow{
		stream: stream, source: source, from: from, to: to, tables: tables,
		touched: t, log: t.newLog(), token: token, logger: logger.With("stream", stream),
		news: make(chan struct{}), marks: map[string]func(){}, chunks: map[string]*chunk{},
		copied: map[int]frontier{}, rereads: map[rowID]struct{}{}, refill: map[rowID]string{},
		lag: -1, poison: map[string]bool{},
	}
}

// begin puts the stream's first position down on the sink, once and before
// the first run.
func (f *flow) begin(ctx context.Context) error {
	w, err := f.to.Write(ctx, f.stream)
	if err != nil {
		return fmt.Errorf("open the writer of %s: %w", f.stream, err)
	}
	defer func() { _ = w.Close(context.WithoutCancel(ctx)) }()
	if len(w.Applied()) > 0 {
		return nil
	}
	p, err := f.from.OpenStream(ctx, f.stream)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", f.stream, err)
	}
	return w.Commit(ctx, p, map[string]string{"asof": p.String()})
}

// reopen begins a lost stream anew where the source stands now. What was
// skipped is for a verification of every row to find, so all tables are told
// as lost with the new position.
func (f *flow) reopen(ctx context.Context) error {
	if err := f.from.DropStream(ctx, f.stream); err != nil {
		return fmt.Errorf("drop stream %s: %w", f.stream, err)
	}
	w, err := f.to.Write(ctx, f.stream)
	if err != nil {
		return fmt.Errorf("open the writer of %s: %w", f.stream, err)
	}
	defer func() { _ = w.Close(context.WithoutCancel(ctx)) }()
	p, err := f.from.OpenStream(ctx, f.stream)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", f.stream, err)
	}
	f.touched.turnOn()
	for t := range f.tables {
		f.log.lose(t)
	}
	progress := map[string]string{}
	durable := f.log.commit(progress)
	if err := w.Commit(ctx, p, progress); err != nil {
		return fmt.Errorf("begin stream %s anew: %w", f.stream, err)
	}
	durable()
	return nil
}

// run follows until the context ends or an error that trying again cannot
// mend: a lost writer, a lost stream, an altered table, a refused row.
func (f *flow) run(ctx context.Context) error {
	defer f.ended(ctx)
	wait := 50 * time.Millisecond
	for {
		started := time.Now()
		err := f.session(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var refused *RowError
		var inChunk *chunkError
		switch {
		case errors.As(err, &inChunk):
			// Its owner knows; the changes go on without it.
			f.logger.Warn("rows were refused", "err", err)
			continue
		case errors.As(err, &refused) && f.lenient:
			f.mu.Lock()
			f.careful = true
			f.mu.Unlock()
			continue // the next session finds the transaction and keeps its keys
		case errors.As(err, &refused), errors.Is(err, errUnfollowable), errors.Is(err, ErrWriterLost),
			errors.Is(err, ErrStreamLost), errors.Is(err, ErrSchemaChanged):
			f.note(err.Error())
			return fmt.Errorf("%s: %w", f.stream, err)
		}
		f.note(err.Error())
		f.logger.Warn("the stream broke, trying again", "err", err)
		if time.Since(started) > 10*time.Second {
			wait = 50 * time.Millisecond
		}
		if !sleep(ctx, wait) {
			return ctx.Err()
		}
		wait = min(2*wait, 5*time.Second)
	}
}

// sleep waits and reports whether the context still runs.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func (f *flow) note(trouble string) {
	f.mu.Lock()
	f.trouble = trouble
	f.tellLocked()
	f.mu.Unlock()
}

// tellLocked wakes all who wait for news.
func (f *flow) tellLocked() {
	close(f.news)
	f.news = make(chan struct{})
}

func (f *flow) ended(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running = false
	err := ctx.Err()
	if err == nil {
		err = errors.New(f.trouble)
	}
	for id, c := range f.chunks {
		c.end(err)
		delete(f.chunks, id)
	}
	f.tellLocked()
}

// mark puts a mark into the source and calls done when everything before it
// is durable on the sink.
func (f *flow) mark(ctx context.Context, kind string, done func()) error {
	f.mu.Lock()
	f.number++
	text := f.text(kind, strconv.FormatInt(f.number, 10))
	if done != nil {
		f.marks[text] = done
	}
	f.mu.Unlock()
	if _, err := f.from.Mark(ctx, text); err != nil {
		f.mu.Lock()
		delete(f.marks, text)
		f.mu.Unlock()
		return fmt.Errorf("mark %s: %w", f.stream, err)
	}
	return nil
}

// text is a mark's content: whose it is, and which.
func (f *flow) text(kind, id string) string {
	return f.stream + "|" + strconv.FormatInt(f.token, 10) + "|" + kind + "|" + id
}

// drain waits until all that was committed in the source before the call is
// durable on the sink.
func (f *flow) drain(ctx context.Context) error {
	done := make(chan struct{})
	if err := f.mark(ctx, "drain", sync.OnceFunc(func() { close(done) })); err != nil {
		return err
	}
	for {
		f.mu.Lock()
		news, running, trouble := f.news, f.running, f.trouble
		f.mu.Unlock()
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			if !running && trouble != "" {
				return fmt.Errorf("drain %s: %w (%s)", f.stream, ctx.Err(), trouble)
			}
			return fmt.Errorf("drain %s: %w", f.stream, ctx.Err())
		case <-news:
		}
	}
}

// beat puts a mark into the stream and keeps the time that it took.
func (f *flow) beat(ctx context.Context) error {
	began := time.Now()
	return f.mark(ctx, "beat", func() {
		f.lag, f.lagAt = time.Since(began), began
	})
}

// behind is how far the sink is behind the source: the last beat's way, or the
// time since a beat that has not come. Negative when there was none.
func (f *flow) behind() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lagAt.IsZero() {
		return -1
	}
	return max(f.lag, time.Since(f.lagAt)-2*beatEvery)
}

// session follows until an error.
func (f *flow) session(ctx context.Context) error {
	w, err := f.to.Write(ctx, f.stream)
	if err != nil {
		return fmt.Errorf("open the writer: %w", err)
	}
	x := &session{f: f, w: w, progress: map[string]string{}, last: time.Now()}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = w.Close(closing)
	}()
	if err := x.load(ctx); err != nil {
		return err
	}
	x.s, err = f.from.Follow(ctx, f.stream, w.Applied())
	if err != nil {
		return fmt.Errorf("follow from %s: %w", w.Applied(), err)
	}
	defer func() { _ = x.s.Close() }()
	for {
		e, err := x.s.Next(ctx)
		if err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
		if err := x.event(ctx, e); err != nil {
			return err
		}
	}
}

// session is one connection of a flow to both sides.
type session struct {
	began time.Time // the commit time of the transaction under way
	f     *flow
	w     Writer
	s     Stream

	position Position // of the last event that ended something
	changes  int      // since the last commit
	since    time.Time
	last     time.Time // of the last commit
	passed   []string  // marks since the last commit that somebody waits for
	ended    []*chunk
	progress map[string]string
	// What the commit makes true for others to see.
	copied map[int]frontier
	filled []rowID

	// careful is for a lenient flow after a refused row: a commit for each
	// transaction, which is held until it is whole.
	careful bool
	held    []*Event
}

// load reads what earlier sessions kept.
func (x *session) load(ctx context.Context) error {
	f := x.f
	progress, err := x.w.Progress(ctx, "")
	if err != nil {
		return fmt.Errorf("read the progress: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.applied == nil {
		if err := f.log.load(progress); err != nil {
			return err
		}
	}
	f.applied, f.stamp = x.w.Applied(), x.w.Stamp()
	x.position = f.applied
	x.careful = f.careful
	clear(f.copied)
	clear(f.rereads)
	clear(f.refill)
	for name, value := range progress {
		if err := f.loadLocked(name, value); err != nil {
			return fmt.Errorf("read progress %q: %w", name, err)
		}
	}
	// Changes between a chunk's marks may have passed without being noted.
	for id, c := range f.chunks {
		c.end(errVoid)
		delete(f.chunks, id)
	}
	f.running, f.trouble = true, ""
	f.tellLocked()
	return nil
}

func (f *flow) loadLocked(name, value string) error {
	kind, rest, _ := strings.Cut(name, "/")
	switch kind {
	case "asof":
		p, err := ParsePosition(value)
		f.asOf = p
		return err
	case "copied":
		table, err := strconv.Atoi(rest)
		if err != nil {
			return err
		}
		fr, err := parseFrontier(value)
		f.copied[table] = fr
		return err
	case "reread":
		ids, err := parseIDs(value)
		for _, id := range ids {
			f.rereads[id] = struct{}{}
		}
		return err
	case "refill":
		ids, err := parseIDs(value)
		for _, id := range ids {
			f.refill[id] = name
		}
		return err
	}
	return nil
}

// event takes one event.
func (x *session) event(ctx context.Context, e *Event) error {
	switch e.Op {
	case Begin:
		x.began = e.Time
		return nil
	case Mark:
		x.position = e.Position
		if err := x.markEvent(ctx, e); err != nil {
			return err
		}
	case Commit:
		x.position = e.Position
		if x.careful {
			return x.commitHeld(ctx)
		}
	default:
		e.Time = x.began
		if x.careful {
			x.held = append(x.held, e.Clone())
			return nil
		}
		return x.change(ctx, e)
	}
	if x.due() {
		return x.commit(ctx)
	}
	return nil
}

func (x *session) due() bool {
	if x.careful {
		return true
	}
	waiting := x.changes > 0 || len(x.passed) > 0 || len(x.ended) > 0 || len(x.progress) > 0 || !x.f.log.idle()
	if !waiting {
		return time.Since(x.last) > idleCommit
	}
	return !x.s.Ready() || x.changes >= batchChanges || time.Since(x.since) > batchTime
}

// commit makes all so far durable on the sink and tells those who wait.
func (x *session) commit(ctx context.Context) error {
	f := x.f
	durable := f.log.commit(x.progress)
	if err := x.w.Commit(ctx, x.position, x.progress); err != nil {
		return x.blame(fmt.Errorf("commit at %s: %w", x.position, err))
	}
	durable()
	x.s.Confirm(x.position)
	x.last = time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.applied, f.stamp = x.position, x.w.Stamp()
	f.changes += int64(x.changes)
	for table, fr := range x.copied {
		f.copied[table] = fr
	}
	for _, id := range x.filled {
		delete(f.refill, id)
	}
	for _, text := range x.passed {
		if done := f.marks[text]; done != nil {
			done()
			delete(f.marks, text)
		}
	}
	for _, c := range x.ended {
		c.end(nil)
		delete(f.chunks, c.id)
	}
	x.changes, x.passed, x.ended, x.copied, x.filled = 0, nil, nil, nil, nil
	clear(x.progress)
	f.tellLocked()
	return nil
}

// blame hands a refusal to the chunks of the batch, if there were any: it may
// be about their rows, and the changes alone show whether it was.
func (x *session) blame(err error) error {
	var refused *RowError
	if len(x.ended) == 0 || !errors.As(err, &refused) {
		return err
	}
	x.f.mu.Lock()
	defer x.f.mu.Unlock()
	for _, c := range x.ended {
		c.end(err)
		delete(x.f.chunks, c.id)
	}
	return &chunkError{err}
}

// chunkError is a refusal that its chunk's owner was told of.
type chunkError struct{ err error }

func (e *chunkError) Error() string { return e.err.Error() }

// markEvent takes a mark: of this flow and mover, or one that only tells a
// position.
func (x *session) markEvent(ctx context.Context, e *Event) error {
	rest, ours := strings.CutPrefix(e.Text, x.f.stream+"|"+strconv.FormatInt(x.f.token, 10)+"|")
	if !ours {
		return nil
	}
	if x.changes == 0 && len(x.passed) == 0 {
		x.since = time.Now()
	}
	kind, id, _ := strings.Cut(rest, "|")
	switch kind {
	case "low":
		x.low(id)
	case "high":
		return x.high(ctx, id)
	default:
		x.passed = append(x.passed, e.Text)
	}
	return nil
}

// beatEvery is how often a flow measures its lag.
const beatEvery = 500 * time.Millisecond
