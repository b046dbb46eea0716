package move

import (
	"context"
	"errors"
	"time"
)

// State is where a move stands.
type State string

// The states. The ones in -ing are steps under way; a mover that finds one
// begins the step again.
const (
	Planned       State = "planned"
	Preparing     State = "preparing"
	Copying       State = "copying"
	Following     State = "following" // copied, not yet verified
	Verified      State = "verified"
	Shadowing     State = "shadowing"
	ReadsSwitched State = "reads_switched"
	CuttingOver   State = "cutting_over"
	CutOver       State = "cut_over"
	RollingBack   State = "rolling_back"
	RolledBack    State = "rolled_back" // as following, after a cutover that was taken back
	Finished      State = "finished"
	Aborted       State = "aborted"
)

// Errors of the state store.
var (
	ErrNoMove     = errors.New("there is no such move")
	ErrMoveExists = errors.New("a move of this name is there already")
	// ErrLeaseHeld says that another mover owns the move.
	ErrLeaseHeld = errors.New("another mover owns the move")
	// ErrLeaseLost says that the lease ran out or was taken: this mover may do
	// nothing more.
	ErrLeaseLost = errors.New("the mover's lease is lost")
	// ErrConflict says that the record is no longer as the caller loaded it.
	ErrConflict = errors.New("the move's state has changed meanwhile")
	// ErrIntentPending says that an earlier command is still being carried out.
	ErrIntentPending = errors.New("an earlier command is still being carried out")
)

// Record is one move as its state row has it. Everything down to Trouble is
// changed by Transition alone.
type Record struct {
	Move       string
	State      State
	Generation int64 // grows by one with every transition
	// Back is the state to return to when a cutover or a rollback under way
	// fails.
	Back State
	// Canonical is the side whose writes count: Origin until the cutover.
	Canonical Part
	// ReadPercent of the reads are answered by the target.
	ReadPercent int
	// Shadow says that app nodes send reads to the other side too and compare.
	Shadow bool
	// ShadowSince is the generation of the transition that turned Shadow on: the
	// Epoch of the nodes' counts.
	ShadowSince int64
	Paused      bool
	// File is the move file as it was at start. It has no passwords.
	File    []byte
	Budgets []Budget
	// StampFloor is greater than every write timestamp that the move gave; the
	// canonical side's writers start above it. Microseconds, 0 for no floor.
	StampFloor int64
	// Intent is the command that waits to be carried out, nil for none.
	Intent *Intent
	// Result is how the last intent ended.
	Result *Result
	// Trouble says why the move does not go on by itself, empty if it does.
	Trouble string

	// Live is what the mover last reported with Report.
	Live Live

	Owner      string // of the lease, empty when nobody holds it
	Token      int64  // fencing token of the last lease given
	LeaseUntil time.Time
	Created    time.Time
	Changed    time.Time // of the last transition
	// Loaded is the store's own time when the record was read: LeaseUntil and
	// nodes' times compare with it, not with this machine's clock.
	Loaded time.Time
}

// Owned reports whether a mover held the lease when the record was read.
func (r *Record) Owned() bool { return r.Owner != "" && r.Loaded.Before(r.LeaseUntil) }

// Budget is a pass mark, written down before the step that it judges.
type Budget struct {
	Step State
	Name string // "write p95"
	// Rule says how the limit came about: "1.5 times the baseline of 2.2 ms".
	Rule  string
	Limit float64
	Unit  string // "ms", "s", "comparisons"
	// Least says that the measured value must be at least Limit, not at most.
	Least bool
	// Measured is nil until the step was judged.
	Measured *float64
	Set      time.Time
}

// Met reports whether the budget was measured and kept.
func (b *Budget) Met() bool {
	if b.Measured == nil {
		return false
	}
	if b.Least {
		return *b.Measured >= b.Limit
	}
	return *b.Measured <= b.Limit
}

// Intent is a command for whoever owns the move.
type Intent struct {
	ID   int64
	Verb string // "pause", "cutover", ...
	Args map[string]string
	By   string // who asked: user and machine
	At   time.Time
}

// Result is how an intent ended.
type Result struct {
	Intent int64
	OK     bool
	Text   string
	// Details are figures of the step, name to value with its unit.
	Details map[string]string
}

// Entry is one line of a move's history, written with a transition.
type Entry struct {
	At         time.Time
	By         string
	From, To   State
	Generation int64
	Why        string
	// Measured are figures with their budgets, one sentence each.
	Measured []string
}

// Live are the mover's figures of this moment, for people and metrics. They
// decide nothing.
type Live struct {
	At     time.Time
	Tables []TableLive
	// Rate is copied rows a second over the last seconds, Limit what the limiter
	// allows, Reason why not more.
	Rate, Limit float64
	Reason      string
	// Remaining is how long the copy will take at this rate, in seconds.
	Remaining float64
	Flows     []FlowLive
	// Latency is the app's p95 in milliseconds, Baseline what it was before.
	Latency, Baseline float64
	// Touched keys wait to be compared again, Differences were found and stand.
	Touched, Differences int64
	Note                 string
}

// TableLive is how far one table is.
type TableLive struct {
	Table            string
	Rows             int64 // estimated
	Copied, Verified int64
	Done             bool // the copy
}

// FlowLive is how far one direction is.
type FlowLive struct {
	Stream   string
	Position string
	// Lag is the time from a mark's commit in the source to its commit in the
	// sink, in milliseconds; negative when unknown.
	Lag     float64
	Changes int64 // applied since the mover started
	// Held and Left are bytes of log that the source keeps for the stream, and
	// may keep yet (negative: no limit).
	Held, Left int64
	// Refill keys could not be mirrored and wait to be filled.
	Refill  int64
	Trouble string
}

// Lease is the right to carry a move on. Its token is greater than that of
// every lease before.
type Lease struct {
	Move, Owner string
	Token       int64
	TTL         time.Duration
}

// Node is what one app node that uses the package reports.
type Node struct {
	Name       string
	Generation int64 // last seen by the node
	// Seen is the store's time of the report.
	Seen time.Time
	// WritePosition is of the node's last write, on the canonical side.
	WritePosition string
	// Latencies in milliseconds over the last seconds; 0 when there was no
	// traffic. Origin and Target are of the same reads on either side.
	WriteP95, OriginReadP95, TargetReadP95 float64
	Writes, Reads                          int64
	// Counts since the shadow began: a new Epoch (generation of that
	// transition) starts at zero.
	Epoch                            int64
	Compared, Different, Drop, Error int64
	// OriginReads are reads that the node sent to origin since Epoch.
	OriginReads int64
}

// Sample is a shadow read whose answers differed.
type Sample struct {
	At              time.Time
	Node, Query     string
	Origin, Target  string // the answers, shortened
	OriginMS, Extra float64
}

// DifferenceKind is how a key differs.
type DifferenceKind string

// The kinds of differences.
const (
	Missing   DifferenceKind = "missing"   // on the side that follows
	Extra     DifferenceKind = "extra"     // on the side that follows
	Different DifferenceKind = "different" // the rows' values
	Broken    DifferenceKind = "rule"      // a rule of the user's does not hold
)

// Difference is a key that verification found wrong and found so again.
type Difference struct {
	Table int
	Key   []byte // EncodeRow of the key; for a broken rule the rule's name
	Kind  DifferenceKind
	Shown string // the key and the columns that differ, for people
	Found time.Time
}

// VerifiedRange is a range that verification compares. A table's verification
// begins with putting down all of its ranges.
type VerifiedRange struct {
	Table int
	// Side has the order that the bounds are in. Ranges of origin are enough
	// where both sides have the same order.
	Side     Part
	From, To []byte // EncodeRow of a key, nil without a bound
	// Done says that the rows were equal, but for keys that stand as differences
	// or as touched. What follows is set then.
	Done     bool
	Rows     int64
	Sum      string
	Position string
	At       time.Time
}

// StateStore keeps moves, next to origin's rows. Every method that takes a
// lease checks in the same transaction that its token is the last one given
// and has not run out by the store's clock, and returns ErrLeaseLost else.
type StateStore interface {
	// Install makes what is needed; it can be repeated.
	Install(ctx context.Context) error
	// Create puts a new move down in state Planned, generation 1. A finished or
	// aborted move of the same name is replaced, its history kept.
	Create(ctx context.Context, r *Record) error
	Load(ctx context.Context, move string) (*Record, error)
	List(ctx context.Context) ([]*Record, error)
	// Wait returns when the record may have changed from the generation or the
	// intent, or after the patience.
	Wait(ctx context.Context, move string, generation int64, patience time.Duration) error

	// Ask puts down an intent and returns its id.
	Ask(ctx context.Context, move string, i Intent) (int64, error)

	// Acquire takes the lease if nobody holds it.
	Acquire(ctx context.Context, move, owner string, ttl time.Duration) (Lease, error)
	Renew(ctx context.Context, l Lease) error
	// Release gives the lease back at once; a lost one is no error.
	Release(ctx context.Context, l Lease) error

	// Transition replaces the record by next if it still is at next.Generation,
	// adds the entry to the history and wakes those who wait. The intent alone
	// stays as the store has it, and goes when next.Result is its result: one may
	// have been asked since next was loaded. Where Canonical
	// changes, the row that the fence of origin reads (see Fence) changes in the
	// same transaction, and where it becomes Target the store first makes sure
	// that origin's fence, raised under next.Generation, is up and stays up until
	// the commit (by taking the fence's lock as RaiseFence does), or returns
	// ErrFenceDown. On success next.Generation is the new one.
	Transition(ctx context.Context, l Lease, next *Record, e Entry) error
	// Report stores the mover's live figures.
	Report(ctx context.Context, l Lease, live *Live) error
	// History returns the last entries, newest first.
	History(ctx context.Context, move string, limit int) ([]Entry, error)

	ReportNode(ctx context.Context, move string, n *Node) error
	// Nodes returns all nodes that were seen in the last ten minutes.
	Nodes(ctx context.Context, move string) ([]Node, error)
	// AddSample keeps the sample; only the newest 1000 of a move stay.
	AddSample(ctx context.Context, move string, s *Sample) error
	Samples(ctx context.Context, move string, limit int) ([]Sample, error)

	// PutDifferences adds differences, or replaces those of the same table,
	// key and whether they are of a rule.
	PutDifferences(ctx context.Context, l Lease, ds []Difference) error
	// ClearDifferences takes away those of a table with these keys.
	ClearDifferences(ctx context.Context, l Lease, table int, keys [][]byte) error
	// Differences returns up to limit of them by table and key, and how many
	// there are.
	Differences(ctx context.Context, move string, limit int) ([]Difference, int64, error)

	// PutRanges adds ranges, or replaces those of the same table, side and From.
	// ForgetRanges drops those of a table, all tables' if it is negative.
	PutRanges(ctx context.Context, l Lease, rs []VerifiedRange) error
	ForgetRanges(ctx context.Context, l Lease, table int) error
	Ranges(ctx context.Context, move string, table int) ([]VerifiedRange, error)

	// Remove takes the whole schema away if no move is left but finished and
	// aborted ones.
	Remove(ctx context.Context) error
	Close(ctx context.Context) error
}
