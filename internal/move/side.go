package move

import (
	"context"
	"time"
)

// Side is a store that takes part in a move, with the tables of one plan.
// PostgreSQL (move/pg) and Varve (move/cql) are sides; either may be origin
// or target of a stream, since the mirror runs the other way.
type Side interface {
	// String names the store for people: kind, version, address, without
	// passwords.
	String() string

	// Check looks at everything that the side needs for its part and returns
	// what is wrong or dear, each with the statements that mend it.
	Check(ctx context.Context, part Part) ([]Finding, error)

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
	// order with all changes, and returns its position.
	Mark(ctx context.Context, content string) (Position, error)
	// Retained returns how many bytes of changes the stream holds back, and how
	// many more it may before the side gives it up (negative: no limit).
	Retained(ctx context.Context, stream string) (held, left int64, err error)

	// Split cuts a table into ranges of about n rows each in key order,
	// without reading all of it where the side can.
	Split(ctx context.Context, table, n int) ([]Range, error)
	// Read returns up to limit rows of the range in key order.
	Read(ctx context.Context, table int, r Range, limit int) ([]Row, error)
	// ReadKeys returns the rows with these keys, nil for one that is not there.
	ReadKeys(ctx context.Context, table int, keys []Row) ([]Row, error)
	// Digest hashes what the side itself returns for the range. Two sides give
	// equal digests for equal rows.
	Digest(ctx context.Context, table int, r Range) (Digest, error)

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
	// Time is the commit time, given with Begin and Commit.
	Time time.Time
	// Text is the content of a Mark; a Mark without text is a heartbeat of the
	// source, there so that positions go on while nothing is written.
	Text string
	// Hidden are keys, given with a Mark, of changes that lie before it in the
	// stream and that a read begun after it may nevertheless not see: a store may
	// log a commit a moment before it shows it. Who reads rows after a mark must
	// take these keys as changed after it. HiddenAll says that there are too many
	// to list: the read has to be made again with another mark.
	Hidden    []TableKey
	HiddenAll bool
	// Stamp is the write timestamp in microseconds where the source has one.
	Stamp int64
}

// TableKey names a row.
type TableKey struct {
	Table int
	Key   Row
}

// KeySpan covers the rows whose first key columns equal Prefix and whose next
// one lies between the bounds; a nil bound is open.
type KeySpan struct {
	Prefix             Row
	From, To           []byte
	FromOpen, ToOpen   bool
	FromValue, ToValue bool
}

// Stream reads changes in commit order. Next may be called from one
// goroutine; Confirm from any.
type Stream interface {
	// Next returns the next event, valid until the next call. Changes that the
	// move's own writer made on this side (by replication origin or mark) are
	// left out.
	Next(ctx context.Context) (*Event, error)
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
	// Progress returns what Commit kept for the key.
	Progress(ctx context.Context, key string) (string, error)
	// Apply writes one event. With upsert, an insert or update of a row that is
	// there or not there is right either way (the copy may be under way); without,
	// a row that is missing or there already is an error that names it.
	Apply(ctx context.Context, e *Event, upsert bool) error
	// Copy writes copied rows that are not on this side yet; a row that is there
	// stays as it is.
	Copy(ctx context.Context, table int, rows []Row, asOf Position) error
	// Repair makes this side's rows with these keys equal to rows (nil: delete),
	// so that the repair wins over what was written before.
	Repair(ctx context.Context, table int, keys, rows []Row) error
	Commit(ctx context.Context, p Position, progress map[string]string) error
	Close(ctx context.Context) error
}

// Fence keeps everybody but the move's own writer from changing the moved
// tables; the store itself does the keeping.
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
	// KeepFence makes a raised fence permanent.
	KeepFence(ctx context.Context, generation int64) error
	RemoveFence(ctx context.Context) error
}
