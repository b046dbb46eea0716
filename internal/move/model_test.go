package move

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testFile = `
name: chat
origin: {postgres: "postgres://origin/chat"}
target: {postgres: "postgres://target/chat"}
tables:
  - {from: public.messages, rules: [{name: numbered, check: "n is not null"}]}
  - {from: public.rooms}
budgets: {baseline: 20ms, quiet_reads: 50ms, max_rate: 1000000}
`

func testTables() []Table {
	cols := []Column{
		{Name: "id", Type: Type{OID: oidInt8, Name: "bigint"}, NotNull: true},
		{Name: "n", Type: Type{OID: oidInt8, Name: "bigint"}},
		{Name: "body", Type: Type{OID: oidText, Name: "text"}},
	}
	return []Table{
		{Schema: "public", Name: "messages", Columns: cols, Key: []int{0}},
		{Schema: "public", Name: "rooms", Columns: cols, Key: []int{0}},
	}
}

// logLevel of the movers: accidents are what these tests are made of.
const logLevel = slog.LevelError

// errKilled is what every call of a killed mover returns.
var errKilled = errors.New("killed")

// world is two stores, the state beside one of them, and an app that writes.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	dbs     [2]*memDB
	state   *memState
	plant   plant
	orders  [2]string
	mu      sync.Mutex
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	model   []map[string]Row // what was acknowledged, by table
	writes  int
	refused int
	quiet   bool
	lateFor time.Duration // of each call, at most
	// planted says that an error was made on purpose: what would fail the test is
	// thrown as a foundOut instead.
	planted bool
}

// foundOut is how a planted error shows itself.
type foundOut string

func (w *world) fatalf(format string, args ...any) {
	w.t.Helper()
	if w.planted {
		panic(foundOut(fmt.Sprintf(format, args...)))
	}
	w.t.Fatalf(format, args...)
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), lateFor: 3 * time.Millisecond, orders: [2]string{"bytes", "bytes"}}
	w.dbs[Origin], w.dbs[Target] = newMemDB(2, true), newMemDB(2, false)
	w.state = newMemState(w.dbs[Origin])
	for range 2 {
		w.model = append(w.model, map[string]Row{})
	}
	w.ctx, w.cancel = context.WithCancel(t.Context())
	for id := range int64(400) {
		r := Row{int8Of(id * 7), int8Of(id), []byte(fmt.Sprintf("old %d", id))}
		for table := range w.model {
			w.dbs[Origin].tables[table][memKey(r)] = r
			w.model[table][memKey(r)] = r.Clone()
		}
	}
	store := &memStore{memState: w.state}
	if err := store.Create(t.Context(), &Record{Move: "chat", File: []byte(testFile)}); err != nil {
		t.Fatal(err)
	}
	w.wg.Go(w.reportNodes)
	return w
}

func (w *world) int(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

// reportNodes plays an app node's reports, so that no probes are needed.
func (w *world) reportNodes() {
	store := &memStore{memState: w.state}
	for {
		_ = store.ReportNode(w.ctx, "chat", &Node{Name: "a", Writes: 1, WriteP95: 1})
		if !sleep(w.ctx, time.Second) {
			return
		}
	}
}

// app writes rows of its own residue class and believes what it was told last
// about where to write, until it is refused.
func (w *world) app(part, parts int) {
	canonical := Origin
	store := &memStore{memState: w.state}
	for sleep(w.ctx, time.Duration(1+w.int(20))*time.Millisecond) {
		w.mu.Lock()
		quiet := w.quiet
		w.mu.Unlock()
		if quiet {
			continue
		}
		table := w.int(2)
		changes, after := w.change(table, part, parts)
		if len(changes) == 0 {
			continue
		}
		for {
			err := w.dbs[canonical].write(cloneEvents(changes)...)
			if err == nil {
				w.mu.Lock()
				w.model[table] = after(w.model[table])
				w.writes++
				w.mu.Unlock()
				break
			}
			w.mu.Lock()
			w.refused++
			w.mu.Unlock()
			rec, err := store.Load(w.ctx, "chat")
			if err != nil {
				return
			}
			canonical = rec.Canonical
			if !sleep(w.ctx, time.Millisecond) {
				return
			}
		}
	}
}

func cloneEvents(es []Event) []Event {
	out := make([]Event, len(es))
	for i := range es {
		out[i] = *es[i].Clone()
	}
	return out
}

// change makes up a transaction, and what it does to the acknowledged rows.
func (w *world) change(table, part, parts int) ([]Event, func(map[string]Row) map[string]Row) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var old Row
	for _, r := range w.model[table] { // begins anywhere
		if int(intOf(r[0]))%parts == part {
			old = r.Clone()
			break
		}
	}
	fresh := func() Row {
		id := int64(w.rng.IntN(4000)*parts + part)
		return Row{int8Of(id), int8Of(w.rng.Int64N(1000)), []byte(fmt.Sprintf("new %d", w.rng.Int()))}
	}
	there := func(r Row) bool { _, ok := w.model[table][memKey(r)]; return ok }
	put := func(del, set Row) func(map[string]Row) map[string]Row {
		return func(m map[string]Row) map[string]Row {
			if del != nil {
				delete(m, memKey(del))
			}
			if set != nil {
				m[memKey(set)] = set.Clone()
			}
			return m
		}
	}
	switch kind := w.rng.IntN(10); {
	case kind < 3 || old == nil:
		r := fresh()
		if there(r) {
			return nil, nil
		}
		return []Event{{Op: Insert, Table: table, New: r}}, put(nil, r)
	case kind < 5: // all of a row
		r := fresh()
		r[0] = old[0]
		return []Event{{Op: Update, Table: table, New: r}}, put(nil, r)
	case kind < 7: // the body stays and is not told
		r := old.Clone()
		r[1] = int8Of(w.rng.Int64N(1000))
		return []Event{{Op: Update, Table: table, New: r.Clone(), Unchanged: []int{2}}}, put(nil, r)
	case kind < 8: // the key changes, the body is not told
		r := old.Clone()
		if r[0] = fresh()[0]; there(r) {
			return nil, nil
		}
		return []Event{{Op: Update, Table: table, Old: Row{old[0], nil, nil}, New: r.Clone(), Unchanged: []int{2}}}, put(old, r)
	case kind < 9 && w.rng.IntN(30) == 0 && parts == 1:
		span := &KeySpan{From: old[0], To: int8Of(intOf(old[0]) + 50)}
		return []Event{{Op: DeleteRange, Table: table, Span: span}}, func(m map[string]Row) map[string]Row {
			maps.DeleteFunc(m, func(_ string, r Row) bool { return span.covers(r[:1]) })
			return m
		}
	default:
		return []Event{{Op: Delete, Table: table, Old: Row{old[0], nil, nil}}}, put(old, nil)
	}
}

// fate is what befalls one mover.
type fate struct {
	kill  int // calls of its sides and store until it is killed, 0 for never
	stall int // calls until all of it stands still, as by SIGSTOP, 0 for never
	still time.Duration
}

// mover runs one mover until it ends.
func (w *world) mover(ctx context.Context, name string, f fate, once bool) error {
	var mu sync.Mutex
	var until time.Time
	n, dead := 0, false
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hook := func(ctx context.Context, call string) error {
		mu.Lock()
		n++
		if f.kill > 0 && n > f.kill && !dead {
			dead = true
			cancel()
		}
		if f.stall > 0 && n == f.stall {
			until = time.Now().Add(f.still)
		}
		gone, wait := dead, time.Until(until)
		mu.Unlock()
		if wait > 0 {
			sleep(context.Background(), wait) // whatever its context says: it does not run
		}
		if gone {
			return errKilled
		}
		if call == "apply" || call == "next" && w.int(8) > 0 {
			return nil // else the app would be faster
		}
		if !sleep(ctx, time.Duration(w.int(int(w.lateFor)))) {
			return ctx.Err()
		}
		return nil
	}
	return Run(ctx, "chat", w.options(name, once, hook))
}

func (w *world) options(name string, once bool, hook func(context.Context, string) error) Options {
	return Options{
		Store: &memStore{memState: w.state, hook: hook}, Owner: name, TTL: 2 * time.Second, Once: once,
		Logger: slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: logLevel})),
		Open: func(context.Context, *File) (Side, Side, error) {
			var s [2]*memSide
			for part, db := range w.dbs {
				s[part] = &memSide{db: db, tables: testTables(), order: w.orders[part], hook: hook, plant: w.plant}
			}
			return s[Origin], s[Target], nil
		},
	}
}

// ask sends a command to whoever owns the move and waits for its result.
func (w *world) ask(verb string, args map[string]string) *Result {
	store := &memStore{memState: w.state}
	for {
		id, err := store.Ask(w.ctx, "chat", Intent{Verb: verb, Args: args, By: "test"})
		if errors.Is(err, ErrIntentPending) {
			if !sleep(w.ctx, 10*time.Millisecond) {
				return nil
			}
			continue
		}
		if err != nil {
			w.t.Error(err)
			return nil
		}
		for {
			rec, err := store.Load(w.ctx, "chat")
			if err != nil {
				return nil
			}
			if rec.Result != nil && rec.Result.Intent == id {
				return rec.Result
			}
			if !sleep(w.ctx, 5*time.Millisecond) {
				return nil
			}
		}
	}
}

// until waits for the record to be as wanted.
func (w *world) until(what string, is func(*Record) bool) *Record {
	w.t.Helper()
	store := &memStore{memState: w.state}
	for range 60_000 {
		rec, err := store.Load(w.ctx, "chat")
		if err != nil {
			w.t.Fatal(err)
		}
		if is(rec) {
			return rec
		}
		if !sleep(w.ctx, 10*time.Millisecond) {
			break
		}
	}
	rec, _ := store.Load(context.Background(), "chat")
	w.fatalf("the move did not become %s: %+v", what, rec)
	return nil
}

func (w *world) untilState(s State) *Record {
	w.t.Helper()
	return w.until(string(s), func(r *Record) bool { return r.State == s && r.Intent == nil })
}

// mustDo is ask for commands that have to succeed in the end: lag and touched
// rows may refuse them for a while.
func (w *world) mustDo(verb string, args map[string]string) *Result {
	w.t.Helper()
	var res *Result
	for range 200 {
		if res = w.ask(verb, args); res != nil && res.OK {
			return res
		}
		if !sleep(w.ctx, 100*time.Millisecond) {
			break
		}
	}
	w.fatalf("%s: %+v", verb, res)
	return nil
}

// settle lets the app rest and everything arrive.
func (w *world) settle(d time.Duration) {
	w.mu.Lock()
	w.quiet = true
	w.mu.Unlock()
	sleep(w.ctx, d)
}

// compare fails unless both sides have what was acknowledged.
func (w *world) compare() {
	w.t.Helper()
	for part, db := range w.dbs {
		for _, diff := range w.differences(db) {
			if w.planted {
				panic(foundOut(diff))
			}
			w.t.Errorf("%s: %s", Part(part), diff)
		}
	}
}

func (w *world) differences(db *memDB) (out []string) {
	db.mu.Lock()
	defer db.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for table, rows := range db.tables {
		for k, want := range w.model[table] {
			if got, ok := rows[k]; !ok || !got.Equal(want) {
				out = append(out, fmt.Sprintf("table %d, id %d: has %q, acknowledged was %q", table, intOf(want[0]), got, want))
			}
		}
		for k, r := range rows {
			if _, ok := w.model[table][k]; !ok {
				out = append(out, fmt.Sprintf("table %d, id %d: %q should not be there", table, intOf(r[0]), r))
			}
		}
	}
	return out
}

func (w *world) end() {
	w.cancel()
	w.wg.Wait()
}

// movers keeps starting movers that meet their fates, two at once at times,
// until the context ends.
func (w *world) movers(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		f := fate{kill: 20 + w.int(3000)}
		if w.int(3) == 0 {
			f.kill += 1000
			f.stall, f.still = 20+w.int(2000), time.Duration(w.int(5000))*time.Millisecond
		}
		var pair sync.WaitGroup
		for j := range 1 + w.int(2) {
			pair.Go(func() {
				for {
					err := w.mover(ctx, fmt.Sprintf("mover %d.%d", i, j), f, false)
					if !errors.Is(err, ErrLeaseHeld) || !sleep(ctx, 300*time.Millisecond) {
						return
					}
				}
			})
		}
		pair.Wait()
		sleep(ctx, 10*time.Millisecond)
	}
}

// commands asks for whatever comes to mind.
func (w *world) commands(ctx context.Context) {
	verbs := []string{
		VerbCutover, VerbCutover, VerbRollback, VerbRollback, VerbVerify, VerbRepair, VerbPause, VerbResume, VerbResume, VerbResume, VerbShadow,
	}
	store := &memStore{memState: w.state}
	for sleep(ctx, time.Duration(100+w.int(900))*time.Millisecond) {
		verb := verbs[w.int(len(verbs))]
		_, err := store.Ask(ctx, "chat", Intent{Verb: verb, Args: map[string]string{"skip-shadow": "true"}, By: "test"})
		if err != nil && !errors.Is(err, ErrIntentPending) {
			w.t.Error(err)
		}
	}
}

// live plays a move full of accidents and then lets it come to rest.
func (w *world) live(accidents time.Duration, apps int) *Record {
	for i := range apps {
		w.wg.Go(func() { w.app(i, apps) })
	}
	ctx, stop := context.WithTimeout(w.ctx, accidents)
	defer stop()
	var chaos sync.WaitGroup
	chaos.Go(func() { w.movers(ctx) })
	chaos.Go(func() { w.commands(ctx) })
	chaos.Wait()
	w.wg.Go(func() {
		for {
			err := w.mover(w.ctx, "the last", fate{}, false)
			if !errors.Is(err, ErrLeaseHeld) || !sleep(w.ctx, 300*time.Millisecond) {
				return
			}
		}
	})
	w.until("free", func(r *Record) bool { return r.Intent == nil && r.Owner == "the last" })
	w.mustDo(VerbResume, nil)
	sleep(w.ctx, time.Second)
	w.settle(5 * time.Second)
	return w.until("at rest", func(r *Record) bool {
		switch r.State {
		case Verified, Shadowing, CutOver, RolledBack:
			return r.Intent == nil
		}
		if r.Trouble != "" {
			w.fatalf("the move stopped: %s", r.Trouble)
		}
		return false
	})
}

// modelSeeds is how many lives TestModel plays; VARVE_TEST_MOVE_SEEDS asks for
// more.
func modelSeeds() int {
	if n, err := strconv.Atoi(os.Getenv("VARVE_TEST_MOVE_SEEDS")); err == nil {
		return n
	}
	return 12
}

// TestModel lets movers be killed between any two calls, stand still and start
// twice, while an app writes and commands come at random. Whatever is
// acknowledged must be on both sides in the end.
func TestModel(t *testing.T) {
	seeds := modelSeeds()
	cutovers := 0
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed)
				defer w.end()
				if seed%3 == 2 {
					w.orders[Target] = "another"
				}
				rec := w.live(40*time.Second, 1+int(seed%3))
				w.compare()
				for _, e := range w.state.history["chat"] {
					if e.To == CutOver && e.From == CuttingOver || e.To == RolledBack && e.From == RollingBack {
						cutovers++
					}
				}
				t.Logf("%s after %d transitions and %d writes, %d refused", rec.State, rec.Generation, w.writes, w.refused)
			})
		})
	}
	if cutovers == 0 && !t.Failed() {
		t.Error("no cutover came to its end: the test proves nothing about them")
	}
	t.Logf("%d switches", cutovers)
}

// TestEveryStep ends a mover, or lets it stand still for longer than its lease
// holds, at one call after another of a whole move there and back.
func TestEveryStep(t *testing.T) {
	step := max(7, 7*60/modelSeeds())
	for _, stall := range []bool{false, true} {
		name, calls := "killed", 0
		if stall {
			name = "stalled"
		}
		for at, over := 1, false; !over; at += step {
			t.Run(fmt.Sprintf("%s at %d", name, at), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, uint64(at))
					defer w.end()
					f := fate{kill: at}
					if stall {
						f = fate{stall: at, still: 5 * time.Second}
					}
					w.wg.Go(func() { w.app(0, 2) })
					w.wg.Go(func() { w.app(1, 2) })
					w.wg.Go(func() { _ = w.mover(w.ctx, "first", f, false) })
					w.wg.Go(func() {
						for sleep(w.ctx, 200*time.Millisecond) {
							if err := w.mover(w.ctx, "second", fate{}, false); err == nil {
								return
							}
						}
					})
					w.until("verified", func(r *Record) bool { return r.State == Verified })
					w.mustDo(VerbCutover, map[string]string{"skip-shadow": "true"})
					sleep(w.ctx, 500*time.Millisecond)
					w.mustDo(VerbRollback, nil)
					sleep(w.ctx, 500*time.Millisecond)
					w.settle(8 * time.Second)
					w.compare()
					rec, _ := (&memStore{memState: w.state}).Load(w.ctx, "chat")
					if rec.State != RolledBack {
						t.Errorf("%s at the end", rec.State)
					}
					// Past the last call of the whole move nothing new can happen.
					over = rec.Owner == "first" && rec.Token == 1
				})
			})
			if calls++; calls > 500 {
				t.Fatal("the first mover never survived")
			}
		}
	}
}

func TestWholeMove(t *testing.T) {
	for _, order := range []string{"bytes", "another"} {
		t.Run(order, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				defer w.end()
				w.orders[Target] = order
				w.dbs[Origin].seq["messages.n"] = 41
				for i := range 3 {
					w.wg.Go(func() { w.app(i, 3) })
				}
				w.wg.Go(func() {
					if err := w.mover(w.ctx, "m", fate{}, false); err != nil && w.ctx.Err() == nil {
						t.Error(err)
					}
				})
				w.untilState(Verified)
				if res := w.ask(VerbCutover, nil); res.OK {
					t.Error("cut over without shadow reads")
				}
				res := w.mustDo(VerbCutover, map[string]string{"skip-shadow": "true"})
				t.Log(res.Text, res.Details)
				sleep(w.ctx, time.Second)
				w.mustDo(VerbRollback, nil)
				sleep(w.ctx, time.Second)
				w.mustDo(VerbCutover, map[string]string{"skip-shadow": "true"})
				sleep(w.ctx, time.Second)
				w.settle(3 * time.Second)
				w.compare()
				if w.dbs[Target].seq["messages.n"] != 41 {
					t.Error("the sequence was not carried over")
				}
				w.mustDo(VerbFinish, nil)
				if err := w.dbs[Origin].write(Event{Op: Insert, New: Row{int8Of(1), nil, nil}}); !errors.Is(err, errFenced) {
					t.Errorf("a writer of origin after the end: %v", err)
				}
				if len(w.dbs[Origin].streams)+len(w.dbs[Target].streams) > 0 {
					t.Error("streams were left behind")
				}
				if w.refused == 0 || w.writes < 500 {
					t.Errorf("%d writes, %d refused: the app did not live through it", w.writes, w.refused)
				}
			})
		})
	}
}
