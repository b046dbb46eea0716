package move

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	keepKeys  = 1000 // compared at once
	keepPause = 20 * time.Millisecond
	keepAge   = 150 * time.Millisecond // a key is left alone for so long after a change
	keepTries = 3                      // comparisons that differ before it is looked at closely
)

// keep compares touched keys again as they come, until the context ends, so
// that little is left to compare inside the fence.
func (v *verifier) keep(ctx context.Context) error {
	if err := v.loadStanding(ctx); err != nil {
		return err
	}
	for sleep(ctx, keepPause) {
		for {
			n, err := v.keepSome(ctx, true)
			if err != nil {
				return fmt.Errorf("compare touched rows: %w", err)
			}
			if n < keepKeys/2 {
				break
			}
		}
	}
	return ctx.Err()
}

// loadStanding reads which differences the store holds, so that a row that
// became equal takes its own away.
func (v *verifier) loadStanding(ctx context.Context) error {
	ds, _, err := v.store.Differences(ctx, v.move, 1<<20)
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.standing = map[rowID]bool{}
	for _, d := range ds {
		if d.Kind != Broken {
			v.standing[rowID{d.Table, string(d.Key)}] = true
		}
	}
	return nil
}

// keepSome compares some touched keys and returns how many it took.
func (v *verifier) keepSome(ctx context.Context, throttled bool) (int, error) {
	for _, t := range v.touched.lostTables() {
		if err := v.renew(ctx, t); err != nil {
			return 0, err
		}
	}
	if s := v.touched.takeSpan(time.Now().Add(-keepAge)); s != nil {
		if err := v.compareSpan(ctx, s); err != nil {
			return 0, err
		}
	}
	taken := v.touched.take(time.Now().Add(-keepAge), keepKeys)
	if len(taken) == 0 {
		return 0, nil
	}
	if throttled {
		if err := v.lim.wait(ctx, len(taken)/10); err != nil {
			return 0, err
		}
	}
	unequal, err := v.compareTaken(ctx, taken)
	if err != nil {
		return 0, err
	}
	var suspects []rowID
	for _, s := range unequal {
		if v.touched.unequal(s) >= keepTries {
			suspects = append(suspects, s.rowID)
		}
	}
	if len(suspects) == 0 {
		return len(taken), nil
	}
	found, err := v.confirm(ctx, suspects)
	if err != nil {
		return 0, err
	}
	if err := v.putDown(ctx, found); err != nil {
		return 0, err
	}
	for _, p := range found {
		// It stands as a difference from here on.
		i := slices.IndexFunc(unequal, func(s seen) bool { return s.rowID == p.id })
		v.touched.clear(unequal[i])
	}
	return len(taken), nil
}

// catchUp compares what was touched before the call, those rows at least that
// are not touched again meanwhile.
func (v *verifier) catchUp(ctx context.Context, patience time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for began := time.Now(); v.touched.anyFrom(began); {
		_, err := v.keepSome(limited, false)
		if err == nil && sleep(limited, keepPause) {
			continue
		}
		if ctx.Err() == nil && limited.Err() != nil {
			return fmt.Errorf("%d rows wait to be compared, %s were not enough", v.touched.count(), patience)
		}
		return errors.Join(err, ctx.Err())
	}
	return nil
}

// renew verifies a table anew whose touched keys were too many to tell.
func (v *verifier) renew(ctx context.Context, t int) error {
	v.logger.Info("a table changed in too many places and is verified again", "table", v.tables[t].Name)
	if err := v.forget(ctx, t); err != nil {
		return err
	}
	return v.table(ctx, t)
}

// forget drops a lost table's verified ranges.
func (v *verifier) forget(ctx context.Context, t int) error {
	if err := v.store.ForgetRanges(ctx, v.lease, t); err != nil {
		return err
	}
	var logs []*touchLog
	for _, f := range v.flows() {
		logs = append(logs, f.log)
	}
	v.touched.found(t, logs...)
	return nil
}

// compareTaken clears the touched keys whose rows are equal and returns the
// others.
func (v *verifier) compareTaken(ctx context.Context, taken []seen) ([]seen, error) {
	ids := make([]rowID, len(taken))
	for i, s := range taken {
		ids[i] = s.rowID
	}
	pairs, err := v.both(ctx, ids)
	if err != nil {
		return nil, err
	}
	var unequal []seen
	var mended []rowID
	for i := range pairs {
		if !pairs[i].equal() {
			unequal = append(unequal, taken[i])
			continue
		}
		v.touched.clear(taken[i])
		v.mu.Lock()
		if v.standing[taken[i].rowID] {
			mended = append(mended, taken[i].rowID)
		}
		v.mu.Unlock()
	}
	return unequal, v.mended(ctx, mended)
}

// mended takes differences away whose rows are equal now.
func (v *verifier) mended(ctx context.Context, ids []rowID) error {
	byTable := map[int][][]byte{}
	for _, id := range ids {
		byTable[id.table] = append(byTable[id.table], []byte(id.key))
	}
	for table, keys := range byTable {
		if err := v.store.ClearDifferences(ctx, v.lease, table, keys); err != nil {
			return err
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, id := range ids {
		delete(v.standing, id)
	}
	return nil
}

// spanKeys reads the keys of a span on both sides.
func (v *verifier) spanKeys(ctx context.Context, s *spanTouch) ([]rowID, error) {
	have := map[rowID]bool{}
	for part := range v.sides {
		var after Row
		for {
			rows, err := v.sides[part].ReadSpan(ctx, s.table, s.span, after, verifyPage)
			if err != nil {
				return nil, fmt.Errorf("read a span on %s: %w", Part(part), err)
			}
			for _, r := range rows {
				have[idOf(s.table, v.tables[s.table].KeyOf(r))] = true
			}
			if len(rows) < verifyPage {
				break
			}
			after = v.tables[s.table].KeyOf(rows[len(rows)-1]).Clone()
		}
	}
	ids := make([]rowID, 0, len(have))
	for id := range have {
		ids = append(ids, id)
	}
	return ids, nil
}

func (v *verifier) compareSpan(ctx context.Context, s *spanTouch) error {
	if err := v.settle(ctx); err != nil {
		return err
	}
	ids, err := v.spanKeys(ctx, s)
	if err != nil {
		return err
	}
	if err := v.again(ctx, ids); err != nil {
		return err
	}
	v.touched.clearSpan(s)
	return nil
}

// rest compares all that is touched at once, inside the fence, where both
// flows are drained and nothing changes: a difference now is one for good. It
// returns how many rows it compared.
func (v *verifier) rest(ctx context.Context) (int, error) {
	n := 0
	future := time.Now().Add(time.Hour)
	for {
		s := v.touched.takeSpan(future)
		if s == nil {
			break
		}
		ids, err := v.spanKeys(ctx, s)
		if err != nil {
			return n, err
		}
		n += len(ids)
		if err := v.mustEqual(ctx, ids); err != nil {
			return n, err
		}
		v.touched.clearSpan(s)
	}
	for {
		taken := v.touched.take(future, 8*keepKeys)
		if len(taken) == 0 {
			return n, nil
		}
		n += len(taken)
		unequal, err := v.compareTaken(ctx, taken)
		if err != nil {
			return n, err
		}
		if len(unequal) > 0 {
			ids := make([]rowID, len(unequal))
			for i, s := range unequal {
				ids[i] = s.rowID
			}
			return n, v.mustEqual(ctx, ids)
		}
	}
}

// mustEqual puts unequal rows down as differences and fails with them.
func (v *verifier) mustEqual(ctx context.Context, ids []rowID) error {
	pairs, err := v.both(ctx, ids)
	if err != nil {
		return err
	}
	pairs = slices.DeleteFunc(pairs, func(p pair) bool { return p.equal() })
	if len(pairs) == 0 {
		return nil
	}
	if err := v.putDown(ctx, pairs); err != nil {
		return err
	}
	return fmt.Errorf("%w in %d rows inside the fence, the first: %s", errDifferences, len(pairs), v.show(&pairs[0], v.leader()))
}
