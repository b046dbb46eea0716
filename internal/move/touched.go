package move

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxTouched bounds the keys that wait to be compared again. A table that
// exceeds it is verified anew, which is cheaper than that many single looks.
const maxTouched = 1 << 20

// touched are the keys that changes wrote since their rows were last found
// equal: all that a verification done before does not cover. It is told before
// a change becomes visible on the side that follows, and is kept with the
// changes' commit.
type touched struct {
	mu      sync.Mutex
	on      bool // keys are told only from the first verification on
	version uint64
	keys    map[rowID]*touch
	spans   []*spanTouch
	lost    map[int]bool // tables whose verified ranges mean nothing any more
}

// rowID names a row: EncodeRow of its key.
type rowID struct {
	table int
	key   string
}

type touch struct {
	version uint64 // of the last change
	at      time.Time
	looked  time.Time // when a comparison last found a difference
	entry   *logEntry
	tries   int // comparisons that found a difference at this version
}

type spanTouch struct {
	table   int
	span    KeySpan
	version uint64
	at      time.Time
	entry   *logEntry
}

// touchLog is what a flow keeps of touched keys with its commits: an entry for
// each commit, taken away when all of its keys were compared.
type touchLog struct {
	t     *touched
	next  uint64
	batch *logEntry // not committed yet
	gone  []string
	lost  map[int]bool // told since the last commit
}

type logEntry struct {
	log    *touchLog
	number uint64
	kept   bool // durable
	left   int  // keys and spans that are still of this entry
	lines  []byte
}

func newTouched() *touched {
	return &touched{keys: map[rowID]*touch{}, lost: map[int]bool{}}
}

func (t *touched) newLog() *touchLog { return &touchLog{t: t, lost: map[int]bool{}} }

// turnOn begins to tell keys.
func (t *touched) turnOn() {
	t.mu.Lock()
	t.on = true
	t.mu.Unlock()
}

func (l *touchLog) current() *logEntry {
	if l.batch == nil {
		l.batch = &logEntry{log: l, number: l.next}
		l.next++
	}
	return l.batch
}

// key tells that a change wrote the row.
func (l *touchLog) key(id rowID) {
	t := l.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.on || t.lost[id.table] {
		return
	}
	t.version++
	k := t.keys[id]
	if k == nil {
		if len(t.keys) >= maxTouched {
			l.loseLocked(id.table)
			return
		}
		k = &touch{}
		t.keys[id] = k
	}
	k.version, k.at, k.tries = t.version, time.Now(), 0
	e := l.current()
	if k.entry != e {
		k.entry.drop()
		k.entry = e
		e.left++
		e.lines = fmt.Appendf(e.lines, "%d %s\n", id.table, base64.StdEncoding.EncodeToString([]byte(id.key)))
	}
}

// span tells that a change deleted all rows of a span.
func (l *touchLog) span(table int, s KeySpan) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	t := l.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.on || t.lost[table] {
		return nil
	}
	t.version++
	e := l.current()
	e.left++
	e.lines = fmt.Appendf(e.lines, "%d =%s\n", table, text)
	t.spans = append(t.spans, &spanTouch{table: table, span: s, version: t.version, at: time.Now(), entry: e})
	return nil
}

// lose tells that any row of the table may have changed.
func (l *touchLog) lose(table int) {
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	if l.t.on {
		l.loseLocked(table)
	}
}

func (l *touchLog) loseLocked(table int) {
	t := l.t
	t.lost[table] = true
	l.lost[table] = true
	t.dropTableLocked(table)
}

func (t *touched) dropTableLocked(table int) {
	for id, k := range t.keys {
		if id.table == table {
			k.entry.drop()
			delete(t.keys, id)
		}
	}
	spans := t.spans[:0]
	for _, s := range t.spans {
		if s.table == table {
			s.entry.drop()
			continue
		}
		spans = append(spans, s)
	}
	t.spans = spans
}

// drop counts one key off; the caller holds the mutex.
func (e *logEntry) drop() {
	if e == nil {
		return
	}
	e.left--
	if e.left == 0 && e.kept {
		e.log.gone = append(e.log.gone, e.name())
	}
}

func (e *logEntry) name() string { return "touched/" + strconv.FormatUint(e.number, 10) }

// commit adds to progress what has to be kept with a commit and returns what
// to call when it is durable.
func (l *touchLog) commit(progress map[string]string) func() {
	t := l.t
	t.mu.Lock()
	defer t.mu.Unlock()
	batch, gone, lost := l.batch, len(l.gone), l.lost
	for _, name := range l.gone {
		progress[name] = ""
	}
	for table := range lost {
		progress["lost/"+strconv.Itoa(table)] = "1"
	}
	write := batch != nil && batch.left > 0
	if write {
		progress[batch.name()] = string(batch.lines)
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		l.gone = l.gone[gone:]
		l.lost = map[int]bool{}
		if batch == nil {
			return
		}
		l.batch = nil
		batch.lines = nil
		batch.kept = write
		if write && batch.left == 0 {
			l.gone = append(l.gone, batch.name())
		}
	}
}

// idle reports whether a commit would have nothing to keep.
func (l *touchLog) idle() bool {
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	return len(l.gone) == 0 && len(l.lost) == 0 && (l.batch == nil || l.batch.left == 0)
}

// load reads what was kept by an earlier process.
func (l *touchLog) load(progress map[string]string) error {
	t := l.t
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, text := range progress {
		switch kind, rest, _ := strings.Cut(name, "/"); kind {
		case "lost":
			table, err := strconv.Atoi(rest)
			if err != nil {
				return fmt.Errorf("read progress %q: %w", name, err)
			}
			t.lost[table] = true
		case "touched":
			n, err := strconv.ParseUint(rest, 10, 64)
			if err != nil {
				return fmt.Errorf("read progress %q: %w", name, err)
			}
			l.next = max(l.next, n+1)
			if err := t.loadEntry(&logEntry{log: l, number: n, kept: true}, text); err != nil {
				return fmt.Errorf("read progress %q: %w", name, err)
			}
		}
	}
	for table := range t.lost {
		t.dropTableLocked(table)
	}
	return nil
}

func (t *touched) loadEntry(e *logEntry, text string) error {
	for line := range strings.Lines(text) {
		number, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		table, err := strconv.Atoi(number)
		if err != nil {
			return err
		}
		t.version++
		if span, ok := strings.CutPrefix(rest, "="); ok {
			s := &spanTouch{table: table, version: t.version, entry: e}
			if err := json.Unmarshal([]byte(span), &s.span); err != nil {
				return err
			}
			e.left++
			t.spans = append(t.spans, s)
			continue
		}
		key, err := base64.StdEncoding.DecodeString(rest)
		if err != nil {
			return err
		}
		id := rowID{table, string(key)}
		if k := t.keys[id]; k != nil {
			k.entry.drop()
		}
		e.left++
		t.keys[id] = &touch{version: t.version, entry: e}
	}
	if e.left == 0 {
		e.log.gone = append(e.log.gone, e.name())
	}
	return nil
}

// seen is a touched key as it was when somebody took it to compare.
type seen struct {
	rowID
	version uint64
}

// take returns up to limit keys that were last changed, and looked at in vain,
// before a time.
func (t *touched) take(before time.Time, limit int) []seen {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []seen
	for id, k := range t.keys {
		if len(out) == limit {
			break
		}
		if k.at.Before(before) && k.looked.Before(before) {
			out = append(out, seen{id, k.version})
		}
	}
	return out
}

// anyFrom reports whether a key or span is left from before a time.
func (t *touched) anyFrom(before time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.keys {
		if k.at.Before(before) {
			return true
		}
	}
	return len(t.spans) > 0 && t.spans[0].at.Before(before)
}

// takeSpan returns a deleted span to compare, nil for none.
func (t *touched) takeSpan(before time.Time) *spanTouch {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.spans {
		if s.at.Before(before) {
			return s
		}
	}
	return nil
}

// clear tells that both sides' rows were equal, read after the key was taken.
func (t *touched) clear(s seen) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := t.keys[s.rowID]; k != nil && k.version == s.version {
		k.entry.drop()
		delete(t.keys, s.rowID)
	}
}

// unequal counts a comparison that found a difference and puts the key back in
// line. It reports how many there were since the last change, 0 if there was
// one after the key was taken.
func (t *touched) unequal(s seen) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.keys[s.rowID]
	if k == nil || k.version != s.version {
		return 0
	}
	k.tries++
	k.looked = time.Now()
	return k.tries
}

// same reports whether the key was not changed since it was taken; a key that
// is not touched at all has version 0.
func (t *touched) same(s seen) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.keys[s.rowID]
	if k == nil {
		return s.version == 0
	}
	return k.version == s.version
}

// see returns the key with its version of now.
func (t *touched) see(id rowID) seen {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := t.keys[id]; k != nil {
		return seen{id, k.version}
	}
	return seen{id, 0}
}

func (t *touched) clearSpan(s *spanTouch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, o := range t.spans {
		if o == s {
			s.entry.drop()
			t.spans = append(t.spans[:i:i], t.spans[i+1:]...)
			return
		}
	}
}

// count is how many keys and spans there are.
func (t *touched) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.keys) + len(t.spans)
}

// lostTables are the tables that have to be verified anew.
func (t *touched) lostTables() []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []int
	for table := range t.lost {
		out = append(out, table)
	}
	return out
}

// found tells that a lost table's verified ranges were forgotten. The word of
// it stays in both flows' progress until their next commit.
func (t *touched) found(table int, logs ...*touchLog) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.lost, table)
	for _, l := range logs {
		delete(l.lost, table)
		l.gone = append(l.gone, "lost/"+strconv.Itoa(table))
	}
}
