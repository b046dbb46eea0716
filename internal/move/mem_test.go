package move

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// memDB is a small store: rows, a log of what was committed, a fence, and what
// movers keep there. All of it is atomic under one mutex.
type memDB struct {
	mu      sync.Mutex
	news    chan struct{}
	tables  []map[string]Row
	log     []memTx
	streams map[string]uint64 // first position kept
	writers map[string]*memWriterState
	canary  map[string]int64
	seq     map[string]int64
	fence   memFence
	// canonical is the row that origin's fence reads; on a target it stays.
	canonical Part
	isOrigin  bool
	open      int                          // transactions that hold up the fence
	refuses   func(table int, r Row) error // rows that a constraint refuses
	scans     int64
	leaky     bool // planted: the fence lets everybody through
}

type memFence struct {
	installed bool
	gen       int64
	until     time.Time
	kept      bool
}

type memWriterState struct {
	epoch    int
	applied  Position
	progress map[string]string
}

type memTx struct {
	at      uint64
	mover   bool
	mark    string
	isMark  bool
	changes []Event
	time    time.Time
}

var errFenced = errors.New("varve_move: writes go elsewhere")

func newMemDB(tables int, origin bool) *memDB {
	db := &memDB{
		news: make(chan struct{}), streams: map[string]uint64{}, writers: map[string]*memWriterState{}, isOrigin: origin,
		canary: map[string]int64{}, seq: map[string]int64{},
	}
	for range tables {
		db.tables = append(db.tables, map[string]Row{})
	}
	return db
}

func (db *memDB) fencedLocked() bool {
	f := &db.fence
	if db.leaky || !f.installed {
		return false
	}
	return f.kept || time.Now().Before(f.until) || db.isOrigin && db.canonical == Target
}

func (db *memDB) appendLocked(tx memTx) uint64 {
	tx.at, tx.time = uint64(len(db.log)+1), time.Now()
	db.log = append(db.log, tx)
	close(db.news)
	db.news = make(chan struct{})
	return tx.at
}

// write commits an app's transaction, or refuses it.
func (db *memDB) write(changes ...Event) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.fencedLocked() {
		return errFenced
	}
	for i := range changes {
		db.applyLocked(&changes[i])
	}
	db.appendLocked(memTx{changes: changes})
	return nil
}

// applyLocked changes rows as the event says, and leaves in it what the log
// tells: no old row but its key where it changed, and no value that stayed.
func (db *memDB) applyLocked(e *Event) {
	rows := db.tables[e.Table]
	switch e.Op {
	case Insert:
		rows[memKey(e.New)] = e.New.Clone()
	case Delete:
		delete(rows, memKey(e.Old))
		e.Partial = true
	case Truncate:
		clear(rows)
	case DeleteRange:
		for k, r := range rows {
			if e.Span.covers(r[:1]) {
				delete(rows, k)
			}
		}
	case Update:
		old := memKey(e.New)
		if e.Old != nil {
			old = memKey(e.Old)
			e.Partial = true
		}
		was := rows[old]
		now := e.New.Clone()
		for _, c := range e.Unchanged {
			now[c] = was[c]
			e.New[c] = nil
		}
		delete(rows, old)
		rows[memKey(now)] = now
	}
}

// covers is for a span of tables whose key is one column.
func (s *KeySpan) covers(key Row) bool {
	low := s.From == nil || bytes.Compare(key[0], s.From) > 0 || !s.FromOpen && bytes.Equal(key[0], s.From)
	high := s.To == nil || bytes.Compare(key[0], s.To) < 0 || !s.ToOpen && bytes.Equal(key[0], s.To)
	return low && high
}

// memKey is the key of a row: its first column.
func memKey(r Row) string { return string(EncodeRow(nil, r[:1])) }

func (db *memDB) sorted(table int, r Range) []Row {
	var out []Row
	for _, row := range db.tables[table] {
		if (r.From == nil || bytes.Compare(row[0], r.From[0]) > 0) && (r.To == nil || bytes.Compare(row[0], r.To[0]) <= 0) {
			out = append(out, row.Clone())
		}
	}
	slices.SortFunc(out, func(a, b Row) int { return bytes.Compare(a[0], b[0]) })
	return out
}

// memSide is one mover's view of a store. Its hook runs before every call and
// may fail it, or end the mover.
type memSide struct {
	db     *memDB
	tables []Table
	order  string
	hook   func(ctx context.Context, call string) error
	plant  plant
	low    string // held back by plantLateLow
}

// plant is an error made on purpose.
type plant int

const (
	plantNone plant = iota
	plantLateLow
	plantLoseDeletes
)

var _ Side = (*memSide)(nil)

func (s *memSide) call(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.hook == nil {
		return nil
	}
	return s.hook(ctx, name)
}

func (s *memSide) String() string { return "memory" }

func (s *memSide) Bind(ctx context.Context, _ Part, maps []TableMap, _ []Table) ([]Table, []Finding, error) {
	return s.tables[:len(maps)], nil, s.call(ctx, "bind")
}

func (s *memSide) Check(ctx context.Context, _ Part) ([]Finding, error) {
	return nil, s.call(ctx, "check")
}
func (s *memSide) Prepare(ctx context.Context) error { return s.call(ctx, "prepare") }

func (s *memSide) Remove(ctx context.Context) error {
	if err := s.call(ctx, "remove"); err != nil {
		return err
	}
	defer s.lock()()
	clear(s.db.writers)
	return nil
}

func (s *memSide) DropTables(ctx context.Context) error {
	if err := s.call(ctx, "droptables"); err != nil {
		return err
	}
	defer s.lock()()
	for i := range s.db.tables {
		clear(s.db.tables[i])
	}
	return nil
}

func (s *memSide) Long(ctx context.Context, _ time.Duration) ([]string, error) {
	return nil, s.call(ctx, "long")
}

func (s *memSide) lock() func() {
	s.db.mu.Lock()
	return s.db.mu.Unlock
}

func (s *memSide) OpenStream(ctx context.Context, stream string) (Position, error) {
	if err := s.call(ctx, "openstream"); err != nil {
		return nil, err
	}
	defer s.lock()()
	if _, ok := s.db.streams[stream]; !ok {
		s.db.streams[stream] = uint64(len(s.db.log)) + 1
	}
	return Position{s.db.streams[stream] - 1}, nil
}

func (s *memSide) DropStream(ctx context.Context, stream string) error {
	if err := s.call(ctx, "dropstream"); err != nil {
		return err
	}
	defer s.lock()()
	delete(s.db.streams, stream)
	return nil
}

func (s *memSide) Now(ctx context.Context) (Position, error) {
	defer s.lock()()
	return Position{uint64(len(s.db.log))}, ctx.Err()
}

func (s *memSide) Mark(ctx context.Context, content string) (Position, error) {
	if err := s.call(ctx, "mark"); err != nil {
		return nil, err
	}
	defer s.lock()()
	if s.plant == plantLateLow && bytes.Contains([]byte(content), []byte("|low|")) {
		s.low = content
		return nil, nil
	}
	if s.low != "" && bytes.Contains([]byte(content), []byte("|high|")) {
		s.db.appendLocked(memTx{isMark: true, mark: s.low})
		s.low = ""
	}
	return Position{s.db.appendLocked(memTx{isMark: true, mark: content})}, nil
}

func (s *memSide) Retained(ctx context.Context, _ string) (int64, int64, error) {
	return 0, -1, ctx.Err()
}

func (s *memSide) Rows(ctx context.Context, table int) (int64, error) {
	defer s.lock()()
	return int64(len(s.db.tables[table])), ctx.Err()
}
func (s *memSide) Order(int) string { return s.order }

func (s *memSide) Split(ctx context.Context, table, n int) ([]Range, error) {
	if err := s.call(ctx, "split"); err != nil {
		return nil, err
	}
	defer s.lock()()
	rows := s.db.sorted(table, Range{})
	var out []Range
	var from Row
	for i := n / 100; i < len(rows); i += n / 100 { // small ranges, so that tests have many
		to := rows[i][:1]
		out = append(out, Range{from, to})
		from = to
	}
	return append(out, Range{From: from}), nil
}

func (s *memSide) Read(ctx context.Context, table int, r Range, limit int) ([]Row, error) {
	if err := s.call(ctx, "read"); err != nil {
		return nil, err
	}
	s.db.mu.Lock()
	rows := s.db.sorted(table, r)
	s.db.mu.Unlock()
	if len(rows) > limit {
		rows = rows[:limit]
	}
	return rows, s.call(ctx, "read") // a moment between the snapshot and the answer
}

func (s *memSide) ReadKeys(ctx context.Context, table int, keys []Row) ([]Row, error) {
	if err := s.call(ctx, "readkeys"); err != nil {
		return nil, err
	}
	s.db.mu.Lock()
	out := make([]Row, len(keys))
	for i, k := range keys {
		out[i] = s.db.tables[table][string(EncodeRow(nil, k))].Clone()
	}
	s.db.mu.Unlock()
	return out, s.call(ctx, "readkeys")
}

func (s *memSide) ReadSpan(ctx context.Context, table int, span KeySpan, after Row, limit int) ([]Row, error) {
	if err := s.call(ctx, "readspan"); err != nil {
		return nil, err
	}
	defer s.lock()()
	rows := slices.DeleteFunc(s.db.sorted(table, Range{From: after}), func(r Row) bool { return !span.covers(r[:1]) })
	return rows[:min(limit, len(rows))], nil
}

func (s *memSide) Digest(ctx context.Context, table int, r Range) (Digest, error) {
	if err := s.call(ctx, "digest"); err != nil {
		return Digest{}, err
	}
	defer s.lock()()
	var d Digest
	for _, row := range s.db.sorted(table, r) {
		d.Add(row)
	}
	return d, nil
}

func (s *memSide) CheckRule(ctx context.Context, rule *Rule, limit int) ([]Row, error) {
	if err := s.call(ctx, "rule"); err != nil {
		return nil, err
	}
	defer s.lock()()
	var out []Row
	for _, r := range s.db.sorted(rule.Table, Range{}) {
		bad, err := rule.Check.False(&s.tables[rule.Table], r)
		if err != nil {
			return nil, err
		}
		if bad && len(out) < limit {
			out = append(out, r[:1])
		}
	}
	return out, nil
}

func (s *memSide) Canary(ctx context.Context, stream string, n int64) error {
	if err := s.call(ctx, "canary"); err != nil {
		return err
	}
	defer s.lock()()
	s.db.canary[stream] = n
	s.db.appendLocked(memTx{changes: []Event{{Op: Update, Table: CanaryTable, New: Row{[]byte(stream), int8Of(n)}}}})
	return nil
}

func (s *memSide) ReadCanary(ctx context.Context, stream string) (int64, error) {
	if err := s.call(ctx, "readcanary"); err != nil {
		return 0, err
	}
	defer s.lock()()
	return s.db.canary[stream], nil
}

func (s *memSide) Counters(ctx context.Context) (map[string]int64, error) {
	defer s.lock()()
	return maps.Clone(s.db.seq), ctx.Err()
}

func (s *memSide) RaiseCounters(ctx context.Context, c map[string]int64) error {
	if err := s.call(ctx, "counters"); err != nil {
		return err
	}
	defer s.lock()()
	for k, n := range c {
		s.db.seq[k] = max(s.db.seq[k], n)
	}
	return nil
}

func (s *memSide) Scans(ctx context.Context) (int64, []string, error) {
	defer s.lock()()
	return s.db.scans, nil, ctx.Err()
}

func (s *memSide) Write(ctx context.Context, stream string) (Writer, error) {
	if err := s.call(ctx, "write"); err != nil {
		return nil, err
	}
	defer s.lock()()
	st := s.db.writers[stream]
	if st == nil {
		st = &memWriterState{progress: map[string]string{}}
		s.db.writers[stream] = st
	}
	st.epoch++
	return &memWriter{s: s, st: st, epoch: st.epoch, applied: st.applied}, nil
}

func (s *memSide) InstallFence(ctx context.Context) error {
	if err := s.call(ctx, "installfence"); err != nil {
		return err
	}
	defer s.lock()()
	s.db.fence.installed = true
	return nil
}

// fenceCall checks a fence's generation, as every call of it must.
func (s *memSide) fenceCall(ctx context.Context, name string, gen int64, do func(f *memFence) error) error {
	if err := s.call(ctx, name); err != nil {
		return err
	}
	err := func() error {
		defer s.lock()()
		f := &s.db.fence
		if gen < f.gen {
			return fmt.Errorf("%w: %d after %d", ErrFenceGeneration, gen, f.gen)
		}
		f.gen = gen
		return do(f)
	}()
	if err != nil {
		return err
	}
	return s.call(ctx, name) // a moment between the effect and the answer
}

func (s *memSide) RaiseFence(ctx context.Context, gen int64, patience, deadline time.Duration) error {
	return s.fenceCall(ctx, "raisefence", gen, func(f *memFence) error {
		if s.db.open > 0 {
			return ErrFenceBusy
		}
		f.until = time.Now().Add(deadline)
		return nil
	})
}

func (s *memSide) LiftFence(ctx context.Context, gen int64) error {
	return s.fenceCall(ctx, "liftfence", gen, func(f *memFence) error {
		f.until, f.kept = time.Time{}, false
		return nil
	})
}

func (s *memSide) KeepFence(ctx context.Context, gen int64) error {
	return s.fenceCall(ctx, "keepfence", gen, func(f *memFence) error {
		if !f.kept && !time.Now().Before(f.until) {
			return ErrFenceDown
		}
		f.kept = true
		return nil
	})
}

func (s *memSide) RemoveFence(ctx context.Context) error {
	if err := s.call(ctx, "removefence"); err != nil {
		return err
	}
	defer s.lock()()
	s.db.fence = memFence{}
	return nil
}

func (s *memSide) Close(context.Context) error { return nil }
