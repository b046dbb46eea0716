package move

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	verifyRows   = 20_000 // of a range
	verifyPage   = 2_000
	verifyKeys   = 500 // looked up at once
	ruleKeys     = 100 // rows that break a rule, listed
	readAttempts = 4
)

// verifier compares what both sides themselves return. It never asks what the
// mover believes to have written.
type verifier struct {
	move    string
	sides   [2]Side
	tables  []Table
	rules   []Rule
	flows   func() []*flow // those that run
	leader  func() Part    // the side that is right
	touched *touched
	store   StateStore
	lease   Lease
	lim     *limiter
	logger  *slog.Logger

	mu       sync.Mutex
	standing map[rowID]bool // differences that the store holds
}

// run verifies every range that is not verified yet, and the rules. Its error
// says that something could not be read; differences are no error, they lie in
// the store.
func (v *verifier) run(ctx context.Context) error {
	v.touched.turnOn()
	if err := v.settle(ctx); err != nil {
		return err
	}
	for _, t := range v.touched.lostTables() {
		if err := v.forget(ctx, t); err != nil {
			return err
		}
	}
	for t := range v.tables {
		if err := v.table(ctx, t); err != nil {
			return fmt.Errorf("verify %s: %w", v.tables[t].Name, err)
		}
	}
	return v.checkRules(ctx)
}

// settle waits until both flows have written all that was committed before.
func (v *verifier) settle(ctx context.Context) error {
	for _, f := range v.flows() {
		if err := f.drain(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) table(ctx context.Context, t int) error {
	ranges, err := v.store.Ranges(ctx, v.move, t)
	if err != nil {
		return err
	}
	if len(ranges) == 0 {
		if ranges, err = v.split(ctx, t); err != nil {
			return err
		}
		if err := v.store.PutRanges(ctx, v.lease, ranges); err != nil {
			return err
		}
	}
	for i := range ranges {
		if ranges[i].Done {
			continue
		}
		if err := v.oneRange(ctx, &ranges[i]); err != nil {
			return fmt.Errorf("range %d of %d: %w", i+1, len(ranges), err)
		}
	}
	return nil
}

// split cuts a table into the ranges to compare: origin's, and the target's
// too where its order is another, for rows that only it has.
func (v *verifier) split(ctx context.Context, t int) ([]VerifiedRange, error) {
	parts := []Part{Origin}
	if v.sides[Origin].Order(t) != v.sides[Target].Order(t) {
		parts = append(parts, Target)
	}
	var out []VerifiedRange
	for _, part := range parts {
		rs, err := v.sides[part].Split(ctx, t, verifyRows)
		if err != nil {
			return nil, fmt.Errorf("split %s's rows into ranges: %w", part, err)
		}
		if len(rs) == 0 {
			rs = []Range{{}}
		}
		for _, r := range rs {
			out = append(out, VerifiedRange{Table: t, Side: part, From: encodeBound(r.From), To: encodeBound(r.To)})
		}
	}
	return out, nil
}

func encodeBound(key Row) []byte {
	if key == nil {
		return nil
	}
	return EncodeRow(nil, key)
}

func (v *verifier) decodeRange(r *VerifiedRange) (Range, error) {
	var out Range
	var err error
	n := len(v.tables[r.Table].Key)
	if r.From != nil {
		if out.From, _, err = DecodeRow(r.From, n); err != nil {
			return out, err
		}
	}
	if r.To != nil {
		out.To, _, err = DecodeRow(r.To, n)
	}
	return out, err
}

// oneRange compares one range and puts down that it was.
func (v *verifier) oneRange(ctx context.Context, vr *VerifiedRange) error {
	r, err := v.decodeRange(vr)
	if err != nil {
		return err
	}
	if err := v.lim.wait(ctx, verifyRows/40); err != nil {
		return err
	}
	var d Digest
	for attempt := 1; ; attempt++ {
		d, err = v.compareRange(ctx, vr, r)
		if err == nil {
			break
		}
		if ctx.Err() != nil || attempt == readAttempts {
			return err
		}
		v.logger.Warn("a range could not be compared, trying again", "table", v.tables[vr.Table].Name, "err", err)
		if !sleep(ctx, time.Duration(attempt)*200*time.Millisecond) {
			return ctx.Err()
		}
	}
	vr.Done, vr.At = true, time.Now()
	vr.Rows, vr.Sum = d.Rows, fmt.Sprintf("%016x%016x", d.Sum[0], d.Sum[1])
	if f := v.flows(); len(f) > 0 {
		f[0].mu.Lock()
		vr.Position = f[0].applied.String()
		f[0].mu.Unlock()
	}
	return v.store.PutRanges(ctx, v.lease, []VerifiedRange{*vr})
}

func (v *verifier) compareRange(ctx context.Context, vr *VerifiedRange, r Range) (Digest, error) {
	same := v.sides[Origin].Order(vr.Table) == v.sides[Target].Order(vr.Table)
	if !same {
		return v.compareByKey(ctx, vr.Table, vr.Side, r)
	}
	var ds [2]Digest
	g, gctx := errgroup.WithContext(ctx)
	for part := range v.sides {
		g.Go(func() error {
			d, err := v.sides[part].Digest(gctx, vr.Table, r)
			if err != nil {
				return fmt.Errorf("digest on %s: %w", Part(part), err)
			}
			ds[part] = d
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return Digest{}, err
	}
	if ds[Origin] == ds[Target] {
		return ds[Origin], nil
	}
	return ds[v.leader()], v.compareRows(ctx, vr.Table, r)
}

// compareRows finds the keys of a range whose rows differ.
func (v *verifier) compareRows(ctx context.Context, table int, r Range) error {
	var found [2]map[string]Row
	g, gctx := errgroup.WithContext(ctx)
	for part := range v.sides {
		g.Go(func() error {
			rows := map[string]Row{}
			found[part] = rows
			return v.pages(gctx, Part(part), table, r, func(page []Row) error {
				for _, row := range page {
					rows[string(EncodeRow(nil, v.tables[table].KeyOf(row)))] = row
				}
				return nil
			})
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	var suspects []rowID
	for key, row := range found[Origin] {
		if other, ok := found[Target][key]; !ok || !row.Equal(other) {
			suspects = append(suspects, rowID{table, key})
		}
	}
	for key := range found[Target] {
		if _, ok := found[Origin][key]; !ok {
			suspects = append(suspects, rowID{table, key})
		}
	}
	return v.again(ctx, suspects)
}

// pages reads a range of one side.
func (v *verifier) pages(ctx context.Context, part Part, table int, r Range, each func([]Row) error) error {
	for {
		rows, err := v.sides[part].Read(ctx, table, r, verifyPage)
		if err != nil {
			return fmt.Errorf("read rows on %s: %w", part, err)
		}
		if err := each(rows); err != nil {
			return err
		}
		if len(rows) < verifyPage {
			return nil
		}
		r.From = v.tables[table].KeyOf(rows[len(rows)-1]).Clone()
	}
}

// compareByKey reads a range of one side and the same keys of the other, for
// sides whose orders differ.
func (v *verifier) compareByKey(ctx context.Context, table int, part Part, r Range) (Digest, error) {
	var d Digest
	var suspects []rowID
	err := v.pages(ctx, part, table, r, func(page []Row) error {
		for chunk := range slices.Chunk(page, verifyKeys) {
			keys := make([]Row, len(chunk))
			for i, row := range chunk {
				keys[i] = v.tables[table].KeyOf(row)
				d.Add(row)
			}
			others, err := v.lookUp(ctx, part.Other(), table, keys)
			if err != nil {
				return err
			}
			for i, row := range chunk {
				if !row.Equal(others[i]) {
					suspects = append(suspects, idOf(table, keys[i]))
				}
			}
		}
		return nil
	})
	if err != nil {
		return d, err
	}
	return d, v.again(ctx, suspects)
}

func (v *verifier) lookUp(ctx context.Context, part Part, table int, keys []Row) ([]Row, error) {
	rows, err := v.sides[part].ReadKeys(ctx, table, keys)
	if err == nil && len(rows) != len(keys) {
		err = fmt.Errorf("%d rows for %d keys", len(rows), len(keys))
	}
	if err != nil {
		return nil, fmt.Errorf("read rows by key on %s: %w", part, err)
	}
	return rows, nil
}

// pair is what both sides have under a key.
type pair struct {
	id   rowID
	rows [2]Row
}

func (p *pair) equal() bool {
	return (p.rows[0] == nil) == (p.rows[1] == nil) && p.rows[0].Equal(p.rows[1])
}

// both reads keys of any tables on both sides at once.
func (v *verifier) both(ctx context.Context, ids []rowID) ([]pair, error) {
	out := make([]pair, len(ids))
	byTable := map[int][]int{}
	for i, id := range ids {
		out[i].id = id
		byTable[id.table] = append(byTable[id.table], i)
	}
	g, gctx := errgroup.WithContext(ctx)
	for table, at := range byTable {
		for at := range slices.Chunk(at, verifyKeys) {
			keys := make([]Row, len(at))
			for i, n := range at {
				key, _, err := DecodeRow([]byte(ids[n].key), len(v.tables[table].Key))
				if err != nil {
					return nil, err
				}
				keys[i] = key
			}
			for part := range v.sides {
				g.Go(func() error {
					rows, err := v.lookUp(gctx, Part(part), table, keys)
					if err != nil {
						return err
					}
					for i, n := range at {
						out[n].rows[part] = rows[i]
					}
					return nil
				})
			}
		}
	}
	return out, g.Wait()
}

// again looks at keys that differed once more, after the flows have written
// all that was under way, twice. Those that still differ, with the same rows,
// and were not touched meanwhile, are put down as differences; touched ones
// are compared later as such.
func (v *verifier) again(ctx context.Context, ids []rowID) error {
	for chunk := range slices.Chunk(ids, 4*verifyKeys) {
		found, err := v.confirm(ctx, chunk)
		if err != nil {
			return err
		}
		if err := v.putDown(ctx, found); err != nil {
			return err
		}
	}
	return nil
}

// confirm returns those of the keys that differ for good.
func (v *verifier) confirm(ctx context.Context, ids []rowID) ([]pair, error) {
	before := make(map[rowID]seen, len(ids))
	for _, id := range ids {
		before[id] = v.touched.see(id)
	}
	var first, second []pair
	for _, into := range []*[]pair{&first, &second} {
		if len(ids) == 0 {
			return nil, nil
		}
		if err := v.settle(ctx); err != nil {
			return nil, err
		}
		pairs, err := v.both(ctx, ids)
		if err != nil {
			return nil, err
		}
		ids = nil
		for i := range pairs {
			if !pairs[i].equal() {
				*into = append(*into, pairs[i])
				ids = append(ids, pairs[i].id)
			}
		}
	}
	// A change that lies in the streams by now may explain a difference.
	if err := v.settle(ctx); err != nil {
		return nil, err
	}
	was := make(map[rowID]*pair, len(first))
	for i := range first {
		was[first[i].id] = &first[i]
	}
	var out []pair
	for _, p := range second {
		w := was[p.id]
		if w != nil && samePair(w, &p) && v.touched.same(before[p.id]) {
			out = append(out, p)
		}
	}
	return out, nil
}

func samePair(a, b *pair) bool {
	for part := range a.rows {
		if (a.rows[part] == nil) != (b.rows[part] == nil) || !a.rows[part].Equal(b.rows[part]) {
			return false
		}
	}
	return true
}

// putDown stores differences.
func (v *verifier) putDown(ctx context.Context, found []pair) error {
	if len(found) == 0 {
		return nil
	}
	leader := v.leader()
	ds := make([]Difference, len(found))
	for i, p := range found {
		d := Difference{Table: p.id.table, Key: []byte(p.id.key), Found: time.Now(), Kind: Different}
		switch {
		case p.rows[leader.Other()] == nil:
			d.Kind = Missing
		case p.rows[leader] == nil:
			d.Kind = Extra
		}
		d.Shown = v.show(&p, leader)
		ds[i] = d
	}
	if err := v.store.PutDifferences(ctx, v.lease, ds); err != nil {
		return fmt.Errorf("store the differences: %w", err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range found {
		v.standing[p.id] = true
	}
	return nil
}

// show describes a difference in a line.
func (v *verifier) show(p *pair, leader Part) string {
	t := &v.tables[p.id.table]
	row := p.rows[leader]
	if row == nil {
		row = p.rows[leader.Other()]
	}
	var b strings.Builder
	for i, c := range t.Key {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s=%s", t.Columns[c].Name, ShowValue(&t.Columns[c].Type, row[c]))
	}
	if p.rows[0] == nil || p.rows[1] == nil {
		return b.String()
	}
	for c := range t.Columns {
		a, o := p.rows[Origin][c], p.rows[Target][c]
		if (a == nil) != (o == nil) || string(a) != string(o) {
			typ := &t.Columns[c].Type
			fmt.Fprintf(&b, "; %s: origin %s, target %s", t.Columns[c].Name, ShowValue(typ, a), ShowValue(typ, o))
		}
	}
	return b.String()
}

// checkRules looks for rows that break the user's rules, on both sides: a
// comparison cannot see what is wrong on both.
func (v *verifier) checkRules(ctx context.Context) error {
	for i := range v.rules {
		rule := &v.rules[i]
		name := []byte(rule.Name)
		var ds []Difference
		for part := range v.sides {
			keys, err := v.sides[part].CheckRule(ctx, rule, ruleKeys)
			if err != nil {
				return fmt.Errorf("check rule %q on %s: %w", rule.Name, Part(part), err)
			}
			if len(keys) == 0 {
				continue
			}
			more := ""
			if len(keys) == ruleKeys {
				more = " or more"
			}
			ds = append(ds, Difference{
				Table: rule.Table, Key: name, Kind: Broken, Found: time.Now(),
				Shown: fmt.Sprintf("rule %q does not hold for %d%s rows on %s, the first: %s", rule.Name, len(keys), more, Part(part),
					v.tables[rule.Table].ShowKey(keys[0])),
			})
		}
		if err := v.store.ClearDifferences(ctx, v.lease, rule.Table, [][]byte{name}); err != nil {
			return err
		}
		if len(ds) == 0 {
			continue
		}
		if len(ds) == 2 {
			ds[0].Shown += "; " + ds[1].Shown
		}
		if err := v.store.PutDifferences(ctx, v.lease, ds[:1]); err != nil {
			return err
		}
	}
	return nil
}

// covered reports whether every range of every table is verified; else it
// says which is not.
func (v *verifier) covered(ctx context.Context) error {
	for t := range v.tables {
		ranges, err := v.store.Ranges(ctx, v.move, t)
		if err != nil {
			return err
		}
		left := 0
		for _, r := range ranges {
			if !r.Done {
				left++
			}
		}
		switch {
		case len(ranges) == 0:
			return fmt.Errorf("%s is not verified", v.tables[t].Name)
		case left > 0:
			return fmt.Errorf("%d of %d ranges of %s are not verified", left, len(ranges), v.tables[t].Name)
		}
	}
	if lost := v.touched.lostTables(); len(lost) > 0 {
		return fmt.Errorf("%s changed in too many places and has to be verified again", v.tables[lost[0]].Name)
	}
	return nil
}

// errDifferences says that both sides are not equal.
var errDifferences = errors.New("the sides differ")

// clean returns errDifferences with the first of them if any stand.
func (v *verifier) clean(ctx context.Context) error {
	ds, n, err := v.store.Differences(ctx, v.move, 1)
	if err != nil {
		return err
	}
	if n > 0 {
		return fmt.Errorf("%w in %d places, the first is %s: %s", errDifferences, n, ds[0].Kind, ds[0].Shown)
	}
	return nil
}
