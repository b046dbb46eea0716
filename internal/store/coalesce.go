package store

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

const (
	// scanRows is how many rows a scan looks at before it publishes what it found.
	scanRows = 16 << 10
	// extendRows is how many dead rows a scan goes beyond what it was asked for.
	extendRows = 1024
	// freeRunRows is how many rows that may be removed at once are worth a span of their own.
	freeRunRows = 64
	// maxTries is how often a scan is tried whose place is written to all the time.
	maxTries = 4
)

// fate tells why, and since when, a row is dead.
type fate struct {
	live bool
	// newest is the latest local deletion time of the row's own tombstones and
	// expired cells (at least 1); 0: there are none that the partition's head
	// does not cover, and the row can be removed while that deletion stays.
	newest int64
	expiry int64 // the latest expiry that has passed; 0: none
	tombs  int64 // what a read that walks the row counts as tombstones
}

// fateOf looks at a row as of now; del is the newest head deletion that covers it.
func fateOf(v []byte, del, now int64) (f fate, ok bool) {
	var h rowHeader
	rest, ok := decodeHeader(v, &h)
	if !ok {
		return fate{live: true}, false
	}
	if h.markerLive(del, now) {
		return fate{live: true}, true
	}
	if h.hasMarker() && h.base > del {
		f.newest, f.expiry = max(1, h.markerExpiry), h.markerExpiry
	}
	if h.flags&rowHasDeletion != 0 && h.delTS > del {
		f.newest = max(f.newest, h.delLDT, 1)
	}
	var c cell
	for len(rest) > 0 {
		if rest, ok = nextCell(rest, h.base, &c); !ok {
			return fate{live: true}, false
		}
		if c.col == keyColumn || c.ts <= del {
			continue
		}
		if !c.dead(del, now) {
			return fate{live: true}, true
		}
		f.newest = max(f.newest, c.ldt, 1)
		if c.flags&cellExpiring != 0 {
			f.expiry = max(f.expiry, c.ldt)
		}
		if c.flags&cellClear == 0 {
			f.tombs++
		}
	}
	if f.tombs == 0 && h.deadByItself(del, now) {
		f.tombs = 1
	}
	return f, true
}

// run is a stretch of dead rows found by a scan.
type run struct {
	lo, hi    []byte // first dead key; past the last one
	rows      int64
	tombs     int64
	newest    int64
	expiry    int64
	estimated bool
	old       bool     // holds a span that exists already
	joined    bool     // begins where the run before it ends
	keys      []string // its rows, where they are few and all can be removed
}

func (x *run) free() bool { return x.newest == 0 }

// deadScan walks a range and gathers runs of dead rows.
type deadScan struct {
	sh    *shard
	tbl   *table
	it    *pebble.Iterator
	heads *headReader
	now   int64
	lo    []byte // the bounds of the scan
	hi    []byte
	runs  []run
	open  bool // the last run goes on
	rows  int  // walked
	steps int  // of the engine for those
	asked bool // by a read that walked: spans with estimates are to be counted
}

// headReader finds head deletions for rows in ascending order of partitions.
type headReader struct {
	tbl    *table
	it     *pebble.Iterator
	cur    headCursor
	prefix []byte
	buf    []byte
}

// deletionOf returns the newest head deletion that covers a row key.
func (h *headReader) deletionOf(key []byte) (int64, error) {
	if h.it == nil {
		return noDeletion, nil
	}
	n := len(h.prefix)
	if n == 0 || len(key) <= n || !bytes.Equal(key[:n], h.prefix) {
		def := h.tbl.def.Load()
		if def == nil {
			return 0, errors.New("table has deletions but no known definition")
		}
		var err error
		if n, h.buf, err = partitionLen(def, key, h.buf); err != nil {
			return 0, err
		}
		h.prefix = append(h.prefix[:0], key[:n]...)
		if err := h.cur.reset(h.it, h.prefix, nil); err != nil {
			return 0, err
		}
	}
	return h.cur.at(key[n:])
}

// yieldSteps is after how many steps a task over partitions lets others go first.
const yieldSteps = 4

// runTask coalesces the dead rows of a task's range, some thousands at a time.
func (s *Store) runTask(ctx context.Context, t *task) error {
	if t.spread {
		start := time.Now()
		defer func() { t.sh.pending.rest(t.tbl, time.Since(start)) }()
	}
	cur := t.lo
	for n := 1; ctx.Err() == nil; n++ {
		next, err := s.taskStep(t, cur)
		if err != nil || next == nil {
			return err
		}
		cur = next
		if t.prefix == 0 && n%yieldSteps == 0 && s.work.len() > 0 {
			left := *t
			left.lo = cur
			if s.work.add(&left) {
				return nil
			}
		}
	}
	return ctx.Err()
}

func (s *Store) taskStep(t *task, cur []byte) (next []byte, err error) {
	s.passMu.Lock()
	defer s.passMu.Unlock()
	return t.sh.coalesce(t, cur)
}

// taskStripes are the stripes of everything that a scan may touch.
func (t *task) stripes() stripeSet {
	var set stripeSet
	if t.prefix > 0 {
		set.add(stripeOf(tokenOf(t.lo[tablePrefixBytes:])), true)
	} else {
		set.addAll()
	}
	return set
}

// coalesce scans some rows from cur and publishes the spans it finds; next is
// where to go on, nil at the end. The steps and their order are proved in
// docs/design/dead-spans.md.
func (sh *shard) coalesce(t *task, cur []byte) (next []byte, err error) {
	m := &t.tbl.parts[sh.idx].spans
	set := t.stripes()
	lo, hi := appendTablePrefix(nil, t.tbl.phys, familyRow), []byte(nil)
	if t.prefix > 0 {
		lo = slices.Clone(t.lo[:t.prefix])
		hi = append(slices.Clone(lo), suffixEnd)
	} else {
		hi = prefixEnd(lo)
	}
	// 1. Writers that did not see the intent are done once the stripes were held.
	if !sh.s.keeps(ruleViewFirst) {
		return nil, sh.coalesceBroken(t, cur, lo, hi)
	}
	in := sh.announce(m, &set, lo, hi)
	published := false
	defer func() {
		if !published {
			m.finish(in)
		}
	}()
	// 2. The scan's view holds everything they wrote.
	sc, err := sh.newScan(t.tbl, lo, hi)
	if err != nil {
		return nil, err
	}
	sc.asked = t.walked
	next, err = sc.walk(cur, t.hi)
	sc.steps = sc.it.Stats().ForwardStepCount[pebble.InternalIterCall]
	if err = errors.Join(err, sc.close()); err != nil {
		return nil, err
	}
	sh.s.metrics.scans.Add(1)
	sh.s.metrics.scanned.Add(int64(sc.rows))
	if t.walked {
		sh.force(sc)
	}
	// 3. What was written meanwhile is left out.
	if sh.s.keeps(ruleLockedPublish) {
		sh.lock(&set)
		defer sh.unlock(&set)
	}
	m.finish(in)
	published = true
	if in.overflow {
		if t.tries++; t.tries < maxTries {
			return cur, nil
		}
		return nil, nil
	}
	if t.sweep {
		if err := sh.removeFew(sc.runs, in); err != nil {
			return nil, err
		}
	}
	return next, sh.publish(t.tbl, sc.runs, in)
}

// announce registers a scan once no writer is under way that does not know of it.
func (sh *shard) announce(m *spanMap, set *stripeSet, lo, hi []byte) *intent {
	if sh.s.keeps(ruleDrained) {
		sh.lock(set)
		defer sh.unlock(set)
	}
	return m.begin(lo, hi)
}

// removeFew removes rows that only a head deletion killed and that are too few
// for a span. Their stripes are held exclusively.
func (sh *shard) removeFew(runs []run, in *intent) error {
	written, ok := in.all()
	if !ok {
		return nil // a sweep finds them
	}
	var changes []change
	for i := range runs {
		if r := &runs[i]; r.free() && r.rows < sh.s.opts.spanRows && !r.old {
			for _, k := range r.keys {
				changes = append(changes, change{key: []byte(k)})
			}
		}
	}
	return sh.applyChanges(changes, written)
}

// forceRows is how many dead rows outside spans, and forceSteps how many steps
// of the engine for ten rows, make a place that reads walk worth a compaction:
// a row that is merged anew by each read costs several times one that is merged.
const (
	forceRows  = 512
	forceSteps = 12
)

// force asks for the compaction of a place where live and dead rows are mixed.
func (sh *shard) force(sc *deadScan) {
	loose := int64(0)
	var lo, hi []byte
	for i := range sc.runs {
		if r := &sc.runs[i]; r.rows < sh.s.opts.spanRows && !r.old {
			if loose += r.rows; lo == nil {
				lo = r.lo
			}
			hi = r.hi
		}
	}
	if loose >= forceRows && 10*sc.steps >= forceSteps*sc.rows {
		sh.debts.add(debt{lo: string(lo), hi: string(hi), rows: loose, forced: true})
	}
}

func (sh *shard) newScan(tbl *table, lo, hi []byte) (*deadScan, error) {
	sc := &deadScan{sh: sh, tbl: tbl, lo: lo, hi: hi, now: sh.s.opts.Clock().Unix(), heads: &headReader{tbl: tbl}}
	sh.s.step(sharedData, false)
	it, err := sh.db.NewIter(&pebble.IterOptions{LowerBound: lo, UpperBound: hi})
	if err != nil {
		return nil, err
	}
	sc.it = it
	sh.s.step(sharedHeads, false)
	if tbl.parts[sh.idx].heads.Load() {
		hlo := appendTablePrefix(nil, tbl.phys, familyHead)
		opts := pebble.IterOptions{LowerBound: hlo, UpperBound: prefixEnd(hlo)}
		if sc.heads.it, err = it.Clone(pebble.CloneOptions{IterOptions: &opts}); err != nil {
			return nil, errors.Join(err, it.Close())
		}
	}
	return sc, nil
}

func (sc *deadScan) close() error {
	var err error
	if sc.heads.it != nil {
		err = sc.heads.it.Close()
	}
	return errors.Join(err, sc.it.Close())
}

// walk gathers runs from the dead rows before cur to those after hi.
func (sc *deadScan) walk(cur, hi []byte) (next []byte, err error) {
	valid, err := sc.begin(cur)
	beyond := 0
	for valid && err == nil {
		key := sc.it.Key()
		if sc.rows >= scanRows {
			return slices.Clone(key), nil
		}
		if bytes.Compare(key, hi) > 0 {
			if beyond++; !sc.open || beyond > extendRows {
				break
			}
		}
		if x := sc.spanAt(key); x != nil {
			sc.addSpan(x)
			valid = sc.it.SeekGE([]byte(x.hi))
			continue
		}
		f, ferr := sc.fate(key)
		if ferr != nil {
			return nil, ferr
		}
		sc.rows++
		if f.live {
			sc.open = false
		} else {
			sc.addRow(key, f)
		}
		valid = sc.it.Next()
	}
	return nil, errors.Join(err, sc.it.Error())
}

// begin goes to the first of the dead rows that end at cur.
func (sc *deadScan) begin(cur []byte) (valid bool, err error) {
	start := cur
	for n := 0; n < extendRows; n++ {
		if n == 0 {
			valid = sc.it.SeekLT(cur)
		} else {
			valid = sc.it.Prev()
		}
		if !valid {
			break
		}
		if x := sc.spanAt(sc.it.Key()); x != nil {
			start = []byte(x.lo)
			break
		}
		f, err := sc.fate(sc.it.Key())
		if err != nil {
			return false, err
		}
		sc.rows++
		if f.live {
			break
		}
		start = append([]byte(nil), sc.it.Key()...)
	}
	if err := sc.it.Error(); err != nil {
		return false, err
	}
	if len(start) < len(cur) || !bytes.Equal(start, cur) {
		if x := sc.spanAt(start); x != nil && string(start) == x.lo {
			// A span's first key may hold no row any more.
			sc.addSpan(x)
			return sc.it.SeekGE([]byte(x.hi)), nil
		}
	}
	return sc.it.SeekGE(start), nil
}

func (sc *deadScan) spanAt(key []byte) *span {
	m := &sc.tbl.parts[sc.sh.idx].spans
	if m.n.Load() == 0 {
		return nil
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	x := m.at(alias(key))
	if x == nil || !x.usable(^uint64(0), sc.now) {
		return nil
	}
	return x
}

func (sc *deadScan) fate(key []byte) (fate, error) {
	v, err := sc.it.ValueAndErr()
	if err != nil {
		return fate{}, err
	}
	del, err := sc.heads.deletionOf(key)
	if err != nil {
		return fate{}, err
	}
	f, _ := fateOf(v, del, sc.now) // what is not understood counts as live
	return f, nil
}

func (sc *deadScan) addRow(key []byte, f fate) {
	r := sc.current(f.newest == 0, key)
	r.hi = append(append(r.hi[:0], key...), 0)
	r.rows++
	r.tombs += f.tombs
	r.newest, r.expiry = max(r.newest, f.newest), max(r.expiry, f.expiry)
	if r.free() && r.rows <= sc.sh.s.opts.spanRows {
		r.keys = append(r.keys, string(key))
	}
}

// addSpan takes in a span that the scan meets, as far as it lies within the
// scan's bounds: writers beyond them do not know of the scan, and may have cut
// the span there by the time it publishes.
func (sc *deadScan) addSpan(x *span) {
	if sc.asked && x.estimated {
		sc.sh.recounts.ask(sc.tbl, x)
	}
	lo, hi := max(x.lo, string(sc.lo)), x.hi
	if sc.hi != nil {
		hi = min(hi, string(sc.hi))
	}
	if !sc.sh.s.keeps(ruleSpanClipped) {
		lo, hi = x.lo, x.hi
	}
	r := sc.current(x.newest == 0, []byte(lo))
	r.hi = append(r.hi[:0], hi...)
	r.rows += x.rows
	r.tombs += x.tombs
	r.newest, r.expiry = max(r.newest, x.newest), max(r.expiry, x.expiry)
	r.estimated = r.estimated || x.estimated
	r.old = true
}

// current is the run that a dead row joins. Rows that can be removed at once
// and others are not mixed.
func (sc *deadScan) current(free bool, key []byte) *run {
	joined := sc.open
	if n := len(sc.runs); joined && sc.runs[n-1].free() == free {
		return &sc.runs[n-1]
	}
	sc.runs = append(sc.runs, run{lo: slices.Clone(key), joined: joined})
	sc.open = true
	return &sc.runs[len(sc.runs)-1]
}

// joinRuns mixes them after all where those that can be removed are few.
func joinRuns(runs []run) []run {
	var out []run
	for _, r := range runs {
		n := len(out) - 1
		if !r.joined || n < 0 || !(r.free() && r.rows < freeRunRows || out[n].free() && out[n].rows < freeRunRows) {
			out = append(out, r)
			continue
		}
		o := &out[n]
		o.hi = r.hi
		o.rows += r.rows
		o.tombs += r.tombs
		o.newest, o.expiry = max(o.newest, r.newest), max(o.expiry, r.expiry)
		o.estimated, o.old = o.estimated || r.estimated, o.old || r.old
	}
	return out
}

// publish puts runs into the map and their records beside the rows. The
// stripes of all of them are held exclusively.
func (sh *shard) publish(tbl *table, runs []run, in *intent) error {
	dirty := slices.Clone(in.dirty)
	if !sh.s.keeps(ruleDirtyCut) {
		dirty = nil
	}
	slices.Sort(dirty)
	slices.Sort(in.dead)
	runs = slices.Clone(runs)
	for i := range runs {
		if sh.s.keeps(ruleDeadRaised) {
			in.raise(&runs[i])
		}
	}
	var pieces []run
	for _, r := range joinRuns(runs) {
		pieces = splitRun(pieces, r, dirty)
	}
	least := sh.s.opts.spanRows
	if sh.s.spanBytes.Load() < sh.s.opts.SpanBytes/4 {
		least = sh.s.opts.pieceRows
	}
	pieces = slices.DeleteFunc(pieces, func(r run) bool {
		return r.rows < sh.s.opts.pieceRows || !r.old && (r.rows < least || r.free() && r.rows < sh.s.opts.spanRows)
	})
	if len(pieces) == 0 {
		return nil
	}
	sh.makeRoom(tbl, pieces)
	sh.spanMu.Lock()
	defer sh.spanMu.Unlock()
	pb := sh.db.NewBatch()
	m := &tbl.parts[sh.idx].spans
	m.mu.Lock()
	defer m.mu.Unlock()
	epoch := sh.epoch.Load() + 1
	if !sh.s.keeps(ruleEpochRaised) {
		epoch--
	}
	for i := range pieces {
		r := &pieces[i]
		x := &span{
			lo: string(r.lo), hi: string(r.hi), rows: r.rows, tombs: r.tombs, newest: r.newest, expiry: r.expiry,
			bound: r.newest, epoch: epoch, estimated: r.estimated,
		}
		if r.old && m.covers(x) {
			continue
		}
		if sh.s.spanBytes.Load()+x.bytes() > sh.s.opts.SpanBytes {
			continue
		}
		for _, o := range m.removeLocked(x.lo, x.hi) {
			// What sticks out was live when this scan began, or dead in a way that it could not see.
			if o.lo < x.lo {
				x.lo, x.estimated = o.lo, true
			}
			if o.hi > x.hi {
				x.hi, x.estimated = o.hi, true
			}
			x.newest, x.expiry, x.bound = max(x.newest, o.newest), max(x.expiry, o.expiry), max(x.bound, o.bound)
			if err := pb.Delete(spanKey(o.lo), nil); err != nil {
				return errors.Join(err, pb.Close())
			}
		}
		m.insertLocked(x)
		if err := putSpan(pb, x); err != nil {
			return errors.Join(err, pb.Close())
		}
		sh.s.metrics.spansPublished.Add(1)
		sh.s.metrics.spanRows.Add(x.rows)
	}
	if pb.Empty() {
		return pb.Close()
	}
	if err := sh.write(pb, pebble.NoSync); err != nil {
		return err
	}
	sh.s.step(sharedEpoch, true)
	// Views that note the epoch from here on are opened later than the spans are true.
	sh.epoch.Store(epoch)
	return pb.Close()
}

// raise makes a run keep the tombstones that were written into it since it was
// read; x.dead is sorted.
func (x *intent) raise(r *run) {
	if x.deadNewest == 0 {
		return
	}
	i, _ := slices.BinarySearch(x.dead, string(r.lo))
	if x.deadOverflow || i < len(x.dead) && x.dead[i] < string(r.hi) {
		r.newest = max(r.newest, x.deadNewest)
	}
}

// covers reports that a span in the map says all that x does.
func (m *spanMap) covers(x *span) bool {
	o := m.at(x.lo)
	return o != nil && o.hi >= x.hi
}

// splitRun cuts keys out of a run.
func splitRun(dst []run, r run, dirty []string) []run {
	i, _ := slices.BinarySearch(dirty, string(r.lo))
	for ; i < len(dirty) && dirty[i] < string(r.hi); i++ {
		k := dirty[i]
		if k < string(r.lo) {
			continue // the same key twice
		}
		left := r
		share := fraction(string(r.lo), k, string(r.hi))
		left.hi, left.estimated = []byte(k), true
		left.rows, left.tombs = int64(share*float64(r.rows)), int64(share*float64(r.tombs))
		if string(left.lo) < k {
			dst = append(dst, left)
		}
		r.lo, r.estimated = []byte(k+"\x00"), true
		r.rows, r.tombs = r.rows-left.rows, r.tombs-left.tombs
	}
	if string(r.lo) < string(r.hi) {
		dst = append(dst, r)
	}
	return dst
}

// makeRoom removes the table's smallest spans when the memory for spans is
// used up: those of fewer rows than half of what is about to be published.
func (sh *shard) makeRoom(tbl *table, pieces []run) {
	var need, rows int64
	for i := range pieces {
		need += int64(len(pieces[i].lo)+len(pieces[i].hi)) + spanOverhead
		rows += pieces[i].rows
	}
	if sh.s.spanBytes.Load()+need <= sh.s.opts.SpanBytes {
		return
	}
	limit := rows / int64(len(pieces)) / 2
	sh.spanMu.Lock()
	defer sh.spanMu.Unlock()
	m := &tbl.parts[sh.idx].spans
	m.mu.Lock()
	defer m.mu.Unlock()
	pb := sh.db.NewBatch()
	defer pb.Close()
	var gone []*span
	for _, c := range m.chunks {
		for _, x := range c {
			if x.rows < limit && need > 0 {
				gone = append(gone, x)
				need -= x.bytes()
			}
		}
	}
	for _, x := range gone {
		if pb.Delete(spanKey(x.lo), nil) != nil {
			return
		}
	}
	// A span leaves memory only once its record is gone: nobody would cut the record.
	if len(gone) == 0 || sh.write(pb, pebble.NoSync) != nil {
		return
	}
	for _, x := range gone {
		m.removeLocked(x.lo, x.hi)
	}
	sh.s.metrics.spansEvicted.Add(int64(len(gone)))
}
