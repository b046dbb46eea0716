package move

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Errors of the sides.
var (
	// ErrFenceBusy says that writers did not end within the patience: the fence
	// is down again.
	ErrFenceBusy = errors.New("writers did not end in time for the fence")
	// ErrFenceGeneration says that the fence was used under a later generation
	// already: the caller's knowledge is old.
	ErrFenceGeneration = errors.New("the fence has been used under a later generation")
	// ErrFenceDown says that the fence's deadline passed before it was kept:
	// others may have written since.
	ErrFenceDown = errors.New("the fence has lifted itself already")
	// ErrWriterLost says that another writer was opened: this one wrote nothing
	// with the call that returned it, and never will again.
	ErrWriterLost = errors.New("another writer has taken over")
	// ErrStreamLost says that the source no longer has all changes after the
	// position: following on would skip some.
	ErrStreamLost = errors.New("the source no longer keeps all changes of the stream")
	// ErrSchemaChanged says that a moved table's definition changed.
	ErrSchemaChanged = errors.New("a moved table was altered")
)

// RowError is a refusal of single rows by a sink: a constraint, a value out of
// range. Trying again changes nothing; other rows may well be written.
type RowError struct {
	Table int
	Err   error
}

func (e *RowError) Error() string { return fmt.Sprintf("table %d: %v", e.Table, e.Err) }

// Unwrap returns what the sink said.
func (e *RowError) Unwrap() error { return e.Err }

// Side is a store that takes part in a move, with the tables of one plan.
// PostgreSQL (move/pg) and Varve (move/cql) are sides; either may be origin
// or target of a stream, since the mirror runs the other way.
type Side interface {
	// String names the store for people: kind, version, address, without
	// passwords.
	String() string

	// Bind looks up the mapped tables and is called once, before every other
	// method but String and Close. Origin is bound first, with nil for origin's
	// tables; it decides order and types. The target is bound with what origin
	// returned and gives its own names in the same order. What cannot be mapped,
	// or not without loss, is a finding that stops.
	Bind(ctx context.Context, part Part, maps []TableMap, origin []Table) ([]Table, []Finding, error)

	// Check looks at everything that the side needs for its part and returns
	// what is wrong or dear, each with the statements that mend it.
	Check(ctx context.Context, part Part) ([]Finding, error)

	// Prepare makes what the move needs on this side besides streams and fence:
	// a schema of its own, progress, the canary's table. It can be repeated.
	Prepare(ctx context.Context) error
	// Remove takes away what Prepare made.
	Remove(ctx context.Context) error
	// DropTables drops the moved tables themselves.
	DropTables(ctx context.Context) error
	// Long describes the transactions that have been open for longer than age,
	// and prepared ones: they would hold up the fence.
	Long(ctx context.Context, age time.Duration) ([]string, error)

	// OpenStream makes sure that changes are kept from now on under the
	// stream's name (a publication and slot, a feed consumer) and returns the
	// position from which they are. It can be repeated.
	OpenStream(ctx context.Context, stream string) (Position, error)
	// Follow reads the stream's changes after a position.
	Follow(ctx context.Context, stream string, after Position) (Stream, error)
	// DropStream forgets the stream; one that is not there is no error.
	DropStream(ctx context.Context, stream string) error
	// Now returns a position that covers every change committed before the
	// call.
	Now(ctx context.Context) (Position, error)
	// Mark puts content into the streams as an event of its own, in commit
	// order with all changes, and returns its position. A read that starts after
	// Mark returned sees every change before the mark (mind the moment between a
	// transaction's place in the log and its visibility), and what a read saw lies
	// before a Mark that starts after it.
	Mark(ctx context.Context, content string) (Position, error)
	// Retained returns how many bytes of changes the stream holds back, and how
	// many more it may before the side gives it up (negative: no limit).
	Retained(ctx context.Context, stream string) (held, left int64, err error)

	// Rows estimates a table's size.
	Rows(ctx context.Context, table int) (int64, error)
	// Order names the order that a table's keys have on this side: sides that
	// return the same name cover the same rows with the same Range.
	Order(table int) string
	// Split cuts a table into ranges of about n rows each in key order,
	// without reading all of it where the side can.
	Split(ctx context.Context, table, n int) ([]Range, error)
	// Read returns up to limit rows of the range in key order.
	Read(ctx context.Context, table int, r Range, limit int) ([]Row, error)
	// ReadKeys returns the rows with these keys, nil for one that is not there.
	ReadKeys(ctx context.Context, table int, keys []Row) ([]Row, error)
	// ReadSpan returns up to limit rows of a span, those after a key (nil: from
	// its start).
	ReadSpan(ctx context.Context, table int, s KeySpan, after Row, limit int) ([]Row, error)
	// Digest hashes what the side itself returns for the range. Two sides give
	// equal digests for equal rows.
	Digest(ctx context.Context, table int, r Range) (Digest, error)

	// CheckRule returns the keys of rows that break the rule, at most limit.
	CheckRule(ctx context.Context, rule *Rule, limit int) ([]Row, error)

	// Canary writes n into the stream's row of the canary table, durably and as
	// an app would, not as the move's writer: it travels as an event of
	// CanaryTable. ReadCanary returns the row's n, 0 if there is none.
	Canary(ctx context.Context, stream string, n int64) error
	ReadCanary(ctx context.Context, stream string) (int64, error)
	// Counters returns the sequences behind moved columns, by a name that both
	// sides share, each with the greatest value given; RaiseCounters sets them to
	// at least these. Sides without sequences have none and ignore them.
	Counters(ctx context.Context) (map[string]int64, error)
	RaiseCounters(ctx context.Context, c map[string]int64) error
	// Scans counts the reads of moved tables so far, whoever made them, and
	// describes who is connected and reads them, the move itself left out.
	Scans(ctx context.Context) (int64, []string, error)

	// Write opens the one writer of a stream's changes into this side. A
	// writer opened later, by whatever process, ends the powers of this one.
	Write(ctx context.Context, stream string) (Writer, error)

	Fence
	Close(ctx context.Context) error
}

// Part is what a side does in a move.
type Part uint8

// The parts.
const (
	Origin Part = iota
	Target
)

// Finding is something that a check found.
type Finding struct {
	// Stops says that the move cannot start before it is mended.
	Stops bool
	// Object names what it is about: a setting, a table, a column.
	Object string
	// What says what is wrong, or what it costs.
	What string
	// Mend are statements that mend it, for whoever may run them.
	Mend []string
}

func (p Part) String() string {
	if p == Origin {
		return "origin"
	}
	return "target"
}

// Other returns the opposite part.
func (p Part) Other() Part { return 1 - p }

// TableMap is a table as the move file maps it.
type TableMap struct {
	// From and To are schema.table; To is keyspace.table in Varve.
	From, To string
	// Key are origin's names of the columns of the target's key; empty for
	// origin's primary key.
	Key []string
	// Columns are origin's names to the target's, where they differ.
	Columns map[string]string
	// Ignore are origin's columns that do not move.
	Ignore []string
	// Constants are values of columns that only the target has, as text in the
	// target's own form.
	Constants map[string]string
}

// Rule is something that must hold for the rows of a table, on either side.
type Rule struct {
	Name  string
	Table int
	// Unique are columns (positions in Table.Columns) that together are unique.
	Unique []int
	// Check is a condition that must not be false for a row, nil for none.
	Check *Expr
}

// CanaryTable is Event.Table for the canary: rows of (stream text, n int8),
// text and eight bytes big-endian.
const CanaryTable = -1

// Digest is an order-free hash of rows.
type Digest struct {
	Rows int64
	Sum  [2]uint64
}

// Op is what an event does.
type Op uint8

// The operations. Begin and Commit enclose the changes of one transaction, in
// commit order; a Mark stands for itself.
const (
	Begin Op = iota
	Insert
	Update
	Delete
	DeleteRange
	Truncate
	Commit
	Mark
)

// Event is one step of a stream.
type Event struct {
	Op    Op
	Table int
	// Old is the row before an update or delete: whole where the source keeps
	// it, else only its key columns (the others nil, Partial set). It is nil
	// where an update did not change the key.
	Old     Row
	Partial bool
	New     Row
	// Unchanged are columns whose value New does not tell: the update left it as
	// it was, or the store computes it (a generated column, in inserts too).
	Unchanged []int
	// Span is what a DeleteRange covers.
	Span *KeySpan
	// Position is given with Commit and Mark: all changes up to and with it.
	Position Position
	// Time is the commit time, given with Begin and Commit, and with the changes
	// that a writer is given.
	Time time.Time
	// Text is the content of a Mark; a Mark without text is a heartbeat of the
	// source, there so that positions go on while nothing is written.
	Text string
	// Stamp is the write timestamp in microseconds where the source has one.
	Stamp int64
}

// KeySpan covers the rows whose first key columns equal Prefix and whose next
// one lies between the bounds; a nil bound is open.
type KeySpan struct {
	Prefix             Row
	From, To           []byte
	FromOpen, ToOpen   bool
	FromValue, ToValue bool
}

// Stream reads changes in commit order. Next and Ready may be called from one
// goroutine; Confirm from any.
type Stream interface {
	// Next returns the next event, valid until the next call of Next or Ready.
	// Changes that the move's own writer made on this side (by replication origin
	// or mark) are left out.
	Next(ctx context.Context) (*Event, error)
	// Ready reports whether Next has an event at hand and would not wait. What
	// makes no event does not count: a commit is held back while it is true.
	Ready() bool
	// Confirm tells the source that everything up to p is durable on the other
	// side.
	Confirm(p Position)
	// Heard is the position up to which the source has said all it has.
	Heard() Position
	Close() error
}

// Writer writes a stream's changes and copied rows. Everything between two
// Commits becomes durable and visible together with the position, or not at
// all (Varve: not at all, or again from the last position).
type Writer interface {
	// Applied is the position of the last Commit, kept on this side.
	Applied() Position
	// Stamp is greater than every write timestamp given so far, 0 where this side
	// has none.
	Stamp() int64
	// Progress returns what Commit kept for keys with the prefix.
	Progress(ctx context.Context, prefix string) (map[string]string, error)
	// Apply writes one event, or queues it until Commit. An insert or update
	// writes the row whether it is there or not, and a delete of a row that is
	// not there does nothing: the copy may be under way. An update that leaves
	// columns unchanged writes nothing where there is no row; where it changes
	// the key it moves the row, unchanged values included.
	Apply(ctx context.Context, e *Event) error
	// Copy writes copied rows that are not on this side yet; a row that is there
	// stays as it is.
	Copy(ctx context.Context, table int, rows []Row, asOf Position) error
	// Repair makes this side's rows with these keys equal to rows (nil: delete),
	// so that the repair wins over what was written before.
	Repair(ctx context.Context, table int, keys, rows []Row) error
	// Commit makes everything since the last Commit durable, with the position
	// and the progress; an empty value takes the key away. An error of it, or of
	// a method before, leaves the writer fit only for Close.
	Commit(ctx context.Context, p Position, progress map[string]string) error
	Close(ctx context.Context) error
}

// Fence keeps everybody but the move's own writer from changing the moved
// tables; the store itself does the keeping. The canary's table is not fenced.
//
// A fence is up while its deadline has not passed, or while it is kept. On
// origin, where the state rows lie, it is also up whenever the move's row says
// that the target is canonical (read past every snapshot, as with FOR SHARE):
// so the transition that cuts over keeps the fence by itself, and the one that
// rolls back lifts it. A call under a generation below the last one used
// changes nothing and returns ErrFenceGeneration.
type Fence interface {
	// InstallFence puts what is needed in place, open. It can be repeated.
	InstallFence(ctx context.Context) error
	// RaiseFence closes the tables under a generation: when it returns, every
	// change made by others has committed or will be refused. It waits for
	// writers at most for the patience; ErrFenceBusy then leaves all as it was.
	// A fence that is not made permanent lifts itself after the deadline.
	RaiseFence(ctx context.Context, generation int64, patience, deadline time.Duration) error
	// LiftFence opens the tables again.
	LiftFence(ctx context.Context, generation int64) error
	// KeepFence makes a raised fence permanent, or returns ErrFenceDown.
	KeepFence(ctx context.Context, generation int64) error
	RemoveFence(ctx context.Context) error
}
